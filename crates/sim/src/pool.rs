//! Packets on their way: in one place, by number, and in queues.
//!
//! A packet on a link does not move in memory. Routers that pass it straight on edit it where it
//! lies; only its place in a queue changes. A queue is a list through the packets themselves:
//! whoever takes a packet off a link reads the packet anyway, so the queue costs no memory of its
//! own. Places are used again, the latest first, while they are still in the cache.

use datapath::packet::Packet;
use datapath::units::Instant;

/// The number of a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketId(u32);

/// Packets by number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// When it arrives where its queue leads.
    at: Instant,
    next: u32,
    packet: Packet,
}

/// Packets in order of their times; those of equal times in the order in which they came.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The time of the first packet; `FAR_FUTURE` if there is none.
    first_at: Instant,
    /// The time of the last packet.
    last_at: Instant,
    first: u32,
    last: u32,
    len: u32,
}

/// The number of no packet.
const NONE: u32 = u32::MAX;

impl Pool {
    /// A place for a packet that is about to be written there.
    #[inline]
    pub fn reserve(&mut self) -> PacketId {
        if let Some(index) = self.free.pop() {
            return PacketId(index);
        }
        self.slots.push(Slot { at: Instant::ZERO, next: NONE, packet: Packet::default() });
        assert!(self.slots.len() < NONE as usize, "more packets than numbers");
        PacketId(self.slots.len() as u32 - 1)
    }

    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.reserve();
        self.slots[id.0 as usize].packet = packet;
        id
    }

    #[inline]
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize].packet.take()
    }

    /// The place is free again; what lay there may stay until somebody needs it.
    #[inline]
    pub fn discard(&mut self, id: PacketId) {
        self.free.push(id.0);
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize].packet
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize].packet
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first_at: Instant::FAR_FUTURE,
            last_at: Instant::ZERO,
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

impl Queue {
    /// When the first packet is due; `FAR_FUTURE` if there is none.
    #[inline]
    pub fn first_at(&self) -> Instant {
        self.first_at
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Puts a packet behind all that are due before it or at the same time.
    #[inline]
    pub fn insert(&mut self, pool: &mut Pool, id: PacketId, at: Instant) {
        self.len += 1;
        let slot = &mut pool.slots[id.0 as usize];
        slot.at = at;
        slot.next = NONE;
        if self.first == NONE {
            (self.first, self.first_at) = (id.0, at);
        } else if at >= self.last_at {
            pool.slots[self.last as usize].next = id.0;
        } else {
            return self.insert_before_last(pool, id, at);
        }
        (self.last, self.last_at) = (id.0, at);
    }

    fn insert_before_last(&mut self, pool: &mut Pool, id: PacketId, at: Instant) {
        if at < self.first_at {
            pool.slots[id.0 as usize].next = self.first;
            (self.first, self.first_at) = (id.0, at);
            return;
        }
        let mut before = self.first as usize;
        let mut after = pool.slots[before].next;
        while pool.slots[after as usize].at <= at {
            before = after as usize;
            after = pool.slots[before].next;
        }
        pool.slots[id.0 as usize].next = after;
        pool.slots[before].next = id.0;
    }

    /// Takes the first packet off the queue; it stays in the pool.
    #[inline]
    pub fn pop(&mut self, pool: &Pool) -> Option<PacketId> {
        if self.first == NONE {
            return None;
        }
        let id = PacketId(self.first);
        self.len -= 1;
        self.first = pool.slots[self.first as usize].next;
        self.first_at = match pool.slots.get(self.first as usize) {
            Some(next) => next.at,
            None => Instant::FAR_FUTURE,
        };
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::packet::{Body, EtherType, Link, Meta, Network, Transport};
    use proptest::prelude::*;

    fn packet(number: u32) -> Packet {
        Packet {
            link: Link::None,
            network: Network::Other(EtherType::ARP),
            transport: Transport::None,
            body: Body { len: number, ..Body::default() },
            meta: Meta::default(),
            hash: 0,
            extra: None,
        }
    }

    proptest! {
        /// Against a stable sort.
        #[test]
        fn a_queue_keeps_the_order_of_times(steps in prop::collection::vec((0u8..3, 0u64..20), 1..200)) {
            let mut pool = Pool::default();
            let mut queue = Queue::default();
            let mut oracle: Vec<(Instant, u32)> = Vec::new();
            for (number, (step, at)) in steps.into_iter().enumerate() {
                if step > 0 {
                    let at = Instant::from_nanos(at);
                    let id = pool.insert(packet(number as u32));
                    queue.insert(&mut pool, id, at);
                    let place = oracle.partition_point(|(other, _)| *other <= at);
                    oracle.insert(place, (at, number as u32));
                } else if let Some(id) = queue.pop(&pool) {
                    prop_assert_eq!(pool.take(id).body.len, oracle.remove(0).1);
                }
                let first = oracle.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
                prop_assert_eq!((queue.first_at(), queue.len()), (first, oracle.len()));
            }
        }
    }
}
