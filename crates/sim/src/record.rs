//! What is written down about a run.

use crate::link::{LinkId, NodeId};
use datapath::packet::{Network, Packet, Transport};
use datapath::reason::Reason;
use datapath::trace::Event;
use datapath::units::Instant;
use std::cell::RefCell;
use std::rc::Rc;

/// Where a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a node: its queues, its network layer, its sockets.
    Node(NodeId),
    /// On the way.
    Link(LinkId),
}

/// Sees what happens in a world. All methods do nothing unless replaced.
pub trait Observer {
    /// Whether [`sent`](Self::sent) does anything: asked once, so that the many packets of a run
    /// are not shown to nobody.
    fn sees_sent(&self) -> bool {
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
    fn dropped(&mut self, now: Instant, place: Place, reason: Reason, packet: &Packet) {
        let _ = (now, place, reason, packet);
    }

    /// A node told something.
    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        let _ = (now, node, event);
    }
}

/// Lets the caller keep a hand on an observer that the world also has.
impl<T: Observer> Observer for Rc<RefCell<T>> {
    fn sees_sent(&self) -> bool {
        self.borrow().sees_sent()
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.borrow_mut().sent(now, link, packet);
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.borrow_mut().delivered(now, link, packet);
    }

    fn dropped(&mut self, now: Instant, place: Place, reason: Reason, packet: &Packet) {
        self.borrow_mut().dropped(now, place, reason, packet);
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        self.borrow_mut().event(now, node, event);
    }
}

/// Every drop with its time, place and reason.
#[derive(Debug, Default)]
pub struct DropLog {
    /// The drops in order of time.
    pub drops: Vec<(Instant, Place, Reason)>,
}

impl Observer for DropLog {
    fn dropped(&mut self, now: Instant, place: Place, reason: Reason, _packet: &Packet) {
        self.drops.push((now, place, reason));
    }
}

/// A running hash over everything that arrives anywhere, and when: two runs with the same
/// fingerprint did the same.
#[derive(Debug, Default)]
pub struct Fingerprint {
    /// The hash so far.
    pub hash: u64,
    /// How many arrivals went into it.
    pub arrivals: u64,
}

impl Fingerprint {
    fn mix(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(MULTIPLIER);
    }

    fn mix_sack(&mut self, packet: &Packet) {
        if let Transport::Tcp(tcp) = &packet.transport {
            for block in tcp.options.sack.as_slice() {
                self.mix(u64::from(block.start.0) << 32 | u64::from(block.end.0));
            }
        }
    }
}

/// What a packet is, in one number: every part has an odd factor of its own, so that the products
/// can be had side by side.
fn digest(packet: &Packet) -> u64 {
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
    let transport = match &packet.transport {
        Transport::Tcp(tcp) => {
            let ports = u64::from(tcp.src_port) << 16 | u64::from(tcp.dst_port);
            let state = u64::from(tcp.flags.0) << 16 | u64::from(tcp.window);
            let numbers = u64::from(tcp.seq.0) << 32 | u64::from(tcp.ack.0);
            part(state << 32 | ports, 3) ^ part(numbers, 4)
        }
        Transport::Udp(udp) => part(u64::from(udp.src_port) << 16 | u64::from(udp.dst_port), 3),
        Transport::Icmp(icmp) => part(u64::from(icmp.kind) << 32 | u64::from(icmp.rest), 3),
        Transport::None => 0,
    };
    lengths ^ network ^ transport
}

impl Observer for Fingerprint {
    fn sees_sent(&self) -> bool {
        false
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.arrivals += 1;
        self.mix(now.as_nanos());
        self.mix(u64::from(link.0));
        self.mix(digest(packet));
        self.mix_sack(packet);
    }
}

/// An odd constant that spreads small numbers over 64 bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
