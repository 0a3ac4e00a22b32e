//! `ip route add`, `append`, `prepend`, `replace`, `change`, `del`.

use super::Fib;
use super::error::FibError;
use super::filter::RouteFilter;
use super::links::apply_link_to_route;
use super::route::{Prefix, Protocol, Route, RouteType, TableId, Target};
use super::siblings::{self, qualifies_for_ecmp, share_a_hop};
use super::table::{Alias, InsertAt, bits};

/// Metric of an IPv6 route that was given none (`IP6_RT_PRIO_USER`).
pub const DEFAULT_METRIC_V6: u32 = 1024;

impl Fib {
    /// `ip route add`: a route whose prefix, TOS and metric are new.
    pub fn add(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        if self.equals(&route).next().is_some() {
            return Err(FibError::Exists);
        }
        self.put(&route, InsertAt::After);
        Ok(())
    }

    /// `ip route append`: a further route of the same prefix, after its equals.
    pub fn append(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        self.refuse_twin(&route)?;
        if route.prefix.addr().is_ipv4() || !self.join_siblings(&route) {
            self.put(&route, InsertAt::After);
        }
        Ok(())
    }

    /// `ip route prepend`: a further route of the same prefix, before its equals; in IPv6 the same as
    /// `append`.
    pub fn prepend(&mut self, route: Route) -> Result<(), FibError> {
        if route.prefix.addr().is_ipv6() {
            // `fib6_add_rt2node()` asks for `NLM_F_EXCL` and `NLM_F_REPLACE` only.
            return self.append(route);
        }
        let route = self.checked(route)?;
        self.refuse_twin(&route)?;
        self.put(&route, InsertAt::Before);
        Ok(())
    }

    /// `ip route replace`: takes the place of the first route with the same prefix, TOS and
    /// metric, in one step; or adds it.
    pub fn replace(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        self.refuse_later_twin(&route)?;
        if !self.exchange(&route) {
            self.put(&route, InsertAt::After);
        }
        Ok(())
    }

    /// `ip route change`: as replace, but the route must exist.
    pub fn change(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        self.refuse_later_twin(&route)?;
        if self.exchange(&route) { Ok(()) } else { Err(FibError::NoSuchEntry) }
    }

    /// `ip route del`: removes the first route that has this prefix, TOS and table and fits
    /// whatever else is given; in IPv6 a next hop of it alone, if one with a gateway is given.
    pub fn delete(&mut self, wanted: &RouteFilter) -> Result<(), FibError> {
        if wanted.prefix.addr().is_ipv6() {
            return self.delete_siblings(wanted);
        }
        self.remove(wanted)
    }

    /// Removes the first route that fits.
    pub(super) fn remove(&mut self, wanted: &RouteFilter) -> Result<(), FibError> {
        let (infos, objects) = (&self.infos, &self.objects);
        let fits = |alias: &Alias| wanted.matches(alias, infos.get(alias.info), objects);
        let removed = if wanted.prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&wanted.prefix);
            self.v4.table_mut(wanted.table).remove(key, len, fits)
        } else {
            let (key, len) = bits::<u128>(&wanted.prefix);
            self.v6.table_mut(wanted.table).remove(key, len, fits)
        };
        let removed = removed.ok_or(FibError::NoSuchRoute)?;
        self.infos.release(removed.info);
        Ok(())
    }

    /// The route with defaults filled in, or what is wrong with it.
    fn checked(&self, mut route: Route) -> Result<Route, FibError> {
        // The kernel's own routes to its addresses have metric 0 (`addrconf_f6i_alloc`).
        let own = matches!(route.kind, RouteType::Local | RouteType::Anycast)
            && route.protocol == Protocol::KERNEL;
        if route.prefix.addr().is_ipv6() && route.metric == 0 && !own {
            route.metric = DEFAULT_METRIC_V6;
        }
        if route.prefix.addr().is_ipv6() {
            siblings::check(&route)?;
        }
        let hops = match &route.target {
            Target::Hops(hops) => hops,
            Target::Object(id) => return self.check_object(*id, &route).map(|()| route),
        };
        if hops.is_empty() != route.kind.is_refusal() {
            return Err(FibError::InvalidNextHops);
        }
        for hop in hops {
            if !(1..=256).contains(&hop.weight) {
                return Err(FibError::InvalidWeight);
            }
        }
        Ok(route)
    }

    /// An object must be there, and IPv6 uses none of IPv4; IPv4 may use one of IPv6
    /// (`fib_check_nexthop`, `fib6_check_nexthop`).
    fn check_object(&self, id: u32, route: &Route) -> Result<(), FibError> {
        if self.objects.get(id).is_none() {
            return Err(FibError::NoSuchObject);
        }
        if route.prefix.addr().is_ipv6() && self.objects.has_v4(id) {
            return Err(FibError::Ipv4ObjectInIpv6);
        }
        Ok(())
    }

    pub(super) fn aliases(&self, prefix: Prefix, table: TableId) -> impl Iterator<Item = &Alias> {
        let (v4, v6) = if prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&prefix);
            (self.v4.table(table).map(|table| table.exact(key, len)), None)
        } else {
            let (key, len) = bits::<u128>(&prefix);
            (None, self.v6.table(table).map(|table| table.exact(key, len)))
        };
        v4.or(v6).into_iter().flatten()
    }

    /// The routes that `add` takes for the same: of one prefix, table, TOS and metric.
    pub(super) fn equals(&self, route: &Route) -> impl Iterator<Item = &Alias> {
        let (tos, metric) = (route.tos, route.metric);
        self.aliases(route.prefix, route.table)
            .filter(move |alias| alias.tos == tos && alias.metric == metric)
    }

    /// No route is there twice; in IPv6 no next hop is.
    fn refuse_twin(&self, route: &Route) -> Result<(), FibError> {
        let there = if route.prefix.addr().is_ipv6() {
            self.equals(route).any(|alias| share_a_hop(&self.target(alias), &route.target))
        } else {
            self.equals(route).any(self.is_the_same(route))
        };
        if there { Err(FibError::Exists) } else { Ok(()) }
    }

    /// An IPv4 route that exists further back among its equals takes no other's place
    /// (`fib_table_insert`).
    fn refuse_later_twin(&self, route: &Route) -> Result<(), FibError> {
        let v4 = route.prefix.addr().is_ipv4();
        if v4 && self.equals(route).skip(1).any(self.is_the_same(route)) {
            return Err(FibError::Exists);
        }
        Ok(())
    }

    /// Whether an equal of a route is that route.
    fn is_the_same(&self, route: &Route) -> impl Fn(&Alias) -> bool + use<> {
        let (kind, info) = (route.kind, self.infos.find(route));
        move |alias| alias.kind == kind && Some(alias.info) == info
    }

    pub(super) fn target(&self, alias: &Alias) -> Target {
        self.infos.get(alias.info).target()
    }

    fn obtain_info(&mut self, route: &Route) -> u32 {
        let links = &self.links;
        self.infos.obtain(route, |shared, paths| {
            paths.update(|path| apply_link_to_route(links, shared, path));
        })
    }

    fn put(&mut self, route: &Route, place: InsertAt) {
        let alias = Alias::of(route, self.obtain_info(route));
        if route.prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&route.prefix);
            self.v4.table_mut(route.table).insert(key, len, place, alias);
        } else {
            let (key, len) = bits::<u128>(&route.prefix);
            self.v6.table_mut(route.table).insert(key, len, place, alias);
        }
    }

    /// The equal whose place a route takes: the first one; in IPv6 the first that takes siblings if the
    /// route does, or does not if it does not, before all others (`fib6_add_rt2node`).
    fn chosen(&self, route: &Route) -> Option<Alias> {
        let alike = |alias: &&Alias| {
            qualifies_for_ecmp(alias.kind, &self.target(alias))
                == qualifies_for_ecmp(route.kind, &route.target)
        };
        let v6 = route.prefix.addr().is_ipv6();
        let sibling = self.equals(route).find(|alias| v6 && alike(alias));
        sibling.or_else(|| self.equals(route).next()).copied()
    }

    /// Puts the route in the place of one of its equals; false if there is none.
    pub(super) fn exchange(&mut self, route: &Route) -> bool {
        let Some(chosen) = self.chosen(route) else { return false };
        let v6 = route.prefix.addr().is_ipv6();
        let info = self.obtain_info(route);
        let wanted = |alias: &Alias| *alias == chosen;
        let before = if v6 {
            let (key, len) = bits::<u128>(&route.prefix);
            self.v6.table_mut(route.table).change(key, len, wanted, route.kind, info)
        } else {
            let (key, len) = bits::<u32>(&route.prefix);
            self.v4.table_mut(route.table).change(key, len, wanted, route.kind, info)
        };
        self.infos.release(before.expect("chosen above").info);
        true
    }
}
