//! Hashing: from a packet to the numbers that choose its queue and its hosts.
//!
//! The hash is keyed, so that nobody outside can aim at a queue, and symmetric: both directions
//! of a connection have the same hash (`flow_hash_from_keys`).

use super::classid::Choice;
use super::config::FlowMode;
use super::conntrack::Conntrack;
use crate::packet::{EtherType, Flow, Network, Packet};
use crate::rng::Rng;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

/// Queues of a tin (`CAKE_QUEUES`).
pub const QUEUES: usize = 1024;
/// Ways of a set (`CAKE_SET_WAYS`).
pub const WAYS: usize = 8;

/// What is hashed of a packet (`struct flow_keys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKeys {
    /// Addresses, ports and so on, inside of tunnels; `None` for what is not IP.
    flow: Option<Flow>,
    /// What the link layer says it is.
    ethertype: EtherType,
    /// TPID and TCI of the outermost VLAN tag; 0 without.
    vlan: u32,
    /// What the packet's socket has drawn, which goes before a hash of the flow; 0 if nothing.
    drawn: u32,
}

/// The keyed hash of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    key: (u64, u64),
}

/// The hashes of one packet.
#[derive(Clone, Copy, Debug)]
pub struct Hashes<'a> {
    hasher: &'a Hasher,
    keys: &'a FlowKeys,
    choice: Choice,
}

/// A home slot in a set-associative table.
#[derive(Clone, Copy, Debug)]
pub struct SetSlot {
    set: usize,
    way: usize,
}

impl SetSlot {
    /// The home of `hash`.
    pub const fn home(hash: u32) -> Self {
        let slot = hash as usize % QUEUES;
        Self { set: slot - slot % WAYS, way: slot % WAYS }
    }

    /// Its index in the table.
    pub const fn index(self) -> usize {
        self.set + self.way
    }

    /// All slots of the set, from the home slot on and around.
    pub fn ways(self) -> impl Iterator<Item = usize> {
        (0..WAYS).map(move |step| self.set + (self.way + step) % WAYS)
    }
}

impl FlowKeys {
    /// What is hashed of `packet` (`skb_flow_dissect_flow_keys`): with a tracked connection the
    /// addresses and ports before translation; with an IPv6 flow label that instead of the ports.
    pub fn of(packet: &Packet, conntrack: Option<&dyn Conntrack>) -> Self {
        let mut drawn = packet.hash;
        let flow = match (conntrack, packet.flow()) {
            (Some(conntrack), Some(outer)) => {
                let original = conntrack.original(&outer);
                if original.is_some_and(|original| original != outer) {
                    drawn = 0;
                }
                original.or_else(|| seen(packet))
            }
            (None, Some(_)) => seen(packet),
            (_, None) => None,
        };
        let ethertype = match packet.network {
            Network::Ipv4(_) => EtherType::IPV4,
            Network::Ipv6(_) => EtherType::IPV6,
            Network::Other(ethertype) => ethertype,
        };
        let tag = packet.extra.as_ref().and_then(|extra| extra.vlan.first());
        let vlan = tag.map_or(0, |&(tpid, tci)| u32::from(tpid) << 16 | u32::from(tci));
        Self { flow, ethertype, vlan, drawn }
    }
}

/// The flow that the dissector sees: it looks into tunnels, but stops at the first flow label.
fn seen(packet: &Packet) -> Option<Flow> {
    let outer = packet.flow()?;
    let mut flow = match &packet.extra {
        Some(_) if outer.flow_label == 0 => packet.inner_flow().unwrap_or(outer),
        _ => outer,
    };
    if flow.flow_label != 0 {
        (flow.src_port, flow.dst_port) = (0, 0);
    }
    Some(flow)
}

impl Hasher {
    /// A hasher with a random key.
    pub fn new(rng: &mut Rng) -> Self {
        Self { key: (rng.next_u64(), rng.next_u64()) }
    }

    /// The hashes of a packet, of which each is computed when it is asked for.
    pub fn hashes<'a>(&'a self, keys: &'a FlowKeys, choice: Choice) -> Hashes<'a> {
        Hashes { hasher: self, keys, choice }
    }

    fn flow(&self, keys: &FlowKeys) -> u32 {
        let link = link(keys);
        let Some(flow) = &keys.flow else { return self.hash([link]) };
        let (src, dst) = ((flow.src, flow.src_port), (flow.dst, flow.dst_port));
        let (from, to) = if dst < src { (dst, src) } else { (src, dst) };
        let kind = link | u64::from(flow.protocol) << 48;
        let ports = u64::from(from.1) | u64::from(to.1) << 16 | u64::from(flow.flow_label) << 32;
        match (from.0, to.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                self.hash([kind, ports, u64::from(from.to_bits()) | u64::from(to.to_bits()) << 32])
            }
            (from, to) => {
                let ([f0, f1], [t0, t1]) = (words(from), words(to));
                self.hash([kind, ports, f0, f1, t0, t1])
            }
        }
    }

    /// One address alone; 0 for packets without addresses.
    fn host(&self, keys: &FlowKeys, address: fn(&Flow) -> IpAddr) -> u32 {
        let Some(flow) = &keys.flow else { return 0 };
        let [high, low] = words(address(flow));
        self.hash([link(keys), high, low])
    }

    /// Whole words, so that nothing is assembled from bytes in memory.
    #[inline]
    fn hash<const N: usize>(&self, words: [u64; N]) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        for word in words {
            hasher.write_u64(word);
        }
        hasher.finish() as u32
    }
}

impl Hashes<'_> {
    /// The hash that chooses the packet's queue in `mode` (`cake_hash`).
    pub fn queue(&self, mode: FlowMode) -> u32 {
        if mode.by_flow() {
            return self.choice.queue.unwrap_or_else(|| match self.keys.drawn {
                0 => self.hasher.flow(self.keys),
                drawn => drawn,
            });
        }
        let source = if mode.by_source() { self.source() } else { 0 };
        let destination = if mode.by_destination() { self.destination() } else { 0 };
        self.choice.queue.unwrap_or(0) ^ source ^ destination
    }

    /// The hash of the source address.
    pub fn source(&self) -> u32 {
        self.choice.host.unwrap_or_else(|| self.hasher.host(self.keys, |flow| flow.src))
    }

    /// The hash of the destination address. An address has the same hash on both sides.
    pub fn destination(&self) -> u32 {
        self.choice.host.unwrap_or_else(|| self.hasher.host(self.keys, |flow| flow.dst))
    }
}

/// What the link layer says, as it is hashed: 48 bits.
fn link(keys: &FlowKeys) -> u64 {
    u64::from(keys.ethertype.0) | u64::from(keys.vlan) << 16
}

/// An address in two words.
fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, u64::from(v4.to_bits())],
        IpAddr::V6(v6) => [(v6.to_bits() >> 64) as u64, v6.to_bits() as u64],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn keys(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> FlowKeys {
        let flow = Flow {
            src: Ipv4Addr::from(src).into(),
            dst: Ipv4Addr::from(dst).into(),
            protocol: 17,
            src_port: ports.0,
            dst_port: ports.1,
            flow_label: 0,
        };
        FlowKeys { flow: Some(flow), ethertype: EtherType::IPV4, vlan: 0, drawn: 0 }
    }

    #[test]
    fn both_directions_share_a_queue_but_other_ports_do_not() {
        let hasher = Hasher::new(&mut Rng::stream(1, 1));
        let flow = |keys| hasher.hashes(&keys, Choice::default()).queue(FlowMode::Flows);
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(flow(keys(a, b, (1, 2))), flow(keys(b, a, (2, 1))));
        assert_ne!(flow(keys(a, b, (1, 2))), flow(keys(b, a, (1, 2))));
        assert_ne!(flow(keys(a, b, (1, 2))), flow(keys(a, b, (1, 3))));
    }

    #[test]
    fn modes_tell_apart_what_their_name_says() {
        let hasher = Hasher::new(&mut Rng::stream(1, 1));
        let flow = |keys, mode| hasher.hashes(&keys, Choice::default()).queue(mode);
        let (a, b, c) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
        let one = keys(a, b, (1, 2));
        let other_port = keys(a, b, (1, 3));
        let other_src = keys(c, b, (1, 2));
        let other_dst = keys(a, c, (1, 2));
        let same = |mode| {
            [other_port, other_src, other_dst].map(|other| flow(one, mode) == flow(other, mode))
        };
        assert_eq!(same(FlowMode::Srchost), [true, false, true]);
        assert_eq!(same(FlowMode::Dsthost), [true, true, false]);
        assert_eq!(same(FlowMode::Hosts), [true, false, false]);
        assert_eq!(same(FlowMode::Flows), [false, false, false]);
        assert_eq!(same(FlowMode::TripleIsolate), [false, false, false]);
    }

    #[test]
    fn a_filter_overrides_flow_and_host() {
        let hasher = Hasher::new(&mut Rng::stream(1, 1));
        let keys = keys([10, 0, 0, 1], [10, 0, 0, 2], (1, 2));
        let hashes = hasher.hashes(&keys, Choice { queue: Some(7), host: Some(9) });
        assert_eq!((hashes.source(), hashes.destination()), (9, 9));
        assert_eq!(hashes.queue(FlowMode::TripleIsolate), 7);
        assert_eq!(hashes.queue(FlowMode::Srchost), 7 ^ 9);
    }

    /// `skb->hash` with `l4_hash`: the queue follows it and the hosts do not.
    #[test]
    fn what_a_socket_drew_chooses_the_queue_and_no_host() {
        let hasher = Hasher::new(&mut Rng::stream(1, 1));
        let plain = keys([10, 0, 0, 1], [10, 0, 0, 2], (1, 2));
        let drawn = FlowKeys { drawn: 77, ..plain };
        let chosen = |keys: FlowKeys| {
            let hashes = hasher.hashes(&keys, Choice::default());
            let queues = [FlowMode::TripleIsolate, FlowMode::Hosts].map(|mode| hashes.queue(mode));
            (queues, [hashes.source(), hashes.destination()])
        };
        let (plain, drawn) = (chosen(plain), chosen(drawn));
        assert_eq!(drawn, ([77, plain.0[1]], plain.1));
        assert_ne!(plain.0[0], 77);
    }

    #[test]
    fn a_set_is_searched_from_home_and_around() {
        let ways: Vec<usize> = SetSlot::home(1024 * 5 + 13).ways().collect();
        assert_eq!(ways, [13, 14, 15, 8, 9, 10, 11, 12]);
    }
}
