//! Metrics of routes, in the words of `ip route`: `mtu lock 1400 advmss 1000 initcwnd 4 …`.

use super::json::{Object, list};
use super::names::{self, invalid};
use crate::words::{Result, Word, Words};
use core::fmt::Write as _;
use core::num::NonZeroU32;
use datapath::fib::Features;
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

/// More than this is taken for it (`ip_metrics_convert`).
const MTU_MAX: u32 = 65_520;
const ADVMSS_MAX: NonZeroU32 = NonZeroU32::new(65_495).expect("not 0");

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
        "advmss" => metrics.advmss = number(word, words)?.map(|mss| mss.min(ADVMSS_MAX)),
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
    let number = |name, value: Option<NonZeroU32>| {
        value.map(|value| MetricText { name, text: value.to_string(), json: value.to_string() })
    };
    let switch = |name, on: bool| number(name, NonZeroU32::new(on.into()));
    let ecn = features.contains(Features::ECN);
    let mut mtu = number("mtu", metrics.mtu);
    if let (Some(mtu), true) = (&mut mtu, metrics.mtu_locked) {
        mtu.text.insert_str(0, "lock ");
    }
    [
        mtu,
        number("window", metrics.window),
        number("advmss", metrics.advmss),
        number("initcwnd", metrics.initcwnd),
        ecn.then(|| MetricText { name: "ecn", text: String::new(), json: "null".to_owned() }),
        metrics.rto_min_us.map(|us| rto_min(us.get())),
        number("initrwnd", metrics.initrwnd),
        switch("quickack", metrics.quickack),
        switch("fastopen_no_cookie", metrics.fastopen_no_cookie),
    ]
    .into_iter()
    .flatten()
    .collect()
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
    let all = shown.iter().fold(all, |all, metric| all.raw(metric.name, &metric.json));
    object.raw("metrics", &list(&[all.finish()]))
}
