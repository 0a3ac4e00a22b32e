//! The key of a route look-up and its result.

use super::route::Scope;
use core::net::IpAddr;

/// The key of a route look-up (`struct flowi4` / `flowi6`).
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
    /// Routes that lead further than this do not count, in IPv4 (`flowi4_scope`): [`Scope::LINK`] for what goes to
    /// neighbours alone, else [`Scope::UNIVERSE`].
    pub scope: Scope,
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
    /// A key with only a destination.
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
            scope: Scope::UNIVERSE,
            tos: 0,
            mark: 0,
            protocol: 0,
            src_port: 0,
            dst_port: 0,
            flow_label: 0,
        }
    }

    /// The interface that the packet has to leave by. In IPv6 `oif` is binding only as long as the source
    /// is unspecified, and for destinations whose meaning depends on the link
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

/// The result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it out there.
    Forward(Hop),
    /// It is for this node.
    Local,
    /// `blackhole`: drop silently.
    Blackhole,
    /// An `unreachable` route: drop, with a host unreachable error.
    Unreachable,
    /// `prohibit`: drop, with an error.
    Prohibit,
    /// No route matches, or an `unreachable` rule: drop, with a network unreachable error.
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
