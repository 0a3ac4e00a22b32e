//! A router between Ethernets, as `ackwright route` drives it: packets to forward; neighbours that answer, are late or
//! silent, move or lie; links and devices that fail; frames of any kind.

mod bench;
mod frames;
mod steps;

pub use steps::{Machine, Step, Target};

use serde::{Deserialize, Serialize};

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;
use crate::limits::DAY_US;
use crate::shrink::{with_plainer, without_parts};
use bench::Bench;

/// One router and what happens around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the router draws from.
    pub seed: u64,
    /// The machines and the MTU of each interface.
    pub ports: Vec<Wire>,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

/// What an interface leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Largest network-layer packet, bytes.
    pub mtu: u32,
    /// Who is there.
    pub machines: Vec<Machine>,
}

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        let seed = draw.bits();
        let count = draw.range(2..=4);
        let ports: Vec<Wire> = (0..count).map(|_| Wire::draw(draw)).collect();
        let steps = draw.log_range(3..=250);
        let steps = draw.many(steps, |draw| Step::draw(&ports, draw));
        Self { seed, ports, steps }
    }
}

impl Wire {
    fn draw(draw: &mut Draw) -> Self {
        let mtu = *draw.weighted(&[(5, 1_500), (2, 1_280), (1, 1_400), (1, 9_000)]);
        let machines = draw.range(1..=4);
        Self { mtu, machines: (0..machines).map(|_| Machine::draw(draw)).collect() }
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Router;
    const LIMITS: &'static [(&'static str, u64)] = &[("after_us", DAY_US), ("us", DAY_US)];

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        case::run_steps(Bench::new(self), &self.steps)
    }

    fn simpler(&self) -> Vec<Self> {
        let lists = without_parts(&self.steps).into_iter();
        let lists = lists.chain(with_plainer(&self.steps, Step::simpler));
        lists.map(|steps| Self { steps, ..self.clone() }).collect()
    }
}
