//! What a connection is opened with.

use super::RouteMetrics;
use crate::packet::seq::Seq;
use core::net::SocketAddr;

/// The surroundings of a connection: its ends and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// MTU of the path, by which our MSS is advertised, too (`ipv4_default_advmss`), bytes.
    pub mtu: u32,
    /// Initial sequence number.
    pub iss: Seq,
    /// The route has the feature `ecn` (`RTAX_FEATURE_ECN`).
    pub ecn: bool,
    /// What else the route says.
    pub route: RouteMetrics,
    /// A SYN reopens what was in TIME-WAIT (`tcp_tw_isn`).
    pub reopens: bool,
    /// The latest timestamp of a connection in TIME-WAIT that this one takes over, and when it came (`ts_recent`,
    /// `ts_recent_stamp`); zeroes if it takes over none.
    pub ts_recent: (u32, u32),
}
