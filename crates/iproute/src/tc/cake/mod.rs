//! `cake`: its words (`tc-cake(8)`), and its statistics as text and JSON.
//!
//! Words act from left to right, as in iproute2 6.1: `ether-vlan` and the link keywords add to the
//! overhead given so far, `overhead` replaces it, `raw` clears it.

mod show;

pub use show::{
    ack_filter_name, classes_text, flow_text, options_json, options_text, qdisc_json, stats_json,
    stats_text,
};

use crate::units;
use crate::words::{Result, Word, Words};
use datapath::qdisc::cake::{AckFilter, FlowMode, Framing, Patch, TinMode};
use datapath::units::{Duration, Rate};

/// Reads the words that follow `cake` into what they set.
///
/// # Errors
/// At the first word that is none of CAKE's, or at a value that is none.
pub fn parse(words: &mut Words<'_>) -> Result<Patch> {
    let mut patch = Patch::default();
    while let Some(word) = words.next() {
        let known = KEYWORDS.iter().find(|(name, _)| *name == word.text);
        let (_, meaning) =
            known.ok_or_else(|| word.unknown("cake", &KEYWORDS.map(|(name, _)| name)))?;
        apply(*meaning, word, words, &mut patch)?;
    }
    Ok(patch)
}

/// What a keyword means.
#[derive(Clone, Copy)]
enum Meaning {
    /// `bandwidth RATE`.
    Bandwidth,
    /// `unlimited`.
    Unlimited,
    /// `autorate-ingress`.
    Autorate,
    /// `rtt TIME`.
    Rtt,
    /// A named interval in µs; the target is a twentieth of it.
    Preset(u64),
    Tins(TinMode),
    Flows(FlowMode),
    Nat(bool),
    Wash(bool),
    SplitGso(bool),
    Ingress(bool),
    AckFilter(AckFilter),
    Framing(Framing),
    /// `raw`.
    Raw,
    /// `overhead N`.
    Overhead,
    /// `mpu N`.
    Mpu,
    /// `memlimit SIZE`.
    Memlimit,
    /// `fwmark MASK`.
    Fwmark,
    /// A link: what it adds to the overhead, its least packet size, and its framing.
    Link(i32, Option<u32>, Option<Framing>),
    /// `conservative`: the overhead of any known link.
    Conservative,
    /// Accepted without effect.
    Nothing,
}

fn apply(meaning: Meaning, word: Word<'_>, words: &mut Words<'_>, patch: &mut Patch) -> Result<()> {
    let mut value = || words.value(word);
    match meaning {
        Meaning::Bandwidth => {
            let rate = units::rate(value()?)?;
            patch.autorate_ingress = Some(false);
            if rate.bytes_per_sec() != 0 {
                patch.bandwidth = Some(rate);
            }
        }
        Meaning::Unlimited => {
            patch.autorate_ingress = Some(false);
            patch.bandwidth = Some(Rate::default());
        }
        Meaning::Autorate => patch.autorate_ingress = Some(true),
        Meaning::Rtt => {
            set_rtt(patch, units::time(value()?, "rtt")?.as_micros());
        }
        Meaning::Preset(micros) => set_rtt(patch, micros),
        Meaning::Tins(tins) => patch.tins = Some(tins),
        Meaning::Flows(flows) => patch.flows = Some(flows),
        Meaning::Nat(nat) => patch.nat = Some(nat),
        Meaning::Wash(wash) => patch.wash = Some(wash),
        Meaning::SplitGso(split) => patch.split_gso = Some(split),
        Meaning::Ingress(ingress) => patch.ingress = Some(ingress),
        Meaning::AckFilter(filter) => patch.ack_filter = Some(filter),
        Meaning::Framing(framing) => patch.framing = Some(framing),
        Meaning::Raw => {
            patch.raw = true;
            patch.overhead = Some(0);
            patch.framing = Some(Framing::None);
        }
        Meaning::Overhead => {
            let number = ranged(value()?, "overhead", -64, 256)?;
            patch.overhead = Some(number);
        }
        Meaning::Mpu => {
            let number = ranged(value()?, "mpu", 0, 256)?;
            patch.mpu = Some(number as u32);
        }
        Meaning::Memlimit => {
            let size = units::size(value()?, "memlimit")?;
            patch.memlimit = (size != 0).then_some(size);
        }
        Meaning::Fwmark => {
            let mask = units::number(value()?, "fwmark")?;
            patch.fwmark_mask = (mask != 0).then_some(mask);
        }
        Meaning::Link(overhead, mpu, framing) => {
            patch.overhead = Some(patch.overhead.unwrap_or(0) + overhead);
            patch.mpu = mpu.or(patch.mpu);
            patch.framing = framing.or(patch.framing);
        }
        Meaning::Conservative => {
            patch.overhead = Some(48);
            patch.framing = Some(Framing::Atm);
        }
        Meaning::Nothing => {}
    }
    Ok(())
}

/// An interval, and the target that goes with it; an interval of zero is not sent.
fn set_rtt(patch: &mut Patch, micros: u64) {
    patch.target = Some(Duration::from_micros((micros / 20).max(1)));
    if micros != 0 {
        patch.interval = Some(Duration::from_micros(micros));
    }
}

fn ranged(word: Word<'_>, what: &str, least: i32, most: i32) -> Result<i32> {
    match word.text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => {
            let message = format!("illegal \"{what}\", valid range is {least} to {most}");
            Err(word.error(message, None))
        }
    }
}

const ATM: Option<Framing> = Some(Framing::Atm);
const PTM: Option<Framing> = Some(Framing::Ptm);

/// Every keyword.
const KEYWORDS: [(&str, Meaning); 63] = [
    ("bandwidth", Meaning::Bandwidth),
    ("unlimited", Meaning::Unlimited),
    ("autorate-ingress", Meaning::Autorate),
    ("rtt", Meaning::Rtt),
    ("datacentre", Meaning::Preset(100)),
    ("lan", Meaning::Preset(1_000)),
    ("metro", Meaning::Preset(10_000)),
    ("regional", Meaning::Preset(30_000)),
    ("internet", Meaning::Preset(100_000)),
    ("oceanic", Meaning::Preset(300_000)),
    ("satellite", Meaning::Preset(1_000_000)),
    ("interplanetary", Meaning::Preset(1_000_000_000)),
    ("besteffort", Meaning::Tins(TinMode::Besteffort)),
    ("precedence", Meaning::Tins(TinMode::Precedence)),
    ("diffserv8", Meaning::Tins(TinMode::Diffserv8)),
    ("diffserv4", Meaning::Tins(TinMode::Diffserv4)),
    ("diffserv", Meaning::Tins(TinMode::Diffserv4)),
    ("diffserv3", Meaning::Tins(TinMode::Diffserv3)),
    ("flowblind", Meaning::Flows(FlowMode::Flowblind)),
    ("srchost", Meaning::Flows(FlowMode::Srchost)),
    ("dsthost", Meaning::Flows(FlowMode::Dsthost)),
    ("hosts", Meaning::Flows(FlowMode::Hosts)),
    ("flows", Meaning::Flows(FlowMode::Flows)),
    ("dual-srchost", Meaning::Flows(FlowMode::DualSrchost)),
    ("dual-dsthost", Meaning::Flows(FlowMode::DualDsthost)),
    ("triple-isolate", Meaning::Flows(FlowMode::TripleIsolate)),
    ("nat", Meaning::Nat(true)),
    ("nonat", Meaning::Nat(false)),
    ("wash", Meaning::Wash(true)),
    ("nowash", Meaning::Wash(false)),
    ("split-gso", Meaning::SplitGso(true)),
    ("no-split-gso", Meaning::SplitGso(false)),
    ("ack-filter", Meaning::AckFilter(AckFilter::Conservative)),
    ("ack-filter-aggressive", Meaning::AckFilter(AckFilter::Aggressive)),
    ("ack-filter-v8", Meaning::AckFilter(AckFilter::V8Conservative)),
    ("ack-filter-v8-aggressive", Meaning::AckFilter(AckFilter::V8Aggressive)),
    ("ack-filter-naive", Meaning::AckFilter(AckFilter::Naive)),
    ("no-ack-filter", Meaning::AckFilter(AckFilter::Off)),
    ("memlimit", Meaning::Memlimit),
    ("fwmark", Meaning::Fwmark),
    ("ptm", Meaning::Framing(Framing::Ptm)),
    ("atm", Meaning::Framing(Framing::Atm)),
    ("noatm", Meaning::Framing(Framing::None)),
    ("overhead", Meaning::Overhead),
    ("raw", Meaning::Raw),
    ("conservative", Meaning::Conservative),
    ("pppoa-vcmux", Meaning::Link(10, None, ATM)),
    ("pppoa-llc", Meaning::Link(14, None, ATM)),
    ("pppoe-vcmux", Meaning::Link(32, None, ATM)),
    ("pppoe-llcsnap", Meaning::Link(40, None, ATM)),
    ("bridged-vcmux", Meaning::Link(24, None, ATM)),
    ("bridged-llcsnap", Meaning::Link(32, None, ATM)),
    ("ipoa-vcmux", Meaning::Link(8, None, ATM)),
    ("ipoa-llcsnap", Meaning::Link(16, None, ATM)),
    ("pppoe-ptm", Meaning::Link(30, None, PTM)),
    ("bridged-ptm", Meaning::Link(22, None, PTM)),
    ("via-ethernet", Meaning::Nothing),
    ("ethernet", Meaning::Link(38, Some(84), None)),
    ("ether-vlan", Meaning::Link(4, None, None)),
    ("docsis", Meaning::Link(18, Some(64), Some(Framing::None))),
    ("mpu", Meaning::Mpu),
    ("ingress", Meaning::Ingress(true)),
    ("egress", Meaning::Ingress(false)),
];

#[cfg(test)]
mod tests;
