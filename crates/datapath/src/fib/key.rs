//! The question to the FIB and its answer.

use core::net::IpAddr;

/// What a route look-up is asked (`struct flowi4` / `flowi6`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Incoming interface; `None` for locally made packets.
    pub iif: Option<u16>,
    /// Outgoing interface demanded by the socket, if any. IPv6 only prefers it where the source is
    /// known: see [`RouteKey::demanded_port`].
    pub oif: Option<u16>,
    /// DSCP and ECN byte.
    pub tos: u8,
    /// fwmark.
    pub mark: u32,
    /// Protocol number.
    pub protocol: u8,
    /// Source port, or ICMP type in the upper byte.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
}

impl RouteKey {
    /// The question where `dst` lies, with nothing else known.
    pub fn to(dst: IpAddr) -> Self {
        let src = if dst.is_ipv4() {
            IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)
        };
        Self {
            src,
            dst,
            iif: None,
            oif: None,
            tos: 0,
            mark: 0,
            protocol: 0,
            src_port: 0,
            dst_port: 0,
            flow_label: 0,
        }
    }

    /// The interface that the packet has to leave by. IPv6 demands `oif` only as long as the source
    /// is open, and for destinations that mean something else on each link
    /// (`RT6_LOOKUP_F_IFACE`, `ip6_route_output_flags_noref`).
    #[inline]
    pub fn demanded_port(&self) -> Option<u16> {
        match self.dst {
            IpAddr::V4(_) => self.oif,
            IpAddr::V6(dst) => {
                let strict = self.src.is_unspecified()
                    || dst.is_multicast()
                    || dst.is_unicast_link_local()
                    || dst.is_loopback();
                self.oif.filter(|_| strict)
            }
        }
    }
}

/// The answer of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it out there.
    Forward(Hop),
    /// It is for this node.
    Local,
    /// `blackhole`: drop without a word.
    Blackhole,
    /// A route is `unreachable`: drop and say that the host is.
    Unreachable,
    /// `prohibit`: drop and say so.
    Prohibit,
    /// No route matches, or a rule is `unreachable`: the network is.
    NoRoute,
}

/// Where to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The port.
    pub port: u16,
    /// The next router, or `None` when the destination is on the link.
    pub gateway: Option<IpAddr>,
}
