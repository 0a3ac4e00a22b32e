//! Where the packets lie: one pool for all queues of an instance, so that a queue is a chain of
//! slot numbers and nothing is allocated while packets come and go.

use crate::packet::Packet;

/// A packet in the pool with what was computed at enqueue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The packet.
    pub packet: Packet,
    /// `qdisc_pkt_len`.
    pub len: u32,
    /// Compensated length: what the shaper charges.
    pub adjusted: u32,
    /// Bytes of memory that it is charged as.
    pub memory: u32,
}

/// False for what surely has a payload. What only its bytes tell may be anything.
pub fn may_be_ack(packet: &Packet) -> bool {
    packet.body.len == 0 || packet.extra.is_some()
}

impl Queued {
    fn may_be_ack(&self) -> bool {
        may_be_ack(&self.packet)
    }
}

/// The pool: slots in use hold a packet, free ones form a chain.
#[derive(Clone, Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: u32,
}

/// A first-in-first-out chain of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    head: u32,
    tail: u32,
    len: u32,
    /// How many of the packets may be ACKs without data.
    acks: u32,
}

/// A packet that has been taken out of its chain and still lies in the pool, where it can be read
/// and marked without being moved. It must be redeemed.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket(u32);

#[derive(Clone, Debug)]
struct Slot {
    queued: Option<Queued>,
    next: u32,
}

/// No slot.
const NIL: u32 = u32::MAX;

impl Default for Pool {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NIL }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0, acks: 0 }
    }
}

impl Ticket {
    /// Gives the packet out and frees its slot in `pool`.
    pub fn redeem(self, pool: &mut Pool) -> Packet {
        let vacated = &mut pool.slots[self.0 as usize];
        vacated.next = pool.free;
        pool.free = self.0;
        vacated.queued.take().expect("a ticket stands for a packet").packet
    }
}

impl Chain {
    /// True without packets.
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// How many packets there are.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// How many of them may be ACKs without data: none of the others can be.
    pub const fn acks(&self) -> u32 {
        self.acks
    }
}

impl Pool {
    /// Appends a packet to `chain`.
    pub fn push(&mut self, chain: &mut Chain, queued: Queued) {
        chain.acks += u32::from(queued.may_be_ack());
        let slot = self.occupy(queued);
        if chain.is_empty() {
            chain.head = slot;
        } else {
            self.slots[chain.tail as usize].next = slot;
        }
        chain.tail = slot;
        chain.len += 1;
    }

    /// Takes the first packet of `chain`.
    pub fn pop(&mut self, chain: &mut Chain) -> Option<Ticket> {
        if chain.is_empty() {
            return None;
        }
        let slot = chain.head;
        chain.head = self.slots[slot as usize].next;
        if chain.is_empty() {
            chain.tail = NIL;
        }
        chain.len -= 1;
        let ticket = Ticket(slot);
        chain.acks -= u32::from(self.get(&ticket).may_be_ack());
        Some(ticket)
    }

    /// The packet that `ticket` stands for.
    pub fn get(&self, ticket: &Ticket) -> &Queued {
        self.slots[ticket.0 as usize].queued.as_ref().expect("a ticket stands for a packet")
    }

    /// The packet that `ticket` stands for, to mark.
    pub fn get_mut(&mut self, ticket: &Ticket) -> &mut Queued {
        self.slots[ticket.0 as usize].queued.as_mut().expect("a ticket stands for a packet")
    }

    /// The packets of `chain`, first to last.
    pub fn iter<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = &'a Packet> + use<'a> {
        let mut at = chain.head;
        core::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.next;
            Some(&slot.queued.as_ref().expect("a chained slot holds a packet").packet)
        })
    }

    /// The last packet of `chain`.
    pub fn last(&self, chain: &Chain) -> Option<&Packet> {
        let slot = self.slots.get(chain.tail as usize)?;
        slot.queued.as_ref().map(|queued| &queued.packet)
    }

    /// Takes the packet at `position` out of `chain`, which must be longer than that.
    pub fn remove(&mut self, chain: &mut Chain, position: usize) -> Ticket {
        if position == 0 {
            return self.pop(chain).expect("the position is in the chain");
        }
        let mut before = chain.head;
        for _ in 1..position {
            before = self.slots[before as usize].next;
        }
        let slot = self.slots[before as usize].next;
        self.slots[before as usize].next = self.slots[slot as usize].next;
        if chain.tail == slot {
            chain.tail = before;
        }
        chain.len -= 1;
        let ticket = Ticket(slot);
        chain.acks -= u32::from(self.get(&ticket).may_be_ack());
        ticket
    }

    fn occupy(&mut self, queued: Queued) -> u32 {
        let filled = Slot { queued: Some(queued), next: NIL };
        if self.free == NIL {
            self.slots.push(filled);
            return (self.slots.len() - 1) as u32;
        }
        let slot = self.free;
        self.free = self.slots[slot as usize].next;
        self.slots[slot as usize] = filled;
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::flow_frame;

    fn queued(len: u32) -> Queued {
        let mut packet = flow_frame(1, 60, 0);
        packet.body.len = len;
        Queued { packet, len: 60, adjusted: 60, memory: 0 }
    }

    /// Data, ACK, data, ACK, ACK: however they leave, the count is of those that are left.
    #[test]
    fn what_may_be_an_ack_is_counted_wherever_it_leaves() {
        let (mut pool, mut chain) = (Pool::default(), Chain::default());
        for len in [100, 0, 100, 0, 0] {
            pool.push(&mut chain, queued(len));
        }
        assert_eq!((chain.len(), chain.acks()), (5, 3));
        for (position, left) in [(2, 3), (2, 2), (0, 2), (1, 1)] {
            let _ = pool.remove(&mut chain, position).redeem(&mut pool);
            assert_eq!(chain.acks(), left, "without the one at {position}");
        }
        let _ = pool.pop(&mut chain).expect("one is left").redeem(&mut pool);
        assert_eq!(chain, Chain::default());
    }
}
