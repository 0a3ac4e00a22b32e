//! `ip address del`: what goes with an address.

use super::routes_of_address;
use crate::ip::{Ip, IpError, IpResult};
use crate::words::Words;
use core::net::IpAddr;
use datapath::fib::source::Own;
use datapath::fib::{Prefix, Route, RouteFilter, RouteType, TableId, Target};

/// `EADDRNOTAVAIL`, for both families.
const NOT_THERE: IpError = IpError::Answer("RTNETLINK answers: Cannot assign requested address");

impl Ip {
    /// `ip address del ADDR[/LEN] dev NAME`. Without a length the first IPv4 address goes that is so, whatever its
    /// own (`inet_rtm_deladdr` without `IFA_ADDRESS`); IPv6 takes 128 for it.
    pub(super) fn address_del(
        &mut self,
        words: &mut Words<'_>,
        family: Option<bool>,
    ) -> IpResult<String> {
        let (own, said_length) = self.read_address(words, family)?;
        let any_length = own.addr.is_ipv4() && !said_length;
        let there = self.devices.addresses(own.port).iter();
        let mut fitting =
            there.filter(|&&(addr, len)| addr == own.addr && (any_length || len == own.len));
        let &(addr, len) = fitting.next().ok_or(NOT_THERE)?;
        for gone in self.with_secondaries(Own { addr, len, ..own }) {
            self.remove_own(gone);
        }
        Ok(String::new())
    }

    /// The first address of an IPv4 network takes the others of it along, before it goes itself
    /// (`__inet_del_ifa` with `promote_secondaries` 0).
    fn with_secondaries(&self, own: Own) -> Vec<Own> {
        let all = self.devices.addresses(own.port);
        let at = all.iter().position(|&its| its == (own.addr, own.len)).unwrap_or(0);
        let mut gone = Vec::new();
        if own.addr.is_ipv4() && self.devices.primary(own.port, own.addr, own.len).is_none() {
            let net = Prefix::containing(own.addr, own.len);
            let same = |&&(addr, len): &&(IpAddr, u8)| {
                len == own.len && Prefix::containing(addr, len) == net
            };
            let secondaries = all[at + 1..].iter().filter(same);
            gone.extend(secondaries.map(|&(addr, len)| Own { addr, len, ..own }));
        }
        gone.push(own);
        gone
    }

    /// One address, the routes that it has brought along and no other one of the interface still brings, and
    /// then those that cannot be without it (`fib_del_ifaddr`, `cleanup_prefix_route`).
    fn remove_own(&mut self, own: Own) {
        let Some(net) = Prefix::containing(own.addr, own.len) else { return };
        let its_primary = self.devices.primary(own.port, own.addr, own.len);
        self.devices.remove_address(own);
        self.fib.remove_address(own);
        let mut kept = Vec::new();
        for &(addr, len) in self.devices.addresses(own.port) {
            if may_share_a_route(own, (addr, len), net)
                && let Some(net) = Prefix::containing(addr, len)
            {
                let primary = self.devices.primary(own.port, addr, len);
                kept.extend(routes_of_address(addr, net, own.port, primary));
            }
        }
        for route in routes_of_address(own.addr, net, own.port, its_primary) {
            if !kept.iter().any(|kept| is_one_route(kept, &route)) {
                // Somebody may have deleted it before.
                let _ = self.fib.delete(&RouteFilter::exactly(&route));
            }
        }
        let elsewhere = self.devices.owners(own.addr).next().is_some();
        match own.addr {
            IpAddr::V4(_) if !elsewhere => self.delete_from(own.addr),
            IpAddr::V6(_) => self.clear_prefsrc(own),
            IpAddr::V4(_) => {}
        }
        let ipv4 = |(addr, _): &(IpAddr, u8)| addr.is_ipv4();
        if own.addr.is_ipv4() && !self.devices.addresses(own.port).iter().any(ipv4) {
            self.delete_over(own.port);
        }
    }

    /// Routes of table main whose preferred source has gone (`fib_sync_down_addr`).
    fn delete_from(&mut self, addr: IpAddr) {
        for route in self.fib.routes_from(addr) {
            if route.table == TableId::MAIN {
                let _ = self.fib.delete(&RouteFilter::exactly(&route));
            }
        }
    }

    /// An interface without IPv4 addresses is none for IPv4: its routes go (`fib_disable_ip`).
    fn delete_over(&mut self, port: u16) {
        for route in self.fib.routes_over(port) {
            let Target::Hops(hops) = &route.target else { continue };
            if route.prefix.addr().is_ipv4() && hops.iter().all(|hop| hop.hop.port == port) {
                let _ = self.fib.delete(&RouteFilter::exactly(&route));
            }
        }
    }

    /// In IPv6 routes over the interface stay, without the source (`rt6_remove_prefsrc`).
    fn clear_prefsrc(&mut self, own: Own) {
        let over = |target: &Target| matches!(target, Target::Hops(hops) if hops.iter().any(|hop| hop.hop.port == own.port));
        for route in self.fib.routes_from(own.addr) {
            if over(&route.target) {
                let _ = self.fib.replace(Route { prefsrc: None, ..route });
            }
        }
    }
}

/// Whether another address may have brought along what one has: itself, its network or its broadcast. Asked first,
/// as few do.
fn may_share_a_route(own: Own, (addr, len): (IpAddr, u8), net: Prefix) -> bool {
    let broadcast = |addr, len| match addr {
        IpAddr::V4(addr) => datapath::packet::broadcast(addr, len),
        IpAddr::V6(_) => None,
    };
    let last = broadcast(own.addr, own.len);
    addr == own.addr
        || len == own.len && net.contains(addr)
        || last.is_some() && last == broadcast(addr, len)
}

/// What two addresses have in common: an IPv4 route to a network belongs to its first address, so it stays
/// with that one alone; addresses, broadcasts and IPv6 networks are shared.
fn is_one_route(kept: &Route, route: &Route) -> bool {
    let place = |route: &Route| (route.prefix, route.table, route.kind, route.metric);
    let shared = route.prefix.addr().is_ipv6() || route.kind != RouteType::Unicast;
    place(kept) == place(route) && (shared || kept.prefsrc == route.prefsrc)
}
