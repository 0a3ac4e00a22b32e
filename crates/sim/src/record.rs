//! Observers of a run, and its fingerprint.

use crate::event::{LinkId, NodeId};
use datapath::packet::{Network, Packet, SackBlock, Transport};
use datapath::reason::Reason;
use datapath::trace::Event;
use datapath::units::Instant;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::AddAssign;
use std::rc::Rc;

/// Where a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropPlace {
    /// In a node: in its queues, its network layer, its sockets.
    Node(NodeId),
    /// On a link.
    Link(LinkId),
}

/// What an observer wants to see. It is read once, so that unwanted records cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interest {
    /// Packets put on links.
    pub sent: bool,
    /// Arrivals.
    pub delivered: bool,
    /// Drops.
    pub dropped: bool,
    /// Events that nodes report.
    pub events: bool,
    /// The number of arrivals and a hash of them all: no packet is kept for it.
    pub digests: bool,
}

impl Interest {
    /// Nothing.
    pub const NOTHING: Self =
        Self { sent: false, delivered: false, dropped: false, events: false, digests: false };
    /// All but digests.
    pub const PACKETS: Self =
        Self { sent: true, delivered: true, dropped: true, events: true, digests: false };

    /// What either of both wants to see.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            sent: self.sent | other.sent,
            delivered: self.delivered | other.delivered,
            dropped: self.dropped | other.dropped,
            events: self.events | other.events,
            digests: self.digests | other.digests,
        }
    }
}

/// Observes the events of a world in their order. All methods do nothing unless
/// implemented. They may be called a little later than the event, but before the world's run ends.
pub trait Observer {
    /// What it wants to see.
    fn interest(&self) -> Interest {
        Interest::PACKETS
    }

    /// Whether it wants to see packets that are put on this link or arrive from it. It may be shown
    /// those of other links, too, because somebody else wants to see them.
    fn wants_link(&self, link: LinkId) -> bool {
        let _ = link;
        true
    }

    /// A packet was put on a link.
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let _ = (now, link, packet);
    }

    /// A packet reached the far end of a link.
    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let _ = (now, link, packet);
    }

    /// A packet was dropped.
    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        let _ = (now, place, reason, packet);
    }

    /// A node reported an event.
    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        let _ = (now, node, event);
    }

    /// The arrivals since the last call.
    fn digested(&mut self, arrivals: Fingerprint) {
        let _ = arrivals;
    }
}

/// Observes packets put on one link, and nothing else. It is called by the thread that processes the
/// sending node; [`World::watcher`](crate::world::World::watcher) gives access to it between runs.
pub trait Watcher: Any + Send {
    /// A packet was put on the link.
    fn sent(&mut self, now: Instant, packet: &Packet);
}

/// All watchers of a link.
#[derive(Default)]
pub(crate) struct Watchers(pub Vec<Box<dyn Watcher>>);

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} watchers", self.0.len())
    }
}

/// Lets the caller keep access to an observer that the world also has.
impl<T: Observer> Observer for Rc<RefCell<T>> {
    fn interest(&self) -> Interest {
        self.borrow().interest()
    }

    fn wants_link(&self, link: LinkId) -> bool {
        self.borrow().wants_link(link)
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.borrow_mut().sent(now, link, packet);
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.borrow_mut().delivered(now, link, packet);
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        self.borrow_mut().dropped(now, place, reason, packet);
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        self.borrow_mut().event(now, node, event);
    }

    fn digested(&mut self, arrivals: Fingerprint) {
        self.borrow_mut().digested(arrivals);
    }
}

/// A hash of everything that arrives anywhere, and when: two runs with the same fingerprint did the same.
///
/// It is the sum of a hash of each arrival (its time, its link, its packet), so nodes and threads may
/// each add up their own, and nothing has to be sorted. The order of simultaneous arrivals
/// is not in it by itself, but all its consequences are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// The hash so far.
    pub hash: u64,
    /// How many arrivals went into it.
    pub arrivals: u64,
}

impl Fingerprint {
    /// A packet arrives.
    #[inline]
    pub(crate) fn note_arrival(&mut self, at: Instant, link: LinkId, packet: &Packet) {
        let (digest, blocks) = digest(packet);
        let mut hash = mix(mix(at.as_nanos(), u64::from(link.0)), digest);
        for block in blocks {
            hash = mix(hash, u64::from(block.start.0) << 32 | u64::from(block.end.0));
        }
        *self += Self { hash: hash ^ hash >> 32, arrivals: 1 };
    }
}

impl AddAssign for Fingerprint {
    fn add_assign(&mut self, other: Self) {
        self.hash = self.hash.wrapping_add(other.hash);
        self.arrivals += other.arrivals;
    }
}

#[inline]
fn mix(hash: u64, value: u64) -> u64 {
    (hash.wrapping_mul(MULTIPLIER).rotate_left(29) ^ value).wrapping_mul(MULTIPLIER)
}

/// A hash of a packet without its SACK blocks: every part has an odd factor of its own, so
/// that the products can be computed in parallel.
#[inline]
fn digest(packet: &Packet) -> (u64, &[SackBlock]) {
    let part = |value: u64, number: u32| value.wrapping_mul(MULTIPLIER.rotate_left(2 * number) | 1);
    let lengths = part(u64::from(packet.len()) << 32 | u64::from(packet.body.len), 0);
    let network = match &packet.network {
        Network::Ipv4(ip) => {
            let ends = u64::from(ip.src.to_bits()) << 32 | u64::from(ip.dst.to_bits());
            let rest = u64::from(ip.tos) << 16 | u64::from(ip.ttl) << 8 | u64::from(ip.protocol);
            part(ends, 1) ^ part(rest, 2)
        }
        Network::Ipv6(ip) => {
            let ends = ip.src.to_bits() as u64 ^ (ip.dst.to_bits() as u64).rotate_left(32);
            part(ends, 1) ^ part(u64::from(ip.traffic_class) << 8 | u64::from(ip.hop_limit), 2)
        }
        Network::Other(kind) => part(u64::from(kind.0), 1),
    };
    let mut blocks: &[SackBlock] = &[];
    let transport = match &packet.transport {
        Transport::Tcp(tcp) => {
            blocks = tcp.options.sack.as_slice();
            let ports = u64::from(tcp.src_port) << 16 | u64::from(tcp.dst_port);
            let state = u64::from(tcp.flags.0) << 16 | u64::from(tcp.window);
            let numbers = u64::from(tcp.seq.0) << 32 | u64::from(tcp.ack.0);
            part(state << 32 | ports, 3) ^ part(numbers, 4)
        }
        Transport::Udp(udp) => part(u64::from(udp.src_port) << 16 | u64::from(udp.dst_port), 3),
        Transport::Icmp(icmp) => part(u64::from(icmp.kind) << 32 | u64::from(icmp.rest), 3),
        Transport::None => 0,
    };
    (lengths ^ network ^ transport, blocks)
}

impl Observer for Fingerprint {
    fn interest(&self) -> Interest {
        Interest { digests: true, ..Interest::NOTHING }
    }

    fn digested(&mut self, arrivals: Fingerprint) {
        *self += arrivals;
    }
}

/// An odd constant that spreads small numbers over 64 bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
