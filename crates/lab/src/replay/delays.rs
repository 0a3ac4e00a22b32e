//! Delays of packets: how many, their sum and the longest exactly, and how they are distributed to three digits.

use std::collections::BTreeMap;

use crate::stats::bits_beyond_digits;

/// Delays in ns. Thousands of flows have such, most of them a few packets: what has no packet takes no room.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    count: u64,
    sum: u128,
    longest: u64,
    /// By the longest delay that is not told from them.
    counts: BTreeMap<u64, u64>,
}

impl Delays {
    /// One more packet.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum += u128::from(ns);
        self.longest = self.longest.max(ns);
        *self.counts.entry(highest_like(ns)).or_default() += 1;
    }

    /// The mean of all, in ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// What this share of all does not exceed, in ns.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        let found = self.counts.iter().find(|(_, count)| {
            passed += **count;
            passed >= wanted
        });
        found.map(|(&highest, _)| highest.min(self.longest))
    }
}

/// The highest number that is the same to three digits.
fn highest_like(ns: u64) -> u64 {
    ns | ((1 << bits_beyond_digits(ns)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mean_and_longest_are_exact_and_the_rest_has_three_digits() {
        let mut delays = Delays::default();
        assert_eq!((delays.mean(), delays.quantile(0.5)), (None, None));
        for ns in 1..=1_234_567 {
            delays.record(ns);
        }
        assert_eq!(delays.mean(), Some(617_284.0));
        assert_eq!(delays.quantile(1.0), Some(1_234_567));
        for (share, exact) in [(0.5, 617_284.0), (0.95, 1_172_838.65), (0.99, 1_222_221.33)] {
            let told = delays.quantile(share).unwrap() as f64;
            assert!((told / exact - 1.0).abs() < 0.001, "{share}: {told}, not {exact}");
        }
    }

    proptest! {
        #[test]
        fn what_is_told_is_no_further_off_than_three_digits(
            some in prop::collection::vec((0u32..63, any::<u64>()), 1..100),
            share in 0.0..=1.0f64,
        ) {
            let mut some: Vec<u64> = some.into_iter().map(|(bits, any)| any >> bits).collect();
            let mut delays = Delays::default();
            for &ns in &some {
                delays.record(ns);
            }
            some.sort_unstable();
            let rank = (some.len() as f64 * share).ceil().max(1.0) as usize;
            let (exact, told) = (some[rank - 1], delays.quantile(share).unwrap());
            prop_assert!(told >= exact && told - exact <= exact / 1_000, "{} {}", told, exact);
            prop_assert_eq!(delays.quantile(1.0), some.last().copied());
        }
    }
}
