//! pie: a queue whose packets are dropped or marked as they arrive, with a probability that keeps its delay near a
//! target (RFC 8033; Linux `net/sched/sch_pie.c`).

mod control;

pub use control::{MAX_PROBABILITY, PieParams, PieVars, PschedTime};

use super::queue::PacketQueue;
use super::ticks::Ticks;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// The resolution of its timer: a jiffy of a kernel with `HZ` = 1000.
const JIFFY: Duration = Duration::from_millis(1);
/// From when a pie is made until its first update (`HZ / 2`).
const FIRST_UPDATE: Duration = Duration::from_millis(500);

/// What a [`Pie`] is configured with (`TCA_PIE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// The time between two updates of the probability, in whole jiffies of 1 ms and at least one.
    pub tupdate: Duration,
    /// Mark instead of dropping where the packet allows it and the probability is at most a tenth.
    pub ecn: bool,
    /// The controller's settings.
    pub params: PieParams,
}

impl PieConfig {
    /// The defaults for a device whose largest frame is `mtu` bytes: 1000 packets, 15 ms, no ECN (`pie_params_init`).
    pub fn new(mtu: u32) -> Self {
        Self {
            limit: 1000,
            tupdate: Duration::from_millis(15),
            ecn: false,
            params: PieParams {
                target: PschedTime::of(Duration::from_millis(15)),
                alpha: 2,
                beta: 20,
                bytemode: false,
                dq_rate_estimator: false,
                mtu,
            },
        }
    }

    /// `time` as the time between two updates (`usecs_to_jiffies`).
    pub fn tupdate_of(time: Duration) -> Duration {
        JIFFY * time.as_nanos().div_ceil(JIFFY.as_nanos()).max(1)
    }
}

/// What pie counts besides the common counters (`struct pie_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PieStats {
    /// Packets that were queued.
    pub packets_in: u32,
    /// Packets dropped, by the controller and by the limit.
    pub dropped: u32,
    /// Those of them dropped because the queue was full.
    pub overlimit: u32,
    /// The most packets that were found waiting.
    pub maxq: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
}

/// A queue under a PI controller.
#[derive(Clone, Debug)]
pub struct Pie {
    config: PieConfig,
    rng: Rng,
    queue: PacketQueue,
    vars: PieVars,
    updates: Ticks,
    /// What a parent holds and what still counts as waiting here.
    held: Backlog,
    own_stats: PieStats,
    stats: Stats,
}

impl Pie {
    /// An empty queue that draws from `rng`.
    pub fn new(config: PieConfig, rng: Rng) -> Self {
        assert!(config.tupdate >= JIFFY, "an update takes a jiffy at least");
        Self {
            config,
            rng,
            queue: PacketQueue::default(),
            vars: PieVars::default(),
            updates: Ticks::default(),
            held: Backlog::default(),
            own_stats: PieStats::default(),
            stats: Stats::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &PieConfig {
        &self.config
    }

    /// Other settings; what waits beyond the new limit is dropped from the head (`pie_change`).
    pub fn change(&mut self, config: PieConfig, cx: &mut Cx<'_>) {
        self.catch_up(cx.now);
        self.config = config;
        self.stats.drops += self.queue.shorten(config.limit, cx);
    }

    /// The state of the controller.
    pub fn vars(&self) -> &PieVars {
        &self.vars
    }

    /// pie's own counters.
    pub fn own_stats(&self) -> &PieStats {
        &self.own_stats
    }

    /// Tells what a parent holds that counts as waiting here.
    pub(super) fn set_held(&mut self, held: Backlog) {
        self.held = held;
    }

    /// Asserts that the queue is in order.
    pub(super) fn check(&self) {
        self.queue.check("pie");
    }

    fn waiting(&self) -> Backlog {
        self.queue.backlog() + self.held
    }

    /// The ticks of the timer up to `now`. Since the last call nothing has come or gone.
    fn catch_up(&mut self, now: Instant) {
        let backlog = self.waiting().bytes;
        let Self { config, vars, updates, .. } = self;
        updates.catch_up(now, FIRST_UPDATE, config.tupdate, |_| {
            let before = *vars;
            vars.update(&config.params, backlog);
            *vars == before
        });
    }

    /// Why a packet cannot be queued, if it can't; it may be marked instead.
    fn refusal(&mut self, packet: &mut Packet) -> Option<Reason> {
        let waiting = self.waiting();
        if waiting.packets >= self.config.limit {
            self.own_stats.overlimit = self.own_stats.overlimit.wrapping_add(1);
            return Some(Reason::QdiscOverlimit);
        }
        let Self { config, vars, rng, .. } = self;
        if !vars.drops_early(&config.params, waiting.bytes, packet.len(), rng) {
            return None;
        }
        let is_marked = config.ecn && vars.probability <= MAX_PROBABILITY / 10 && packet.mark_ce();
        self.own_stats.ecn_mark = self.own_stats.ecn_mark.wrapping_add(u32::from(is_marked));
        (!is_marked).then_some(Reason::QdiscCongested)
    }
}

impl Qdisc for Pie {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.catch_up(cx.now);
        if let Some(reason) = self.refusal(place) {
            self.own_stats.dropped = self.own_stats.dropped.wrapping_add(1);
            self.vars.note_drop();
            self.stats.drops += 1;
            cx.drop(reason, place.take());
            return Enqueue::Dropped;
        }
        let own = &mut self.own_stats;
        own.packets_in = own.packets_in.wrapping_add(1);
        own.maxq = own.maxq.max(self.queue.backlog().packets + self.held.packets);
        place.meta.enqueued_at = cx.now;
        self.queue.push_back_from(place);
        Enqueue::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.catch_up(cx.now);
        if !self.queue.pop_front_into(place) {
            return false;
        }
        let backlog = self.queue.backlog().bytes;
        self.vars.note_dequeue(&self.config.params, place, backlog, cx.now);
        self.stats.count_sent(place);
        true
    }

    /// `pie_reset`: probability and delays stay.
    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.queue.purge(cx);
        self.vars.restart();
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
mod tests;
