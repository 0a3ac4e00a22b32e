//! Which route `ip route del` means.

use super::info::Info;
use super::route::{Prefix, Protocol, Route, RouteType, Scope, TableId, Target};
use super::table::Alias;
use core::net::IpAddr;

/// What `ip route del` was told: the route must have this prefix, TOS and table, and everything
/// that is `Some`.
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

    pub(super) fn fits(&self, alias: &Alias, info: &Info) -> bool {
        let shared = &info.shared;
        alias.tos == self.tos
            && self.metric.is_none_or(|metric| metric == alias.metric)
            && self.kind.is_none_or(|kind| kind == alias.kind)
            && self.scope.is_none_or(|scope| scope == shared.scope)
            && self.protocol.is_none_or(|protocol| protocol == shared.protocol)
            && self.prefsrc.is_none_or(|prefsrc| Some(prefsrc) == shared.prefsrc)
            && self.target.as_ref().is_none_or(|target| fits_target(target, &shared.target))
    }
}

fn fits_target(wanted: &Target, there: &Target) -> bool {
    match (wanted, there) {
        (Target::Object(wanted), Target::Object(there)) => wanted == there,
        (Target::Hops(wanted), Target::Hops(there)) => {
            wanted.len() == there.len()
                && wanted.iter().zip(there).all(|(wanted, there)| {
                    wanted.hop.port == there.hop.port
                        && wanted.hop.gateway.is_none_or(|gw| Some(gw) == there.hop.gateway)
                })
        }
        _ => false,
    }
}
