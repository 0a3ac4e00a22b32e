//! red: random early detection (Linux `net/sched/sch_red.c`, `include/net/red.h`).
//!
//! The average queue length is an exponentially weighted mean, updated at each arrival and kept
//! scaled by 2^wlog. Below `min` nothing happens, above `max` every packet is marked or dropped,
//! between them some are, evenly spaced at random.

use super::fifo::{Fifo, FifoKind};
use super::ticks::Ticks;
use super::{Backlog, Cx, Enqueue, Qdisc, Sched, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// What a [`Red`] is configured with: what tc computes from its words (`struct tc_red_qopt`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// Bytes that may wait in the default inner bfifo.
    pub limit: u32,
    /// Average below which nothing is marked, in bytes.
    pub min: u32,
    /// Average from which on everything is marked, in bytes.
    pub max: u32,
    /// The average's weight is 2^-wlog.
    pub wlog: u8,
    /// The probability at `max` as a power of two, for when `max_probability` is zero.
    pub plog: u8,
    /// The probability at `max` in parts of 2³², or 0.
    pub max_probability: u32,
    /// Idle time is looked up in units of 2^scell_log µs.
    pub scell_log: u8,
    /// By how many bits the average decays in each number of units (`Stab`).
    pub idle_decay: Box<[u8; 256]>,
    /// Mark where the packet allows it.
    pub ecn: bool,
    /// Drop, not mark, above `max`.
    pub harddrop: bool,
    /// Adapt the probability to keep the average in the middle.
    pub adaptive: bool,
    /// Never drop what cannot be marked.
    pub nodrop: bool,
}

/// What red counts besides the common counters (`struct tc_red_xstats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RedStats {
    /// Dropped early.
    pub early: u32,
    /// Dropped because the inner queue was full.
    pub pdrop: u32,
    /// Marked.
    pub marked: u32,
}

/// Random early detection in front of an inner qdisc.
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    child: Box<Sched>,
    rng: Rng,
    average: Average,
    chance: MarkChance,
    adaptations: Ticks,
    own_stats: RedStats,
    stats: Stats,
}

/// The average queue length, in bytes times 2^wlog (`qavg`).
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    scaled: u64,
    /// Since when the queue has been empty.
    idle_since: Option<Instant>,
}

/// The even spacing of marks (`struct red_parms`, `qcount`, `qR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkChance {
    /// The probability at `max`, in parts of 2³².
    at_max: u32,
    /// `max - min`, at least 1.
    range: u32,
    /// `at_max` for each byte over `min`, at least 1 (the reciprocal of `max_P_reciprocal`).
    per_byte: u32,
    /// Packets since the last mark; -1 outside the range.
    count: i32,
    /// The random length of the current spacing.
    random: u32,
}

/// What to do with an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedAction {
    Pass,
    Early,
    Forced,
}

/// How often the adaptive variant looks at the average.
const ADAPTATION_PERIOD: Duration = Duration::from_millis(500);
/// One per cent in parts of 2³² (`RED_ONE_PERCENT`).
const ONE_PERCENT: u32 = 42_949_673;

impl Red {
    /// An empty queue in front of `child`, with random spacing from `rng`.
    pub fn new(config: RedConfig, child: Sched, rng: Rng) -> Self {
        Self {
            child: Box::new(child),
            rng,
            average: Average { scaled: 0, idle_since: Some(Instant::ZERO) },
            chance: MarkChance::new(&config),
            adaptations: Ticks::default(),
            own_stats: RedStats::default(),
            stats: Stats::default(),
            config,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &RedConfig {
        &self.config
    }

    /// Changes the settings and restarts the average (`red_set_vars`). The inner qdisc, whatever it is, is
    /// replaced by a new bfifo with the limit, and its backlog is dropped (`red_change`).
    pub fn change(&mut self, config: RedConfig, cx: &mut Cx<'_>) {
        self.chance = MarkChance::new(&config);
        self.average = Average { scaled: 0, idle_since: Some(cx.now) };
        self.adaptations = Ticks::from(cx.now + ADAPTATION_PERIOD);
        let fresh = Fifo::new(FifoKind::Bytes(config.limit)).into();
        let mut old = core::mem::replace(&mut *self.child, fresh);
        self.stats.drops += u64::from(old.backlog().packets);
        old.purge(cx);
        self.config = config;
    }

    /// The inner qdisc (class 1 of this one).
    pub fn child(&self) -> &Sched {
        &self.child
    }

    /// The inner qdisc, to change or replace it.
    pub fn child_mut(&mut self) -> &mut Sched {
        &mut self.child
    }

    /// red's own counters.
    pub fn own_stats(&self) -> &RedStats {
        &self.own_stats
    }

    /// Counts packets that were discarded below.
    pub(super) fn count_drops(&mut self, drops: u64) {
        self.stats.drops += drops;
    }

    /// The packet that the inner qdisc would give (`red_peek`).
    pub(super) fn peek(&mut self, cx: &mut Cx<'_>) -> Option<&Packet> {
        let dropped_before = cx.dropped.len();
        // If the inner qdisc drops packets to find the next one, it does so at the first peek.
        let any = self.child.peek(cx).is_some();
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        if any { self.child.peek(cx) } else { None }
    }

    /// `red_calc_qavg` and `red_action`.
    fn judge(&mut self, now: Instant) -> RedAction {
        let Self { config, average, chance, .. } = self;
        average.update(config, self.child.backlog().bytes, now);
        let mean = average.scaled >> config.wlog;
        if average.scaled < u64::from(config.min) << config.wlog {
            chance.count = -1;
            RedAction::Pass
        } else if average.scaled >= u64::from(config.max) << config.wlog {
            chance.count = -1;
            RedAction::Forced
        } else if chance.strikes(mean - u64::from(config.min), &mut self.rng) {
            RedAction::Early
        } else {
            RedAction::Pass
        }
    }

    /// Marks a packet if `action` demands it and the packet is ECN-capable; false if it must be dropped.
    fn spare(&mut self, packet: &mut Packet, action: RedAction) -> bool {
        self.stats.overlimits += 1;
        let is_hard = action == RedAction::Forced && self.config.harddrop;
        let markable = self.config.ecn && !is_hard;
        let marked = markable && packet.mark_ce();
        let spared = marked || markable && self.config.nodrop;
        self.own_stats.marked += u32::from(marked);
        self.own_stats.early += u32::from(!spared);
        spared
    }

    fn pass_down(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let dropped_before = cx.dropped.len();
        let verdict = self.child.enqueue_from(place, cx);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        self.own_stats.pdrop += u32::from(verdict != Enqueue::Queued);
        verdict
    }

    /// Runs the adaptive variant's missed timer ticks at the next event: between events only the
    /// decay while idle changes the average.
    fn adapt(&mut self, now: Instant) {
        if !self.config.adaptive {
            return;
        }
        let Self { config, average, chance, adaptations, .. } = self;
        adaptations.catch_up(now, ADAPTATION_PERIOD, ADAPTATION_PERIOD, |due| {
            let mean = average.at(config, due) >> config.wlog;
            let before = *chance;
            chance.adapt(config, mean);
            *chance == before && average.is_settled(config, due)
        });
    }
}

impl Average {
    /// A packet arrives while `bytes` wait.
    fn update(&mut self, config: &RedConfig, bytes: u32, now: Instant) {
        self.scaled = match self.idle_since.take() {
            Some(since) => self.decayed(config, now.saturating_since(since)),
            None => self.scaled + u64::from(bytes) - (self.scaled >> config.wlog),
        };
    }

    /// The scaled average as it is at `now`, without change.
    fn at(&self, config: &RedConfig, now: Instant) -> u64 {
        self.idle_since
            .map_or(self.scaled, |since| self.decayed(config, now.saturating_since(since)))
    }

    /// The average does not change any more until a packet arrives.
    fn is_settled(&self, config: &RedConfig, now: Instant) -> bool {
        self.idle_since
            .is_none_or(|since| now.saturating_since(since).as_micros() >= 255 << config.scell_log)
    }

    /// The scaled average after `idle` (`red_calc_qavg_from_idle_time`): halved by the table, or
    /// less than halved in proportion where the table says nothing yet.
    fn decayed(&self, config: &RedConfig, idle: Duration) -> u64 {
        let longest = 255 << config.scell_log;
        let micros = idle.as_micros().min(longest);
        let shift = config.idle_decay[(micros >> config.scell_log & 255) as usize];
        if shift > 0 {
            return self.scaled >> shift;
        }
        let less = (self.scaled * micros) >> config.scell_log;
        let half = self.scaled >> 1;
        if less < half { self.scaled - less } else { half }
    }
}

impl MarkChance {
    fn new(config: &RedConfig) -> Self {
        let range = config.max.saturating_sub(config.min).max(1);
        let at_max = match config.max_probability {
            0 => (u32::MAX.checked_shr(u32::from(config.plog)).unwrap_or(u32::MAX))
                .wrapping_mul(range),
            given => given,
        };
        Self { at_max, range, per_byte: (at_max / range).max(1), count: -1, random: 0 }
    }

    /// Between the thresholds, `over` bytes above `min`: true if this packet is marked.
    fn strikes(&mut self, over: u64, rng: &mut Rng) -> bool {
        self.count = self.count.saturating_add(1);
        if self.count == 0 {
            self.random = self.draw(rng);
            return false;
        }
        let marks = over * self.count as u64 >= u64::from(self.random);
        if marks {
            self.count = 0;
            self.random = self.draw(rng);
        }
        marks
    }

    /// A uniform value below the reciprocal of the probability per byte over `min`
    /// (`red_random`).
    fn draw(&self, rng: &mut Rng) -> u32 {
        rng.next_u32() / self.per_byte
    }

    /// `red_adaptative_algo`: up by at most 1 %, down by a tenth, between 1 % and 50 %, so that
    /// the average stays within the middle fifth of the range.
    fn adapt(&mut self, config: &RedConfig, mean: u64) {
        let fifth = u64::from(config.max.saturating_sub(config.min) / 5);
        let (low, high) = (u64::from(config.min) + 2 * fifth, u64::from(config.min) + 3 * fifth);
        if mean > high && self.at_max <= 50 * ONE_PERCENT {
            self.at_max += ONE_PERCENT.min(self.at_max / 4);
        } else if mean < low && self.at_max >= ONE_PERCENT {
            self.at_max = self.at_max / 10 * 9;
        }
        // Here, not where RED is set up, to the nearest (`DIV_ROUND_CLOSEST`).
        let nearest = (u64::from(self.at_max) + u64::from(self.range / 2)) / u64::from(self.range);
        self.per_byte = (nearest as u32).max(1);
    }
}

impl Qdisc for Red {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.adapt(cx.now);
        let goes_on = match self.judge(cx.now) {
            RedAction::Pass => true,
            action @ (RedAction::Early | RedAction::Forced) => self.spare(place, action),
        };
        if goes_on {
            return self.pass_down(place, cx);
        }
        self.stats.drops += 1;
        cx.drop(Reason::QdiscCongested, place.take());
        Enqueue::Congested
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    /// The queue counts as idle once a dequeue found it empty.
    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.adapt(cx.now);
        let dropped_before = cx.dropped.len();
        let any = self.child.dequeue_into(place, cx);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        if any {
            self.stats.count_sent(place);
        } else {
            self.average.idle_since.get_or_insert(cx.now);
        }
        any
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.child.purge(cx);
        // `red_restart`.
        self.average = Average { scaled: 0, idle_since: None };
        self.chance.count = -1;
    }

    fn wake_at(&self) -> Option<Instant> {
        self.child.wake_at()
    }

    fn backlog(&self) -> Backlog {
        self.child.backlog()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, flow_frame};
    use super::*;

    /// `red limit 400000 min 30000 max 30001 avpkt 1500 burst 21 probability 1 ecn`, as tc 6.1
    /// computes it.
    fn step(min: u32, max: u32, wlog: u8) -> RedConfig {
        RedConfig {
            limit: 400_000,
            min,
            max,
            wlog,
            plog: 1,
            max_probability: 0,
            scell_log: 12,
            idle_decay: Box::new([0; 256]),
            ecn: true,
            harddrop: false,
            adaptive: false,
            nodrop: false,
        }
    }

    fn red(config: RedConfig) -> Bench<Red> {
        let child = Fifo::new(FifoKind::Bytes(config.limit)).into();
        Bench::new(Red::new(config, child, Rng::stream(1, 1)))
    }

    /// The average with weight 1/4 after arrivals at a backlog of 0, 1000, 2000, … bytes; the
    /// first arrival only ends the idle time.
    #[test]
    fn the_average_decides_not_the_queue() {
        let mut bench = red(step(5000, 5000, 2));
        let mut scaled: u64 = 0;
        let mut marked = 0;
        for nth in 0..20 {
            if nth > 0 {
                scaled = scaled - (scaled >> 2) + nth * 1000;
            }
            marked += u32::from(scaled >= 20_000);
            bench.enqueue(0, flow_frame(1, 1000, 2));
            assert_eq!(bench.qdisc().own_stats().marked, marked, "packet {nth}");
        }
        assert!(marked > 0);
        assert_eq!(bench.qdisc().stats().overlimits, u64::from(marked));
    }

    #[test]
    fn flags_decide_who_pays() {
        for (change, tos, marked, early) in [
            ((|_| ()) as fn(&mut RedConfig), 2, 1, 0),
            (|_| (), 0, 0, 1),
            (|config| config.ecn = false, 2, 0, 1),
            (|config| config.harddrop = true, 2, 0, 1),
            (|config| config.nodrop = true, 0, 0, 0),
        ] {
            let mut config = step(0, 0, 1);
            change(&mut config);
            let mut bench = red(config);
            let verdict = bench.enqueue(0, flow_frame(1, 1000, tos));
            let stats = *bench.qdisc().own_stats();
            assert_eq!((stats.marked, stats.early), (marked, early));
            assert_eq!(verdict == Enqueue::Congested, early == 1);
        }
    }

    /// Between the thresholds with 2 % at `max`: at a steady middle average 1 % on the mean,
    /// never far apart.
    #[test]
    fn marks_between_the_thresholds_are_evenly_spaced() {
        let mut config = step(10_000, 30_000, 3);
        config.max_probability = 85_899_346;
        let mut bench = red(config);
        for _ in 0..20 {
            bench.enqueue(0, flow_frame(1, 1000, 2));
        }
        let mut last = 0;
        let mut widest = 0;
        let mut seen = bench.qdisc().own_stats().marked;
        for nth in 0..20_000 {
            bench.enqueue(0, flow_frame(1, 1000, 2));
            bench.dequeue(0);
            if bench.qdisc().own_stats().marked > seen {
                seen = bench.qdisc().own_stats().marked;
                widest = widest.max(nth - last);
                last = nth;
            }
        }
        assert!((300..480).contains(&seen), "uniform spacing doubles 1 %: {seen}");
        assert!(widest <= 101, "{widest}");
    }

    #[test]
    fn idle_time_decays_the_average() {
        let mut config = step(1000, 1000, 1);
        config.scell_log = 10;
        config.idle_decay.iter_mut().enumerate().for_each(|(nth, shift)| *shift = nth as u8 / 10);
        let mut bench = red(config);
        for _ in 0..10 {
            bench.enqueue(0, flow_frame(1, 1000, 2));
        }
        let before = bench.qdisc().own_stats().marked;
        bench.drain_lengths(0);
        // 100 cells of 1024 µs: ten bits less, nothing is left of 9 kB.
        bench.enqueue(103_000_000, flow_frame(1, 1000, 2));
        assert_eq!(bench.qdisc().own_stats().marked, before);
    }

    fn adaptive() -> RedConfig {
        RedConfig { max_probability: 10 * ONE_PERCENT, adaptive: true, ..step(10_000, 30_000, 1) }
    }

    #[test]
    fn the_adaptive_variant_follows_the_average() {
        let mut bench = red(adaptive());
        for _ in 0..29 {
            bench.enqueue(0, flow_frame(1, 1000, 2));
        }
        bench.enqueue(1_100_000_000, flow_frame(1, 1000, 2));
        assert_eq!(bench.qdisc().chance.at_max, 12 * ONE_PERCENT, "two periods above the middle");
        assert_eq!(bench.qdisc().chance.per_byte, 25_770, "515,396,076 / 20,000, to the nearest");
    }

    #[test]
    fn a_silence_of_centuries_is_made_up_for_at_once() {
        let mut bench = red(adaptive());
        bench.enqueue(0, flow_frame(1, 1000, 2));
        bench.enqueue(1 << 63, flow_frame(1, 1000, 2));
        assert!(bench.qdisc().chance.at_max <= ONE_PERCENT, "down to the least");
        let next = bench.qdisc().adaptations.next().expect("it is adaptive").as_nanos();
        assert!((1 << 63..(1 << 63) + 500_000_001).contains(&next), "the next period: {next}");
    }
}
