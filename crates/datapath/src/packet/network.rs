//! Network-layer headers: IPv4 and IPv6 in canonical form, ARP and anything else by type only.

use super::link::EtherType;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The two ECN bits (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 01.
    Ect1 = 1,
    /// ECN-capable, codepoint 10.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// Protocol numbers (IANA): IPv4 protocols, and IPv6 next headers with the extension headers.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IPv4 inside IP (IPIP).
    pub const IPIP: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 inside IP (6in4).
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Generic routing encapsulation.
    pub const GRE: u8 = 47;
    /// Encapsulating security payload.
    pub const ESP: u8 = 50;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6: nothing follows.
    pub const NO_NEXT: u8 = 59;
    /// MPLS inside IP (RFC 4023).
    pub const MPLS: u8 = 137;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// The network-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4 without options (options lie in `Extra::raw`).
    Ipv4(Ipv4),
    /// IPv6 without extension headers (those lie in `Extra::raw`).
    Ipv6(Ipv6),
    /// Anything else (ARP included): its bytes are in `Extra::raw` or in the body.
    Other(EtherType),
}

/// IPv4 header fields (RFC 791). Lengths and checksum follow from the packet. Protocol, time to live and type of service
/// stand so that a fingerprint takes them as one number, as those of [`Tcp`](super::Tcp) do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol number of what follows.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 bytes.
    pub fragment_offset: u16,
}

/// Time to live and hop limit of what hosts make (`IPDEFTTL`).
pub const DEFAULT_TTL: u8 = 64;

impl Ipv4 {
    /// Whether this is a part of a packet only.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// The header of a whole packet that must not be cut, with the default time to live, no type of
    /// service and no identification.
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Self {
        Self {
            src,
            dst,
            tos: 0,
            ttl: DEFAULT_TTL,
            protocol,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
    }
}

/// IPv6 header fields (RFC 8200). The payload length follows from the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Protocol number of the transport header, after any extension headers.
    pub next_header: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
}

/// An IPv6 flow label: 20 bits (RFC 6437). Kept as bytes, so that the header needs no alignment
/// and the hot headers fit in two cache lines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FlowLabel([u8; 3]);

impl FlowLabel {
    /// No label.
    pub const NONE: Self = Self([0; 3]);

    /// The lower 20 bits of `label`.
    pub const fn new(label: u32) -> Self {
        let [_, high, middle, low] = label.to_be_bytes();
        Self([high & 0x0f, middle, low])
    }

    /// The label as a number.
    pub const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

impl core::fmt::Debug for FlowLabel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#07x}", self.get())
    }
}

impl Ecn {
    /// The codepoint in the lower two bits of a TOS or traffic-class byte.
    pub const fn from_bits(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

impl Network {
    /// Bytes of the canonical header.
    pub const fn len(&self) -> u32 {
        match self {
            Self::Ipv4(_) => 20,
            Self::Ipv6(_) => 40,
            Self::Other(_) => 0,
        }
    }

    /// True where no header was parsed.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// The EtherType in front of this header.
    pub const fn ether_type(&self) -> EtherType {
        match self {
            Self::Ipv4(_) => EtherType::IPV4,
            Self::Ipv6(_) => EtherType::IPV6,
            Self::Other(ether_type) => *ether_type,
        }
    }

    /// The DSCP and ECN byte; 0 for what is not IP.
    pub const fn tos(&self) -> u8 {
        match self {
            Self::Ipv4(ip) => ip.tos,
            Self::Ipv6(ip) => ip.traffic_class,
            Self::Other(_) => 0,
        }
    }

    /// The `skb->priority` that a router gives to an IPv4 packet (`ip_forward`); IPv6 packets have 0.
    #[inline]
    pub const fn forwarding_priority(&self) -> u32 {
        match self {
            Self::Ipv4(ip) => tos_to_priority(ip.tos),
            Self::Ipv6(_) | Self::Other(_) => 0,
        }
    }

    /// TTL or hop limit; 0 for what is not IP.
    pub const fn ttl(&self) -> u8 {
        match self {
            Self::Ipv4(ip) => ip.ttl,
            Self::Ipv6(ip) => ip.hop_limit,
            Self::Other(_) => 0,
        }
    }

    /// The ECN codepoint.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.tos())
    }

    /// Source address.
    pub const fn src(&self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(ip) => Some(IpAddr::V4(ip.src)),
            Self::Ipv6(ip) => Some(IpAddr::V6(ip.src)),
            Self::Other(_) => None,
        }
    }

    /// Destination address.
    pub const fn dst(&self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(ip) => Some(IpAddr::V4(ip.dst)),
            Self::Ipv6(ip) => Some(IpAddr::V6(ip.dst)),
            Self::Other(_) => None,
        }
    }

    /// Protocol number of the transport header.
    pub const fn protocol(&self) -> Option<u8> {
        match self {
            Self::Ipv4(ip) => Some(ip.protocol),
            Self::Ipv6(ip) => Some(ip.next_header),
            Self::Other(_) => None,
        }
    }
}

/// The address of everybody in the network that `own` is an address of, whose prefix has `len` bits; `None` where it is
/// too small for one (`fib_add_ifaddr`).
pub fn broadcast(own: Ipv4Addr, len: u8) -> Option<Ipv4Addr> {
    (len < 31).then(|| Ipv4Addr::from_bits(own.to_bits() | u32::MAX >> len))
}

/// The priority of a TOS (`rt_tos2priority`): by its former four bits for little delay, much throughput, reliability and
/// little cost.
#[inline]
pub const fn tos_to_priority(tos: u8) -> u32 {
    /// `TC_PRIO_BESTEFFORT`, `TC_PRIO_BULK`, `TC_PRIO_INTERACTIVE`, `TC_PRIO_INTERACTIVE_BULK`.
    const BY_DELAY_AND_THROUGHPUT: [u32; 4] = [0, 2, 6, 4];
    BY_DELAY_AND_THROUGHPUT[(tos >> 3 & 3) as usize]
}
