//! Consistency checks of all qdiscs: counters recomputed from the queues. Under debug assertions an attached qdisc
//! checks itself now and then, and the swarm tester checks all of them after every step.

use super::Qdisc as _;
use super::any::AnyQdisc;
use super::sched::Sched;

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
