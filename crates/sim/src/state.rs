//! The simulator's state of nodes, applications and its border, and its counters.

use crate::link::{LinkId, NodeId};
use crate::log::Rank;
use apps::{App, NO_APP, Streams};
use datapath::host::{Host, SocketId};
use datapath::node::SocketReady;
use datapath::packet::Packet;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use std::collections::VecDeque;

/// A node in its world.
pub(crate) struct NodeState {
    pub host: Host,
    /// The pending wake-up; `FAR_FUTURE` if none.
    pub wake: Instant,
    /// A later wake-up that an earlier one has replaced: its entry is still in the calendar.
    pub replaced: Instant,
    /// The link behind each port.
    pub links: Vec<LinkId>,
    /// The application that each socket belongs to.
    pub owners: Vec<u32>,
    /// The bytes that its connections carry, if they carry bytes.
    pub streams: Option<Box<Streams>>,
    /// Delayed notifications of its applications, if they are slow.
    pub late: Option<Box<DelayedReady>>,
}

/// Notifications that applications get later.
pub(crate) struct DelayedReady {
    /// Their delay.
    pub by: Duration,
    pub ready: VecDeque<SocketReady>,
}

/// An application on its node.
pub(crate) struct AppState {
    pub app: Box<dyn App>,
    pub node: NodeId,
    /// When it wants to be called; before it runs, when it starts.
    pub timer: Instant,
    pub running: bool,
    pub rng: Rng,
}

/// A socket has become ready, and its application is to be notified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub node: NodeId,
    pub socket: SocketReady,
    /// The place of the notification among the events of its time.
    pub rank: Rank,
}

/// A packet that has arrived at the far end of a link, outside of the simulation.
#[derive(Clone, Debug)]
pub struct HandedOut {
    /// When.
    pub at: Instant,
    /// By which link.
    pub link: LinkId,
    /// What.
    pub packet: Packet,
}

/// A partition's side of the border.
#[derive(Default)]
pub(crate) struct Border {
    /// By link: whether its arrivals are handed out.
    pub links: Vec<bool>,
    pub out: Vec<HandedOut>,
}

/// Counters of a world since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WorldStats {
    /// Events processed.
    pub events: u64,
    /// Packets put on links: the packet-hops. Each segment of a super-packet counts.
    pub hops: u64,
    /// Those of packets of [`HOP_BYTES`] or more: the hops of benchmarks.
    pub full_hops: u64,
    /// Packets that nodes dropped.
    pub node_drops: u64,
    /// Packets that links lost.
    pub link_drops: u64,
}

impl WorldStats {
    /// A packet is put on a link.
    #[inline]
    pub(crate) fn note_sent(&mut self, packet: &Packet) {
        let segments = u64::from(packet.segments());
        self.hops += segments;
        if packet.len() >= HOP_BYTES {
            self.full_hops += segments;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.hops += other.hops;
        self.full_hops += other.full_hops;
        self.node_drops += other.node_drops;
        self.link_drops += other.link_drops;
    }
}

/// From this length on, with its link header, a packet counts as MTU-sized.
pub const HOP_BYTES: u32 = 1400;

/// The link behind a port that has none yet.
pub(crate) const NO_LINK: LinkId = LinkId(u32::MAX);

impl NodeState {
    pub fn new(host: Host) -> Self {
        Self {
            wake: Instant::FAR_FUTURE,
            replaced: Instant::FAR_FUTURE,
            links: vec![NO_LINK; host.port_count()],
            owners: Vec::new(),
            streams: None,
            late: None,
            host,
        }
    }

    /// The application that is notified of a socket; [`NO_APP`] if none is. Between readiness and notification
    /// the socket may have been closed, and its number have gone to another one.
    #[inline]
    pub fn owner_of(&self, socket: SocketId) -> u32 {
        match self.owners.get(socket.index()) {
            Some(owner) if !self.host.is_succeeded(socket) => *owner,
            _ => NO_APP,
        }
    }

    /// The application that will probably be notified of the next packet; past the end if none is.
    #[inline]
    pub fn likely_app(&self) -> usize {
        let owner = self.owners.get(self.host.likely_socket());
        owner.map_or(usize::MAX, |owner| *owner as usize)
    }
}
