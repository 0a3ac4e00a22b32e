//! iperf3's protocol over TCP streams of our own stack: a client and a server that a real `iperf3` takes
//! for its like.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wire`] | states, the cookie, the JSON that both ends exchange |
//! | [`flow`] | one data stream: a thread that sends or receives, and what it counts |
//! | [`client`], [`server`] | the two roles |
//! | [`acceptor`] | who comes to a server's port, and whether it is a client |
//! | [`measure`] | what is known of a test: intervals, totals |
//! | [`report`] | the same as a table and as JSON, laid out as iperf3 does |
//!
//! Only TCP, one direction at a time: `--udp`, `--sctp` and `--bidir` of a peer are refused.
#![cfg(target_os = "linux")]

pub mod acceptor;
pub mod client;
pub mod flow;
pub mod measure;
pub mod report;
pub mod server;
mod units;
pub mod wire;

/// Why a test has failed.
#[derive(Debug)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the control connection: {error}"))
    }
}
