//! Metrics of routes, in the words of `ip route`: `mtu lock 1400 advmss 1000 initcwnd 4 …`.

use super::names::{self, invalid};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::num::NonZeroU32;
use datapath::metrics::RouteMetrics;

/// The words that begin a metric.
pub(super) const WORDS: [&str; 8] = [
    "mtu",
    "advmss",
    "window",
    "initcwnd",
    "initrwnd",
    "rto_min",
    "quickack",
    "fastopen_no_cookie",
];

/// Reads one metric; false if `word` begins none.
pub(super) fn read(
    metrics: &mut RouteMetrics,
    word: Word<'_>,
    words: &mut Words<'_>,
) -> Result<bool> {
    match word.text {
        "mtu" => {
            let mut value = words.value(word)?;
            metrics.mtu_locked = value.text == "lock";
            if metrics.mtu_locked {
                value = words.value(word)?;
            }
            metrics.mtu = NonZeroU32::new(names::number(value, "\"mtu\" value is invalid")?);
        }
        "advmss" => metrics.advmss = number(word, words)?,
        "window" => metrics.window = number(word, words)?,
        "initcwnd" => metrics.initcwnd = number(word, words)?,
        "initrwnd" => metrics.initrwnd = number(word, words)?,
        "rto_min" => {
            let mut value = words.value(word)?;
            if value.text == "lock" {
                value = words.value(word)?;
            }
            metrics.rto_min_us = NonZeroU32::new(read_time_us(value)?);
        }
        "quickack" => metrics.quickack = read_switch(words.value(word)?)?,
        "fastopen_no_cookie" => metrics.fastopen_no_cookie = read_switch(words.value(word)?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// 0 is no value, as in the kernel.
fn number(word: Word<'_>, words: &mut Words<'_>) -> Result<Option<NonZeroU32>> {
    let what = format!("\"{}\" value is invalid", word.text);
    names::number(words.value(word)?, &what).map(NonZeroU32::new)
}

fn read_switch(value: Word<'_>) -> Result<bool> {
    match value.text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(invalid(value, "value should be 0 or 1", None)),
    }
}

/// A time with or without unit; without, ms.
fn read_time_us(value: Word<'_>) -> Result<u32> {
    let wrong = || invalid(value, "\"rto_min\" value is invalid", None);
    let digits = value.text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let scale = match &value.text[digits.len()..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(wrong()),
    };
    u32::try_from(number.saturating_mul(scale)).map_err(|_| wrong())
}

/// The metrics as `ip route show` prints them, each with a space behind it.
pub(super) fn text(metrics: &RouteMetrics) -> String {
    let mut out = String::new();
    if let Some(mtu) = metrics.mtu {
        let lock = if metrics.mtu_locked { "lock " } else { "" };
        let _ = write!(out, "mtu {lock}{mtu} ");
    }
    for (name, value) in [
        ("window", metrics.window),
        ("advmss", metrics.advmss),
        ("initcwnd", metrics.initcwnd),
        ("initrwnd", metrics.initrwnd),
    ] {
        if let Some(value) = value {
            let _ = write!(out, "{name} {value} ");
        }
    }
    if let Some(us) = metrics.rto_min_us.map(NonZeroU32::get) {
        let _ = if us.is_multiple_of(1_000) {
            write!(out, "rto_min lock {}ms ", us / 1_000)
        } else {
            write!(out, "rto_min lock {us}us ")
        };
    }
    for (name, on) in
        [("quickack", metrics.quickack), ("fastopen_no_cookie", metrics.fastopen_no_cookie)]
    {
        if on {
            let _ = write!(out, "{name} 1 ");
        }
    }
    out
}
