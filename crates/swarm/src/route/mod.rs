//! Routes, rules and next hops under `ip` commands, links that go down and up, and lookups, compared with a plain
//! model.

mod ask;
mod bench;
mod expected;
mod frames;
mod groups;
mod hashing;
mod ipv6;
mod model;
mod objects;
mod rule;
mod scene;
mod steps;
mod values;
mod words;

pub use steps::{Hop, LookupBatch, ObjectCase, RouteCase, RuleCase, Step, Verb};

use serde::{Deserialize, Serialize};

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;
use crate::shrink::{with_plainer, without_parts};
use bench::Bench;
use values::any_prefix;

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
        let scene = scene::group_under_change(ports, draw);
        let few = draw.many(count, |draw| Step::draw(ports, &prefixes, draw));
        let steps = many(draw).into_iter().chain(scene).chain(few).collect();
        Self { seed, ports, steps }
    }
}

/// Now and then a large table, of which a part goes again: so large that its look-ups take short cuts.
fn many(draw: &mut Draw) -> Vec<Step> {
    let count = *draw.weighted(&[(180, 0), (15, 300), (4, 2_000), (1, 30_000)]);
    let seed = draw.bits();
    let add = |add, seed, count| Step::Many { add, seed, count };
    match count {
        0 => Vec::new(),
        count => vec![
            add(true, seed, count),
            add(false, seed, draw.range(0..=u64::from(count)) as u32),
            add(true, draw.bits(), count / 4),
        ],
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Route;
    const LIMITS: &'static [(&'static str, u64)] = &[];

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
