//! The PI controller of dualpi2: one base probability from the delay of both queues (RFC 9332, appendix A.1;
//! `calculate_probability`).

use super::DualPi2Config;
use crate::qdisc::ticks::Ticks;
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// A gain of the controller in parts of 2³² of a probability per 64 ns of delay (`pi2_alpha`, `pi2_beta`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain(u32);

/// A difference of delays is divided by this after it was multiplied by a gain (`ALPHA_BETA_GRANULARITY`).
const GRANULARITY_BITS: u32 = 6;
/// By how much finer the unit here is than that of the configuration (`ALPHA_BETA_SCALING`).
const SCALING_BITS: u32 = 2;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Gain {
    /// The largest one that can be configured, in 1/256 Hz (`ALPHA_BETA_MAX`).
    pub const MAX: u32 = (1 << 31) - 1;

    /// From 1/256 Hz, the unit in which tc sends it (`dualpi2_scale_alpha_beta`).
    pub const fn from_256th_hz(value: u32) -> Self {
        let scaled = (value as u64 * u32::MAX as u64) >> SCALING_BITS;
        Self((scaled / NANOS_PER_SECOND) as u32)
    }

    /// In 1/256 Hz, which may be one less than what was configured (`dualpi2_unscale_alpha_beta`).
    pub const fn to_256th_hz(self) -> u32 {
        (((self.0 as u64 * NANOS_PER_SECOND) << SCALING_BITS) / u32::MAX as u64) as u32
    }
}

/// The state of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pi2 {
    /// The base probability in parts of 2³² - 1 (`pi2_prob`).
    pub probability: u32,
    /// The delay at the last update (`last_qdelay`).
    last_delay: Duration,
    updates: Ticks,
}

impl Pi2 {
    /// Makes up for the ticks of the timer up to `now`. Since the last call nothing has come or gone, so what waits has
    /// only become older: `since` is when the packet came that has waited longest.
    pub(super) fn catch_up(
        &mut self,
        config: &DualPi2Config,
        since: Option<Instant>,
        now: Instant,
    ) {
        let mut updates = self.updates;
        updates.catch_up(now, config.tupdate, config.tupdate, |due| {
            let delay = since.map_or(Duration::ZERO, |since| due.saturating_since(since));
            self.update(config, delay);
            since.is_none() && self.probability == 0 && self.last_delay == Duration::ZERO
        });
        self.updates = updates;
    }

    /// One tick of the timer (`calculate_probability`). Delays of many seconds wrap, as in the kernel.
    fn update(&mut self, config: &DualPi2Config, delay: Duration) {
        let difference = |other: Duration, Gain(gain): Gain| {
            let nanos = (delay.as_nanos() as i64).wrapping_sub(other.as_nanos() as i64);
            nanos.wrapping_mul(i64::from(gain))
        };
        let integral = difference(config.target, config.alpha);
        let delta = integral.wrapping_add(difference(self.last_delay, config.beta));
        self.last_delay = delay;
        let step = (delta.unsigned_abs() >> GRANULARITY_BITS) as u32;
        let before = self.probability;
        self.probability = if delta > 0 {
            let more = before.wrapping_add(step);
            if more < before { u32::MAX } else { more }
        } else {
            let less = before.wrapping_sub(step);
            if less > before { 0 } else { less }
        };
        if !config.drop_overload {
            // The low-latency queue is marked with certainty at most, so that windows stay fair in an overflow.
            self.probability = self.probability.min(u32::MAX / u32::from(config.coupling_factor));
        }
    }
}

/// True with a probability of `probability / (2³² - 1)` (`dualpi2_roll`).
pub(super) fn roll(rng: &mut Rng, probability: u32) -> bool {
    rng.next_u32() <= probability
}

/// True with the square of that probability, which is what a classic congestion control responds to like a scalable one
/// to the probability itself.
pub(super) fn roll_squared(rng: &mut Rng, probability: u32) -> bool {
    roll(rng, probability) && roll(rng, probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `tc qdisc show` reads back from the defaults of the kernel, 41 and 819.
    #[test]
    fn gains_are_rounded_down_on_their_way() {
        for (configured, shown) in [(41, 40), (819, 818), (1, 0), (Gain::MAX, Gain::MAX - 1)] {
            assert_eq!(Gain::from_256th_hz(configured).to_256th_hz(), shown, "{configured}");
        }
    }

    /// By hand: 44 and 879 parts of 2³² per 64 ns, a target of 15 ms.
    #[test]
    fn the_probability_follows_the_delay_and_its_change() {
        let config = DualPi2Config::new(1514);
        let mut pi2 = Pi2::default();
        let mut after = |delay_ms: u64| {
            pi2.update(&config, Duration::from_millis(delay_ms));
            pi2.probability
        };
        // 10 ms above the target, 25 ms more than before.
        let first = ((10_000_000 * 44 + 25_000_000 * 879_u64) / 64) as u32;
        assert_eq!(after(25), first);
        // As long as before: the integral part alone.
        let second = first + 6_875_000;
        assert_eq!(after(25), second);
        // At the target, 10 ms less than before.
        let third = second - 137_343_750;
        assert_eq!(after(15), third);
        assert_eq!(after(0), third.saturating_sub(216_328_125));
        assert_eq!(after(0), 0, "not below zero");
    }

    #[test]
    fn without_drops_on_overload_the_marking_stops_at_certainty() {
        for (drop_overload, most) in [(true, u32::MAX), (false, u32::MAX / 2)] {
            let config = DualPi2Config { drop_overload, ..DualPi2Config::new(1514) };
            let mut pi2 = Pi2::default();
            // A queue that grows by 200 ms with each tick.
            for tick in 1..=16 {
                pi2.update(&config, Duration::from_millis(200 * tick));
            }
            assert_eq!(pi2.probability, most);
        }
    }

    /// Updates missed in an idle time are made up for: as if the timer had fired.
    #[test]
    fn ticks_that_nobody_saw_count() {
        let config = DualPi2Config::new(1514);
        let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut seldom = Pi2::default();
        seldom.catch_up(&config, None, ms(0));
        let mut often = seldom;
        for now in 0..=500 {
            often.catch_up(&config, Some(ms(0)), ms(now));
        }
        seldom.catch_up(&config, Some(ms(0)), ms(500));
        assert_eq!(seldom, often);
        assert!(seldom.probability > 0);
        // Hours of silence, in a few steps.
        seldom.catch_up(&config, None, ms(1 << 40));
        assert_eq!((seldom.probability, seldom.last_delay), (0, Duration::ZERO));
    }
}
