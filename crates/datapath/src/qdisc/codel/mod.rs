//! codel: controlled delay on one queue (Linux `net/sched/sch_codel.c`).

mod control;

pub use control::{CeSelector, CodelParams, CodelStats, CodelTime, CodelVars, Control, Source};

use super::queue::PacketQueue;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::units::Instant;

/// What a [`Codel`] is configured with (`TCA_CODEL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// The control law's settings.
    pub params: CodelParams,
}

impl CodelConfig {
    /// The defaults for a device whose largest frame is `mtu` bytes: 1000 packets, 5 ms, 100 ms,
    /// no ECN.
    pub fn new(mtu: u32) -> Self {
        Self { limit: 1000, params: CodelParams::new(mtu) }
    }
}

/// A queue under CoDel.
#[derive(Clone, Debug)]
pub struct Codel {
    config: CodelConfig,
    queue: PacketQueue,
    vars: CodelVars,
    control_stats: CodelStats,
    drop_overlimit: u32,
    /// Packets that a parent holds and that still count against the limit.
    held: u32,
    stats: Stats,
}

impl Codel {
    /// An empty queue.
    pub fn new(config: CodelConfig) -> Self {
        Self {
            config,
            queue: PacketQueue::default(),
            vars: CodelVars::default(),
            control_stats: CodelStats::default(),
            drop_overlimit: 0,
            held: 0,
            stats: Stats::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &CodelConfig {
        &self.config
    }

    /// Other settings; what waits beyond the new limit is dropped from the head
    /// (`codel_change`).
    pub fn change(&mut self, config: CodelConfig, cx: &mut Cx<'_>) {
        self.config = config;
        self.stats.drops += self.queue.shorten(config.limit, cx);
    }

    /// The state of the control law.
    pub fn vars(&self) -> &CodelVars {
        &self.vars
    }

    /// What the control law has counted.
    pub fn control_stats(&self) -> &CodelStats {
        &self.control_stats
    }

    /// Packets dropped because the queue was full.
    pub fn drop_overlimit(&self) -> u32 {
        self.drop_overlimit
    }

    /// Asserts that the queue is in order.
    pub(super) fn check(&self) {
        self.queue.check("codel");
    }

    /// Whether a packet may go straight to the device (`TCQ_F_CAN_BYPASS`).
    pub(super) fn may_bypass(&self) -> bool {
        self.queue.is_empty() && self.config.limit > 0
    }

    /// Counts a packet that went past the queue as sent.
    pub(super) fn count_bypass(&mut self, packet: &Packet) {
        self.stats.count_sent(packet);
    }

    /// Tells how many packets a parent holds that count as waiting here.
    pub(super) fn set_held(&mut self, held: u32) {
        self.held = held;
    }
}

/// The queue as the control law sees it, with where its drops go.
struct Plain<'a, 'b> {
    queue: &'a mut PacketQueue,
    drops: &'a mut u64,
    cx: &'a mut Cx<'b>,
}

impl Source for Plain<'_, '_> {
    fn pop(&mut self) -> Option<Packet> {
        self.queue.pop_front()
    }

    fn bytes(&self) -> u32 {
        self.queue.backlog().bytes
    }

    fn discard(&mut self, packet: Packet) {
        *self.drops += 1;
        self.cx.drop(Reason::QdiscCongested, packet);
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        if self.queue.backlog().packets + self.held >= self.config.limit {
            self.drop_overlimit += 1;
            self.stats.drops += 1;
            cx.drop(Reason::QdiscOverlimit, packet);
            return Enqueue::Dropped;
        }
        packet.meta.enqueued_at = cx.now;
        self.queue.push_back(packet);
        Enqueue::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = CodelTime::at(cx.now);
        let control = Control {
            params: &self.config.params,
            vars: &mut self.vars,
            stats: &mut self.control_stats,
            source: Plain { queue: &mut self.queue, drops: &mut self.stats.drops, cx },
            now,
        };
        let packet = control.dequeue()?;
        self.stats.count_sent(&packet);
        Some(packet)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.queue.purge(cx);
        self.vars = CodelVars::default();
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

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, flow_frame, frame};
    use super::*;
    use crate::units::Duration;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;

    /// Serves one 1000 B packet per ms, with two arriving: the queue grows without end.
    fn overload(ecn: bool, tos: u8, ms: u64) -> (Bench<Codel>, Vec<u64>) {
        let mut config = CodelConfig::new(1514);
        config.params.ecn = ecn;
        let mut bench = Bench::new(Codel::new(config));
        let mut events = Vec::new();
        for tick in 0..ms {
            bench.enqueue(tick * MILLI, flow_frame(1, 1000, tos));
            bench.enqueue(tick * MILLI, flow_frame(1, 1000, tos));
            let before =
                bench.qdisc().stats().drops + u64::from(bench.qdisc().control_stats.ecn_mark);
            bench.dequeue(tick * MILLI);
            let after =
                bench.qdisc().stats().drops + u64::from(bench.qdisc().control_stats.ecn_mark);
            events.extend((before..after).map(|_| tick));
        }
        (bench, events)
    }

    /// The first drop comes one interval after the sojourn time passed the target, the next ones
    /// interval / sqrt(n) apart, as near as one Newton step per drop comes: 1, 1/2, 9/16, 0.488.
    #[test]
    fn drops_follow_the_control_law() {
        let (_, drops) = overload(false, 0, 400);
        // At t ms the head has waited about t/2 ms: above 5 ms from t = 10 on.
        assert_eq!(drops[0], 110);
        let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(&gaps[..4], [100, 50, 57, 49]);
    }

    #[test]
    fn marks_replace_drops_for_capable_packets() {
        let (bench, marks) = overload(true, 2, 400);
        assert_eq!(bench.qdisc().stats().drops, 0);
        assert_eq!(bench.qdisc().control_stats().ecn_mark as usize, marks.len());
        let (plain, drops) = overload(true, 0, 400);
        assert_eq!(plain.qdisc().stats().drops as usize, drops.len());
    }

    #[test]
    fn the_threshold_marks_every_late_packet() {
        let mut config = CodelConfig::new(1514);
        config.params.ce_threshold = CodelTime::of(Duration::from_millis(1));
        config.params.ce_selector = CeSelector { value: 1, mask: 3 };
        let mut bench = Bench::new(Codel::new(config));
        for tos in [1, 2, 0, 1] {
            bench.enqueue(0, flow_frame(1, 100, tos));
        }
        let tos: Vec<u8> =
            (0..4).map(|_| bench.dequeue(2 * MILLI).expect("a packet").network.tos()).collect();
        assert_eq!(tos, [3, 2, 0, 3], "only ECT(1) is selected");
        assert_eq!(bench.qdisc().control_stats().ce_mark, 2);
    }

    #[test]
    fn a_full_queue_drops_the_tail() {
        let config = CodelConfig { limit: 2, ..CodelConfig::new(1514) };
        let mut bench = Bench::new(Codel::new(config));
        let verdicts = [0, 0, 0].map(|at| bench.enqueue(at, frame(100)));
        assert_eq!(verdicts[2], Enqueue::Dropped);
        assert_eq!(bench.qdisc().drop_overlimit(), 1);
    }

    proptest! {
        /// Nothing is dropped while packets wait less than the target.
        #[test]
        fn short_queues_are_left_alone(
            arrivals in prop::collection::vec((0u64..10 * MILLI, 60u32..1514), 1..100),
        ) {
            let mut bench = Bench::new(Codel::new(CodelConfig::new(1514)));
            let mut at = 0;
            for (gap, len) in arrivals {
                at += gap;
                bench.enqueue(at, frame(len));
                prop_assert!(bench.dequeue(at + 4 * MILLI).is_some());
                at += 4 * MILLI;
            }
            prop_assert_eq!(bench.qdisc().stats().drops, 0);
        }
    }
}
