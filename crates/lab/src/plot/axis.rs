//! Ticks at round numbers, and numbers in the unit that reads best.

/// A range of values with ticks at round numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The value at the start.
    pub low: f64,
    /// The value at the end.
    pub high: f64,
    /// Values of the ticks.
    pub ticks: Vec<f64>,
    decimals: usize,
}

impl Axis {
    /// About `wanted` ticks from `low` to `high`, both widened to round numbers.
    pub fn round(low: f64, high: f64, wanted: usize) -> Self {
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let step = round_step(span / wanted as f64);
        let first = (low / step).floor();
        let last = if high > low { (high / step - 1e-9).ceil() } else { first + 1.0 };
        let ticks = (0..=(last - first) as usize).map(|k| (first + k as f64) * step).collect();
        let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
        Self { low: first * step, high: last * step, ticks, decimals }
    }

    /// As [`Axis::round`], but ending exactly at `low` and `high` (time axes).
    pub fn exact(low: f64, high: f64, wanted: usize) -> Self {
        let mut axis = Self::round(low, high, wanted);
        axis.ticks.retain(|tick| (low..=high).contains(tick));
        if high > low {
            (axis.low, axis.high) = (low, high);
        }
        axis
    }

    /// Where `value` lies, 0 at the start and 1 at the end.
    pub fn fraction(&self, value: f64) -> f32 {
        ((value - self.low) / (self.high - self.low)) as f32
    }

    /// A tick's number.
    pub fn label(&self, tick: f64) -> String {
        grouped(tick, self.decimals)
    }
}

/// The nearest of 1, 2 or 5 times a power of ten that is not smaller.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A number with its thousands apart from 10 000 on.
pub fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let plain = if plain.trim_start_matches('-').trim_matches(['0', '.']).is_empty() {
        plain.trim_start_matches('-').to_string()
    } else {
        plain
    };
    if value.abs() < 10_000.0 {
        return plain.replace('-', "\u{2212}");
    }
    let (whole, rest) = plain.split_once('.').map_or((plain.as_str(), None), |(w, r)| (w, Some(r)));
    let digits = whole.trim_start_matches('-');
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    let sign = if whole.starts_with('-') { "\u{2212}" } else { "" };
    match rest {
        Some(rest) => format!("{sign}{out}.{rest}"),
        None => format!("{sign}{out}"),
    }
}

/// A scale for values up to `largest`: the divisor and the prefix before the unit.
pub fn prefix(largest: f64) -> (f64, &'static str) {
    match largest.abs() {
        x if x >= 2e9 => (1e9, "G"),
        x if x >= 2e6 => (1e6, "M"),
        x if x >= 2e3 => (1e3, "k"),
        _ => (1.0, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let axis = Axis::round(0.0, 483.0, 5);
        assert_eq!(axis.ticks, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(axis.label(300.0), "300");
        let fine = Axis::round(0.0, 0.37, 5);
        assert_eq!(fine.ticks.len(), 5);
        assert_eq!(fine.label(fine.ticks[3]), "0.3");
        let time = Axis::exact(0.0, 17.3, 6);
        assert!((time.high - 17.3).abs() < 1e-12);
        assert_eq!(time.ticks, [0.0, 5.0, 10.0, 15.0]);
    }

    #[test]
    fn a_range_without_width_still_has_an_axis() {
        for value in [0.0, 7.0, -3.0] {
            let axis = Axis::round(value, value, 5);
            assert!(axis.high > axis.low && axis.ticks.len() >= 2, "{axis:?}");
            assert!(axis.fraction(value).is_finite());
        }
    }

    #[test]
    fn numbers_are_grouped_and_minus_zero_is_zero() {
        assert_eq!(grouped(1234567.0, 0), "1 234 567");
        assert_eq!(grouped(-12345.5, 1), "\u{2212}12 345.5");
        assert_eq!(grouped(9999.0, 0), "9999");
        assert_eq!(grouped(-0.001, 1), "0.0");
    }
}
