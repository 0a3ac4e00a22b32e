//! htb: a tree of classes, each with a rate of its own and what it may borrow from those above it
//! (Linux `net/sched/sch_htb.c`, `HTB_HYSTERESIS` off).
//!
//! Every class has two buckets of transmission time, for its `rate` and its `ceil`. A leaf with packets sends at
//! level 0 while its own bucket has tokens; if not, it borrows from the first class above it that has
//! some, and sends at that one's level. Lower levels go first, so that nothing is borrowed while anyone has
//! tokens of its own; at one level the lower `prio`; and at one priority leaves take turns of a quantum each.

mod class;
mod hash;
mod manage;
mod ring;
mod schedule;
mod wait;

pub use class::{ClassConfig, ClassState, ClassStats, QuantumSize};
pub use manage::ClassError;

use self::class::{Class, Index};
use self::hash::ClassHash;
use self::schedule::Level;
use self::wait::Places;
use super::filter::Filter;
use super::{Backlog, Cx, Enqueue, Handle, Qdisc, Sched, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::units::Instant;
use std::collections::VecDeque;

/// Levels of classes (`TC_HTB_MAXDEPTH`).
const MAX_DEPTH: usize = 8;
/// Priorities (`TC_HTB_NUMPRIO`).
const MAX_PRIO: usize = 8;

/// What an [`Htb`] is configured with (`struct tc_htb_glob`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbConfig {
    /// The class of packets that nothing else classifies, of which the minor counts (`default`).
    pub default: u32,
    /// A class gets this part of its rate as its quantum (`r2q`).
    pub rate2quantum: u32,
    /// Packets that may wait in front of all classes, because they have none.
    pub direct_qlen: u32,
    /// Packets that the first queue of a class takes (`txqueuelen`).
    pub tx_queue_len: u32,
}

/// A tree of classes.
#[derive(Clone, Debug)]
pub struct Htb {
    config: HtbConfig,
    handle: Handle,
    filters: Vec<Filter>,
    classes: Vec<Class>,
    /// Places in that list of classes that are no more.
    free: Vec<Index>,
    hash: ClassHash,
    /// The queues of the leaves, and whose each of them is.
    leaves: Vec<Sched>,
    owners: Vec<Index>,
    /// Those that may have something later, without any new packet.
    timed: Vec<u32>,
    /// The queues may have been changed from outside: what is known of them is to be counted again.
    touched: bool,
    /// What waits in them.
    backlog: Backlog,
    direct: VecDeque<Packet>,
    direct_bytes: u32,
    direct_packets: u32,
    levels: Box<[Level; MAX_DEPTH]>,
    places: Places,
    /// The time of the last `dequeue` that had packets (`now`).
    now: i64,
    asked_at: Instant,
    watchdog: Option<Instant>,
    stats: Stats,
}

impl Htb {
    /// Without classes, attached as `handle`: all packets go past them.
    pub fn new(config: HtbConfig, handle: Handle) -> Self {
        let config = HtbConfig { rate2quantum: config.rate2quantum.max(1), ..config };
        Self {
            config,
            handle,
            filters: Vec::new(),
            classes: Vec::new(),
            free: Vec::new(),
            hash: ClassHash::new(handle),
            leaves: Vec::new(),
            owners: Vec::new(),
            timed: Vec::new(),
            touched: false,
            backlog: Backlog::default(),
            direct: VecDeque::new(),
            direct_bytes: 0,
            direct_packets: 0,
            levels: Box::default(),
            places: Places::new(),
            now: 0,
            asked_at: Instant::ZERO,
            watchdog: None,
            stats: Stats::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &HtbConfig {
        &self.config
    }

    /// Packets that went past all classes (`direct_packets_stat`).
    pub fn direct_packets(&self) -> u32 {
        self.direct_packets
    }

    /// The leaf that `packet` goes to; `None`: past all classes (`htb_classify`).
    ///
    /// `skb->priority` may name a class, or this qdisc itself for none; an inner class asks its filters, as does this
    /// qdisc. What they do not know goes to the default class.
    fn classify(&self, packet: &Packet) -> Option<Index> {
        let named = Handle(packet.meta.priority);
        if named == self.handle {
            return None;
        }
        let mut filters = &self.filters;
        if let Some(class) = self.hash.find(named) {
            if self.class(class).level == 0 {
                return Some(class);
            }
            filters = &self.class(class).filters;
        }
        // Filters that lead back up would go round for ever, as they do in the kernel.
        for _ in 0..=MAX_DEPTH {
            let Some(chosen) = Filter::class_of(filters, packet) else { break };
            match self.hash.find(chosen) {
                Some(class) if self.class(class).level == 0 => return Some(class),
                Some(class) => filters = &self.class(class).filters,
                None if chosen == self.handle => return None,
                None => break,
            }
        }
        let default = Handle::new(self.handle.major(), self.config.default as u16);
        self.hash.find(default).filter(|class| self.class(*class).level == 0)
    }

    /// A packet of no class goes in front of all others.
    fn enqueue_direct(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        if self.direct.len() >= self.config.direct_qlen as usize {
            self.stats.drops += 1;
            cx.drop(Reason::QdiscDrop, place.take());
            return Enqueue::Dropped;
        }
        self.direct_packets = self.direct_packets.wrapping_add(1);
        self.direct_bytes += place.wire_len();
        self.direct.push_back(place.take());
        Enqueue::Queued
    }

    /// Looks again at queues that may have been changed from outside: one that was emptied has nothing to send
    /// (`htb_qlen_notify`).
    #[cold]
    fn settle(&mut self) {
        self.touched = false;
        self.timed.clear();
        self.backlog = self.leaves.iter().map(Qdisc::backlog).sum();
        for leaf in 0..self.leaves.len() {
            if self.leaves[leaf].has_timer() {
                self.timed.push(leaf as u32);
            }
            let (class, waiting) = (self.owners[leaf], self.leaves[leaf].backlog().packets);
            if waiting == 0 {
                self.deactivate(class);
            } else {
                self.activate(class);
            }
        }
    }

    /// What waits in the leaf changes by what `act` does; gives how many packets were dropped as well.
    #[inline]
    fn with_leaf<T>(
        &mut self,
        leaf: usize,
        cx: &mut Cx<'_>,
        act: impl FnOnce(&mut Sched, &mut Cx<'_>) -> T,
    ) -> (T, LeafChange) {
        let dropped_before = cx.dropped.len();
        let sched = &mut self.leaves[leaf];
        let before = sched.backlog();
        let done = act(sched, cx);
        let after = sched.backlog();
        self.backlog = Backlog {
            packets: self.backlog.packets + after.packets - before.packets,
            bytes: self.backlog.bytes + after.bytes - before.bytes,
        };
        let drops = (cx.dropped.len() - dropped_before) as u64;
        self.stats.drops += drops;
        (done, LeafChange { drops, waiting: after.packets, changed: after != before })
    }
}

/// What became of a leaf's queue.
struct LeafChange {
    drops: u64,
    /// Packets that wait now.
    waiting: u32,
    /// It holds something else than before.
    changed: bool,
}

impl Qdisc for Htb {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        if self.touched {
            self.settle();
        }
        let Some(class) = self.classify(place) else { return self.enqueue_direct(place, cx) };
        let leaf = self.class(class).leaf;
        let (verdict, change) = self.with_leaf(leaf, cx, |leaf, cx| leaf.enqueue_from(place, cx));
        let refused = verdict != Enqueue::Queued || change.drops > 0 && !change.changed;
        if refused {
            let stats = &mut self.classes[class as usize].stats;
            stats.drops = stats.drops.wrapping_add(1);
        }
        if change.waiting > 0 {
            self.activate(class);
        } else {
            // It has dropped all it had (`htb_qlen_notify`).
            self.deactivate(class);
        }
        verdict
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        if self.touched {
            self.settle();
        }
        (self.watchdog, self.asked_at) = (None, cx.now);
        if let Some(mut packet) = self.direct.pop_front() {
            packet.move_to(place);
            self.direct_bytes -= place.wire_len();
        } else if self.backlog.packets == 0 || !self.dequeue_class(place, cx) {
            return false;
        }
        self.stats.count_sent(place);
        true
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        for packet in self.direct.drain(..) {
            cx.drop(Reason::QueuePurge, packet);
        }
        self.direct_bytes = 0;
        self.leaves.iter_mut().for_each(|leaf| leaf.purge(cx));
        self.reset();
    }

    /// A watchdog fires once: see [`super::tbf::Tbf`].
    fn wake_at(&self) -> Option<Instant> {
        let timer = |leaf: &Sched| leaf.wake_at().filter(|at| *at > self.asked_at);
        let inner = if self.touched {
            self.leaves.iter().filter_map(timer).min()
        } else {
            self.timed.iter().filter_map(|leaf| timer(&self.leaves[*leaf as usize])).min()
        };
        self.watchdog.into_iter().chain(inner).min()
    }

    fn backlog(&self) -> Backlog {
        let direct = Backlog { packets: self.direct.len() as u32, bytes: self.direct_bytes };
        if self.touched {
            return direct + self.leaves.iter().map(Qdisc::backlog).sum();
        }
        direct + self.backlog
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
