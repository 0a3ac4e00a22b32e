//! Whole worlds: hosts and routers with queues, impairments on their links, applications that behave well and others
//! that do not, and changes while all this runs. At the end everything is repaired, and every flow has to end.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | what a world is made of, as plain data |
//! | [`draw`] | how one is drawn |
//! | [`words`] | values of sysctls, and qdiscs of healed ports; all other words of `tc` are those of [`crate::qdisc`] |
//! | [`build`] | from the data to a [`sim::world::World`] |
//! | [`talk`] | an application that does what peers do to each other |
//! | [`ledger`] | what applications wrote, read and were told |
//! | [`wire`] | what was put on links and arrived: the witness of most oracles |
//! | [`links`] | what links may do with packets |
//! | [`run`] | a world from its start to its end, under all oracles |
//! | `laws` | what must hold at every stop and at the end |
//! | `shrink` | simpler worlds |
//!
//! The oracles, as docs/TESTING.md lists them: `bytes`, `conservation`, `wire`, `links`, `errno`, `liveness`,
//! `work`, `observed = unobserved`.

pub mod build;
pub mod draw;
mod laws;
pub mod ledger;
pub mod links;
pub mod plan;
pub mod run;
mod shrink;
pub mod talk;
pub mod wire;
pub mod words;

pub use plan::Case;

use crate::case::{self, Outcome, Violation};
use crate::draw::Draw;
use crate::kind::Kind;

impl Case {
    /// Any case.
    pub fn any(draw: &mut Draw) -> Self {
        draw::case(draw, draw::Size::ANY)
    }

    /// A world whose run takes milliseconds.
    pub fn small(draw: &mut Draw) -> Self {
        draw::case(draw, draw::Size::SMALL)
    }
}

impl case::Case for Case {
    const KIND: Kind = Kind::World;

    fn draw(seed: u64) -> Self {
        Self::any(&mut Draw::new(seed, 0))
    }

    fn run(&self) -> Result<Outcome, Violation> {
        run::run(self)
    }

    fn simpler(&self) -> Vec<Self> {
        shrink::simpler(self)
    }
}
