//! What routes share (`struct fib_info`): a million routes over eight next hops hold eight of
//! these.

use super::multipath::PathSet;
use super::route::{Algorithm, Features, Prefix, Protocol, Route, Scope, TableId, Target};
use super::table::Alias;
use crate::metrics::RouteMetrics;
use core::hash::BuildHasher;
use core::net::IpAddr;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// The configured part, by which equal infos are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// Of an IPv6 route.
    pub v6: bool,
    /// How far.
    pub scope: Scope,
    /// Who says so.
    pub protocol: Protocol,
    /// Preferred source.
    pub prefsrc: Option<IpAddr>,
    /// Features of the destination.
    pub features: Features,
    /// What TCP heeds of the route.
    pub metrics: RouteMetrics,
    /// Which next hop of several.
    pub algorithm: Algorithm,
    /// Where to.
    pub target: Target,
}

/// The shared part of a route, with the state of its next hops.
#[derive(Clone, Debug)]
pub struct Info {
    /// As configured.
    pub shared: Shared,
    /// The next hops, if they are the route's own.
    pub paths: PathSet,
    users: u32,
}

/// All infos.
#[derive(Clone, Debug, Default)]
pub struct Infos {
    slots: Vec<Option<Info>>,
    free: Vec<u32>,
    /// Indices, found by what is configured there.
    by_config: HashTable<u32>,
}

/// Up to so many infos take no more room than they need, and are found without an index: hosts have about four, and there may be many
/// hosts.
const FEW: usize = 8;

impl Shared {
    /// The shared part of a configured route.
    pub fn of(route: &Route) -> Self {
        Self {
            v6: route.prefix.addr().is_ipv6(),
            scope: route.scope,
            protocol: route.protocol,
            prefsrc: route.prefsrc,
            features: route.features,
            metrics: route.metrics,
            algorithm: route.algorithm,
            target: route.target.clone(),
        }
    }

    fn paths(&self) -> PathSet {
        match &self.target {
            Target::Hops(hops) if self.algorithm == Algorithm::Credit => {
                PathSet::new(hops).with_credits()
            }
            Target::Hops(hops) => PathSet::new(hops),
            Target::Object(_) => PathSet::default(),
        }
    }
}

impl Info {
    /// The route as configured, put together again.
    pub fn route(&self, prefix: Prefix, table: TableId, alias: &Alias) -> Route {
        Route {
            prefix,
            table,
            tos: alias.tos,
            metric: alias.metric,
            kind: alias.kind,
            scope: self.shared.scope,
            protocol: self.shared.protocol,
            prefsrc: self.shared.prefsrc,
            features: self.shared.features,
            metrics: self.shared.metrics,
            algorithm: self.shared.algorithm,
            target: self.shared.target.clone(),
        }
    }
}

impl Infos {
    /// The info with this index.
    #[inline]
    pub fn get(&self, index: u32) -> &Info {
        self.slots[index as usize].as_ref().expect("an alias refers to a freed info")
    }

    /// The index of an info that exists already.
    pub fn find(&self, shared: &Shared) -> Option<u32> {
        let same = |index: &u32| self.get(*index).shared == *shared;
        if self.by_config.is_empty() {
            return (0..self.slots.len() as u32).find(|index| {
                self.slots[*index as usize].as_ref().is_some_and(|info| info.shared == *shared)
            });
        }
        self.by_config.find(FxBuildHasher.hash_one(shared), same).copied()
    }

    /// One more user of the info with this configuration; `prepare` sets the state of a new one.
    pub fn obtain(&mut self, shared: Shared, prepare: impl FnOnce(&mut PathSet)) -> u32 {
        if let Some(index) = self.find(&shared) {
            self.slots[index as usize].as_mut().expect("an indexed info").users += 1;
            return index;
        }
        let digest = FxBuildHasher.hash_one(&shared);
        let mut paths = shared.paths();
        prepare(&mut paths);
        let info = Some(Info { shared, paths, users: 1 });
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = info;
            index
        } else {
            if self.slots.len() < FEW {
                self.slots.reserve_exact(1);
            }
            self.slots.push(info);
            self.slots.len() as u32 - 1
        };
        self.index(index, digest);
        index
    }

    /// Few infos are searched one by one.
    fn index(&mut self, index: u32, digest: u64) {
        let Self { slots, by_config, .. } = self;
        let digest_of = |index: &u32| {
            let info = slots[*index as usize].as_ref().expect("an indexed info");
            FxBuildHasher.hash_one(&info.shared)
        };
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
            let digest = FxBuildHasher.hash_one(&info.shared);
            if let Ok(entry) = self.by_config.find_entry(digest, |there| *there == index) {
                entry.remove();
            }
            *slot = None;
            self.free.push(index);
        }
    }

    /// The next hops of every info, and whether they are of an IPv6 route.
    pub fn each_paths(&mut self) -> impl Iterator<Item = (bool, &mut PathSet)> {
        self.slots.iter_mut().flatten().map(|info| (info.shared.v6, &mut info.paths))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
