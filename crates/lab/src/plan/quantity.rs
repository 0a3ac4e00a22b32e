//! Rates, sizes, times and shares as `tc` writes them, as exact integers.
//!
//! As in `tc`: `kbit` is 1000 bit/s and `kbps` is 1000 byte/s, while sizes count `kb` as 1024
//! bytes. A size written as a plain number is in bytes.

use datapath::units::{Duration, Rate};

/// Why a quantity could not be read.
pub type Fault = String;

/// A time such as `19.5ms`, `250us`, `3s`; a plain number is refused because its unit is unknown.
///
/// # Errors
/// When the text is not such a quantity; the error says what was expected.
pub fn time(text: &str) -> Result<Duration, Fault> {
    const UNITS: [(&str, u64); 11] = [
        ("ns", 1),
        ("nsec", 1),
        ("nsecs", 1),
        ("us", 1_000),
        ("usec", 1_000),
        ("usecs", 1_000),
        ("ms", 1_000_000),
        ("msec", 1_000_000),
        ("msecs", 1_000_000),
        ("s", 1_000_000_000),
        ("sec", 1_000_000_000),
    ];
    let nanos = scaled(text, &UNITS, "time", "20ms")?;
    Ok(Duration::from_nanos(nanos))
}

/// A rate such as `500mbit`, `1.5gbit`, `100kbps` (bytes).
///
/// # Errors
/// When the text is not such a quantity; the error says what was expected.
pub fn rate(text: &str) -> Result<Rate, Fault> {
    const UNITS: [(&str, u64); 15] = [
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
        ("tbit", 1_000_000_000_000),
        ("kibit", 1 << 10),
        ("mibit", 1 << 20),
        ("gibit", 1 << 30),
        ("bps", 8),
        ("kbps", 8_000),
        ("mbps", 8_000_000),
        ("gbps", 8_000_000_000),
        ("kibps", 8 << 10),
        ("mibps", 8 << 20),
        ("gibps", 8 << 30),
    ];
    match scaled(text, &UNITS, "rate", "500mbit")? {
        0 => Err("a rate of zero never sends anything".into()),
        bits => Ok(Rate::from_bits_per_sec(bits)),
    }
}

/// A size in bytes such as `64kb`, `1.25mb`, `1514b`, `1514`.
///
/// # Errors
/// When the text is not such a quantity; the error says what was expected.
pub fn size(text: &str) -> Result<u64, Fault> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("kb", 1 << 10),
        ("m", 1 << 20),
        ("mb", 1 << 20),
        ("g", 1 << 30),
        ("gb", 1 << 30),
    ];
    scaled(text, &UNITS, "size", "64kb")
}

/// A share such as `0.1%`, in millionths of one.
///
/// # Errors
/// When the text is not such a quantity; the error says what was expected.
pub fn share(text: &str) -> Result<u64, Fault> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("\"{text}\" is not a share: write it as a percentage, e.g. \"0.1%\""));
    };
    let millionths = scaled(number, &[("", 10_000)], "share", "0.1%").map_err(|_| {
        format!("\"{text}\" is not a share: write it as a percentage, e.g. \"0.1%\"")
    })?;
    if millionths > 1_000_000 { Err(format!("{text} is more than 100 %")) } else { Ok(millionths) }
}

/// `number × unit`, exactly, rounded to the nearest whole.
fn scaled(text: &str, units: &[(&str, u64)], what: &str, example: &str) -> Result<u64, Fault> {
    let lower = text.trim().to_lowercase();
    if lower.starts_with('-') {
        return Err(format!("\"{text}\": a {what} cannot be negative"));
    }
    let malformed = || format!("\"{text}\" is not a {what}: write it as \"{example}\"");
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = (&lower[..digits], lower[digits..].trim());
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        if unit.is_empty() {
            return Err(format!("\"{text}\" has no unit: write a {what} as \"{example}\""));
        }
        if number.is_empty() || !unit.chars().all(char::is_alphabetic) {
            return Err(malformed());
        }
        let names = units.iter().map(|(name, _)| *name).filter(|name| !name.is_empty());
        let hint = super::diagnostic::suggest(unit, names).unwrap_or_default();
        return Err(format!("\"{unit}\" is not a unit of {what} ({hint})"));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return Err(malformed());
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| malformed())? };
    let scale = 10u128.pow(fraction.len() as u32);
    let parts: u128 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| malformed())? };
    let total = whole
        .checked_mul(scale)
        .and_then(|scaled| scaled.checked_add(parts))
        .and_then(|scaled| scaled.checked_mul(u128::from(*factor)))
        .map(|scaled| (scaled + scale / 2) / scale);
    total.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| format!("\"{text}\" is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        let nanos = |text| time(text).unwrap().as_nanos();
        assert_eq!(nanos("20ms"), 20_000_000);
        assert_eq!(nanos("19.000001ms"), 19_000_001);
        assert_eq!(nanos("0.1s"), 100_000_000);
        assert_eq!(rate("500mbit").unwrap().bits_per_sec(), 500_000_000);
        assert_eq!(rate("1.5Gbit").unwrap().bits_per_sec(), 1_500_000_000);
        assert_eq!(rate("5mbps").unwrap().bits_per_sec(), 40_000_000);
        assert_eq!(size("64kb").unwrap(), 65_536);
        assert_eq!(size("1.25mb").unwrap(), 1_310_720);
        assert_eq!(size("1514").unwrap(), 1514);
        assert_eq!(share("0.1%").unwrap(), 1_000);
        assert_eq!(share("100%").unwrap(), 1_000_000);
    }

    #[test]
    fn faults_say_what_was_expected() {
        assert!(time("20").unwrap_err().contains("has no unit"));
        assert!(time("20mss").unwrap_err().contains("\"ms\""));
        assert!(rate("-5mbit").unwrap_err().contains("negative"));
        assert!(rate("0bit").unwrap_err().contains("zero"));
        assert!(rate("99999999999999999999tbit").unwrap_err().contains("too large"));
        assert!(share("101%").unwrap_err().contains("100 %"));
        assert!(share("0.1").unwrap_err().contains("percentage"));
        for text in ["gemodel 1% 10%", "-1%", "1 2%", "x%", "%", "1e3%"] {
            let error = share(text).unwrap_err();
            assert!(error.starts_with(&format!("\"{text}\" is not a share: ")), "{error}");
        }
        assert_eq!(
            time("5 apples 3").unwrap_err(),
            "\"5 apples 3\" is not a time: write it as \"20ms\""
        );
        assert!(rate("fast").unwrap_err().contains("\"fast\" is not a rate"));
        assert!(size(".").is_err());
        assert!(size("1.2.3kb").is_err());
    }
}
