//! `tc`: qdiscs and policers in its own words, and its output.
//!
//! [`parse_qdisc`] reads a whole command, [`parse_spec`] what follows the device: the kind and
//! its options. A [`Spec`] is plain data; [`Spec::build`] makes the qdisc. Each kind has a file
//! here with its grammar and its output.

mod command;
mod fifo;
mod netem;
mod tbf;

pub use command::{QdiscCommand, Refused, Verb, parse_qdisc};

use crate::words::{Result, Words};
use datapath::qdisc::fifo::{Fifo, FifoKind, PSCHED_MTU, PfifoFast, TX_QUEUE_LEN};
use datapath::qdisc::netem::{Netem, NetemConfig};
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{AnyQdisc, Handle};
use datapath::rng::Rng;

/// A qdisc as its words describe it. What the words leave to the kernel is `None`.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// `noqueue`.
    Noqueue,
    /// `pfifo limit PACKETS`.
    Pfifo(Option<u32>),
    /// `bfifo limit BYTES`.
    Bfifo(Option<u32>),
    /// `pfifo_head_drop limit PACKETS`.
    PfifoHeadDrop(Option<u32>),
    /// `pfifo_fast`.
    PfifoFast,
    /// `tbf rate RATE burst BYTES ...`.
    Tbf(TbfConfig),
    /// `netem delay TIME ...`.
    Netem(Box<NetemConfig>),
}

/// What the kernel takes from the device where a command says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Largest frame: MTU and link-layer header (`psched_mtu`).
    pub psched_mtu: u32,
    /// Packets in a default queue (`txqueuelen`).
    pub tx_queue_len: u32,
}

impl Default for Device {
    /// Ethernet with an MTU of 1500.
    fn default() -> Self {
        Self { psched_mtu: PSCHED_MTU, tx_queue_len: TX_QUEUE_LEN }
    }
}

/// Every kind that [`parse_spec`] knows.
pub const KINDS: [&str; 7] =
    ["noqueue", "pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "tbf", "netem"];

/// Reads a kind and its options, up to the end of the words.
///
/// # Errors
/// An unknown kind or option, a bad value, or something mandatory that is missing.
pub fn parse_spec(words: &mut Words<'_>) -> Result<Spec> {
    let Some(kind) = words.next() else {
        return Err(words.ended("a qdisc kind is missing"));
    };
    match kind.text {
        "noqueue" => no_options(words, Spec::Noqueue, "noqueue"),
        "pfifo" => fifo::parse(words, "pfifo").map(Spec::Pfifo),
        "bfifo" => fifo::parse(words, "bfifo").map(Spec::Bfifo),
        "pfifo_head_drop" => fifo::parse(words, "pfifo_head_drop").map(Spec::PfifoHeadDrop),
        "pfifo_fast" => no_options(words, Spec::PfifoFast, "pfifo_fast"),
        "tbf" => tbf::parse(words).map(Spec::Tbf),
        "netem" => netem::parse(words).map(|config| Spec::Netem(Box::new(config))),
        _ => Err(kind.unknown("qdisc", &KINDS)),
    }
}

fn no_options(words: &mut Words<'_>, spec: Spec, kind: &str) -> Result<Spec> {
    match words.next() {
        None => Ok(spec),
        Some(word) => Err(word.unknown(kind, &[])),
    }
}

impl Spec {
    /// Makes the qdisc for `device`, to be attached as `handle`; its random draws come from `rng`.
    pub fn build(&self, device: &Device, handle: Handle, rng: Rng) -> AnyQdisc {
        let packets = |limit: &Option<u32>| limit.unwrap_or(device.tx_queue_len);
        match self {
            Self::Noqueue => Fifo::new(FifoKind::NoQueue).into(),
            Self::Pfifo(limit) => Fifo::new(FifoKind::Packets(packets(limit))).into(),
            Self::PfifoHeadDrop(limit) => Fifo::new(FifoKind::HeadDrop(packets(limit))).into(),
            Self::Bfifo(limit) => {
                let bytes = limit.unwrap_or(device.tx_queue_len * device.psched_mtu);
                Fifo::new(FifoKind::Bytes(bytes)).into()
            }
            Self::PfifoFast => PfifoFast::new(device.tx_queue_len).into(),
            Self::Tbf(config) => {
                Tbf::new(*config, Fifo::new(FifoKind::Bytes(config.limit)).into()).into()
            }
            Self::Netem(config) => Netem::new((**config).clone(), rng).into(),
        }
    }

    /// The kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Noqueue => "noqueue",
            Self::Pfifo(_) => "pfifo",
            Self::Bfifo(_) => "bfifo",
            Self::PfifoHeadDrop(_) => "pfifo_head_drop",
            Self::PfifoFast => "pfifo_fast",
            Self::Tbf(_) => "tbf",
            Self::Netem(_) => "netem",
        }
    }
}
