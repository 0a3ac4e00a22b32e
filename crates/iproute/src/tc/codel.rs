//! `codel [ limit PACKETS ] [ target TIME ] [ interval TIME ] [ [no]ecn ] [ ce_threshold TIME ]`
//! and the like words of `fq_codel`.

use super::qdisc_text::{Push, QdiscText, map, show_micros};
use crate::units::{number, show_size, size, time};
use crate::words::{Result, Word, Words};
use datapath::qdisc::codel::{CeSelector, Codel, CodelConfig, CodelParams, CodelTime};
use datapath::qdisc::fq_codel::{FqCodel, FqCodelConfig, MAX_QUANTUM};
use datapath::units::Instant;
use serde_json::{Map, Value, json};

const CODEL_OPTIONS: [&str; 6] = ["limit", "target", "interval", "ecn", "noecn", "ce_threshold"];
const FQ_CODEL_OPTIONS: [&str; 11] = [
    "limit",
    "flows",
    "quantum",
    "target",
    "interval",
    "memory_limit",
    "drop_batch",
    "ecn",
    "noecn",
    "ce_threshold",
    "ce_threshold_selector",
];

/// What was said of the control law; the rest keeps its default, or its value on a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelWords {
    target: Option<CodelTime>,
    interval: Option<CodelTime>,
    ecn: Option<bool>,
    ce_threshold: Option<CodelTime>,
    ce_selector: Option<CeSelector>,
    limit: Option<u32>,
}

/// What was said of a codel or fq_codel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqCodelWords {
    codel: CodelWords,
    flows: Option<u32>,
    quantum: Option<u32>,
    memory_limit: Option<u32>,
    drop_batch: Option<u32>,
}

impl CodelWords {
    /// Reads codel's options.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        while let Some(word) = words.next() {
            if !said.option(word, words)? {
                return Err(word.unknown("codel", &CODEL_OPTIONS));
            }
        }
        Ok(said)
    }

    /// Takes an option that both kinds have; false if `word` is none.
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<bool> {
        let mut span = || Ok(CodelTime::of(time(words.value(word)?, word.text)?));
        match word.text {
            "target" => self.target = Some(span()?),
            "interval" => self.interval = Some(span()?),
            "ce_threshold" => self.ce_threshold = Some(span()?),
            "ecn" => self.ecn = Some(true),
            "noecn" => self.ecn = Some(false),
            "limit" => self.limit = Some(number(words.value(word)?, "limit")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn params(&self, base: CodelParams) -> CodelParams {
        CodelParams {
            target: self.target.unwrap_or(base.target),
            interval: self.interval.unwrap_or(base.interval),
            ce_threshold: self.ce_threshold.unwrap_or(base.ce_threshold),
            ce_selector: self.ce_selector.unwrap_or(base.ce_selector),
            mtu: base.mtu,
            ecn: self.ecn.unwrap_or(base.ecn),
        }
    }

    /// `base` with what was said.
    pub fn over(&self, base: CodelConfig) -> CodelConfig {
        CodelConfig { limit: self.limit.unwrap_or(base.limit), params: self.params(base.params) }
    }
}

impl FqCodelWords {
    /// Reads fq_codel's options.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        while let Some(word) = words.next() {
            if !said.option(word, words)? {
                return Err(word.unknown("fq_codel", &FQ_CODEL_OPTIONS));
            }
        }
        Ok(said)
    }

    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<bool> {
        match word.text {
            "flows" => {
                let value = words.value(word)?;
                let flows = number(value, "flows")?;
                if flows == 0 || flows > 65_536 {
                    return Err(value.illegal("flows"));
                }
                self.flows = Some(flows);
            }
            "quantum" => {
                let value = words.value(word)?;
                let quantum = number(value, "quantum")?;
                if quantum > MAX_QUANTUM {
                    return Err(value.illegal("quantum"));
                }
                self.quantum = Some(quantum.max(256));
            }
            "memory_limit" => self.memory_limit = Some(size(words.value(word)?, word.text)?),
            "drop_batch" => self.drop_batch = Some(number(words.value(word)?, "drop_batch")?),
            "ce_threshold_selector" => self.codel.ce_selector = Some(selector(words.value(word)?)?),
            _ => return self.codel.option(word, words),
        }
        Ok(true)
    }

    /// `base` with what was said.
    pub fn over(&self, base: FqCodelConfig) -> FqCodelConfig {
        FqCodelConfig {
            limit: self.codel.limit.unwrap_or(base.limit),
            flows: self.flows.unwrap_or(base.flows),
            quantum: self.quantum.unwrap_or(base.quantum),
            memory_limit: self.memory_limit.unwrap_or(base.memory_limit),
            drop_batch: self.drop_batch.unwrap_or(base.drop_batch),
            params: self.codel.params(base.params),
        }
    }
}

/// `VALUE/MASK`, both bytes.
fn selector(word: Word<'_>) -> Result<CeSelector> {
    let byte = |text| {
        let value = number(Word { text, ..word }, "ce_threshold_selector").ok()?;
        u8::try_from(value).ok()
    };
    word.text
        .split_once('/')
        .and_then(|(value, mask)| Some(CeSelector { value: byte(value)?, mask: byte(mask)? }))
        .ok_or_else(|| word.illegal("ce_threshold_selector"))
}

/// Puts `target`, `ce_threshold` if there is one, and `interval`.
fn push_times(options: &mut String, json: &mut Map<String, Value>, params: &CodelParams) {
    let mut push = |name: &str, time: CodelTime| {
        options.push_fmt(format_args!("{name} {} ", show_micros(time.as_micros())));
        json.insert(name.to_owned(), json!(time.as_micros()));
    };
    push("target", params.target);
    if params.ce_threshold != CodelTime::DISABLED {
        push("ce_threshold", params.ce_threshold);
    }
    push("interval", params.interval);
}

fn push_ecn(options: &mut String, json: &mut Map<String, Value>, ecn: bool) {
    if ecn {
        options.push_str("ecn ");
        json.insert("ecn".to_owned(), json!(true));
    }
}

/// codel as tc shows it; when to drop next counts from `now`.
pub(super) fn shown(codel: &Codel, now: Instant) -> QdiscText {
    let (config, vars, stats) = (codel.config(), codel.vars(), codel.control_stats());
    let mut options = format!("limit {}p ", config.limit);
    let mut options_json = map([("limit", json!(config.limit))]);
    push_times(&mut options, &mut options_json, &config.params);
    push_ecn(&mut options, &mut options_json, config.params.ecn);
    let ldelay = vars.ldelay.as_micros();
    let mut text = format!("  count {} lastcount {} ", vars.count, vars.last_count);
    text.push_fmt(format_args!("ldelay {}", show_micros(ldelay)));
    let mut stats_json = map([
        ("count", json!(vars.count)),
        ("lastcount", json!(vars.last_count)),
        ("ldelay", json!(ldelay)),
    ]);
    let drop_next = if vars.dropping { vars.drop_next.micros_after(CodelTime::at(now)) } else { 0 };
    if vars.dropping {
        text.push_str(" dropping");
        stats_json.insert("dropping".to_owned(), json!(true));
    }
    let sign = if drop_next < 0 { "-" } else { "" };
    text.push_fmt(format_args!(" drop_next {sign}{}\n", show_micros(drop_next.unsigned_abs())));
    stats_json.insert("drop_next".to_owned(), json!(drop_next));
    text.push_fmt(format_args!(
        "  maxpacket {} ecn_mark {} drop_overlimit {}",
        stats.max_packet,
        stats.ecn_mark,
        codel.drop_overlimit()
    ));
    stats_json.extend(map([
        ("maxpacket", json!(stats.max_packet)),
        ("ecn_mark", json!(stats.ecn_mark)),
        ("drop_overlimit", json!(codel.drop_overlimit())),
    ]));
    if stats.ce_mark > 0 {
        text.push_fmt(format_args!(" ce_mark {}", stats.ce_mark));
        stats_json.insert("ce_mark".to_owned(), json!(stats.ce_mark));
    }
    text.push('\n');
    QdiscText { options, options_json, stats: text, stats_json }
}

/// fq_codel as tc shows it.
pub(super) fn shown_fq(fq_codel: &FqCodel) -> QdiscText {
    let config = fq_codel.config();
    let (control, own) = (fq_codel.control_stats(), fq_codel.own_stats());
    let mut options =
        format!("limit {}p flows {} quantum {} ", config.limit, config.flows, config.quantum);
    let mut options_json = map([
        ("limit", json!(config.limit)),
        ("flows", json!(config.flows)),
        ("quantum", json!(config.quantum)),
    ]);
    push_times(&mut options, &mut options_json, &config.params);
    let CeSelector { value, mask } = config.params.ce_selector;
    if mask != 0 {
        options.push_fmt(format_args!("ce_threshold_selector {value:#x}/{mask:#x} "));
        options_json.insert("ce_threshold_selector".to_owned(), json!(value));
        options_json.insert("ce_threshold_mask".to_owned(), json!(mask));
    }
    options.push_fmt(format_args!("memory_limit {} ", show_size(config.memory_limit)));
    options_json.insert("memory_limit".to_owned(), json!(config.memory_limit));
    push_ecn(&mut options, &mut options_json, config.params.ecn);
    options.push_fmt(format_args!("drop_batch {} ", config.drop_batch));
    options_json.insert("drop_batch".to_owned(), json!(config.drop_batch));

    let (new, old) = fq_codel.list_lengths();
    let always = [
        ("maxpacket", control.max_packet),
        ("drop_overlimit", own.drop_overlimit),
        ("new_flow_count", own.new_flow_count),
        ("ecn_mark", control.ecn_mark),
    ];
    let if_any = [
        ("ce_mark", control.ce_mark),
        ("memory_used", own.memory_usage),
        ("drop_overmemory", own.drop_overmemory),
    ];
    let counters = always.into_iter().chain(if_any.into_iter().filter(|(_, count)| *count > 0));
    let mut text = String::from(" ");
    let mut stats_json = Map::new();
    for (name, count) in counters {
        text.push_fmt(format_args!(" {name} {count}"));
        stats_json.insert(name.to_owned(), json!(count));
    }
    text.push_fmt(format_args!("\n  new_flows_len {new} old_flows_len {old}\n"));
    stats_json.extend(map([("new_flows_len", json!(new)), ("old_flows_len", json!(old))]));
    QdiscText { options, options_json, stats: text, stats_json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_keeps_its_value() {
        let said = CodelWords::parse(&mut Words::new("target 3ms ce_threshold 1ms limit 5"));
        let config = said.expect("good words").over(CodelConfig::new(1514));
        assert_eq!((config.limit, config.params.target.as_micros()), (5, 2999));
        assert_eq!(config.params.interval.as_micros(), 99_999);
        let more = CodelWords::parse(&mut Words::new("ecn")).expect("good words").over(config);
        assert_eq!((more.limit, more.params.ecn), (5, true));
    }

    #[test]
    fn fq_codel_has_words_of_its_own() {
        let text = "quantum 300 flows 64 memory_limit 4Mb ce_threshold_selector 1/3 noecn";
        let said = FqCodelWords::parse(&mut Words::new(text)).expect("good words");
        let config = said.over(FqCodelConfig::new(1514));
        assert_eq!((config.quantum, config.flows, config.memory_limit), (300, 64, 4 << 20));
        assert_eq!(config.params.ce_selector, CeSelector { value: 1, mask: 3 });
        assert!(!config.params.ecn);
        let wrong = FqCodelWords::parse(&mut Words::new("qantum 1")).expect_err("a bad word");
        assert_eq!(wrong.nearest.as_deref(), Some("quantum"));
    }
}
