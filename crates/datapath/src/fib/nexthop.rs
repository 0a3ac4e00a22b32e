//! Next-hop objects and groups (`ip nexthop`, Linux 5.3).

use super::error::FibError;
use super::multipath::{Path, PathSet};
use super::resilient::{Member, Resilient, ResilientConfig};
use super::route::NextHop;
use crate::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// What a next-hop object is configured as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectConfig {
    /// One next hop.
    Hop(NextHop),
    /// Drop everything.
    Blackhole,
    /// Several objects, chosen among by hash-threshold.
    Group(Vec<Member>),
    /// Several objects, chosen among by buckets.
    Resilient(Vec<Member>, ResilientConfig),
}

/// A next-hop object.
#[derive(Clone, Debug)]
pub struct Object {
    config: ObjectConfig,
    /// See [`Object::v6`].
    v6: Option<bool>,
    paths: PathSet,
    /// A blackhole, or a group of nothing else (`nexthop_is_blackhole`).
    blackhole: bool,
    /// Of each path, the object it belongs to.
    ids: Vec<u32>,
    resilient: Option<Resilient>,
    /// The groups that have it as a member (`nh->grp_list`).
    groups: BTreeSet<u32>,
}

/// All objects by number.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_id: BTreeMap<u32, Object>,
}

impl ObjectConfig {
    /// Whether it is a single next hop over this interface; a blackhole is over none.
    pub fn is_over(&self, port: u16) -> bool {
        matches!(self, Self::Hop(hop) if hop.hop.port == port)
    }
}

impl Object {
    /// As configured.
    pub fn config(&self) -> &ObjectConfig {
        &self.config
    }

    /// Is it of IPv6? As its gateway, else as it was added (`nh_info.family`); without an answer it serves both.
    pub fn v6(&self) -> Option<bool> {
        self.v6
    }

    /// The next hops that it leads to, in order.
    pub fn paths(&self) -> &PathSet {
        &self.paths
    }

    /// True if it drops everything: a blackhole, or a group of nothing else.
    pub fn is_blackhole(&self) -> bool {
        self.blackhole
    }

    /// The bucket table of a resilient group.
    pub fn resilient(&self) -> Option<&Resilient> {
        self.resilient.as_ref()
    }

    /// The members of a group.
    pub fn members(&self) -> &[Member] {
        match &self.config {
            ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) => members,
            ObjectConfig::Hop(_) | ObjectConfig::Blackhole => &[],
        }
    }

    /// `nexthop_select_path()`: by bucket, or by hash-threshold among the reachable ones; groups
    /// heed neighbour state whatever `fib_multipath_use_neigh` says.
    #[inline]
    pub fn select(
        &self,
        hash: u32,
        now: Option<Instant>,
        good: impl Fn(&Path) -> bool,
    ) -> Option<&Path> {
        let Some(table) = &self.resilient else { return self.paths.by_hash_among(hash, good) };
        let id = table.select(hash, now)?;
        let at = self.ids.iter().position(|&there| there == id)?;
        Some(&self.paths.paths()[at])
    }

    fn usable_members(&self) -> Vec<Member> {
        let paths = self.paths.paths().iter();
        let usable = self.members().iter().zip(paths).filter(|(_, path)| path.usable);
        usable.map(|(member, _)| *member).collect()
    }
}

impl Objects {
    /// The object with this number.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Object> {
        self.by_id.get(&id)
    }

    /// All objects in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Object)> {
        self.by_id.iter().map(|(&id, object)| (id, object))
    }

    /// The numbers of the single objects over an interface.
    pub(super) fn over(&self, port: u16) -> Vec<u32> {
        self.iter().filter(|(_, object)| object.config.is_over(port)).map(|(id, _)| id).collect()
    }

    /// The lowest number that is free.
    pub fn free_id(&self) -> u32 {
        (1..=u32::MAX).find(|id| !self.by_id.contains_key(id)).expect("fewer than 2³² objects")
    }

    /// Whether an object is of IPv4, or a group with a member that is (`fib6_check_nexthop`).
    pub fn has_v4(&self, id: u32) -> bool {
        self.get(id).is_some_and(|object| self.would_have_v4(&object.config, object.v6))
    }

    /// The same of what an object would be.
    pub(super) fn would_have_v4(&self, config: &ObjectConfig, v6: Option<bool>) -> bool {
        let of_v4 = |member: &Member| self.get(member.id).is_some_and(|o| o.v6 == Some(false));
        match config {
            ObjectConfig::Hop(_) | ObjectConfig::Blackhole => family(config, v6) == Some(false),
            ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) => {
                members.iter().any(of_v4)
            }
        }
    }

    /// `ip nexthop add`, of the family `v6` if one was said.
    pub fn add(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
        v6: Option<bool>,
        state: impl FnMut(&mut Path),
    ) -> Result<(), FibError> {
        if self.by_id.contains_key(&id) {
            return Err(FibError::Exists);
        }
        self.check(id, &config)?;
        let object = self.build(now, config, v6, state);
        self.put(id, object);
        Ok(())
    }

    /// Puts an object in its place, where none is, and on the lists of its members.
    fn put(&mut self, id: u32, object: Object) {
        for member in object.members() {
            if let Some(member) = self.by_id.get_mut(&member.id) {
                member.groups.insert(id);
            }
        }
        self.by_id.insert(id, object);
    }

    /// Takes an object out of its place, and off the lists of its members.
    fn take(&mut self, id: u32) -> Option<Object> {
        let object = self.by_id.remove(&id)?;
        for member in object.members() {
            if let Some(member) = self.by_id.get_mut(&member.id) {
                member.groups.remove(&id);
            }
        }
        Some(object)
    }

    /// Whether a group has an object as a member.
    pub(super) fn has_member(&self, group: u32, id: u32) -> bool {
        self.get(id).is_some_and(|object| object.groups.contains(&group))
    }

    /// `ip nexthop replace`: routes and groups that use the object follow at once; a resilient
    /// group keeps its buckets.
    pub fn replace(
        &mut self,
        now: Instant,
        id: u32,
        config: ObjectConfig,
        v6: Option<bool>,
        mut state: impl FnMut(&mut Path),
    ) -> Result<(), FibError> {
        let Some(old) = self.by_id.get(&id) else { return self.add(now, id, config, v6, state) };
        refuse_change_of_kind(&old.config, &config)?;
        self.check(id, &config)?;
        if config == ObjectConfig::Blackhole && self.is_one_of_several(id) {
            return Err(FibError::BlackholeReplacesMember);
        }
        let mut object = self.build(now, config, v6, &mut state);
        let old = self.take(id).expect("looked up above");
        if let (Some(mut table), ObjectConfig::Resilient(_, config)) =
            (old.resilient, &object.config)
        {
            table.set_timers(config.idle_timer, config.unbalanced_timer);
            object.resilient = Some(table);
            object.rebalance(now);
        }
        object.groups = old.groups;
        let groups: Vec<u32> = object.groups.iter().copied().collect();
        self.put(id, object);
        self.refresh(groups, now, state);
        Ok(())
    }

    /// `ip nexthop del`: groups lose the member, and groups left empty go too. Returns the numbers
    /// of all objects that are gone.
    pub fn delete(
        &mut self,
        now: Instant,
        id: u32,
        state: impl FnMut(&mut Path),
    ) -> Result<Vec<u32>, FibError> {
        let object = self.take(id).ok_or(FibError::NoSuchEntry)?;
        let mut gone = vec![id];
        let mut left: Vec<u32> = object.groups.into_iter().collect();
        left.retain(|&group| {
            let object = self.by_id.get_mut(&group).expect("a group that is listed");
            if let ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) =
                &mut object.config
            {
                members.retain(|member| member.id != id);
            }
            let is_empty = object.members().is_empty();
            if is_empty {
                self.by_id.remove(&group);
                gone.push(group);
            }
            !is_empty
        });
        self.refresh(left, now, state);
        Ok(gone)
    }

    /// Sets the state of every path anew, after an interface changed.
    pub fn update(&mut self, now: Instant, mut state: impl FnMut(&mut Path)) {
        for object in self.by_id.values_mut() {
            let before: Vec<bool> = object.paths.paths().iter().map(|path| path.usable).collect();
            object.paths.update(&mut state);
            let same = object.paths.paths().iter().map(|path| path.usable).eq(before);
            if !same {
                object.rebalance(now);
            }
        }
    }

    /// Moves buckets whose time has come.
    pub fn upkeep(&mut self, now: Instant) {
        let tables = self.by_id.values_mut().filter_map(|object| object.resilient.as_mut());
        for table in tables.filter(|table| table.wake_at().is_some_and(|at| at <= now)) {
            table.upkeep(now);
        }
    }

    /// When [`Objects::upkeep`] has something to do.
    pub fn wake_at(&self) -> Option<Instant> {
        self.by_id.values().filter_map(|object| object.resilient.as_ref()?.wake_at()).min()
    }

    /// Rebuilds groups, one of whose members has changed or gone, from those that they have now.
    fn refresh(&mut self, groups: Vec<u32>, now: Instant, mut state: impl FnMut(&mut Path)) {
        for id in groups {
            let config = &self.by_id[&id].config;
            let ((mut paths, ids), blackhole) = (self.resolve(config), self.is_blackhole(config));
            paths.update(&mut state);
            let object = self.by_id.get_mut(&id).expect("listed above");
            (object.paths, object.ids, object.blackhole) = (paths, ids, blackhole);
            object.rebalance(now);
        }
    }

    /// Next hops of a configuration, and the objects that they are.
    fn resolve(&self, config: &ObjectConfig) -> (PathSet, Vec<u32>) {
        match config {
            ObjectConfig::Hop(hop) => (PathSet::new(&[*hop]), Vec::new()),
            ObjectConfig::Blackhole => (PathSet::default(), Vec::new()),
            ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) => {
                let hop = |member: &Member| match self.by_id[&member.id].config {
                    ObjectConfig::Hop(hop) => Some((hop.weight(member.weight), member.id)),
                    _ => None,
                };
                let (hops, ids): (Vec<_>, Vec<_>) = members.iter().filter_map(hop).unzip();
                (PathSet::new(&hops), ids)
            }
        }
    }

    fn is_blackhole(&self, config: &ObjectConfig) -> bool {
        match config {
            ObjectConfig::Hop(_) => false,
            ObjectConfig::Blackhole => true,
            ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) => {
                members.len() == 1 && self.by_id[&members[0].id].config == ObjectConfig::Blackhole
            }
        }
    }

    fn build(
        &self,
        now: Instant,
        config: ObjectConfig,
        v6: Option<bool>,
        state: impl FnMut(&mut Path),
    ) -> Object {
        let (mut paths, ids) = self.resolve(&config);
        paths.update(state);
        let blackhole = self.is_blackhole(&config);
        let v6 = family(&config, v6);
        let mut object =
            Object { config, v6, paths, blackhole, ids, resilient: None, groups: BTreeSet::new() };
        if let ObjectConfig::Resilient(_, resilient) = object.config {
            object.resilient = Some(Resilient::new(now, resilient, &object.usable_members()));
        }
        object
    }

    fn check(&self, id: u32, config: &ObjectConfig) -> Result<(), FibError> {
        match config {
            ObjectConfig::Hop(_) | ObjectConfig::Blackhole => Ok(()),
            ObjectConfig::Resilient(_, resilient) if resilient.buckets == 0 => {
                Err(FibError::NoBuckets)
            }
            ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _) => {
                self.check_members(id, members)
            }
        }
    }

    fn is_one_of_several(&self, id: u32) -> bool {
        let groups = self.get(id).into_iter().flat_map(|object| &object.groups);
        groups.into_iter().any(|group| self.by_id[group].members().len() > 1)
    }

    fn check_members(&self, id: u32, members: &[Member]) -> Result<(), FibError> {
        if members.is_empty() {
            return Err(FibError::InvalidNextHops);
        }
        for (index, member) in members.iter().enumerate() {
            if member.weight == 0 {
                return Err(FibError::InvalidWeight);
            }
            if member.id == id || members[..index].iter().any(|before| before.id == member.id) {
                return Err(FibError::RepeatedMember);
            }
            match self.get(member.id).map(|object| &object.config) {
                None => return Err(FibError::NoSuchMember),
                Some(ObjectConfig::Group(_)) => return Err(FibError::NestedGroup),
                Some(ObjectConfig::Resilient(..)) => return Err(FibError::NestedResilientGroup),
                Some(ObjectConfig::Blackhole) if members.len() > 1 => {
                    return Err(FibError::BlackholeInGroup);
                }
                Some(ObjectConfig::Blackhole | ObjectConfig::Hop(_)) => {}
            }
        }
        Ok(())
    }
}

impl Object {
    fn rebalance(&mut self, now: Instant) {
        let usable = self.usable_members();
        let members: Vec<u32> = self.members().iter().map(|member| member.id).collect();
        if let Some(table) = &mut self.resilient {
            table.disown(|id| !members.contains(&id));
            table.set_members(now, &usable);
        }
    }
}

/// The family of an object that was said to be of `said`.
fn family(config: &ObjectConfig, said: Option<bool>) -> Option<bool> {
    match config {
        ObjectConfig::Hop(hop) => hop.hop.gateway.map(|gateway| gateway.is_ipv6()).or(said),
        ObjectConfig::Blackhole => said,
        ObjectConfig::Group(_) | ObjectConfig::Resilient(..) => None,
    }
}

/// A group stays a group of its type, a single next hop stays single.
fn refuse_change_of_kind(old: &ObjectConfig, new: &ObjectConfig) -> Result<(), FibError> {
    use ObjectConfig::{Blackhole, Group, Hop, Resilient};
    match (old, new) {
        (Group(_), Group(_)) | (Hop(_) | Blackhole, Hop(_) | Blackhole) => Ok(()),
        (Resilient(_, old), Resilient(_, new)) if old.buckets == new.buckets => Ok(()),
        (Resilient(..), Resilient(..)) => Err(FibError::BucketsFixed),
        (Group(_), Resilient(..)) | (Resilient(..), Group(_)) => Err(FibError::GroupTypeFixed),
        (Group(_) | Resilient(..), _) => Err(FibError::GroupBySingle),
        (_, Group(_) | Resilient(..)) => Err(FibError::SingleByGroup),
    }
}

#[cfg(test)]
mod tests;
