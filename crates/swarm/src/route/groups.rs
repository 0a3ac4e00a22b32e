//! Groups of next hops: which member each hash selects, and when a bucket of a resilient group may move
//! (`nh_res_group_rebalance`, `nh_res_table_upkeep`).

use std::collections::BTreeMap;

use datapath::fib::nexthop::{Object, ObjectConfig};
use datapath::fib::resilient::{Member, Resilient, ResilientConfig};
use datapath::fib::{Fib, Prefix, Route};
use datapath::units::{Duration, Instant};

use super::model::Model;
use super::objects::hops;

/// The resilient groups as they were when they were last looked at.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    tables: BTreeMap<u32, Table>,
}

#[derive(Clone, Debug)]
struct Table {
    owners: Vec<u32>,
    /// Since when each bucket has been unused, in ns.
    idle_since: Vec<i64>,
    /// When each came to its owner, in ns; idle until it is used (`nh_res_bucket_idle_point`).
    moved_at: Vec<i64>,
    unbalanced_since: Option<Instant>,
}

impl Groups {
    /// A packet was forwarded by a bucket of a group.
    pub fn use_bucket(&mut self, (id, bucket): (u32, u16), now: Instant) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.idle_since[usize::from(bucket)] = nanos(now);
        }
    }

    /// Looks at all groups: what is not as it must be.
    pub fn check(&mut self, fib: &Fib, model: &Model, now: Instant) -> Result<(), String> {
        let mut tables = BTreeMap::new();
        for (id, object) in fib.objects().iter() {
            check_shares(fib, model, id, object)?;
            let ObjectConfig::Resilient(members, config) = object.config() else { continue };
            let serving: Vec<Member> = members
                .iter()
                .copied()
                .filter(|member| model.object_serves(fib, member.id))
                .collect();
            let old = self.tables.get(&id).filter(|old| old.owners.len() == buckets(config));
            let table = Table::of(fib, object, id, now, old)
                .and_then(|table| {
                    table.check_moves(&serving, config, now, old)?;
                    table.check_balance(object, &serving, config, now)?;
                    Ok(table)
                })
                .map_err(|what| format!("group {id} of {members:?} with {config:?}: {what}"))?;
            tables.insert(id, table);
        }
        self.tables = tables;
        Ok(())
    }
}

impl Table {
    /// A group's table. How long buckets were not used must be what was seen.
    fn of(
        fib: &Fib,
        object: &Object,
        id: u32,
        now: Instant,
        old: Option<&Self>,
    ) -> Result<Self, String> {
        let buckets: Vec<_> = fib.buckets(now, id).into_iter().flatten().collect();
        let owners: Vec<u32> = buckets.iter().map(|bucket| bucket.id).collect();
        let kept = |index: usize| old.filter(|old| old.owners[index] == owners[index]);
        let kept_time = |times: fn(&Self) -> &[i64]| -> Vec<i64> {
            let time = |index: usize| kept(index).map_or(nanos(now), |old| times(old)[index]);
            (0..owners.len()).map(time).collect()
        };
        let idle_since = kept_time(|old| &old.idle_since);
        let moved_at = kept_time(|old| &old.moved_at);
        for (bucket, since) in buckets.iter().zip(&idle_since) {
            let idle = (nanos(now) - since) as u64;
            if bucket.id != 0 && bucket.idle_time.as_nanos() != idle {
                return Err(format!("{bucket:?} has been idle for {idle} ns"));
            }
        }
        let unbalanced_since = object.resilient().and_then(Resilient::unbalanced_since);
        Ok(Self { owners, idle_since, moved_at, unbalanced_since })
    }

    /// When a bucket becomes idle, or became so, in ns.
    fn idle_at(&self, index: usize, config: &ResilientConfig) -> i64 {
        let since = self.idle_since[index];
        let unused = since == self.moved_at[index];
        if unused { since } else { since + config.idle_timer.as_nanos() as i64 }
    }

    /// A bucket leaves a member that is in service only after it has been unused for the idle timer, or
    /// when the group has been out of balance for the unbalanced timer.
    fn check_moves(
        &self,
        serving: &[Member],
        config: &ResilientConfig,
        now: Instant,
        old: Option<&Self>,
    ) -> Result<(), String> {
        let Some(old) = old else { return Ok(()) };
        let forced = config.unbalanced_timer > Duration::ZERO
            && old.unbalanced_since.is_some_and(|since| since + config.unbalanced_timer <= now);
        for (index, (before, after)) in old.owners.iter().zip(&self.owners).enumerate() {
            let stays = serving.iter().any(|member| member.id == *before);
            let since = old.idle_since[index];
            let idle = old.idle_at(index, config) <= nanos(now);
            if before != after && stays && !idle && !forced {
                return Err(format!(
                    "bucket {index} went from {before} to {after} though idle only since {since} ns"
                ));
            }
        }
        Ok(())
    }

    /// A group that calls itself balanced has given every member its share; another one has moved
    /// whatever may move, and wakes for the next that may.
    fn check_balance(
        &self,
        object: &Object,
        serving: &[Member],
        config: &ResilientConfig,
        now: Instant,
    ) -> Result<(), String> {
        if serving.is_empty() {
            return Ok(());
        }
        let wants = shares(serving, config.buckets);
        let held = |id: u32| self.owners.iter().filter(|owner| **owner == id).count() as u64;
        let holds: Vec<u64> = serving.iter().map(|member| held(member.id)).collect();
        let balanced = self.unbalanced_since.is_none();
        if balanced != (holds == wants) {
            return Err(format!(
                "unbalanced since {:?} with {holds:?} where {wants:?} are wanted",
                self.unbalanced_since
            ));
        }
        if balanced {
            return Ok(());
        }
        let has_too_many = |owner: u32| {
            let at = serving.iter().position(|member| member.id == owner);
            at.is_some_and(|at| holds[at] > wants[at])
        };
        let next = (0..self.owners.len())
            .filter(|&index| has_too_many(self.owners[index]))
            .map(|index| self.idle_at(index, config))
            .min();
        let wake = object.resilient().and_then(Resilient::wake_at).map(nanos);
        // Upkeep may be half a second away, whatever comes before.
        let late = |next: i64| next.max(nanos(now) + 500_000_000);
        if next.is_some_and(|next| wake.is_none_or(|wake| wake > late(next))) {
            return Err(format!("a bucket may move at {next:?}, now {now:?}, wake-up {wake:?}"));
        }
        Ok(())
    }
}

fn nanos(at: Instant) -> i64 {
    at.as_nanos() as i64
}

fn buckets(config: &ResilientConfig) -> usize {
    usize::from(config.buckets)
}

/// How many buckets each member wants: the rounded share of all up to it, less what those before it want.
fn shares(members: &[Member], buckets: u16) -> Vec<u64> {
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    let (mut so_far, mut given) = (0, 0);
    let share = |member: &Member| {
        so_far += u64::from(member.weight);
        let end = (u64::from(buckets) * so_far + total / 2) / total;
        end - core::mem::replace(&mut given, end)
    };
    members.iter().map(share).collect()
}

/// A group's next hops are those of its members; the hashes at both ends of each region fall to the
/// hop whose region it is.
fn check_shares(fib: &Fib, model: &Model, id: u32, object: &Object) -> Result<(), String> {
    let route = Route::object(Prefix::DEFAULT_V4, id);
    let expected = hops(fib, &route.target);
    let paths = object.paths();
    let there = paths.paths().iter().map(|path| (path.hop, path.weight));
    if !expected.iter().map(|hop| (hop.hop, hop.weight)).eq(there) {
        return Err(format!("object {id} leads to {:?}, not to {expected:?}", paths.paths()));
    }
    let mut begin = 0;
    for (hop, end) in model.regions(&expected, &route) {
        for hash31 in [begin, end - 1].into_iter().filter(|hash| (begin..end).contains(hash)) {
            let came = paths.by_hash((hash31 << 1) as u32).map(|path| path.hop);
            let among = paths.by_hash_among((hash31 << 1) as u32, |_| true).map(|path| path.hop);
            if came != Some(hop.hop) || among != came {
                return Err(format!(
                    "hash {hash31} of object {id} falls to {came:?} and {among:?}, not to {:?}",
                    hop.hop
                ));
            }
        }
        begin = end;
    }
    Ok(())
}
