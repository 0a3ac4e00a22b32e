//! Selects the route for `ip route del`.

use super::info::Info;
use super::key::Hop;
use super::nexthop::Objects;
use super::route::{Prefix, Protocol, Route, RouteType, Scope, TableId, Target};
use super::table::Alias;
use core::net::IpAddr;

/// The arguments of `ip route del`: the route must have this prefix, TOS and table, and everything
/// that is `Some`. IPv6 compares metric, protocol and target only (`ip6_route_del`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFilter {
    /// Destination.
    pub prefix: Prefix,
    /// Table.
    pub table: TableId,
    /// Type of service.
    pub tos: u8,
    /// Metric.
    pub metric: Option<u32>,
    /// Type.
    pub kind: Option<RouteType>,
    /// Scope.
    pub scope: Option<Scope>,
    /// Protocol.
    pub protocol: Option<Protocol>,
    /// Preferred source.
    pub prefsrc: Option<IpAddr>,
    /// Next hops, in order; a next hop without gateway stands for any over its port.
    pub target: Option<Target>,
}

impl RouteFilter {
    /// Any route of this prefix in table main.
    pub const fn any(prefix: Prefix) -> Self {
        Self {
            prefix,
            table: TableId::MAIN,
            tos: 0,
            metric: None,
            kind: None,
            scope: None,
            protocol: None,
            prefsrc: None,
            target: None,
        }
    }

    /// Exactly this route.
    pub fn exactly(route: &Route) -> Self {
        Self {
            prefix: route.prefix,
            table: route.table,
            tos: route.tos,
            metric: Some(route.metric).filter(|&metric| metric != 0),
            kind: Some(route.kind),
            scope: Some(route.scope),
            protocol: Some(route.protocol),
            prefsrc: route.prefsrc,
            target: Some(route.target.clone()),
        }
    }

    pub(super) fn matches(&self, alias: &Alias, info: &Info, objects: &Objects) -> bool {
        let shared = &info.shared;
        if self.prefix.addr().is_ipv6() {
            return self.metric.is_none_or(|metric| metric == alias.metric)
                && self.protocol.is_none_or(|protocol| protocol == shared.protocol)
                && self
                    .target
                    .as_ref()
                    .is_none_or(|target| matches_target_v6(target, &info.target(), objects));
        }
        alias.tos == self.tos
            && self.metric.is_none_or(|metric| metric == alias.metric)
            && self.kind.is_none_or(|kind| kind == alias.kind)
            && self.scope.is_none_or(|scope| scope == shared.scope)
            && self.protocol.is_none_or(|protocol| protocol == shared.protocol)
            && self.prefsrc.is_none_or(|prefsrc| Some(prefsrc) == shared.prefsrc)
            && self.target.as_ref().is_none_or(|target| matches_target(target, &info.target()))
    }
}

/// A next hop matches a route that contains it, and an object whose first next hop it is; none matches
/// an unreachable or prohibited route.
fn matches_target_v6(wanted: &Target, there: &Target, objects: &Objects) -> bool {
    let Target::Hops(wanted) = wanted else { return wanted == there };
    let fits = |there: &Hop| wanted.iter().any(|wanted| matches_hop(&wanted.hop, there));
    match there {
        Target::Hops(hops) if hops.is_empty() => wanted.is_empty(),
        Target::Hops(hops) => hops.iter().any(|hop| fits(&hop.hop)),
        Target::Object(id) => {
            let first = objects.get(*id).and_then(|object| object.paths().paths().first());
            first.is_some_and(|path| fits(&path.hop))
        }
    }
}

fn matches_hop(wanted: &Hop, there: &Hop) -> bool {
    wanted.port == there.port && wanted.gateway.is_none_or(|gw| Some(gw) == there.gateway)
}

fn matches_target(wanted: &Target, there: &Target) -> bool {
    match (wanted, there) {
        (Target::Object(wanted), Target::Object(there)) => wanted == there,
        (Target::Hops(wanted), Target::Hops(there)) => {
            wanted.len() == there.len()
                && wanted
                    .iter()
                    .zip(there)
                    .all(|(wanted, there)| matches_hop(&wanted.hop, &there.hop))
        }
        _ => false,
    }
}
