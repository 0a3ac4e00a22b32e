//! The source address of what is made here and was given none.

use super::{Fib, Hop};
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The port that has it.
    pub port: u16,
    /// The address.
    pub addr: IpAddr,
    /// Length of its prefix in bits.
    pub len: u8,
}

impl Fib {
    /// Tells the node's addresses, those of `lo` first, then port by port, and each port's in the kernel's order. Of a route's IPv4 next
    /// hops those are preferred which would give a packet made here the source that it has; a single address
    /// makes no difference, and is not kept.
    pub fn set_addresses(&mut self, own: impl Iterator<Item = Own> + Clone) {
        let v4 = own.filter(|own| own.addr.is_ipv4());
        let own: Vec<Own> = if v4.clone().nth(1).is_some() { v4.collect() } else { Vec::default() };
        if !own.is_empty() || self.local_facts.is_some() {
            self.local_facts.get_or_insert_default().own = own;
        }
    }

    /// Tells more addresses, each the last of its port. `all` are the node's addresses, these among them; they are
    /// looked at only while less than two are known, so that a node of many ports is not asked for all with each.
    pub fn add_addresses(
        &mut self,
        new: impl Iterator<Item = Own>,
        all: impl Iterator<Item = Own> + Clone,
    ) {
        let mut new = new.filter(|new| new.addr.is_ipv4()).peekable();
        match &mut self.local_facts {
            _ if new.peek().is_none() => {}
            Some(facts) if !facts.own.is_empty() => {
                for new in new {
                    let behind = facts.own.partition_point(|own| rank(own.port) <= rank(new.port));
                    facts.own.insert(behind, new);
                }
            }
            _ => self.set_addresses(all),
        }
    }

    /// Tells that an address has gone.
    pub fn remove_address(&mut self, gone: Own) {
        let Some(facts) = &mut self.local_facts else { return };
        let first = facts.own.partition_point(|own| rank(own.port) < rank(gone.port));
        let Some(at) = facts.own[first..].iter().position(|own| *own == gone) else { return };
        facts.own.remove(first + at);
        if facts.own.len() == 1 {
            facts.own = Vec::new();
        }
    }

    /// Whether a packet made here might have its source from one next hop and not from another.
    pub(super) fn may_be_of_one_hop(&self, src: IpAddr) -> bool {
        self.settings.prefers_source && self.own().iter().any(|own| own.addr == src)
    }

    /// The source that a next hop gives to what has none (`nh_saddr`, `fib_info_update_nhc_saddr`). The kernel
    /// works it out when the route is added, and seldom again; here it follows the addresses.
    pub(super) fn saddr(&self, hop: Hop) -> Option<IpAddr> {
        select_v4(self.own().iter().copied(), hop.port, hop.gateway).map(IpAddr::V4)
    }

    fn own(&self) -> &[Own] {
        self.local_facts.as_ref().map_or(&[], |facts| &facts.own)
    }
}

/// The place of a port among those of [`Fib::set_addresses`]: `lo`, whose number is the last, is the first.
fn rank(port: u16) -> u16 {
    port.wrapping_add(1)
}

/// The address that packets for `dst` take which leave by `port`, the next router there being
/// `gateway`. `own` lists the node's addresses port by port, each port's in the kernel's order.
pub fn select(
    own: impl Iterator<Item = Own> + Clone,
    port: u16,
    gateway: Option<IpAddr>,
    dst: IpAddr,
) -> Option<IpAddr> {
    match dst {
        IpAddr::V4(_) => select_v4(own, port, gateway).map(IpAddr::V4),
        IpAddr::V6(dst) => select_v6(own, port, dst).map(IpAddr::V6),
    }
}

/// `inet_select_addr()`: of the port's addresses one of the gateway's network, else the first; of a
/// port without addresses the first one of the node.
fn select_v4(
    own: impl Iterator<Item = Own> + Clone,
    port: u16,
    gateway: Option<IpAddr>,
) -> Option<Ipv4Addr> {
    let v4 = own.filter_map(|own| match own.addr {
        IpAddr::V4(addr) => Some((own.port, addr, own.len)),
        IpAddr::V6(_) => None,
    });
    let here = v4.clone().filter(|&(at, ..)| at == port);
    let near = here.clone().find(|&(_, addr, len)| match gateway {
        Some(IpAddr::V4(gateway)) => {
            (addr.to_bits() ^ gateway.to_bits()).leading_zeros() >= u32::from(len)
        }
        _ => false,
    });
    let somewhere = || v4.clone().find(|(_, addr, _)| !addr.is_loopback());
    near.or_else(|| here.clone().next()).or_else(somewhere).map(|(_, addr, _)| addr)
}

/// `ipv6_dev_get_saddr()`, RFC 6724 section 5: the destination itself; a fitting scope; the interface
/// that the packet leaves by; the same label; the longest common prefix. Of equals the first.
fn select_v6(own: impl Iterator<Item = Own>, port: u16, dst: Ipv6Addr) -> Option<Ipv6Addr> {
    let on_link = dst.is_multicast() || dst.is_unicast_link_local();
    let v6 = own.filter(|own| !on_link || own.port == port).filter_map(|own| match own.addr {
        IpAddr::V6(addr) => Some((own.port, addr, own.len)),
        IpAddr::V4(_) => None,
    });
    let rank = |&(at, addr, len): &(u16, Ipv6Addr, u8)| {
        let common = (addr.to_bits() ^ dst.to_bits()).leading_zeros();
        Reverse((
            addr == dst,
            scope_rank(scope(addr), scope(dst)),
            at == port,
            label(addr) == label(dst),
            common.min(u32::from(len)),
        ))
    };
    v6.min_by_key(rank).map(|(_, addr, _)| addr)
}

/// Rule 2: the smallest scope that reaches the destination, else the largest.
fn scope_rank(scope: i32, needed: i32) -> i32 {
    if scope >= needed { -scope } else { scope - 128 }
}

/// `__ipv6_addr_src_scope()`: 2 the link, 5 the site, 14 everywhere.
fn scope(addr: Ipv6Addr) -> i32 {
    match addr.segments()[0] {
        first if addr.is_multicast() => i32::from(first & 0xf),
        first if first & 0xffc0 == 0xfec0 => 5,
        _ if addr.is_unicast_link_local() || addr.is_loopback() => 2,
        _ => 14,
    }
}

/// The label of an address (RFC 6724 section 2.1, `ip6addrlbl_init_table`).
fn label(addr: Ipv6Addr) -> u32 {
    let bits = addr.to_bits();
    let within = |net: u128, len: u32| (bits ^ net) >> (128 - len) == 0;
    let known = LABELS.iter().find(|&&(net, len, _)| within(net, len));
    known.map_or(1, |&(_, _, label)| label)
}

/// Prefix, its length, label; longer prefixes first. Everything else has label 1.
const LABELS: [(u128, u32, u32); 7] = [
    (1, 128, 0),
    (0xffff_0000_0000, 96, 4),
    (0, 96, 3),
    (0x2001 << 112, 32, 6),
    (0x2001_0010 << 96, 28, 7),
    (0x2002 << 112, 16, 2),
    (0xfc00 << 112, 7, 5),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(own: &[(u16, &str, u8)], port: u16, gateway: Option<&str>, dst: &str) -> String {
        let read = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let own = own.iter().map(|&(port, addr, len)| Own { port, addr: read(addr), len });
        let source = select(own, port, gateway.map(read), read(dst));
        source.map_or("none".into(), |source| source.to_string())
    }

    #[test]
    fn ipv4_takes_the_address_of_the_gateways_network() {
        let own = [(0, "127.0.0.1", 8), (1, "10.0.1.1", 24), (1, "10.0.2.1", 24)];
        assert_eq!(chosen(&own, 1, Some("10.0.2.9"), "9.9.9.9"), "10.0.2.1");
        assert_eq!(chosen(&own, 1, Some("10.0.7.9"), "9.9.9.9"), "10.0.1.1");
        assert_eq!(chosen(&own, 1, None, "10.0.2.7"), "10.0.1.1");
        assert_eq!(chosen(&own, 2, None, "9.9.9.9"), "10.0.1.1", "an interface without addresses");
        assert_eq!(chosen(&own[..1], 2, None, "9.9.9.9"), "none");
    }

    /// A node of many ports is told of each once: all its addresses are looked at for the first two alone, for ports
    /// without IPv4 addresses never.
    #[test]
    fn addresses_added_one_by_one_equal_those_set_at_once() {
        let addr = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let lo = Own { port: u16::MAX, addr: IpAddr::V4(Ipv4Addr::LOCALHOST), len: 8 };
        let (mut fib, mut all, asked) = (Fib::new(), Vec::new(), core::cell::Cell::new(0));
        let mut tell = |new: Own| {
            let before = |own: &Own| rank(own.port) <= rank(new.port);
            all.insert(all.partition_point(before), new);
            let counted = all.iter().copied().inspect(|_| asked.set(asked.get() + 1));
            fib.add_addresses(core::iter::once(new), counted);
        };
        for port in 0..1_000 {
            tell(Own { port, addr: Ipv6Addr::LOCALHOST.into(), len: 128 });
        }
        assert_eq!(asked.get(), 0);
        for port in 0..1_000 {
            tell(Own { port, addr: addr(4 * u32::from(port)), len: 30 });
        }
        assert!(asked.get() < 5_000, "{}", asked.get());
        tell(lo);
        tell(Own { port: 500, addr: addr(2_002), len: 30 });
        let v4 = |own: &Own| own.addr.is_ipv4();
        let known = |all: &[Own]| all.iter().copied().filter(v4).collect::<Vec<_>>();
        assert_eq!(fib.own(), known(&all));

        fib.remove_address(lo);
        fib.remove_address(Own { port: 500, addr: addr(2_000), len: 30 });
        fib.remove_address(Own { port: 500, addr: addr(2_000), len: 30 });
        all.retain(|own| *own != lo && own.addr != addr(2_000));
        assert_eq!(fib.own(), known(&all));
        for own in &all[3..] {
            fib.remove_address(*own);
        }
        assert!(fib.own().is_empty(), "a single one is not kept");
        // Two of one port at once.
        let two =
            [Own { port: 0, addr: addr(1), len: 24 }, Own { port: 0, addr: addr(2), len: 24 }];
        let mut fib = Fib::new();
        fib.add_addresses(two.into_iter(), two.into_iter());
        assert_eq!(fib.own(), two);
    }

    /// The examples of RFC 6724 section 10.1, each candidate on the interface that is used.
    #[test]
    fn ipv6_follows_rfc_6724() {
        for (candidates, dst, expected) in [
            (["2001:db8:3::1", "fe80::1"], "2001:db8:1::1", "2001:db8:3::1"),
            (["2001:db8:3::1", "fec0::1"], "ff05::1", "fec0::1"),
            (["2001:db8:1::2", "fe80::2"], "fe80::1", "fe80::2"),
            (["2001:db8:1::1", "2001:db8:2::1"], "2001:db8:1::1", "2001:db8:1::1"),
            (["2001:db8:3::2", "2001:db8:1::2"], "2001:db8:1::1", "2001:db8:1::2"),
            (["2001:db8:1::2", "2002:c633:6401::1"], "2002:c633:6401::2", "2002:c633:6401::1"),
            (["fd11::1", "2001:db8:1::2"], "2001:db9::1", "2001:db8:1::2"),
        ] {
            let own = candidates.map(|addr| (1, addr, 64));
            assert_eq!(chosen(&own, 1, None, dst), expected, "{dst}");
        }
    }

    #[test]
    fn ipv6_prefers_its_interface_and_counts_no_bits_beyond_the_prefix() {
        let own = [(1, "fd00:1::1", 64), (2, "fd45::9", 64), (2, "fd44::1", 64)];
        assert_eq!(chosen(&own, 1, None, "fd45::1"), "fd00:1::1");
        assert_eq!(chosen(&own, 2, None, "fd45::1"), "fd45::9");
        assert_eq!(chosen(&own, 3, None, "fd45::1"), "fd45::9");
        let short = [(1, "fd00::1", 7), (1, "fd45::9", 7)];
        assert_eq!(chosen(&short, 1, None, "fd45::1"), "fd00::1");
    }
}
