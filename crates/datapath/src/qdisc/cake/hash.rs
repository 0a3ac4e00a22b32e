//! Hashing: from a packet to the numbers that choose its queue and its hosts.
//!
//! The hash is keyed, so that an attacker cannot target a queue, and symmetric: both directions
//! of a connection have the same hash (`flow_hash_from_keys`).

use super::classid::Choice;
use super::config::FlowMode;
use super::conntrack::Conntrack;
use super::kernel_hash::{self, Side};
use crate::packet::{self, FlowAddresses, Packet};
use crate::rng::Rng;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

/// Queues of a tin (`CAKE_QUEUES`).
pub const QUEUES: usize = 1024;
/// Ways of a set (`CAKE_SET_WAYS`).
pub const WAYS: usize = 8;

/// What is hashed of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKeys {
    /// What the dissector found.
    seen: packet::FlowKeys,
    /// The hash chosen by the packet's socket, which has priority over a hash of the flow; 0 if none.
    drawn: u32,
}

/// The keyed hash of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    key: (u64, u64),
    /// The bytes that the kernel hashes are hashed as the kernel does it.
    as_kernel: bool,
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
    /// slot on and around. All are compared, which is faster than to predict where to stop.
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
    /// addresses and ports before translation.
    #[inline]
    pub fn of(packet: &Packet, conntrack: Option<&dyn Conntrack>) -> Self {
        let mut keys = Self { seen: packet.flow_keys(), drawn: packet.meta.hash };
        if let Some(conntrack) = conntrack {
            keys.translate_back(packet, conntrack);
        }
        keys
    }

    /// Addresses and ports as the connection had them before translation
    /// (`cake_update_flowkeys`). A hash chosen by a socket does not depend on it.
    #[cold]
    fn translate_back(&mut self, packet: &Packet, conntrack: &dyn Conntrack) {
        let Some(outer) = packet.flow() else { return };
        let Some(original) = conntrack.original(&outer) else { return };
        if original != outer {
            self.drawn = 0;
        }
        self.seen.addresses = addresses(original.src, original.dst);
        self.seen.protocol = original.protocol;
        self.seen.flow_label = original.flow_label;
        if original.flow_label == 0 {
            self.seen.ports = (original.src_port, original.dst_port);
        }
    }
}

fn addresses(src: IpAddr, dst: IpAddr) -> FlowAddresses {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => FlowAddresses::V4(src.to_bits(), dst.to_bits()),
        (src, dst) => FlowAddresses::V6(words(src), words(dst)),
    }
}

impl Hasher {
    /// A hasher with a random key.
    pub fn new(rng: &mut Rng) -> Self {
        Self { key: (rng.next_u64(), rng.next_u64()), as_kernel: false }
    }

    /// The kernel's hash with this key (`hashrnd`), to compare with a kernel whose key is known.
    pub const fn kernel(key: (u64, u64)) -> Self {
        Self { key, as_kernel: true }
    }

    /// The hashes of a packet, each computed on demand.
    pub fn hashes<'a>(&'a self, keys: &'a FlowKeys, choice: Choice) -> Hashes<'a> {
        Hashes { hasher: self, keys, choice }
    }

    /// Both directions have the same hash (`__flow_hash_consistentify`): of the addresses the
    /// smaller comes first, and independently the smaller port.
    #[inline]
    fn flow(&self, keys: &packet::FlowKeys) -> u32 {
        if self.as_kernel {
            return kernel_hash::flow(self.key, keys);
        }
        let packet::FlowKeys { ports: (a, b), flow_label, gre_key, .. } = *keys;
        let ports = u64::from(a.min(b)) | u64::from(a.max(b)) << 16 | u64::from(flow_label) << 32;
        let kind =
            u64::from(keys.ether_type) | u64::from(keys.protocol) << 16 | u64::from(gre_key) << 32;
        match keys.addresses {
            FlowAddresses::None => self.hash(keys, [kind, ports]),
            FlowAddresses::Tipc(node) => self.hash(keys, [kind, ports, node.into()]),
            FlowAddresses::V4(src, dst) => {
                let both = u64::from(src.min(dst)) | u64::from(src.max(dst)) << 32;
                self.hash(keys, [kind, ports, both])
            }
            FlowAddresses::V6(src, dst) => {
                let ([f0, f1], [t0, t1]) = (src.min(dst), src.max(dst));
                self.hash(keys, [kind, ports, f0, f1, t0, t1])
            }
        }
    }

    /// One address alone, which has the same hash as source and as destination; 0 for packets
    /// without addresses.
    fn host(&self, keys: &packet::FlowKeys, side: Side) -> u32 {
        if self.as_kernel {
            return kernel_hash::host(self.key, keys, side);
        }
        let [high, low] = match keys.addresses {
            FlowAddresses::None | FlowAddresses::Tipc(_) => return 0,
            FlowAddresses::V4(src, dst) => [0, u64::from(side.of(src, dst))],
            FlowAddresses::V6(src, dst) => side.of(src, dst),
        };
        self.hash(keys, [u64::from(keys.ether_type), high, low])
    }

    /// Whole words, so that nothing is assembled from bytes in memory, and the VLAN tag where
    /// there is one.
    #[inline]
    fn hash<const N: usize>(&self, keys: &packet::FlowKeys, words: [u64; N]) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        for word in words {
            hasher.write_u64(word);
        }
        if keys.tag != 0 {
            hasher.write_u64(keys.tag);
        }
        hasher.finish() as u32
    }
}

impl Hashes<'_> {
    /// The hash that chooses the packet's queue in `mode` (`cake_hash`).
    pub fn queue(&self, mode: FlowMode) -> u32 {
        if mode.by_flow() {
            return self.choice.queue.unwrap_or_else(|| match self.keys.drawn {
                0 => self.hasher.flow(&self.keys.seen),
                drawn => drawn,
            });
        }
        let source = if mode.by_source() { self.source() } else { 0 };
        let destination = if mode.by_destination() { self.destination() } else { 0 };
        self.choice.queue.unwrap_or(0) ^ source ^ destination
    }

    /// The hash of the source address.
    pub fn source(&self) -> u32 {
        self.choice.host.unwrap_or_else(|| self.hasher.host(&self.keys.seen, Side::Source))
    }

    /// The hash of the destination address. An address has the same hash on both sides.
    pub fn destination(&self) -> u32 {
        self.choice.host.unwrap_or_else(|| self.hasher.host(&self.keys.seen, Side::Destination))
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
        let seen = packet::FlowKeys {
            addresses: addresses(Ipv4Addr::from(src).into(), Ipv4Addr::from(dst).into()),
            ports,
            protocol: 17,
            ether_type: EtherType::IPV4.0,
            ..packet::FlowKeys::default()
        };
        FlowKeys { seen, drawn: 0 }
    }

    #[test]
    fn both_directions_share_a_queue_but_other_ports_do_not() {
        let hasher = Hasher::new(&mut Rng::stream(1, 1));
        let flow = |keys| hasher.hashes(&keys, Choice::default()).queue(FlowMode::Flows);
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(flow(keys(a, b, (1, 2))), flow(keys(b, a, (2, 1))));
        assert_eq!(flow(keys(a, b, (1, 2))), flow(keys(b, a, (1, 2))), "sorted each for itself");
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
