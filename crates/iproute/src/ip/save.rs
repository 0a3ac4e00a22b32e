//! A whole configuration as lines that [`Ip::run_all`] reads back, and `ip -batch` too, the
//! `sysctl` lines aside.

use super::Ip;
use super::names;
use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::{NextHop, Prefix, Protocol, Route, RouteType, Rule, Scope, TableId, Target};
use std::collections::BTreeMap;

/// Routes by prefix, table and metric, so that one is found quickly among many.
struct RouteIndex<'a>(BTreeMap<(Prefix, TableId, u32), Vec<&'a Route>>);

impl<'a> RouteIndex<'a> {
    fn new(routes: &'a [Route]) -> Self {
        let mut places: BTreeMap<_, Vec<&Route>> = BTreeMap::new();
        for route in routes {
            places.entry(route_key(route)).or_default().push(route);
        }
        Self(places)
    }

    fn contain(&self, route: &Route) -> bool {
        self.0.get(&route_key(route)).is_some_and(|its| its.contains(&route))
    }
}

fn route_key(route: &Route) -> (Prefix, TableId, u32) {
    (route.prefix, route.table, route.metric)
}

impl Ip {
    /// Everything that was configured: two configurations are equal exactly if their lines are.
    pub fn save(&self) -> String {
        let mut draft = SavedLines::default();
        self.save_links(&mut draft);
        self.save_sysctls(&mut draft.lines);
        let usual = draft.so_far.fib.routes();
        self.save_objects(&mut draft);
        self.save_routes(&usual, &mut draft);
        let mut out = draft.lines;
        // Gateways are looked for by the rules, so that those come when all have been found.
        self.save_rules(false, &mut out);
        self.save_rules(true, &mut out);
        self.save_link_states(&mut out);
        out
    }

    /// Devices and their addresses, all of them up: only then their routes can be added.
    fn save_links(&self, draft: &mut SavedLines) {
        for port in self.devices.ports() {
            let name = self.devices.name(port);
            draft.add_line(&format!("link add dev {name} type dummy"));
            draft.add_line(&format!("link set dev {name} up"));
        }
        for port in self.devices.ports().chain([names::LOOPBACK]) {
            for (addr, len) in self.devices.addresses(port) {
                draft
                    .add_line(&format!("address add {addr}/{len} dev {}", self.devices.name(port)));
            }
        }
    }

    fn save_link_states(&self, out: &mut String) {
        for port in self.devices.ports() {
            let (link, name) = (self.fib.link(port), self.devices.name(port));
            for (on, family) in [(link.ignore_linkdown, 4), (link.ignore_linkdown_v6, 6)] {
                if on {
                    let _ = writeln!(
                        out,
                        "sysctl net.ipv{family}.conf.{name}.ignore_routes_with_linkdown=1"
                    );
                }
            }
            // Where the carrier goes of an interface that is up, next-hop objects over it go along: those that
            // are there have seen it down.
            let keeps = link.up && !link.carrier && self.has_object_over(port);
            if !link.up || keeps {
                let _ = writeln!(out, "link set dev {name} down");
            }
            if !link.carrier {
                let _ = writeln!(out, "link set dev {name} carrier off");
            }
            if link.group != 0 {
                let _ = writeln!(out, "link set dev {name} group {}", link.group);
            }
            if keeps {
                let _ = writeln!(out, "link set dev {name} up");
            }
        }
    }

    fn has_object_over(&self, port: u16) -> bool {
        self.fib.objects().iter().any(|(_, object)| object.config().is_over(port))
    }

    fn save_rules(&self, v6: bool, out: &mut String) {
        let (rules, usual) = (self.fib.rules(v6), Rule::defaults(v6));
        let family = if v6 { "-6 " } else { "" };
        for gone in usual.iter().filter(|rule| !rules.contains(rule)) {
            let _ = writeln!(out, "{family}rule del priority {}", gone.priority);
        }
        for rule in rules.iter().filter(|rule| !usual.contains(rule)) {
            let text = self.rule_text(rule, rules);
            let (_, words) = text.split_once(":\t").unwrap_or(("", &text));
            let words = words.replace("[detached]", "").replace("[unresolved]", "");
            let _ = writeln!(out, "{family}rule add priority {} {}", rule.priority, words.trim());
        }
    }

    /// Single next hops before the groups of them.
    fn save_objects(&self, draft: &mut SavedLines) {
        let objects = self.fib.objects();
        let group = |config: &ObjectConfig| {
            matches!(config, ObjectConfig::Group(_) | ObjectConfig::Resilient(..))
        };
        for groups in [false, true] {
            for (id, object) in objects.iter().filter(|(_, o)| group(o.config()) == groups) {
                let mut text = self.object_text(id, object, false);
                // What follows from the rest, and what has a time, is no configuration.
                for word in [" dead", " linkdown", " scope link", " scope host"] {
                    text = text.replace(word, "");
                }
                if let Some((before, _)) = text.split_once("unbalanced_time ") {
                    text.truncate(before.len());
                }
                let hops = match object.config() {
                    ObjectConfig::Hop(hop) => &[*hop][..],
                    _ => &[],
                };
                let family = if object.v6() == Some(true) { "-6 " } else { "" };
                draft.add_line_reaching(
                    &format!("{family}nexthop add {}", text.trim()),
                    hops,
                    self,
                );
            }
        }
    }

    /// Routes besides those that the addresses bring along.
    fn save_routes(&self, usual: &[Route], draft: &mut SavedLines) {
        let routes = self.fib.routes();
        let are_usual = RouteIndex::new(usual);
        let mut added: Vec<&Route> =
            routes.iter().filter(|route| !are_usual.contain(route)).collect();
        // Gateways are reached by routes that have none.
        added.sort_by_key(|route| has_gateway(route));
        for route in added {
            let hops = match &route.target {
                Target::Hops(hops) => &hops[..],
                Target::Object(_) => &[],
            };
            draft.add_line_reaching(&self.route_line("append", route), hops, self);
        }
        let are_there = RouteIndex::new(&routes);
        for gone in usual.iter().filter(|route| !are_there.contain(route)) {
            draft.add_line(&self.route_line("del", gone));
        }
    }

    fn route_line(&self, verb: &str, route: &Route) -> String {
        let v6 = route.prefix.addr().is_ipv6();
        let mut out = format!("{}route {verb} ", if v6 { "-6 " } else { "" });
        if route.kind != RouteType::Unicast {
            let _ = write!(out, "{} ", names::type_name(route.kind));
        }
        let _ = write!(out, "{}", route.prefix);
        if route.tos != 0 {
            let _ = write!(out, " tos {:#04x}", route.tos);
        }
        match &route.target {
            Target::Object(id) => {
                let _ = write!(out, " nhid {id}");
            }
            Target::Hops(hops) if is_plain(hops) => out += &self.hop_words(&hops[0]),
            Target::Hops(_) => {}
        }
        if route.table != TableId::MAIN {
            let _ = write!(out, " table {}", names::table_name(route.table));
        }
        if route.protocol != Protocol::BOOT {
            let _ = write!(out, " proto {}", names::protocol_name(route.protocol));
        }
        if !v6 && (verb == "append" || route.scope != Scope::UNIVERSE) {
            let _ = write!(out, " scope {}", names::scope_name(route.scope));
        }
        if let Some(prefsrc) = route.prefsrc {
            let _ = write!(out, " src {prefsrc}");
        }
        if route.metric != 0 {
            let _ = write!(out, " metric {}", route.metric);
        }
        if let Some(name) = names::algorithm_name(route.algorithm) {
            let _ = write!(out, " mp_algo {name}");
        }
        let metrics = super::metrics::text(&route.metrics, route.features);
        if !metrics.is_empty() {
            out += " ";
            out += metrics.trim_end();
        }
        if let Target::Hops(hops) = &route.target
            && !is_plain(hops)
        {
            for hop in hops {
                let _ = write!(out, " nexthop{} weight {}", self.hop_words(hop), hop.weight);
            }
        }
        out
    }

    fn hop_words(&self, hop: &NextHop) -> String {
        let mut out = String::new();
        match hop.hop.gateway {
            Some(IpAddr::V6(gateway)) => {
                let _ = write!(out, " via inet6 {gateway}");
            }
            Some(gateway) => {
                let _ = write!(out, " via {gateway}");
            }
            None => {}
        }
        let _ = write!(out, " dev {}", self.devices.name(hop.hop.port));
        if hop.onlink {
            out += " onlink";
        }
        out
    }
}

/// Lines so far, and what they configure.
#[derive(Debug, Default)]
struct SavedLines {
    lines: String,
    so_far: Ip,
}

impl SavedLines {
    /// A line that is valid here; one that is not (a kernel may hold what its own commands would
    /// refuse) becomes a comment.
    fn add_line(&mut self, line: &str) {
        let _ = match self.so_far.run(line) {
            Ok(_) => writeln!(self.lines, "{line}"),
            Err(error) => writeln!(self.lines, "# {line} # {error}"),
        };
    }

    /// A line whose next hops may have been reached by routes that are gone since: those come for
    /// a moment.
    fn add_line_reaching(&mut self, line: &str, hops: &[NextHop], names: &Ip) {
        if self.so_far.run(line).is_ok() {
            self.lines += line;
            self.lines.push('\n');
            return;
        }
        let way = |hop: &NextHop| {
            let gateway = hop.hop.gateway?;
            Some(format!("{gateway} dev {}", names.devices.name(hop.hop.port)))
        };
        let mut ways: Vec<String> = hops.iter().filter_map(way).collect();
        ways.sort();
        ways.dedup();
        for way in &ways {
            self.add_line(&format!("route prepend {way}"));
        }
        self.add_line(line);
        for way in &ways {
            self.add_line(&format!("route del {way}"));
        }
    }
}

fn has_gateway(route: &Route) -> bool {
    match &route.target {
        Target::Hops(hops) => hops.iter().any(|hop| hop.hop.gateway.is_some()),
        Target::Object(_) => true,
    }
}

/// True for one next hop whose weight says nothing: it goes without `nexthop`. Another weight is kept
/// for the siblings that may join it (`ip -6 route append`).
fn is_plain(hops: &[NextHop]) -> bool {
    matches!(hops, [NextHop { weight: 1, .. }])
}
