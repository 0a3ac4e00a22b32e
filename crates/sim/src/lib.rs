//! A deterministic simulated world that drives the datapath in virtual time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | nodes, links, addresses and routes by name: how a world is made |
//! | [`world`] | the event loop: virtual time, and who is called when |
//! | [`link`] | one direction of a wire: rate, delay, what goes wrong on it |
//! | [`rules`] | deterministic trouble on a link: the n-th packet, the n-th copy of a byte |
//! | [`app`] | what runs on hosts: bulk senders, sinks, probes |
//! | [`pcap`] | capture files, read and written |
//! | [`record`] | what is written down: counters, drops, fingerprints |
//!
//! The same world with the same seed gives the same packets at the same nanoseconds, on every
//! machine, in debug and in release.

pub mod app;
mod calendar;
mod lanes;
pub mod link;
mod lookahead;
pub mod pcap;
mod pool;
mod progress;
pub mod record;
pub mod rules;
mod schedule;
pub mod topology;
mod trouble;
pub mod windows;
pub mod world;
