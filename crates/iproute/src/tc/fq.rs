//! `fq [ limit PACKETS ] [ flow_limit PACKETS ] [ quantum BYTES ] [ initial_quantum BYTES ]
//! [ maxrate RATE ] [ buckets NUMBER ] [ orphan_mask MASK ] [ [no]pacing ] [ refill_delay TIME ]
//! [ low_rate_threshold RATE ] [ ce_threshold TIME ] [ timer_slack TIME ] [ horizon TIME ]
//! [ horizon_cap | horizon_drop ]` (tc-fq(8)).

use super::qdisc_text::{Push, QdiscText, map};
use crate::units::{number, rate, show_rate, show_time, time, time64};
use crate::words::{Result, Word, Words};
use datapath::qdisc::fq::{Fq, FqConfig};
use datapath::units::{Duration, Rate};
use serde_json::{Map, json};

const OPTIONS: [&str; 16] = [
    "limit",
    "flow_limit",
    "quantum",
    "initial_quantum",
    "maxrate",
    "buckets",
    "orphan_mask",
    "pacing",
    "nopacing",
    "refill_delay",
    "low_rate_threshold",
    "ce_threshold",
    "timer_slack",
    "horizon",
    "horizon_cap",
    "horizon_drop",
];
/// `fq_change`: more buckets are refused.
const MAX_BUCKETS: u32 = 1 << 18;

/// What was said of a fq; the rest keeps its default, or its value on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqWords {
    limit: Option<u32>,
    flow_limit: Option<u32>,
    buckets: Option<u32>,
    orphan_mask: Option<u32>,
    quantum: Option<u32>,
    initial_quantum: Option<u32>,
    maxrate: Option<u64>,
    low_rate_threshold: Option<u64>,
    pacing: Option<bool>,
    refill_delay: Option<Duration>,
    timer_slack: Option<Duration>,
    ce_threshold: Option<Duration>,
    horizon: Option<Duration>,
    horizon_drop: Option<bool>,
}

impl FqWords {
    /// Reads fq's options.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        while let Some(word) = words.next() {
            said.option(word, words)?;
        }
        Ok(said)
    }

    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.text {
            "limit" => self.limit = Some(number(words.value(word)?, word.text)?),
            "flow_limit" => self.flow_limit = Some(number(words.value(word)?, word.text)?),
            "buckets" => self.buckets = Some(buckets(words.value(word)?)?),
            "orphan_mask" => self.orphan_mask = Some(number(words.value(word)?, word.text)?),
            "quantum" => self.quantum = Some(quantum(words.value(word)?, word.text, 1)?),
            "initial_quantum" => {
                self.initial_quantum = Some(quantum(words.value(word)?, word.text, 0)?);
            }
            "maxrate" => self.maxrate = Some(rate32(words.value(word)?)?),
            "low_rate_threshold" => self.low_rate_threshold = Some(rate32(words.value(word)?)?),
            "pacing" => self.pacing = Some(true),
            "nopacing" => self.pacing = Some(false),
            "refill_delay" => self.refill_delay = Some(time(words.value(word)?, word.text)?),
            "timer_slack" => self.timer_slack = Some(slack(words.value(word)?)?),
            "ce_threshold" => self.ce_threshold = Some(time(words.value(word)?, word.text)?),
            "horizon" => self.horizon = Some(time(words.value(word)?, word.text)?),
            "horizon_cap" => self.horizon_drop = Some(false),
            "horizon_drop" => self.horizon_drop = Some(true),
            _ => return Err(word.unknown("fq", &OPTIONS)),
        }
        Ok(())
    }

    /// `base` with what was said.
    pub fn over(&self, base: FqConfig) -> FqConfig {
        FqConfig {
            limit: self.limit.unwrap_or(base.limit),
            flow_limit: self.flow_limit.unwrap_or(base.flow_limit),
            buckets: self.buckets.unwrap_or(base.buckets),
            orphan_mask: self.orphan_mask.unwrap_or(base.orphan_mask),
            quantum: self.quantum.unwrap_or(base.quantum),
            initial_quantum: self.initial_quantum.unwrap_or(base.initial_quantum),
            maxrate: self.maxrate.unwrap_or(base.maxrate),
            low_rate_threshold: self.low_rate_threshold.unwrap_or(base.low_rate_threshold),
            pacing: self.pacing.unwrap_or(base.pacing),
            refill_delay: self.refill_delay.unwrap_or(base.refill_delay),
            timer_slack: self.timer_slack.unwrap_or(base.timer_slack),
            ce_threshold: self.ce_threshold.or(base.ce_threshold),
            horizon: self.horizon.unwrap_or(base.horizon),
            horizon_drop: self.horizon_drop.unwrap_or(base.horizon_drop),
        }
    }
}

/// A rate in B/s that fits 32 bits (`get_rate`).
fn rate32(word: Word<'_>) -> Result<u64> {
    let bytes = rate(word)?.bytes_per_sec();
    if bytes > u64::from(u32::MAX) { Err(word.illegal("rate")) } else { Ok(bytes) }
}

/// ns that fit 32 bits.
fn slack(word: Word<'_>) -> Result<Duration> {
    let slack = time64(word, "timer_slack")?;
    if slack.as_nanos() > u64::from(u32::MAX) {
        Err(word.illegal("timer_slack"))
    } else {
        Ok(slack)
    }
}

/// A power of two.
fn buckets(word: Word<'_>) -> Result<u32> {
    let count = number(word, "buckets")?;
    if (1..=MAX_BUCKETS).contains(&count) {
        Ok(count.next_power_of_two())
    } else {
        Err(word.illegal("buckets"))
    }
}

/// Bytes, from `least` to 2²⁰ (`fq_change`, `fq_policy`).
fn quantum(word: Word<'_>, name: &str, least: u32) -> Result<u32> {
    let bytes = number(word, name)?;
    if (least..=MAX_QUANTUM).contains(&bytes) { Ok(bytes) } else { Err(word.illegal(name)) }
}

/// The largest quantum.
const MAX_QUANTUM: u32 = 1 << 20;

/// fq as tc shows it.
pub(super) fn shown(fq: &Fq) -> QdiscText {
    let config = fq.config();
    let micros = |time: Duration| json!(time.as_micros());
    let low_rate = show_rate(Rate::from_bytes_per_sec(config.low_rate_threshold));
    let mut options = format!(
        "limit {}p flow_limit {}p buckets {} orphan_mask {} {}quantum {}b initial_quantum {}b ",
        config.limit,
        config.flow_limit,
        config.buckets,
        config.orphan_mask,
        if config.pacing { "" } else { "nopacing " },
        config.quantum,
        config.initial_quantum,
    );
    let mut options_json = map([
        ("limit", json!(config.limit)),
        ("flow_limit", json!(config.flow_limit)),
        ("buckets", json!(config.buckets)),
        ("orphan_mask", json!(config.orphan_mask)),
    ]);
    if !config.pacing {
        options_json.insert("pacing".to_owned(), json!(false));
    }
    options_json.extend(map([
        ("quantum", json!(config.quantum)),
        ("initial_quantum", json!(config.initial_quantum)),
    ]));
    if config.maxrate != u64::MAX {
        let shown = show_rate(Rate::from_bytes_per_sec(config.maxrate));
        options.push_fmt(format_args!("maxrate {shown} "));
        options_json.insert("maxrate".to_owned(), json!(config.maxrate));
    }
    options.push_fmt(format_args!(
        "low_rate_threshold {low_rate} refill_delay {} ",
        show_time(config.refill_delay)
    ));
    options_json.insert("low_rate_threshold".to_owned(), json!(config.low_rate_threshold));
    options_json.insert("refill_delay".to_owned(), micros(config.refill_delay));
    if let Some(threshold) = config.ce_threshold {
        options.push_fmt(format_args!("ce_threshold {} ", show_time(threshold)));
        options_json.insert("ce_threshold".to_owned(), micros(threshold));
    }
    let beyond = if config.horizon_drop { "horizon_drop" } else { "horizon_cap" };
    options.push_fmt(format_args!(
        "timer_slack {} horizon {} {beyond} ",
        show_time(config.timer_slack),
        show_time(config.horizon)
    ));
    options_json.insert("timer_slack".to_owned(), json!(config.timer_slack.as_nanos()));
    options_json.insert("horizon".to_owned(), micros(config.horizon));
    options_json.insert(beyond.to_owned(), serde_json::Value::Null);
    let (stats, stats_json) = shown_stats(fq);
    QdiscText { options, options_json, stats, stats_json }
}

fn shown_stats(fq: &Fq) -> (String, Map<String, serde_json::Value>) {
    let (flows, own) = (fq.flow_counts(), fq.own_stats());
    let mut text = format!(
        "  flows {} (inactive {} throttled {})\n  gc {} highprio {} throttled {}",
        flows.flows,
        flows.inactive,
        flows.throttled,
        own.gc_flows,
        own.highprio_packets,
        own.throttled,
    );
    let mut json = map([
        ("flows", json!(flows.flows)),
        ("inactive", json!(flows.inactive)),
        ("throttled", json!(flows.throttled)),
        ("gc", json!(own.gc_flows)),
        ("highprio", json!(own.highprio_packets)),
        ("throttled_packets", json!(own.throttled)),
    ]);
    let if_any = [
        ("ce_mark", own.ce_mark),
        ("flows_plimit", own.flows_plimit),
        ("pkts_too_long", own.pkts_too_long),
        ("horizon_drops", own.horizon_drops),
        ("horizon_caps", own.horizon_caps),
    ];
    for (name, count) in if_any.into_iter().filter(|(_, count)| *count > 0) {
        text.push_fmt(format_args!(" {name} {count}"));
        json.insert(name.to_owned(), json!(count));
    }
    text.push('\n');
    (text, json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_what_they_name() {
        let text = "limit 50 maxrate 1mbit nopacing quantum 1514 refill_delay 10ms horizon_cap";
        let said = FqWords::parse(&mut Words::new(text)).expect("good words");
        let config = said.over(FqConfig::new(1514));
        assert_eq!((config.limit, config.maxrate, config.pacing), (50, 125_000, false));
        assert_eq!((config.quantum, config.initial_quantum), (1514, 15_140));
        assert_eq!(config.refill_delay, Duration::from_millis(10));
        assert!(!config.horizon_drop);
        let slack = FqWords::parse(&mut Words::new("timer_slack 1e3")).expect("good words");
        assert_eq!(slack.timer_slack, Some(Duration::from_micros(1)), "bare numbers are ns");
        for (wrong, nearest) in [
            ("maxrat 1mbit", Some("maxrate")),
            ("buckets 0", None),
            ("quantum 5k", None),
            ("quantum 1048577", None),
            ("limit 1e3", None),
            ("maxrate 50gbit", None),
            ("timer_slack 5e9", None),
        ] {
            let error = FqWords::parse(&mut Words::new(wrong)).expect_err(wrong);
            assert_eq!(error.nearest.as_deref(), nearest);
        }
    }
}
