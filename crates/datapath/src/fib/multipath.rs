//! The choice among several next hops: hash-threshold (RFC 2992) and its alternatives.
//!
//! The 31-bit hash space is divided into regions in the order of the next hops; the region of each ends
//! at its *inclusive* upper bound. A hop out of service has the bound −1, which is below every
//! hash, and the regions of the others are recomputed.

use super::Hop;
use super::route::NextHop;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// One next hop in service or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Port and next router.
    pub hop: Hop,
    /// Share.
    pub weight: u16,
    /// Largest 31-bit hash that falls to this hop; −1 = none.
    pub bound: i32,
    /// `onlink` was given.
    pub onlink: bool,
    /// `RTNH_F_DEAD`: the device is down.
    pub dead: bool,
    /// `RTNH_F_LINKDOWN`: the device has no carrier.
    pub linkdown: bool,
    /// Usable: neither dead nor, where that counts, without carrier.
    pub usable: bool,
}

/// The next hops of one route or group. Most have a single one, which needs no further
/// state.
#[derive(Clone, Debug, Default)]
pub struct PathSet(Paths);

#[derive(Clone, Debug)]
enum Paths {
    One(Path),
    /// Another number of them; how they share what goes to them, if there are any.
    Several(Box<[Path]>, Option<Box<Shares>>),
}

/// What several need lies where a single one has its parts.
const _: () = assert!(size_of::<PathSet>() == size_of::<Path>());

/// How several next hops share what goes to them.
#[derive(Debug)]
struct Shares {
    /// Sum of the weights of usable paths.
    total: u32,
    /// ⌈2⁶⁴ / total⌉, by which a remainder costs two multiplications (Lemire, Kaser, Kurz 2019).
    reciprocal: u64,
    turn: AtomicU32,
    credits: Option<Box<Credits>>,
}

impl Path {
    const fn new(configured: &NextHop) -> Self {
        Self {
            hop: configured.hop,
            weight: configured.weight,
            bound: -1,
            onlink: configured.onlink,
            dead: false,
            linkdown: false,
            usable: true,
        }
    }

    /// As it was configured.
    pub(super) const fn configured(&self) -> NextHop {
        NextHop { hop: self.hop, weight: self.weight, onlink: self.onlink }
    }
}

impl Default for Paths {
    fn default() -> Self {
        Self::Several(Box::default(), None)
    }
}

impl Paths {
    #[inline]
    fn all(&self) -> &[Path] {
        match self {
            Self::One(path) => core::slice::from_ref(path),
            Self::Several(paths, _) => paths,
        }
    }

    fn all_mut(&mut self) -> &mut [Path] {
        match self {
            Self::One(path) => core::slice::from_mut(path),
            Self::Several(paths, _) => paths,
        }
    }

    /// How they share, where that is kept.
    #[inline]
    fn shares(&self) -> Option<&Shares> {
        match self {
            Self::One(_) => None,
            Self::Several(_, shares) => shares.as_deref(),
        }
    }

    /// Computes the regions (`fib_rebalance()`): bound = ⌊2³¹ · (weights so far) / (all weights)⌉ − 1.
    /// Gives the sum of the weights of usable paths.
    fn rebalance(&mut self) -> u32 {
        let paths = self.all_mut();
        let sum = paths.iter().filter(|path| path.usable).map(|path| u32::from(path.weight)).sum();
        let total = u64::from(sum);
        let mut so_far = 0;
        for path in paths {
            path.bound = -1;
            if path.usable && total > 0 {
                so_far += u64::from(path.weight);
                path.bound = (((so_far << 31) + total / 2) / total) as u32 as i32;
                path.bound = path.bound.wrapping_sub(1);
            }
        }
        sum
    }
}

impl Clone for Shares {
    fn clone(&self) -> Self {
        let Self { total, reciprocal, turn, credits } = self;
        Self {
            total: *total,
            reciprocal: *reciprocal,
            turn: AtomicU32::new(turn.load(Ordering::Relaxed)),
            credits: credits.clone(),
        }
    }
}

impl Shares {
    fn of(total: u32) -> Self {
        let mut shares = Self { total, reciprocal: 0, turn: AtomicU32::new(0), credits: None };
        shares.set_total(total);
        shares
    }

    fn set_total(&mut self, total: u32) {
        self.total = total;
        self.reciprocal = (u64::MAX / u64::from(total.max(1))).wrapping_add(1);
    }

    /// `number` modulo the sum of weights.
    #[inline]
    fn remainder(&self, number: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(number.into());
        ((u128::from(fraction) * u128::from(self.total)) >> 64) as u32
    }

    /// The number of the next turn.
    #[inline]
    fn next_turn(&self) -> u32 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

impl PathSet {
    /// The paths in order of configuration, all in service.
    pub fn new(hops: &[NextHop]) -> Self {
        let paths = match hops {
            [only] => Paths::One(Path::new(only)),
            hops => {
                let shares = (!hops.is_empty()).then(|| Box::new(Shares::of(0)));
                Paths::Several(hops.iter().map(Path::new).collect(), shares)
            }
        };
        let mut set = Self(paths);
        set.balance();
        set
    }

    /// Turns on the credit scheduler (see [`PathSet::by_credit`]).
    pub fn with_credits(mut self) -> Self {
        if let Paths::One(path) = self.0 {
            self.0 = Paths::Several(Box::new([path]), None);
        }
        let total = self.0.rebalance();
        if let Paths::Several(paths, shares) = &mut self.0 {
            let shares = shares.get_or_insert_with(|| Box::new(Shares::of(total)));
            shares.credits = Some(Box::new(Credits::new(paths)));
        }
        self
    }

    /// All paths, in order of configuration.
    #[inline]
    pub fn paths(&self) -> &[Path] {
        self.0.all()
    }

    /// True while some path is in service.
    #[inline]
    pub fn is_usable(&self) -> bool {
        match &self.0 {
            Paths::One(path) => path.bound >= 0,
            Paths::Several(_, shares) => shares.as_ref().is_some_and(|shares| shares.total > 0),
        }
    }

    /// Updates the state of every path and recomputes the regions.
    pub fn update(&mut self, state: impl FnMut(&mut Path)) {
        self.0.all_mut().iter_mut().for_each(state);
        self.balance();
    }

    /// Recomputes the regions, and the sharing state of several paths.
    fn balance(&mut self) {
        let total = self.0.rebalance();
        if let Paths::Several(paths, Some(shares)) = &mut self.0 {
            shares.set_total(total);
            if let Some(credits) = &mut shares.credits {
                **credits = Credits::new(paths);
            }
        }
    }

    /// `fib_select_multipath()`: the first path whose upper bound is not below the hash.
    #[inline]
    pub fn by_hash(&self, hash: u32) -> Option<&Path> {
        let hash31 = (hash >> 1) as i32;
        self.paths().iter().find(|path| hash31 <= path.bound)
    }

    /// The same with `fib_multipath_use_neigh`: a path whose next router is known to be
    /// unreachable is skipped, and its share goes to the next reachable one, from the last one
    /// to the first.
    pub fn by_hash_among(&self, hash: u32, good: impl Fn(&Path) -> bool) -> Option<&Path> {
        let hash31 = (hash >> 1) as i32;
        let mut candidates = self.paths().iter().filter(|path| path.usable && good(path));
        let first = candidates.next();
        match first {
            Some(path) if hash31 > path.bound => {
                candidates.find(|path| hash31 <= path.bound).or(first)
            }
            Some(_) => first,
            None => self.paths().iter().find(|path| path.usable),
        }
    }

    /// Round-robin by weight: each call takes the next of `total` turns, of which a path has as
    /// many in a row as its weight.
    #[inline]
    pub fn by_turn(&self) -> Option<&Path> {
        self.by_share(|shares| shares.remainder(shares.next_turn()))
    }

    /// Modulo-N: the hash modulo the total weight.
    pub fn by_modulo(&self, hash: u32) -> Option<&Path> {
        self.by_share(|shares| shares.remainder(hash >> 1))
    }

    /// The scheduler of Linux 3.6 to 4.3: each path holds credits; a random one of those left is
    /// spent under a spin lock; when none are left every path gets its weight again.
    pub fn by_credit(&self) -> Option<&Path> {
        let credits = self.0.shares().and_then(|shares| shares.credits.as_ref());
        let credits = credits.expect("the credit scheduler was not turned on");
        let paths = self.paths();
        self.is_usable().then(|| &paths[credits.spend(paths)])
    }

    /// The path that owns the share whose number is drawn, of all those of usable paths.
    #[inline]
    fn by_share(&self, draw: impl FnOnce(&Shares) -> u32) -> Option<&Path> {
        if !self.is_usable() {
            return None;
        }
        let mut share = self.0.shares().map_or(0, draw);
        self.paths().iter().filter(|path| path.usable).find(|path| {
            let weight = u32::from(path.weight);
            let found = share < weight;
            share = share.wrapping_sub(weight);
            found
        })
    }
}

/// State of the credit scheduler, shared by all processors and therefore behind a lock.
#[derive(Debug)]
struct Credits {
    locked: AtomicBool,
    left: AtomicU32,
    of_path: Box<[AtomicU32]>,
    random: AtomicU64,
}

impl Clone for Credits {
    fn clone(&self) -> Self {
        let copy = |number: &AtomicU32| AtomicU32::new(number.load(Ordering::Relaxed));
        self.alone(|| Self {
            locked: AtomicBool::new(false),
            left: copy(&self.left),
            of_path: self.of_path.iter().map(copy).collect(),
            random: AtomicU64::new(self.random.load(Ordering::Relaxed)),
        })
    }
}

impl Credits {
    fn new(paths: &[Path]) -> Self {
        Self {
            locked: AtomicBool::new(false),
            left: AtomicU32::new(0),
            of_path: paths.iter().map(|_| AtomicU32::new(0)).collect(),
            random: AtomicU64::new(RANDOM_START),
        }
    }

    /// Spends a random credit and returns the index of its path.
    fn spend(&self, paths: &[Path]) -> usize {
        self.alone(|| self.spend_locked(paths))
    }

    /// Does something under the lock.
    fn alone<R>(&self, act: impl FnOnce() -> R) -> R {
        while self.locked.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        let result = act();
        self.locked.store(false, Ordering::Release);
        result
    }

    fn spend_locked(&self, paths: &[Path]) -> usize {
        if self.left.load(Ordering::Relaxed) == 0 {
            self.refill(paths);
        }
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left - 1, Ordering::Relaxed);
        let mut drawn = self.draw(left);
        for (index, credits) in self.of_path.iter().enumerate() {
            let held = credits.load(Ordering::Relaxed);
            if drawn < held {
                credits.store(held - 1, Ordering::Relaxed);
                return index;
            }
            drawn -= held;
        }
        panic!("{left} credits were left, but no path had them");
    }

    fn refill(&self, paths: &[Path]) {
        let mut left = 0;
        for (credits, path) in self.of_path.iter().zip(paths) {
            let share = if path.usable { u32::from(path.weight) } else { 0 };
            credits.store(share, Ordering::Relaxed);
            left += share;
        }
        self.left.store(left, Ordering::Relaxed);
    }

    /// A number below `bound` (an LCG stands in for `jiffies`, which the kernel used).
    fn draw(&self, bound: u32) -> u32 {
        let next = self
            .random
            .load(Ordering::Relaxed)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random.store(next, Ordering::Relaxed);
        (((next >> 32) * u64::from(bound)) >> 32) as u32
    }
}

const RANDOM_START: u64 = 0x4d59_5df4_d0f3_3173;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(weights: &[u16]) -> PathSet {
        let hops: Vec<_> = (1..)
            .zip(weights)
            .map(|(port, &weight)| NextHop::new(port, None).weight(weight))
            .collect();
        PathSet::new(&hops)
    }

    fn bounds(set: &PathSet) -> Vec<i32> {
        set.paths().iter().map(|path| path.bound).collect()
    }

    #[test]
    fn bounds_are_inclusive_and_rounded() {
        assert_eq!(
            bounds(&set(&[1, 1, 1, 1])),
            [0x1fff_ffff, 0x3fff_ffff, 0x5fff_ffff, 0x7fff_ffff]
        );
        assert_eq!(bounds(&set(&[1, 1, 1])), [715_827_882, 1_431_655_764, i32::MAX]);
        assert_eq!(bounds(&set(&[256, 1])), [2_139_127_680 - 1, i32::MAX]);
        assert_eq!(bounds(&set(&[7])), [i32::MAX]);
    }

    #[test]
    fn a_path_out_of_service_has_no_region() {
        let mut set = set(&[1, 1, 1]);
        set.update(|path| path.usable = path.hop.port != 2);
        assert_eq!(bounds(&set), [0x3fff_ffff, -1, 0x7fff_ffff]);
        set.update(|path| path.usable = false);
        assert!(!set.is_usable());
        assert!(set.by_hash(0).is_none() && set.by_turn().is_none() && set.by_modulo(3).is_none());
        set.update(|path| path.usable = true);
        assert_eq!(bounds(&set), [715_827_882, 1_431_655_764, i32::MAX]);
    }

    #[test]
    fn remainders_are_those_of_division() {
        for weights in [&[1_u16][..], &[1, 1], &[1, 3, 3], &[256, 1], &[255; 16], &[65535; 9]] {
            let shares = Shares::of(weights.iter().map(|&weight| u32::from(weight)).sum());
            for step in 0..2000u32 {
                for number in [step, u32::MAX - step, step.wrapping_mul(0x9e37_79b9)] {
                    let expected = number % shares.total;
                    assert_eq!(shares.remainder(number), expected, "{number} {weights:?}");
                }
            }
        }
    }

    #[test]
    fn one_path_has_every_share() {
        for mut set in [set(&[3]), set(&[3]).with_credits()] {
            let all = |set: &PathSet| {
                [set.by_turn(), set.by_modulo(7), set.by_hash(9)].map(Option::<&Path>::copied)
            };
            let only = set.paths()[0];
            assert_eq!((all(&set), set.is_usable()), ([Some(only); 3], true));
            set.update(|path| path.usable = false);
            assert_eq!((all(&set), set.is_usable()), ([None; 3], false));
        }
        assert!(!set(&[]).is_usable() && set(&[]).by_turn().is_none());
    }

    #[test]
    fn turns_follow_the_weights() {
        let set = set(&[1, 3, 2]);
        let ports: Vec<_> = (0..12).map(|_| set.by_turn().unwrap().hop.port).collect();
        assert_eq!(ports, [1, 2, 2, 2, 3, 3, 1, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn credits_are_spent_by_weight_in_every_round() {
        let set = set(&[1, 3, 2]).with_credits();
        for _ in 0..50 {
            let mut counts = [0; 4];
            for _ in 0..6 {
                counts[usize::from(set.by_credit().unwrap().hop.port)] += 1;
            }
            assert_eq!(counts, [0, 1, 3, 2]);
        }
    }

    #[test]
    fn a_bad_neighbour_leaves_its_share_to_the_next() {
        let set = set(&[1, 1, 1, 1]);
        let port = |hash: u32| set.by_hash_among(hash, |path| path.hop.port != 2).unwrap().hop.port;
        assert_eq!([0, 0x4000_0000, 0x8000_0000, 0xc000_0000].map(port), [1, 3, 3, 4]);
        let last = |hash: u32| set.by_hash_among(hash, |path| path.hop.port != 4).unwrap().hop.port;
        assert_eq!(last(0xc000_0000), 1, "the last one's share goes round to the first");
        assert_eq!(set.by_hash_among(0xc000_0000, |_| false).unwrap().hop.port, 1);
    }

    /// RFC 2992 section 3: the share of flows that change path when one of `n` goes.
    #[test]
    fn disruption_is_that_of_rfc_2992() {
        for n in 2u64..=8 {
            for gone in 1..=n {
                let all = set(&vec![1; n as usize]);
                let mut without = set(&vec![1; n as usize]);
                without.update(|path| path.usable = u64::from(path.hop.port) != gone);
                let samples = 100_000u64;
                let moved = (0..samples)
                    .map(|sample| (sample * (u64::from(u32::MAX) + 1) / samples) as u32)
                    .filter(|&h| all.by_hash(h).unwrap().hop != without.by_hash(h).unwrap().hop)
                    .count() as u64;
                let (left, right) = (gone - 1, n - gone);
                let pairs = left * left.saturating_sub(1) / 2 + right * right.saturating_sub(1) / 2;
                // 1/n + pairs / (n (n - 1)), in parts of `samples`.
                let expected = samples * (n - 1 + pairs) / (n * (n - 1));
                assert!(moved.abs_diff(expected) <= n * n, "n {n} gone {gone}: {moved} {expected}");
            }
        }
    }
}
