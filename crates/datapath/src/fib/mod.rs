//! The forwarding information base: longest-prefix match and multipath.
//!
//! [`Fib`] answers like the kernel's IPv4 and IPv6 FIBs: rules choose a table ([`rules`]), the
//! table the longest prefix ([`trie`], [`table`]) with a route that fits and is in service
//! ([`info`]), and among several next hops the flow's hash decides ([`hash`], [`multipath`]).
//! A look-up allocates nothing and takes `&self`.

pub mod dissect;
pub mod error;
mod family;
pub mod flow;
pub mod hash;
mod info;
pub mod jhash;
pub mod multipath;
pub mod nexthop;
pub mod resilient;
pub mod route;
pub mod rules;
mod table;
pub mod trie;

pub use error::FibError;
pub use flow::{Fields, Flow};
pub use route::{
    Algorithm, Features, NextHop, Prefix, Protocol, Route, RouteType, Scope, TableId, Target,
};
pub use rules::{Action, InputPort, Rule};

use crate::units::Instant;
use core::net::IpAddr;
use family::{Family, Verdict, first_path};
use hash::{HashFields, HashKey, Policy};
use info::{Info, Infos, Shared};
use multipath::{Path, PathSet};
use nexthop::{Object, ObjectConfig, Objects};
use resilient::BucketInfo;
use table::{Address, Alias, Place, bits};

/// What a route look-up is asked (`struct flowi4` / `flowi6`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Incoming interface; `None` for locally made packets.
    pub iif: Option<u16>,
    /// Outgoing interface demanded by the socket, if any.
    pub oif: Option<u16>,
    /// DSCP and ECN byte.
    pub tos: u8,
    /// fwmark.
    pub mark: u32,
    /// Protocol number.
    pub protocol: u8,
    /// Source port, or ICMP type in the upper byte.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
}

impl RouteKey {
    /// The question where `dst` lies, with nothing else known.
    pub fn to(dst: IpAddr) -> Self {
        let src = if dst.is_ipv4() {
            IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED)
        };
        Self {
            src,
            dst,
            iif: None,
            oif: None,
            tos: 0,
            mark: 0,
            protocol: 0,
            src_port: 0,
            dst_port: 0,
            flow_label: 0,
        }
    }
}

/// The answer of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it out there.
    Forward(Hop),
    /// It is for this node.
    Local,
    /// `blackhole`: drop without a word.
    Blackhole,
    /// `unreachable`: drop and say so.
    Unreachable,
    /// `prohibit`: drop and say so.
    Prohibit,
    /// No route matches.
    NoRoute,
}

/// Where to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The port.
    pub port: u16,
    /// The next router, or `None` when the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// Bits of the TOS byte that routes and rules look at (`INET_DSCP_LEGACY_TOS_MASK`).
pub const TOS_MASK: u8 = 0x1c;

/// Metric of an IPv6 route that was given none (`IP6_RT_PRIO_USER`).
pub const DEFAULT_METRIC_V6: u32 = 1024;

/// How next hops are chosen where a route has several (`net.ipv4.fib_multipath_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `fib_multipath_hash_policy`.
    pub policy: Policy,
    /// `fib_multipath_hash_fields`, for policy 3.
    pub fields: HashFields,
    /// `fib_multipath_hash_seed`, or 128 random bits.
    pub key: HashKey,
    /// `fib_multipath_use_neigh`.
    pub use_neigh: bool,
}

/// State of an interface as far as routes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Administratively up.
    pub up: bool,
    /// There is a carrier.
    pub carrier: bool,
    /// `net.ipv4.conf.….ignore_routes_with_linkdown` of this interface or of `all`.
    pub ignore_linkdown: bool,
    /// The same of `net.ipv6.conf`.
    pub ignore_linkdown_v6: bool,
}

/// Routes of both families, rules, and the state of the interfaces that they use.
#[derive(Debug)]
pub struct Fib {
    v4: Family<u32>,
    v6: Family<u128>,
    infos: Infos,
    objects: Objects,
    settings: Settings,
    /// By port; ports beyond the end are up.
    links: Vec<Link>,
    /// Next routers known to be unreachable, sorted.
    unreachable: Vec<Hop>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::L3,
            fields: HashFields::default(),
            key: HashKey::from_seed(1),
            use_neigh: false,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self { up: true, carrier: true, ignore_linkdown: false, ignore_linkdown_v6: false }
    }
}

impl Default for Fib {
    fn default() -> Self {
        Self::new()
    }
}

impl Fib {
    /// No routes, default rules, all interfaces up, policy 0.
    pub fn new() -> Self {
        Self {
            v4: Family::new(false),
            v6: Family::new(true),
            infos: Infos::default(),
            objects: Objects::default(),
            settings: Settings::default(),
            links: Vec::new(),
            unreachable: Vec::new(),
        }
    }

    /// The sysctls.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets the sysctls; they hold from the next look-up on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Where a packet made here goes, or what `ip route get` answers: the hash is that of the
    /// key's own fields, and no bucket of a resilient group counts as used.
    #[inline]
    pub fn lookup(&self, key: &RouteKey) -> Decision {
        self.decide(None, key, || Flow::from(key))
    }

    /// Where a packet goes whose hash may need more than the key says. `flow` is only called
    /// where several next hops are left to choose from.
    #[inline]
    pub fn forward(&self, now: Instant, key: &RouteKey, flow: impl FnOnce() -> Flow) -> Decision {
        self.decide(Some(now), key, flow)
    }

    #[inline]
    fn decide(
        &self,
        now: Option<Instant>,
        key: &RouteKey,
        flow: impl FnOnce() -> Flow,
    ) -> Decision {
        match self.resolve(key) {
            Verdict::Route(found) => match found.alias.kind {
                RouteType::Local | RouteType::Broadcast | RouteType::Anycast => Decision::Local,
                _ => self.choose(now, key, found.info, flow),
            },
            Verdict::Refuse(RouteType::Blackhole) => Decision::Blackhole,
            Verdict::Refuse(RouteType::Prohibit) => Decision::Prohibit,
            Verdict::Refuse(_) => Decision::Unreachable,
            Verdict::Nothing => Decision::NoRoute,
        }
    }

    /// The route that answers, as configured (`RTM_F_FIB_MATCH`, `ip route get fibmatch`).
    pub fn matching(&self, key: &RouteKey) -> Option<Route> {
        let Verdict::Route(found) = self.resolve(key) else { return None };
        let prefix = Prefix::containing(key.dst, found.prefix_len)?;
        Some(found.info.route(prefix, found.table, found.alias))
    }

    #[inline]
    fn resolve(&self, key: &RouteKey) -> Verdict<'_> {
        let good =
            |alias: &Alias, info: &Info| alias.kind == RouteType::Local || self.serves(key, info);
        match key.dst {
            IpAddr::V4(dst) => self.v4.resolve(&self.infos, key, dst.to_bits(), good),
            IpAddr::V6(dst) => self.v6.resolve(&self.infos, key, dst.to_bits(), good),
        }
    }

    /// True if some next hop of the route is in service and on the interface demanded.
    #[inline]
    fn serves(&self, key: &RouteKey, info: &Info) -> bool {
        match info.shared.target {
            Target::Hops(_) => first_path(info.paths.paths(), key).is_some(),
            Target::Object(id) => {
                let object = self.object(id);
                *object.config() == ObjectConfig::Blackhole
                    || first_path(object.paths().paths(), key).is_some()
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
        flow: impl FnOnce() -> Flow,
    ) -> Decision {
        let path = match info.shared.target {
            Target::Hops(_) => self.choose_path(key, info, flow),
            Target::Object(id) => {
                let object = self.object(id);
                if *object.config() == ObjectConfig::Blackhole {
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
        flow: impl FnOnce() -> Flow,
    ) -> Option<&'a Path> {
        let paths = &info.paths;
        if paths.paths().len() == 1 || key.oif.is_some() {
            return first_path(paths.paths(), key);
        }
        match info.shared.algorithm {
            Algorithm::System => self.by_policy(key, paths, &flow()),
            Algorithm::L3 => paths.by_hash(hash::seed_l3(self.settings.key, &flow())),
            Algorithm::L4 => paths.by_hash(hash::seed_l4(self.settings.key, &flow())),
            Algorithm::Modulo => paths.by_modulo(hash::seed_l3(self.settings.key, &flow())),
            Algorithm::PerPacket => paths.by_turn(),
            Algorithm::Credit => paths.by_credit(),
        }
    }

    /// Today's choice. IPv4 alone heeds neighbour state here, and sends what is made here from the
    /// interface that owns the source address, if one of the next hops lies on it.
    fn by_policy<'a>(&self, key: &RouteKey, paths: &'a PathSet, flow: &Flow) -> Option<&'a Path> {
        let hash = self.hash(flow);
        let IpAddr::V4(src) = key.src else { return paths.by_hash(hash) };
        let heed = self.settings.use_neigh && !self.unreachable.is_empty();
        let good = |path: &Path| !heed || self.is_reachable(path);
        if key.iif.is_none()
            && let Some(owner) = self.owner(src.to_bits())
            && paths.paths().iter().any(|p| p.hop.port == owner && p.usable && good(p))
        {
            return paths.by_hash_among(hash, |path| path.hop.port == owner && good(path));
        }
        if heed { paths.by_hash_among(hash, good) } else { paths.by_hash(hash) }
    }

    /// The interface that has this address.
    fn owner(&self, addr: u32) -> Option<u16> {
        let mut routes = self.v4.table(TableId::LOCAL)?.exact(addr, 32);
        let alias = routes.find(|alias| alias.kind == RouteType::Local)?;
        Some(self.infos.get(alias.info).paths.paths().first()?.hop.port)
    }

    /// One of the next hops of an object.
    fn choose_member<'a>(
        &self,
        now: Option<Instant>,
        key: &RouteKey,
        object: &'a Object,
        flow: impl FnOnce() -> Flow,
    ) -> Option<&'a Path> {
        if object.members().is_empty() || key.oif.is_some() {
            return first_path(object.paths().paths(), key);
        }
        object.select(self.hash(&flow()), now, |path| self.is_reachable(path))
    }

    /// The 32-bit hash of a flow under the present settings.
    pub fn hash(&self, flow: &Flow) -> u32 {
        let Settings { policy, fields, key, use_neigh: _ } = self.settings;
        hash::hash(policy, fields, key, flow)
    }

    fn is_reachable(&self, path: &Path) -> bool {
        self.unreachable.binary_search(&path.hop).is_err()
    }

    /// What the multipath choice for this key would be made from: the next hops in order with
    /// their bounds. Empty where a single next hop or none answers.
    pub fn candidates(&self, key: &RouteKey) -> &[Path] {
        let Verdict::Route(found) = self.resolve(key) else { return &[] };
        match found.info.shared.target {
            Target::Hops(_) => found.info.paths.paths(),
            Target::Object(id) => self.object(id).paths().paths(),
        }
    }

    /// `ip route add`: a route whose prefix, TOS and metric are new.
    pub fn add(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        if self.aliases(&route).any(|alias| same_rank(alias, &route)) {
            return Err(FibError::Exists);
        }
        self.put(&route, Place::After);
        Ok(())
    }

    /// `ip route append`: a further route of the same prefix, after its equals.
    pub fn append(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        self.refuse_twin(&route)?;
        if !self.join_siblings(&route) {
            self.put(&route, Place::After);
        }
        Ok(())
    }

    /// `ip route prepend`: a further route of the same prefix, before its equals.
    pub fn prepend(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        self.refuse_twin(&route)?;
        self.put(&route, Place::Before);
        Ok(())
    }

    /// `ip route replace`: takes the place of the first route with the same prefix, TOS and
    /// metric, in one step; or adds it.
    pub fn replace(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        if !self.exchange(&route) {
            self.put(&route, Place::After);
        }
        Ok(())
    }

    /// `ip route change`: as replace, but the route must exist.
    pub fn change(&mut self, route: Route) -> Result<(), FibError> {
        let route = self.checked(route)?;
        if self.exchange(&route) { Ok(()) } else { Err(FibError::NoSuchEntry) }
    }

    /// `ip route del`: removes the first route that has this prefix, TOS and table and fits
    /// whatever else is given.
    pub fn delete(&mut self, wanted: &RouteFilter) -> Result<(), FibError> {
        let infos = &self.infos;
        let fits = |alias: &Alias| wanted.fits(alias, infos.get(alias.info));
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

    /// Every route, table by table, in order of prefix and then of preference; IPv4 first.
    pub fn routes(&self) -> Vec<Route> {
        let mut routes = self.family_routes(&self.v4);
        routes.extend(self.family_routes(&self.v6));
        routes
    }

    /// The rules of a family in order.
    pub fn rules(&self, v6: bool) -> &[Rule] {
        if v6 { &self.v6.rules } else { &self.v4.rules }
    }

    /// `ip rule add`: after the rules of the same priority.
    pub fn add_rule(&mut self, v6: bool, rule: Rule) -> Result<(), FibError> {
        let rules = self.rules_mut(v6);
        if rules.contains(&rule) {
            return Err(FibError::Exists);
        }
        let at = rules.partition_point(|there| there.priority <= rule.priority);
        rules.insert(at, rule);
        Ok(())
    }

    /// `ip rule del`: the first rule that `wanted` picks.
    pub fn delete_rule(
        &mut self,
        v6: bool,
        wanted: impl FnMut(&Rule) -> bool,
    ) -> Result<Rule, FibError> {
        let rules = self.rules_mut(v6);
        let at = rules.iter().position(wanted).ok_or(FibError::NoSuchEntry)?;
        Ok(rules.remove(at))
    }

    /// State of an interface.
    pub fn link(&self, port: u16) -> Link {
        self.links.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Changes the state of an interface; every route over it is cut anew at once.
    pub fn set_link(&mut self, now: Instant, port: u16, link: Link) {
        if self.links.len() <= usize::from(port) {
            self.links.resize(usize::from(port) + 1, Link::default());
        }
        self.links[usize::from(port)] = link;
        let links = &self.links;
        for paths in self.infos.each_paths() {
            if paths.paths().iter().any(|path| path.hop.port == port) {
                paths.update(|path| apply_link(links, path));
            }
        }
        self.objects.update(now, |path| apply_link(links, path));
    }

    /// `ip nexthop add`.
    pub fn add_object(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
    ) -> Result<(), FibError> {
        let links = &self.links;
        self.objects.add(now, id, config, |path| apply_link(links, path))
    }

    /// `ip nexthop replace`: routes and groups that use the object follow at once.
    pub fn replace_object(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
    ) -> Result<(), FibError> {
        let links = &self.links;
        self.objects.replace(now, id, config, |path| apply_link(links, path))
    }

    /// `ip nexthop del`: groups lose the member; routes of the object, and of groups that are
    /// left empty, go with it.
    pub fn delete_object(&mut self, now: Instant, id: u32) -> Result<(), FibError> {
        let links = &self.links;
        let gone = self.objects.delete(now, id, |path| apply_link(links, path))?;
        let uses = |route: &Route| matches!(route.target, Target::Object(id) if gone.contains(&id));
        for route in self.routes().iter().filter(|route| uses(route)) {
            self.delete(&RouteFilter::exactly(route)).expect("the route was just listed");
        }
        Ok(())
    }

    /// All next-hop objects in order of their numbers.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The buckets of a resilient group (`ip nexthop bucket show`).
    pub fn buckets(&self, now: Instant, id: u32) -> Option<impl Iterator<Item = BucketInfo>> {
        Some(self.objects.get(id)?.resilient()?.buckets(now))
    }

    /// Moves buckets of resilient groups whose time has come.
    pub fn upkeep(&mut self, now: Instant) {
        self.objects.upkeep(now);
    }

    /// When [`Fib::upkeep`] has something to do; `None` without unbalanced resilient groups.
    pub fn wake_at(&self) -> Option<Instant> {
        self.objects.wake_at()
    }

    /// Tells whether a next router answers (`NUD_VALID` or no entry: true; `NUD_FAILED`: false).
    pub fn set_neighbour(&mut self, hop: Hop, reachable: bool) {
        match (self.unreachable.binary_search(&hop), reachable) {
            (Ok(at), true) => {
                self.unreachable.remove(at);
            }
            (Err(at), false) => self.unreachable.insert(at, hop),
            _ => {}
        }
    }

    /// True if nothing but the destination decides where a packet goes: default rules, no TOS
    /// routes, one next hop each. An answer then holds for the address until the routes change.
    pub fn decides_by_destination(&self) -> bool {
        let no_choice = |info: &Info| match &info.shared.target {
            Target::Hops(hops) => hops.len() <= 1,
            Target::Object(_) => false,
        };
        self.v4.is_plain(false) && self.v6.is_plain(true) && self.infos.iter().all(no_choice)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.v4.tables.iter().map(table::Table::len).sum::<usize>()
            + self.v6.tables.iter().map(table::Table::len).sum::<usize>()
    }

    /// True without routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held by the tables, the shared next hops aside.
    pub fn memory(&self) -> usize {
        self.v4.tables.iter().map(table::Table::memory).sum::<usize>()
            + self.v6.tables.iter().map(table::Table::memory).sum::<usize>()
    }

    /// How many different sets of next hops the routes share.
    pub fn shared_len(&self) -> usize {
        self.infos.len()
    }

    fn family_routes<K: Address>(&self, family: &Family<K>) -> Vec<Route> {
        let mut routes = Vec::new();
        for table in &family.tables {
            for (key, len, alias) in table.iter() {
                let prefix = Prefix::containing(key.to_ip(), len).expect("a prefix of a table");
                routes.push(self.infos.get(alias.info).route(prefix, table.id, alias));
            }
        }
        routes
    }

    fn rules_mut(&mut self, v6: bool) -> &mut Vec<Rule> {
        if v6 { &mut self.v6.rules } else { &mut self.v4.rules }
    }

    /// The route with defaults filled in, or what is wrong with it.
    fn checked(&self, mut route: Route) -> Result<Route, FibError> {
        if route.prefix.addr().is_ipv6() && route.metric == 0 {
            route.metric = DEFAULT_METRIC_V6;
        }
        let hops = match &route.target {
            Target::Hops(hops) => hops,
            Target::Object(id) if self.objects.get(*id).is_some() => return Ok(route),
            Target::Object(_) => return Err(FibError::NoSuchObject),
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

    fn aliases(&self, route: &Route) -> impl Iterator<Item = &Alias> {
        let (v4, v6) = if route.prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&route.prefix);
            (self.v4.table(route.table).map(|table| table.exact(key, len)), None)
        } else {
            let (key, len) = bits::<u128>(&route.prefix);
            (None, self.v6.table(route.table).map(|table| table.exact(key, len)))
        };
        v4.or(v6).into_iter().flatten()
    }

    fn refuse_twin(&self, route: &Route) -> Result<(), FibError> {
        let Some(info) = self.infos.find(&Shared::of(route)) else { return Ok(()) };
        let twin = |alias: &Alias| {
            same_rank(alias, route) && alias.kind == route.kind && alias.info == info
        };
        if self.aliases(route).any(twin) { Err(FibError::Exists) } else { Ok(()) }
    }

    /// IPv6 routes with gateways and of the same metric are one route of several next hops
    /// (`fib6_nsiblings`). False, and nothing done, if there is none to join.
    fn join_siblings(&mut self, route: &Route) -> bool {
        let Target::Hops(added) = &route.target else { return false };
        let with_gateway = |hops: &[NextHop]| hops.iter().all(|hop| hop.hop.gateway.is_some());
        if route.prefix.addr().is_ipv4() || route.kind != RouteType::Unicast || !with_gateway(added)
        {
            return false;
        }
        let there = self.aliases(route).find(|alias| same_rank(alias, route));
        let Some(there) = there.filter(|alias| alias.kind == RouteType::Unicast) else {
            return false;
        };
        let mut hops = match &self.infos.get(there.info).shared.target {
            Target::Hops(hops) if with_gateway(hops) => hops.clone(),
            _ => return false,
        };
        hops.extend(added);
        self.exchange(&Route { target: Target::Hops(hops), ..route.clone() })
    }

    fn obtain_info(&mut self, route: &Route) -> u32 {
        let links = &self.links;
        self.infos.obtain(Shared::of(route), |paths| paths.update(|path| apply_link(links, path)))
    }

    fn put(&mut self, route: &Route, place: Place) {
        let alias = Alias::of(route, self.obtain_info(route));
        if route.prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&route.prefix);
            self.v4.table_mut(route.table).insert(key, len, place, alias);
        } else {
            let (key, len) = bits::<u128>(&route.prefix);
            self.v6.table_mut(route.table).insert(key, len, place, alias);
        }
    }

    fn exchange(&mut self, route: &Route) -> bool {
        let info = self.obtain_info(route);
        let wanted = |alias: &Alias| same_rank(alias, route);
        let before = if route.prefix.addr().is_ipv4() {
            let (key, len) = bits::<u32>(&route.prefix);
            self.v4.table_mut(route.table).change(key, len, wanted, route.kind, info)
        } else {
            let (key, len) = bits::<u128>(&route.prefix);
            self.v6.table_mut(route.table).change(key, len, wanted, route.kind, info)
        };
        self.infos.release(before.map_or(info, |before| before.info));
        before.is_some()
    }
}

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

    fn fits(&self, alias: &Alias, info: &Info) -> bool {
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

/// Two routes that `add` and `replace` take for the same.
fn same_rank(alias: &Alias, route: &Route) -> bool {
    alias.tos == route.tos && alias.metric == route.metric
}

/// Gives a path the state of its interface.
fn apply_link(links: &[Link], path: &mut Path) {
    let link = links.get(usize::from(path.hop.port)).copied().unwrap_or_default();
    path.dead = !link.up;
    path.linkdown = !link.up || !link.carrier;
    let ignore = match path.hop.gateway {
        Some(IpAddr::V6(_)) => link.ignore_linkdown_v6,
        _ => link.ignore_linkdown,
    };
    path.usable = link.up && (link.carrier || !ignore);
}

#[cfg(test)]
mod tests;
