//! Consistency checks of all qdiscs: counters recomputed from the queues. Under debug assertions an attached qdisc
//! checks itself now and then, and the swarm tester checks all of them after every step.

use super::any::AnyQdisc;
use super::sched::Sched;
use super::{Backlog, Qdisc as _};
use core::cell::RefCell;

/// Number of sent packets between two checks.
const SELDOM: u64 = 64;

impl Sched {
    /// Asserts that all counts and lists here and below agree with the packets. Nothing without debug
    /// assertions.
    pub fn check(&self) {
        if cfg!(debug_assertions) {
            for (_, sched) in self.tree() {
                sched.check_own();
            }
        }
    }

    /// [`Sched::check`] of this one alone, now and then.
    #[inline]
    pub(super) fn check_seldom(&self) {
        if cfg!(debug_assertions) && self.stats().packets.is_multiple_of(SELDOM) {
            self.check_own();
        }
    }

    #[cold]
    fn check_own(&self) {
        match self.qdisc() {
            AnyQdisc::Fifo(fifo) => fifo.check(),
            AnyQdisc::PfifoFast(pfifo_fast) => pfifo_fast.check(),
            AnyQdisc::Codel(codel) => codel.check(),
            AnyQdisc::Fq(fq) => fq.check(),
            AnyQdisc::FqCodel(fq_codel) => fq_codel.check(),
            AnyQdisc::Cake(cake) => cake.check(),
            AnyQdisc::Netem(netem) => netem.check(),
            AnyQdisc::DualPi2(dualpi2) => dualpi2.check(),
            AnyQdisc::Pie(pie) => pie.check(),
            AnyQdisc::Htb(htb) => htb.check(),
            AnyQdisc::Tbf(_) | AnyQdisc::Red(_) | AnyQdisc::Prio(_) | AnyQdisc::Guest(_) => {}
        }
    }
}

/// Asserts that a count of what waits is the sum over what does.
pub(super) fn assert_holds(says: Backlog, holds: Backlog, who: &str) {
    assert_eq!(says, holds, "{who} says and holds");
}

/// Asserts that every flow with packets is in a list, and each in one place of one list at most.
/// `flows` tells of each flow whether it is said to be listed, and whether it has packets.
pub(super) fn assert_lists(
    flows: impl Iterator<Item = (bool, bool)>,
    listed: impl Iterator<Item = u32>,
    who: &str,
) {
    let mut flows_left = flows.enumerate();
    let mut compare = |flow: usize, times: u32| {
        let Some((_, (is_listed, has_packets))) = flows_left.next() else {
            assert!(times == 0, "flow {flow} of {who} is listed, and there is none");
            return false;
        };
        assert_eq!(times, u32::from(is_listed), "times that flow {flow} of {who} is listed");
        assert!(is_listed || !has_packets, "flow {flow} of {who} has packets and is in no list");
        true
    };
    count(listed, |times| {
        let mut at = 0;
        while compare(at, times.get(at).copied().unwrap_or(0)) || at < times.len() {
            at += 1;
        }
    });
}

thread_local! {
    /// Memory for counting, which is kept: checks also run where nothing may be allocated.
    static COUNTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Counts how often each number comes.
pub(super) fn count(numbers: impl Iterator<Item = u32>, look: impl FnOnce(&[u32])) {
    COUNTS.with_borrow_mut(|counts| {
        counts.clear();
        for number in numbers {
            let number = number as usize;
            if number >= counts.len() {
                counts.resize(number + 1, 0);
            }
            counts[number] += 1;
        }
        look(counts);
    });
}
