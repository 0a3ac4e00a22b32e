//! `red limit BYTES [ min BYTES ] [ max BYTES ] avpkt BYTES [ burst PACKETS ] [ probability P ]
//! [ bandwidth RATE ] [ ecn ] [ harddrop ] [ nodrop ] [ adaptive ]`, and what tc computes from it.

use super::qdisc_text::{Push, QdiscText, map};
use crate::units::{leading_number, number, rate, show_size, size, transmit_ticks};
use crate::words::{Result, Word, Words};
use datapath::qdisc::red::{Red, RedConfig};
use datapath::units::Rate;
use serde_json::json;

const OPTIONS: [&str; 11] = [
    "limit",
    "min",
    "max",
    "avpkt",
    "burst",
    "probability",
    "bandwidth",
    "ecn",
    "harddrop",
    "nodrop",
    "adaptive",
];

/// The words as they were said.
struct ParsedOptions {
    limit: u32,
    min: u32,
    max: u32,
    avpkt: u32,
    burst: u32,
    probability: f64,
    bandwidth: Rate,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
    adaptive: bool,
}

/// Reads red's options.
pub(super) fn parse(words: &mut Words<'_>) -> Result<RedConfig> {
    let mut said = ParsedOptions {
        limit: 0,
        min: 0,
        max: 0,
        avpkt: 0,
        burst: 0,
        probability: 0.02,
        bandwidth: Rate::from_mbit(10),
        ecn: false,
        harddrop: false,
        nodrop: false,
        adaptive: false,
    };
    while let Some(word) = words.next() {
        said.option(word, words)?;
    }
    said.finish(words)
}

impl ParsedOptions {
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.text {
            "limit" => self.limit = size(words.value(word)?, "limit")?,
            "min" => self.min = size(words.value(word)?, "min")?,
            "max" => self.max = size(words.value(word)?, "max")?,
            "avpkt" => self.avpkt = size(words.value(word)?, "avpkt")?,
            "burst" => self.burst = number(words.value(word)?, "burst")?,
            "probability" => self.probability = probability(words.value(word)?),
            "bandwidth" => self.bandwidth = rate(words.value(word)?)?,
            "ecn" => self.ecn = true,
            "harddrop" => self.harddrop = true,
            "nodrop" => self.nodrop = true,
            "adaptive" | "adaptative" => self.adaptive = true,
            _ => return Err(word.unknown("red", &OPTIONS)),
        }
        Ok(())
    }

    /// Fills in what was not said and computes what the kernel wants.
    fn finish(mut self, words: &Words<'_>) -> Result<RedConfig> {
        if self.limit == 0 || self.avpkt == 0 {
            let what = if self.limit == 0 { "limit" } else { "avpkt" };
            return Err(words.missing("red", what));
        }
        if self.nodrop && !self.ecn {
            return Err(words.unexpected_end("red: \"nodrop\" needs \"ecn\""));
        }
        if self.max == 0 {
            self.max = if self.min == 0 { self.limit / 4 } else { self.min.saturating_mul(3) };
        }
        if self.min == 0 {
            self.min = self.max / 3;
        }
        if self.burst == 0 {
            let [min, max, avpkt] = [self.min, self.max, self.avpkt].map(u64::from);
            self.burst = ((2 * min + max) / (3 * avpkt)) as u32;
        }
        let refuse = |what: &str| words.unexpected_end(&format!("red: failed to calculate {what}"));
        let wlog = self.wlog().ok_or_else(|| refuse(&self.ewma_advice()))?;
        let plog = self.plog().ok_or_else(|| refuse("probability"))?;
        let idle = self.idle_decay(wlog).ok_or_else(|| refuse("idle damping table"))?;
        Ok(RedConfig {
            limit: self.limit,
            min: self.min,
            max: self.max,
            wlog,
            plog,
            max_probability: self.max_probability(),
            scell_log: idle.0,
            idle_decay: idle.1,
            ecn: self.ecn,
            harddrop: self.harddrop,
            adaptive: self.adaptive,
            nodrop: self.nodrop,
        })
    }

    /// The largest weight 2^-wlog with which `burst` packets into an empty queue leave the
    /// average below `min`: 1 + burst - min / avpkt <= (1 - (1 - w)^burst) / w.
    fn wlog(&self) -> Option<u8> {
        let burst = f64::from(self.burst);
        let bound = burst + 1.0 - f64::from(self.min) / f64::from(self.avpkt);
        let suits = |wlog: &u8| {
            let weight = 0.5f64.powi(i32::from(*wlog));
            bound <= (1.0 - (1.0 - weight).powf(burst)) / weight
        };
        (1..32).find(suits).filter(|_| bound >= 1.0)
    }

    /// tc's advice for a burst that is shorter than `min`.
    fn ewma_advice(&self) -> String {
        let least = self.min / self.avpkt + 1;
        if self.burst >= least {
            return "EWMA constant".to_owned();
        }
        format!("EWMA constant: burst {} is too small, try burst {least}", self.burst)
    }

    /// The least power of two by which the probability per byte above `min` exceeds one.
    fn plog(&self) -> Option<u8> {
        let range = self.max.checked_sub(self.min)?;
        if range == 0 {
            return Some(0);
        }
        let per_byte = self.probability / f64::from(range);
        (0..32).find(|plog| per_byte * 2f64.powi(i32::from(*plog)) > 1.0)
    }

    /// One is 2³², of which the lower 32 bits are left: of 1 and of 2 none, of 2.5 a half. What
    /// does not fit 63 bits leaves none either.
    fn max_probability(&self) -> u32 {
        let parts = self.probability * 4_294_967_296.0;
        if parts < 9_223_372_036_854_775_808.0 { parts as u64 as u32 } else { 0 }
    }

    /// How far the average decays while idle: as if average packets had passed at the
    /// bandwidth, log2 of (1 - w)^n, in cells of 2^log so that 31 bits fit within 512 cells.
    /// tc counts the packet's time in ticks where the kernel will count µs; so do we.
    fn idle_decay(&self, wlog: u8) -> Option<(u8, Box<[u8; 256]>)> {
        let packet_time = transmit_ticks(self.bandwidth, self.avpkt) as f64;
        let per_tick = -(1.0 - 1.0 / f64::from(1u32 << wlog)).ln() / packet_time;
        let longest = 31.0 / per_tick;
        let cell_log = (0..32).find(|log| longest / 2f64.powi(*log) < 512.0)?;
        let mut table = Box::new([31; 256]);
        for (cell, entry) in table.iter_mut().enumerate().take(255) {
            let ticks = (cell as u64) << cell_log;
            *entry = (ticks as f64 * per_tick).min(31.0) as u8;
        }
        Some((cell_log as u8, table))
    }
}

/// The number at the beginning, or 0: tc looks neither at what follows nor whether it is at most
/// one. From zero on downwards there is no `Plog` for it.
fn probability(word: Word<'_>) -> f64 {
    leading_number(word.text).map_or(0.0, |(probability, _)| probability)
}

/// As tc shows it; "other" counts what nothing drops any more.
pub(super) fn shown(red: &Red) -> QdiscText {
    let RedConfig { limit, min, max, ecn, harddrop, adaptive, nodrop, .. } = red.config();
    let [limit_text, min_text, max_text] = [limit, min, max].map(|bytes| show_size(*bytes));
    let mut options = format!("limit {limit_text} min {min_text} max {max_text} ");
    let flags = [("ecn", ecn), ("harddrop", harddrop), ("adaptive", adaptive), ("nodrop", nodrop)];
    for (name, _) in flags.iter().filter(|(_, set)| **set) {
        options.push_fmt(format_args!("{name} "));
    }
    let mut options_json = map([("limit", json!(limit)), ("min", json!(min)), ("max", json!(max))]);
    options_json.extend(map(flags.map(|(name, set)| (name, json!(set)))));
    let stats = red.own_stats();
    QdiscText {
        options,
        options_json,
        stats: format!(
            "  marked {} early {} pdrop {} other 0 \n",
            stats.marked, stats.early, stats.pdrop
        ),
        stats_json: map([
            ("marked", json!(stats.marked)),
            ("early", json!(stats.early)),
            ("pdrop", json!(stats.pdrop)),
            ("other", json!(0)),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(text: &str) -> RedConfig {
        parse(&mut Words::new(text)).expect(text)
    }

    /// What tc 6.1 sends for these words, seen on its netlink socket: limits, logs, probability,
    /// and the last cell before each step of the idle table.
    #[test]
    fn computes_what_tc_computes() {
        for (text, numbers, max_probability, first_steps) in [
            (
                "limit 400000 min 30000 max 30001 avpkt 1500 burst 21 bandwidth 10mbit \
                 probability 1 ecn",
                (400_000, 30_000, 30_001, 2, 1, 12),
                0,
                [16, 32, 48],
            ),
            ("limit 60kb avpkt 1000", (61_440, 5120, 15_360, 3, 19, 13), 0x051e_b851, [12, 23, 35]),
            (
                "limit 60kb min 5kb max 20kb avpkt 1000 burst 20 bandwidth 100mbit \
                 probability 0.1 harddrop adaptive nodrop ecn",
                (61_440, 5120, 20_480, 6, 18, 13),
                0x1999_9999,
                [10, 20, 30],
            ),
            (
                "limit 500000 min 15000 max 45000 avpkt 1000",
                (500_000, 15_000, 45_000, 4, 21, 14),
                0x051e_b851,
                [12, 24, 36],
            ),
            (
                "limit 400000 min 97500 max 97500 avpkt 1500 burst 66 probability 1 ecn",
                (400_000, 97_500, 97_500, 1, 0, 11),
                0,
                [14, 27, 40],
            ),
        ] {
            let config = red(text);
            let RedConfig { limit, min, max, wlog, plog, scell_log, .. } = config;
            assert_eq!((limit, min, max, wlog, plog, scell_log), numbers, "{text}");
            assert_eq!(config.max_probability, max_probability, "{text}");
            let step = |bits: u8| config.idle_decay.iter().position(|shift| *shift >= bits);
            assert_eq!([1, 2, 3].map(|bits| step(bits).expect("a step")), first_steps, "{text}");
            assert_eq!(config.idle_decay[255], 31);
        }
    }

    /// As tc 6.1 sent them: `Plog` and `TCA_RED_MAX_P`.
    #[test]
    fn probabilities_need_not_be_below_one() {
        for (text, plog, max_probability) in [
            ("0.0001", 29, 0x0006_8db8),
            ("1e-2", 22, 0x028f_5c28),
            ("0x1p-3", 18, 0x2000_0000),
            ("0.1x", 19, 0x1999_9999),
            ("1.5", 15, 0x8000_0000),
            ("2", 14, 0),
            ("2.5", 14, 0x8000_0000),
            ("3.25", 14, 0x4000_0000),
            ("5%", 13, 0),
            ("1e3", 5, 0),
            ("1e30", 0, 0),
        ] {
            let config =
                red(&format!("limit 400000 min 15000 max 45000 avpkt 1000 probability {text}"));
            assert_eq!((config.plog, config.max_probability), (plog, max_probability), "{text}");
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        for (text, message) in [
            ("min 5000", "red: the \"limit\" parameter is mandatory"),
            (
                "limit 5000 avpkt 1000 burst 1 min 90000 max 99000",
                "red: failed to calculate EWMA constant: burst 1 is too small, try burst 91",
            ),
            (
                "limit 400000 avpkt 1500 min 90000 max 30000",
                "red: failed to calculate EWMA constant: burst 46 is too small, try burst 61",
            ),
            ("limit 5000 avpkt 1000 nodrop", "red: \"nodrop\" needs \"ecn\""),
            (
                "limit 400000 min 15000 max 45000 avpkt 1000 probability 0",
                "red: failed to calculate probability",
            ),
            (
                "limit 400000 min 15000 max 45000 avpkt 1000 probability -1",
                "red: failed to calculate probability",
            ),
            (
                "limit 400000 min 15000 max 45000 avpkt 1000 probability 1e-9",
                "red: failed to calculate probability",
            ),
            (
                "limit 400000 min 15000 max 45000 avpkt 1000 burst 1e1",
                "illegal value for \"burst\": \"1e1\"",
            ),
        ] {
            assert_eq!(parse(&mut Words::new(text)).expect_err(text).message, message);
        }
    }
}
