//! Links that change over time: rate and delay by a schedule, or opportunities to send.
//!
//! All is known beforehand, so a link needs no events for it: the schedule is read when a packet is put on the
//! link. A packet being serialised keeps its end when the rate changes. A packet takes the delay of the
//! time at which its last bit leaves, so that one behind it may overtake it where the delay has become shorter.

use datapath::units::{Duration, Instant, NANOS_PER_SEC, Rate};
use std::sync::Arc;

/// How a link changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pace: Speed,
    /// Delays, and the times from which they hold.
    delays: Vec<(u64, Duration)>,
    /// When the rates are repeated, ns; [`NEVER`] if they are not.
    period: u64,
    /// When the delays are repeated.
    delay_period: u64,
}

/// Longer than any run.
const NEVER: u64 = u64::MAX;

/// Nothing changes.
impl Default for Schedule {
    fn default() -> Self {
        Self { pace: Speed::Constant, delays: Vec::new(), period: NEVER, delay_period: NEVER }
    }
}

/// The capacity of a link over time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
enum Speed {
    /// As it is configured.
    #[default]
    Constant,
    /// Rates, and the times from which they hold; with the capacity so far, in bits times ns per second.
    Rates(Vec<(u64, Rate, u128)>),
    /// At each of these times a packet of [`OPPORTUNITY`] bytes may leave.
    Opportunities(Vec<u64>),
}

/// Bytes that leave at one opportunity (Mahimahi, USENIX ATC 2015: `PACKET_SIZE`).
pub const OPPORTUNITY: u32 = 1500;

/// Whether steps begin at time zero, follow each other, and end before the period does.
fn in_order<T>(steps: &[(Duration, T)], period: Option<Duration>) -> bool {
    steps.first().is_none_or(|first| first.0 == Duration::ZERO)
        && steps.is_sorted_by(|earlier, later| earlier.0 < later.0)
        && period.is_none_or(|period| steps.last().map_or(Duration::ZERO, |last| last.0) < period)
}

impl Schedule {
    /// Rates and delays from certain times on, in order, the first at time zero. With a `period` it
    /// begins again after that, which is later than all steps.
    ///
    /// # Panics
    /// Times out of order, or a period that ends before the last step.
    pub fn new(
        rates: &[(Duration, Rate)],
        delays: &[(Duration, Duration)],
        period: Option<Duration>,
    ) -> Self {
        assert!(in_order(rates, period) && in_order(delays, period), "steps in order of time");
        let mut sum = 0;
        let mut steps: Vec<(u64, Rate, u128)> = Vec::with_capacity(rates.len());
        for (at, rate) in rates {
            if let Some((before, rate, _)) = steps.last() {
                sum += u128::from(at.as_nanos() - before) * u128::from(rate.bits_per_sec());
            }
            steps.push((at.as_nanos(), *rate, sum));
        }
        let period = period.map_or(NEVER, Duration::as_nanos);
        Self {
            pace: if steps.is_empty() { Speed::Constant } else { Speed::Rates(steps) },
            delays: delays.iter().map(|(at, delay)| (at.as_nanos(), *delay)).collect(),
            period,
            delay_period: period,
        }
    }

    /// Opportunities to send [`OPPORTUNITY`] bytes, in order; the last one ends the period, after which
    /// they come again.
    ///
    /// # Panics
    /// Times out of order, none, or none after time zero.
    pub fn opportunities(times: &[Duration]) -> Self {
        assert!(times.is_sorted(), "opportunities in order of time");
        let times: Vec<u64> = times.iter().map(|at| at.as_nanos()).collect();
        let period = times.last().copied().unwrap_or(0);
        assert!(period > 0, "a period takes some time");
        Self { pace: Speed::Opportunities(times), delays: Vec::new(), period, delay_period: NEVER }
    }

    /// The same, with delays that change too. They come once, at their times, however often the rest begins
    /// again; who gives them out of order, or none at time zero, causes a panic.
    #[must_use]
    pub fn with_delays(self, delays: &[(Duration, Duration)]) -> Self {
        assert!(in_order(delays, None), "delays in order of time");
        let delays = delays.iter().map(|(at, delay)| (at.as_nanos(), *delay)).collect();
        Self { delays, delay_period: NEVER, ..self }
    }

    /// True if it determines when packets leave.
    pub fn paces(&self) -> bool {
        self.pace != Speed::Constant
    }

    /// True if the delay changes.
    pub fn delays(&self) -> bool {
        !self.delays.is_empty()
    }

    /// The shortest delay that there will ever be.
    pub fn least_delay(&self) -> Option<Duration> {
        self.delays.iter().map(|(_, delay)| *delay).min()
    }

    /// The highest rate that there will ever be, if rates change.
    pub fn highest_rate(&self) -> Option<Rate> {
        match &self.pace {
            Speed::Rates(steps) => steps.iter().map(|(_, rate, _)| *rate).max(),
            Speed::Constant | Speed::Opportunities(_) => None,
        }
    }

    /// How often the rates have been repeated by `now`, and for how long since then, in ns.
    fn repetition_at(&self, now: Instant) -> (u64, u64) {
        let nanos = (now - Instant::ZERO).as_nanos();
        (nanos / self.period, nanos % self.period)
    }

    /// The delay of a packet that leaves at `now`.
    pub(crate) fn delay_at(&self, now: Instant) -> Duration {
        let nanos = (now - Instant::ZERO).as_nanos() % self.delay_period;
        let behind = self.delays.partition_point(|(at, _)| *at <= nanos);
        self.delays[behind - 1].1
    }

    /// The rate for a packet that begins at `now`, if there are rates.
    pub(crate) fn rate_at(&self, now: Instant) -> Option<Rate> {
        let Speed::Rates(steps) = &self.pace else { return None };
        let (_, nanos) = self.repetition_at(now);
        let behind = steps.partition_point(|(at, ..)| *at <= nanos);
        Some(steps[behind - 1].1)
    }

    /// How many bytes could have left by `now`.
    pub(crate) fn capacity_by(&self, now: Instant) -> Option<u64> {
        let (turns, nanos) = self.repetition_at(now);
        match &self.pace {
            Speed::Constant => None,
            Speed::Rates(steps) => {
                let until = |nanos: u64| {
                    let behind = steps.partition_point(|(at, ..)| *at <= nanos);
                    let (at, rate, sum) = steps[behind - 1];
                    sum + u128::from(nanos - at) * u128::from(rate.bits_per_sec())
                };
                let whole = if turns > 0 { u128::from(turns) * until(self.period) } else { 0 };
                Some(((whole + until(nanos)) / (8 * u128::from(NANOS_PER_SEC))) as u64)
            }
            Speed::Opportunities(times) => {
                let so_far = times.partition_point(|at| *at <= nanos) as u64;
                // The last one of a period comes at the beginning of the next.
                Some((turns * times.len() as u64 + so_far) * u64::from(OPPORTUNITY))
            }
        }
    }
}

/// The position of a link in its opportunities.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleCursor {
    pub schedule: Arc<Schedule>,
    /// How often the schedule has been repeated, and the next opportunity.
    turns: u64,
    next: usize,
    /// Bytes that may still leave at the one before it.
    left: u32,
    at: Instant,
}

impl ScheduleCursor {
    pub fn new(schedule: Arc<Schedule>) -> Self {
        Self { schedule, turns: 0, next: 0, left: 0, at: Instant::ZERO }
    }

    /// When the last of `size` bytes leaves that may begin at `start`, and so not before what came
    /// earlier. What an opportunity has left serves those behind at the same time, and is lost then.
    pub fn leave(&mut self, start: Instant, size: u32) -> Instant {
        if self.at < start {
            self.left = 0;
            self.skip_to(start);
        }
        let mut need = size;
        loop {
            let taken = need.min(self.left);
            self.left -= taken;
            need -= taken;
            if need == 0 {
                return self.at.max(start);
            }
            self.take_next();
        }
    }

    fn times(&self) -> &[u64] {
        match &self.schedule.pace {
            Speed::Opportunities(times) => times,
            _ => unreachable!("asked of opportunities alone"),
        }
    }

    /// Whole unused periods are skipped by arithmetic, not counted one by one.
    fn skip_to(&mut self, start: Instant) {
        let (mut turns, mut nanos) = self.schedule.repetition_at(start);
        if turns > 0 && nanos == 0 {
            // The last opportunity of a period is at the time at which the next one begins.
            (turns, nanos) = (turns - 1, self.schedule.period);
        }
        let next = self.times().partition_point(|at| *at < nanos);
        if (turns, next) > (self.turns, self.next) {
            (self.turns, self.next) = (turns, next);
        }
    }

    fn take_next(&mut self) {
        let after = self.turns * self.schedule.period + self.times()[self.next];
        self.at = Instant::ZERO + Duration::from_nanos(after);
        self.left = OPPORTUNITY;
        self.next += 1;
        if self.next == self.times().len() {
            (self.turns, self.next) = (self.turns + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    #[test]
    fn rates_and_delays_come_again_after_the_period() {
        let rates = [(ms(0), Rate::from_mbit(8)), (ms(10), Rate::from_mbit(80))];
        let delays = [(ms(0), ms(5)), (ms(15), ms(2))];
        let schedule = Schedule::new(&rates, &delays, Some(ms(20)));
        for (now, mbit, delay) in [(0, 8, 5), (9, 8, 5), (10, 80, 5), (15, 80, 2), (20, 8, 5)] {
            assert_eq!(schedule.rate_at(at(now)), Some(Rate::from_mbit(mbit)), "{now}");
            assert_eq!(schedule.delay_at(at(now)), ms(delay), "{now}");
        }
        // 8 Mbit/s are 1000 bytes a ms.
        for (now, bytes) in [(0, 0), (5, 5_000), (10, 10_000), (20, 110_000), (45, 225_000)] {
            assert_eq!(schedule.capacity_by(at(now)), Some(bytes), "{now}");
        }
        assert_eq!(schedule.least_delay(), Some(ms(2)));
    }

    #[test]
    #[should_panic(expected = "delays in order of time")]
    fn delays_of_a_trace_begin_at_time_zero() {
        let _ = Schedule::opportunities(&[ms(1)]).with_delays(&[(ms(1), ms(5))]);
    }

    #[test]
    fn packets_share_opportunities_and_unused_ones_are_lost() {
        let schedule = Schedule::opportunities(&[ms(1), ms(3), ms(3), ms(10)]);
        let mut place = ScheduleCursor::new(Arc::new(schedule));
        let leaves: Vec<Instant> = [(0, 1000), (1, 500), (1, 1500), (3, 1600), (10, 100)]
            .map(|(start, size)| place.leave(at(start), size))
            .to_vec();
        // The second has what the first left; the fourth needs a part of the last opportunity.
        assert_eq!(leaves, [at(1), at(1), at(3), at(10), at(10)]);
        // The trace comes again from 10 ms on, and much of it passes by unused.
        assert_eq!(place.leave(at(12), 1500), at(13));
        assert_eq!(place.leave(at(1_000_000), 1500), at(1_000_000));
        assert_eq!(place.leave(at(1_000_000), 1500), at(1_000_001));
        assert_eq!(place.schedule.capacity_by(at(2)), Some(1500));
        assert_eq!(place.schedule.capacity_by(at(10)), Some(6000));
        assert_eq!(place.schedule.capacity_by(at(13)), Some(10_500));
    }
}
