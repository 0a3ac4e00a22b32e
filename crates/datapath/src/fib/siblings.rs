//! IPv6 routes of one prefix and metric: those with gateways of their own are one route of several next
//! hops (`fib6_nsiblings`), and no next hop is there twice.

use super::Fib;
use super::error::FibError;
use super::filter::RouteFilter;
use super::key::Hop;
use super::route::{NextHop, Route, RouteType, Target};
use super::table::Alias;

/// Whether an IPv6 route becomes one with others of its metric (`rt6_qualify_for_ecmp`): it has gateways
/// of its own.
pub(super) fn qualifies_for_ecmp(kind: RouteType, target: &Target) -> bool {
    let Target::Hops(hops) = target else { return false };
    kind == RouteType::Unicast && hops.iter().all(|hop| hop.hop.gateway.is_some())
}

/// What IPv6 refuses of any new route: a TOS, and one next hop twice (`rtm_to_fib6_config`,
/// `ip6_route_info_append`).
pub(super) fn check(route: &Route) -> Result<(), FibError> {
    if route.tos != 0 {
        return Err(FibError::TosInIpv6);
    }
    let Target::Hops(hops) = &route.target else { return Ok(()) };
    let twice = |(index, hop): (usize, &NextHop)| holds(&hops[..index], hop.hop);
    if hops.iter().enumerate().any(twice) { Err(FibError::Exists) } else { Ok(()) }
}

/// Whether two routes lead to the same next hop (`rt6_duplicate_nexthop`): all that refuse lead over the
/// loopback interface, objects are compared by their numbers.
pub(super) fn share_a_hop(one: &Target, other: &Target) -> bool {
    match (one, other) {
        (Target::Object(one), Target::Object(other)) => one == other,
        (Target::Hops(one), Target::Hops(other)) => {
            one.is_empty() && other.is_empty() || one.iter().any(|hop| holds(other, hop.hop))
        }
        _ => false,
    }
}

fn holds(hops: &[NextHop], hop: Hop) -> bool {
    hops.iter().any(|there| there.hop == hop)
}

impl Fib {
    /// `ip -6 route append` to siblings that are there; false, and nothing done, if there are none.
    pub(super) fn join_siblings(&mut self, route: &Route) -> bool {
        let Target::Hops(added) = &route.target else { return false };
        if !qualifies_for_ecmp(route.kind, &route.target) {
            return false;
        }
        let there =
            self.equals(route).find(|alias| qualifies_for_ecmp(alias.kind, &self.target(alias)));
        let Some(Target::Hops(hops)) = there.map(|alias| self.target(alias)) else { return false };
        let hops = hops.iter().chain(added).copied().collect();
        self.exchange(&Route { target: Target::Hops(hops), ..route.clone() })
    }

    /// `ip -6 route del` (`ip6_route_del`): a gateway takes its own next hop out of the siblings, anything
    /// else the whole route. Of several next hops (`ip6_route_multipath_del`) those that exist go, though
    /// others do not exist.
    pub(super) fn delete_siblings(&mut self, wanted: &RouteFilter) -> Result<(), FibError> {
        if wanted.tos != 0 {
            return Err(FibError::TosInIpv6);
        }
        let hops = match &wanted.target {
            // Of a route that refuses there are none to name.
            Some(Target::Hops(hops)) if !hops.is_empty() => hops,
            _ => return self.remove(wanted),
        };
        let mut outcome = Ok(());
        for hop in hops {
            let one = RouteFilter { target: Some(Target::Hops(vec![*hop])), ..wanted.clone() };
            outcome = self.delete_hop(&one, hop.hop).and(outcome);
        }
        outcome
    }

    fn delete_hop(&mut self, wanted: &RouteFilter, hop: Hop) -> Result<(), FibError> {
        let route = self.first_match(wanted).ok_or(FibError::NoSuchRoute)?;
        match &route.target {
            Target::Hops(hops) if hop.gateway.is_some() && hops.len() > 1 => {
                let left = hops.iter().filter(|there| there.hop != hop).copied().collect();
                let changed = self.exchange(&Route { target: Target::Hops(left), ..route.clone() });
                debug_assert!(changed, "siblings lie where they were found");
                Ok(())
            }
            _ => self.remove(wanted),
        }
    }

    /// The first route that `ip route del` means.
    fn first_match(&self, wanted: &RouteFilter) -> Option<Route> {
        let fits =
            |alias: &&Alias| wanted.matches(alias, self.infos.get(alias.info), &self.objects);
        let alias = self.aliases(wanted.prefix, wanted.table).find(fits)?;
        Some(self.infos.get(alias.info).route(wanted.prefix, wanted.table, alias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fib::Prefix;
    use core::net::IpAddr;

    fn prefix() -> Prefix {
        "2001:db8::/32".parse().expect("a prefix")
    }

    fn hop(port: u16, gateway: &str) -> NextHop {
        NextHop::new(port, gateway.parse::<IpAddr>().ok())
    }

    fn route(hops: &[NextHop]) -> Route {
        Route { scope: crate::fib::Scope::UNIVERSE, ..Route::new(prefix(), hops.to_vec()) }
    }

    fn targets(fib: &Fib) -> Vec<Target> {
        fib.routes().into_iter().map(|route| route.target).collect()
    }

    /// As a 6.18 kernel was seen to do.
    #[test]
    fn no_next_hop_is_appended_twice() {
        let mut fib = Fib::new();
        fib.append(route(&[hop(1, "fe80::1")])).unwrap();
        fib.append(route(&[hop(1, "fe80::2")])).unwrap();
        fib.append(route(&[hop(1, "")])).unwrap();
        fib.append(Route::refusal(prefix(), RouteType::Prohibit)).unwrap();
        let before = targets(&fib);
        for twice in [
            route(&[hop(1, "fe80::2")]),
            route(&[hop(2, "fe80::9"), hop(1, "fe80::1")]),
            route(&[hop(1, "")]),
            Route::refusal(prefix(), RouteType::Unreachable),
        ] {
            assert_eq!(fib.append(twice.clone()), Err(FibError::Exists), "{twice:?}");
            assert_eq!(fib.prepend(twice), Err(FibError::Exists));
        }
        assert_eq!(targets(&fib), before);
    }

    #[test]
    fn next_hops_differ_and_there_is_no_tos() {
        let mut fib = Fib::new();
        let twice = route(&[hop(1, "fe80::1"), hop(1, "fe80::1").weight(3)]);
        assert_eq!(fib.replace(twice), Err(FibError::Exists));
        let tos = Route { tos: 0x10, ..route(&[hop(1, "fe80::1")]) };
        assert_eq!(fib.add(tos), Err(FibError::TosInIpv6));
        assert!(fib.routes().is_empty());
    }

    /// `ip -6 route flush` names each route by what it is.
    #[test]
    fn a_route_that_refuses_is_deleted_by_its_target() {
        let mut fib = Fib::new();
        let refusal = Route::refusal(prefix(), RouteType::Unreachable);
        fib.add(refusal).unwrap();
        let there = fib.routes().remove(0);
        assert_eq!(fib.delete(&RouteFilter::exactly(&there)), Ok(()));
        assert!(fib.routes().is_empty());
        assert_eq!(fib.delete(&RouteFilter::exactly(&there)), Err(FibError::NoSuchRoute));
    }

    #[test]
    fn a_gateway_takes_its_own_next_hop_out_and_a_device_the_whole_route() {
        let mut fib = Fib::new();
        let three = [hop(1, "fe80::1"), hop(2, "fe80::2"), hop(3, "fe80::3")];
        let of = |hops: &[NextHop]| RouteFilter {
            target: Some(Target::Hops(hops.to_vec())),
            ..RouteFilter::any(prefix())
        };
        fib.add(route(&three)).unwrap();
        assert_eq!(fib.delete(&of(&[hop(2, "fe80::9")])), Err(FibError::NoSuchRoute));
        fib.delete(&of(&[hop(2, "fe80::2")])).unwrap();
        assert_eq!(targets(&fib), [Target::Hops(vec![three[0], three[2]])]);
        let one_of_two = of(&[hop(2, "fe80::9"), hop(3, "fe80::3")]);
        assert_eq!(fib.delete(&one_of_two), Err(FibError::NoSuchRoute));
        assert_eq!(targets(&fib), [Target::Hops(vec![three[0]])], "what was there is gone");
        fib.replace(route(&three)).unwrap();
        fib.delete(&of(&[hop(2, "")])).unwrap();
        assert!(fib.routes().is_empty());
    }
}
