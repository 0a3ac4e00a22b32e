//! Marking instead of dropping.

use crate::packet::{Ecn, Network, Packet};

/// Sets CE if the transport is ECN-capable (`INET_ECN_set_ce`): true if the packet now says CE,
/// also if it did before.
pub fn set_ce(packet: &mut Packet) -> bool {
    if packet.network.ecn() == Ecn::NotEct {
        return false;
    }
    match &mut packet.network {
        Network::Ipv4(ip) => ip.tos |= Ecn::Ce as u8,
        Network::Ipv6(ip) => ip.traffic_class |= Ecn::Ce as u8,
        Network::Other(_) => return false,
    }
    true
}
