//! Metrics of routes, in the words of `ip route`: `mtu lock 1400 advmss 1000 initcwnd 4 …`.

use super::json::{Object, list};
use super::names::{self, invalid};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::num::{NonZeroU8, NonZeroU32};
use datapath::fib::Features;
use datapath::metrics::{Locks, RouteMetrics};
use datapath::tcp::cc::Algorithm;

/// The words that begin a metric.
pub(super) const WORDS: [&str; 15] = [
    "mtu",
    "advmss",
    "window",
    "rtt",
    "rttvar",
    "ssthresh",
    "cwnd",
    "reordering",
    "hoplimit",
    "congctl",
    "initcwnd",
    "initrwnd",
    "rto_min",
    "quickack",
    "fastopen_no_cookie",
];

/// More than this is taken for it (`ip_metrics_convert`).
const MTU_MAX: u32 = 65_520;
const ADVMSS_MAX: NonZeroU32 = NonZeroU32::new(65_495).expect("not 0");

/// Metrics that may be locked, besides `mtu`: the bit that their locks are (`RTAX_LOCK`).
const LOCKABLE: [(&str, u32); 11] = [
    ("window", 3),
    ("rtt", 4),
    ("rttvar", 5),
    ("ssthresh", 6),
    ("cwnd", 7),
    ("advmss", 8),
    ("reordering", 9),
    ("hoplimit", 10),
    ("initcwnd", 11),
    ("initrwnd", 14),
    ("congctl", 16),
];

fn lock_of(name: &str) -> u32 {
    LOCKABLE.iter().find(|(lockable, _)| *lockable == name).map_or(0, |(_, bit)| 1 << bit)
}

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
            let mtu = names::number(value, "\"mtu\" value is invalid")?;
            metrics.mtu = NonZeroU32::new(mtu.min(MTU_MAX));
        }
        "advmss" => {
            metrics.advmss = number(metrics, word, words)?.map(|mss| mss.min(ADVMSS_MAX));
        }
        "window" => metrics.window = number(metrics, word, words)?,
        "rtt" => metrics.rtt_ms_8 = time(metrics, word, words, 8)?,
        "rttvar" => metrics.rttvar_ms_4 = time(metrics, word, words, 4)?,
        "ssthresh" => metrics.ssthresh = number(metrics, word, words)?,
        "cwnd" => metrics.cwnd = number(metrics, word, words)?,
        "reordering" => metrics.reordering = number(metrics, word, words)?,
        "hoplimit" => {
            let value = value(metrics, word, words)?;
            let wrong = || invalid(value, "\"hoplimit\" value is invalid", None);
            let hops = names::number(value, "\"hoplimit\" value is invalid")?;
            metrics.hoplimit = NonZeroU8::new(u8::try_from(hops).map_err(|_| wrong())?);
        }
        "congctl" => {
            let value = value(metrics, word, words)?;
            let known = congestion_control(value.text);
            let names = Algorithm::ALL.map(Algorithm::name);
            let nearest = || value.unknown("congctl", &names).nearest;
            let unknown = || value.error("Unknown tcp congestion algorithm.".to_owned(), nearest());
            metrics.congctl = Some(known.ok_or_else(unknown)?);
        }
        "initcwnd" => metrics.initcwnd = number(metrics, word, words)?,
        "initrwnd" => metrics.initrwnd = number(metrics, word, words)?,
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

/// The value of a metric, which `lock` may come before.
fn value<'a>(
    metrics: &mut RouteMetrics,
    word: Word<'_>,
    words: &mut Words<'a>,
) -> Result<Word<'a>> {
    let value = words.value(word)?;
    if value.text != "lock" {
        return Ok(value);
    }
    metrics.locks = Locks(metrics.locks.0 | lock_of(word.text));
    words.value(word)
}

/// 0 is no value, as in the kernel.
fn number(
    metrics: &mut RouteMetrics,
    word: Word<'_>,
    words: &mut Words<'_>,
) -> Result<Option<NonZeroU32>> {
    let what = format!("\"{}\" value is invalid", word.text);
    names::number(value(metrics, word, words)?, &what).map(NonZeroU32::new)
}

/// A time in parts of a ms; without a unit it is said in those (`get_time_rtt`).
fn time(
    metrics: &mut RouteMetrics,
    word: Word<'_>,
    words: &mut Words<'_>,
    parts: u64,
) -> Result<Option<NonZeroU32>> {
    let value = value(metrics, word, words)?;
    let wrong = || invalid(value, &format!("\"{}\" value is invalid", word.text), None);
    let number = value.text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale: u64 = match &value.text[number.len()..] {
        "" | "ms" | "msec" | "msecs" => 1,
        "s" | "sec" | "secs" => 1_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || part.len() > 9 {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let billionths: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    let begun = (billionths * scale).div_ceil(1_000_000_000);
    let count = whole.saturating_mul(scale).saturating_add(begun);
    let parts = if number == value.text { 1 } else { parts };
    let count = u32::try_from(count.saturating_mul(parts)).map_err(|_| wrong())?;
    Ok(NonZeroU32::new(count))
}

/// The name that a congestion control has for ever, if there is one so called.
pub(super) fn congestion_control(name: &str) -> Option<&'static str> {
    Algorithm::by_name(name).map(Algorithm::name)
}

fn read_switch(value: Word<'_>) -> Result<bool> {
    match value.text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(invalid(value, "value should be 0 or 1", None)),
    }
}

/// A time with or without unit; without, ms. It may have a decimal point.
fn read_time_us(value: Word<'_>) -> Result<u32> {
    let wrong = || invalid(value, "\"rto_min\" value is invalid", None);
    let number = value.text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let scale: u64 = match &value.text[number.len()..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(wrong()),
    };
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    if part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let millionths: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    let us = whole.saturating_mul(scale).saturating_add(millionths * scale / 1_000_000);
    u32::try_from(us).map_err(|_| wrong())
}

/// One metric of a route, as it is printed.
struct MetricText {
    name: &'static str,
    /// Behind the name in text; nothing of a feature.
    text: String,
    json: String,
}

/// The metrics that a route has, in the order of their numbers (`print_rta_metrics`).
fn shown(metrics: &RouteMetrics, features: Features) -> Vec<MetricText> {
    let locked = |name, text: String| {
        if metrics.locks.0 & lock_of(name) == 0 { text } else { format!("lock {text}") }
    };
    let number = |name, value: Option<NonZeroU32>| {
        value.map(|value| MetricText {
            name,
            text: locked(name, value.to_string()),
            json: value.to_string(),
        })
    };
    let time = |name, value: Option<NonZeroU32>, parts: u32| {
        value.map(|value| {
            let ms = value.get() / parts;
            MetricText { name, text: locked(name, milliseconds(ms)), json: ms.to_string() }
        })
    };
    let hoplimit = metrics.hoplimit.map(NonZeroU32::from);
    let congctl = metrics.congctl.map(|cc| MetricText {
        name: "congctl",
        text: locked("congctl", cc.to_owned()),
        json: format!("\"{cc}\""),
    });
    let switch = |name, on: bool| number(name, NonZeroU32::new(on.into()));
    let ecn = features.contains(Features::ECN);
    let mut mtu = number("mtu", metrics.mtu);
    if let (Some(mtu), true) = (&mut mtu, metrics.mtu_locked) {
        mtu.text.insert_str(0, "lock ");
    }
    [
        mtu,
        number("window", metrics.window),
        time("rtt", metrics.rtt_ms_8, 8),
        time("rttvar", metrics.rttvar_ms_4, 4),
        number("ssthresh", metrics.ssthresh),
        number("cwnd", metrics.cwnd),
        number("advmss", metrics.advmss),
        number("reordering", metrics.reordering),
        number("hoplimit", hoplimit),
        number("initcwnd", metrics.initcwnd),
        ecn.then(|| MetricText { name: "ecn", text: String::new(), json: "null".to_owned() }),
        metrics.rto_min_us.map(|us| rto_min(us.get())),
        number("initrwnd", metrics.initrwnd),
        switch("quickack", metrics.quickack),
        congctl,
        switch("fastopen_no_cookie", metrics.fastopen_no_cookie),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// From a second on in seconds, of which six digits are told (`%g`).
fn milliseconds(ms: u32) -> String {
    match ms.checked_ilog10() {
        None | Some(0..=2) => format!("{ms}ms"),
        Some(digits @ 3..) => {
            let unit = 10u32.pow(digits.saturating_sub(5));
            let rounded = ms.saturating_add(unit / 2) / unit * unit;
            format!("{}s", decimal(rounded))
        }
    }
}

/// From a second on in seconds; JSON has ms.
fn rto_min(us: u32) -> MetricText {
    let text = if !us.is_multiple_of(1_000) {
        format!("lock {us}us")
    } else if us < 1_000_000 {
        format!("lock {}ms", us / 1_000)
    } else {
        format!("lock {}s", decimal(us / 1_000))
    };
    MetricText { name: "rto_min", text, json: decimal(us) }
}

/// Thousandths as a number without zeros at its end.
fn decimal(thousandths: u32) -> String {
    let number = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The metrics as `ip route show` prints them, each with a space behind it.
pub(super) fn text(metrics: &RouteMetrics, features: Features) -> String {
    let mut out = String::new();
    for MetricText { name, text, .. } in shown(metrics, features) {
        let _ = match &text[..] {
            "" => write!(out, "features {name} "),
            text => write!(out, "{name} {text} "),
        };
    }
    out
}

/// The object with the metrics, if there are any: a list of one.
pub(super) fn json(object: Object, metrics: &RouteMetrics, features: Features) -> Object {
    let shown = shown(metrics, features);
    if shown.is_empty() {
        return object;
    }
    let all = Object::default();
    let key = |name| if name == "congctl" { "congestion" } else { name };
    let all = shown.iter().fold(all, |all, metric| all.raw(key(metric.name), &metric.json));
    object.raw("metrics", &list(&[all.finish()]))
}
