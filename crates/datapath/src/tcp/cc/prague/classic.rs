//! Detects whether the marking queue is a classic one (RFC 3168), in which a scalable flow would take more than its share.
//! (draft-briscoe-iccrg-prague-congestion-control, section 3.3; the rule is of its reference \[ecn-fallback\],
//! arXiv:1911.00710, version 2.)
//!
//! The difference is delay. A queue for L4S marks from about a millisecond on, so round trips
//! vary by less than that and stay near the lowest; a classic one lets flows fill many milliseconds. Once
//! per round trip a score changes by the binary logarithm of both values relative to a reference: it is 0 for a clear
//! L4S queue, and well beyond [`STICKY`] the queue is classic.

use super::{ONE, PLACES};
use crate::tcp::cc::Ack;

/// Binary places of logarithms and of the score.
pub const LG_PLACES: u32 = 10;
/// One doubling.
const DOUBLING: i64 = 1 << LG_PLACES;
/// Maximum mean deviation of round trips in an L4S queue, µs.
const DEVIATION_REF_US: u64 = 750;
/// Maximum delay of an L4S queue, µs.
const DEPTH_REF_US: u64 = 2_000;
/// A doubling of either moves the score by 1/2.
const WEIGHT_SHIFT: u32 = 1;
/// How far the score may go beyond the transition on both sides, so that a few unusual round trips change nothing.
const STICKY: i64 = 8 * DOUBLING;
/// Width of the transition between the two.
const TRANSITION: i64 = DOUBLING;
/// Binary places of the averages of round trips.
const MEAN_PLACES: u32 = 16;
/// Smallest shift of the averages.
const GAIN_SHIFT_MIN: u32 = 4;
/// Largest shift of the averages.
const GAIN_SHIFT_MAX: u32 = 18;

/// What one connection knows of the queue that marks its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detector {
    /// The average of the round trips, 2^-16 µs; none before the first.
    mean: Option<i64>,
    /// Their average distance from it.
    deviation: i64,
    /// A sample weighs 1/2^this.
    gain_shift: u32,
    /// 0: certainly L4S.
    score: i64,
}

impl Default for Detector {
    fn default() -> Self {
        Self { mean: None, deviation: 0, gain_shift: GAIN_SHIFT_MIN, score: 0 }
    }
}

impl Detector {
    /// A round trip was measured. The deviation's average is half as fast as that of the round trips.
    pub fn sample(&mut self, rtt_us: u32) {
        let rtt = i64::from(rtt_us) << MEAN_PLACES;
        let Some(mean) = self.mean else {
            self.mean = Some(rtt);
            return;
        };
        let off = rtt - mean;
        self.mean = Some(mean + (off >> self.gain_shift));
        self.deviation += (off.abs() - self.deviation) >> (self.gain_shift + 1);
    }

    /// Updates the score after a round trip on a path that marks.
    pub fn update_score(&mut self, ack: &Ack, cwnd: u32) {
        // Twice the square root of the window round trips, in samples: the saw teeth of a classic flow
        // last longer than a round trip.
        let doublings = cwnd.max(1).ilog2();
        self.gain_shift = (1 + doublings + doublings / 2).clamp(GAIN_SHIFT_MIN, GAIN_SHIFT_MAX);
        let Some(mean) = self.mean else { return };
        let deviation = (self.deviation >> MEAN_PLACES).max(1) as u64;
        self.score += (lg(deviation) - lg(DEVIATION_REF_US)) >> WEIGHT_SHIFT;
        // A deep queue indicates a classic one, but a shallow queue does not indicate the opposite.
        let depth = (mean >> MEAN_PLACES).saturating_sub(i64::from(ack.min_rtt_us)).max(1) as u64;
        self.score += (lg(depth) - lg(DEPTH_REF_US)).max(0) >> WEIGHT_SHIFT;
        self.score = self.score.clamp(0, 2 * STICKY + TRANSITION);
    }

    /// How certainly the queue is classic: 0 to [`ONE`].
    pub fn certainty(&self) -> u64 {
        let beyond = (self.score - STICKY).clamp(0, TRANSITION) as u64;
        const { assert!(TRANSITION == 1 << LG_PLACES && ONE == 1 << PLACES) };
        beyond << (PLACES - LG_PLACES)
    }
}

/// The binary logarithm, with straight lines between powers of two.
pub fn lg(value: u64) -> i64 {
    let whole = value.max(1).ilog2();
    let rest = u128::from(value.max(1)) << LG_PLACES >> whole;
    (i64::from(whole) << LG_PLACES) + rest as i64 - DOUBLING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::tests_support::ack_at;

    /// The detector after so many round trips of 20 ms and a queue that swings between none and `depth_us`.
    fn after(rounds: u32, depth_us: u32) -> Detector {
        let ack = Ack { min_rtt_us: 20_000, ..ack_at(1_000) };
        let mut detector = Detector::default();
        for _ in 0..rounds {
            for step in 0..32 {
                detector.sample(20_000 + depth_us * step / 32);
            }
            detector.update_score(&ack, 32);
        }
        detector
    }

    #[test]
    fn a_queue_of_a_millisecond_is_for_l4s() {
        assert_eq!(after(100, 1_500).certainty(), 0);
    }

    #[test]
    fn a_queue_that_swings_by_ten_is_classic() {
        assert_eq!(after(100, 10_000).certainty(), ONE);
    }

    /// A few round trips are not enough evidence.
    #[test]
    fn it_takes_several_round_trips() {
        assert_eq!(after(4, 10_000).certainty(), 0);
    }

    /// A classic queue is left, and the path is one of L4S again.
    #[test]
    fn it_changes_its_mind() {
        let ack = Ack { min_rtt_us: 20_000, ..ack_at(1_000) };
        let mut detector = after(100, 10_000);
        for _ in 0..100 {
            for _ in 0..32 {
                detector.sample(20_500);
            }
            detector.update_score(&ack, 32);
        }
        assert_eq!(detector.certainty(), 0);
    }

    #[test]
    fn logarithms_are_of_two() {
        for (value, expected) in [(0, 0), (1, 0), (2, 1_024), (3, 1_536), (1_024, 10_240)] {
            assert_eq!(lg(value), expected, "{value}");
        }
    }
}
