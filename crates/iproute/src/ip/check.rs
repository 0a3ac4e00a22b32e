//! What the kernel refuses of a route whose words make sense, in its words.

use super::{Ip, IpError, IpResult};
use core::net::IpAddr;
use datapath::fib::{Decision, NextHop, Route, RouteKey, RouteType, Scope, Target};

/// Bits of the TOS byte that are ECN's: IPv4 routes and rules have none (`rtm_to_fib_config`, `fib4_rule_configure`).
pub(super) fn refuse_ecn_bits(tos: u8) -> IpResult<()> {
    if tos & 3 != 0 {
        return Err(IpError::Answer("Error: Invalid dsfield (tos): ECN bits must be 0."));
    }
    Ok(())
}

impl Ip {
    /// Whether a destination is as far away as its route's type and next hops allow (`fib_create_info`,
    /// `fib_check_nh`). IPv6 has no scopes.
    pub(super) fn check_scope(&self, route: &Route) -> IpResult<()> {
        let (scope, kind) = (route.scope, route.kind);
        if route.prefix.addr().is_ipv6() {
            return Ok(());
        }
        let least = match kind {
            RouteType::Local => Scope::HOST,
            RouteType::Broadcast | RouteType::Anycast => Scope::LINK,
            _ => Scope::UNIVERSE,
        };
        if scope < least || scope > Scope::HOST && !kind.is_refusal() {
            return Err(IpError::Answer("Error: Invalid scope."));
        }
        let Target::Hops(hops) = &route.target else { return Ok(()) };
        if scope == Scope::HOST && hops.len() > 1 {
            return Err(IpError::Answer(
                "Error: Route with host scope can not have multiple nexthops.",
            ));
        }
        hops.iter().try_for_each(|hop| self.check_gateway_scope(scope, hop))
    }

    /// A gateway is nearer than what it leads to.
    fn check_gateway_scope(&self, scope: Scope, hop: &NextHop) -> IpResult<()> {
        let Some(gateway) = hop.hop.gateway else { return Ok(()) };
        if scope == Scope::HOST {
            return Err(IpError::Answer("Error: Route with host scope can not have a gateway."));
        }
        // What is this host itself is nearer than the link.
        let own = || self.devices.owners(gateway).next().is_some();
        if scope < Scope::LINK || gateway.is_ipv6() || !hop.onlink && own() {
            return Ok(());
        }
        Err(IpError::Answer(if hop.onlink {
            "Error: Nexthop has invalid scope."
        } else {
            "Error: Nexthop has invalid gateway."
        }))
    }

    /// `src` is an address of this host; IPv4 routes that refuse do not ask (`fib_valid_prefsrc`,
    /// `ip6_route_info_create_nh`).
    pub(super) fn check_source(&self, route: &Route) -> IpResult<()> {
        let Some(source) = route.prefsrc else { return Ok(()) };
        if route.prefix.addr().is_ipv6() {
            return if self.may_be_source_v6(route, source) {
                Ok(())
            } else {
                Err(IpError::Answer("Error: Invalid source address."))
            };
        }
        let of_itself = route.kind == RouteType::Local
            && route.prefix.is_host()
            && route.prefix.addr() == source;
        if route.kind.is_refusal() || of_itself || self.is_local(source) {
            return Ok(());
        }
        Err(IpError::Answer("Error: Invalid prefsrc address."))
    }

    /// `ipv6_chk_addr`: an address of any interface; one of a link on that of the next hop.
    fn may_be_source_v6(&self, route: &Route, source: IpAddr) -> bool {
        let ports = match &route.target {
            Target::Hops(hops) => hops.iter().map(|hop| hop.hop.port).collect(),
            Target::Object(_) => Vec::new(),
        };
        let link = matches!(source, IpAddr::V6(source) if source.is_unicast_link_local());
        let fits = |owner: u16| !link || ports.contains(&owner);
        !source.is_loopback() && self.devices.owners(source).any(fits)
    }

    /// Whether packets to an IPv4 address are for this host (`inet_addr_type`).
    pub(super) fn is_local(&self, addr: IpAddr) -> bool {
        let key = RouteKey::to(addr);
        addr.is_loopback()
            || self.devices.owners(addr).next().is_some()
            || self.fib.lookup(&key) == Decision::Local
                && self.fib.matching(&key).is_some_and(|route| route.kind == RouteType::Local)
    }
}
