//! From a key to a next hop: rules, table, prefix, usable route, one of its next hops.

use super::family::{FoundRoute, LookupResult, Query, first_path};
use super::flow::HashInput;
use super::hash;
use super::info::Info;
use super::key::{Decision, Hop, RouteKey};
use super::multipath::{Path, PathSet};
use super::nexthop::{Object, ObjectConfig};
use super::route::{Algorithm, Prefix, Route, RouteType, TableId, Target};
use super::rules::Rule;
use super::source::{self, Own};
use super::table::Alias;
use super::{Fib, Hashed};
use crate::units::Instant;
use core::net::IpAddr;

/// Keys that are looked up together; more than the cache misses that a processor can have outstanding.
const TOGETHER: usize = 32;

/// If only the destination [decides](Fib::decides_by_destination) about the route: what remains to be
/// chosen for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nothing.
    None,
    /// One of the route's own next hops.
    Among(Candidates),
    /// A next-hop object, which records each use.
    Object,
}

/// The next hops of a route, as long as the routes do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidates(u32);

impl Candidates {
    /// The number of their route's shared part.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Those that had this number.
    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// How a result was found.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// The rule that led to the table.
    pub rule: &'a Rule,
    /// The route that answers, its table and prefix among its fields.
    pub route: Route,
    /// The next hops in order with their bounds; empty where none is needed.
    pub candidates: &'a [Path],
    /// The 32-bit hash that chooses among several next hops, if a hash does.
    pub hash: Option<u32>,
    /// Bucket of a resilient group, and how many there are.
    pub bucket: Option<(u32, u32)>,
}

impl Fib {
    /// Where a packet made here goes, or what `ip route get` answers: the hash is that of the
    /// key's own fields, and no bucket of a resilient group counts as used.
    #[inline]
    pub fn lookup(&self, key: &RouteKey) -> Decision {
        self.decide(None, key, || HashInput::from(key))
    }

    /// [`Fib::lookup`] for many keys at once. Look-ups in a large table wait for memory most of the
    /// time; here a group of them waits together.
    pub fn lookup_many(&self, keys: &[RouteKey], mut answer: impl FnMut(usize, Decision)) {
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            for key in keys {
                self.touch(key);
            }
            for (index, key) in keys.iter().enumerate() {
                answer(group * TOGETHER + index, self.lookup(key));
            }
        }
    }

    /// Prefetches the memory that the look-up of `key` will read.
    #[inline]
    fn touch(&self, key: &RouteKey) {
        if let IpAddr::V4(dst) = key.dst {
            for table in self.v4.tables() {
                core::hint::black_box(table.trie.quick(dst.to_bits()));
            }
        }
    }

    /// Where a packet goes whose hash may need more than the key says. `flow` is only called
    /// where several next hops are left to choose from.
    #[inline]
    pub fn forward(
        &self,
        now: Instant,
        key: &RouteKey,
        flow: impl FnOnce() -> HashInput,
    ) -> Decision {
        self.decide(Some(now), key, flow)
    }

    /// What [`Fib::forward`] would have to choose for packets to the destination of `key`.
    pub fn choice(&self, key: &RouteKey) -> Choice {
        let LookupResult::Route(found) = self.resolve(key, Query::Path) else {
            return Choice::None;
        };
        match found.info.object() {
            None if found.info.paths.paths().len() <= 1 => Choice::None,
            None => Choice::Among(Candidates(found.alias.info)),
            Some(_) => Choice::Object,
        }
    }

    /// [`Fib::forward`] for a key whose next hops are known ([`Fib::choice`]).
    #[inline]
    pub fn forward_among(
        &self,
        now: Instant,
        among: Candidates,
        key: &RouteKey,
        flow: impl FnOnce() -> HashInput,
    ) -> Decision {
        self.choose(Some(now), key, self.infos.get(among.0), flow)
    }

    /// Whether IPv4 packets with the same ports, addresses and protocol that pass through get the same of
    /// these next hops each time, until the routes or the settings change: the hash of policy 1 chooses.
    pub fn chooses_by_ports(&self, among: Candidates) -> bool {
        self.infos.get(among.0).algorithm() == Algorithm::System
            && self.settings.hashed(false).policy == hash::Policy::L4
    }

    #[inline]
    fn decide(
        &self,
        now: Option<Instant>,
        key: &RouteKey,
        flow: impl FnOnce() -> HashInput,
    ) -> Decision {
        match self.resolve(key, Query::Path) {
            LookupResult::Route(found) => match found.alias.kind {
                RouteType::Local | RouteType::Broadcast | RouteType::Anycast => Decision::Local,
                RouteType::Unicast
                | RouteType::Multicast
                | RouteType::Blackhole
                | RouteType::Unreachable
                | RouteType::Prohibit
                | RouteType::Throw => self.choose(now, key, found.info, flow),
            },
            LookupResult::Refuse(RouteType::Blackhole) => Decision::Blackhole,
            LookupResult::Refuse(RouteType::Prohibit) => Decision::Prohibit,
            LookupResult::Refuse(_) => Decision::Unreachable,
            LookupResult::Nothing => Decision::NoRoute,
        }
    }

    /// The route found, as configured (`RTM_F_FIB_MATCH`, `ip route get fibmatch`).
    pub fn matching(&self, key: &RouteKey) -> Option<Route> {
        let LookupResult::Route(found) = self.resolve(key, Query::Prefix) else { return None };
        let prefix = Prefix::containing(key.dst, found.prefix_len)?;
        Some(found.info.route(prefix, found.table, found.alias))
    }

    /// Where a gateway is (`fib_check_nh_v4_gw`, `ip6_route_check_nh`): what the table of its route says, if it has one, or
    /// else the rules. The carrier of links does not matter.
    pub fn gateway(&self, table: Option<TableId>, key: &RouteKey) -> Decision {
        let port = key.demanded_port();
        let fits = |path: &&Path| !path.dead && port.is_none_or(|port| port == path.hop.port);
        let good = |_: &Alias, info: &Info| self.paths(info).iter().any(|path| fits(&path));
        let infos = &self.infos;
        let found = match key.dst {
            IpAddr::V4(dst) => self.v4.gateway(infos, key, dst.to_bits(), table, good),
            IpAddr::V6(dst) => self.v6.gateway(infos, key, dst.to_bits(), table, good),
        };
        let LookupResult::Route(found) = found else { return Decision::NoRoute };
        let hop = self.paths(found.info).iter().find(fits).map(|path| path.hop);
        match found.alias.kind {
            RouteType::Local => Decision::Local,
            RouteType::Unicast => hop.map_or(Decision::NoRoute, Decision::Forward),
            _ => Decision::NoRoute,
        }
    }

    #[inline]
    fn resolve(&self, key: &RouteKey, want: Query) -> LookupResult<'_> {
        let port = key.demanded_port();
        // What is local is so only to who asks for its own interface, but whatever the state of that.
        let good = |alias: &Alias, info: &Info| {
            if alias.kind == RouteType::Local {
                port.is_none_or(|port| self.paths(info).iter().any(|path| path.hop.port == port))
            } else {
                self.serves(port, info)
            }
        };
        let near = |alias: &Alias, info: &Info| info.shared.scope >= key.scope && good(alias, info);
        let suppressed = |rule: &Rule, found: &FoundRoute<'_>| self.is_suppressed(key, rule, found);
        let infos = &self.infos;
        match key.dst {
            IpAddr::V4(dst) => self.v4.resolve(infos, key, dst.to_bits(), want, near, suppressed),
            IpAddr::V6(dst) if port == key.oif => {
                self.v6.resolve(infos, key, dst.to_bits(), want, good, suppressed)
            }
            IpAddr::V6(dst) => {
                let dst = dst.to_bits();
                let found = self.v6.resolve(infos, key, dst, Query::Prefix, good, suppressed);
                self.prefer_port(key, dst, found)
            }
        }
    }

    /// True if the rule ignores what it has found (`fib4_rule_suppress`, `fib6_rule_suppress`).
    #[cold]
    fn is_suppressed(&self, key: &RouteKey, rule: &Rule, found: &FoundRoute<'_>) -> bool {
        let is_of = |group: u32| {
            self.device(key, found.info).is_some_and(|port| self.link(port).group == group)
        };
        rule.suppress_prefix_len.is_some_and(|len| found.prefix_len <= len)
            || rule.suppress_group.is_some_and(is_of)
    }

    /// The interface that represents a route before a next hop is chosen: in IPv4 the first one, usable or
    /// not; in IPv6, which has chosen by then, that of the next hop.
    fn device(&self, key: &RouteKey, info: &Info) -> Option<u16> {
        let paths = self.paths(info);
        if info.shared.v6 && paths.len() > 1 {
            let Decision::Forward(hop) = self.choose(None, key, info, || HashInput::from(key))
            else {
                return None;
            };
            return Some(hop.port);
        }
        paths.first().map(|path| path.hop.port)
    }

    /// Among routes that differ in nothing but their next hop, the one over the interface that was
    /// asked for without being demanded (`rt6_score_route`).
    #[cold]
    fn prefer_port<'a>(
        &'a self,
        key: &RouteKey,
        dst: u128,
        found: LookupResult<'a>,
    ) -> LookupResult<'a> {
        let LookupResult::Route(found) = found else { return found };
        let table = self.v6.table(found.table).expect("a route was found in it");
        let mask = u128::MAX.checked_shl(128 - u32::from(found.prefix_len)).unwrap_or(0);
        let better = table.exact(dst & mask, found.prefix_len).find(|alias| {
            (alias.metric, alias.tos) == (found.alias.metric, found.alias.tos)
                && !alias.kind.is_refusal()
                && self.serves(key.oif, self.infos.get(alias.info))
        });
        let alias = better.unwrap_or(found.alias);
        LookupResult::Route(FoundRoute { alias, info: self.infos.get(alias.info), ..found })
    }

    /// True if some next hop of the route is in service and on the interface demanded.
    #[inline]
    fn serves(&self, port: Option<u16>, info: &Info) -> bool {
        match info.object() {
            None if port.is_none() => info.paths.is_usable(),
            None => first_path(info.paths.paths(), port).is_some(),
            Some(id) => {
                let object = self.object(id);
                object.is_blackhole() || first_path(object.paths().paths(), port).is_some()
            }
        }
    }

    fn object(&self, id: u32) -> &Object {
        self.objects.get(id).expect("routes of a deleted object are deleted with it")
    }

    /// `fib_select_path()`: one of the route's next hops.
    #[inline]
    fn choose(
        &self,
        now: Option<Instant>,
        key: &RouteKey,
        info: &Info,
        flow: impl FnOnce() -> HashInput,
    ) -> Decision {
        let path = match info.object() {
            None => self.choose_path(key, info, flow),
            Some(id) => {
                let object = self.object(id);
                if object.is_blackhole() {
                    return Decision::Blackhole;
                }
                self.choose_member(now, key, object, flow)
            }
        };
        path.map_or(Decision::NoRoute, |path| Decision::Forward(path.hop))
    }

    /// One of the route's own next hops.
    #[inline]
    fn choose_path<'a>(
        &self,
        key: &RouteKey,
        info: &'a Info,
        flow: impl FnOnce() -> HashInput,
    ) -> Option<&'a Path> {
        let paths = &info.paths;
        let port = key.demanded_port();
        if paths.paths().len() == 1 || port.is_some() {
            let first = first_path(paths.paths(), port);
            let several = key.dst.is_ipv6() && paths.paths().len() > 1;
            return if several { self.over_port(paths, first, flow) } else { first };
        }
        match info.algorithm() {
            Algorithm::System => self.by_policy(key, paths, &flow()),
            Algorithm::L3 => paths.by_hash(hash::seed_l3(self.settings.key, &flow())),
            Algorithm::L4 => paths.by_hash(hash::seed_l4(self.settings.key, &flow())),
            Algorithm::Modulo => paths.by_modulo(hash::seed_l3(self.settings.key, &flow())),
            Algorithm::PerPacket => paths.by_turn(),
            Algorithm::Credit => paths.by_credit(),
        }
    }

    /// IPv6 with an interface demanded: what the hash chooses if it lies there, else the first one
    /// that does (`fib6_select_path`).
    fn over_port<'a>(
        &self,
        paths: &'a PathSet,
        first: Option<&'a Path>,
        flow: impl FnOnce() -> HashInput,
    ) -> Option<&'a Path> {
        let there = |path: &&Path| first.is_some_and(|first| first.hop.port == path.hop.port);
        if paths.paths().iter().filter(there).count() < 2 {
            return first;
        }
        paths.by_hash(self.hash(&flow())).filter(there).or(first)
    }

    /// The choice of current kernels (`fib_select_multipath`). Only IPv4 considers neighbour state here, and prefers, for
    /// locally generated packets, next hops whose preferred source is the packet's source, if there are any.
    fn by_policy<'a>(
        &self,
        key: &RouteKey,
        paths: &'a PathSet,
        flow: &HashInput,
    ) -> Option<&'a Path> {
        let hash = self.hash(flow);
        if key.src.is_ipv6() {
            return paths.by_hash(hash);
        }
        let heed = self.settings.use_neigh && self.local_facts.is_some();
        let good = |path: &Path| !heed || self.is_reachable(path);
        if key.iif.is_none() && self.may_be_of_one_hop(key.src) {
            let wanted = |path: &Path| good(path) && self.saddr(path.hop) == Some(key.src);
            if paths.paths().iter().any(|path| path.usable && wanted(path)) {
                return paths.by_hash_among(hash, wanted);
            }
        }
        if heed { paths.by_hash_among(hash, good) } else { paths.by_hash(hash) }
    }

    /// One of the next hops of an object.
    fn choose_member<'a>(
        &self,
        now: Option<Instant>,
        key: &RouteKey,
        object: &'a Object,
        flow: impl FnOnce() -> HashInput,
    ) -> Option<&'a Path> {
        let (port, paths) = (key.demanded_port(), object.paths().paths());
        // IPv6 checks whether the group contains the interface, and then chooses without regard to it. IPv4 chooses
        // only among several next hops, and so does not use the bucket of a group of one (`fib_select_path`).
        let at_once = port.is_some() || paths.len() == 1;
        if object.members().is_empty() || at_once && key.dst.is_ipv4() {
            return first_path(paths, port);
        }
        object.select(self.hash(&flow()), now, |path| self.is_reachable(path))
    }

    /// The 32-bit hash of a flow under the present settings of its address family.
    pub fn hash(&self, flow: &HashInput) -> u32 {
        let Hashed { policy, fields } = self.settings.hashed(flow.outer.dst.is_ipv6());
        hash::hash(policy, fields, self.settings.key, flow)
    }

    fn is_reachable(&self, path: &Path) -> bool {
        let facts = self.local_facts.as_ref();
        facts.is_none_or(|facts| facts.unreachable.binary_search(&path.hop).is_err())
    }

    /// The source that a packet made here takes if it has none: the route's preferred one, or one of
    /// `own`, the node's addresses, that suits the next hop (`fib_result_prefsrc`,
    /// `ip6_route_get_saddr`).
    pub fn source(&self, key: &RouteKey, own: impl Iterator<Item = Own> + Clone) -> Option<IpAddr> {
        let LookupResult::Route(found) = self.resolve(key, Query::Path) else { return None };
        if found.alias.kind == RouteType::Local
            && (key.dst.is_ipv4() || own.clone().any(|own| own.addr == key.dst))
        {
            // Another address of ours may be the preferred one, if it is a secondary one.
            return found.info.shared.prefsrc.or(Some(key.dst));
        }
        // A whole prefix of IPv6 may be local without being addresses (`ip6_route_get_saddr`).
        let hop = match self.lookup(key) {
            Decision::Forward(hop) => self.source_hop(key, found.info).unwrap_or(hop),
            Decision::Local => found.info.paths.paths().first()?.hop,
            Decision::Blackhole
            | Decision::Unreachable
            | Decision::Prohibit
            | Decision::NoRoute => return None,
        };
        let choose = || source::select(own, hop.port, hop.gateway, key.dst);
        found.info.shared.prefsrc.or_else(choose)
    }

    /// IPv6 routes over a next-hop group take the source from the group's first usable member,
    /// whichever member the packet uses (`nexthop_mpath_select` with 0 in `nexthop_fib6_nh`).
    fn source_hop(&self, key: &RouteKey, info: &Info) -> Option<Hop> {
        let object = self.object(info.object()?);
        if key.dst.is_ipv4() || object.members().is_empty() {
            return None;
        }
        first_path(object.paths().paths(), None).map(|path| path.hop)
    }

    /// What the multipath choice for this key would be made from: the next hops in order with
    /// their bounds. Empty where a single next hop or none answers.
    pub fn candidates(&self, key: &RouteKey) -> &[Path] {
        let LookupResult::Route(found) = self.resolve(key, Query::Prefix) else { return &[] };
        self.paths(found.info)
    }

    /// The next hops of a route, or of its next-hop object.
    fn paths<'a>(&'a self, info: &'a Info) -> &'a [Path] {
        info.object().map_or(&info.paths, |id| self.object(id).paths()).paths()
    }

    /// Explains the result of [`Fib::lookup`] for this key; `None` if no
    /// route was found.
    pub fn explain(&self, key: &RouteKey) -> Option<Explanation<'_>> {
        let LookupResult::Route(found) = self.resolve(key, Query::Prefix) else { return None };
        let route = found.info.route(
            Prefix::containing(key.dst, found.prefix_len)?,
            found.table,
            found.alias,
        );
        let candidates = self.candidates(key);
        let mut bucket = None;
        let group_of_v6 = key.dst.is_ipv6() && matches!(route.target, Target::Object(_));
        let by_port = key.demanded_port().is_some() && !group_of_v6;
        let hash = match route.target {
            _ if candidates.len() < 2 || by_port => None,
            Target::Object(id) => {
                let hash = self.hash(&HashInput::from(key));
                if let ObjectConfig::Resilient(_, config) = self.object(id).config() {
                    let buckets = u32::from(config.buckets);
                    bucket = Some(((hash >> 1) % buckets, buckets));
                }
                Some(hash)
            }
            Target::Hops(_) => self.route_hash(route.algorithm, &HashInput::from(key)),
        };
        let rule = &self.rules(key.dst.is_ipv6())[found.rule as usize];
        Some(Explanation { rule, route, candidates, hash, bucket })
    }

    /// The hash by which an algorithm chooses, if it does so by one.
    pub fn route_hash(&self, algorithm: Algorithm, flow: &HashInput) -> Option<u32> {
        match algorithm {
            Algorithm::System => Some(self.hash(flow)),
            Algorithm::L3 | Algorithm::Modulo => Some(hash::seed_l3(self.settings.key, flow)),
            Algorithm::L4 => Some(hash::seed_l4(self.settings.key, flow)),
            Algorithm::PerPacket | Algorithm::Credit => None,
        }
    }
}
