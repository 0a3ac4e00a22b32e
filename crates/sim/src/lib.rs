//! A deterministic simulated world that drives the datapath in virtual time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | nodes, links, addresses and routes by name: how a world is made |
//! | [`world`] | nodes, links and applications in virtual time |
//! | [`epoch`] | how time goes on: epoch by epoch, group by group |
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
mod due;
pub mod epoch;
mod event;
mod groups;
pub mod link;
mod log;
mod partition;
pub mod pcap;
mod pool;
mod prefetch;
mod progress;
pub mod record;
pub mod rules;
pub mod schedule;
mod send;
pub mod topology;
mod trouble;
pub mod world;
