//! `htb [ default MINOR ] [ r2q NUMBER ] [ direct_qlen PACKETS ]`, and its classes: `htb rate RATE [ ceil RATE ]
//! [ burst BYTES ] [ cburst BYTES ] [ prio NUMBER ] [ quantum BYTES ] [ mtu BYTES ] [ mpu BYTES ] [ overhead BYTES ]
//! [ linklayer TYPE ]`.

use super::qdisc_text::{Push, QdiscText, map};
use super::show::push_stats;
use super::tbf::link_layer;
use crate::units::{
    decimal, parse_hex, rate, show_rate, show_size, size_and_cell, transmit_size, transmit_time,
};
use crate::words::{Result, Word, Words};
use datapath::qdisc::htb::{ClassConfig, Htb, HtbConfig};
use datapath::qdisc::rate::{LinkLayer, RateConfig};
use datapath::qdisc::{Handle, Qdisc as _, Sched, Stats};
use datapath::units::{NANOS_PER_SEC, Rate};
use serde_json::json;

/// The options of the qdisc as they were said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbWords {
    default: u32,
    rate2quantum: Option<u32>,
    direct_qlen: Option<u32>,
}

const OPTIONS: [&str; 5] = ["r2q", "default", "debug", "direct_qlen", "offload"];

impl HtbWords {
    /// Reads htb's options, each of which may be cut short (`htb_parse_opt`).
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self> {
        let mut said = Self::default();
        while let Some(word) = words.next() {
            match word.cut_short(&OPTIONS) {
                Some("r2q") => said.rate2quantum = Some(decimal(words.value(word)?, "r2q")?),
                Some("default") => {
                    let value = words.value(word)?;
                    said.default = parse_hex(value.text).ok_or_else(|| value.illegal("default"))?;
                }
                Some("debug") => drop(words.value(word)?),
                Some("direct_qlen") => {
                    // The greatest number is what tc has for none.
                    let packets = decimal(words.value(word)?, "direct_qlen")?;
                    said.direct_qlen = (packets != u32::MAX).then_some(packets);
                }
                Some(_) => {
                    let message = "htb: there is no hardware for \"offload\"";
                    return Err(word.error(message.to_owned(), None));
                }
                None => return Err(word.unknown("htb", &OPTIONS[..4])),
            }
        }
        Ok(said)
    }

    /// With what the device gives where nothing was said.
    pub(super) fn config(&self, tx_queue_len: u32) -> HtbConfig {
        HtbConfig {
            default: self.default,
            rate2quantum: self.rate2quantum.unwrap_or(10),
            direct_qlen: self.direct_qlen.unwrap_or(tx_queue_len),
            tx_queue_len,
        }
    }
}

/// The options of a class as they were said; what is zero was not.
struct ClassWords {
    rate: Rate,
    ceil: Rate,
    burst: u32,
    cburst: u32,
    prio: u32,
    quantum: u32,
    mtu: u32,
    mpu: u16,
    overhead: u16,
    link_layer: LinkLayer,
}

/// The options that may be cut short, in the order in which tc looks at them.
const CUT_SHORT: [&str; 8] =
    ["prio", "mtu", "mpu", "overhead", "linklayer", "quantum", "burst", "cburst"];
const CLASS_OPTIONS: [&str; 14] = [
    "rate",
    "ceil",
    "burst",
    "buffer",
    "maxburst",
    "cburst",
    "cbuffer",
    "cmaxburst",
    "prio",
    "quantum",
    "mtu",
    "mpu",
    "overhead",
    "linklayer",
];

/// Reads the options of a class (`htb_parse_class_opt`).
pub(super) fn parse_class(words: &mut Words<'_>) -> Result<ClassConfig> {
    let none = Rate::from_bytes_per_sec(0);
    let mut said = ClassWords {
        rate: none,
        ceil: none,
        burst: 0,
        cburst: 0,
        prio: 0,
        quantum: 0,
        mtu: 1600,
        mpu: 0,
        overhead: 0,
        link_layer: LinkLayer::Ethernet,
    };
    while let Some(word) = words.next() {
        said.option(word, words)?;
    }
    if said.rate == none {
        return Err(words.missing("htb", "rate"));
    }
    Ok(said.finish())
}

impl ClassWords {
    fn option(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
        match word.cut_short(&CUT_SHORT).unwrap_or(word.text) {
            "prio" => self.prio = decimal(words.value(word)?, "prio")?,
            "mtu" => self.mtu = decimal(words.value(word)?, "mtu")?,
            "mpu" => self.mpu = decimal(words.value(word)?, "mpu")?,
            "overhead" => self.overhead = decimal(words.value(word)?, "overhead")?,
            "linklayer" => self.link_layer = link_layer(words.value(word)?)?,
            "quantum" => self.quantum = decimal(words.value(word)?, "quantum")?,
            "burst" | "buffer" | "maxburst" => {
                self.burst = size_and_cell(words.value(word)?, "buffer")?;
            }
            "cburst" | "cbuffer" | "cmaxburst" => {
                self.cburst = size_and_cell(words.value(word)?, "cbuffer")?;
            }
            "ceil" => once(&mut self.ceil, word, words)?,
            "rate" => once(&mut self.rate, word, words)?,
            _ => return Err(word.unknown("htb", &CLASS_OPTIONS)),
        }
        Ok(())
    }

    /// What was not said follows from the rates: a burst is what one tick of the kernel's clock, a nanosecond, lets
    /// through, and a packet.
    fn finish(self) -> ClassConfig {
        let none = Rate::from_bytes_per_sec(0);
        let ceil = if self.ceil == none { self.rate } else { self.ceil };
        let config = |rate| RateConfig::with_link(rate, self.overhead, self.mpu, self.link_layer);
        let depth = |rate: Rate, burst| {
            let least = (rate.bytes_per_sec() / NANOS_PER_SEC) as u32;
            let burst = if burst == 0 { least.wrapping_add(self.mtu) } else { burst };
            transmit_time(rate, burst)
        };
        ClassConfig {
            rate: config(self.rate),
            ceil: config(ceil),
            buffer: depth(self.rate, self.burst),
            cbuffer: depth(ceil, self.cburst),
            prio: self.prio,
            quantum: self.quantum,
        }
    }
}

/// tc takes no rate twice.
fn once(place: &mut Rate, word: Word<'_>, words: &mut Words<'_>) -> Result<()> {
    let value = words.value(word)?;
    if place.bytes_per_sec() > 0 {
        return Err(word.error(format!("htb: double \"{}\" spec", word.text), None));
    }
    *place = rate(value)?;
    Ok(())
}

/// As tc shows the qdisc.
pub(super) fn shown(htb: &Htb, details: bool) -> QdiscText {
    let config = htb.config();
    let direct = htb.direct_packets();
    let default =
        if config.default == 0 { "0".to_owned() } else { format!("{:#x}", config.default) };
    let mut options =
        format!("r2q {} default {default} direct_packets_stat {direct}", config.rate2quantum);
    let mut options_json = map([
        ("r2q", json!(config.rate2quantum)),
        ("default", json!(default)),
        ("direct_packets_stat", json!(direct)),
    ]);
    if details {
        options.push_str(" ver 3.17");
        options_json.insert("ver".to_owned(), json!("3.17"));
    }
    options.push_fmt(format_args!(" direct_qlen {}", config.direct_qlen));
    options_json.insert("direct_qlen".to_owned(), json!(config.direct_qlen));
    QdiscText { options, options_json, ..QdiscText::default() }
}

/// As tc shows its classes, with what they have counted (`htb_print_opt`, `htb_print_xstats`).
pub(super) fn classes_text(htb: &Htb, details: bool) -> String {
    let mut text = String::new();
    for class in htb.classes() {
        text.push_fmt(format_args!("class htb {class} "));
        push_class(&mut text, htb, class, details);
    }
    text
}

fn push_class(text: &mut String, htb: &Htb, class: Handle, details: bool) {
    let state = htb.state(class).expect("it is one of those listed");
    let config = &state.config;
    match state.parent {
        Handle::ROOT => text.push_str("root "),
        parent => text.push_fmt(format_args!("parent {parent} ")),
    }
    let leaf = htb.leaf(class);
    if let Some(leaf) = leaf.filter(|leaf| leaf.handle != Handle::NONE) {
        text.push_fmt(format_args!("leaf {:x}: ", leaf.handle.major()));
    }
    if state.level == 0 {
        text.push_fmt(format_args!("prio {} ", config.prio));
        if details {
            text.push_fmt(format_args!("quantum {} ", config.quantum as i32));
        }
    }
    text.push_fmt(format_args!("rate {} ", show_rate(config.rate.rate())));
    if config.rate.overhead() > 0 {
        text.push_fmt(format_args!("overhead {} ", config.rate.overhead()));
    }
    text.push_fmt(format_args!("ceil {} ", show_rate(config.ceil.rate())));
    match config.rate.link_layer() {
        LinkLayer::Atm => text.push_str("linklayer atm "),
        LinkLayer::Ethernet if details => text.push_str("linklayer ethernet "),
        LinkLayer::Ethernet => {}
    }
    let buckets = [("burst", config.rate, config.buffer), ("cburst", config.ceil, config.cbuffer)];
    for (name, rate, depth) in buckets {
        text.push_fmt(format_args!("{name} {}", show_size(transmit_size(rate.rate(), depth))));
        if details {
            text.push_fmt(format_args!("/1 mpu {}", show_size(rate.mpu().into())));
        }
        text.push(' ');
    }
    if details {
        text.push_fmt(format_args!("level {} ", state.level));
    }
    text.push('\n');
    let stats = &state.stats;
    let counted = Stats {
        bytes: stats.bytes,
        packets: stats.packets,
        drops: stats.drops.into(),
        overlimits: stats.overlimits.into(),
        requeues: 0,
    };
    push_stats(text, counted, leaf.map(Sched::backlog).unwrap_or_default());
    // No packet is a giant any more.
    text.push_fmt(format_args!(
        " lended: {} borrowed: {} giants: 0\n tokens: {} ctokens: {}\n\n",
        stats.lends,
        stats.borrows,
        in_ticks(state.tokens),
        in_ticks(state.ctokens)
    ));
}

/// Tokens as scheduler ticks, as far as tc's number goes (`PSCHED_NS2TICKS`).
fn in_ticks(nanos: i64) -> i64 {
    (nanos >> 6).clamp(i32::MIN.into(), i32::MAX.into())
}
