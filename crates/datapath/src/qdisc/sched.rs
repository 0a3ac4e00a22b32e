//! An attached qdisc: with its handle, and with the packet that its parent has peeked at.

use super::any::{AnyQdisc, classless};
use super::fifo::{Fifo, FifoKind};
use super::fq::Fq;
use super::handle::Handle;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::Packet;
use crate::prefetch::prefetch;
use crate::reason::Reason;
use crate::units::Instant;
use core::slice::{from_mut, from_ref};

/// A qdisc where it is attached (`struct Qdisc`): at the root of a port or under a class.
///
/// Ordered by use: a packet that passes an empty FIFO needs the first cache line.
///
/// ```
/// use datapath::qdisc::fifo::{Fifo, FifoKind};
/// use datapath::qdisc::{Handle, Sched};
/// let root = Sched::new(Handle::NONE, Fifo::new(FifoKind::Packets(1000)));
/// assert_eq!(root.qdisc().kind(), "pfifo");
/// ```
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Sched {
    qdisc: AnyQdisc,
    /// Something is held.
    holds: bool,
    /// Its handle, `major:`.
    pub handle: Handle,
    /// The place of a packet that `peek` has taken out early and that still belongs to this queue;
    /// made at first use.
    held: Option<Box<Packet>>,
}

impl Sched {
    /// Attaches `qdisc` as `handle`.
    pub fn new(handle: Handle, qdisc: impl Into<AnyQdisc>) -> Self {
        Self { holds: false, handle, qdisc: qdisc.into(), held: None }
    }

    /// Prefetches what every packet needs.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.qdisc);
    }

    /// The qdisc itself.
    pub fn qdisc(&self) -> &AnyQdisc {
        &self.qdisc
    }

    /// The qdisc itself, to change its settings.
    pub fn qdisc_mut(&mut self) -> &mut AnyQdisc {
        &mut self.qdisc
    }

    /// The packet that the next `dequeue` gives, without taking it.
    ///
    /// A FIFO just returns its head. A qdisc that decides at dequeue takes the packet out and keeps it
    /// (`qdisc_peek_dequeued`), so it decides now and not when the parent has tokens.
    pub fn peek(&mut self, cx: &mut Cx<'_>) -> Option<&Packet> {
        match &mut self.qdisc {
            AnyQdisc::Fifo(fifo) => return fifo.peek(),
            AnyQdisc::Red(red) => return red.peek(cx),
            AnyQdisc::Prio(prio) => return prio.peek(cx),
            deciding @ (AnyQdisc::PfifoFast(_)
            | AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_)) => {
                if !self.holds {
                    self.holds = deciding.dequeue_into(self.held.get_or_insert_default(), cx);
                }
            }
        }
        if self.holds { self.held.as_deref() } else { None }
    }

    /// Whether a packet may bypass the qdisc if the device has room: nothing is queued, and the
    /// qdisc permits it (`TCQ_F_CAN_BYPASS`).
    #[inline]
    pub fn may_bypass(&self) -> bool {
        match &self.qdisc {
            AnyQdisc::Fifo(fifo) => fifo.may_bypass(),
            AnyQdisc::PfifoFast(pfifo_fast) => pfifo_fast.may_bypass(),
            AnyQdisc::Codel(codel) => codel.may_bypass(),
            AnyQdisc::FqCodel(fq_codel) => fq_codel.may_bypass(),
            AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => false,
        }
    }

    /// Counts a packet that went past the queue as sent.
    #[inline]
    pub fn count_bypass(&mut self, packet: &Packet) {
        match &mut self.qdisc {
            AnyQdisc::Fifo(fifo) => fifo.count_bypass(packet),
            AnyQdisc::PfifoFast(pfifo_fast) => pfifo_fast.count_bypass(packet),
            AnyQdisc::Codel(codel) => codel.count_bypass(packet),
            AnyQdisc::FqCodel(fq_codel) => fq_codel.count_bypass(packet),
            AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => {}
        }
    }

    /// An empty FIFO, for which a dequeue would change nothing.
    #[inline]
    pub fn rests(&self) -> bool {
        match &self.qdisc {
            AnyQdisc::Fifo(fifo) => fifo.backlog().packets == 0,
            AnyQdisc::PfifoFast(pfifo_fast) => pfifo_fast.may_bypass(),
            AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => false,
        }
    }

    /// Whether it may have something to send later, without any new packet.
    pub(super) fn has_timer(&self) -> bool {
        match &self.qdisc {
            AnyQdisc::Fifo(_)
            | AnyQdisc::PfifoFast(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_) => false,
            AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => true,
        }
    }

    /// Whether senders are to set their packets' times, because fq keeps them.
    #[inline]
    pub fn paces(&self) -> bool {
        self.fq().is_some_and(Fq::paces)
    }

    /// Sets the maximum rate of a datagram socket in each fq, in byte/s; `u64::MAX`: no limit.
    #[cold]
    pub(crate) fn limit_sender(&mut self, owner: u32, rate: u64) {
        if let AnyQdisc::Fq(fq) = &mut self.qdisc {
            fq.limit_sender(owner, rate);
        }
        for child in self.children_mut() {
            child.limit_sender(owner, rate);
        }
    }

    /// The device whose root this is has another `tx_queue_len`, which pfifo_fast follows there
    /// (`dev_qdisc_change_tx_queue_len`). Others keep the limit that they were made with.
    #[cold]
    pub fn change_tx_queue_len(&mut self, packets: u32, cx: &mut Cx<'_>) {
        if let AnyQdisc::PfifoFast(pfifo_fast) = &mut self.qdisc {
            pfifo_fast.change_tx_queue_len(packets, cx);
        }
    }

    /// This qdisc, if it is fq.
    #[inline]
    pub fn fq(&self) -> Option<&Fq> {
        match &self.qdisc {
            AnyQdisc::Fq(fq) => Some(fq),
            AnyQdisc::Fifo(_)
            | AnyQdisc::PfifoFast(_)
            | AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => None,
        }
    }

    /// Whether a packet that arrives now leaves at once, if the device takes it.
    #[inline]
    pub fn passes(&self, packet: &Packet, now: Instant) -> bool {
        match &self.qdisc {
            AnyQdisc::Fifo(_) => true,
            AnyQdisc::Fq(fq) => fq.passes(packet, now),
            AnyQdisc::PfifoFast(_)
            | AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Codel(_)
            | AnyQdisc::FqCodel(_)
            | AnyQdisc::DualPi2(_)
            | AnyQdisc::Pie(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => false,
        }
    }

    /// The packet that `peek` has taken out, if there is one.
    #[inline]
    fn held_backlog(&self) -> Backlog {
        let held = self.held.as_deref().filter(|_| self.holds);
        held.map_or(Backlog::default(), Backlog::of)
    }

    /// Updates the counts of qdiscs below about the packet that `peek` has taken out.
    #[inline]
    fn adjust_held(&mut self) {
        let held = self.held_backlog();
        match &mut self.qdisc {
            AnyQdisc::Codel(codel) => codel.set_held(held.packets),
            AnyQdisc::FqCodel(fq_codel) => fq_codel.set_held(held.packets),
            AnyQdisc::DualPi2(dualpi2) => dualpi2.set_held(held),
            AnyQdisc::Pie(pie) => pie.set_held(held),
            AnyQdisc::Fifo(_)
            | AnyQdisc::PfifoFast(_)
            | AnyQdisc::Tbf(_)
            | AnyQdisc::Netem(_)
            | AnyQdisc::Red(_)
            | AnyQdisc::Fq(_)
            | AnyQdisc::Prio(_)
            | AnyQdisc::Htb(_)
            | AnyQdisc::Cake(_)
            | AnyQdisc::Guest(_) => {}
        }
    }

    /// Everything attached, outermost first: the parent class and the qdisc.
    pub fn tree(&self) -> Vec<(Handle, &Sched)> {
        let mut found = vec![(Handle::ROOT, self)];
        let mut next = 0;
        while let Some(&(_, sched)) = found.get(next) {
            let class = |nth| Handle::new(sched.handle.major(), sched.minor_of_child(nth));
            found.extend((0..).map(class).zip(sched.children()));
            next += 1;
        }
        found
    }

    /// The number of the class that the direct child at `place` is in.
    fn minor_of_child(&self, place: usize) -> u16 {
        match &self.qdisc {
            AnyQdisc::Htb(htb) => htb.minor_of_leaf(place),
            AnyQdisc::Tbf(_) | AnyQdisc::Red(_) | AnyQdisc::Netem(_) | AnyQdisc::Prio(_) => {
                place as u16 + 1
            }
            // There is no such class.
            classless!() => 0,
        }
    }

    /// The direct children, those of the classes 1, 2, …; of htb those of its leaves.
    fn children(&self) -> &[Sched] {
        match &self.qdisc {
            AnyQdisc::Tbf(tbf) => from_ref(tbf.child()),
            AnyQdisc::Red(red) => from_ref(red.child()),
            AnyQdisc::Netem(netem) => netem.child().map(from_ref).unwrap_or_default(),
            AnyQdisc::Prio(prio) => prio.bands(),
            AnyQdisc::Htb(htb) => htb.leaves(),
            classless!() => &[],
        }
    }

    /// The same, to change them.
    fn children_mut(&mut self) -> &mut [Sched] {
        match &mut self.qdisc {
            AnyQdisc::Tbf(tbf) => from_mut(tbf.child_mut()),
            AnyQdisc::Red(red) => from_mut(red.child_mut()),
            AnyQdisc::Netem(netem) => netem.child_mut().map(from_mut).unwrap_or_default(),
            AnyQdisc::Prio(prio) => prio.bands_mut(),
            AnyQdisc::Htb(htb) => htb.leaves_mut(),
            classless!() => &mut [],
        }
    }

    /// Removes the qdisc of class `parent`, anywhere in this tree, with its queued
    /// packets. A band of prio and a class of htb have a pfifo afterwards, as at first; netem keeps its packets itself
    /// again; tbf and red are left with a queue that takes none (`noop_qdisc`). `None` where there is no
    /// such class, or nothing in it.
    pub fn detach(&mut self, parent: Handle) -> Option<Box<Sched>> {
        let owner = self.find_mut(Handle::new(parent.major(), 0))?;
        let left: Sched = match &mut owner.qdisc {
            AnyQdisc::Netem(netem) => return netem.take_child(),
            AnyQdisc::Prio(_) => Fifo::pfifo_default().into(),
            AnyQdisc::Htb(htb) => htb.first_leaf(),
            AnyQdisc::Tbf(_) | AnyQdisc::Red(_) => Fifo::new(FifoKind::Bytes(0)).into(),
            classless!() => return None,
        };
        let place = owner.own_class_mut(parent.minor())?;
        Some(Box::new(core::mem::replace(place, left)))
    }

    /// Tells the qdisc `owner` and all its parents that packets below them were discarded, which counts as
    /// dropped (`qdisc_tree_reduce_backlog`). False if it is not here.
    pub fn count_discarded(&mut self, owner: Handle, drops: u64) -> bool {
        let below = self.children_mut().iter_mut().any(|it| it.count_discarded(owner, drops));
        let is_above = below || self.handle == owner;
        if is_above {
            self.count_drops(drops);
        }
        is_above
    }

    fn count_drops(&mut self, drops: u64) {
        match &mut self.qdisc {
            AnyQdisc::Tbf(tbf) => tbf.count_drops(drops),
            AnyQdisc::Red(red) => red.count_drops(drops),
            AnyQdisc::Netem(netem) => netem.count_drops(drops),
            AnyQdisc::Prio(prio) => prio.count_drops(drops),
            AnyQdisc::Htb(htb) => htb.count_drops(drops),
            classless!() => {}
        }
    }

    /// The qdisc with this handle, anywhere in this tree.
    pub fn find_mut(&mut self, handle: Handle) -> Option<&mut Sched> {
        if self.handle == handle {
            return Some(self);
        }
        self.children_mut().iter_mut().find_map(|child| child.find_mut(handle))
    }

    /// What is attached to the class `parent`, anywhere in this tree.
    pub fn class_mut(&mut self, parent: Handle) -> Option<&mut Sched> {
        if self.handle.owns(parent) {
            return self.own_class_mut(parent.minor());
        }
        self.children_mut().iter_mut().find_map(|child| child.class_mut(parent))
    }

    /// What is attached to this qdisc's own class `minor`. Those with a single class do not look
    /// at the number.
    fn own_class_mut(&mut self, minor: u16) -> Option<&mut Sched> {
        match &mut self.qdisc {
            AnyQdisc::Tbf(tbf) => Some(tbf.child_mut()),
            AnyQdisc::Red(red) => Some(red.child_mut()),
            AnyQdisc::Netem(netem) => Some(netem.child_to_replace()),
            AnyQdisc::Prio(prio) => prio.bands_mut().get_mut(usize::from(minor).checked_sub(1)?),
            AnyQdisc::Htb(htb) => htb.leaf_mut(Handle::new(self.handle.major(), minor)),
            classless!() => None,
        }
    }
}

impl Qdisc for Sched {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.adjust_held();
        self.qdisc.enqueue(packet, cx)
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    #[inline]
    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.adjust_held();
        self.qdisc.enqueue_from(place, cx)
    }

    #[inline]
    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        if self.holds
            && core::mem::take(&mut self.holds)
            && let Some(held) = &mut self.held
        {
            held.move_to(place);
            return true;
        }
        let any = self.qdisc.dequeue_into(place, cx);
        self.check_seldom();
        any
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        if let Some(held) = self.held.as_deref_mut().filter(|_| core::mem::take(&mut self.holds)) {
            cx.drop(Reason::QueuePurge, held.take());
        }
        self.qdisc.purge(cx);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.qdisc.wake_at()
    }

    fn backlog(&self) -> Backlog {
        self.qdisc.backlog() + self.held_backlog()
    }

    fn stats(&self) -> Stats {
        self.qdisc.stats()
    }
}

impl<Q: Into<AnyQdisc>> From<Q> for Sched {
    fn from(qdisc: Q) -> Self {
        Self::new(Handle::NONE, qdisc)
    }
}

#[cfg(test)]
mod tests;
