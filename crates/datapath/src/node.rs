//! The seam between the datapath and whatever drives it.
//!
//! A node never sends on a port without credit. The driver grants it, and gives it back at the
//! end of serialisation (simulation) or when the TX ring has room (live). Only so are a queue,
//! TCP Small Queues and a full ring the same thing in both worlds.

use crate::packet::Packet;
use crate::reason::Reason;
use crate::trace::Event;
use crate::units::Instant;

/// Index of a network interface of one node, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u16);

/// What became of a packet that a port took: the port has room for one more, and the socket that
/// owned the packet is told (`skb_orphan`, `tcp_wfree`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// `Meta::owner` of the packet.
    pub owner: u32,
    /// `Meta::truesize` of the packet, which the owner gets back.
    pub truesize: u32,
}

/// What a node has for its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Put this packet on the wire of this port. Uses up one credit of the port.
    Send(Port, Packet),
    /// This packet was dropped, and why.
    Drop(Reason, Packet),
    /// A socket has become ready for something.
    Ready(SocketReady),
    /// Something worth telling happened (only while tracing is on).
    Event(Event),
}

/// Readiness of a socket, edge-triggered: what has newly become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReady {
    /// The socket, as numbered by its host.
    pub socket: u32,
    /// Bits of [`SocketReady::READABLE`] and friends (`EPOLLIN`, `EPOLLOUT`, …).
    pub bits: u8,
}

impl SocketReady {
    /// Data, a datagram, a connection to accept, or end of stream is there to read.
    pub const READABLE: u8 = 1;
    /// There is room to write, or the connection is now established.
    pub const WRITABLE: u8 = 2;
    /// The connection has failed or was reset.
    pub const ERROR: u8 = 4;
    /// Both directions are closed.
    pub const HANGUP: u8 = 8;
}

/// A host or router: ports, queues, routes and sockets, turned by a driver. See the law in the
/// crate documentation.
pub trait Node {
    /// A packet arrived on `port`.
    fn receive(&mut self, now: Instant, port: Port, packet: Packet);

    /// The next output, or `None` when all is done for now.
    fn poll(&mut self, now: Instant) -> Option<Output>;

    /// `port` can take one more packet; `done` tells what became of the one it took before, if
    /// this is not the first grant.
    fn credit(&mut self, now: Instant, port: Port, done: Option<Done>);

    /// When the node wants to be polled without any input. O(1).
    fn wake_at(&self) -> Option<Instant>;
}
