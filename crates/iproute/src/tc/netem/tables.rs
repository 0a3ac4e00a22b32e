//! Delay distributions, computed where tc reads them from files: inverse cumulative
//! distributions at 4096 even steps, in units of the jitter over 8192. Each is computed once.

use datapath::qdisc::netem::{DelayTable, TABLE_SCALE};
use std::sync::OnceLock;

const ENTRIES: u32 = 4096;

/// The normal distribution.
pub(super) fn normal() -> DelayTable {
    static TABLE: OnceLock<DelayTable> = OnceLock::new();
    TABLE.get_or_init(|| table(normal_quantile)).clone()
}

/// Pareto with shape 3, less its mean and scaled by 4/3, so that jitter is near the deviation.
pub(super) fn pareto() -> DelayTable {
    static TABLE: OnceLock<DelayTable> = OnceLock::new();
    TABLE.get_or_init(|| table(pareto_quantile)).clone()
}

/// Three parts Pareto, one part normal.
pub(super) fn paretonormal() -> DelayTable {
    static TABLE: OnceLock<DelayTable> = OnceLock::new();
    let quantile = |share| 0.75 * pareto_quantile(share) + 0.25 * normal_quantile(share);
    TABLE.get_or_init(|| table(quantile)).clone()
}

/// Samples `quantile` in the middle of each step.
fn table(quantile: impl Fn(f64) -> f64) -> DelayTable {
    let entry = |nth: u32| {
        let share = (f64::from(nth) + 0.5) / f64::from(ENTRIES);
        let scaled = (quantile(share) * TABLE_SCALE as f64).round_ties_even();
        scaled.clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
    };
    DelayTable::new((0..ENTRIES).map(entry).collect::<Vec<i16>>())
}

fn pareto_quantile(share: f64) -> f64 {
    ((1.0 - share).powf(-1.0 / 3.0) - 1.5) * 4.0 / 3.0
}

/// The inverse of the normal distribution function by bisection.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_share(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The normal distribution function: 1/2 + φ(x) (x + x³/3 + x⁵/(3·5) + …).
fn normal_share(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for nth in 1..200 {
        term *= x * x / f64::from(2 * nth + 1);
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / core::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right() {
        for (share, expected) in [(0.5, 0.0), (0.841_344_746, 1.0), (0.001_349_898, -3.0)] {
            assert!((normal_quantile(share) - expected).abs() < 1e-6, "{share}");
        }
        assert!((pareto_quantile(1.0 - 1.0 / 3.375)).abs() < 1e-9, "its mean, 1.5, is zero");
    }

    /// The means are near zero, and the normal table's deviation is near one jitter.
    #[test]
    fn tables_are_centred_and_scaled() {
        let mean = |quantile: fn(f64) -> f64| {
            (0..4096).map(|nth| quantile((f64::from(nth) + 0.5) / 4096.0)).sum::<f64>() / 4096.0
        };
        assert!(mean(normal_quantile).abs() < 1e-9);
        assert!(mean(pareto_quantile).abs() < 0.01);
        let square = |x: f64| normal_quantile((x + 0.5) / 4096.0).powi(2);
        let variance = (0..4096).map(|nth| square(f64::from(nth))).sum::<f64>() / 4096.0;
        assert!((variance - 1.0).abs() < 0.01, "{variance}");
        assert_eq!(normal(), normal());
        assert_ne!(pareto(), paretonormal());
    }
}
