//! The border between a node and its driver: what crosses it, as plain data.
//!
//! The verbs are those of [`Host`](crate::host::Host); the law that they obey stands in the
//! documentation of the crate.

use crate::reason::Reason;
use crate::trace::Event;
use crate::units::Instant;

/// Index of a network interface of one node, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u16);

/// A socket of one host. It stands for that socket only: once the socket is closed, calls with it
/// fail with [`BadSocket`](crate::host::SocketError::BadSocket), whoever has its slot then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) slot: u32,
    /// How many sockets had the slot before.
    pub(crate) generation: u32,
}

impl SocketId {
    /// The socket's place in tables that are kept by socket: small numbers, which are used again.
    #[inline]
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What became of a packet that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a packet that goes on as it is has to be sent by the driver"]
pub enum Rx {
    /// It goes on as it is: the driver puts the very same packet on the wire of this port, one of
    /// whose credits it has used up. Nothing else has changed, so there is no need to poll.
    Forward(Port),
    /// It waits in the queue of a port whose device has no room, and nothing else has changed: there
    /// is no need to poll. What lies in its place is of no use any more.
    Queued,
    /// The node has taken it in; what lies in its place is of no use any more.
    Taken,
}

/// What a node has for its driver.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "what a node says is said once"]
pub enum Poll {
    /// Put the packet in the place on the wire of this port. It has used up one credit.
    Send {
        /// Where it leaves.
        port: Port,
        /// More of the same super-packet follows at the next call, whether there is credit or not;
        /// only for devices that take such chains
        /// ([`set_xmit_more`](crate::host::Host::set_xmit_more)).
        more: bool,
    },
    /// The packet in the place was dropped, and why.
    Drop(Reason),
    /// A socket has become ready for something.
    Ready(SocketReady),
    /// Something worth telling happened (only while tracing is on).
    Event(Box<Event>),
    /// Nothing more for now. Without any input, the node wants to be called at this time at the
    /// latest; never if that is [`Instant::FAR_FUTURE`].
    Idle(Instant),
}

/// Readiness of a socket, edge-triggered: what has newly become possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReady {
    /// The socket.
    pub socket: SocketId,
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
    /// The state has changed: whoever waits for anything at all looks again (`sk_state_change`).
    pub const STATE: u8 = 16;
}
