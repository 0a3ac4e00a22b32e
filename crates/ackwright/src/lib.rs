//! Ackwright: Linux's network fast path as a library, a laboratory and a live tool.
//!
//! This crate is the public face: it re-exports the others under one name, so that a program
//! needs one dependency.
//!
//! * [`datapath`]: the pure state machines (TCP, qdiscs, routing, packets);
//! * [`apps`]: what runs on hosts: bulk senders, sinks, probes;
//! * [`pcap`]: capture files, read and written;
//! * [`sim`]: a deterministic world that drives them in virtual time;
//! * [`iproute`]: the words of `tc`, `ip` and `ss`;
//! * [`drill`]: packetdrill scripts against the datapath;
//! * [`lab`]: experiments as files, statistics, results, plots;
//! * [`swarm`]: random cases of all of it, and the oracles that judge them.

pub use apps;
pub use datapath;
pub use drill;
pub use iproute;
pub use lab;
pub use pcap;
pub use sim;
pub use swarm;
