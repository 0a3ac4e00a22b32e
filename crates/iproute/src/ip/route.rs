//! `ip route add|append|prepend|replace|change|del|show|get`: the grammar.

use super::check::refuse_ecn_bits;
use super::metrics;
use super::names::{self, LOOPBACK, invalid};
use super::{Ip, IpError, IpResult, Options, verb};
use crate::words::{Result, Word, Words};
use core::net::IpAddr;
use datapath::fib::{
    Algorithm, Decision, Features, FibError, Hop, NextHop, Prefix, Protocol, Route, RouteFilter,
    RouteKey, RouteType, Scope, TableId, Target,
};
use datapath::metrics::RouteMetrics;

const VERBS: [&str; 9] =
    ["add", "append", "prepend", "replace", "change", "del", "show", "get", "flush"];

const WORDS: [&str; 16] = [
    "via",
    "dev",
    "table",
    "proto",
    "scope",
    "metric",
    "tos",
    "src",
    "nhid",
    "nexthop",
    "onlink",
    "mp_algo",
    "to",
    "preference",
    "dsfield",
    "features",
];

/// A route as its words describe it; what was not said is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteWords {
    pub(super) kind: Option<RouteType>,
    pub(super) prefix: Option<Prefix>,
    pub(super) table: Option<TableId>,
    pub(super) protocol: Option<Protocol>,
    pub(super) scope: Option<Scope>,
    pub(super) metric: Option<u32>,
    pub(super) tos: u8,
    pub(super) prefsrc: Option<IpAddr>,
    pub(super) features: Features,
    pub(super) metrics: RouteMetrics,
    pub(super) object: Option<u32>,
    pub(super) algorithm: Algorithm,
    /// The hop of `via` and `dev`.
    pub(super) single: HopWords,
    /// Those of `nexthop …`.
    pub(super) hops: Vec<HopWords>,
}

impl RouteWords {
    /// Where gateways are looked up first.
    fn table_of_gateways(&self) -> TableId {
        self.table.unwrap_or(TableId::MAIN)
    }

    /// By the prefix; without one it is IPv4.
    pub(super) fn is_v6(&self) -> bool {
        self.prefix.is_some_and(|prefix| prefix.addr().is_ipv6())
    }
}

/// One next hop as its words describe it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HopWords {
    pub(super) gateway: Option<IpAddr>,
    pub(super) port: Option<u16>,
    weight: u16,
    pub(super) onlink: bool,
}

impl Ip {
    pub(super) fn route(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<String> {
        match verb(words, "route", &VERBS)? {
            "show" => return self.route_show(words, options),
            "get" => return self.route_get(words, options),
            "flush" => self.route_flush(words, options)?,
            "del" => {
                let said = self.read_route(words, options)?;
                refuse_ecn_bits_of_route(&said)?;
                self.fib.delete(&self.filter(&said)?)?;
            }
            "add" => {
                let route = self.read_full_route(words, options)?;
                self.fib.add(route)?;
            }
            "append" => {
                let route = self.read_full_route(words, options)?;
                self.fib.append(route)?;
            }
            "prepend" => {
                let route = self.read_full_route(words, options)?;
                self.fib.prepend(route)?;
            }
            "replace" => {
                let route = self.read_full_route(words, options)?;
                self.fib.replace(route)?;
            }
            _ => {
                let route = self.read_full_route(words, options)?;
                self.fib.change(route)?;
            }
        }
        Ok(String::new())
    }

    fn route_flush(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<()> {
        let selector = self.read_selector(words, options)?;
        for route in self.selected(&selector, options) {
            self.fib.delete(&RouteFilter::exactly(&route))?;
        }
        Ok(())
    }

    fn read_full_route(&mut self, words: &mut Words<'_>, options: Options) -> IpResult<Route> {
        let said = self.read_route(words, options)?;
        refuse_ecn_bits_of_route(&said)?;
        self.complete(&said)
    }

    /// Reads `[TYPE] PREFIX …` to the end.
    pub(super) fn read_route(&self, words: &mut Words<'_>, options: Options) -> Result<RouteWords> {
        let mut said = RouteWords::default();
        let family = options.family();
        while let Some(word) = words.next() {
            if metrics::read(&mut said.metrics, word, words)? {
                continue;
            }
            match word.text {
                "via" => said.single.gateway = Some(read_gateway(words, word, family)?),
                "dev" | "oif" => said.single.port = Some(self.devices.read(words.value(word)?)?),
                "onlink" => said.single.onlink = true,
                "table" => said.table = Some(names::table(words.value(word)?)?),
                "proto" | "protocol" => said.protocol = Some(names::protocol(words.value(word)?)?),
                "scope" => said.scope = Some(names::scope(words.value(word)?)?),
                "metric" | "priority" | "preference" => {
                    let what = "\"metric\" value is invalid";
                    said.metric = Some(names::number(words.value(word)?, what)?);
                }
                "tos" | "dsfield" => said.tos = read_tos(words.value(word)?)?,
                "src" => said.prefsrc = Some(names::address(words.value(word)?, family)?),
                "features" => said.features = read_features(words, word)?,
                "nhid" => {
                    said.object =
                        Some(names::number(words.value(word)?, "\"id\" value is invalid")?);
                }
                "mp_algo" => said.algorithm = names::algorithm(words.value(word)?)?,
                "nexthop" => said.hops.push(self.read_hop(words, family)?),
                // A file keeps these, as `ip route save` would; they choose nothing here.
                "pref" | "proto_info" => drop(words.value(word)?),
                "to" if said.prefix.is_none() => {
                    let value = words.value(word)?;
                    said.prefix = Some(read_prefix(value, family)?);
                }
                text if said.prefix.is_none() && said.kind.is_none() => {
                    match names::route_type(text) {
                        Some(kind) => said.kind = Some(kind),
                        None => said.prefix = Some(read_prefix(word, family)?),
                    }
                }
                _ if said.prefix.is_none() => said.prefix = Some(read_prefix(word, family)?),
                text => {
                    let known = [&WORDS[..], &metrics::WORDS].concat();
                    let nearest = word.unknown("route", &known).nearest;
                    let message =
                        format!("either \"to\" is duplicate, or \"{text}\" is a garbage.");
                    return Err(word.error(message, nearest));
                }
            }
        }
        settle_default(&mut said);
        Ok(said)
    }

    /// What follows `nexthop`, up to the next one.
    fn read_hop(&self, words: &mut Words<'_>, family: Option<bool>) -> Result<HopWords> {
        let mut hop = HopWords { weight: 1, ..HopWords::default() };
        while let Some(word) = words.peek().filter(|word| word.text != "nexthop") {
            words.next();
            match word.text {
                "via" => hop.gateway = Some(read_gateway(words, word, family)?),
                "dev" => hop.port = Some(self.devices.read(words.value(word)?)?),
                "weight" => hop.weight = read_weight(words.value(word)?)?,
                "onlink" => hop.onlink = true,
                // Flags of the output, so that it can be read back.
                "dead" | "linkdown" => {}
                _ => return Err(word.unknown("nexthop", &["via", "dev", "weight", "onlink"])),
            }
        }
        Ok(hop)
    }

    /// The route with everything that was left out.
    fn complete(&self, said: &RouteWords) -> IpResult<Route> {
        let Some(prefix) = said.prefix else { return Err(FibError::InvalidPrefix.into()) };
        let kind = said.kind.unwrap_or_default();
        check_flags(said)?;
        let target = self.target(said, kind)?;
        // What is written as `nexthop` counts as a gateway, though it may be a device alone (`nhs_ok` of
        // iproute2's `iproute_modify`).
        let gateway = !said.hops.is_empty()
            || match &target {
                Target::Object(_) => true,
                Target::Hops(hops) => hops.iter().any(|hop| hop.hop.gateway.is_some()),
            };
        let scope = match kind {
            _ if prefix.addr().is_ipv6() => Scope::UNIVERSE,
            RouteType::Local => Scope::HOST,
            RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast => Scope::LINK,
            RouteType::Unicast if !gateway => Scope::LINK,
            _ => Scope::UNIVERSE,
        };
        let in_local = matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast);
        let route = Route {
            prefix,
            table: said.table.unwrap_or(if in_local { TableId::LOCAL } else { TableId::MAIN }),
            tos: said.tos,
            metric: said.metric.unwrap_or(0),
            kind,
            scope: said.scope.unwrap_or(scope),
            protocol: said.protocol.unwrap_or(Protocol::BOOT),
            prefsrc: said.prefsrc,
            features: said.features,
            metrics: said.metrics,
            algorithm: said.algorithm,
            target,
        };
        self.check_scope(&route)?;
        self.refuse_device_down(&route)?;
        self.check_source(&route)?;
        Ok(route)
    }

    /// No route leads over an interface that is down (`ENETDOWN`; `fib_check_nh`, `fib6_nh_init`), but for
    /// what is on this host itself (`RT_SCOPE_HOST` in `fib_create_info`).
    fn refuse_device_down(&self, route: &Route) -> IpResult<()> {
        let v6 = route.prefix.addr().is_ipv6();
        let hops = match &route.target {
            Target::Hops(hops) => hops,
            Target::Object(id) => return self.refuse_dead_object(*id),
        };
        if !v6 && route.scope == Scope::HOST {
            return Ok(());
        }
        match hops.iter().find(|hop| !self.fib.link(hop.hop.port).up) {
            None => Ok(()),
            Some(hop) if v6 || hop.hop.gateway.is_some() => {
                Err(IpError::Answer("Error: Nexthop device is not up."))
            }
            Some(_) => Err(IpError::Answer("Error: Device for nexthop is not up.")),
        }
    }

    /// The kernel deletes a next-hop object, or takes it out of its groups, when its device goes down
    /// or loses its carrier (`nexthop_flush_dev`). Here it stays, for it is a line of a file, but no route is added by it
    /// (`nexthop_find_by_id` in `fib_create_info`).
    fn refuse_dead_object(&self, id: u32) -> IpResult<()> {
        let Some(object) = self.fib.objects().get(id) else { return Ok(()) };
        let paths = object.paths().paths();
        if !object.is_blackhole() && !paths.is_empty() && paths.iter().all(|path| !path.usable) {
            return Err(FibError::NoSuchObject.into());
        }
        Ok(())
    }

    fn target(&self, said: &RouteWords, kind: RouteType) -> IpResult<Target> {
        let single = said.single.gateway.is_some() || said.single.port.is_some();
        if let Some(id) = said.object {
            if single || !said.hops.is_empty() {
                return Err(IpError::Answer(
                    "Error: Nexthop specification and nexthop id are mutually exclusive.",
                ));
            }
            return Ok(Target::Object(id));
        }
        if kind.is_refusal() {
            // `dev lo` is how IPv6 prints such a route.
            let loopback = said.single.gateway.is_none() && said.single.port == Some(LOOPBACK);
            if (single && !loopback) || !said.hops.is_empty() {
                return Err(IpError::Answer(
                    "Error: Gateway, device and multipath can not be specified for this route type.",
                ));
            }
            return Ok(Target::Hops(Vec::new()));
        }
        if !said.hops.is_empty() {
            let v6 = said.is_v6();
            // `ip6_route_multipath_add`
            if v6 && said.hops.iter().any(|hop| hop.gateway.is_none()) {
                return Err(IpError::Answer(
                    "Error: Device only routes can not be added for IPv6 using the multipath API.",
                ));
            }
            let hops: IpResult<Vec<NextHop>> =
                said.hops.iter().map(|hop| self.hop(hop, said.table_of_gateways())).collect();
            return Ok(Target::Hops(hops?));
        }
        if !single {
            return Err(IpError::Answer("RTNETLINK answers: No such device"));
        }
        Ok(Target::Hops(vec![
            self.hop(&HopWords { weight: 1, ..said.single }, said.table_of_gateways())?,
        ]))
    }

    /// The next hop with its device, which follows from the gateway where it was not said
    /// (`fib_check_nh`).
    fn hop(&self, said: &HopWords, table: TableId) -> IpResult<NextHop> {
        let port = match (said.gateway, said.port) {
            (None, Some(port)) => port,
            (Some(_), Some(port)) if said.onlink => port,
            (Some(gateway), port) => self.reach(Some(table), gateway, port)?,
            (None, None) => {
                return Err(IpError::Answer("RTNETLINK answers: No such device"));
            }
        };
        let hop = Hop { port, gateway: said.gateway };
        Ok(NextHop { hop, weight: said.weight, onlink: said.onlink })
    }

    /// The port on whose link a gateway is: that of a route in `table`, or of an object.
    pub(super) fn reach(
        &self,
        table: Option<TableId>,
        gateway: IpAddr,
        port: Option<u16>,
    ) -> IpResult<u16> {
        let link_local = matches!(gateway, IpAddr::V6(gw) if gw.is_unicast_link_local());
        if let (true, Some(port)) = (link_local, port) {
            return Ok(port);
        }
        if gateway.is_ipv6() && self.devices.owners(gateway).next().is_some() {
            // `ip6_validate_gw`
            return Err(IpError::Answer("Error: Gateway can not be a local address."));
        }
        // IPv4 looks into `main` by the rules alone.
        let table = table.filter(|table| gateway.is_ipv6() || *table != TableId::MAIN);
        let key = RouteKey { oif: port, ..RouteKey::to(gateway) };
        match self.fib.gateway(table, &key) {
            Decision::Forward(Hop { port, gateway: None }) => Ok(port),
            Decision::Local => self.reach_own(&key),
            _ => Err(IpError::Answer("Error: Nexthop has invalid gateway.")),
        }
    }

    /// A gateway that is an address of this host: IPv4 takes it for one on the link of the interface that has
    /// it (`RTN_LOCAL` in `fib_check_nh_v4_gw`), IPv6 does not (`ip6_validate_gw`).
    fn reach_own(&self, key: &RouteKey) -> IpResult<u16> {
        if key.dst.is_ipv6() {
            return Err(IpError::Answer("Error: Gateway can not be a local address."));
        }
        let owner = self.devices.owners(key.dst).find(|owner| *owner != LOOPBACK);
        let owner = owner.filter(|owner| key.oif.is_none_or(|port| port == *owner));
        owner.ok_or(IpError::Answer("Error: Nexthop has invalid gateway."))
    }

    /// What `ip route del` is to remove.
    fn filter(&self, said: &RouteWords) -> IpResult<RouteFilter> {
        let Some(prefix) = said.prefix else { return Err(FibError::InvalidPrefix.into()) };
        let hops: Vec<&HopWords> = if said.hops.is_empty() {
            Some(&said.single)
                .filter(|one| one.gateway.is_some() || one.port.is_some())
                .into_iter()
                .collect()
        } else {
            said.hops.iter().collect()
        };
        // `dev lo` is how IPv6 prints such a route.
        let refusal = said.kind.is_some_and(RouteType::is_refusal)
            && said.is_v6()
            && said.single.port == Some(LOOPBACK);
        let hops: IpResult<Vec<NextHop>> = hops
            .into_iter()
            .map(|hop| self.hop(&HopWords { weight: 1, ..*hop }, said.table_of_gateways()))
            .collect();
        let target = match said.object {
            Some(id) => Some(Target::Object(id)),
            None if refusal => None,
            None => Some(hops?).filter(|hops| !hops.is_empty()).map(Target::Hops),
        };
        Ok(RouteFilter {
            table: said.table.unwrap_or(TableId::MAIN),
            tos: said.tos,
            metric: said.metric,
            kind: said.kind,
            scope: said.scope,
            protocol: said.protocol,
            prefsrc: said.prefsrc,
            target,
            ..RouteFilter::any(prefix)
        })
    }
}

/// `default` takes the family of the next hops if those are IPv6.
fn settle_default(said: &mut RouteWords) {
    let v6 = |hop: &HopWords| hop.gateway.is_some_and(|gateway| gateway.is_ipv6());
    if said.prefix == Some(Prefix::DEFAULT_V4)
        && said.single.gateway.is_some_and(|gateway| gateway.is_ipv6())
        || said.prefix == Some(Prefix::DEFAULT_V4)
            && !said.hops.is_empty()
            && said.hops.iter().all(v6)
    {
        said.prefix = Some(Prefix::DEFAULT_V6);
    }
}

/// What follows `via`: an address of the family that is meant, or a family and an address.
pub(super) fn read_gateway(
    words: &mut Words<'_>,
    via: Word<'_>,
    mut family: Option<bool>,
) -> Result<IpAddr> {
    let mut word = words.value(via)?;
    if matches!(word.text, "inet" | "inet6") {
        family = Some(word.text == "inet6");
        word = words.value(via)?;
    }
    names::address(word, family)
}

fn read_prefix(word: Word<'_>, family: Option<bool>) -> Result<Prefix> {
    let (addr, len) = names::loose_prefix(word, family)?;
    // IPv6 leaves the bits out that the length does not cover (`ipv6_addr_prefix` in `ip6_route_info_create`).
    let known = if addr.is_ipv6() { Prefix::containing(addr, len) } else { None };
    known
        .map_or_else(|| Prefix::new(addr, len), Ok)
        .map_err(|_| word.error("Invalid prefix for given prefix length.".to_owned(), None))
}

/// What follows `features`: names until another word comes.
fn read_features(words: &mut Words<'_>, after: Word<'_>) -> Result<Features> {
    let first = words.value(after)?;
    if first.text != "ecn" {
        return Err(first.error("\"features\" value not valid".to_owned(), Some("ecn".to_owned())));
    }
    while words.peek().is_some_and(|word| word.text == "ecn") {
        words.next();
    }
    Ok(Features::ECN)
}

/// 1..=256; `ip` knows no more.
pub(super) fn read_weight(word: Word<'_>) -> Result<u16> {
    let weight = names::parse_number(word.text).filter(|weight| (1..=256).contains(weight));
    let weight = weight.ok_or_else(|| invalid(word, "\"weight\" is invalid", None))?;
    Ok(weight as u16)
}

/// A TOS byte: hexadecimal with or without `0x`, as `rtnl_dsfield_a2n()` reads it.
pub(super) fn read_tos(word: Word<'_>) -> Result<u8> {
    let digits = word.text.trim_start_matches("0x");
    u8::from_str_radix(digits, 16).map_err(|_| invalid(word, "\"tos\" value is invalid", None))
}

/// [`refuse_ecn_bits`] of a route; IPv6 takes them.
fn refuse_ecn_bits_of_route(said: &RouteWords) -> IpResult<()> {
    if said.is_v6() { Ok(()) } else { refuse_ecn_bits(said.tos) }
}

/// `onlink` is about a gateway, and needs to know the link; IPv6 takes it without a gateway, too
/// (`fib_check_nh`, `fib6_nh_init`).
fn check_flags(said: &RouteWords) -> IpResult<()> {
    let check = |hop: &HopWords| match (hop.gateway, hop.port) {
        (Some(_), None) if hop.onlink => {
            Err(IpError::Answer("Error: Nexthop device required for onlink."))
        }
        (None, Some(_)) if hop.onlink && !said.is_v6() => Err(IpError::Answer(
            "Error: Invalid flags for nexthop - PERVASIVE and ONLINK can not be set.",
        )),
        _ => Ok(()),
    };
    if said.object.is_some() {
        return Ok(());
    }
    said.hops.iter().chain([&said.single]).try_for_each(check)
}
