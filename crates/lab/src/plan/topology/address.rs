//! Addresses of a generated network: hosts of one switch lie in one block, so that the other
//! switches need one route to all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use datapath::fib::Prefix;

use super::super::model::{LinkPlan, NodePlan, Role};

/// Blocks of hosts begin here: behind the addresses that written links get by themselves.
const HOSTS: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
/// Links between switches begin here. No route leads there.
const FABRIC: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 0);

/// Gives all links addresses of a /31 each, and tells the block of each switch with hosts.
pub fn assign(links: &mut [LinkPlan], nodes: &[NodePlan]) -> BTreeMap<usize, Prefix> {
    let mut hosts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut fabric = u32::from(FABRIC);
    for (index, link) in links.iter_mut().enumerate() {
        let is_host = |end: &usize| nodes[*end].role == Role::Host;
        match link.ends.iter().position(is_host) {
            Some(end) if !is_host(&link.ends[1 - end]) => {
                hosts.entry(link.ends[1 - end]).or_default().push(index);
            }
            _ => {
                link.addresses = Some([0, 1].map(|end| (address(fabric + end), 31)));
                fabric += 2;
            }
        }
    }
    let mut blocks = BTreeMap::new();
    let mut next = u32::from(HOSTS);
    for (switch, of_switch) in hosts {
        let size = (2 * of_switch.len() as u32).next_power_of_two();
        next = next.next_multiple_of(size);
        let prefix = Prefix::new(address(next), size.leading_zeros() as u8 + 1);
        blocks.insert(switch, prefix.expect("an aligned block"));
        for (place, index) in (0..).zip(of_switch) {
            let link = &mut links[index];
            // The host has the odd address of the two.
            let own = |end: usize| next + 2 * place + u32::from(link.ends[end] != switch);
            link.addresses = Some([(address(own(0)), 31), (address(own(1)), 31)]);
        }
        next += size;
    }
    blocks
}

fn address(bits: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(bits))
}
