//! One live host and a hostile wire: plausible segments, ICMP messages and fragments, in between calls of the host's
//! applications, while time passes and timers fire.
//!
//! | module | what it holds |
//! |---|---|
//! | [`segment`] | segments relative to what is true when they are sent |
//! | [`icmp`] | ICMP errors that quote what the host has sent, or claim to |
//! | [`calls`] | what the applications do |
//! | `drawing`, `words` | what is drawn, and how often |
//! | `bench` | the host, turned by its law |
//! | `arriving`, `applications`, `leaving` | what comes to it, what is called, what it sends: the listener on its wire |
//! | `sense` | what the host says about itself |
//! | `heal` | the end: honest peers, then none, and everything must end |

mod applications;
mod arriving;
mod bench;
mod bursts;
pub mod calls;
mod drawing;
mod heal;
pub mod icmp;
mod leaving;
mod mtu;
mod path;
pub mod segment;
mod sense;
mod traits;
mod words;

use serde::{Deserialize, Serialize};

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;
use crate::limits::{DAY_US, MOST_BYTES};
use crate::shrink::{with_plainer, without_parts};
use calls::Call;
use icmp::Icmp;
use segment::Segment;

/// A host and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The host.
    pub host: Setup,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// Which kernel.
    pub profile: String,
    /// Addresses are of IPv6.
    pub ipv6: bool,
    /// MTU of its device.
    pub mtu: u32,
    /// `gso`, `tso`, `gro` of its device, and `orphans`: memory comes back at once.
    pub offloads: Vec<String>,
    /// How long the device is busy with a packet, µs.
    pub busy_us: u64,
    /// Sysctls, as `name=value`.
    pub sysctls: Vec<String>,
    /// Window that honest peers offer in the end.
    pub honest_window: u16,
    /// They offer no more than what has been written and not been sent, and at least a byte.
    pub no_more: bool,
    /// Before anything is closed, they offer this window and fall silent, and everybody writes.
    pub silence: Option<u16>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Step {
    /// So many µs pass.
    Wait(u64),
    /// Time passes up to the next timer, so many times.
    Timer(u8),
    /// A segment comes.
    Segment(Segment),
    /// A segment arrives inside a packet of this protocol (4, 41, 47, 17), which no socket accepts.
    Tunnelled(u8, Segment),
    /// An ICMP message comes.
    Icmp(Icmp),
    /// An application calls.
    Call(Call),
    /// A sysctl is written, as `name=value`.
    Sysctl(String),
    /// The device has another MTU.
    Mtu(u32),
    /// The route to the peer says another MTU.
    RouteMtu(u32),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            profile: "linux-7.x".to_owned(),
            ipv6: false,
            mtu: 1500,
            offloads: Vec::new(),
            busy_us: 0,
            sysctls: Vec::new(),
            honest_window: u16::MAX,
            no_more: false,
            silence: None,
        }
    }
}

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        drawing::case(draw)
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Wire;
    const LIMITS: &'static [(&'static str, u64)] = &[
        ("Wait", DAY_US),
        ("busy_us", DAY_US),
        ("seq", MOST_BYTES),
        ("ack_segments", MOST_BYTES),
        ("ack", MOST_BYTES),
        ("value", MOST_BYTES),
        ("echo", MOST_BYTES),
        ("first", MOST_BYTES),
        ("segments", MOST_BYTES),
        ("off", MOST_BYTES),
        ("end_off", MOST_BYTES),
    ];

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        let mut bench = bench::Bench::new(&self.host);
        for (number, step) in self.steps.iter().enumerate() {
            bench.step(step).map_err(|(oracle, what)| {
                Violation::new(oracle, format!("step {number} ({})", bench.clock()), what)
            })?;
        }
        let heal = heal::finish(&mut bench, &self.host);
        heal.map_err(|(oracle, what)| {
            Violation::new(oracle, format!("the end ({})", bench.clock()), what)
        })?;
        Ok(Outcome { digest: bench.digest.value(), steps: self.steps.len() as u64 })
    }

    fn simpler(&self) -> Vec<Self> {
        let shorter = without_parts(&self.steps).into_iter();
        let shorter = shorter.map(|steps| Self { steps, ..self.clone() });
        let plainer = self.host.simpler().into_iter();
        let plainer = plainer.map(|host| Self { host, ..self.clone() });
        let steps = with_plainer(&self.steps, Step::plainer).into_iter();
        let steps = steps.map(|steps| Self { steps, ..self.clone() });
        shorter.chain(plainer).chain(steps).collect()
    }
}

impl Setup {
    /// The same without a sysctl, an offload, a peculiarity.
    fn simpler(&self) -> Vec<Self> {
        let sysctls = without_parts(&self.sysctls).into_iter();
        let mut list: Vec<Self> = sysctls.map(|sysctls| Self { sysctls, ..self.clone() }).collect();
        let offloads = without_parts(&self.offloads).into_iter();
        list.extend(offloads.map(|offloads| Self { offloads, ..self.clone() }));
        let plain = Self::default();
        if self.busy_us != 0 {
            list.push(Self { busy_us: 0, ..self.clone() });
        }
        if self.mtu != plain.mtu {
            list.push(Self { mtu: plain.mtu, ..self.clone() });
        }
        if self.ipv6 {
            list.push(Self { ipv6: false, ..self.clone() });
        }
        if self.profile != plain.profile {
            list.push(Self { profile: plain.profile, ..self.clone() });
        }
        if self.no_more {
            list.push(Self { no_more: false, ..self.clone() });
        }
        if self.silence.is_some() {
            list.push(Self { silence: None, ..self.clone() });
        }
        if self.honest_window != plain.honest_window {
            list.push(Self { honest_window: plain.honest_window, ..self.clone() });
        }
        list
    }
}

impl Step {
    /// The same with less to it.
    fn plainer(&self) -> Vec<Self> {
        match self {
            Self::Segment(segment) => segment.plainer().into_iter().map(Self::Segment).collect(),
            Self::Wait(micros) if *micros > 1_000 => vec![Self::Wait(micros / 8)],
            Self::Timer(times) if *times > 1 => vec![Self::Timer(times / 2)],
            _ => Vec::new(),
        }
    }
}
