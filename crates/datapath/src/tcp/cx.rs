//! What a connection is lent for one call, and how it sends.

use super::passive::Gate;
use super::{PathMtu, mib::Mib, shared};
use crate::packet::Packet;
use crate::reason::Enqueue;
use crate::trace::{Event, EventKind};
use crate::units::Instant;
use core::net::IpAddr;

/// Where a connection's segments go: the host's IP layer.
pub trait Egress {
    /// Queues `packet` for sending and tells how the queue took it (`ip_queue_xmit`). What stays in
    /// its place is of no use.
    fn transmit(&mut self, now: Instant, packet: &mut Packet) -> XmitResult;

    /// ICMP has told this of the path to `remote` (`ip_rt_update_pmtu`).
    fn learn_path_mtu(&mut self, now: Instant, remote: IpAddr, path: PathMtu);
}

/// What became of a packet that was handed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XmitResult {
    /// How the queue took it.
    pub verdict: Enqueue,
    /// Its memory has already been given back to the connection (`skb_orphan`); no completion follows.
    pub orphaned: bool,
    /// Memory that its segments take beyond its own, as it was cut on its way (`tcp_gso_segment`).
    pub cut_extra: u32,
    /// There was no way for it, so it was no queue that dropped it (`-EHOSTUNREACH` of `ip_queue_xmit`).
    pub no_route: bool,
    /// The queue keeps departure times: TCP need not wait itself (`SK_PACING_FQ`).
    pub paced: bool,
}

/// What a connection is lent for one call.
pub struct Cx<'a> {
    /// Now.
    pub now: Instant,
    /// The way out.
    pub egress: &'a mut dyn Egress,
    /// The host's counters.
    pub mib: &'a mut Mib,
    /// The event stream, if it is on.
    pub events: Option<&'a mut Vec<Event>>,
    /// Readiness that this call brought about ([`crate::node::SocketReady`] bits).
    pub ready: u8,
    /// What the connections of the host share.
    pub shared: &'a mut shared::Shared,
    /// Whether the listener has room for a connection that leaves the handshake.
    pub gate: Gate,
}

impl Cx<'_> {
    /// Writes to the event stream.
    #[inline]
    pub(super) fn event(&mut self, socket: u32, kind: EventKind) {
        if let Some(events) = &mut self.events {
            events.push(Event { socket, kind });
        }
    }

    /// Now in µs (`tcp_mstamp`).
    #[inline]
    pub(super) fn now_us(&self) -> u64 {
        self.now.as_micros()
    }
}
