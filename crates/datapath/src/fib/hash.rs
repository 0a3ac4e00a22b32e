//! The multipath hashes: Linux 6.18's SipHash policies and the jhash of the 2015 series.

use super::error::FibError;
use super::flow::{Fields, HashInput};
use super::jhash;
use core::hash::Hasher as _;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use siphasher::sip::SipHasher24;

/// `fib_multipath_hash_policy` of `net.ipv4` or `net.ipv6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// 0: addresses; ICMP errors by the addresses that they quote.
    #[default]
    L3,
    /// 1: addresses, protocol and ports of the packet itself.
    L4,
    /// 2: as 0, on the packet inside a tunnel if there is one.
    Inner,
    /// 3: the fields that [`HashFields`] selects.
    Custom,
}

/// `fib_multipath_hash_fields`: what policy 3 hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields(u32);

/// The secret of the hash (`fib_multipath_hash_seed`, or random at boot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey {
    k0: u64,
    k1: u64,
}

impl Policy {
    /// The policy with this sysctl value.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::L3,
            1 => Self::L4,
            2 => Self::Inner,
            3 => Self::Custom,
            _ => return None,
        })
    }
}

impl HashFields {
    /// Outer source address.
    pub const SRC_IP: u32 = 1;
    /// Outer destination address.
    pub const DST_IP: u32 = 1 << 1;
    /// Outer protocol.
    pub const IP_PROTO: u32 = 1 << 2;
    /// Outer flow label (IPv6).
    pub const FLOWLABEL: u32 = 1 << 3;
    /// Outer source port.
    pub const SRC_PORT: u32 = 1 << 4;
    /// Outer destination port.
    pub const DST_PORT: u32 = 1 << 5;
    /// Shift of the inner fields relative to the outer ones.
    const INNER_SHIFT: u32 = 6;
    /// All defined bits.
    const ALL: u32 = 0xfff;
    /// Addresses and protocol of the outer header.
    pub const DEFAULT: Self = Self(Self::SRC_IP | Self::DST_IP | Self::IP_PROTO);

    /// The fields with this sysctl value; 0 and unknown bits are refused, as the kernel does.
    pub const fn from_number(number: u32) -> Result<Self, FibError> {
        if number == 0 || number & !Self::ALL != 0 {
            return Err(FibError::InvalidHashFields);
        }
        Ok(Self(number))
    }

    /// The sysctl value.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl Default for HashFields {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl HashKey {
    /// The key that `fib_multipath_hash_seed` = `seed` makes: the 32 bits four times over.
    pub const fn from_seed(seed: u32) -> Self {
        let twice = seed as u64 | (seed as u64) << 32;
        Self { k0: twice, k1: twice }
    }

    /// A key of 128 random bits, as a kernel with seed 0 draws at boot.
    pub const fn random(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// The seed that makes this key; `None` for a random one.
    pub const fn seed(self) -> Option<u32> {
        let seed = self.k0 as u32;
        let from_seed = Self::from_seed(seed);
        if from_seed.k0 == self.k0 && from_seed.k1 == self.k1 { Some(seed) } else { None }
    }

    /// The low 32 bits, which serve as the seed of the 2015 jhash.
    const fn word(self) -> u32 {
        self.k0 as u32
    }
}

/// `fib_multipath_hash()` / `rt6_multipath_hash()`: 32 bits; the top 31 of them choose.
pub fn hash(policy: Policy, fields: HashFields, key: HashKey, flow: &HashInput) -> u32 {
    match policy {
        Policy::L4 => flow_hash(key, &Fields { flow_label: 0, ..flow.outer }),
        Policy::Inner if flow.from_packet => addresses(key, flow.inner.unwrap_or(flow.outer)),
        Policy::L3 | Policy::Inner => l3(key, flow),
        Policy::Custom => custom(fields, key, flow),
    }
}

/// Policy 0. Here the flow label is hashed in network byte order, everywhere else in the host's
/// (little-endian here).
fn l3(key: HashKey, flow: &HashInput) -> u32 {
    let fields = flow.quoted.unwrap_or(flow.l3_fields());
    addresses(key, Fields { flow_label: fields.flow_label.swap_bytes(), ..fields })
}

/// Addresses alone; IPv6 takes the protocol and the flow label in.
fn addresses(key: HashKey, fields: Fields) -> u32 {
    let protocol = if fields.src.is_ipv4() { 0 } else { fields.protocol };
    flow_hash(key, &Fields { src_port: 0, dst_port: 0, protocol, ..fields })
}

/// Policy 3: the outer and the inner hash, mixed; for a socket, which has no packet yet, the outer
/// hash as it is.
fn custom(fields: HashFields, key: HashKey, flow: &HashInput) -> u32 {
    let outer = selected(fields.0, key, &flow.outer);
    if !flow.from_packet {
        return outer;
    }
    let inner_fields = fields.0 >> HashFields::INNER_SHIFT;
    let inner = flow.inner.map_or(0, |inner| selected(inner_fields, key, &inner));
    jhash::words2(outer, inner, 0)
}

/// The hash over the fields that `mask` selects; 0 if it selects none.
fn selected(mask: u32, key: HashKey, fields: &Fields) -> u32 {
    if mask & (HashFields::ALL >> HashFields::INNER_SHIFT) == 0 {
        return 0;
    }
    let has = |bit: u32| mask & bit != 0;
    let zero = match fields.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let chosen = Fields {
        src: if has(HashFields::SRC_IP) { fields.src } else { zero },
        dst: if has(HashFields::DST_IP) { fields.dst } else { zero },
        protocol: if has(HashFields::IP_PROTO) { fields.protocol } else { 0 },
        src_port: if has(HashFields::SRC_PORT) { fields.src_port } else { 0 },
        dst_port: if has(HashFields::DST_PORT) { fields.dst_port } else { 0 },
        flow_label: if has(HashFields::FLOWLABEL) { fields.flow_label } else { 0 },
    };
    flow_hash(key, &chosen)
}

/// `flow_hash_from_keys_seed()`: SipHash-2-4 over the kernel's layout of the fields, 48 bytes for
/// IPv4 and 72 for IPv6, after ordering addresses and ports so that both directions agree.
///
/// | bytes | field |
/// |---|---|
/// | 2 | protocol |
/// | 4..8 | flow label, little-endian |
/// | 28..32 | ports |
/// | 36.. | addresses, 4 or 16 bytes each |
///
/// All others are zero. Addresses and ports are in network byte order. IPv4 addresses and ports
/// are ordered as little-endian numbers, IPv6 addresses as byte strings.
fn flow_hash(key: HashKey, fields: &Fields) -> u32 {
    let mut bytes = [0u8; 72];
    bytes[2] = fields.protocol;
    bytes[4..8].copy_from_slice(&fields.flow_label.to_le_bytes());
    let (a, b) = (fields.src_port.swap_bytes(), fields.dst_port.swap_bytes());
    bytes[28..30].copy_from_slice(&a.min(b).to_le_bytes());
    bytes[30..32].copy_from_slice(&a.max(b).to_le_bytes());
    let len = match (fields.src, fields.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (a, b) = (u32::from_le_bytes(src.octets()), u32::from_le_bytes(dst.octets()));
            bytes[36..40].copy_from_slice(&a.min(b).to_le_bytes());
            bytes[40..44].copy_from_slice(&a.max(b).to_le_bytes());
            48
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes[36..52].copy_from_slice(&src.min(dst).octets());
            bytes[52..68].copy_from_slice(&src.max(dst).octets());
            72
        }
        _ => panic!("a flow between address families: {fields:?}"),
    };
    let mut sip = SipHasher24::new_with_keys(key.k0, key.k1);
    sip.write(&bytes[..len]);
    (sip.finish() as u32).max(1)
}

/// The L3 hash of the 2015 series: jhash of the addresses; for an ICMP error those that it quotes,
/// turned round, because it quotes a packet of the other direction.
#[inline]
pub fn seed_l3(key: HashKey, flow: &HashInput) -> u32 {
    match &flow.quoted {
        Some(quoted) => seed_addresses(key, quoted.dst, quoted.src),
        None => seed_addresses(key, flow.outer.src, flow.outer.dst),
    }
}

#[inline]
fn seed_addresses(key: HashKey, src: IpAddr, dst: IpAddr) -> u32 {
    if let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst) {
        let (a, b) = (u32::from_le_bytes(src.octets()), u32::from_le_bytes(dst.octets()));
        return jhash::words2(a, b, key.word());
    }
    jhash::words(&address_words(src, dst), key.word())
}

/// The L4 hash of the 2015 series: ports too, but only where no packet of the flow can be a
/// fragment. ICMP errors are not looked into.
pub fn seed_l4(key: HashKey, flow: &HashInput) -> u32 {
    let fields = &flow.outer;
    if !flow.dont_fragment || !matches!(fields.protocol, TCP | UDP) {
        return seed_addresses(key, fields.src, fields.dst);
    }
    let ports = u32::from(fields.src_port) << 16 | u32::from(fields.dst_port);
    if let (IpAddr::V4(src), IpAddr::V4(dst)) = (fields.src, fields.dst) {
        let (a, b) = (u32::from_le_bytes(src.octets()), u32::from_le_bytes(dst.octets()));
        return jhash::words3(a, b, ports, key.word());
    }
    let mut words = [0; 9];
    words[..8].copy_from_slice(&address_words(fields.src, fields.dst));
    words[8] = ports;
    jhash::words(&words, key.word())
}

/// Both IPv6 addresses as words.
fn address_words(src: IpAddr, dst: IpAddr) -> [u32; 8] {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (src, dst) else {
        panic!("a flow between address families: {src} {dst}");
    };
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(src.octets().chunks(4).chain(dst.octets().chunks(4)))
    {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

const TCP: u8 = 6;
const UDP: u8 = 17;
