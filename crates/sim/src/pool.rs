//! Packets on their way: in one place, by number, and in queues.
//!
//! A packet on a link does not move in memory. Routers that pass it straight on edit it where it
//! lies; only its number goes from queue to queue. A queue holds times and numbers, side by side:
//! a list through the packets would have to look at the next packet to know when it is due, and on
//! a link with thousands of packets that one has long left the caches. Places are used again, the
//! latest first, while they are still there.

use datapath::packet::Packet;
use datapath::units::Instant;
use std::collections::VecDeque;

/// The number of a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketId(pub(crate) u32);

/// So many places beforehand the caches are asked for a free one.
const AHEAD: usize = 4;

/// Packets by number.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

/// Packets in order of their times; those of equal times in the order in which they came.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The time of the first packet; `FAR_FUTURE` if there is none.
    first_at: Instant,
    /// The time of the last packet.
    last_at: Instant,
    first: Option<PacketId>,
    /// Those behind the first. Most links carry one packet at a time and never touch this.
    rest: VecDeque<(Instant, PacketId)>,
}

impl Pool {
    /// A place for a packet that is about to be written there.
    #[inline]
    pub fn reserve(&mut self) -> PacketId {
        if let Some(index) = self.free.pop() {
            let soon = self.free.len().checked_sub(AHEAD).map(|place| self.free[place]);
            if let Some(soon) = soon {
                self.slots[soon as usize].foresee();
            }
            return PacketId(index);
        }
        self.slots.push(Packet::default());
        PacketId(u32::try_from(self.slots.len() - 1).expect("more packets than numbers"))
    }

    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.reserve();
        self.slots[id.0 as usize] = packet;
        id
    }

    #[inline]
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize].take()
    }

    /// The place is free again; what lay there may stay until somebody needs it.
    #[inline]
    pub fn discard(&mut self, id: PacketId) {
        self.free.push(id.0);
    }

    /// How many packets there have been at a time.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize]
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first_at: Instant::FAR_FUTURE,
            last_at: Instant::ZERO,
            first: None,
            rest: VecDeque::new(),
        }
    }
}

impl Queue {
    /// When the first packet is due; `FAR_FUTURE` if there is none.
    #[inline]
    pub fn first_at(&self) -> Instant {
        self.first_at
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Puts a packet behind all that are due before it or at the same time.
    #[inline]
    pub fn insert(&mut self, id: PacketId, at: Instant) {
        let Some(first) = self.first else {
            (self.first, self.first_at, self.last_at) = (Some(id), at, at);
            return;
        };
        if at >= self.last_at {
            self.rest.push_back((at, id));
            self.last_at = at;
        } else if at < self.first_at {
            self.rest.push_front((self.first_at, first));
            (self.first, self.first_at) = (Some(id), at);
        } else {
            self.insert_inside(id, at);
        }
    }

    #[cold]
    fn insert_inside(&mut self, id: PacketId, at: Instant) {
        let place = self.rest.partition_point(|(other, _)| *other <= at);
        self.rest.insert(place, (at, id));
    }

    /// Takes the first packet off the queue; it stays in the pool.
    #[inline]
    pub fn pop(&mut self) -> Option<PacketId> {
        let first = self.first?;
        (self.first_at, self.first) = match self.rest.pop_front() {
            Some((at, next)) => (at, Some(next)),
            None => (Instant::FAR_FUTURE, None),
        };
        Some(first)
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
                    queue.insert(id, at);
                    let place = oracle.partition_point(|(other, _)| *other <= at);
                    oracle.insert(place, (at, number as u32));
                } else if let Some(id) = queue.pop() {
                    prop_assert_eq!(pool.take(id).body.len, oracle.remove(0).1);
                }
                let first = oracle.first().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
                prop_assert_eq!((queue.first_at(), queue.len()), (first, oracle.len()));
            }
        }
    }
}
