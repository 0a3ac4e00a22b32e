//! A plain queue of packets that knows its length in packets and bytes (`struct qdisc_skb_head`).

use super::Backlog;
use crate::packet::Packet;
use crate::prefetch_whole;

/// Packets in order of arrival.
///
/// They lie in a ring. What is in it has long left the caches when a long queue comes round to it,
/// so both ends ask for their next places in time; a `VecDeque` would not show where it writes.
#[derive(Clone, Debug, Default)]
pub struct PacketQueue {
    /// As many as a power of two, or none; what lies outside of the queue is of no use.
    places: Vec<Packet>,
    /// Where the oldest packet lies.
    first: usize,
    packets: usize,
    bytes: u32,
}

/// From this many packets on a queue does not stay in the caches.
const LONG: usize = 1024;
/// In a long queue, so many packets before its turn a place is asked for.
const AHEAD: usize = 5;
/// Places of the first ring.
const PLACES_MIN: usize = 4;

impl PacketQueue {
    /// Appends `packet`.
    #[inline]
    pub fn push_back(&mut self, mut packet: Packet) {
        self.push_back_from(&mut packet);
    }

    /// Appends the packet that lies in `place`.
    #[inline]
    pub fn push_back_from(&mut self, place: &mut Packet) {
        self.make_room();
        self.bytes += place.wire_len();
        let end = self.place(self.packets);
        place.move_to(&mut self.places[end]);
        self.packets += 1;
        self.foresee(self.packets + AHEAD);
    }

    /// Puts `packet` before all others.
    pub fn push_front(&mut self, mut packet: Packet) {
        self.make_room();
        self.bytes += packet.wire_len();
        self.first = self.place(self.places.len() - 1);
        packet.move_to(&mut self.places[self.first]);
        self.packets += 1;
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
        if self.packets == 0 {
            return false;
        }
        self.places[self.first].move_to(place);
        self.first = self.place(1);
        self.packets -= 1;
        self.bytes -= place.wire_len();
        self.foresee(AHEAD);
        true
    }

    /// The oldest packet.
    pub fn front(&self) -> Option<&Packet> {
        (self.packets > 0).then(|| &self.places[self.first])
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets and bytes that wait.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets as u32, bytes: self.bytes }
    }

    /// Where the packet lies that is `index`-th from the front.
    #[inline]
    fn place(&self, index: usize) -> usize {
        (self.first + index) & (self.places.len() - 1)
    }

    #[inline]
    fn make_room(&mut self) {
        if self.packets == self.places.len() {
            self.grow();
        }
    }

    /// Doubles the ring; the oldest packet comes to lie at its beginning.
    #[inline(never)]
    fn grow(&mut self) {
        self.places.rotate_left(self.first);
        self.first = 0;
        let places = (2 * self.packets).max(PLACES_MIN);
        self.places.resize_with(places, Packet::default);
    }

    /// The caches are asked for the place that is `index`-th from the front, if the queue is long.
    #[inline]
    fn foresee(&self, index: usize) {
        if self.packets >= LONG {
            prefetch_whole!(&self.places[self.place(index)], Packet, hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Body;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a `VecDeque`, with one packet in twenty pushed to the front.
        #[test]
        fn a_queue_keeps_its_order(steps in prop::collection::vec((0u8..20, any::<bool>()), 1..400)) {
            let mut queue = PacketQueue::default();
            let mut oracle = VecDeque::new();
            for (len, (step, in_place)) in (1..).zip(steps) {
                let mut packet = Packet { body: Body { len, ..Body::default() }, ..Packet::default() };
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
}
