//! The link layer: Ethernet II, or nothing (TUN, raw IP).

/// A 48-bit IEEE 802 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

/// The link-layer header in front of the network header, without VLAN tags.
///
/// Every hop copies one to its packet. It takes 14 bytes there, and what a packet says of itself
/// in two bytes lies behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(align(2))]
pub enum Link {
    /// No link-layer header (`ARPHRD_NONE`, TUN).
    #[default]
    None,
    /// Ethernet II. The EtherType follows from [`super::Network`].
    Ethernet {
        /// Destination address.
        dst: MacAddr,
        /// Source address.
        src: MacAddr,
    },
}

/// An EtherType value (IEEE 802 numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// 802.1Q VLAN tag.
    pub const VLAN: Self = Self(0x8100);
    /// B.A.T.M.A.N. Advanced.
    pub const BATMAN: Self = Self(0x4305);
    /// High-availability Seamless Redundancy (IEC 62439-3).
    pub const HSR: Self = Self(0x892f);
    /// Parallel Redundancy Protocol (IEC 62439-3).
    pub const PRP: Self = Self(0x88fb);
    /// TIPC.
    pub const TIPC: Self = Self(0x88ca);
    /// A PPPoE session (RFC 2516).
    pub const PPPOE: Self = Self(0x8864);
    /// 802.1ad service tag.
    pub const QINQ: Self = Self(0x88a8);
}

impl Link {
    /// Bytes of the header: 14 (`ETH_HLEN`) or 0.
    pub const fn len(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Ethernet { .. } => 14,
        }
    }

    /// True where there is no header.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }
}
