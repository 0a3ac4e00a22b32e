//! The controller of pie: a probability of drops from the delay of the queue and how that changes (RFC 8033, sections
//! 4.2 and 5; Linux `include/net/pie.h`).
//!
//! Probabilities are parts of 2⁵⁶, time is counted in the scheduler's ticks of 64 ns (`psched_time_t`). Where the
//! kernel's numbers wrap, these do as well.

use crate::packet::Packet;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// A probability of 1 (`MAX_PROB`).
pub const MAX_PROBABILITY: u64 = u64::MAX >> 8;
/// Bytes that must wait before the drain rate is measured, and over how many it is (`QUEUE_THRESHOLD`).
const QUEUE_THRESHOLD: u32 = 16_384;
/// By how many bits the drain rate is scaled (`PIE_SCALE`).
const SCALE_BITS: u32 = 8;
/// From this delay on the probability grows by 2 % more with each update.
const HIGH_DELAY: PschedTime = PschedTime::of(Duration::from_millis(250));
/// How long nothing is dropped after an idle time.
const BURST_ALLOWANCE: PschedTime = PschedTime::of(Duration::from_millis(150));
/// How many updates scale the gains down by 4 each while the probability is below 1 %, 0.1 % and so on.
const GAIN_STEPS: u32 = 5;

/// A point or span of time in scheduler ticks of 64 ns (`psched_time_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PschedTime(pub u64);

impl PschedTime {
    const SHIFT: u32 = 6;
    const PER_SECOND: u64 = 1_000_000_000 >> Self::SHIFT;

    /// `span` in whole ticks (`PSCHED_NS2TICKS`).
    pub const fn of(span: Duration) -> Self {
        Self(span.as_nanos() >> Self::SHIFT)
    }

    /// The scheduler's clock at `now` (`psched_get_time`).
    pub const fn at(now: Instant) -> Self {
        Self(now.as_nanos() >> Self::SHIFT)
    }

    /// Whole µs of those of its ns that fit in 32 bits, as the kernel shows it.
    pub const fn shown_micros(self) -> u32 {
        (self.0 << Self::SHIFT) as u32 / 1000
    }

    const fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }
}

/// What the controller is configured with (`struct pie_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieParams {
    /// The delay that it aims at.
    pub target: PschedTime,
    /// The weight of what is above the target, in 1/16 Hz, at most 32.
    pub alpha: u32,
    /// The weight of what has changed since the last update, in 1/16 Hz, at most 32.
    pub beta: u32,
    /// Small packets are dropped less often than large ones.
    pub bytemode: bool,
    /// The delay is the backlog over the rate at which the queue drains, not what packets have waited.
    pub dq_rate_estimator: bool,
    /// The largest frame of the device, in bytes (`psched_mtu`).
    pub mtu: u32,
}

/// The state of the controller (`struct pie_vars`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieVars {
    /// The probability of a drop in parts of 2⁵⁶. It may exceed 1 (`prob`).
    pub probability: u64,
    /// The delay of the queue.
    pub qdelay: PschedTime,
    qdelay_old: PschedTime,
    /// How long nothing is dropped yet.
    burst_time: PschedTime,
    /// Probabilities since the last drop, added up.
    accu_prob: u64,
    /// When the last packet left, or when the measurement of the drain rate began.
    dq_tstamp: Option<PschedTime>,
    /// Bytes that have left since then; none: the drain rate is not being measured.
    dq_count: Option<u64>,
    /// Bytes a tick, scaled.
    avg_dq_rate: u32,
}

impl Default for PieVars {
    fn default() -> Self {
        Self {
            probability: 0,
            qdelay: PschedTime::default(),
            qdelay_old: PschedTime::default(),
            burst_time: BURST_ALLOWANCE,
            accu_prob: 0,
            dq_tstamp: None,
            dq_count: None,
            avg_dq_rate: 0,
        }
    }
}

impl PieVars {
    /// The drain rate in byte/s, of which the kernel shows 32 bits.
    pub fn avg_dq_rate(&self) -> u32 {
        ((u64::from(self.avg_dq_rate) * PschedTime::PER_SECOND) >> SCALE_BITS) as u32
    }

    /// As after a time of congestion.
    #[cfg(test)]
    pub(super) fn exhaust_burst_allowance(&mut self, probability: u64, qdelay: PschedTime) {
        (self.probability, self.qdelay, self.burst_time) =
            (probability, qdelay, PschedTime::default());
    }

    /// Begins a new measurement; probability and delays stay (`pie_vars_init`).
    pub(super) fn restart(&mut self) {
        let Self { probability, qdelay, qdelay_old, .. } = *self;
        *self = Self { probability, qdelay, qdelay_old, ..Self::default() };
    }

    /// A packet was dropped: the next one is unlikely to be.
    pub(super) fn note_drop(&mut self) {
        self.accu_prob = 0;
    }

    /// Whether an arriving packet of `len` bytes is to be dropped or marked while `backlog` bytes wait
    /// (`pie_drop_early`).
    pub(super) fn drops_early(
        &mut self,
        params: &PieParams,
        backlog: u32,
        len: u32,
        rng: &mut Rng,
    ) -> bool {
        let is_calm = self.qdelay.0 < params.target.0 / 2 && self.probability < MAX_PROBABILITY / 5;
        if self.burst_time.0 > 0 || is_calm || backlog < params.mtu.wrapping_mul(2) {
            return false;
        }
        let probability = if params.bytemode && len <= params.mtu {
            u64::from(len).wrapping_mul(self.probability / u64::from(params.mtu.max(1)))
        } else {
            self.probability
        };
        self.accu_prob =
            if probability == 0 { 0 } else { self.accu_prob.wrapping_add(probability) };
        if self.accu_prob < MAX_PROBABILITY / 100 * 85 {
            return false;
        }
        if self.accu_prob >= MAX_PROBABILITY / 2 * 17 {
            return true;
        }
        let strikes = rng.next_u64() >> 8 < probability;
        if strikes {
            self.note_drop();
        }
        strikes
    }

    /// `packet` has left, and `backlog` bytes still wait (`pie_process_dequeue`).
    pub(super) fn note_dequeue(
        &mut self,
        params: &PieParams,
        packet: &Packet,
        backlog: u32,
        now: Instant,
    ) {
        let now = PschedTime::at(now);
        let spent = if params.dq_rate_estimator {
            self.measure_drain(packet.len(), backlog, now)
        } else {
            let waited = now.since(PschedTime::at(packet.meta.enqueued_at));
            self.qdelay = if backlog == 0 { PschedTime::default() } else { waited };
            self.dq_tstamp.replace(now).map(|before| ticks_since(before, now))
        };
        self.burst_time.0 = self.burst_time.0.saturating_sub(u64::from(spent.unwrap_or(0)));
    }

    /// Measures how fast a long queue drains. Returns the ticks that a finished measurement took.
    fn measure_drain(&mut self, len: u32, backlog: u32, now: PschedTime) -> Option<u32> {
        if backlog >= QUEUE_THRESHOLD && self.dq_count.is_none() {
            (self.dq_tstamp, self.dq_count) = (Some(now), Some(0));
        }
        let count = self.dq_count.as_mut()?;
        *count = count.wrapping_add(u64::from(len));
        if *count < u64::from(QUEUE_THRESHOLD) {
            return None;
        }
        let ticks = ticks_since(self.dq_tstamp?, now);
        let rate = ((*count << SCALE_BITS) as u32).checked_div(ticks)?;
        self.avg_dq_rate = match self.avg_dq_rate {
            0 => rate,
            average => (average - (average >> 3)).wrapping_add(rate >> 3),
        };
        if backlog < QUEUE_THRESHOLD {
            self.dq_count = None;
        } else {
            (self.dq_tstamp, self.dq_count) = (Some(now), Some(0));
        }
        Some(ticks)
    }

    /// One tick of the timer (`pie_calculate_probability`; RFC 8033, section 4.2).
    pub(super) fn update(&mut self, params: &PieParams, backlog: u32) {
        let (qdelay, qdelay_old) = if params.dq_rate_estimator {
            self.qdelay_old = self.qdelay;
            let ticks = (backlog << SCALE_BITS).checked_div(self.avg_dq_rate).unwrap_or(0);
            (PschedTime(u64::from(ticks)), self.qdelay)
        } else {
            (self.qdelay, self.qdelay_old)
        };
        let [alpha, beta] = self.gains(params);
        let above = alpha.wrapping_mul(qdelay.since(params.target).0);
        let change = beta.wrapping_mul(qdelay.since(qdelay_old).0);
        let is_at_most = self.step(above.wrapping_add(change) as i64, qdelay);

        // A delay of zero beside a backlog only means that little waits.
        let is_small = qdelay == PschedTime::default() && backlog != 0;
        let both_zero = qdelay == PschedTime::default() && qdelay_old == PschedTime::default();
        if both_zero && !is_small && !is_at_most {
            self.probability -= self.probability / 64;
        }
        self.qdelay = qdelay;
        let is_low = |delay: PschedTime| delay.0 < params.target.0 / 2;
        if is_low(self.qdelay)
            && is_low(self.qdelay_old)
            && self.probability == 0
            && (!params.dq_rate_estimator || self.avg_dq_rate > 0)
        {
            self.restart();
        }
        if !params.dq_rate_estimator {
            self.qdelay_old = qdelay;
        }
    }

    /// The gains in parts of 2⁵⁶ a tick, smaller where the probability is small (RFC 8033, section 4.2).
    fn gains(&self, params: &PieParams) -> [u64; 2] {
        let mut shift = 4;
        if self.probability < MAX_PROBABILITY / 10 {
            shift += 1;
            let mut power = 100;
            for _ in 0..GAIN_STEPS {
                if self.probability >= MAX_PROBABILITY / power {
                    break;
                }
                shift += 2;
                power *= 10;
            }
        }
        [params.alpha, params.beta]
            .map(|gain| (u64::from(gain) * (MAX_PROBABILITY / PschedTime::PER_SECOND)) >> shift)
    }

    /// Adds `delta` to the probability: in steps of at most 2 %, of 2 % more where the delay is high. True if it was
    /// at its maximum.
    fn step(&mut self, delta: i64, qdelay: PschedTime) -> bool {
        const TWO_PER_CENT: i64 = (MAX_PROBABILITY / 50) as i64;
        let mut delta = delta;
        if delta > TWO_PER_CENT && self.probability >= MAX_PROBABILITY / 10 {
            delta = (MAX_PROBABILITY / 100 * 2) as i64;
        }
        if qdelay > HIGH_DELAY {
            delta = delta.wrapping_add(TWO_PER_CENT);
        }
        let before = self.probability;
        self.probability = before.wrapping_add_signed(delta);
        let overflows = delta > 0 && self.probability < before;
        if overflows {
            self.probability = MAX_PROBABILITY;
        } else if delta <= 0 && self.probability > before {
            self.probability = 0;
        }
        overflows
    }
}

/// Of which the kernel keeps 32 bits.
fn ticks_since(before: PschedTime, now: PschedTime) -> u32 {
    now.since(before).0 as u32
}

#[cfg(test)]
mod tests {
    use super::super::PieConfig;
    use super::*;

    fn ticks(millis: u64) -> PschedTime {
        PschedTime::of(Duration::from_millis(millis))
    }

    /// By hand: below one millionth the gains are 2 and 20 sixteenths, halved once and quartered five times.
    #[test]
    fn the_probability_follows_the_delay_and_its_change() {
        let params = PieConfig::new(1514).params;
        let mut vars = PieVars { qdelay: ticks(25), ..PieVars::default() };
        vars.update(&params, 1514);
        let first = 281_474 * 156_250 + 2_814_749 * 390_625;
        assert_eq!(vars.probability, first);
        // As long as before: the integral part alone, quartered three times between 0.001 % and 0.01 %.
        assert!((MAX_PROBABILITY / 100_000..MAX_PROBABILITY / 10_000).contains(&first));
        vars.update(&params, 1514);
        assert_eq!(vars.probability - first, 4_503_599 * 156_250);
    }

    /// RFC 8033, sections 5.2 and 5.6: by at most 2 % from a tenth on, by 2 % more above 250 ms, and down by a 64th while
    /// nothing waits.
    #[test]
    fn the_probability_changes_in_limited_steps() {
        // In per cent: before; the delay in ms, now and at the last update; bytes that wait; in per cent, after.
        for (before, qdelay, qdelay_old, backlog, after) in [
            (50.0, 200, 15, 1514, 52.0),
            (50.0, 260, 15, 1514, 54.0),
            (5.0, 200, 15, 1514, 5.0 + (2.0 + 20.0) / 16.0 / 2.0 * 18.5),
            // 2/16 Hz of 15 ms less, and then a 64th.
            (50.0, 0, 0, 0, (50.0 - 0.1875) * 63.0 / 64.0),
            (50.0, 0, 0, 100, 50.0 - 0.1875),
            (0.1, 0, 15, 0, 0.0),
        ] {
            let mut vars = PieVars {
                probability: (MAX_PROBABILITY as f64 * before / 100.0) as u64,
                qdelay: ticks(qdelay),
                qdelay_old: ticks(qdelay_old),
                ..PieVars::default()
            };
            vars.update(&PieConfig::new(1514).params, backlog);
            let is = vars.probability as f64 / MAX_PROBABILITY as f64 * 100.0;
            assert!((is - after).abs() < 1e-3, "{before} % at {qdelay} ms: {is} %, not {after} %");
        }
    }

    /// Beyond certainty it grows until 64 bits overflow, and is 1 then.
    #[test]
    fn the_probability_may_exceed_one() {
        let mut vars = PieVars { qdelay: ticks(300), ..PieVars::default() };
        let mut before = 0;
        for _ in 0..1000 {
            vars.update(&PieConfig::new(1514).params, 1_000_000);
            before = vars.probability;
        }
        assert!(before > MAX_PROBABILITY, "{before}");
        vars.probability = u64::MAX - 1;
        vars.update(&PieConfig::new(1514).params, 1_000_000);
        assert_eq!(vars.probability, MAX_PROBABILITY);
    }
}
