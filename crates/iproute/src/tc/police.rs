//! `police rate RATE burst BYTES[/BYTES] [ mtu BYTES[/BYTES] ] [ peakrate RATE ]
//! [ overhead BYTES ] [ linklayer TYPE ] [ conform-exceed EXCEED[/CONFORM] | EXCEED ]`.

use super::qdisc_text::Push;
use super::tbf::link_layer;
use crate::units::{
    decimal, rate, show_rate, show_size, size_and_cell, transmit_size, transmit_time,
};
use crate::words::{Result, Word, Words};
use datapath::qdisc::police::{Action, Police, PoliceConfig};
use datapath::qdisc::rate::{LinkLayer, RateConfig};
use datapath::units::{Duration, Rate};

const OPTIONS: [&str; 14] = [
    "rate",
    "burst",
    "buffer",
    "maxburst",
    "mtu",
    "minburst",
    "peakrate",
    "overhead",
    "linklayer",
    "conform-exceed",
    "drop",
    "ok",
    "pass",
    "continue",
];

/// The words as they were said.
struct ParsedOptions {
    rate: Option<Rate>,
    burst: Option<u32>,
    mtu: Option<u32>,
    peakrate: Option<Rate>,
    overhead: u16,
    link_layer: LinkLayer,
    conform: Action,
    exceed: Action,
}

/// Reads the options of a policer, after the word `police`, up to the end of the words.
///
/// # Errors
/// An unknown option, a bad value, or something mandatory that is missing.
pub fn parse_police(words: &mut Words<'_>) -> Result<PoliceConfig> {
    let mut said = ParsedOptions {
        rate: None,
        burst: None,
        mtu: None,
        peakrate: None,
        overhead: 0,
        link_layer: LinkLayer::Ethernet,
        conform: Action::Ok,
        exceed: Action::Pipe,
    };
    while let Some(word) = words.next() {
        said.option(word, words)?;
    }
    said.finish(words)
}

impl ParsedOptions {
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.text {
            "rate" => self.rate = Some(rate(words.value(word)?)?),
            "burst" | "buffer" | "maxburst" => {
                self.burst = Some(size_and_cell(words.value(word)?, word.text)?);
            }
            "mtu" | "minburst" => self.mtu = Some(size_and_cell(words.value(word)?, word.text)?),
            "peakrate" => self.peakrate = Some(rate(words.value(word)?)?),
            "overhead" => self.overhead = decimal(words.value(word)?, "overhead")?,
            "linklayer" => self.link_layer = link_layer(words.value(word)?)?,
            "conform-exceed" => (self.exceed, self.conform) = verdicts(words.value(word)?)?,
            _ => self.exceed = action(word).ok_or_else(|| word.unknown("police", &OPTIONS))?,
        }
        Ok(())
    }

    fn finish(mut self, words: &Words<'_>) -> Result<PoliceConfig> {
        self.rate = self.rate.filter(|rate| *rate != Rate::default());
        self.peakrate = self.peakrate.filter(|rate| *rate != Rate::default());
        let config = |rate| RateConfig::with_link(rate, self.overhead, 0, self.link_layer);
        match (self.rate, self.burst, self.mtu) {
            (None, _, None) => Err(words.unexpected_end("\"rate\" or \"mtu\" MUST be specified")),
            (Some(_), None, _) => Err(words.unexpected_end("\"burst\" requires \"rate\"")),
            (None, Some(_), _) => Err(words.missing("police", "rate")),
            _ if self.peakrate.is_some() && self.mtu.is_none() => {
                Err(words.unexpected_end("\"mtu\" is required, if \"peakrate\" is requested"))
            }
            (rate, burst, mtu) => Ok(PoliceConfig {
                burst: rate
                    .zip(burst)
                    .map_or(Duration::ZERO, |(rate, burst)| transmit_time(rate, burst)),
                rate: rate.map(config),
                mtu: mtu.unwrap_or(PoliceConfig::DEFAULT_MTU),
                peak: self.peakrate.map(config),
                conform: self.conform,
                exceed: self.exceed,
            }),
        }
    }
}

/// `EXCEED[/CONFORM]`.
fn verdicts(word: Word<'_>) -> Result<(Action, Action)> {
    let (exceed, conform) = word.text.split_once('/').unwrap_or((word.text, "ok"));
    let read = |text| action(Word { text, ..word });
    read(exceed).zip(read(conform)).ok_or_else(|| word.illegal("conform-exceed"))
}

fn action(word: Word<'_>) -> Option<Action> {
    match word.text {
        "drop" | "shot" => Some(Action::Drop),
        "ok" | "pass" => Some(Action::Ok),
        "pipe" | "continue" | "reclassify" => Some(Action::Pipe),
        _ => None,
    }
}

/// The action's text in `tc -s filter show`: settings and statistics.
pub fn show_police(police: &Police) -> String {
    let PoliceConfig { rate, burst, mtu, peak, exceed, conform } = police.config();
    let stats = police.stats();
    let name = |action: &Action| match action {
        Action::Ok => "pass",
        Action::Pipe => "pipe",
        Action::Drop => "drop",
    };
    let mut text = "police ".to_owned();
    if let Some(rate) = rate {
        let burst = show_size(transmit_size(rate.rate(), *burst));
        text.push_fmt(format_args!("rate {} burst {burst} ", show_rate(rate.rate())));
    }
    text.push_fmt(format_args!("mtu {} ", show_size(*mtu)));
    if let Some(peak) = peak {
        text.push_fmt(format_args!("peakrate {} ", show_rate(peak.rate())));
    }
    text.push_fmt(format_args!("action {}", name(exceed)));
    if *conform != Action::Ok {
        text.push_fmt(format_args!("/{}", name(conform)));
    }
    text.push_str(" overhead 0b\n\tAction statistics:\n");
    text.push_fmt(format_args!(
        "\tSent {} bytes {} pkt (dropped {}, overlimits {} requeues 0)\n\tbacklog 0b 0p requeues 0\n",
        stats.bytes, stats.packets, stats.drops, stats.overlimits
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn police(text: &str) -> Result<PoliceConfig> {
        parse_police(&mut Words::new(text))
    }

    #[test]
    fn buckets_are_cut_to_ticks() {
        let config = police("rate 5mbit burst 20000 mtu 2000 conform-exceed drop").expect("good");
        assert_eq!((config.burst.as_nanos(), config.mtu), (32_000_000, 2000));
        assert_eq!((config.conform, config.exceed), (Action::Ok, Action::Drop));
        // 1.2112 µs are cut to 1 µs, that to 15 ticks: less than the packet needs.
        let fast = police("rate 10gbit burst 1514 drop").expect("good");
        assert_eq!((fast.burst.as_nanos(), fast.mtu), (960, 2040));
        let both = police("rate 1mbit burst 5k conform-exceed drop/pipe").expect("good");
        assert_eq!((both.conform, both.exceed), (Action::Pipe, Action::Drop));
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, message) in [
            ("burst 5k", "\"rate\" or \"mtu\" MUST be specified"),
            ("rate 1mbit", "\"burst\" requires \"rate\""),
            ("rate 1mbit brust 5k", "police: unknown parameter \"brust\""),
            (
                "rate 1mbit burst 5k conform-exceed dorp",
                "illegal value for \"conform-exceed\": \"dorp\"",
            ),
        ] {
            assert_eq!(police(text).expect_err(text).message, message);
        }
    }

    /// As the recorded kernel printed it, but for the counts.
    #[test]
    fn output_is_tcs() {
        let config = police("rate 5mbit burst 20000 mtu 2000 conform-exceed drop").expect("good");
        let shown = show_police(&Police::new(config));
        let first = shown.lines().next();
        assert_eq!(first, Some("police rate 5Mbit burst 20000b mtu 2000b action drop overhead 0b"));
    }
}
