//! tbf: the token bucket filter (Linux `net/sched/sch_tbf.c`).
//!
//! The bucket is kept in ns of transmission time at the configured rate. A packet leaves when
//! the bucket (and the peak bucket, if there is one) holds its own transmission time; until then
//! the watchdog waits for exactly the missing ns.

use super::rate::RateConfig;
use super::{AnyQdisc, Backlog, Cx, Enqueue, Qdisc, Sched, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::units::{Duration, Instant};

/// What a [`Tbf`] is configured with (`TCA_TBF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbfConfig {
    /// The sustained rate.
    pub rate: RateConfig,
    /// Bucket depth in bytes (`TCA_TBF_BURST`): no larger packet ever passes.
    pub burst: u32,
    /// The peak rate and its bucket depth in bytes (`TCA_TBF_PRATE64`, `TCA_TBF_PBURST`).
    pub peak: Option<(RateConfig, u32)>,
    /// Bytes that may wait in the default inner bfifo.
    pub limit: u32,
}

/// A token bucket around an inner qdisc.
#[derive(Clone, Debug)]
pub struct Tbf {
    config: TbfConfig,
    child: Box<Sched>,
    /// The last update of the tokens (`t_c`).
    counted_at: Instant,
    bucket: Bucket,
    peak: Option<Bucket>,
    watchdog: Option<Instant>,
    /// The last `dequeue`.
    asked_at: Instant,
    stats: Stats,
}

/// A bucket of transmission time in ns.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: RateConfig,
    depth: i64,
    tokens: i64,
}

impl Bucket {
    fn full(rate: RateConfig, burst: u32) -> Self {
        let depth = rate.time_of(burst).as_nanos() as i64;
        Self { rate, depth, tokens: depth }
    }

    /// Tokens after `elapsed` ns and a packet of `len` bytes; negative: that many ns are missing.
    fn after(&self, elapsed: i64, len: u32) -> i64 {
        (self.tokens + elapsed).min(self.depth) - self.rate.time_of(len).as_nanos() as i64
    }
}

impl Tbf {
    /// A full bucket in front of `child`.
    pub fn new(config: TbfConfig, child: Sched) -> Self {
        Self {
            config,
            child: Box::new(child),
            counted_at: Instant::ZERO,
            bucket: Bucket::full(config.rate, config.burst),
            peak: config.peak.map(|(rate, burst)| Bucket::full(rate, burst)),
            watchdog: None,
            asked_at: Instant::ZERO,
            stats: Stats::default(),
        }
    }

    /// Changes rate and burst, with full buckets; queued packets stay (`tbf_change`).
    pub fn change(&mut self, config: TbfConfig) {
        self.bucket = Bucket::full(config.rate, config.burst);
        self.peak = config.peak.map(|(rate, burst)| Bucket::full(rate, burst));
        self.config = config;
        if let AnyQdisc::Fifo(fifo) = self.child.qdisc_mut() {
            fifo.set_limit(config.limit);
        }
    }

    /// The configuration.
    pub fn config(&self) -> &TbfConfig {
        &self.config
    }

    /// The inner qdisc (class 1 of this one).
    pub fn child(&self) -> &Sched {
        &self.child
    }

    /// The inner qdisc, to graft another.
    pub fn child_mut(&mut self) -> &mut Sched {
        &mut self.child
    }

    /// Counts packets that were discarded below.
    pub(super) fn count_drops(&mut self, drops: u64) {
        self.stats.drops += drops;
    }

    /// The largest packet that can ever pass (`max_size`).
    fn max_size(&self) -> u32 {
        self.config.peak.map_or(self.config.burst, |(_, burst)| burst.min(self.config.burst))
    }

    fn pass_down(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        let dropped_before = cx.dropped.len();
        let verdict = self.child.enqueue(packet, cx);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        verdict
    }

    /// A super-packet beyond the burst goes in piece by piece (`tbf_segment`).
    fn pass_segments(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Enqueue {
        let mut queued = 0;
        for segment in packet.segment() {
            queued += u32::from(self.pass_down(segment, cx) == Enqueue::Queued);
        }
        if queued > 0 { Enqueue::Queued } else { Enqueue::Dropped }
    }

    /// Waits for the missing ns of whichever bucket misses more.
    fn wait(&mut self, now: Instant, tokens: i64, peak_tokens: i64) {
        let missing = tokens.min(peak_tokens).unsigned_abs();
        self.watchdog = Some(now + Duration::from_nanos(missing));
        self.stats.overlimits += 1;
    }

    /// `tbf_dequeue` once a packet of `len` bytes is known to wait: takes the tokens, or arms the
    /// watchdog and gives false.
    fn take_tokens(&mut self, now: Instant, len: u32) -> bool {
        let elapsed = now.saturating_since(self.counted_at).as_nanos().min(i64::MAX as u64) as i64;
        let elapsed = elapsed.min(self.bucket.depth);
        let tokens = self.bucket.after(elapsed, len);
        let peak_tokens = self.peak.map_or(0, |peak| peak.after(elapsed, len));
        if tokens < 0 || peak_tokens < 0 {
            self.wait(now, tokens, peak_tokens);
            return false;
        }
        self.counted_at = now;
        self.bucket.tokens = tokens;
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak_tokens;
        }
        true
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        if packet.wire_len() <= self.max_size() {
            return self.pass_down(packet, cx);
        }
        if packet.segments() > 1
            && packet.header_len() + u32::from(packet.meta.gso_size) <= self.max_size()
        {
            return self.pass_segments(&packet, cx);
        }
        self.stats.drops += 1;
        cx.drop(Reason::QdiscDrop, packet);
        Enqueue::Dropped
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.watchdog = None;
        self.asked_at = cx.now;
        let dropped_before = cx.dropped.len();
        let waiting = self.child.peek(cx).map(Packet::wire_len);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        if !self.take_tokens(cx.now, waiting?) {
            return None;
        }
        let packet = self.child.dequeue(cx)?;
        self.stats.count_sent(&packet);
        Some(packet)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.child.purge(cx);
        (self.counted_at, self.watchdog) = (cx.now, None);
        for bucket in [&mut self.bucket].into_iter().chain(&mut self.peak) {
            bucket.tokens = bucket.depth;
        }
    }

    /// A watchdog fires once. If the inner one has fired while a packet waited here for tokens, the inner qdisc is
    /// dequeued again when that packet has left.
    fn wake_at(&self) -> Option<Instant> {
        let inner = self.child.wake_at().filter(|at| *at > self.asked_at);
        self.watchdog.into_iter().chain(inner).min()
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
    use super::super::fifo::{Fifo, FifoKind};
    use super::super::testing::{Bench, frame, super_frame};
    use super::*;
    use crate::units::Rate;
    use proptest::prelude::*;

    fn tbf(mbit: u64, burst: u32, limit: u32) -> Tbf {
        let config =
            TbfConfig { rate: RateConfig::new(Rate::from_mbit(mbit)), burst, peak: None, limit };
        Tbf::new(config, Fifo::new(FifoKind::Bytes(limit)).into())
    }

    /// Recorded from Linux 6.1: `tbf rate 10mbit burst 3100`, ten frames at once into a bucket
    /// that a 74 and a 66 byte frame had drawn on before. Two fit the burst, the third waits
    /// for the 1153 B that are missing, the others follow at 10 Mbit/s.
    #[test]
    fn departures_of_a_burst_are_exact() {
        let mut bench = Bench::new(tbf(10, 3100, 60_000));
        let mut arrivals = vec![(100_300_004, 74), (110_300_004, 66)];
        arrivals.extend([(110_300_010, 1514); 2]);
        arrivals.extend([(110_300_011, 1514); 8]);
        let packets = arrivals.iter().map(|&(at, len)| (at, frame(len)));
        let left: Vec<u64> = bench.run(packets).into_iter().map(|(at, _)| at).collect();
        let queued = (0..8).map(|nth| 111_506_404 + nth * 1_211_200);
        let expected: Vec<u64> = arrivals[..4].iter().map(|&(at, _)| at).chain(queued).collect();
        assert_eq!(left, expected);
        assert_eq!(bench.qdisc().stats().packets, 12);
    }

    #[test]
    fn a_packet_beyond_the_burst_never_passes() {
        let mut bench = Bench::new(tbf(10, 1500, 60_000));
        assert_eq!(bench.enqueue(0, frame(1514)), Enqueue::Dropped);
        assert_eq!(bench.enqueue(0, frame(1500)), Enqueue::Queued);
        assert_eq!(bench.qdisc().stats().drops, 1);
    }

    #[test]
    fn a_super_packet_beyond_the_burst_is_cut() {
        let mut bench = Bench::new(tbf(10, 3100, 60_000));
        assert_eq!(bench.enqueue(0, super_frame(2, 1448)), Enqueue::Queued);
        assert_eq!(bench.enqueue(0, super_frame(4, 1448)), Enqueue::Queued);
        assert_eq!(bench.qdisc().backlog().packets, 5, "3004 B fit the burst, 6008 B do not");
        assert_eq!(bench.enqueue(0, super_frame(4, 3100)), Enqueue::Dropped);
    }

    #[test]
    fn the_peak_rate_spaces_what_the_bucket_allows() {
        let mut config = *tbf(1, 10_000, 60_000).config();
        config.peak = Some((RateConfig::new(Rate::from_mbit(8)), 1514));
        let child = Fifo::new(FifoKind::Bytes(60_000)).into();
        let mut bench = Bench::new(Tbf::new(config, child));
        let left = bench.run((0..3).map(|_| (1_000_000_000, frame(1000))));
        // 1514 B of peak credit let 1000 B go; then 486 B are missing, then 1000 B: 1 µs a byte.
        let at: Vec<u64> = left.iter().map(|(at, _)| at - 1_000_000_000).collect();
        assert_eq!(at, [0, 486_000, 1_486_000]);
    }

    proptest! {
        /// Whatever arrives, no window of time sees more than rate · t + burst leave.
        #[test]
        fn conforms_to_its_bucket(
            mbit in 1u64..1000,
            burst in 1514u32..20_000,
            arrivals in prop::collection::vec((0u64..3_000_000, 60u32..1514), 1..60),
        ) {
            let mut bench = Bench::new(tbf(mbit, burst, 30_000));
            let mut at = 0;
            let packets: Vec<_> = arrivals.into_iter().map(|(gap, len)| {
                at += gap;
                (at, frame(len))
            }).collect();
            let left = bench.run(packets);
            for first in 0..left.len() {
                let mut bytes = 0;
                for (at, packet) in &left[first..] {
                    bytes += u64::from(packet.len());
                    // Each packet's time is cut by less than one ns.
                    let span = at - left[first].0 + left.len() as u64;
                    let allowed = span * mbit / 8_000 + u64::from(burst) + 1;
                    prop_assert!(bytes <= allowed, "{bytes} B in {span} ns, {allowed} allowed");
                }
            }
        }
    }
}
