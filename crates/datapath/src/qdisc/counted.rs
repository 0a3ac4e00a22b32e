//! A wrapper that proves conservation: what went in came out, was dropped, or is still queued.

use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::units::Instant;

/// Any qdisc, with the law `in = out + dropped + backlog` asserted in wire packets and bytes
/// after every call.
///
/// Qdiscs that create packets (netem's duplicates) report how many by a function; a
/// super-packet that is cut inside counts as its segments on both sides.
#[derive(Clone, Debug)]
pub struct Counted<Q> {
    inner: Q,
    entered: Tally,
    left: Tally,
    dropped: Tally,
    made: fn(&Q) -> (u64, u64),
}

/// Wire packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    packets: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, packet: &Packet) {
        self.packets += u64::from(packet.segments());
        self.bytes += u64::from(packet.wire_len());
    }
}

impl<Q: Qdisc> Counted<Q> {
    /// Counts what passes `inner`, which must be empty.
    pub fn new(inner: Q) -> Self {
        Self::with_copies(inner, |_| (0, 0))
    }

    /// As [`Counted::new`] for a qdisc that duplicates: `made` gives the packets and bytes that
    /// it has made so far.
    pub fn with_copies(inner: Q, made: fn(&Q) -> (u64, u64)) -> Self {
        assert_eq!(inner.backlog(), Backlog::default(), "count from an empty queue");
        let zero = Tally::default();
        Self { inner, entered: zero, left: zero, dropped: zero, made }
    }

    /// The qdisc inside.
    pub fn inner(&self) -> &Q {
        &self.inner
    }

    /// The qdisc inside, to change its settings; no packet may pass this way.
    pub fn inner_mut(&mut self) -> &mut Q {
        &mut self.inner
    }

    fn check(&self) {
        let waiting = self.inner.backlog();
        let (copies, copied_bytes) = (self.made)(&self.inner);
        let inside = (self.entered.packets + copies)
            .checked_sub(self.left.packets + self.dropped.packets)
            .expect("more packets out than in");
        let inside_bytes = (self.entered.bytes + copied_bytes)
            .checked_sub(self.left.bytes + self.dropped.bytes)
            .expect("more bytes out than in");
        assert_eq!(u64::from(waiting.bytes), inside_bytes, "bytes are conserved");
        let super_packets = u64::from(waiting.packets) <= inside && inside_bytes > 0;
        assert!(
            u64::from(waiting.packets) == inside || super_packets,
            "packets are conserved: backlog {waiting:?}, {inside} inside"
        );
        assert_eq!(waiting.packets == 0, inside == 0, "an empty queue holds nothing");
    }
}

impl<Q: Qdisc> Qdisc for Counted<Q> {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        let dropped_before = cx.dropped.len();
        self.entered.add(&packet);
        let verdict = self.inner.enqueue(packet, cx);
        cx.dropped[dropped_before..].iter().for_each(|(_, packet)| self.dropped.add(packet));
        self.check();
        verdict
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let dropped_before = cx.dropped.len();
        let packet = self.inner.dequeue(cx);
        cx.dropped[dropped_before..].iter().for_each(|(_, packet)| self.dropped.add(packet));
        if let Some(packet) = &packet {
            self.left.add(packet);
        }
        self.check();
        packet
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        let dropped_before = cx.dropped.len();
        self.inner.purge(cx);
        cx.dropped[dropped_before..].iter().for_each(|(_, packet)| self.dropped.add(packet));
        self.check();
    }

    fn wake_at(&self) -> Option<Instant> {
        self.inner.wake_at()
    }

    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}
