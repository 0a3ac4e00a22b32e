//! Ackwright: Linux's network fast path as a library, a laboratory and a live tool.
//!
//! An experiment as in a file, run twice:
//!
//! ```
//! use ackwright::lab::{plan::Experiment, run};
//! use std::sync::atomic::AtomicBool;
//!
//! let text = r#"
//! schema = 1
//! name = "line"
//! duration = "2s"
//! repetitions = 2
//! nodes = { server = {}, client = {} }
//!
//! [links.line]
//! ends = ["server", "client"]
//! rate = "10mbit"
//! rtt = "20ms"
//!
//! [flows.download]
//! app = "bulk"
//! from = "server"
//! to = "client"
//! spread = "100ms"
//! "#;
//! let experiment = Experiment::parse("line.toml", text, &[])?;
//! let stop = AtomicBool::new(false);
//! let points = run::run(&experiment, &run::Options::silent(&stop), &|_, _, _| Ok(()))?;
//! for goodput in points[0].values("download", "goodput") {
//!     assert!((8.0..10.0).contains(&goodput), "{goodput} Mbit/s");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
