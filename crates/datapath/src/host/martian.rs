//! Martians: packets with addresses that nothing on a wire may have (RFC 1812 section 5.3.7;
//! `ip_route_input_slow`, `ip6_rcv_core`, `ip6_forward`). They cause no ICMP error.

use super::Host;
use crate::fib::{Decision, RouteKey};
use crate::packet::{Network, Packet};
use crate::reason::Reason;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Host {
    /// Why a packet from a wire is dropped because of its addresses, if it is. Counted where
    /// the kernel does.
    pub(super) fn martian(&mut self, packet: &Packet) -> Option<Reason> {
        match &packet.network {
            Network::Ipv4(ip) => self.martian_of_ipv4(ip.src, ip.dst),
            Network::Ipv6(ip) => self.martian_of_ipv6(ip.src, ip.dst),
            Network::Other(_) => None,
        }
    }

    fn martian_of_ipv4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> Option<Reason> {
        if src.is_multicast() || src.is_broadcast() {
            return Some(Reason::InvalidSource);
        }
        if dst.is_broadcast() || src.is_unspecified() && dst.is_unspecified() {
            // A host without an address asks for one (DHCP).
            return None;
        }
        if src.is_unspecified() {
            return Some(Reason::InvalidSource);
        }
        if dst.is_unspecified() || dst.is_loopback() {
            return Some(Reason::InvalidDestination);
        }
        // An own address (`fib_validate_source`, without `accept_local`).
        let is_own = || self.fib.lookup(&RouteKey::to(IpAddr::V4(src))) == Decision::Local;
        (src.is_loopback() || is_own()).then_some(Reason::InvalidSource)
    }

    fn martian_of_ipv6(&mut self, src: Ipv6Addr, dst: Ipv6Addr) -> Option<Reason> {
        // Groups of no scope and those of the interface itself (RFC 4291 section 2.7).
        let goes_nowhere = dst.is_multicast() && dst.octets()[1] & 0xf <= 1;
        if src.is_loopback() || dst.is_loopback() || src.is_multicast() || goes_nowhere {
            self.count_v6().in_hdr_errors += 1;
            return Some(Reason::Malformed);
        }
        let is_routed = || self.fib.lookup(&RouteKey::to(IpAddr::V6(dst))) != Decision::Local;
        if dst.is_unspecified() || src.is_unspecified() && !dst.is_multicast() && is_routed() {
            self.count_v6().in_addr_errors += 1;
            return Some(Reason::AddressErrors);
        }
        None
    }
}
