//! Where the packets lie: one pool for all queues of an instance, so that a queue is a chain of
//! slot numbers and nothing is allocated while packets come and go.

use crate::packet::seq::Seq;
use crate::packet::{Packet, Transport};
use crate::units::Instant;

/// What was computed of a packet at enqueue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charge {
    /// `qdisc_pkt_len`.
    pub len: u32,
    /// Compensated length: what the shaper charges.
    pub adjusted: u32,
    /// Bytes of memory that it is charged as.
    pub memory: u32,
}

/// What the ACK filter is told of a packet without a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It is no ACK without data.
    Other,
    /// It may be one with this acknowledgment number.
    Ack(Seq),
    /// Only its bytes tell.
    Bytes,
}

impl Hint {
    /// What is told of `packet`.
    #[inline]
    pub fn of(packet: &Packet) -> Self {
        match &packet.transport {
            _ if packet.extra.is_some() => Self::Bytes,
            Transport::Tcp(tcp) if packet.body.len == 0 => Self::Ack(tcp.ack),
            _ => Self::Other,
        }
    }

    /// True if it may be an ACK without data.
    pub const fn may_be_ack(self) -> bool {
        !matches!(self, Self::Other)
    }
}

/// A packet of a chain, which is looked at when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    slot: &'a Slot,
    packet: &'a Aligned,
}

impl<'a> Waiting<'a> {
    /// The packet.
    pub const fn packet(self) -> &'a Packet {
        &self.packet.0
    }

    /// What is known without it.
    pub const fn hint(self) -> Hint {
        self.slot.hint
    }
}

/// The pool: slots in use hold a packet, free ones form a chain.
///
/// What the queues are told by lies apart from the packets, which are touched when they come and
/// when they go.
#[derive(Clone, Debug)]
pub struct Pool {
    packets: Vec<Aligned>,
    slots: Vec<Slot>,
    free: u32,
}

/// A first-in-first-out chain of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    head: u32,
    tail: u32,
    /// How many of the packets may be ACKs without data.
    acks: u32,
}

/// A packet that has been taken out of its chain and still lies in the pool, where it can be read
/// and marked without being moved. It must be redeemed.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct DetachedPacket(u32);

/// A packet in three cache lines of its own.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Aligned(Packet);

/// What is known of a packet without it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// What was computed of it.
    pub charge: Charge,
    /// What the ACK filter is told.
    pub hint: Hint,
    next: u32,
}

/// No slot.
const NIL: u32 = u32::MAX;

impl Default for Pool {
    fn default() -> Self {
        Self { packets: Vec::new(), slots: Vec::new(), free: NIL }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, acks: 0 }
    }
}

impl DetachedPacket {
    /// Moves the packet to `place` and frees its slot in `pool`.
    #[inline]
    pub fn redeem(self, pool: &mut Pool, place: &mut Packet) {
        let at = self.0 as usize;
        pool.slots[at].next = pool.free;
        pool.free = self.0;
        pool.packets[at].0.move_to(place);
    }
}

impl Chain {
    /// True without packets.
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// True with one packet.
    pub const fn has_one(&self) -> bool {
        self.head == self.tail && self.head != NIL
    }

    /// How many of the packets may be ACKs without data: none of the others can be.
    pub const fn acks(&self) -> u32 {
        self.acks
    }
}

impl Pool {
    /// Appends the packet that lies in `place` to `chain`; it enters at `now`.
    #[inline]
    pub fn push(&mut self, chain: &mut Chain, place: &mut Packet, charge: Charge, now: Instant) {
        let hint = Hint::of(place);
        chain.acks += u32::from(hint.may_be_ack());
        let slot = self.occupy(Slot { charge, hint, next: NIL });
        let packet = &mut self.packets[slot as usize].0;
        place.move_to(packet);
        // Afterwards: a copy cannot soon follow a smaller write to where it copies from.
        packet.meta.enqueued_at = now;
        if chain.is_empty() {
            chain.head = slot;
        } else {
            self.slots[chain.tail as usize].next = slot;
        }
        chain.tail = slot;
    }

    /// Takes the first packet of `chain`.
    #[inline]
    pub fn pop(&mut self, chain: &mut Chain) -> Option<DetachedPacket> {
        if chain.is_empty() {
            return None;
        }
        let slot = chain.head;
        chain.head = self.slots[slot as usize].next;
        if chain.is_empty() {
            chain.tail = NIL;
        }
        let ticket = DetachedPacket(slot);
        chain.acks -= u32::from(self.slots[slot as usize].hint.may_be_ack());
        Some(ticket)
    }

    /// What the packet that `ticket` stands for is charged as.
    #[inline]
    pub fn charge(&self, ticket: &DetachedPacket) -> Charge {
        self.slots[ticket.0 as usize].charge
    }

    /// The packet that `ticket` stands for.
    #[inline]
    pub fn packet(&self, ticket: &DetachedPacket) -> &Packet {
        &self.packets[ticket.0 as usize].0
    }

    /// The packet that `ticket` stands for, to mark.
    #[inline]
    pub fn packet_mut(&mut self, ticket: &DetachedPacket) -> &mut Packet {
        &mut self.packets[ticket.0 as usize].0
    }

    /// How many packets there are in `chain`.
    pub fn count(&self, chain: &Chain) -> usize {
        self.before_last(chain).count() + usize::from(!chain.is_empty())
    }

    /// The last packet of `chain`.
    pub fn last(&self, chain: &Chain) -> Option<&Packet> {
        self.packets.get(chain.tail as usize).map(|aligned| &aligned.0)
    }

    /// The packets of `chain` but its last one, first to last.
    #[inline]
    pub fn before_last<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = Waiting<'a>> + use<'a> {
        let (mut at, tail) = (chain.head, chain.tail);
        core::iter::from_fn(move || {
            if at == tail {
                return None;
            }
            let (slot, packet) = (&self.slots[at as usize], &self.packets[at as usize]);
            at = slot.next;
            Some(Waiting { slot, packet })
        })
    }

    /// All packets of `chain`, first to last, and what is known of them.
    pub fn slots_of<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = (&'a Slot, &'a Packet)> {
        let last = self.slots.get(chain.tail as usize).zip(self.last(chain));
        let others = self.before_last(chain).map(|waiting| (waiting.slot, waiting.packet()));
        others.chain(last)
    }

    /// Asserts that all slots but those of so many packets are free.
    pub fn check(&self, packets: usize) {
        let next = |&at: &u32| Some(self.slots[at as usize].next).filter(|&at| at != NIL);
        let free = core::iter::successors(Some(self.free).filter(|&at| at != NIL), next);
        assert_eq!(free.take(self.slots.len() + 1).count() + packets, self.slots.len(), "slots");
    }

    /// Takes the packet at `position` out of `chain`, which must be longer than that.
    pub fn remove(&mut self, chain: &mut Chain, position: usize) -> DetachedPacket {
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
        let ticket = DetachedPacket(slot);
        chain.acks -= u32::from(self.slots[slot as usize].hint.may_be_ack());
        ticket
    }

    #[inline]
    fn occupy(&mut self, filled: Slot) -> u32 {
        if self.free == NIL {
            self.packets.push(Aligned::default());
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
    use crate::qdisc::testing::{flow_frame, super_frame};

    fn push(pool: &mut Pool, chain: &mut Chain, len: u32) {
        let mut packet = super_frame(1, 0);
        packet.body.len = len;
        pool.push(chain, &mut packet, Charge::default(), Instant::ZERO);
    }

    /// Data, ACK, data, ACK, ACK: however they leave, the count is of those that are left.
    #[test]
    fn what_may_be_an_ack_is_counted_wherever_it_leaves() {
        let (mut pool, mut chain) = (Pool::default(), Chain::default());
        let mut place = Packet::default();
        for len in [100, 0, 100, 0, 0] {
            push(&mut pool, &mut chain, len);
        }
        assert_eq!((pool.count(&chain), chain.acks()), (5, 3));
        for (position, left) in [(2, 3), (2, 2), (0, 2), (1, 1)] {
            pool.remove(&mut chain, position).redeem(&mut pool, &mut place);
            assert_eq!(chain.acks(), left, "without the one at {position}");
        }
        assert!(chain.has_one());
        pool.pop(&mut chain).expect("one is left").redeem(&mut pool, &mut place);
        assert_eq!(chain, Chain::default());
    }

    #[test]
    fn hints_are_what_headers_say_without_their_bytes() {
        let mut packet = super_frame(1, 0);
        let Transport::Tcp(tcp) = &mut packet.transport else { unreachable!("a TCP frame") };
        tcp.ack = Seq(7);
        assert_eq!(Hint::of(&packet), Hint::Ack(Seq(7)));
        packet.body.len = 1;
        assert_eq!(Hint::of(&packet), Hint::Other);
        packet.extra = Some(Box::default());
        assert_eq!(Hint::of(&packet), Hint::Bytes);
        assert_eq!(Hint::of(&flow_frame(1, 42, 0)), Hint::Other, "UDP");
    }

    /// Slots are used again, and each packet comes out as it went in, from where it was put.
    #[test]
    fn packets_lie_in_three_lines_of_their_own() {
        assert_eq!((size_of::<Aligned>(), align_of::<Aligned>()), (192, 64));
        let (mut pool, mut chain) = (Pool::default(), Chain::default());
        let mut place = Packet::default();
        for round in 0..10 {
            for len in [round, round + 100] {
                push(&mut pool, &mut chain, len);
            }
            for len in [round, round + 100] {
                pool.pop(&mut chain).expect("two wait").redeem(&mut pool, &mut place);
                assert_eq!(place.body.len, len);
            }
        }
        assert_eq!(pool.slots.len(), 2);
    }
}
