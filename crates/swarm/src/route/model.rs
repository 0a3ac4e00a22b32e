//! What the kernel's forwarding tables do, in the plainest way: lists that are searched from one end to
//! the other.

mod choice;

use core::cell::Cell;
use core::net::IpAddr;
use std::collections::BTreeMap;

use datapath::fib::nexthop::Object;
use datapath::fib::{
    Action, Algorithm, Decision, Fib, HashInput, Hop, NextHop, Prefix, Route, RouteKey, RouteType,
    Scope, TableId, Target,
};

use datapath::units::Instant;

use super::expected::{Expected, same_hop};
use super::ipv6;
use super::objects::{blackhole, hops, is_resilient};
use super::rule::{TOS, fits_rule};
use super::steps::{RouteCase, Verb};
use super::values::masked;

/// The routes of one prefix in one table, in the order in which they are asked.
type Lists = BTreeMap<(u32, Prefix), Vec<Route>>;

/// Routes, in lists.
#[derive(Clone, Debug, Default)]
pub struct Model {
    lists: Lists,
    /// The addresses of this node: interface, address, length.
    pub addresses: Vec<(u16, IpAddr, u8)>,
    /// State of the interfaces.
    pub links: Vec<LinkState>,
    /// Next routers that do not answer.
    pub silent: Vec<Hop>,
    /// `fib_multipath_use_neigh`.
    pub use_neigh: bool,
    /// Group and bucket that the last answer came from.
    pub bucket: Cell<Option<(u32, u16)>>,
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Administratively up.
    pub up: bool,
    /// With a carrier.
    pub carrier: bool,
    /// `ignore_routes_with_linkdown` of IPv4 and IPv6.
    pub ignore: [bool; 2],
}

/// The possible answers to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This one.
    Only(Decision),
    /// One of these hops: the choice keeps a state of its own.
    OneOf(Vec<Hop>),
}

impl Model {
    /// Interfaces that are up.
    pub fn new(ports: u8) -> Self {
        let link = LinkState { up: true, carrier: true, ignore: [false; 2] };
        Self { links: vec![link; ports.into()], ..Self::default() }
    }

    /// Takes the routes as they are now: after what the model does not know the meaning of.
    pub fn copy_routes(&mut self, fib: &Fib) {
        self.lists = lists_of(fib);
    }

    /// Routes go with objects that are gone.
    pub fn lose_objects(&mut self, fib: &Fib) {
        let lost = |target: &Target| matches!(*target, Target::Object(id) if fib.objects().get(id).is_none());
        self.lists.values_mut().for_each(|list| list.retain(|route| !lost(&route.target)));
        self.lists.retain(|_, list| !list.is_empty());
    }

    /// The first list that differs from what the tables say.
    pub fn difference(&self, fib: &Fib) -> Option<String> {
        let there = lists_of(fib);
        let keys = self.lists.keys().chain(there.keys());
        let differs = |key: &&(u32, Prefix)| self.lists.get(key) != there.get(key);
        keys.clone().find(differs).map(|key| {
            let shown = |lists: &Lists| lists.get(key).map_or("none".into(), |l| format!("{l:?}"));
            format!(
                "table {}, {:?}: expected {}, there are {}",
                key.0,
                key.1,
                shown(&self.lists),
                shown(&there)
            )
        })
    }

    /// Carries out a command on a route (`fib_table_insert`, `fib_table_delete`); `None` if its meaning
    /// isn't known here.
    pub fn change(
        &mut self,
        fib: &Fib,
        verb: Verb,
        case: &RouteCase,
        route: Option<&Route>,
    ) -> Option<Expected> {
        let fate = if case.addr.is_ipv6() {
            Some(self.change_v6(fib, verb, case, route?))
        } else if verb == Verb::Del {
            self.delete(case)
        } else {
            Some(self.change_v4(verb, route?))
        };
        self.lists.retain(|_, list| !list.is_empty());
        fate
    }

    fn change_v6(&mut self, fib: &Fib, verb: Verb, case: &RouteCase, route: &Route) -> Expected {
        let list = self.lists.entry((route.table.0, route.prefix)).or_default();
        match verb {
            Verb::Del => ipv6::delete(list, fib, case),
            verb => ipv6::add(list, verb, route),
        }
    }

    fn change_v4(&mut self, verb: Verb, route: &Route) -> Expected {
        let list = self.lists.entry((route.table.0, route.prefix)).or_default();
        let same = |other: &&Route| other.tos == route.tos && other.metric == route.metric;
        let first = list.iter().position(|other| same(&other));
        let twin = list.iter().position(|other| other == route);
        match (verb, first) {
            (Verb::Add, Some(_)) => Expected::Exists,
            (Verb::Append | Verb::Prepend, Some(_)) if twin.is_some() => Expected::Exists,
            (Verb::Replace | Verb::Change, Some(first)) => match twin {
                Some(twin) if twin != first => Expected::Exists,
                Some(_) => Expected::Done,
                None => {
                    list[first] = route.clone();
                    Expected::Done
                }
            },
            (Verb::Change, None) => Expected::Missing,
            (Verb::Prepend, Some(first)) => {
                list.insert(first, route.clone());
                Expected::Done
            }
            _ => {
                // Higher TOS first, then lower metrics; equals in the order they came.
                let before = |other: &Route| {
                    (core::cmp::Reverse(other.tos), other.metric)
                        <= (core::cmp::Reverse(route.tos), route.metric)
                };
                let at = list.iter().take_while(|other| before(other)).count();
                list.insert(at, route.clone());
                Expected::Done
            }
        }
    }

    /// Whether a next hop of a route has an interface that is down: such a route is not to be had (`ENETDOWN`).
    pub fn uses_down_interface(&self, case: &RouteCase) -> bool {
        let down = |port: u8| self.links.get(usize::from(port)).is_some_and(|link| !link.up);
        case.hops.iter().any(|hop| down(hop.port))
    }

    /// Whether all interfaces of a next-hop object are down or without a carrier: the kernel has deleted it (`nexthop_flush_dev`).
    pub fn is_dead(&self, object: &Object) -> bool {
        let paths = object.paths().paths();
        let down = |port: u16| {
            self.links.get(usize::from(port)).is_some_and(|link| !link.up || !link.carrier)
        };
        !object.is_blackhole() && !paths.is_empty() && paths.iter().all(|it| down(it.hop.port))
    }

    /// One of many routes comes or goes; whether it does.
    pub fn one_of_many(&mut self, add: bool, route: &Route) -> bool {
        let list = self.lists.entry((route.table.0, route.prefix)).or_default();
        let same = |other: &Route| other.tos == route.tos && other.metric == route.metric;
        let done = if add {
            let is_new = !list.iter().any(same);
            let before = |other: &Route| other.tos > route.tos || other.metric <= route.metric;
            let at = list.iter().take_while(|other| before(other)).count();
            is_new.then(|| list.insert(at, route.clone())).is_some()
        } else {
            list.iter().position(|other| other == route).map(|at| list.remove(at)).is_some()
        };
        if list.is_empty() {
            self.lists.remove(&(route.table.0, route.prefix));
        }
        done
    }

    fn delete(&mut self, case: &RouteCase) -> Option<Expected> {
        if case.hops.len() > 1 {
            return None;
        }
        let prefix = Prefix::new(case.addr, case.len).ok()?;
        let kind = case.refusal.as_deref().map(refusal);
        let fits = |route: &Route| {
            let target = match &route.target {
                Target::Object(id) => case.hops.is_empty() && case.object.is_none_or(|o| o == *id),
                Target::Hops(hops) => {
                    case.object.is_none()
                        && (case.hops.is_empty()
                            || hops.len() == 1 && same_hop(&case.hops[0], &hops[0]))
                }
            };
            route.tos == case.tos
                && case.metric.is_none_or(|metric| metric == route.metric)
                && kind.is_none_or(|kind| kind == route.kind)
                && target
        };
        let list = self.lists.entry((case.table, prefix)).or_default();
        let fate = match list.iter().position(fits) {
            Some(at) => {
                list.remove(at);
                Expected::Done
            }
            None => Expected::Missing,
        };
        Some(fate)
    }

    /// A prefix of some route, for questions that shall hit.
    pub fn prefix(&self, number: u64) -> Option<Prefix> {
        let count = self.lists.len() as u64;
        let (_, prefix) = self.lists.keys().nth(number.checked_rem(count)? as usize)?;
        Some(*prefix)
    }

    /// The answer to a question: rules in order, in each table the longest prefix with a route that
    /// fits and has a next hop in service.
    pub fn answer(&self, fib: &Fib, now: Instant, key: &RouteKey, flow: &HashInput) -> Answer {
        self.bucket.set(None);
        let rules = fib.rules(key.dst.is_ipv6());
        let mut index = 0;
        while let Some(rule) = rules.get(index) {
            index += 1;
            if fits_rule(rule, key) == rule.invert {
                continue;
            }
            let refuse = |decision| Answer::Only(decision);
            match rule.action {
                Action::Table(table) => match self.route(fib, table, key) {
                    None => {}
                    Some(route) if route.kind == RouteType::Throw => {}
                    Some(route) if refused(route.kind).is_some() => {
                        return refuse(refused(route.kind).expect("asked above"));
                    }
                    Some(route)
                        if rule.suppress_prefix_len.is_some_and(|l| route.prefix.len() <= l) => {}
                    Some(route) => return self.choose(fib, now, route, key, flow),
                },
                Action::Goto(priority) => {
                    let target = rules.iter().position(|rule| rule.priority == priority);
                    if let Some(target) = target.filter(|target| *target >= index) {
                        index = target;
                    }
                }
                Action::Nop => {}
                Action::Blackhole => return refuse(Decision::Blackhole),
                Action::Unreachable => return refuse(Decision::NoRoute),
                Action::Prohibit => return refuse(Decision::Prohibit),
            }
        }
        Answer::Only(Decision::NoRoute)
    }

    fn route(&self, fib: &Fib, table: TableId, key: &RouteKey) -> Option<&Route> {
        let fits = |route: &&Route| {
            (route.tos == 0 || route.tos == key.tos & TOS) && self.serves(fib, route, key)
        };
        let longest = if key.dst.is_ipv4() { 32 } else { 128 };
        // First address of a prefix where an IPv4 object had no next hop that serves (`goto miss` in
        // `fib_table_lookup`): no prefix that begins there is asked any more.
        let mut missed = None;
        let best = (0..=longest).rev().find_map(|len| {
            let first = masked(key.dst, len);
            let list = self.lists.get(&(table.0, Prefix::new(first, len).ok()?))?;
            if missed == Some(first) {
                return None;
            }
            let of_tos = |route: &&Route| route.tos == 0 || route.tos == key.tos & TOS;
            let is_object = |route: &Route| matches!(route.target, Target::Object(_));
            let ends = |route: &&Route| fits(route) || key.dst.is_ipv4() && is_object(route);
            let found = list.iter().filter(of_tos).find(ends)?;
            missed = (!fits(&found)).then_some(first);
            Some(found).filter(fits)
        });
        best.map(|best| self.preferred(fib, best, key).unwrap_or(best))
    }

    /// The route that takes the place of one found, because it differs in nothing but in leading over
    /// the interface that was asked for and need not be (`rt6_score_route`).
    fn preferred(&self, fib: &Fib, found: &Route, key: &RouteKey) -> Option<&Route> {
        let port = key.oif.filter(|_| demanded(key).is_none())?;
        let list = self.lists.get(&(found.table.0, found.prefix))?;
        let leads = |route: &Route| {
            let hops = hops(fib, &route.target);
            blackhole(fib, &route.target)
                || self.in_service(&hops, route).any(|hop| hop.hop.port == port)
        };
        let refuses = |kind| kind == RouteType::Throw || refused(kind).is_some();
        list.iter().find(|route| {
            !refuses(found.kind)
                && !refuses(route.kind)
                && (route.metric, route.tos) == (found.metric, found.tos)
                && leads(route)
        })
    }

    /// Whether a route that fits is taken.
    fn serves(&self, fib: &Fib, route: &Route, key: &RouteKey) -> bool {
        let refusal = matches!(route.kind, RouteType::Throw) || refused(route.kind).is_some();
        if route.kind == RouteType::Local {
            // To who asks for its own interface, whatever the state of that.
            return demanded(key).is_none()
                || hops(fib, &route.target).iter().any(|hop| over(hop, key));
        }
        refusal
            || blackhole(fib, &route.target)
            || self.in_service(&hops(fib, &route.target), route).any(|hop| over(hop, key))
    }

    /// Whether the hop of an object is in service.
    pub fn object_serves(&self, fib: &Fib, id: u32) -> bool {
        let route = Route::object(Prefix::DEFAULT_V4, id);
        hops(fib, &route.target).iter().any(|hop| self.usable(hop, &route))
    }

    fn in_service<'a>(
        &'a self,
        hops: &'a [NextHop],
        route: &'a Route,
    ) -> impl Iterator<Item = &'a NextHop> {
        hops.iter().filter(|hop| self.usable(hop, route))
    }

    /// A next hop is in service while its interface is up, and has a carrier where that counts; one of an IPv4 route with
    /// the scope of this host always.
    fn usable(&self, hop: &NextHop, route: &Route) -> bool {
        let Some(link) = self.links.get(usize::from(hop.hop.port)) else { return true };
        let is_object = matches!(route.target, Target::Object(_));
        let v6 = route.prefix.addr().is_ipv6();
        if !v6 && !is_object && route.scope == Scope::HOST {
            return true;
        }
        link.up && (link.carrier || !is_object && !link.ignore[usize::from(v6)])
    }
}

fn lists_of(fib: &Fib) -> Lists {
    let mut lists = Lists::default();
    for route in fib.routes() {
        lists.entry((route.table.0, route.prefix)).or_default().push(route);
    }
    lists
}

fn over(hop: &NextHop, key: &RouteKey) -> bool {
    demanded(key).is_none_or(|oif| oif == hop.hop.port)
}

/// The interface that the packet must leave by: for IPv6 only while its source is open, or where the
/// destination is one of the link's (`ip6_route_output_flags_noref`).
fn demanded(key: &RouteKey) -> Option<u16> {
    let bound = match key.dst {
        IpAddr::V4(_) => true,
        IpAddr::V6(dst) => {
            let local =
                matches!(dst.segments()[0], 0xfe80..=0xfebf | 0xff00..) || dst.is_loopback();
            local || key.src.is_unspecified()
        }
    };
    key.oif.filter(|_| bound)
}

/// What a route's type refuses with.
fn refused(kind: RouteType) -> Option<Decision> {
    match kind {
        RouteType::Blackhole => Some(Decision::Blackhole),
        RouteType::Unreachable => Some(Decision::Unreachable),
        RouteType::Prohibit => Some(Decision::Prohibit),
        _ => None,
    }
}

/// The type that a word names.
pub fn refusal(word: &str) -> RouteType {
    match word {
        "blackhole" => RouteType::Blackhole,
        "unreachable" => RouteType::Unreachable,
        "prohibit" => RouteType::Prohibit,
        _ => RouteType::Throw,
    }
}
