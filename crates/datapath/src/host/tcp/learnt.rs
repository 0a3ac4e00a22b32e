//! What TCP at few hosts keeps beside its connections, made at first use.

use crate::tcp::PathMtu;
use crate::trace::Event;
use crate::units::Instant;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// What is told of connections.
#[derive(Debug, Default)]
pub(super) struct Traced {
    pub events: Vec<Event>,
    /// Where the connection told of last stood then.
    pub probed: Option<Event>,
}

/// What a host has found out about its surroundings.
#[derive(Debug, Default)]
pub(super) struct HostCache {
    /// Between which addresses no port was free, and until when none can be but by the end of a connection; `None` since
    /// one has become free.
    pub ports_used_up: Option<((IpAddr, SocketAddr), Instant)>,
    /// Path MTUs that ICMP has told, by destination, and when they are to be forgotten.
    pub path_mtus: BTreeMap<IpAddr, (PathMtu, Instant)>,
}
