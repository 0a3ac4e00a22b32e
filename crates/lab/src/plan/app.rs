//! Flows of a plan, and what they do.

use std::net::IpAddr;

use datapath::tcp::cc::Algorithm;
use datapath::units::{Duration, Rate};

use crate::application::GuestApp;

/// What a flow does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum App {
    /// Sends as much as it can.
    Bulk,
    /// Sends this many bytes, then closes.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// Writes a chunk, waits, writes the next.
    Chunk {
        /// Bytes per write.
        chunk: u64,
        /// Pause after each write.
        gap: Duration,
        /// Bytes in all; until the flow stops if `None`.
        bytes: Option<u64>,
    },
    /// Asks, waits for the answer, pauses, asks again.
    Request {
        /// Bytes of a request.
        request: u64,
        /// Bytes of its answer.
        response: u64,
        /// Pause between answer and next request.
        think: Duration,
        /// How many requests; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Asks several servers at once, waits for the last answer, asks again.
    Query {
        /// All servers; `to` is the first.
        servers: Vec<usize>,
        /// Bytes of a request to one server.
        request: u64,
        /// Bytes of all answers together, in equal parts.
        response: u64,
        /// Pause between the last answer and the next query.
        think: Duration,
        /// How many queries; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Opens a connection, closes it, opens the next.
    Connect {
        /// Time from one attempt to the next.
        interval: Duration,
        /// How many attempts; until the flow stops if `None`.
        count: Option<u64>,
    },
    /// Sends for a while, rests for a while.
    OnOff {
        /// Time of sending.
        on: Duration,
        /// Time of rest.
        off: Duration,
    },
    /// UDP at a constant rate.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
        /// Payload of a datagram.
        size: u64,
    },
    /// ICMP echo requests.
    Ping {
        /// Time between requests.
        interval: Duration,
        /// Payload.
        size: u64,
    },
    /// A real program, in a run that is live.
    Program {
        /// It and its arguments; `{to}`, `{from}` and `{port}` stand for addresses and a port.
        program: Vec<String>,
        /// What runs at the other end meanwhile; nothing if it is empty.
        server: Vec<String>,
    },
    /// A UDP round-trip probe: one datagram, echoed.
    Probe {
        /// Time between datagrams.
        interval: Duration,
        /// Payload.
        size: u64,
    },
    /// What a library user has named.
    Guest(GuestApp),
}

/// A flow, or `count` equal ones.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// Name, unique in the plan.
    pub name: String,
    /// The scope under which it is summed up with others; none if it stands alone.
    pub group: Option<String>,
    /// What it does.
    pub app: App,
    /// The sending or asking host.
    pub from: usize,
    /// The receiving or answering host.
    pub to: usize,
    /// Further hosts that receive or answer: an anycast service.
    pub anycast_hosts: Vec<usize>,
    /// The address that is sent to, if it is not the first of `to`.
    pub address: Option<IpAddr>,
    /// When it starts.
    pub start: Duration,
    /// The start is drawn from `start .. start + spread`.
    pub spread: Duration,
    /// When it stops, if before the end.
    pub stop: Option<Duration>,
    /// Congestion control, if not the sysctl's.
    pub congestion_control: Option<Algorithm>,
    /// IP TOS byte of what the sending or asking side sends (DSCP in the upper six bits).
    pub tos: u8,
    /// That of what comes back: an accepted socket does not take over its peer's.
    pub reply_tos: u8,
}

impl App {
    /// What it is called in a file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Fixed { .. } => "fixed",
            Self::Chunk { .. } => "chunk",
            Self::Request { .. } => "request",
            Self::Query { .. } => "query",
            Self::Connect { .. } => "connect",
            Self::OnOff { .. } => "on-off",
            Self::Cbr { .. } => "cbr",
            Self::Ping { .. } => "ping",
            Self::Probe { .. } => "probe",
            Self::Program { .. } => "program",
            Self::Guest(guest) => guest.name(),
        }
    }

    /// True if it is one TCP stream, and not an exchange of messages.
    pub fn is_stream(&self) -> bool {
        let exchanges =
            matches!(self, Self::Request { .. } | Self::Query { .. } | Self::Connect { .. });
        self.is_tcp() && !exchanges
    }

    /// True if it runs over TCP.
    pub fn is_tcp(&self) -> bool {
        match self {
            Self::Guest(guest) => guest.value().is_tcp(),
            Self::Cbr { .. } | Self::Ping { .. } | Self::Probe { .. } | Self::Program { .. } => {
                false
            }
            _ => true,
        }
    }
}
