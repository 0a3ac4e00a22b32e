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
use crate::limits::{DAY_US, MOST_BYTES};

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
    const LIMITS: &'static [(&'static str, u64)] = &[
        ("heal_us", DAY_US),
        ("late_us", DAY_US),
        ("stops_us", DAY_US),
        ("delay_us", DAY_US),
        ("steps", DAY_US),
        ("period_us", DAY_US),
        ("reorder_us", DAY_US),
        ("jitter_us", DAY_US),
        ("start_us", DAY_US),
        ("stop_us", DAY_US),
        ("listen_us", DAY_US),
        ("gap_us", DAY_US),
        ("on_off_us", DAY_US),
        ("think_us", DAY_US),
        ("every_us", DAY_US),
        ("at_us", DAY_US),
        ("Abort", DAY_US),
        ("CloseAfter", DAY_US),
        ("kbit", MOST_BYTES),
        ("pacing", MOST_BYTES),
        ("bytes", MOST_BYTES),
        ("chunk", MOST_BYTES),
        ("pause", MOST_BYTES),
        ("request", MOST_BYTES),
        ("response", MOST_BYTES),
        ("count", MOST_BYTES),
        ("write", MOST_BYTES),
        ("Slow", MOST_BYTES),
        ("UpTo", MOST_BYTES),
        ("loss", 1_000),
        ("corruption", 1_000),
        ("duplication", 1_000),
        ("reordering", 1_000),
    ];

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
