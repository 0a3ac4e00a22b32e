//! `tc`: qdiscs and policers in its own words, and its output.
//!
//! [`parse_qdisc`] reads a whole command, [`parse_spec`] what follows the device: the kind and
//! its options. A [`Spec`] is plain data; [`Spec::build`] makes the qdisc. Each kind has a file
//! here with its grammar and its output.

mod attach;
pub mod cake;
mod class;
mod codel;
mod command;
mod dualpi2;
mod fifo;
mod filter;
mod fq;
mod guest;
mod htb;
mod netem;
mod pie;
mod police;
mod prio;
mod qdisc_text;
mod red;
mod show;
mod tbf;

pub use attach::AttachError;
pub use class::{ClassCommand, ClassRefusal, parse_class};
pub use codel::{CodelWords, FqCodelWords};
pub use command::{INGRESS_HANDLE, QdiscCommand, Verb, parse_qdisc, parse_qdisc_with};
pub use dualpi2::DualPi2Words;
pub use filter::{FilterAction, FilterCommand, parse_filter};
pub use fq::FqWords;
pub use guest::{GuestKind, GuestWords, Setting};
pub use htb::HtbWords;
pub use pie::PieWords;
pub use police::{parse_police, show_police};
pub use show::{
    ShowFlags, show_classes, show_classes_with, show_json, show_json_with, show_text,
    show_text_with,
};

use crate::units::time;
use crate::words::{Result, Word, Words};
use core::mem::discriminant;
use datapath::profile::Profile;
use datapath::qdisc::cake::{Cake, Config, Patch, Roots};
use datapath::qdisc::codel::{Codel, CodelConfig};
use datapath::qdisc::dualpi2::{DualPi2, DualPi2Config};
use datapath::qdisc::fifo::{Fifo, FifoKind, PSCHED_MTU, PfifoFast, TX_QUEUE_LEN};
use datapath::qdisc::fq::{Fq, FqConfig};
use datapath::qdisc::fq_codel::{FqCodel, FqCodelConfig};
use datapath::qdisc::htb::Htb;
use datapath::qdisc::netem::{Netem, NetemConfig};
use datapath::qdisc::pie::{Pie, PieConfig};
use datapath::qdisc::prio::{Prio, PrioConfig};
use datapath::qdisc::red::{Red, RedConfig};
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{AnyQdisc, Cx, Handle, Sched};
use datapath::rng::Rng;
use datapath::units::Duration;

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
    /// `red limit BYTES avpkt BYTES ...`.
    Red(Box<RedConfig>),
    /// `codel ...`.
    Codel(CodelWords),
    /// `fq ...`.
    Fq(FqWords),
    /// `fq_codel ...`.
    FqCodel(FqCodelWords),
    /// `dualpi2 ...`.
    DualPi2(Box<DualPi2Words>),
    /// `pie ...`.
    Pie(PieWords),
    /// `prio ...`.
    Prio(PrioConfig),
    /// `htb default MINOR ...`.
    Htb(HtbWords),
    /// `cake bandwidth RATE ...`.
    Cake(Box<Patch>),
    /// One of a library user, and its options.
    Guest(GuestWords),
}

/// What the kernel takes from the device, and from itself, where a command says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Largest frame: MTU and link-layer header (`psched_mtu`).
    pub psched_mtu: u32,
    /// Packets in a default queue (`txqueuelen`).
    pub tx_queue_len: u32,
    /// Where the kernel's COBALT has its roots from.
    pub roots: Roots,
    /// Its CAKE leaves a rate that it has estimated for 250 ms.
    pub autorate_every_250_ms: bool,
}

impl Device {
    /// An Ethernet device of a node with this kernel.
    pub fn of(profile: &Profile) -> Self {
        let roots = if profile.cake_rounded_roots { Roots::Rounded } else { Roots::Newton };
        Self { roots, autorate_every_250_ms: profile.autorate_every_250_ms, ..Self::default() }
    }
}

impl Default for Device {
    /// Ethernet with an MTU of 1500, and the newest kernel.
    fn default() -> Self {
        Self {
            psched_mtu: PSCHED_MTU,
            tx_queue_len: TX_QUEUE_LEN,
            roots: Roots::default(),
            autorate_every_250_ms: true,
        }
    }
}

/// Every kind that [`parse_spec`] knows.
pub const KINDS: [&str; 16] = [
    "noqueue",
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "tbf",
    "netem",
    "red",
    "codel",
    "fq",
    "fq_codel",
    "dualpi2",
    "pie",
    "prio",
    "htb",
    "cake",
];

/// Kinds that tc has and that are not here: no other is meant by them.
const NOT_MODELLED: [&str; 19] = [
    "cake_mq", "cbs", "choke", "clsact", "drr", "etf", "ets", "fq_pie", "gred", "hfsc", "hhf",
    "mq", "mqprio", "multiq", "plug", "qfq", "sfb", "sfq", "taprio",
];

/// Reads a kind and its options, up to the end of the words.
///
/// # Errors
/// An unknown kind or option, a bad value, or something mandatory that is missing.
pub fn parse_spec(words: &mut Words<'_>) -> Result<Spec> {
    parse_spec_with(words, &[])
}

/// [`parse_spec`] that knows a library user's kinds as well.
///
/// # Errors
/// As of [`parse_spec`], and what a guest says of its options.
pub fn parse_spec_with(words: &mut Words<'_>, guests: &[GuestKind]) -> Result<Spec> {
    let Some(kind) = words.next() else {
        return Err(words.unexpected_end("a qdisc kind is missing"));
    };
    match kind.text {
        "noqueue" => no_options(words, Spec::Noqueue, "noqueue"),
        "pfifo" => fifo::parse(words, "pfifo").map(Spec::Pfifo),
        "bfifo" => fifo::parse(words, "bfifo").map(Spec::Bfifo),
        "pfifo_head_drop" => fifo::parse(words, "pfifo_head_drop").map(Spec::PfifoHeadDrop),
        "pfifo_fast" => no_options(words, Spec::PfifoFast, "pfifo_fast"),
        "tbf" => tbf::parse(words).map(Spec::Tbf),
        "netem" => netem::parse(words).map(|config| Spec::Netem(Box::new(config))),
        "red" => red::parse(words).map(|config| Spec::Red(Box::new(config))),
        "codel" => CodelWords::parse(words).map(Spec::Codel),
        "fq" => FqWords::parse(words).map(Spec::Fq),
        "fq_codel" => FqCodelWords::parse(words).map(Spec::FqCodel),
        "dualpi2" => DualPi2Words::parse(words).map(|said| Spec::DualPi2(Box::new(said))),
        "pie" => PieWords::parse(words).map(Spec::Pie),
        "prio" => prio::parse(words).map(Spec::Prio),
        "htb" => HtbWords::parse(words).map(Spec::Htb),
        "cake" => cake::parse(words).map(|patch| Spec::Cake(Box::new(patch))),
        name => {
            if let Some(guest) = guests.iter().find(|guest| guest.name() == name) {
                return guest.read(words).map(Spec::Guest);
            }
            let guests = guests.iter().map(|guest| guest.name());
            let known: Vec<&str> = KINDS.into_iter().chain(guests).collect();
            if NOT_MODELLED.contains(&name) {
                let message = format!(
                    "qdisc \"{name}\" is not modelled (docs/not-modelled.md); valid are {}",
                    known.join(", ")
                );
                return Err(kind.error(message, None));
            }
            Err(kind.unknown("qdisc", &known))
        }
    }
}

fn no_options(words: &mut Words<'_>, spec: Spec, kind: &str) -> Result<Spec> {
    match words.next() {
        None => Ok(spec),
        Some(word) => Err(word.unknown(kind, &[])),
    }
}

/// The time that follows `word`; tc does not send zero.
fn positive_time(word: Word<'_>, words: &mut Words<'_>) -> Result<Option<Duration>> {
    Ok(Some(time(words.value(word)?, word.text)?).filter(|time| *time > Duration::ZERO))
}

impl Spec {
    /// Makes the qdisc for `device`, to be attached as `handle`; its random draws come from `rng`.
    pub fn build(&self, device: Device, handle: Handle, rng: Rng) -> AnyQdisc {
        match self {
            Self::Noqueue | Self::Pfifo(_) | Self::Bfifo(_) | Self::PfifoHeadDrop(_) => {
                Fifo::new(self.fifo_kind(device)).of_device(device.psched_mtu).into()
            }
            Self::PfifoFast => PfifoFast::new(device.tx_queue_len).into(),
            Self::Tbf(config) => {
                Tbf::new(*config, Fifo::new(FifoKind::Bytes(config.limit)).into()).into()
            }
            Self::Netem(config) => Netem::new((**config).clone(), rng).into(),
            Self::Red(config) => {
                let child = Fifo::new(FifoKind::Bytes(config.limit)).into();
                Red::new((**config).clone(), child, rng).into()
            }
            Self::Codel(said) => Codel::new(said.over(CodelConfig::new(device.psched_mtu))).into(),
            Self::Fq(said) => Fq::new(said.over(FqConfig::new(device.psched_mtu)), rng).into(),
            Self::FqCodel(said) => {
                let config = said.over(FqCodelConfig::new(device.psched_mtu));
                FqCodel::new(config, handle, rng).into()
            }
            Self::DualPi2(said) => {
                DualPi2::new(said.over(DualPi2Config::new(device.psched_mtu)), handle, rng).into()
            }
            Self::Pie(said) => Pie::new(said.over(PieConfig::new(device.psched_mtu)), rng).into(),
            Self::Prio(config) => Prio::new(*config, handle).into(),
            Self::Htb(said) => Htb::new(said.config(device.tx_queue_len), handle).into(),
            Self::Cake(patch) => {
                let Device { roots, autorate_every_250_ms, .. } = device;
                let config =
                    Config { roots, autorate_every_250_ms, ..Config::default() }.patched(patch);
                Cake::new(config, device.psched_mtu, rng).with_handle(handle).into()
            }
            Self::Guest(words) => words.build(Setting { device, handle, rng }).into(),
        }
    }

    fn fifo_kind(&self, device: Device) -> FifoKind {
        match *self {
            Self::Pfifo(limit) => FifoKind::Packets(limit.unwrap_or(device.tx_queue_len)),
            Self::PfifoHeadDrop(limit) => FifoKind::HeadDrop(limit.unwrap_or(device.tx_queue_len)),
            Self::Bfifo(limit) => {
                FifoKind::Bytes(limit.unwrap_or(device.tx_queue_len * device.psched_mtu))
            }
            _ => FifoKind::NoQueue,
        }
    }

    /// Changes the settings of `sched` to these (`tc qdisc change`); what waits in it stays, unless
    /// the new settings leave no room for it. False, and nothing done, if it is of another kind.
    pub fn change(&self, sched: &mut Sched, cx: &mut Cx<'_>) -> bool {
        match (self, sched.qdisc_mut()) {
            (
                Self::Pfifo(limit) | Self::Bfifo(limit) | Self::PfifoHeadDrop(limit),
                AnyQdisc::Fifo(fifo),
            ) => {
                let wanted = self.fifo_kind(Device::default());
                let same = discriminant(&wanted) == discriminant(&fifo.kind());
                if let (true, Some(limit)) = (same, limit) {
                    fifo.set_limit(*limit);
                }
                same
            }
            (Self::Tbf(config), AnyQdisc::Tbf(tbf)) => {
                tbf.change(*config);
                true
            }
            (Self::Netem(config), AnyQdisc::Netem(netem)) => {
                netem.change((**config).clone(), cx.now);
                true
            }
            (Self::Red(config), AnyQdisc::Red(red)) => {
                red.change((**config).clone(), cx);
                true
            }
            (Self::Codel(said), AnyQdisc::Codel(codel)) => {
                codel.change(said.over(*codel.config()), cx);
                true
            }
            (Self::Fq(said), AnyQdisc::Fq(fq)) => {
                fq.change(said.over(*fq.config()), cx);
                true
            }
            (Self::FqCodel(said), AnyQdisc::FqCodel(fq_codel)) => {
                fq_codel.change(said.over(*fq_codel.config()), cx);
                true
            }
            (Self::DualPi2(said), AnyQdisc::DualPi2(dualpi2)) => {
                dualpi2.change(said.over(*dualpi2.config()), cx);
                true
            }
            (Self::Pie(said), AnyQdisc::Pie(pie)) => {
                pie.change(said.over(*pie.config()), cx);
                true
            }
            (Self::Prio(config), AnyQdisc::Prio(prio)) => {
                prio.change(*config, cx);
                true
            }
            (Self::PfifoFast, AnyQdisc::PfifoFast(_)) => true,
            (Self::Noqueue, AnyQdisc::Fifo(fifo)) => fifo.kind() == FifoKind::NoQueue,
            (Self::Cake(patch), AnyQdisc::Cake(cake)) => {
                cake.change(patch, cx);
                true
            }
            _ => false,
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
            Self::Red(_) => "red",
            Self::Codel(_) => "codel",
            Self::Fq(_) => "fq",
            Self::FqCodel(_) => "fq_codel",
            Self::DualPi2(_) => "dualpi2",
            Self::Pie(_) => "pie",
            Self::Prio(_) => "prio",
            Self::Htb(_) => "htb",
            Self::Cake(_) => "cake",
            Self::Guest(words) => words.kind(),
        }
    }
}

#[cfg(test)]
mod tests;
