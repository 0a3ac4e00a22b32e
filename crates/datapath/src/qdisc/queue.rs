//! A plain queue of packets that knows its length in packets and bytes (`struct qdisc_skb_head`).

use super::assertions::{assert_holds, count};
use super::{Backlog, Cx};
use crate::packet::{Packet, Places};
use crate::reason::Reason;
use std::collections::VecDeque;

/// Packets in order of arrival.
///
/// Their order is stored separately: a new packet is written to the slot freed last, which is still in the caches, and not
/// to the end of a long ring. The oldest packet of a long queue is no longer in the caches, so it is prefetched
/// in time.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct PacketQueue {
    waiting: Backlog,
    /// The contents of a free place are meaningless.
    places: Places,
    free: Vec<u32>,
    /// Places of the packets, the oldest first.
    order: VecDeque<u32>,
    rest: IdlePlaces,
}

/// How long some places of a queue have not been needed.
#[derive(Clone, Copy, Debug, Default)]
struct IdlePlaces {
    /// The free place that is taken last. It is another one once all were taken.
    last: u32,
    /// How often the queue has become empty since all were taken.
    emptied: u16,
    /// How often memory was given back.
    given_back: u8,
}

/// Places that an empty queue keeps.
const KEPT: usize = 2;
/// Places are given back if the queue has become empty this many times without needing all of them; the
/// next time after twice as many.
const PATIENCE: u16 = 8;
/// Maximum number of these doublings.
const PATIENCE_DOUBLES: u8 = 12;

/// From this length on a queue does not fit into the caches, in particular if there are several.
const LONG: usize = 64;
/// How many packets ahead a long queue prefetches.
const AHEAD: usize = 5;

impl PacketQueue {
    /// Appends `packet`.
    #[inline]
    pub fn push_back(&mut self, mut packet: Packet) {
        self.push_back_from(&mut packet);
    }

    /// Appends the packet that lies in `place`.
    #[inline]
    pub fn push_back_from(&mut self, place: &mut Packet) {
        let index = self.put_down(place);
        self.order.push_back(index);
    }

    /// Puts `packet` before all others.
    pub fn push_front(&mut self, mut packet: Packet) {
        let index = self.put_down(&mut packet);
        self.order.push_front(index);
    }

    #[inline]
    fn put_down(&mut self, packet: &mut Packet) -> u32 {
        self.waiting.packets += 1;
        self.waiting.bytes += packet.wire_len();
        let index = self.free.pop().unwrap_or_else(|| self.places.add());
        packet.move_to(self.places.get_mut(index));
        index
    }

    /// Takes the oldest packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Packet> {
        let mut packet = Packet::default();
        self.pop_front_into(&mut packet).then_some(packet)
    }

    /// Moves the oldest packet to `place`; false if there is none.
    #[inline]
    pub fn pop_front_into(&mut self, place: &mut Packet) -> bool {
        let Some(index) = self.order.pop_front() else { return false };
        self.places.get_mut(index).move_to(place);
        self.free.push(index);
        self.waiting.packets -= 1;
        self.waiting.bytes -= place.wire_len();
        if self.waiting.packets == 0 && self.free.len() > KEPT {
            self.note_emptied();
        }
        if self.order.len() >= LONG
            && let Some(&soon) = self.order.get(AHEAD)
        {
            self.places.get(soon).prefetch();
        }
        true
    }

    /// A queue that was once longer has become empty. A host sends its first window at once and never as
    /// much again, and there may be many hosts, so the memory is given back.
    #[cold]
    fn note_emptied(&mut self) {
        let last = self.free[0];
        if self.rest.last != last {
            (self.rest.last, self.rest.emptied) = (last, 0);
        }
        self.rest.emptied += 1;
        if self.rest.emptied >= PATIENCE << self.rest.given_back {
            let given_back = (self.rest.given_back + 1).min(PATIENCE_DOUBLES);
            *self = Self {
                rest: IdlePlaces { given_back, ..IdlePlaces::default() },
                ..Self::default()
            };
        }
    }

    /// Hands everything over as purged.
    pub fn purge(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.pop_front() {
            cx.drop(Reason::QueuePurge, packet);
        }
    }

    /// Drops the oldest packets until at most `limit` are left, and tells how many those were.
    pub fn shorten(&mut self, limit: u32, cx: &mut Cx<'_>) -> u64 {
        let mut drops = 0;
        while self.waiting.packets > limit {
            let packet = self.pop_front().expect("more than the limit");
            drops += 1;
            cx.drop(Reason::QdiscDrop, packet);
        }
        drops
    }

    /// The packets, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.order.iter().map(|&index| self.places.get(index))
    }

    /// Asserts that every place is either free or a packet's, and that the count is right.
    pub fn check(&self, who: &str) {
        count(self.free.iter().chain(&self.order).copied(), |used| {
            let all = used.iter().sum::<u32>() as usize == self.places.len();
            let once = all && used.iter().all(|&times| times <= 1);
            assert!(once, "places of {who}: {used:?}");
        });
        assert_holds(self.backlog(), self.iter().map(Backlog::of).sum(), who);
    }

    /// The oldest packet.
    pub fn front(&self) -> Option<&Packet> {
        self.order.front().map(|&index| self.places.get(index))
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.packets == 0
    }

    /// Packets and bytes that wait.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Body;
    use proptest::prelude::*;

    proptest! {
        /// Against a `VecDeque`, with one packet in twenty pushed to the front.
        #[test]
        fn a_queue_keeps_its_order(steps in prop::collection::vec((0u8..20, any::<bool>()), 1..400)) {
            let mut queue = PacketQueue::default();
            let mut oracle = VecDeque::new();
            for (len, (step, in_place)) in (1..).zip(steps) {
                let mut packet = Packet { body: Body::of_len(len), ..Packet::default() };
                match step {
                    0 => {
                        oracle.push_front(packet.clone());
                        queue.push_front(packet);
                    }
                    1..12 => {
                        oracle.push_back(packet.clone());
                        if in_place {
                            queue.push_back_from(&mut packet);
                        } else {
                            queue.push_back(packet);
                        }
                    }
                    _ if in_place => {
                        let is = queue.pop_front_into(&mut packet);
                        let expected = oracle.pop_front();
                        prop_assert_eq!(is, expected.is_some());
                        if let Some(expected) = expected {
                            prop_assert_eq!(packet, expected);
                        }
                    }
                    _ => prop_assert_eq!(queue.pop_front(), oracle.pop_front()),
                }
                prop_assert_eq!(queue.front(), oracle.front());
                prop_assert_eq!(queue.is_empty(), oracle.is_empty());
                let bytes = oracle.iter().map(Packet::wire_len).sum();
                prop_assert_eq!(queue.backlog(), Backlog { packets: oracle.len() as u32, bytes });
            }
        }
    }

    /// Fills a queue with so many packets and empties it, so many times. Gives how many places it has then.
    fn fill(queue: &mut PacketQueue, packets: usize, times: u16) -> usize {
        for _ in 0..times {
            (0..packets).for_each(|_| queue.push_back(Packet::default()));
            while queue.pop_front().is_some() {}
            queue.check("a queue");
        }
        queue.places.len()
    }

    #[test]
    fn places_are_kept_while_they_are_needed() {
        let mut queue = PacketQueue::default();
        assert_eq!(fill(&mut queue, 20, 10 * PATIENCE), 20);
        assert_eq!(fill(&mut queue, 2, PATIENCE - 2), 20);
        assert_eq!(fill(&mut queue, 2, 2), 2);
        // The next time it takes twice as many.
        fill(&mut queue, 20, 1);
        assert_eq!(fill(&mut queue, 2, 2 * PATIENCE - 2), 20);
        assert_eq!(fill(&mut queue, 2, 2), 2);
    }
}
