//! What routes share (`struct fib_info`): a million routes over eight next hops hold eight of
//! these.

use super::multipath::{Path, PathSet};
use super::route::{Algorithm, Features, NextHop, Prefix, Protocol, Route, Scope, TableId, Target};
use super::table::Alias;
use crate::grow::reserve_one;
use crate::metrics::RouteMetrics;
use core::hash::{Hash as _, Hasher as _};
use core::net::IpAddr;
use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// What is configured of every route besides next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// Of an IPv6 route.
    pub v6: bool,
    /// The scope.
    pub scope: Scope,
    /// The protocol (who added the route).
    pub protocol: Protocol,
    /// Preferred source.
    pub prefsrc: Option<IpAddr>,
}

/// What is configured of few routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Rare {
    /// The multipath algorithm.
    algorithm: Algorithm,
    /// The next-hop object that it leads to, if it has no next hops of its own.
    object: Option<u32>,
    /// Features of the destination.
    features: Features,
    /// Settings for TCP (metrics).
    metrics: RouteMetrics,
}

/// The shared part of a route, with the state of its next hops. Their configuration is stored there
/// and nowhere else: a router may have very many routes, and there may be very many hosts with four.
#[derive(Clone, Debug)]
pub struct Info {
    /// As configured.
    pub shared: Shared,
    users: u32,
    rare: Option<Box<Rare>>,
    /// The next hops, if they are the route's own.
    pub paths: PathSet,
}

// Those of a host then fill a size that allocators have.
const _: () = assert!(size_of::<Option<Info>>() == 64);

/// All infos.
#[derive(Clone, Debug, Default)]
pub struct Infos {
    slots: Vec<Option<Info>>,
    /// State for many infos, or for freed ones.
    many: Option<Box<InfoIndex>>,
}

/// State for many infos.
#[derive(Clone, Debug, Default)]
struct InfoIndex {
    free: Vec<u32>,
    /// Indices, found by what is configured there.
    by_config: HashTable<u32>,
}

/// Up to this number, infos are stored without spare room and without an index: hosts have about four, and there may be many
/// hosts.
const FEW: usize = 8;

/// All that is configured besides next hops.
type Config = (Shared, Rare);

/// The shared part of a configured route.
fn config_of(route: &Route) -> Config {
    let shared = Shared {
        v6: route.prefix.addr().is_ipv6(),
        scope: route.scope,
        protocol: route.protocol,
        prefsrc: route.prefsrc,
    };
    let rare = Rare {
        algorithm: route.algorithm,
        object: match route.target {
            Target::Hops(_) => None,
            Target::Object(id) => Some(id),
        },
        features: route.features,
        metrics: route.metrics,
    };
    (shared, rare)
}

/// Equal infos have equal digests.
fn digest(config: &Config, hops: impl Iterator<Item = NextHop>) -> u64 {
    let mut hasher = FxHasher::default();
    config.hash(&mut hasher);
    hops.for_each(|hop| hop.hash(&mut hasher));
    hasher.finish()
}

/// The next hops of a route's own.
fn own_hops(route: &Route) -> &[NextHop] {
    match &route.target {
        Target::Hops(hops) => hops,
        Target::Object(_) => &[],
    }
}

fn paths_of(route: &Route) -> PathSet {
    match &route.target {
        Target::Hops(hops) if route.algorithm == Algorithm::Credit => {
            PathSet::new(hops).with_credits()
        }
        Target::Hops(hops) => PathSet::new(hops),
        Target::Object(_) => PathSet::default(),
    }
}

impl Info {
    /// The next hops as configured.
    fn hops(&self) -> impl Iterator<Item = NextHop> {
        self.paths.paths().iter().map(Path::configured)
    }

    /// The multipath algorithm.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.rare.as_ref().map_or(Algorithm::System, |rare| rare.algorithm)
    }

    /// The next-hop object that it leads to, if it has no next hops of its own.
    #[inline]
    pub fn object(&self) -> Option<u32> {
        self.rare.as_ref()?.object
    }

    fn config(&self) -> Config {
        (self.shared, self.rare.as_deref().copied().unwrap_or_default())
    }

    fn digest(&self) -> u64 {
        digest(&self.config(), self.hops())
    }

    fn is(&self, config: &Config, hops: &[NextHop]) -> bool {
        self.config() == *config && self.hops().eq(hops.iter().copied())
    }

    /// Where to.
    pub fn target(&self) -> Target {
        match self.object() {
            Some(id) => Target::Object(id),
            None => Target::Hops(self.hops().collect()),
        }
    }

    /// The route as configured, put together again.
    pub fn route(&self, prefix: Prefix, table: TableId, alias: &Alias) -> Route {
        let (shared, rare) = self.config();
        Route {
            prefix,
            table,
            tos: alias.tos,
            metric: alias.metric,
            kind: alias.kind,
            scope: shared.scope,
            protocol: shared.protocol,
            prefsrc: shared.prefsrc,
            features: rare.features,
            metrics: rare.metrics,
            algorithm: rare.algorithm,
            target: self.target(),
        }
    }
}

impl Infos {
    /// The info with this index.
    #[inline]
    pub fn get(&self, index: u32) -> &Info {
        self.slots[index as usize].as_ref().expect("an alias refers to a freed info")
    }

    /// The index of the info of a route, if it exists already.
    pub fn find(&self, route: &Route) -> Option<u32> {
        self.find_configured(&config_of(route), own_hops(route))
    }

    fn find_configured(&self, config: &Config, hops: &[NextHop]) -> Option<u32> {
        let many = self.many.as_ref().filter(|many| !many.by_config.is_empty());
        let Some(many) = many else {
            let mut infos = (0..).zip(&self.slots);
            let same =
                |info: &Option<Info>| info.as_ref().is_some_and(|info| info.is(config, hops));
            return infos.find(|(_, info)| same(info)).map(|(index, _)| index);
        };
        let same = |index: &u32| self.get(*index).is(config, hops);
        many.by_config.find(digest(config, hops.iter().copied()), same).copied()
    }

    /// One more user of the info of a route; `prepare` sets the state of a new one.
    pub fn obtain(&mut self, route: &Route, prepare: impl FnOnce(&Shared, &mut PathSet)) -> u32 {
        let (config, hops) = (config_of(route), own_hops(route));
        if let Some(index) = self.find_configured(&config, hops) {
            self.slots[index as usize].as_mut().expect("an indexed info").users += 1;
            return index;
        }
        let digest = digest(&config, hops.iter().copied());
        let mut paths = paths_of(route);
        prepare(&config.0, &mut paths);
        let (shared, rare) = config;
        let rare = (rare != Rare::default()).then(|| Box::new(rare));
        let info = Some(Info { shared, users: 1, rare, paths });
        let index = if let Some(index) = self.many.as_mut().and_then(|many| many.free.pop()) {
            self.slots[index as usize] = info;
            index
        } else {
            reserve_one(&mut self.slots, 1);
            self.slots.push(info);
            self.slots.len() as u32 - 1
        };
        self.index(index, digest);
        index
    }

    /// Few infos are searched one by one.
    fn index(&mut self, index: u32, digest: u64) {
        let Self { slots, many } = self;
        if many.is_none() && slots.len() <= FEW {
            return;
        }
        let by_config = &mut many.get_or_insert_default().by_config;
        let digest_of =
            |index: &u32| slots[*index as usize].as_ref().expect("an indexed info").digest();
        if !by_config.is_empty() {
            by_config.insert_unique(digest, index, digest_of);
        } else if slots.len() > FEW {
            for (index, _) in (0..).zip(slots.iter()).filter(|(_, info)| info.is_some()) {
                by_config.insert_unique(digest_of(&index), index, digest_of);
            }
        }
    }

    /// One user less; the last one frees the info.
    pub fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let info = slot.as_mut().expect("a freed info is released");
        info.users -= 1;
        if info.users == 0 {
            let digest = info.digest();
            *slot = None;
            let many = self.many.get_or_insert_default();
            if let Ok(entry) = many.by_config.find_entry(digest, |there| *there == index) {
                entry.remove();
            }
            many.free.push(index);
        }
    }

    /// The next hops of every info, and what is configured besides.
    pub fn each_paths(&mut self) -> impl Iterator<Item = (&Shared, &mut PathSet)> {
        self.slots.iter_mut().flatten().map(|info| (&info.shared, &mut info.paths))
    }

    /// Every info.
    pub fn each(&self) -> impl Iterator<Item = &Info> {
        self.slots.iter().flatten()
    }

    /// Those that are wanted: their indices, and how many routes share each.
    pub fn users_where(&self, wanted: impl Fn(&Info) -> bool) -> impl Iterator<Item = (u32, u32)> {
        let infos =
            (0..).zip(&self.slots).filter_map(|(index, info)| Some((index, info.as_ref()?)));
        infos.filter(move |(_, info)| wanted(info)).map(|(index, info)| (index, info.users))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.many.as_ref().map_or(0, |many| many.free.len())
    }
}
