//! Lazy timers: a heap of (time, identifier) in which a timer is only ever moved to an earlier time.
//!
//! TCP moves its retransmission timer later with every ACK. A timer that had to be moved in the
//! heap each time would cost more than the ACK. So an entry stays where it is; when it comes up
//! its owner is called, looks at its own deadlines, and arms again for what is still ahead.

use crate::prefetch::prefetch_at;
use crate::units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An entry that is late by now, and an earlier one.
const FIRST_ENTRIES: usize = 2;

/// One earliest wake-up per identifier (socket or port), all in one heap.
#[derive(Debug)]
pub struct LazyTimers {
    /// The time of the heap's first entry: looked at far more often than changed.
    next_at: Instant,
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    /// By identifier: the earliest entry in the heap, `FAR_FUTURE` if none.
    armed: Vec<Instant>,
}

impl Default for LazyTimers {
    fn default() -> Self {
        Self { next_at: Instant::FAR_FUTURE, heap: BinaryHeap::new(), armed: Vec::new() }
    }
}

impl LazyTimers {
    /// Makes sure that `id` comes up no later than `at`.
    #[inline]
    pub fn arm(&mut self, id: u32, at: Instant) {
        if at == Instant::FAR_FUTURE {
            return;
        }
        let index = id as usize;
        if index >= self.armed.len() {
            self.add(index);
        }
        if at < self.armed[index] {
            self.armed[index] = at;
            self.heap.push(Reverse((at, id)));
            self.next_at = self.next_at.min(at);
        }
    }

    /// There is one more identifier. Most hosts have one, and there may be many hosts.
    #[cold]
    fn add(&mut self, index: usize) {
        if self.armed.is_empty() {
            self.armed.reserve_exact(index + 1);
            self.heap.reserve_exact(FIRST_ENTRIES);
        }
        self.armed.resize(index + 1, Instant::FAR_FUTURE);
    }

    /// Prefetches what arming `id` needs.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch_at(&self.armed, id as usize);
        prefetch_at(self.heap.as_slice(), 0);
    }

    /// When the next entry comes up; `FAR_FUTURE` if there is none. O(1).
    #[inline]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The next identifier that is due at `now`, each armed identifier once.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        while let Some(&Reverse((at, id))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let next = self.heap.peek();
            self.next_at = next.map_or(Instant::FAR_FUTURE, |Reverse((at, _))| *at);
            let armed = &mut self.armed[id as usize];
            if *armed == at {
                *armed = Instant::FAR_FUTURE;
                return Some(id);
            }
        }
        None
    }

    /// Forgets what was armed for `id` (its owner is gone and the number may be used again).
    pub fn forget(&mut self, id: u32) {
        if let Some(armed) = self.armed.get_mut(id as usize) {
            *armed = Instant::FAR_FUTURE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn only_the_earliest_deadline_of_an_id_fires() {
        let mut timers = LazyTimers::default();
        timers.arm(3, at(50));
        timers.arm(3, at(70));
        timers.arm(3, at(20));
        timers.arm(1, at(30));
        assert_eq!(timers.next_at(), at(20));
        assert_eq!(timers.pop_due(at(10)), None);
        assert_eq!(timers.pop_due(at(60)), Some(3));
        assert_eq!(timers.pop_due(at(60)), Some(1));
        assert_eq!(timers.pop_due(at(60)), None, "the entry at 50 had been superseded");
        assert_eq!(timers.next_at(), Instant::FAR_FUTURE);
    }

    #[test]
    fn an_owner_that_rearms_its_timer_fires_again() {
        let mut timers = LazyTimers::default();
        timers.arm(0, at(5));
        assert_eq!(timers.pop_due(at(5)), Some(0));
        timers.arm(0, at(9));
        assert_eq!(timers.pop_due(at(9)), Some(0));
    }

    #[test]
    fn a_forgotten_owner_does_not_come_up() {
        let mut timers = LazyTimers::default();
        timers.arm(0, at(5));
        timers.forget(0);
        assert_eq!(timers.pop_due(at(9)), None);
    }
}
