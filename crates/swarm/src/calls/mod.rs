//! Random system calls, valid and invalid, at two hosts connected by a bad wire. Then everything is closed, the wire
//! is repaired, and nothing may be left.
//!
//! | file | what it holds |
//! |---|---|
//! | [`step`] | what is done, as plain data |
//! | `alphabet` | how a case is drawn |
//! | `values` | numbers that calls are given: ordinary ones, the ends of ranges, nonsense |
//! | `translate` | a step's call as the datapath takes it |
//! | `wire` | what lies between the hosts |
//! | `pings` | echo requests and their answers |
//! | `watch` | what a host says by itself, held against what can be seen |
//! | `bench` | both hosts, turned; time |
//! | `process` | the calls of one process, judged one by one |
//! | `model` | which descriptors are open, and what they stand for |
//! | `sysctls` | which values sysctls take |
//! | `errnos` | which errors a call may give |
//! | `totals` | bytes and datagrams: written, read |

mod alphabet;
mod bench;
mod errnos;
mod model;
mod pings;
mod process;
pub mod step;
mod sysctls;
mod totals;
mod translate;
mod values;
mod watch;
mod wire;

use serde::{Deserialize, Serialize};

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;
use crate::limits::DAY_US;
use crate::shrink::without_parts;
use bench::Bench;
use step::{Step, Wire};

/// Two hosts, the wire between them, and what is done at them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Seed of what the wire does to single packets.
    pub luck: u32,
    /// The wire until everything is closed.
    pub wire: Wire,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        alphabet::case(draw)
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::Calls;
    const LIMITS: &'static [(&'static str, u64)] =
        &[("Wait", DAY_US), ("Micros", 1 << 50), ("Select", 1 << 50)];

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        let mut bench = Bench::new(self);
        for (number, step) in self.steps.iter().enumerate() {
            bench.step(number, step)?;
        }
        bench.wind_up()?;
        Ok(Outcome { digest: bench.digest(), steps: bench.calls() })
    }

    fn simpler(&self) -> Vec<Self> {
        let with_steps = |steps| Self { steps, ..self.clone() };
        let with_wire = |wire| Self { wire, ..self.clone() };
        let shorter = without_parts(&self.steps).into_iter().map(with_steps);
        let calmer = self.wire.simpler().into_iter().map(with_wire);
        let milder = step::simpler(&self.steps).into_iter().map(with_steps);
        shorter.chain(calmer).chain(milder).collect()
    }
}
