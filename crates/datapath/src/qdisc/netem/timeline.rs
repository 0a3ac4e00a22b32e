//! Packets in order of their departure times.

use crate::packet::Packet;
use crate::units::Instant;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Packets in the order of their times, equals in order of arrival (`tfifo_enqueue`).
///
/// Nearly all packets come later than all before them and are just appended; the others lie in
/// a heap. The last of the list is always the latest of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    in_order: VecDeque<Timed>,
    early: BinaryHeap<Timed>,
    arrivals: u64,
    bytes: u32,
}

#[derive(Clone, Debug)]
struct Timed {
    leaves: Instant,
    arrival: u64,
    packet: Packet,
}

impl Timeline {
    /// Puts `packet` in its place.
    pub(super) fn insert(&mut self, leaves: Instant, packet: Packet) {
        self.bytes += packet.wire_len();
        self.arrivals += 1;
        let timed = Timed { leaves, arrival: self.arrivals, packet };
        match self.in_order.back() {
            Some(last) if leaves < last.leaves => self.early.push(timed),
            _ => self.in_order.push_back(timed),
        }
    }

    /// Takes the packet with the earliest time.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let early = match (self.early.peek(), self.in_order.front()) {
            (Some(early), Some(listed)) => early.key() < listed.key(),
            (early, _) => early.is_some(),
        };
        let timed = if early { self.early.pop() } else { self.in_order.pop_front() }?;
        self.bytes -= timed.packet.wire_len();
        Some(timed.packet)
    }

    /// Asserts that the list is in order, and that the count is right.
    pub(super) fn check(&self) {
        assert!(
            self.in_order.iter().is_sorted_by_key(Timed::key),
            "netem's packets are out of order"
        );
        let all = self.in_order.iter().chain(&self.early);
        let bytes: u32 = all.map(|timed| timed.packet.wire_len()).sum();
        assert_eq!(self.bytes, bytes, "bytes that netem says and holds");
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The earliest time.
    pub(super) fn first_time(&self) -> Option<Instant> {
        self.early.peek().into_iter().chain(self.in_order.front()).map(|timed| timed.leaves).min()
    }

    /// The latest time.
    pub(super) fn last_time(&self) -> Option<Instant> {
        self.in_order.back().map(|timed| timed.leaves)
    }

    /// How many packets wait.
    pub(super) fn len(&self) -> u32 {
        (self.in_order.len() + self.early.len()) as u32
    }
}

impl Timed {
    fn key(&self) -> (Instant, u64) {
        (self.leaves, self.arrival)
    }
}

/// Reversed, so that the earliest is the greatest: [`BinaryHeap`] gives the greatest first.
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timed {}
