//! Which packets a rule matches, selector by selector.

use core::net::IpAddr;

use datapath::fib::{InputPort, Prefix, RouteKey, Rule};

/// The TOS bits that count.
pub const TOS: u8 = 0x1c;

/// Bit by bit.
pub fn contains(prefix: &Prefix, addr: IpAddr) -> bool {
    let bits = |addr: IpAddr| match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    };
    let (base, addr) = (bits(prefix.addr()), bits(addr));
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    base.len() == addr.len()
        && (0..usize::from(prefix.len())).all(|at| bit(&base, at) == bit(&addr, at))
}

/// Whether a rule is for the packet, its `not` aside.
pub fn fits_rule(rule: &Rule, key: &RouteKey) -> bool {
    let within = |prefix: &Option<Prefix>, addr| prefix.as_ref().is_none_or(|p| contains(p, addr));
    let input = match rule.iif {
        None => true,
        Some(InputPort::Loopback) => key.iif.is_none(),
        Some(InputPort::Port(port)) => key.iif == Some(port),
    };
    let mark = rule.mark.is_none_or(|(mark, mask)| key.mark & mask == mark & mask);
    let among = |ports: &Option<core::ops::RangeInclusive<u16>>, port: u16| {
        ports.as_ref().is_none_or(|ports| *ports.start() <= port && port <= *ports.end())
    };
    within(&rule.from, key.src)
        && within(&rule.to, key.dst)
        && (rule.tos == 0 || rule.tos == key.tos & TOS)
        && input
        && mark
        && (rule.oif.is_none() || rule.oif == key.oif)
        && (rule.protocol.is_none() || rule.protocol == Some(key.protocol))
        && among(&rule.src_ports, key.src_port)
        && among(&rule.dst_ports, key.dst_port)
}
