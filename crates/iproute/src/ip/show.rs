//! `ip route show`: which routes, and how they look.

use super::json::{Object, list};
use super::names::{self, LOOPBACK};
use super::route::read_gateway;
use super::{Ip, IpResult, Options, metrics};
use crate::words::{Result, Words};
use core::cmp::Ordering;
use core::fmt::Write as _;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use datapath::fib::multipath::Path;
use datapath::fib::nexthop::Objects;
use datapath::fib::{
    Hop, LinkState, NextHop, Prefix, Protocol, Route, RouteType, Scope, TableId, Target,
};

/// Which routes `ip route show` is to list.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    /// `None`: all tables.
    table: Option<TableId>,
    prefix: Option<(Relation, Prefix)>,
    port: Option<u16>,
    gateway: Option<IpAddr>,
    protocol: Option<Protocol>,
    kind: Option<RouteType>,
    scope: Option<Scope>,
    metric: Option<u32>,
    /// `src`: the source that is preferred; of a route without one it counts as unspecified.
    prefsrc: Option<Prefix>,
    v6: bool,
    /// Where the packet comes in that a route was asked for; IPv6 shows it (`rt6_fill_node`).
    iif: Option<u16>,
}

/// How a route's prefix is to relate to the one given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// `exact`.
    Same,
    /// `root`: it or within it.
    Within,
    /// `match`: it or around it.
    Around,
}

impl Ip {
    pub(super) fn route_show(&self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        let selector = self.read_selector(words, options)?;
        let routes = self.selected(&selector, options);
        if options.json {
            let routes: Vec<String> =
                routes.iter().map(|route| self.route_json(route, &selector, options)).collect();
            return Ok(list(&routes));
        }
        Ok(routes.iter().map(|route| self.route_text(route, &selector, options)).collect())
    }

    pub(super) fn read_selector(
        &self,
        words: &mut Words<'_>,
        options: Options,
    ) -> Result<Selector> {
        let mut selector = Selector {
            table: Some(TableId::MAIN),
            prefix: None,
            port: None,
            gateway: None,
            protocol: None,
            kind: None,
            scope: None,
            metric: None,
            prefsrc: None,
            v6: options.v6,
            iif: None,
        };
        while let Some(word) = words.next() {
            match word.text {
                "table" => {
                    let value = words.value(word)?;
                    let all = value.text == "all";
                    selector.table = if all { None } else { Some(names::table(value)?) };
                }
                "dev" | "oif" => selector.port = Some(self.devices.read(words.value(word)?)?),
                "via" => selector.gateway = Some(read_gateway(words, word, options.family())?),
                "proto" | "protocol" => {
                    selector.protocol = Some(names::protocol(words.value(word)?)?);
                }
                "scope" => selector.scope = Some(names::scope(words.value(word)?)?),
                "metric" | "priority" | "preference" => {
                    let what = "\"metric\" value is invalid";
                    selector.metric = Some(names::number(words.value(word)?, what)?);
                }
                "src" => {
                    let (addr, len) = names::loose_prefix(words.value(word)?, options.family())?;
                    selector.prefsrc = Prefix::containing(addr, len).filter(|it| !it.is_empty());
                }
                "type" => {
                    let value = words.value(word)?;
                    let kind = names::route_type(value.text);
                    let what = "node type value is invalid";
                    selector.kind = Some(kind.ok_or_else(|| names::invalid(value, what, None))?);
                }
                text => {
                    let (relation, value) = match text {
                        "root" => (Relation::Within, words.value(word)?),
                        "match" => (Relation::Around, words.value(word)?),
                        "exact" | "to" => (Relation::Same, words.value(word)?),
                        _ => (Relation::Same, word),
                    };
                    let (addr, len) = names::loose_prefix(value, options.family())?;
                    selector.v6 = addr.is_ipv6();
                    let prefix = Prefix::containing(addr, len);
                    selector.prefix = prefix.map(|prefix| (relation, prefix));
                }
            }
        }
        Ok(selector)
    }

    /// The routes that fit, in the order in which the kernel lists them.
    pub(super) fn selected(&self, selector: &Selector, options: Options) -> Vec<Route> {
        let mut routes = self.fib.routes();
        routes.retain(|route| {
            selector.matches(route, self.fib.objects())
                && selector.kind.is_none_or(|kind| kind == self.shown_kind(route))
                && (route.prefix.addr().is_ipv6() == selector.v6
                    || selector.table.is_none() && !options.v6)
        });
        routes.sort_by(listed_order);
        routes
    }

    pub(super) fn route_text(
        &self,
        route: &Route,
        selector: &Selector,
        options: Options,
    ) -> String {
        let v6 = route.prefix.addr().is_ipv6();
        let mut out = String::new();
        let kind = self.shown_kind(route);
        if options.details || kind != RouteType::Unicast {
            let _ = write!(out, "{} ", names::type_name(kind));
        }
        let _ = write!(out, "{} ", route.prefix);
        if route.tos != 0 {
            let _ = write!(out, "tos {:#04x} ", route.tos);
        }
        if let Target::Object(id) = route.target {
            let _ = write!(out, "nhid {id} ");
        }
        let paths = self.paths(route);
        if let [path] = &paths[..] {
            out += &self.hop_text(path, v6, selector);
        } else if paths.is_empty() && (v6 || matches!(route.target, Target::Object(_))) {
            out += "dev lo ";
        }
        Self::attributes_text(&mut out, route, selector, options);
        if let [path] = &paths[..] {
            for flag in flags(path) {
                let _ = write!(out, "{flag} ");
            }
        }
        out += &metrics::text(&route.metrics, route.features);
        if let Some(name) = names::algorithm_name(route.algorithm) {
            let _ = write!(out, "mp_algo {name} ");
        }
        if let Some(iif) = selector.iif {
            let _ = write!(out, "iif {} ", self.devices.name(iif));
        }
        if v6 {
            out += "pref medium";
        }
        out.push('\n');
        if let (Target::Object(id), true) = (&route.target, options.details)
            && let Some(object) = self.fib.objects().get(*id)
        {
            let _ = write!(out, "\tnh_info {}", self.object_text(*id, object, true));
        }
        if paths.len() > 1 {
            for path in &paths {
                let _ = write!(out, "\tnexthop {}", self.hop_text(path, v6, &Selector::nothing()));
                let _ = write!(out, "weight {} ", path.weight);
                for flag in flags(path) {
                    let _ = write!(out, "{flag} ");
                }
                out.push('\n');
            }
        }
        out
    }

    fn attributes_text(out: &mut String, route: &Route, selector: &Selector, options: Options) {
        let v6 = route.prefix.addr().is_ipv6();
        if selector.table.is_none() && route.table != TableId::MAIN {
            let _ = write!(out, "table {} ", names::table_name(route.table));
        }
        let silent = route.protocol == Protocol::BOOT || selector.protocol.is_some();
        if options.details || !silent {
            let _ = write!(out, "proto {} ", names::protocol_name(route.protocol));
        }
        let silent = route.scope == Scope::UNIVERSE || selector.scope.is_some();
        if options.details || !silent && !v6 {
            let _ = write!(out, "scope {} ", names::scope_name(route.scope));
        }
        if let Some(prefsrc) = selector.shown_source(route) {
            let _ = write!(out, "src {prefsrc} ");
        }
        if (route.metric != 0 || v6) && selector.metric.is_none() {
            let _ = write!(out, "metric {} ", route.metric);
        }
    }

    fn hop_text(&self, path: &Path, v6: bool, selector: &Selector) -> String {
        let mut out = String::new();
        if selector.gateway.is_none() {
            match path.hop.gateway {
                Some(gateway) if gateway.is_ipv6() && !v6 => {
                    let _ = write!(out, "via inet6 {gateway} ");
                }
                Some(gateway) => {
                    let _ = write!(out, "via {gateway} ");
                }
                None => {}
            }
        }
        if selector.port.is_none() {
            let _ = write!(out, "dev {} ", self.devices.name(path.hop.port));
        }
        out
    }

    pub(super) fn route_json(
        &self,
        route: &Route,
        selector: &Selector,
        options: Options,
    ) -> String {
        let v6 = route.prefix.addr().is_ipv6();
        let mut object = Object::default();
        let kind = self.shown_kind(route);
        if options.details || kind != RouteType::Unicast {
            object = object.text("type", names::type_name(kind));
        }
        object = object.text("dst", &route.prefix.to_string());
        if route.tos != 0 {
            object = object.text("tos", &format!("{:#04x}", route.tos));
        }
        if let Target::Object(id) = route.target {
            object = object.number("nhid", id);
        }
        let paths = self.paths(route);
        if let [path] = &paths[..] {
            object = self.hop_json(object, path.hop, v6);
        } else if paths.is_empty() && (v6 || matches!(route.target, Target::Object(_))) {
            object = object.text("dev", self.devices.name(LOOPBACK));
        }
        if selector.table.is_none() && route.table != TableId::MAIN {
            object = object.text("table", &names::table_name(route.table));
        }
        if options.details || route.protocol != Protocol::BOOT {
            object = object.text("protocol", &names::protocol_name(route.protocol));
        }
        if options.details || route.scope != Scope::UNIVERSE && !v6 {
            object = object.text("scope", &names::scope_name(route.scope));
        }
        if let Some(prefsrc) = selector.shown_source(route) {
            object = object.text("prefsrc", &prefsrc.to_string());
        }
        if (route.metric != 0 || v6) && selector.metric.is_none() {
            object = object.number("metric", route.metric);
        }
        object = match &paths[..] {
            [path] => object.words("flags", &flags(path)),
            _ => object.words("flags", &[]),
        };
        object = metrics::json(object, &route.metrics, route.features);
        if let Some(name) = names::algorithm_name(route.algorithm) {
            object = object.text("mp_algo", name);
        }
        if let Some(iif) = selector.iif {
            object = object.text("iif", self.devices.name(iif));
        }
        if v6 {
            object = object.text("pref", "medium");
        }
        if paths.len() > 1 {
            let hops: Vec<String> = paths
                .iter()
                .map(|path| {
                    self.hop_json(Object::default(), path.hop, v6)
                        .number("weight", path.weight)
                        .words("flags", &flags(path))
                        .finish()
                })
                .collect();
            object = object.raw("nexthops", &list(&hops));
        }
        object.finish()
    }

    pub(super) fn hop_json(&self, object: Object, hop: Hop, v6: bool) -> Object {
        let object = match hop.gateway {
            Some(gateway) if gateway.is_ipv6() && !v6 => {
                let via = Object::default().text("family", "inet6");
                object.raw("via", &via.text("host", &gateway.to_string()).finish())
            }
            Some(gateway) => object.text("gateway", &gateway.to_string()),
            None => object,
        };
        object.text("dev", self.devices.name(hop.port))
    }

    /// A route over a blackhole object is shown as what it is.
    fn shown_kind(&self, route: &Route) -> RouteType {
        let Target::Object(id) = route.target else { return route.kind };
        match self.fib.objects().get(id) {
            Some(object) if object.is_blackhole() => RouteType::Blackhole,
            _ => route.kind,
        }
    }

    /// The next hops of a route with their present state.
    fn paths(&self, route: &Route) -> Vec<Path> {
        let v6 = route.prefix.addr().is_ipv6();
        let with_state = |hop: &NextHop| {
            let of_link = !is_of_this_host(route);
            let link = if of_link { self.fib.link(hop.hop.port) } else { LinkState::default() };
            let ignore = if v6 { link.ignore_linkdown_v6 } else { link.ignore_linkdown };
            let linkdown = !link.up || !link.carrier;
            Path {
                hop: hop.hop,
                weight: hop.weight,
                bound: -1,
                onlink: hop.onlink,
                dead: !link.up || linkdown && ignore,
                linkdown,
                usable: link.up && (link.carrier || !ignore),
            }
        };
        match &route.target {
            Target::Hops(hops) => hops.iter().map(with_state).collect(),
            Target::Object(id) => {
                let object = self.fib.objects().get(*id);
                object.map_or_else(Vec::new, |object| object.paths().paths().to_vec())
            }
        }
    }
}

impl Selector {
    /// Every route of every table, nothing left out of the lines.
    pub(super) fn nothing() -> Self {
        Self {
            table: Some(TableId::MAIN),
            prefix: None,
            port: None,
            gateway: None,
            protocol: None,
            kind: None,
            scope: None,
            metric: None,
            prefsrc: None,
            v6: false,
            iif: None,
        }
    }

    /// The route of one packet, which comes in there: no table goes without saying but `main`.
    pub(super) fn of_packet(iif: Option<u16>) -> Self {
        Self { table: None, iif, ..Self::nothing() }
    }

    /// The preferred source, unless it is the only one that was asked for.
    fn shown_source(&self, route: &Route) -> Option<IpAddr> {
        route.prefsrc.filter(|_| !self.prefsrc.is_some_and(|prefix| prefix.is_host()))
    }

    fn matches(&self, route: &Route, objects: &Objects) -> bool {
        let hop = |wanted: &dyn Fn(Hop) -> bool| match &route.target {
            // As `ip`, which looks at the single next hop only.
            Target::Hops(hops) => matches!(&hops[..], [only] if wanted(only.hop)),
            Target::Object(id) => {
                let paths = objects.get(*id).map_or(&[][..], |object| object.paths().paths());
                matches!(paths, [only] if wanted(only.hop))
            }
        };
        self.table.is_none_or(|table| table == route.table)
            && self.prefix.is_none_or(|(relation, prefix)| relation.relates(prefix, route.prefix))
            && self.port.is_none_or(|port| hop(&|hop| hop.port == port))
            && self.gateway.is_none_or(|gateway| hop(&|hop| hop.gateway == Some(gateway)))
            && self.protocol.is_none_or(|protocol| protocol == route.protocol)
            && self.scope.is_none_or(|scope| scope == route.scope)
            && self.metric.is_none_or(|metric| metric == route.metric)
            && self.prefsrc.is_none_or(|prefix| {
                let v6 = route.prefix.addr().is_ipv6();
                let none =
                    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
                prefix.contains(route.prefsrc.unwrap_or(none))
            })
    }
}

impl Relation {
    fn relates(self, given: Prefix, route: Prefix) -> bool {
        match self {
            Self::Same => given == route,
            Self::Within => route.len() >= given.len() && given.contains(route.addr()),
            Self::Around => route.len() <= given.len() && route.contains(given.addr()),
        }
    }
}

/// What leads to this host itself does not ask for a carrier (`fib_sync_down_dev`, `fib6_ifdown`).
fn is_of_this_host(route: &Route) -> bool {
    match route.prefix.addr() {
        IpAddr::V4(_) => route.scope == Scope::HOST,
        IpAddr::V6(_) => matches!(route.kind, RouteType::Local | RouteType::Anycast),
    }
}

/// The flags that `ip` prints for a next hop.
fn flags(path: &Path) -> Vec<&'static str> {
    let all = [("dead", path.dead), ("onlink", path.onlink), ("linkdown", path.linkdown)];
    all.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
}

/// Tables by number, then as the kernel walks a table: IPv4 by address, longest first; IPv6 what
/// is inside a prefix before the prefix itself.
fn listed_order(a: &Route, b: &Route) -> Ordering {
    let (p, q) = (a.prefix, b.prefix);
    let by_prefix = if p == q {
        Ordering::Equal
    } else if p.addr().is_ipv6() && q.len() <= p.len() && q.contains(p.addr()) {
        Ordering::Less
    } else if p.addr().is_ipv6() && p.len() <= q.len() && p.contains(q.addr()) {
        Ordering::Greater
    } else {
        p.addr().cmp(&q.addr()).then(q.len().cmp(&p.len()))
    };
    (p.addr().is_ipv6(), a.table).cmp(&(q.addr().is_ipv6(), b.table)).then(by_prefix)
}
