//! Addresses of a generated network: hosts of one switch lie in one block, so that the other
//! switches need one route to all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::fib::Prefix;

use super::super::network::{LinkPlan, NodePlan, Role};

/// Which addresses a network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    V4,
    V6,
}

/// Where addresses of one IP version begin.
struct Space {
    /// Of blocks of hosts: behind the addresses that written links get by themselves.
    hosts: u128,
    /// Of links between switches. No route leads there.
    fabric: u128,
    /// Bits of an address.
    bits: u8,
    address: fn(u128) -> IpAddr,
}

const V4: Space = Space {
    hosts: Ipv4Addr::new(10, 64, 0, 0).to_bits() as u128,
    fabric: Ipv4Addr::new(172, 16, 0, 0).to_bits() as u128,
    bits: 32,
    address: |bits| IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
};

/// Unique local addresses, RFC 4193.
const V6: Space = Space {
    hosts: Ipv6Addr::new(0xfd00, 64, 0, 0, 0, 0, 0, 0).to_bits(),
    fabric: Ipv6Addr::new(0xfd00, 172, 0, 0, 0, 0, 0, 0).to_bits(),
    bits: 128,
    address: |bits| IpAddr::V6(Ipv6Addr::from_bits(bits)),
};

/// Gives all links addresses of a /31 or /127 each, and tells the block of each switch with hosts.
pub fn assign(
    links: &mut [LinkPlan],
    nodes: &[NodePlan],
    version: IpVersion,
) -> BTreeMap<usize, Prefix> {
    let space = match version {
        IpVersion::V4 => V4,
        IpVersion::V6 => V6,
    };
    let pair = |bits: [u128; 2]| Some(bits.map(|bits| ((space.address)(bits), space.bits - 1)));
    let mut hosts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut fabric = space.fabric;
    for (index, link) in links.iter_mut().enumerate() {
        let is_host = |end: &usize| nodes[*end].role == Role::Host;
        match link.ends.iter().position(is_host) {
            Some(end) if !is_host(&link.ends[1 - end]) => {
                hosts.entry(link.ends[1 - end]).or_default().push(index);
            }
            _ => {
                link.addresses = pair([fabric, fabric + 1]);
                fabric += 2;
            }
        }
    }
    let mut blocks = BTreeMap::new();
    let mut next = space.hosts;
    for (switch, of_switch) in hosts {
        let size = (2 * of_switch.len() as u128).next_power_of_two();
        next = next.next_multiple_of(size);
        let length = space.bits - size.trailing_zeros() as u8;
        let prefix = Prefix::new((space.address)(next), length);
        blocks.insert(switch, prefix.expect("an aligned block"));
        for (place, index) in (0..).zip(of_switch) {
            let link = &mut links[index];
            // The host has the odd address of the two.
            let own = |end: usize| next + 2 * place + u128::from(link.ends[end] != switch);
            link.addresses = pair([own(0), own(1)]);
        }
        next += size;
    }
    blocks
}
