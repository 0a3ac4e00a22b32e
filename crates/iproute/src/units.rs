//! tc's units: rates, sizes, times and percentages, with its rounding, in and out.
//!
//! tc reads numbers as C doubles and converts times to scheduler ticks of 64 ns before the
//! kernel sees them; both steps cut, and both are reproduced here.

mod number;

pub use number::{decimal, number};
pub(crate) use number::{leading_number, parse_hex, parse_number, parse_signed};

use crate::words::{Result, Word};
use datapath::units::{Duration, Rate};

/// ns of one scheduler tick (`PSCHED_SHIFT`).
const TICK_NANOS: u64 = 64;

const RATE_SUFFIXES: [(&str, f64); 19] = [
    ("", 1.0),
    ("bit", 1.0),
    ("kibit", 1024.0),
    ("kbit", 1e3),
    ("mibit", 1_048_576.0),
    ("mbit", 1e6),
    ("gibit", 1_073_741_824.0),
    ("gbit", 1e9),
    ("tibit", 1_099_511_627_776.0),
    ("tbit", 1e12),
    ("bps", 8.0),
    ("kibps", 8.0 * 1024.0),
    ("kbps", 8e3),
    ("mibps", 8.0 * 1_048_576.0),
    ("mbps", 8e6),
    ("gibps", 8.0 * 1_073_741_824.0),
    ("gbps", 8e9),
    ("tibps", 8.0 * 1_099_511_627_776.0),
    ("tbps", 8e12),
];

const SIZE_SUFFIXES: [(&str, f64); 11] = [
    ("", 1.0),
    ("b", 1.0),
    ("k", 1024.0),
    ("kb", 1024.0),
    ("m", 1_048_576.0),
    ("mb", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("gb", 1_073_741_824.0),
    ("kbit", 128.0),
    ("mbit", 131_072.0),
    ("gbit", 134_217_728.0),
];

/// In microseconds.
const TIME_SUFFIXES: [(&str, f64); 10] = [
    ("", 1.0),
    ("us", 1.0),
    ("usec", 1.0),
    ("usecs", 1.0),
    ("ms", 1e3),
    ("msec", 1e3),
    ("msecs", 1e3),
    ("s", 1e6),
    ("sec", 1e6),
    ("secs", 1e6),
];

/// A rate: bare numbers are bit/s, `bit` counts bits, `bps` counts bytes, `k` is 1000 and `ki`
/// is 1024 (`get_rate64`). Fractions of a byte per second are cut off.
///
/// # Errors
/// Not a number below 2⁶³, or an unknown unit.
pub fn rate(word: Word<'_>) -> Result<Rate> {
    let bits = scaled(word.text, &RATE_SUFFIXES).ok_or_else(|| word.illegal("rate"))?;
    if bits >= 9_223_372_036_854_775_808.0 {
        return Err(word.illegal("rate"));
    }
    Ok(Rate::from_bytes_per_sec((bits / 8.0) as u64))
}

/// A size in bytes: `k`, `kb` and so on are powers of 1024, `kbit` counts bits (`get_size`).
///
/// # Errors
/// Not a number below 2³², or an unknown unit.
pub fn size(word: Word<'_>, what: &str) -> Result<u32> {
    scaled(word.text, &SIZE_SUFFIXES)
        .filter(|bytes| *bytes < 4_294_967_296.0)
        .map(|bytes| bytes as u32)
        .ok_or_else(|| word.illegal(what))
}

/// A size as [`size`], with an optional cell size after a slash that only old kernels used
/// (`get_size_and_cell`).
///
/// # Errors
/// Not a number, an unknown unit, or a cell that is no power of two.
pub fn size_and_cell(word: Word<'_>, what: &str) -> Result<u32> {
    let (bytes, cell) = word.text.split_once('/').unwrap_or((word.text, "1"));
    if !parse_number(cell).is_some_and(u32::is_power_of_two) {
        return Err(word.illegal(what));
    }
    size(Word { text: bytes, ..word }, what).map_err(|_| word.illegal(what))
}

/// A time in whole µs; bare numbers are µs (`get_time`).
///
/// # Errors
/// Not a number, or an unknown unit.
pub fn time(word: Word<'_>, what: &str) -> Result<Duration> {
    let micros = scaled(word.text, &TIME_SUFFIXES).ok_or_else(|| word.illegal(what))?;
    Ok(Duration::from_micros(u64::from(micros as u64 as u32)))
}

/// A time in ns, with `ns` as a further unit (`get_time64`); bare numbers are ns.
///
/// # Errors
/// Not a number, or an unknown unit.
pub fn time64(word: Word<'_>, what: &str) -> Result<Duration> {
    let nanos = scaled(word.text, &[("ns", 1.0), ("nsec", 1.0), ("nsecs", 1.0), ("", 1.0)])
        .or_else(|| scaled(word.text, &TIME_SUFFIXES).map(|micros| micros * 1e3))
        .ok_or_else(|| word.illegal(what))?;
    Ok(Duration::from_nanos(nanos as u64))
}

/// A percentage as parts of 2³² - 1, rounded to the nearest (`get_percent`).
///
/// # Errors
/// Not a number from 0 to 100, with or without `%`.
pub fn percent(word: Word<'_>, what: &str) -> Result<u32> {
    match leading_number(word.text) {
        Some((percent, "" | "%")) if (0.0..=100.0).contains(&percent) => {
            Ok((percent / 100.0 * f64::from(u32::MAX)).round_ties_even() as u32)
        }
        _ => Err(word.illegal(what)),
    }
}

/// What the kernel makes of `time` once tc has sent it as scheduler ticks, 15.625 to the µs.
pub fn through_ticks(time: Duration) -> Duration {
    Duration::from_nanos(ticks(time) * TICK_NANOS)
}

/// How long `size` bytes take at `rate` in ticks, cut to whole µs first (`tc_calc_xmittime`).
pub fn transmit_ticks(rate: Rate, size: u32) -> u64 {
    let micros = 1e6 * (f64::from(size) / rate.bytes_per_sec() as f64);
    ticks(Duration::from_micros(u64::from(micros as u64 as u32)))
}

/// As [`transmit_ticks`], as the kernel sees it.
pub fn transmit_time(rate: Rate, size: u32) -> Duration {
    Duration::from_nanos(transmit_ticks(rate, size) * TICK_NANOS)
}

/// How many bytes pass at `rate` in `time`, as tc shows a bucket: the kernel gives ticks, tc cuts
/// to whole µs (`tc_calc_xmitsize`).
pub fn transmit_size(rate: Rate, time: Duration) -> u32 {
    (rate.bytes_per_sec() as f64 * f64::from(shown_micros(time)) / 1e6) as u32
}

/// `time` as tc shows what the kernel gives in ticks, of which it keeps 32 bits (`PSCHED_NS2TICKS`): whole µs.
pub fn shown_micros(time: Duration) -> u32 {
    let ticks = u64::from((time.as_nanos() / TICK_NANOS) as u32);
    (ticks * 1000 / (1_000_000 / TICK_NANOS)) as u32
}

/// `time`, of which only the whole µs count, as scheduler ticks.
pub fn ticks(time: Duration) -> u64 {
    time.as_micros() * 1000 / TICK_NANOS
}

/// The number in front of one of `suffixes`, scaled; case does not matter.
fn scaled(text: &str, suffixes: &[(&str, f64)]) -> Option<f64> {
    let (number, suffix) = leading_number(text)?;
    let (_, scale) = suffixes.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix))?;
    (number >= 0.0).then_some(number * scale)
}

/// A rate as tc prints it: the largest decimal unit that leaves a whole or a large number.
pub fn show_rate(rate: Rate) -> String {
    let mut bits = rate.bytes_per_sec() * 8;
    let mut units = ["", "K", "M", "G", "T"].iter();
    let mut unit = units.next().expect("a unit");
    for larger in units {
        if bits < 1000 || (!bits.is_multiple_of(1000) && bits < 1_000_000) {
            break;
        }
        bits /= 1000;
        unit = larger;
    }
    format!("{bits}{unit}bit")
}

/// A size as tc prints it: `Kb` and `Mb` where that is nearly exact.
pub fn show_size(bytes: u32) -> String {
    let near = |unit: u32| (f64::from(bytes) / f64::from(unit)).round_ties_even();
    let error = |unit: u32| (near(unit) * f64::from(unit) - f64::from(bytes)).abs();
    if bytes >= 1 << 20 && error(1 << 20) < 1024.0 {
        format!("{}Mb", near(1 << 20))
    } else if bytes >= 1 << 10 && error(1 << 10) < 16.0 {
        format!("{}Kb", near(1 << 10))
    } else {
        format!("{bytes}b")
    }
}

/// A time as tc prints it: three significant digits of seconds or milliseconds, or whole µs.
pub fn show_time(time: Duration) -> String {
    let micros = time.as_micros();
    if micros >= 1_000_000 {
        format!("{}s", three_digits(micros as f64 / 1e6))
    } else if micros >= 1000 {
        format!("{}ms", three_digits(micros as f64 / 1e3))
    } else {
        format!("{micros}us")
    }
}

/// A number as C's `%.3g` prints it.
fn three_digits(value: f64) -> String {
    significant_digits(value, 3)
}

/// A number as C's `%.Ng` prints it, with `digits` for `N`; `%g` alone means 6.
pub fn significant_digits(value: f64, digits: i32) -> String {
    let wanted = digits;
    let digits = format!("{value:.*e}", (wanted - 1) as usize);
    let (_, exponent) = digits.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if !(-4..wanted).contains(&exponent) {
        let (mantissa, _) = digits.split_once('e').expect("an exponent");
        let mantissa = trim_zeros(mantissa.to_owned());
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    trim_zeros(format!("{value:.*}", (wanted - 1 - exponent) as usize))
}

/// A number as C's `%g` prints it, for the magnitudes that percentages have.
pub fn show_percent(parts: u32) -> String {
    let percent = 100.0 * f64::from(parts) / f64::from(u32::MAX);
    if percent == 0.0 {
        return "0%".to_owned();
    }
    let exponent = percent.log10().floor() as i32;
    format!("{}%", trim_zeros(format!("{percent:.*}", (5 - exponent).max(0) as usize)))
}

fn trim_zeros(number: String) -> String {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word<'_> {
        Word { text, column: 0 }
    }

    #[test]
    fn rates_count_bits_or_bytes() {
        for (text, bits) in [
            ("10mbit", 10_000_000),
            ("10Mbit", 10_000_000),
            ("1500", 1496),
            ("5mbps", 40_000_000),
            ("1kibit", 1024),
            ("2.5gbit", 2_500_000_000),
            ("1MiBps", 8_388_608),
            ("4e5", 400_000),
            ("1e3kbit", 1_000_000),
            (".5e3", 496),
            ("0x1p4", 16),
            ("5e10", 50_000_000_000),
        ] {
            assert_eq!(rate(word(text)), Ok(Rate::from_bits_per_sec(bits)), "{text}");
        }
        for text in
            ["10foo", "mbit", "", "-1mbit", "10mb", "1e", "1e3e3", "0x10bit", "5%", "nan", "1e400"]
        {
            assert!(rate(word(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("64kb", 65_536),
            ("64k", 65_536),
            ("3100", 3100),
            ("4Mb", 4 << 20),
            ("8kbit", 1024),
            ("4e5", 400_000),
            ("1e3k", 1_024_000),
            ("0x10k", 16_384),
            ("0x10b", 267),
            ("1.9", 1),
            ("4294967295", u32::MAX),
        ] {
            assert_eq!(size(word(text), "limit"), Ok(bytes), "{text}");
        }
        for text in ["4294967296", "5g", "5tb", "-1", "inf", "1e", "1kib", "1,5"] {
            assert!(size(word(text), "limit").is_err(), "{text}");
        }
        assert_eq!(size_and_cell(word("5k/0x10"), "burst"), Ok(5120));
        assert_eq!(size_and_cell(word("5kb/8"), "burst"), Ok(5120));
        assert!(size_and_cell(word("5kb/7"), "burst").is_err());
    }

    /// What tc 6.1 sends for these words, seen on its netlink socket: 10ms = 156250 ticks, and a
    /// bare 100 = 100 µs = 1562 ticks.
    #[test]
    fn times_pass_through_ticks() {
        for (text, nanos) in [
            ("10ms", 10_000_000),
            ("100", 99_968),
            ("1us", 960),
            ("2s", 2_000_000_000),
            ("1.5ms", 1_500_000 / 64 * 64),
            ("1e3", 1_000_000),
            ("1e-1s", 100_000_000),
            ("0x10ms", 16_000_000),
        ] {
            let time = time(word(text), "delay").map(through_ticks);
            assert_eq!(time, Ok(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(time64(word("5"), "slot"), Ok(Duration::from_nanos(5)));
        assert_eq!(time64(word("1ms"), "slot"), Ok(Duration::from_millis(1)));
        assert_eq!(transmit_ticks(Rate::from_mbit(10_000), 1514), 15);
    }

    #[test]
    fn percentages_round() {
        assert_eq!(percent(word("1%"), "loss"), Ok(42_949_673));
        assert_eq!(percent(word("0.3"), "loss"), Ok(12_884_902));
        assert_eq!(percent(word("100%"), "loss"), Ok(u32::MAX));
        assert_eq!(percent(word("1e-1%"), "loss"), Ok(4_294_967));
        for text in ["101%", "100.0000001", "-1%", "5%%", "1x", "%", "nan"] {
            assert!(percent(word(text), "loss").is_err(), "{text}");
        }
        assert_eq!(show_percent(42_949_673), "1%");
        assert_eq!(show_percent(12_884_902), "0.3%");
        assert_eq!(show_percent(u32::MAX), "100%");
    }

    #[test]
    fn output_is_rounded_as_tc_does() {
        assert_eq!(show_rate(Rate::from_mbit(10_000)), "10Gbit");
        assert_eq!(show_rate(Rate::from_bits_per_sec(1_544_000)), "1544Kbit");
        assert_eq!(show_rate(Rate::from_bits_per_sec(15_448)), "15448bit");
        assert_eq!(show_size(2040), "2Kb");
        assert_eq!(show_size(3100), "3100b");
        assert_eq!(show_size(32 << 20), "32Mb");
        assert_eq!(show_time(Duration::from_micros(45_520)), "45.5ms");
        assert_eq!(show_time(Duration::from_micros(4_999)), "5ms");
        assert_eq!(show_time(Duration::from_micros(99_999)), "100ms");
        assert_eq!(show_time(Duration::from_micros(999)), "999us");
        assert_eq!(show_time(Duration::from_secs(10)), "10s");
        assert_eq!(show_time(Duration::from_micros(999_900)), "1e+03ms");
    }
}
