//! Statistics over repetitions: means with 95 % confidence intervals, percentiles, fairness.

/// What is known about a quantity after several repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); `None` for a
    /// single value, about whose spread nothing is known.
    pub ci95: Option<f64>,
    /// Standard deviation of the sample.
    pub sd: Option<f64>,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let sd = (n > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares / (n - 1) as f64).sqrt()
        });
        let ci95 = sd.map(|sd| student_t(n - 1) * sd / (n as f64).sqrt());
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { n, mean, ci95, sd, min, max })
    }
}

/// The `share` quantile (0 to 1) of `values` by the nearest rank; `None` if there are none.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
    Some(values[rank.min(values.len()) - 1])
}

/// Jain's fairness index: 1 if all are equal, 1/n if one has everything.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The 0.975 quantile of Student's t distribution, good to seven digits.
///
/// From a table up to 30 degrees of freedom; beyond that by the expansion in the reciprocal (Abramowitz and Stegun,
/// 26.7.5) around the quantile of the normal distribution.
pub fn student_t(degrees: usize) -> f64 {
    assert!(degrees > 0, "no degree of freedom");
    if let Some(t) = T_975.get(degrees - 1) {
        return *t;
    }
    let x = 1.0 / degrees as f64;
    EXPANSION.iter().rev().fold(0.0, |sum, term| sum * x + term)
}

/// Student's t, 0.975 quantile, for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706_204_7,
    4.302_652_7,
    3.182_446_3,
    2.776_445_1,
    2.570_581_8,
    2.446_911_9,
    2.364_624_3,
    2.306_004_1,
    2.262_157_2,
    2.228_138_9,
    2.200_985_2,
    2.178_812_8,
    2.160_368_7,
    2.144_786_7,
    2.131_449_5,
    2.119_905_3,
    2.109_815_6,
    2.100_922_0,
    2.093_024_1,
    2.085_963_4,
    2.079_613_8,
    2.073_873_1,
    2.068_657_6,
    2.063_898_6,
    2.059_538_6,
    2.055_529_4,
    2.051_830_5,
    2.048_407_1,
    2.045_229_6,
    2.042_272_5,
];

/// The 0.975 quantile of the normal distribution, and what the powers of one over the degrees of freedom are multiplied by.
const EXPANSION: [f64; 5] =
    [1.959_963_985, 2.372_271_230, 2.822_498_616, 2.555_849_680, 1.589_534_053];

/// The bits of a number that say what it is to three digits: numbers of so many bits are told from each other, and of larger
/// ones each doubling has 2^10 that are, as in a histogram of three digits.
pub(crate) const DIGIT_BITS: u32 = 11;

/// The bits at the end of a number that three digits do not tell.
#[inline]
pub(crate) fn bits_beyond_digits(number: u64) -> u32 {
    (u64::BITS - DIGIT_BITS).saturating_sub(number.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3, "{a} is not {b}");
    }

    #[test]
    fn a_mean_has_its_confidence_interval() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        near(summary.mean, 3.0);
        near(summary.sd.unwrap(), 1.5811);
        near(summary.ci95.unwrap(), 2.776 * 1.5811 / 5f64.sqrt());
        assert_eq!((summary.min, summary.max, summary.n), (1.0, 5.0, 5));
        assert_eq!(Summary::of(&[7.0]).unwrap().ci95, None);
        assert_eq!(Summary::of(&[]), None);
    }

    /// Beside those of R (`qt(0.975, degrees)`).
    #[test]
    fn student_t_matches_r() {
        for (degrees, t) in [
            (1, 12.706_204_74),
            (9, 2.262_157_16),
            (30, 2.042_272_46),
            (31, 2.039_513_45),
            (40, 2.021_075_38),
            (60, 2.000_297_82),
            (120, 1.979_930_41),
            (1_000_000, 1.959_966_36),
        ] {
            let ours = student_t(degrees);
            assert!((ours - t).abs() < 1e-7, "{degrees}: {ours} is not {t}");
        }
    }

    #[test]
    fn quantiles_take_the_nearest_rank() {
        let mut values = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(quantile(&mut values, 0.5), Some(3.0));
        assert_eq!(quantile(&mut values, 0.0), Some(1.0));
        assert_eq!(quantile(&mut values, 0.99), Some(5.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn jain_runs_from_one_share_to_equal_shares() {
        near(jain(&[4.0, 4.0, 4.0]).unwrap(), 1.0);
        near(jain(&[9.0, 0.0, 0.0]).unwrap(), 1.0 / 3.0);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
