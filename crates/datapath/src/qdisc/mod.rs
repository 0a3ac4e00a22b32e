//! Queueing disciplines, shaped as the kernel's `Qdisc_ops`.
//!
//! A qdisc is a pure queue: packets go in by `enqueue`, come out by `dequeue`, and what it drops
//! goes to the [`Cx`] with a reason. It never sends; the node asks it when the port has credit.

mod any;
mod assertions;
pub mod cake;
mod check;
pub mod codel;
mod counted;
pub mod dualpi2;
pub mod fifo;
pub mod filter;
pub mod fq;
pub mod fq_codel;
mod guest;
mod handle;
mod hash;
pub mod htb;
pub mod laws;
pub mod netem;
pub mod pie;
pub mod police;
pub mod prio;
pub(crate) mod queue;
pub mod rate;
pub mod red;
mod sched;
pub mod tbf;
#[cfg(test)]
mod testing;
mod ticks;

pub use any::AnyQdisc;
pub use counted::Counted;
pub use guest::{Guest, GuestQdisc};
pub use handle::Handle;
pub use sched::Sched;

use crate::packet::Packet;
use crate::reason::{Enqueue, Reason};
use crate::units::Instant;
use core::ops::Add;

/// The context of one call: the time, and where drops go.
pub struct Cx<'a> {
    /// Now.
    pub now: Instant,
    /// Dropped packets with their reasons; the node counts them and notifies their owners.
    pub dropped: &'a mut Vec<(Reason, Packet)>,
}

/// The backlog of a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Backlog {
    /// `qlen`: packets; a super-packet counts as one.
    pub packets: u32,
    /// `backlog`: bytes of [`Packet::wire_len`].
    pub bytes: u32,
}

/// The counters that every qdisc keeps (`gnet_stats_basic`, `gnet_stats_queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent (segments of super-packets counted one by one).
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Times the qdisc had packets but had to wait.
    pub overlimits: u64,
    /// Packets put back by the device.
    pub requeues: u64,
}

/// A queueing discipline (`struct Qdisc_ops`).
///
/// ```
/// use datapath::packet::Packet;
/// use datapath::qdisc::fifo::{Fifo, FifoKind};
/// use datapath::qdisc::{Cx, Qdisc as _};
/// use datapath::units::Instant;
///
/// let mut queue = Fifo::new(FifoKind::Packets(1));
/// let mut dropped = Vec::new();
/// let mut cx = Cx { now: Instant::ZERO, dropped: &mut dropped };
/// queue.enqueue(Packet::default(), &mut cx);
/// queue.enqueue(Packet::default(), &mut cx); // full: it goes to `cx.dropped`
/// assert!(queue.dequeue(&mut cx).is_some() && queue.dequeue(&mut cx).is_none());
/// assert_eq!((dropped.len(), queue.stats().drops), (1, 1));
/// ```
pub trait Qdisc {
    /// Queues a packet. A dropped packet, this one or another, goes to `cx.dropped`.
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue;

    /// Returns the next packet to send now, if there is one and it is due.
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet>;

    /// [`enqueue`](Self::enqueue) by reference: a qdisc for many packets overrides it, so that a packet is
    /// copied only once.
    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue(place.take(), cx)
    }

    /// [`dequeue`](Self::dequeue) into a place; false, and the place is unchanged, if there is
    /// nothing to send.
    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        match self.dequeue(cx) {
            Some(packet) => {
                *place = packet;
                true
            }
            None => false,
        }
    }

    /// Discards the backlog, whatever its departure times, because the qdisc is removed or its device has lost the
    /// carrier (`qdisc_reset`). Packets go to `cx` as purged; whether they count as dropped is up to the
    /// parents. The qdisc is then in its initial state.
    fn purge(&mut self, cx: &mut Cx<'_>);

    /// When a `dequeue` without a result should be tried again, without any new packet
    /// (`qdisc_watchdog`). `None`: only after an enqueue.
    fn wake_at(&self) -> Option<Instant>;

    /// The backlog.
    fn backlog(&self) -> Backlog;

    /// The common counters.
    fn stats(&self) -> Stats;
}

impl Cx<'_> {
    /// Drops `packet` for `reason`.
    pub fn drop(&mut self, reason: Reason, packet: Packet) {
        self.dropped.push((reason, packet));
    }
}

impl Backlog {
    /// One packet.
    pub fn of(packet: &Packet) -> Self {
        Self { packets: 1, bytes: packet.wire_len() }
    }
}

impl Add for Backlog {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl core::iter::Sum for Backlog {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl Stats {
    /// Counts a packet that left (`qdisc_bstats_update`).
    pub fn count_sent(&mut self, packet: &Packet) {
        self.bytes += u64::from(packet.wire_len());
        self.packets += u64::from(packet.segments());
    }
}
