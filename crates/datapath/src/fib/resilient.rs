//! Resilient next-hop groups: a fixed table of buckets, of which only those move that must.
//!
//! A flow's bucket is its hash modulo the number of buckets. Every member *wants* a share of the
//! buckets by its weight. A bucket whose owner left the group moves at once; one whose owner holds
//! more than it wants moves when it has not been used for the idle timer, or when the group has
//! been unbalanced for the unbalanced timer (0 = never). So the loss of a member moves exactly the
//! flows of that member (Linux 5.13, `nh_res_group_rebalance`, `nh_res_table_upkeep`).

use crate::units::{Duration, Instant};
use core::sync::atomic::{AtomicU64, Ordering};

/// Configuration of a resilient group (`NHA_RES_GROUP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResilientConfig {
    /// How many buckets, 1..=65535; fixed for the life of the group.
    pub buckets: u16,
    /// A bucket unused for this long may move.
    pub idle_timer: Duration,
    /// After this long out of balance buckets move even while in use; zero = never.
    pub unbalanced_timer: Duration,
}

/// A member that can take buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the next-hop object.
    pub id: u32,
    /// Its share.
    pub weight: u16,
}

/// The table of buckets.
#[derive(Clone, Debug)]
pub struct Resilient {
    config: ResilientConfig,
    buckets: Box<[Bucket]>,
    /// Members in order of configuration, with what they want and hold.
    accounts: Vec<Account>,
    unbalanced_since: Option<Instant>,
    wake_at: Option<Instant>,
}

/// One bucket as `ip nexthop bucket show` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Place in the table.
    pub index: u16,
    /// Time since its last use.
    pub idle_time: Duration,
    /// The member that owns it.
    pub id: u32,
}

#[derive(Debug)]
struct Bucket {
    /// Owner; [`NOBODY`] at first.
    id: u32,
    /// When it was last used, in ns.
    used: AtomicU64,
    /// When it came to its owner, in ns. As long as it has not been used since, it is idle.
    migrated: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    member: Member,
    wants: u32,
    holds: u32,
}

const NOBODY: u32 = 0;

/// Upkeep comes round no sooner than this (`NH_RES_UPKEEP_DW_MINIMUM_INTERVAL`).
const UPKEEP_INTERVAL: Duration = Duration::from_millis(500);

impl Default for ResilientConfig {
    /// The kernel's defaults.
    fn default() -> Self {
        Self {
            buckets: 128,
            idle_timer: Duration::from_secs(120),
            unbalanced_timer: Duration::ZERO,
        }
    }
}

impl Clone for Bucket {
    fn clone(&self) -> Self {
        let Self { id, used, migrated } = self;
        Self { id: *id, used: AtomicU64::new(used.load(Ordering::Relaxed)), migrated: *migrated }
    }
}

impl Resilient {
    /// A table in which the members have taken their shares.
    pub fn new(now: Instant, config: ResilientConfig, members: &[Member]) -> Self {
        assert!(config.buckets > 0, "a resilient group needs a bucket");
        let bucket = |_| Bucket { id: NOBODY, used: AtomicU64::new(0), migrated: 0 };
        let mut table = Self {
            config,
            buckets: (0..config.buckets).map(bucket).collect(),
            accounts: Vec::new(),
            unbalanced_since: None,
            wake_at: None,
        };
        table.set_members(now, members);
        table
    }

    /// The configuration.
    pub fn config(&self) -> ResilientConfig {
        self.config
    }

    /// Changes the timers, before [`Resilient::set_members`]; the number of buckets stays.
    pub fn set_timers(&mut self, idle: Duration, unbalanced: Duration) {
        (self.config.idle_timer, self.config.unbalanced_timer) = (idle, unbalanced);
    }

    /// Other members, weights or timers: shares are counted anew and buckets that may move do.
    pub fn set_members(&mut self, now: Instant, members: &[Member]) {
        let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
        let buckets = u64::from(self.config.buckets);
        let (mut so_far, mut upper) = (0, 0);
        self.accounts.clear();
        for &member in members {
            so_far += u64::from(member.weight);
            let bound = ((buckets * so_far + total / 2) / total) as u32;
            let holds = self.buckets.iter().filter(|bucket| bucket.id == member.id).count() as u32;
            self.accounts.push(Account { member, wants: bound - upper, holds });
            upper = bound;
        }
        self.upkeep(now);
    }

    /// Buckets of a member that is gone belong to nobody until another member takes them.
    pub fn disown(&mut self, is_gone: impl Fn(u32) -> bool) {
        for bucket in self.buckets.iter_mut().filter(|bucket| is_gone(bucket.id)) {
            bucket.id = NOBODY;
        }
    }

    /// The member that a hash leads to; the bucket counts as used at `now`.
    #[inline]
    pub fn select(&self, hash: u32, now: Option<Instant>) -> Option<u32> {
        let bucket = &self.buckets[((hash >> 1) % self.buckets.len() as u32) as usize];
        if let Some(now) = now {
            bucket.used.store(now.as_nanos(), Ordering::Relaxed);
        }
        (bucket.id != NOBODY).then_some(bucket.id)
    }

    /// Since when members have held other shares than they want.
    pub fn unbalanced_since(&self) -> Option<Instant> {
        self.unbalanced_since
    }

    /// When [`Resilient::upkeep`] may have something to do.
    pub fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    /// Every bucket in order.
    pub fn buckets(&self, now: Instant) -> impl Iterator<Item = BucketInfo> {
        (0..).zip(&self.buckets).map(move |(index, bucket)| BucketInfo {
            index,
            idle_time: Duration::from_nanos(
                now.as_nanos().saturating_sub(bucket.used.load(Ordering::Relaxed)),
            ),
            id: bucket.id,
        })
    }

    /// Moves the buckets that may move at `now` (`nh_res_table_upkeep`).
    pub fn upkeep(&mut self, now: Instant) {
        self.wake_at = None;
        let forced = self.is_forced(now);
        for index in 0..self.buckets.len() {
            // The last member of the group that wants more is served first.
            let Some(taker) = self.accounts.iter().rposition(|one| one.holds < one.wants) else {
                break;
            };
            if self.may_move(index, now, forced) {
                self.migrate(index, taker, now);
            }
        }
        self.note_balance(now);
    }

    fn is_forced(&self, now: Instant) -> bool {
        let timer = self.config.unbalanced_timer;
        timer > Duration::ZERO && self.unbalanced_since.is_some_and(|since| now >= since + timer)
    }

    fn may_move(&mut self, index: usize, now: Instant, forced: bool) -> bool {
        let bucket = &self.buckets[index];
        let Some(owner) = self.accounts.iter().find(|one| one.member.id == bucket.id) else {
            return true;
        };
        if owner.holds <= owner.wants {
            return false;
        }
        let used = bucket.used.load(Ordering::Relaxed);
        let idle_at = used.saturating_add(self.config.idle_timer.as_nanos());
        // Not used since it has moved: it may move again at once (`nh_res_bucket_idle_point`).
        if forced || used == bucket.migrated || now.as_nanos() >= idle_at {
            return true;
        }
        self.wake_no_later_than(Instant::from_nanos(idle_at));
        false
    }

    fn migrate(&mut self, index: usize, taker: usize, now: Instant) {
        let bucket = &mut self.buckets[index];
        if let Some(owner) = self.accounts.iter_mut().find(|one| one.member.id == bucket.id) {
            owner.holds -= 1;
        }
        self.accounts[taker].holds += 1;
        bucket.id = self.accounts[taker].member.id;
        bucket.migrated = now.as_nanos();
        bucket.used.store(bucket.migrated, Ordering::Relaxed);
    }

    fn note_balance(&mut self, now: Instant) {
        if self.accounts.iter().all(|one| one.holds >= one.wants) {
            self.unbalanced_since = None;
            self.wake_at = None;
            return;
        }
        let since = *self.unbalanced_since.get_or_insert(now);
        if self.config.unbalanced_timer > Duration::ZERO {
            self.wake_no_later_than(since + self.config.unbalanced_timer);
        }
        let earliest = now + UPKEEP_INTERVAL;
        self.wake_at = self.wake_at.map(|wake| wake.max(earliest));
    }

    fn wake_no_later_than(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |wake| wake.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(list: &[(u32, u16)]) -> Vec<Member> {
        list.iter().map(|&(id, weight)| Member { id, weight }).collect()
    }

    fn config(buckets: u16, idle: u64, unbalanced: u64) -> ResilientConfig {
        ResilientConfig {
            buckets,
            idle_timer: Duration::from_secs(idle),
            unbalanced_timer: Duration::from_secs(unbalanced),
        }
    }

    fn owners(table: &Resilient) -> Vec<u32> {
        table.buckets(at(0)).map(|bucket| bucket.id).collect()
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn touch_all(table: &Resilient, now: Instant) {
        for bucket in 0..table.buckets.len() as u32 {
            table.select(bucket << 1, Some(now));
        }
    }

    /// Layouts that Linux 6.18 was seen to make.
    #[test]
    fn layouts_of_the_kernel() {
        let mut table = Resilient::new(at(0), config(8, 0, 0), &members(&[(1, 1), (2, 1), (3, 1)]));
        assert_eq!(owners(&table), [3, 3, 3, 2, 2, 1, 1, 1]);
        table.set_members(at(1), &members(&[(1, 1), (3, 1)]));
        assert_eq!(owners(&table), [3, 3, 3, 3, 1, 1, 1, 1]);
        table.set_members(at(2), &members(&[(1, 1), (2, 1), (3, 1)]));
        assert_eq!(owners(&table), [2, 3, 3, 3, 2, 1, 1, 1]);
        let weighted = Resilient::new(at(0), config(8, 0, 0), &members(&[(1, 3), (2, 1)]));
        assert_eq!(owners(&weighted), [2, 2, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_bucket_in_use_waits_for_idleness() {
        let mut table = Resilient::new(at(0), config(4, 10, 0), &members(&[(1, 1), (2, 1)]));
        assert_eq!(owners(&table), [2, 2, 1, 1]);
        for bucket in 0..4 {
            table.select(bucket << 1, Some(at(5 + u64::from(bucket))));
        }
        table.set_members(at(9), &members(&[(1, 1), (2, 1), (3, 2)]));
        assert_eq!((owners(&table), table.wake_at()), (vec![2, 2, 1, 1], Some(at(15))));
        table.upkeep(at(15));
        assert_eq!((owners(&table), table.wake_at()), (vec![3, 2, 1, 1], Some(at(17))));
        table.select(2 << 1, Some(at(16)));
        table.upkeep(at(17));
        assert_eq!((owners(&table), table.wake_at()), (vec![3, 2, 1, 1], Some(at(18))));
        table.upkeep(at(18));
        assert_eq!((owners(&table), table.wake_at()), (vec![3, 2, 1, 3], None));
    }

    #[test]
    fn the_unbalanced_timer_forces_and_a_lost_member_does_not_wait() {
        let mut table = Resilient::new(at(0), config(4, 60, 3), &members(&[(1, 1), (2, 1)]));
        touch_all(&table, at(1));
        table.set_members(at(2), &members(&[(1, 1), (2, 1), (3, 2)]));
        assert_eq!((owners(&table), table.wake_at()), (vec![2, 2, 1, 1], Some(at(5))));
        table.upkeep(at(5));
        assert_eq!(owners(&table), [3, 2, 3, 1]);
        assert_eq!(table.unbalanced_since(), None);
        touch_all(&table, at(6));
        table.set_members(at(7), &members(&[(1, 1), (2, 1)]));
        assert_eq!(owners(&table), [2, 2, 1, 1], "buckets of a lost member move at once");
    }

    /// As Linux 6.18 was seen to do: buckets are new when they come to their owner, and idle until they are
    /// used, whatever the idle timer becomes meanwhile.
    #[test]
    fn a_bucket_is_idle_until_its_first_use() {
        let mut table = Resilient::new(at(7), config(4, 2, 0), &members(&[(1, 1), (2, 1)]));
        let idle = |table: &Resilient, now| -> Vec<u64> {
            table
                .buckets(at(now))
                .map(|bucket| bucket.idle_time.as_nanos() / 1_000_000_000)
                .collect()
        };
        assert_eq!(idle(&table, 7), [0; 4]);
        assert_eq!(idle(&table, 8), [1; 4]);
        table.select(2 << 1, Some(at(8)));
        table.set_timers(Duration::from_secs(300), Duration::ZERO);
        table.set_members(at(9), &members(&[(1, 1), (2, 1), (3, 2)]));
        assert_eq!((owners(&table), idle(&table, 9)), (vec![3, 2, 1, 3], vec![0, 2, 1, 0]));
    }

    /// `nh_res_table_upkeep()` comes round half a second after the last time at the earliest.
    #[test]
    fn upkeep_keeps_its_distance() {
        let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut table = Resilient::new(at(0), config(4, 1, 0), &members(&[(1, 1), (2, 1)]));
        for bucket in 0..4 {
            table.select(bucket << 1, Some(ms(1 + 100 * u64::from(bucket))));
        }
        table.set_members(ms(900), &members(&[(1, 1), (2, 1), (3, 2)]));
        assert_eq!((owners(&table), table.wake_at()), (vec![2, 2, 1, 1], Some(ms(1_400))));
        table.upkeep(ms(1_400));
        assert_eq!((owners(&table), table.wake_at()), (vec![3, 2, 3, 1], None));
    }

    /// As Linux 6.18 was seen to do with all buckets in constant use: the clock of imbalance runs
    /// on through a second change, and then only as many buckets move as must.
    #[test]
    fn imbalance_counts_from_its_beginning() {
        let mut table = Resilient::new(at(0), config(8, 60, 2), &members(&[(1, 1), (2, 1)]));
        touch_all(&table, at(1));
        table.set_members(at(1), &members(&[(1, 3), (2, 1)]));
        table.set_members(at(2), &members(&[(1, 5), (2, 1)]));
        assert_eq!((table.unbalanced_since(), table.wake_at()), (Some(at(1)), Some(at(3))));
        touch_all(&table, at(3));
        table.upkeep(at(3));
        assert_eq!(owners(&table), [1, 1, 1, 2, 1, 1, 1, 1]);
        assert_eq!((table.unbalanced_since(), table.wake_at()), (None, None));
    }
}
