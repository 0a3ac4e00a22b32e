//! Hashing: from a packet to the numbers that choose its queue and its hosts.
//!
//! The hash is keyed, so that nobody outside can aim at a queue, and symmetric: both directions
//! of a connection have the same hash (`flow_hash_from_keys`).

use super::classid::Choice;
use super::config::FlowMode;
use super::conntrack::Conntrack;
use crate::packet::{Flow, Network, Packet};
use crate::rng::Rng;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

/// Queues of a tin (`CAKE_QUEUES`).
pub const QUEUES: usize = 1024;
/// Ways of a set (`CAKE_SET_WAYS`).
pub const WAYS: usize = 8;

/// What is hashed of a packet (`struct flow_keys`), inside of tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKeys {
    addresses: Addresses,
    /// Source and destination port; 0 where a flow label stands for them.
    ports: (u16, u16),
    protocol: u8,
    /// IPv6 flow label.
    flow_label: u32,
    /// What the link layer says, 48 bits: the EtherType, and TPID and TCI of the outermost VLAN
    /// tag, 0 without.
    link: u64,
    /// What the packet's socket has drawn, which goes before a hash of the flow; 0 if nothing.
    drawn: u32,
}

/// Source and destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    /// Not IP.
    None,
    V4(u32, u32),
    /// Two words each.
    V6([u64; 2], [u64; 2]),
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

    /// The slot whose entry in `table` fulfils the condition: the first of the set from the home
    /// slot on and around. All are looked at, which is sooner done than to guess where to stop.
    #[inline]
    pub fn find<T: Copy>(self, table: &[T; QUEUES], fulfils: impl Fn(T) -> bool) -> Option<usize> {
        let ways = table[self.set..].first_chunk::<WAYS>().expect("tables hold whole sets");
        let mut found = 0u8;
        for (way, &entry) in ways.iter().enumerate() {
            found |= u8::from(fulfils(entry)) << way;
        }
        let steps = found.rotate_right(self.way as u32).trailing_zeros() as usize;
        (found != 0).then(|| self.set + (self.way + steps) % WAYS)
    }
}

impl FlowKeys {
    /// What is hashed of `packet` (`skb_flow_dissect_flow_keys`): with a tracked connection the
    /// addresses and ports before translation; with an IPv6 flow label that instead of the ports.
    #[inline]
    pub fn of(packet: &Packet, conntrack: Option<&dyn Conntrack>) -> Self {
        if packet.extra.is_some() || conntrack.is_some() {
            return Self::looked_up(packet, conntrack);
        }
        let mut keys = Self::of_link(packet);
        match &packet.network {
            Network::Ipv4(ip) => {
                keys.addresses = Addresses::V4(ip.src.to_bits(), ip.dst.to_bits());
                keys.protocol = ip.protocol;
            }
            Network::Ipv6(ip) => {
                keys.addresses = Addresses::of(ip.src.into(), ip.dst.into());
                keys.protocol = ip.next_header;
                keys.flow_label = ip.flow_label.get();
            }
            Network::Other(_) => {}
        }
        if keys.flow_label == 0 {
            keys.ports = packet.transport.ports().unwrap_or((0, 0));
        }
        keys
    }

    /// The same with a tunnel to look into, or a connection to look up.
    #[cold]
    fn looked_up(packet: &Packet, conntrack: Option<&dyn Conntrack>) -> Self {
        let mut keys = Self::of_link(packet);
        let flow = match (conntrack, packet.flow()) {
            (Some(conntrack), Some(outer)) => {
                let original = conntrack.original(&outer);
                if original.is_some_and(|original| original != outer) {
                    keys.drawn = 0;
                }
                original.or_else(|| seen(packet))
            }
            (None, Some(_)) => seen(packet),
            (_, None) => None,
        };
        let Some(flow) = flow else { return keys };
        Self {
            addresses: Addresses::of(flow.src, flow.dst),
            ports: (flow.src_port, flow.dst_port),
            protocol: flow.protocol,
            flow_label: flow.flow_label,
            ..keys
        }
    }

    /// Of what is not IP: the link layer, and what a socket has drawn.
    #[inline]
    fn of_link(packet: &Packet) -> Self {
        let ethertype = packet.network.ether_type();
        let tag = packet.extra.as_ref().and_then(|extra| extra.vlan.first());
        let vlan = tag.map_or(0, |&(tpid, tci)| u64::from(tpid) << 16 | u64::from(tci));
        Self {
            addresses: Addresses::None,
            ports: (0, 0),
            protocol: 0,
            flow_label: 0,
            link: u64::from(ethertype.0) | vlan << 16,
            drawn: packet.hash,
        }
    }
}

impl Addresses {
    fn of(src: IpAddr, dst: IpAddr) -> Self {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::V4(src.to_bits(), dst.to_bits()),
            (src, dst) => Self::V6(words(src), words(dst)),
        }
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

    #[inline]
    fn flow(&self, keys: &FlowKeys) -> u32 {
        let kind = keys.link | u64::from(keys.protocol) << 48;
        let ports = |from: u16, to: u16| {
            u64::from(from) | u64::from(to) << 16 | u64::from(keys.flow_label) << 32
        };
        let (src_port, dst_port) = keys.ports;
        match keys.addresses {
            Addresses::None => self.hash([keys.link]),
            Addresses::V4(src, dst) => {
                let end = |address: u32, port: u16| u64::from(address) << 16 | u64::from(port);
                let (a, b) = (end(src, src_port), end(dst, dst_port));
                let (from, to) = (a.min(b), a.max(b));
                self.hash([kind, ports(from as u16, to as u16), from >> 16 | to >> 16 << 32])
            }
            Addresses::V6(src, dst) => {
                let (a, b) = ((src, src_port), (dst, dst_port));
                let (from, to) = (a.min(b), a.max(b));
                let ([f0, f1], [t0, t1]) = (from.0, to.0);
                self.hash([kind, ports(from.1, to.1), f0, f1, t0, t1])
            }
        }
    }

    /// One address alone, which has the same hash as source and as destination; 0 for packets
    /// without addresses.
    fn host(&self, keys: &FlowKeys, destination: bool) -> u32 {
        let [high, low] = match keys.addresses {
            Addresses::None => return 0,
            Addresses::V4(src, dst) => [0, u64::from(if destination { dst } else { src })],
            Addresses::V6(src, dst) => {
                if destination {
                    dst
                } else {
                    src
                }
            }
        };
        self.hash([keys.link, high, low])
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
        self.choice.host.unwrap_or_else(|| self.hasher.host(self.keys, false))
    }

    /// The hash of the destination address. An address has the same hash on both sides.
    pub fn destination(&self) -> u32 {
        self.choice.host.unwrap_or_else(|| self.hasher.host(self.keys, true))
    }
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
    use crate::packet::EtherType;
    use core::net::Ipv4Addr;

    fn keys(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> FlowKeys {
        FlowKeys {
            addresses: Addresses::of(Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into()),
            ports,
            protocol: 17,
            flow_label: 0,
            link: u64::from(EtherType::IPV4.0),
            drawn: 0,
        }
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
        let home = SetSlot::home(1024 * 5 + 13);
        let order = [13, 14, 15, 8, 9, 10, 11, 12];
        for (step, &slot) in order.iter().enumerate() {
            let mut table = [false; QUEUES];
            order[step..].iter().for_each(|&later| table[later] = true);
            assert_eq!(home.find(&table, |entry| entry), Some(slot));
        }
        assert_eq!(home.find(&[false; QUEUES], |entry| entry), None);
    }
}
