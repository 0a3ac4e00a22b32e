//! Routes, rules and next hops under `ip` commands, links that go down and come up, and packets that
//! ask the way, against a plain model.

mod bench;
mod model;
mod steps;

pub use steps::{Asked, Hop, ObjectCase, RouteCase, RuleCase, Step, Verb};

use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::shrink::without_parts;
use bench::Bench;
use steps::any_prefix;

/// One forwarding table and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `fib_multipath_hash_seed`.
    pub seed: u32,
    /// Interfaces.
    pub ports: u8,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        let seed = draw.range(1..=u64::from(u32::MAX)) as u32;
        let ports = draw.range(1..=5) as u8;
        let count = draw.log_range(3..=200);
        // Few prefixes, so that routes meet.
        let prefixes: Vec<_> = (0..draw.range(1..=6)).map(|_| any_prefix(draw)).collect();
        let steps = (0..count).map(|_| Step::draw(ports, &prefixes, draw)).collect();
        Self { seed, ports, steps }
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Route;

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        let mut bench = Bench::new(self);
        for (number, step) in self.steps.iter().enumerate() {
            bench.step(number, step)?;
        }
        bench.finish()?;
        Ok(Outcome { digest: bench.digest(), steps: self.steps.len() as u64 })
    }

    fn simpler(&self) -> Vec<Self> {
        let fewer = without_parts(&self.steps).into_iter();
        let fewer = fewer.map(|steps| Self { steps, ..self.clone() });
        let plainer = self.steps.iter().enumerate().flat_map(|(number, step)| {
            step.simpler().into_iter().map(move |step| {
                let mut case = self.clone();
                case.steps[number] = step;
                case
            })
        });
        fewer.chain(plainer).collect()
    }
}
