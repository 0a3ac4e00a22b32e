//! `codel [ limit PACKETS ] [ target TIME ] [ interval TIME ] [ [no]ecn ] [ ce_threshold TIME ]`
//! and the like words of `fq_codel`.

use crate::units::{number, size, time};
use crate::words::{Result, Word, Words};
use datapath::qdisc::codel::{CeSelector, CodelConfig, CodelParams, CodelTime};
use datapath::qdisc::fq_codel::FqCodelConfig;

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
            "quantum" => self.quantum = Some(number(words.value(word)?, "quantum")?.max(256)),
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
