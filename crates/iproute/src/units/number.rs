//! Numbers as C reads them: `strtod` and `strtoul`, whose forms tc takes wherever it reads one.

use crate::words::{Result, Word};
use core::str::FromStr;

/// A whole number as `get_u32` reads it: octal after `0`, hexadecimal after `0x`.
///
/// # Errors
/// Not a number below 2³².
pub fn number(word: Word<'_>, what: &str) -> Result<u32> {
    parse_number(word.text).ok_or_else(|| word.illegal(what))
}

/// A whole number that is decimal whatever it begins with, as tc reads what fits few bits.
///
/// # Errors
/// Not a number, or too large for a `T`.
pub fn decimal<T: FromStr>(word: Word<'_>, what: &str) -> Result<T> {
    word.text.parse().map_err(|_| word.illegal(what))
}

/// As [`number`].
pub(crate) fn parse_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    match (strip_hex_prefix(digits), digits.strip_prefix('0')) {
        (Some(hex), _) => unsigned(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => unsigned(octal, 8),
        _ => unsigned(digits, 10),
    }
}

/// As [`number`], and below zero after a `-` (`get_s32`).
pub(crate) fn parse_signed(text: &str) -> Option<i32> {
    let magnitude = i64::from(parse_number(text.strip_prefix('-').unwrap_or(text))?);
    i32::try_from(if text.starts_with('-') { -magnitude } else { magnitude }).ok()
}

/// A number that is hexadecimal with and without `0x`, as the parts of a handle are.
pub(crate) fn parse_hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    unsigned(strip_hex_prefix(digits).unwrap_or(digits), 16)
}

/// Digits alone: Rust would take a second sign.
fn unsigned(digits: &str, radix: u32) -> Option<u32> {
    let first_is_digit = digits.starts_with(|first: char| first.is_digit(radix));
    first_is_digit.then(|| u32::from_str_radix(digits, radix).ok())?
}

/// The number that `text` begins with, and what follows it (`strtod`): a sign, digits with a
/// point, and a decimal exponent; after `0x` hexadecimal digits, and a binary exponent after `p`.
/// What C reads as infinite or as not a number is none.
pub(crate) fn leading_number(text: &str) -> Option<(f64, &str)> {
    let magnitude = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, rest) = leading_hex(magnitude).or_else(|| leading_decimal(magnitude))?;
    let signed = if text.starts_with('-') { -number } else { number };
    signed.is_finite().then_some((signed, rest))
}

fn leading_decimal(text: &str) -> Option<(f64, &str)> {
    let (_, _, after) = fraction(text, 10)?;
    let rest = exponent(after, ['e', 'E']).map_or(after, |(_, rest)| rest);
    let number = text[..text.len() - rest.len()].parse().ok()?;
    Some((number, rest))
}

fn leading_hex(text: &str) -> Option<(f64, &str)> {
    let (whole, part, after) = fraction(strip_hex_prefix(text)?, 16)?;
    let (power, rest) = exponent(after, ['p', 'P']).unwrap_or((0, after));
    let digits = whole.chars().chain(part.chars()).filter_map(|digit| digit.to_digit(16));
    let mantissa = digits.fold(0.0, |value, digit| value * 16.0 + f64::from(digit));
    let power = i64::from(power) - 4 * part.len() as i64;
    Some((mantissa * 2f64.powi(power.clamp(-9999, 9999) as i32), rest))
}

/// Digits, and a point with digits: what stands before it, what behind, and the rest.
fn fraction(text: &str, radix: u32) -> Option<(&str, &str, &str)> {
    let split =
        |text: &'_ str| -> usize { text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len()) };
    let (whole, rest) = text.split_at(split(text));
    let (part, rest) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(split(after)),
        None => ("", rest),
    };
    (!whole.is_empty() || !part.is_empty()).then_some((whole, part, rest))
}

/// The exponent after one of `letters`, if it is a whole one, and the rest.
fn exponent(text: &str, letters: [char; 2]) -> Option<(i32, &str)> {
    let after = text.strip_prefix(letters)?;
    let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let most = if after.starts_with('-') { i32::MIN } else { i32::MAX };
    let power = after[..after.len() - rest.len()].parse().unwrap_or(most);
    (rest.len() < digits.len()).then_some((power, rest))
}

fn strip_hex_prefix(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tc 6.1 read them: what it sent is the number, what it refused was the rest.
    #[test]
    fn fractions_read_as_strtod_reads_them() {
        for (text, number, rest) in [
            ("4e5", 400_000.0, ""),
            ("1E3", 1000.0, ""),
            ("+5e3", 5000.0, ""),
            ("-5e3", -5000.0, ""),
            (".5e3", 500.0, ""),
            ("5.", 5.0, ""),
            ("1e-3", 0.001, ""),
            ("1e+3ms", 1000.0, "ms"),
            ("1e", 1.0, "e"),
            ("1e+", 1.0, "e+"),
            ("1e3e3", 1000.0, "e3"),
            ("010", 10.0, ""),
            ("0x10k", 16.0, "k"),
            ("0x10b", 267.0, ""),
            ("0X1F", 31.0, ""),
            ("0x1p4", 16.0, ""),
            ("0x1.8p-3", 0.1875, ""),
            ("0xg", 0.0, "xg"),
            ("1_000", 1.0, "_000"),
            ("5%", 5.0, "%"),
        ] {
            assert_eq!(leading_number(text), Some((number, rest)), "{text}");
        }
        for text in ["", "k", "-", ".", "e5", "inf", "nan", "1e400", "0x1p99999999999", "µ"] {
            assert_eq!(leading_number(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_read_as_strtoul_reads_them() {
        for (text, number) in [
            ("10", Some(10)),
            ("010", Some(8)),
            ("0x10", Some(16)),
            ("0X1f", Some(31)),
            ("+20", Some(20)),
            ("0", Some(0)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("08", None),
            ("1e1", None),
            ("5k", None),
            ("-1", None),
            ("++1", None),
            ("0x", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text), number, "{text}");
        }
        assert_eq!([parse_signed("-010"), parse_signed("0x10")], [Some(-8), Some(16)]);
        assert_eq!([parse_signed("2147483648"), parse_signed("--1")], [None, None]);
        assert_eq!(
            [parse_hex("0x1f"), parse_hex("+1F"), parse_hex("g")],
            [Some(31), Some(31), None]
        );
    }
}
