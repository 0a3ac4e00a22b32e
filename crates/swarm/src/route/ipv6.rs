//! What `ip -6 route` does to the routes of one prefix, as observed on a 6.18 kernel: routes with gateways and the same
//! metric form one multipath route, and only `append` looks for next hops that are already there.

use datapath::fib::{Fib, NextHop, Route, RouteType, Target};

use super::expected::{Expected, same_hop};
use super::objects::hops;
use super::steps::{RouteCase, Verb};

/// Anything but `del`.
pub fn add(list: &mut Vec<Route>, verb: Verb, route: &Route) -> Expected {
    if let Some(refused) = refusal(route) {
        return refused;
    }
    let equals = || list.iter().enumerate().filter(|(_, other)| other.metric == route.metric);
    let first = equals().next().map(|(at, _)| at);
    let alike = equals().find(|(_, other)| has_gateways(other) == has_gateways(route));
    let alike = alike.map(|(at, _)| at);
    let replaced = alike.or(first);
    match verb {
        Verb::Add if first.is_some() => return Expected::Exists,
        Verb::Append | Verb::Prepend if equals().any(|(_, other)| share_hop(other, route)) => {
            return Expected::Exists;
        }
        Verb::Append | Verb::Prepend if has_gateways(route) && alike.is_some() => {
            let there = &mut list[alike.expect("asked above")];
            let joined = hops_of(there).iter().chain(hops_of(route)).copied().collect();
            *there = Route { target: Target::Hops(joined), ..route.clone() };
            return Expected::Done;
        }
        Verb::Change if replaced.is_none() => return Expected::Missing,
        Verb::Replace | Verb::Change if replaced.is_some() => {
            list[replaced.expect("asked above")] = route.clone();
            return Expected::Done;
        }
        _ => {}
    }
    let at = list.iter().take_while(|other| other.metric <= route.metric).count();
    list.insert(at, route.clone());
    Expected::Done
}

/// `del`: with a gateway one next hop, without one a route; of several next hops all that are there.
pub fn delete(list: &mut Vec<Route>, fib: &Fib, case: &RouteCase) -> Expected {
    if case.tos != 0 {
        return Expected::Invalid;
    }
    if case.refusal.is_some() || case.hops.is_empty() {
        let fits = |route: &Route| case.object.is_none_or(|id| route.target == Target::Object(id));
        return delete_one(list, case, fits, None);
    }
    let mut fate = Expected::Done;
    for wanted in &case.hops {
        let fits = |route: &Route| {
            let there = hops(fib, &route.target);
            let first = if matches!(route.target, Target::Object(_)) { 1 } else { there.len() };
            there.iter().take(first).any(|hop| same_hop(wanted, hop))
        };
        if delete_one(list, case, fits, Some(wanted)) == Expected::Missing {
            fate = Expected::Missing;
        }
    }
    fate
}

fn delete_one(
    list: &mut Vec<Route>,
    case: &RouteCase,
    fits: impl Fn(&Route) -> bool,
    hop: Option<&super::steps::Hop>,
) -> Expected {
    let of_metric = |route: &Route| case.metric.is_none_or(|metric| metric == route.metric);
    let Some(at) = list.iter().position(|route| of_metric(route) && fits(route)) else {
        return Expected::Missing;
    };
    let left: Vec<NextHop> = match hop.filter(|hop| hop.gateway.is_some()) {
        Some(gone) => {
            hops_of(&list[at]).iter().filter(|hop| !same_hop(gone, hop)).copied().collect()
        }
        None => Vec::new(),
    };
    if left.is_empty() {
        list.remove(at);
    } else {
        list[at].target = Target::Hops(left);
    }
    Expected::Done
}

/// What is refused whatever is there.
fn refusal(route: &Route) -> Option<Expected> {
    let hops = hops_of(route);
    let repeated = |(at, hop): (usize, &NextHop)| hops[..at].iter().any(|it| it.hop == hop.hop);
    if route.tos != 0 || hops.len() > 1 && !has_gateways(route) {
        Some(Expected::Invalid)
    } else if hops.iter().enumerate().any(repeated) {
        Some(Expected::Exists)
    } else {
        None
    }
}

/// Two routes of one prefix and metric of which neither can be read back beside the other.
pub fn twins(routes: &[Route]) -> bool {
    let same_place = |one: &Route, other: &Route| {
        (one.prefix, one.table, one.metric) == (other.prefix, other.table, other.metric)
    };
    routes.iter().enumerate().any(|(at, route)| {
        let v6 = route.prefix.addr().is_ipv6();
        v6 && routes[..at].iter().any(|other| same_place(other, route) && share_hop(other, route))
    })
}

fn share_hop(one: &Route, other: &Route) -> bool {
    match (&one.target, &other.target) {
        (Target::Object(one), Target::Object(other)) => one == other,
        (Target::Hops(one), Target::Hops(other)) => {
            let both_refuse = one.is_empty() && other.is_empty();
            both_refuse || one.iter().any(|hop| other.iter().any(|there| there.hop == hop.hop))
        }
        _ => false,
    }
}

fn has_gateways(route: &Route) -> bool {
    let Target::Hops(hops) = &route.target else { return false };
    route.kind == RouteType::Unicast && hops.iter().all(|hop| hop.hop.gateway.is_some())
}

fn hops_of(route: &Route) -> &[NextHop] {
    match &route.target {
        Target::Hops(hops) => hops,
        Target::Object(_) => &[],
    }
}
