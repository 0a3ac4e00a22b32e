//! First in, first out: pfifo, bfifo, pfifo_head_drop, pfifo_fast and noqueue.
//!
//! Linux `net/sched/sch_fifo.c` and `sch_generic.c`: names, limits and counters are theirs.

use super::queue::PacketQueue;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::units::Instant;

/// `dev->tx_queue_len` of a fresh Ethernet device: packets in a pfifo unless told otherwise.
pub const TX_QUEUE_LEN: u32 = 1000;

/// `psched_mtu()` of an Ethernet device: 1500 bytes and the link header.
pub const PSCHED_MTU: u32 = 1514;

/// What a [`Fifo`] counts against its limit, and what it does when full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoKind {
    /// `pfifo`: at most this many packets, tail drop.
    Packets(u32),
    /// `bfifo`: at most this many bytes, tail drop.
    Bytes(u32),
    /// `pfifo_head_drop`: at most this many packets; the oldest makes room for the newest.
    HeadDrop(u32),
    /// `noqueue`: no limit. The kernel hands packets straight to the device; here they lie in
    /// the qdisc only while the port has no credit.
    NoQueue,
}

impl FifoKind {
    /// As tc calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets(_) => "pfifo",
            Self::Bytes(_) => "bfifo",
            Self::HeadDrop(_) => "pfifo_head_drop",
            Self::NoQueue => "noqueue",
        }
    }
}

/// pfifo, bfifo, pfifo_head_drop and noqueue.
///
/// Ordered by use: a packet that passes an empty queue needs the first cache line.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Fifo {
    stats: Stats,
    kind: FifoKind,
    /// The largest frame of its device: a bfifo with a smaller limit cannot be bypassed.
    psched_mtu: u32,
    queue: PacketQueue,
}

impl Fifo {
    /// An empty queue of `kind`, of a device with an MTU of 1500.
    pub fn new(kind: FifoKind) -> Self {
        let (queue, stats) = (PacketQueue::default(), Stats::default());
        Self { kind, psched_mtu: PSCHED_MTU, queue, stats }
    }

    /// The same for a device whose largest frame has `psched_mtu` bytes. What becomes of the device later has no
    /// effect until `tc qdisc change` ([`set_psched_mtu`](Self::set_psched_mtu)).
    pub fn of_device(self, psched_mtu: u32) -> Self {
        Self { psched_mtu, ..self }
    }

    /// `pfifo` with the limit that tc leaves to the kernel: the device's queue length.
    pub fn pfifo_default() -> Self {
        Self::new(FifoKind::Packets(TX_QUEUE_LEN))
    }

    /// What is limited, and to how much.
    pub fn kind(&self) -> FifoKind {
        self.kind
    }

    /// Another limit for the packets to come; those inside stay (`fifo_set_limit`).
    pub fn set_limit(&mut self, limit: u32) {
        match &mut self.kind {
            FifoKind::Packets(old) | FifoKind::Bytes(old) | FifoKind::HeadDrop(old) => *old = limit,
            FifoKind::NoQueue => {}
        }
    }

    /// The largest frame of its device when it is given a limit: whether the queue can be bypassed is then
    /// decided anew (`fifo_init`).
    pub fn set_psched_mtu(&mut self, psched_mtu: u32) {
        self.psched_mtu = psched_mtu;
    }

    /// Whether a packet may go past the queue straight to the device, because nothing waits
    /// (`TCQ_F_CAN_BYPASS`).
    #[inline]
    pub fn may_bypass(&self) -> bool {
        self.queue.is_empty()
            && match self.kind {
                FifoKind::Packets(limit) | FifoKind::HeadDrop(limit) => limit > 0,
                FifoKind::Bytes(limit) => limit >= self.psched_mtu,
                FifoKind::NoQueue => true,
            }
    }

    /// Counts a packet that went past the queue.
    #[inline]
    pub fn count_bypass(&mut self, packet: &Packet) {
        self.stats.count_sent(packet);
    }

    /// The packet that `dequeue` would give (`qdisc_peek_head`).
    pub fn peek(&self) -> Option<&Packet> {
        self.queue.front()
    }

    /// Asserts that the queue is in order.
    pub(super) fn check(&self) {
        self.queue.check(self.kind.name());
    }

    /// `pfifo_tail_enqueue` when full: the head is dropped, and both its flow and that of the new packet are notified of
    /// congestion. A limit of zero accepts nothing.
    fn replace_head(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let Some(oldest) = self.queue.pop_front() else {
            return self.refuse(place, cx);
        };
        self.stats.drops += 1;
        cx.drop(Reason::QdiscOverlimit, oldest);
        self.queue.push_back_from(place);
        Enqueue::Congested
    }

    fn refuse(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.stats.drops += 1;
        cx.drop(Reason::QdiscOverlimit, place.take());
        Enqueue::Dropped
    }
}

impl Qdisc for Fifo {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    #[inline]
    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let waiting = self.queue.backlog();
        let fits = match self.kind {
            FifoKind::Packets(limit) | FifoKind::HeadDrop(limit) => waiting.packets < limit,
            FifoKind::Bytes(limit) => waiting.bytes.saturating_add(place.wire_len()) <= limit,
            FifoKind::NoQueue => true,
        };
        match self.kind {
            _ if fits => {
                self.queue.push_back_from(place);
                Enqueue::Queued
            }
            FifoKind::HeadDrop(1..) => self.replace_head(place, cx),
            _ => self.refuse(place, cx),
        }
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    #[inline]
    fn dequeue_into(&mut self, place: &mut Packet, _cx: &mut Cx<'_>) -> bool {
        let any = self.queue.pop_front_into(place);
        if any {
            self.stats.count_sent(place);
        }
        any
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.queue.purge(cx);
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

/// `prio2band`: the band of each `skb->priority & 15`, for pfifo_fast and as prio's default.
pub const PRIORITY_TO_BAND: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// `pfifo_fast`: three bands by priority, each of [`TX_QUEUE_LEN`] packets, lower bands first.
#[derive(Clone, Debug)]
pub struct PfifoFast {
    bands: [PacketQueue; 3],
    limit: u32,
    stats: Stats,
}

impl PfifoFast {
    /// Three empty bands of `limit` packets each (`dev->tx_queue_len`).
    pub fn new(limit: u32) -> Self {
        Self { bands: Default::default(), limit, stats: Stats::default() }
    }

    /// The device's `tx_queue_len` is another one: each band has that limit. What a band has beyond it is dropped, the youngest
    /// packets, and not counted (`pfifo_fast_change_tx_queue_len`).
    pub fn change_tx_queue_len(&mut self, limit: u32, cx: &mut Cx<'_>) {
        self.limit = limit;
        for band in &mut self.bands {
            if band.backlog().packets <= limit {
                continue;
            }
            let mut old = core::mem::take(band);
            while let Some(packet) = old.pop_front() {
                if band.backlog().packets < limit {
                    band.push_back(packet);
                } else {
                    cx.drop(Reason::QueuePurge, packet);
                }
            }
        }
    }

    /// Asserts that the bands are in order.
    pub(super) fn check(&self) {
        self.bands.iter().for_each(|band| band.check("pfifo_fast"));
    }

    /// Whether a packet may go straight to the device (`TCQ_F_CAN_BYPASS`).
    pub(super) fn may_bypass(&self) -> bool {
        self.bands.iter().all(PacketQueue::is_empty)
    }

    /// Counts a packet that went past the queue as sent.
    pub(super) fn count_bypass(&mut self, packet: &Packet) {
        self.stats.count_sent(packet);
    }
}

impl Default for PfifoFast {
    fn default() -> Self {
        Self::new(TX_QUEUE_LEN)
    }
}

impl Qdisc for PfifoFast {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let band = PRIORITY_TO_BAND[(place.meta.priority & 15) as usize];
        let queue = &mut self.bands[usize::from(band)];
        if queue.backlog().packets >= self.limit {
            self.stats.drops += 1;
            cx.drop(Reason::QdiscOverlimit, place.take());
            return Enqueue::Dropped;
        }
        queue.push_back_from(place);
        Enqueue::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, _cx: &mut Cx<'_>) -> bool {
        let any = self.bands.iter_mut().any(|band| band.pop_front_into(place));
        if any {
            self.stats.count_sent(place);
        }
        any
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.bands.iter_mut().for_each(|band| band.purge(cx));
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().fold(Backlog::default(), |sum, band| sum + band.backlog())
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::testing::{Bench, frame};

    #[test]
    fn pfifo_counts_packets_and_drops_the_tail() {
        let mut bench = Bench::new(Fifo::new(FifoKind::Packets(2)));
        assert_eq!(bench.enqueue(0, frame(100)), Enqueue::Queued);
        assert_eq!(bench.enqueue(0, frame(9000)), Enqueue::Queued);
        assert_eq!(bench.enqueue(0, frame(60)), Enqueue::Dropped);
        assert_eq!(bench.drain_lengths(0), [100, 9000]);
        assert_eq!(bench.dropped_lengths(), [60]);
    }

    #[test]
    fn bfifo_counts_bytes() {
        let mut bench = Bench::new(Fifo::new(FifoKind::Bytes(3000)));
        for (len, verdict) in [
            (1514, Enqueue::Queued),
            (1487, Enqueue::Dropped),
            (1486, Enqueue::Queued),
            (60, Enqueue::Dropped),
        ] {
            assert_eq!(bench.enqueue(0, frame(len)), verdict, "{len}");
        }
        assert_eq!(bench.qdisc().backlog(), Backlog { packets: 2, bytes: 3000 });
        assert_eq!(bench.qdisc().stats().drops, 2);
    }

    /// Observed on Linux 6.18 at the root of a veth: which frames bypass the queue.
    #[test]
    fn a_bfifo_is_passed_if_it_holds_a_frame_of_its_device() {
        for (psched_mtu, limit, passes) in [
            (1514, 1513, false),
            (1514, 1514, true),
            (9014, 1514, false),
            (9014, 9013, false),
            (9014, 9014, true),
            (614, 613, false),
            (614, 614, true),
        ] {
            let fifo = Fifo::new(FifoKind::Bytes(limit)).of_device(psched_mtu);
            assert_eq!(fifo.may_bypass(), passes, "{psched_mtu} {limit}");
        }
        assert!(Fifo::new(FifoKind::Packets(1)).of_device(9014).may_bypass());
    }

    #[test]
    fn head_drop_keeps_the_newest() {
        let mut bench = Bench::new(Fifo::new(FifoKind::HeadDrop(2)));
        bench.enqueue(0, frame(100));
        bench.enqueue(0, frame(101));
        assert_eq!(bench.enqueue(0, frame(102)), Enqueue::Congested);
        assert_eq!(bench.drain_lengths(0), [101, 102]);
        assert_eq!(bench.dropped_lengths(), [100]);
        let mut none = Bench::new(Fifo::new(FifoKind::HeadDrop(0)));
        assert_eq!(none.enqueue(0, frame(100)), Enqueue::Dropped);
    }

    #[test]
    fn pfifo_fast_serves_bands_by_priority() {
        let mut bench = Bench::new(PfifoFast::new(2));
        // TC_PRIO_BESTEFFORT, BULK, INTERACTIVE, CONTROL: bands 1, 2, 0, 0.
        for (priority, len) in [(0, 100), (2, 200), (6, 300), (7, 400)] {
            let mut packet = frame(len);
            packet.meta.priority = priority;
            bench.enqueue(0, packet);
        }
        let mut third = frame(500);
        third.meta.priority = 6;
        assert_eq!(bench.enqueue(0, third), Enqueue::Dropped, "each band has its own limit");
        assert_eq!(bench.drain_lengths(0), [300, 400, 100, 200]);
    }

    #[test]
    fn pfifo_fast_keeps_the_oldest_packets_of_each_band_when_it_gets_shorter() {
        let mut dropped = Vec::new();
        let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
        let mut queue = PfifoFast::new(3);
        // Bands 1, 2 and 0.
        for (priority, lengths) in [(0, [100, 101, 102].as_slice()), (2, &[200, 201]), (6, &[300])]
        {
            for len in lengths {
                let mut packet = frame(*len);
                packet.meta.priority = priority;
                assert_eq!(queue.enqueue(packet, &mut cx), Enqueue::Queued);
            }
        }
        queue.change_tx_queue_len(1, &mut cx);
        assert_eq!(queue.stats().drops, 0, "what is dropped for it is not counted");
        assert_eq!(queue.backlog(), Backlog { packets: 3, bytes: 600 });
        assert_eq!(queue.enqueue(frame(103), &mut cx), Enqueue::Dropped);
        queue.change_tx_queue_len(2, &mut cx);
        assert_eq!(queue.enqueue(frame(104), &mut cx), Enqueue::Queued);
        queue.check();
        let sent = core::iter::from_fn(|| queue.dequeue(&mut cx));
        assert_eq!(sent.map(|packet| packet.len()).collect::<Vec<_>>(), [300, 100, 104, 200]);
        let lost: Vec<_> = dropped.iter().map(|(reason, packet)| (*reason, packet.len())).collect();
        let shrunk = [101, 102, 201].map(|len| (Reason::QueuePurge, len));
        assert_eq!(lost, [shrunk.as_slice(), &[(Reason::QdiscOverlimit, 103)]].concat());
    }
}
