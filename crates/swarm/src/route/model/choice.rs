//! Which of a route's next hops the hash of a packet chooses.

use super::{
    Algorithm, Answer, Decision, Fib, HashInput, Instant, IpAddr, Model, NextHop, Route, RouteKey,
    RouteType, Target, blackhole, demanded, hops, is_resilient, masked, over,
};

impl Model {
    pub(super) fn choose(
        &self,
        fib: &Fib,
        now: Instant,
        route: &Route,
        key: &RouteKey,
        flow: &HashInput,
    ) -> Answer {
        if matches!(route.kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast) {
            return Answer::Only(Decision::Local);
        }
        if blackhole(fib, &route.target) {
            return Answer::Only(Decision::Blackhole);
        }
        let all = hops(fib, &route.target);
        let first = self.in_service(&all, route).find(|hop| over(hop, key));
        let only = |hop: Option<&NextHop>| {
            Answer::Only(hop.map_or(Decision::NoRoute, |hop| Decision::Forward(hop.hop)))
        };
        let v6_group = key.dst.is_ipv6() && matches!(route.target, Target::Object(_));
        // The bucket of a group of one is used by IPv6 only (`fib_select_path`, `fib6_select_path`).
        let v6_bucket = v6_group && is_resilient(fib, &route.target);
        if all.len() == 1 && !v6_bucket || demanded(key).is_some() && key.dst.is_ipv4() {
            return only(first);
        }
        let hash = match route.target {
            Target::Object(_) => fib.hash(flow),
            Target::Hops(_) => fib.route_hash(route.algorithm, flow).unwrap_or(0),
        };
        let hash31 = u64::from(hash >> 1);
        let is_object = matches!(route.target, Target::Object(_));
        if demanded(key).is_some() && !v6_group {
            // Of several hops over the interface the hash's choice counts if it is one of them.
            let chosen =
                self.regions(&all, route).find(|(_, end)| u64::from(fib.hash(flow) >> 1) < *end);
            let several = all.iter().filter(|hop| over(hop, key)).count() > 1;
            let chosen = chosen.map(|(hop, _)| hop).filter(|hop| several && over(hop, key));
            return only(chosen.or(first));
        }
        match route.algorithm {
            _ if is_object && is_resilient(fib, &route.target) => {
                only(self.by_bucket(fib, now, &route.target, hash31).as_ref())
            }
            Algorithm::PerPacket | Algorithm::Credit if !is_object => {
                Answer::OneOf(self.in_service(&all, route).map(|hop| hop.hop).collect())
            }
            Algorithm::Modulo if !is_object => only(self.by_share(hash31, &all, route)),
            Algorithm::System => only(self.by_threshold(hash31, &all, route, key)),
            _ if is_object => only(self.by_threshold(hash31, &all, route, key)),
            _ => only(self.regions(&all, route).find(|(_, end)| hash31 < *end).map(|(hop, _)| hop)),
        }
    }

    /// Hash-threshold (RFC 2992): the hash space is cut in proportion to the weights of the hops in
    /// service, each region ending at the rounded share of 2³¹.
    pub fn regions<'a>(
        &'a self,
        hops: &'a [NextHop],
        route: &'a Route,
    ) -> impl Iterator<Item = (&'a NextHop, u64)> + 'a {
        let total: u64 = self.in_service(hops, route).map(|hop| u64::from(hop.weight)).sum();
        let mut so_far = 0;
        self.in_service(hops, route).map(move |hop| {
            so_far += u64::from(hop.weight);
            // Half of the divisor is added before dividing: DIV_ROUND_CLOSEST.
            (hop, ((so_far << 31) + total / 2) / total)
        })
    }

    /// `fib_select_multipath`: the first region that the hash does not lie beyond; where the state of
    /// neighbours counts, without those that do not answer, and from the last round to the first.
    fn by_threshold<'a>(
        &'a self,
        hash: u64,
        hops: &'a [NextHop],
        route: &'a Route,
        key: &RouteKey,
    ) -> Option<&'a NextHop> {
        let is_object = matches!(route.target, Target::Object(_));
        let heed = is_object || self.use_neigh && key.src.is_ipv4();
        let answers = |hop: &NextHop| !heed || !self.silent.contains(&hop.hop);
        let made_here = !is_object && key.iif.is_none() && key.src.is_ipv4();
        let gives =
            |hop: &NextHop| made_here && self.source_of(hop) == Some(key.src) && answers(hop);
        let some_give = self.in_service(hops, route).any(gives);
        let good = |hop: &NextHop| if some_give { gives(hop) } else { answers(hop) };
        let mut regions = self.regions(hops, route).filter(|(hop, _)| good(hop));
        let found = regions.find(|(_, end)| hash < *end).map(|(hop, _)| hop);
        found
            .or_else(|| self.in_service(hops, route).find(|hop| good(hop)))
            .or_else(|| self.in_service(hops, route).next())
    }

    /// The hop that owns the bucket which the hash falls into.
    fn by_bucket(&self, fib: &Fib, now: Instant, target: &Target, hash: u64) -> Option<NextHop> {
        let Target::Object(id) = target else { return None };
        let buckets: Vec<u32> = fib.buckets(now, *id)?.map(|bucket| bucket.id).collect();
        let index = (hash as usize).checked_rem(buckets.len())?;
        self.bucket.set(Some((*id, index as u16)));
        hops(fib, &Target::Object(*buckets.get(index)?)).first().copied()
    }

    fn by_share<'a>(
        &'a self,
        hash: u64,
        hops: &'a [NextHop],
        route: &'a Route,
    ) -> Option<&'a NextHop> {
        let turns = |hop: &'a NextHop| core::iter::repeat_n(hop, usize::from(hop.weight));
        let turns: Vec<&NextHop> = self.in_service(hops, route).flat_map(turns).collect();
        turns.get((hash as usize).checked_rem(turns.len())?).copied()
    }

    /// The source that a hop gives to what has none (`inet_select_addr`): of the interface's addresses the
    /// first whose network has the gateway, else the first; else the first of any other interface.
    fn source_of(&self, hop: &NextHop) -> Option<IpAddr> {
        let v4 = self.addresses.iter().filter(|(_, addr, _)| addr.is_ipv4());
        let here: Vec<_> = v4.clone().filter(|(port, ..)| *port == hop.hop.port).collect();
        let gateway = hop.hop.gateway.filter(IpAddr::is_ipv4);
        let near = here.iter().find(|(_, addr, len)| {
            gateway.is_some_and(|gateway| masked(gateway, *len) == masked(*addr, *len))
        });
        let first = near.or(here.first()).copied();
        first.or_else(|| v4.clone().find(|(_, addr, _)| !addr.is_loopback())).map(|it| it.1)
    }
}
