//! A deterministic simulated world that drives the datapath in virtual time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | nodes, links, addresses and routes by name: how a world is made |
//! | [`world`] | nodes, links and applications in virtual time |
//! | [`epoch`] | the event loop: epoch by epoch, group by group |
//! | [`border`] | nodes outside the simulation: packets handed out and in |
//! | [`link`] | one direction of a wire: rate, delay, impairments |
//! | [`schedule`] | links whose rate and delay change by a schedule |
//! | [`rules`] | deterministic impairments on a link: the n-th packet, the n-th copy of a byte |
//! | [`loss`] | a library user's own loss models |
//! | [`wording`] | a library user's own models, made from the words of a file |
//! | [`capture`] | packets on chosen links, written to a pcapng file |
//! | [`record`] | observers: drops, traces, fingerprints |
//!
//! The same world with the same seed gives the same packets at the same nanoseconds, on every
//! machine, in debug and in release.

mod assign;
mod balance;
pub mod border;
mod calendar;
pub mod capture;
mod crossing;
mod divide;
mod division;
mod due;
pub mod epoch;
mod event;
mod groups;
mod impairment;
pub mod link;
mod log;
pub mod loss;
mod partition;
mod pool;
mod prefetch;
mod progress;
pub mod record;
pub mod rules;
mod run;
pub mod schedule;
mod send;
mod sorter;
mod state;
mod threads;
pub mod topology;
pub mod world;

pub use apps::wording;
