//! What one run did, to look at: for ui.perfetto.dev, for qvis, and as text.
//!
//! | file | what it holds |
//! |---|---|
//! | [`conns`] | which connection a packet or an event is of |
//! | [`perfetto`], [`tracks`] | the format of Perfetto's traces; what stands on which of its tracks |
//! | [`qlog`] | the format that qvis reads |
//! | [`explain`], [`shares`] | a connection's story line by line; what kept it from being faster |
//! | [`tracer`] | a run under observation |
//! | [`capture`] | a capture that is replayed |
//! | `bridge` | a running `ackwright shape` |
//! | [`marks`] | who marked a packet |
//! | [`host`] | a host under test of packetdrill's |
//!
//! All of it sees [`TraceItem`]: packets and events at the two ends of connections.

#[cfg(all(feature = "live", target_os = "linux"))]
pub mod bridge;
pub mod capture;
pub mod conns;
pub mod explain;
pub mod host;
pub mod marks;
pub mod perfetto;
pub mod qlog;
pub mod shares;
pub mod tracer;
pub mod tracks;

use datapath::packet::Packet;
use datapath::trace::Event;

/// Something that an end of a connection did, or that happened to it.
#[derive(Clone, Copy, Debug)]
pub enum TraceItem<'a> {
    /// It put a packet on its link.
    Sent(&'a Packet),
    /// A packet for it arrived.
    Received(&'a Packet),
    /// Its TCP told something.
    Event(&'a Event),
}

/// What is written beside the results of a run.
#[derive(Clone, Debug, Default)]
pub struct TraceOutputs {
    /// A trace for Perfetto goes to this file.
    pub perfetto: Option<std::path::PathBuf>,
    /// Files for qvis, one a flow, go to this folder.
    pub qlog: Option<std::path::PathBuf>,
    /// The flows that are explained: names, or patterns with `*`.
    pub explain: Vec<String>,
    /// Packets too, between the events.
    pub packets: bool,
    /// What `ackwright view` shows besides the usual results, of the first run of each point.
    pub view: bool,
    /// Ports whose packets are captured in the first run of each point, beside those of the file: names, or
    /// patterns with `*`.
    pub pcap: Vec<String>,
}

impl TraceOutputs {
    /// Nothing is.
    pub fn is_empty(&self) -> bool {
        self.pcap.is_empty() && !self.needs_events()
    }

    /// Whether something is made of the events of nodes and links; captures have packets of their own.
    pub fn needs_events(&self) -> bool {
        self.perfetto.is_some() || self.qlog.is_some() || !self.explain.is_empty() || self.view
    }
}
