//! What is recorded of a plan's runs.

use datapath::units::Duration;

/// A test of flent, whose files have series by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlentTest {
    /// Four flows each way in four classes.
    Rrul,
    /// Four flows each way, best effort.
    RrulBe,
    /// Uploads.
    TcpNup,
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Measure {
    /// Time between samples.
    pub sample: Duration,
    /// Ports whose queue is sampled: (link, end).
    pub queues: Vec<(usize, usize)>,
    /// Ports the use of whose link is a metric: (link, end).
    pub utilisation: Vec<(usize, usize)>,
    /// Ports whose packets go into a pcapng: (link, end).
    pub pcap: Vec<(usize, usize)>,
    /// Bytes of each packet kept in a pcapng.
    pub snaplen: u32,
    /// The first part of each flow, whose goodput is a metric of its own.
    pub early: Option<Duration>,
    /// Throughput in steps of this length as metrics of their own.
    pub steps: Option<Duration>,
    /// The test whose name and series flent knows, if the results are written for it.
    pub flent: Option<FlentTest>,
    /// The metrics that a sweep's table shows, as `SCOPE METRIC`; a choice of ours if empty.
    pub table: Vec<String>,
}
