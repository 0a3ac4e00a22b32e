//! netem: the network emulator (Linux `net/sched/sch_netem.c`).
//!
//! Each packet gets its own time to leave: now plus a delay, or chained behind the last one when
//! a rate is set. Packets leave in the order of those times, at exactly those times.

mod config;
mod random;
#[cfg(test)]
mod tests;
mod timeline;

pub use config::{NetemConfig, NetemRate, Slot};
pub use random::{Chance, Correlated, DelayTable, FourState, Gemodel, Loss, TABLE_SCALE};

use super::fifo::{Fifo, FifoKind};
use super::queue::PacketQueue;
use super::{Backlog, Cx, Enqueue, Qdisc, Sched, Stats};
use crate::packet::{Meta, Packet};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use random::spread;
use timeline::Timeline;

/// The network emulator.
#[derive(Clone, Debug)]
pub struct Netem {
    config: NetemConfig,
    rng: Rng,
    /// Packets that go first (`sch->q`): those that were reordered.
    ahead: PacketQueue,
    /// The time to leave of the last packet put into `ahead`.
    ahead_time: Instant,
    on_the_way: Timeline,
    /// Packets since the last reordered one.
    counter: u32,
    slot: SlotState,
    child: Option<Box<Sched>>,
    watchdog: Option<Instant>,
    copies: Copies,
    stats: Stats,
}

/// Duplicates that netem has created.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    packets: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct SlotState {
    next: Instant,
    packets_left: i64,
    bytes_left: i64,
}

/// Whether a packet may be duplicated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubling {
    Allowed,
    /// It is a duplicate, or part of one.
    Not,
}

impl Netem {
    /// An idle emulator that draws from `rng`.
    pub fn new(config: NetemConfig, rng: Rng) -> Self {
        let slot = SlotState::filled(config.slot, Instant::ZERO);
        Self {
            config,
            rng,
            ahead: PacketQueue::default(),
            ahead_time: Instant::ZERO,
            on_the_way: Timeline::default(),
            counter: 0,
            slot,
            child: None,
            watchdog: None,
            copies: Copies::default(),
            stats: Stats::default(),
        }
    }

    /// The configuration, with the state of its random models.
    pub fn config(&self) -> &NetemConfig {
        &self.config
    }

    /// New settings for the packets to come; those on their way keep their times
    /// (`netem_change`).
    pub fn change(&mut self, config: NetemConfig, now: Instant) {
        let old = core::mem::take(&mut self.config);
        if config.slot.is_some() {
            self.slot = SlotState::filled(config.slot, now);
        }
        self.config = config.over(old);
        self.counter = 0;
    }

    /// The inner qdisc, if one was grafted.
    pub fn child(&self) -> Option<&Sched> {
        self.child.as_deref()
    }

    /// The inner qdisc, to change it.
    pub fn child_mut(&mut self) -> Option<&mut Sched> {
        self.child.as_deref_mut()
    }

    /// The inner qdisc, to replace it: if there is none, an unlimited FIFO is put there for others to take its place.
    pub fn child_to_replace(&mut self) -> &mut Sched {
        self.child.get_or_insert_with(|| Box::new(Fifo::new(FifoKind::NoQueue).into()))
    }

    /// Takes the inner qdisc out: packets leave when their time has come, as without one.
    pub(in super::super) fn take_child(&mut self) -> Option<Box<Sched>> {
        self.child.take()
    }

    /// Counts packets that were discarded below.
    pub(super) fn count_drops(&mut self, drops: u64) {
        self.stats.drops += drops;
    }

    /// Packets and bytes that came into being here by duplication.
    pub fn copies(&self) -> (u64, u64) {
        (self.copies.packets, self.copies.bytes)
    }

    /// Asserts that both queues are in order.
    pub(super) fn check(&self) {
        self.ahead.check("netem");
        self.on_the_way.check();
    }

    /// True if the packet gets lost; an ECN-capable one may be marked instead, which counts as a
    /// drop all the same.
    fn loses(&mut self, packet: &mut Packet) -> bool {
        if !self.config.loss.strikes(&mut self.rng) {
            return false;
        }
        let marked = self.config.ecn && packet.mark_ce();
        if marked {
            self.stats.drops += 1;
        }
        !marked
    }

    fn lose(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.stats.drops += 1;
        cx.drop(Reason::LinkLoss, packet);
        Enqueue::Queued
    }

    /// `packet` a second time, to be queued in front of it.
    fn copy_of(&mut self, packet: &Packet) -> Packet {
        let mut copy = packet.clone();
        copy.meta.owner = Meta::NO_OWNER;
        self.copies.packets += u64::from(copy.segments());
        self.copies.bytes += u64::from(copy.wire_len());
        copy
    }

    /// A packet arrives: it may be duplicated and lost; if both, one copy remains. The sender is never notified of a loss.
    fn enter(&mut self, mut packet: Packet, doubling: Doubling, cx: &mut Cx<'_>) -> Enqueue {
        let (chance, correlated) = &mut self.config.duplicate;
        let doubled = doubling == Doubling::Allowed && correlated.hits(*chance, &mut self.rng);
        let lost = self.loses(&mut packet);
        if lost && !doubled {
            return self.lose(packet, cx);
        }
        let double = (doubled && !lost).then(|| self.copy_of(&packet));
        let others = self.corrupt(&mut packet);
        if self.waiting() >= self.config.limit {
            // It counts as a duplicate, even if it was lost.
            self.stats.drops += 1;
            let all = core::iter::once(packet).chain(others).chain(double);
            all.for_each(|packet| cx.drop(Reason::QdiscOverlimit, packet));
            return Enqueue::Dropped;
        }
        if let Some(double) = double {
            self.enter(double, Doubling::Not, cx);
        }
        self.queue(packet, cx.now);
        for segment in others {
            self.enter(segment, doubling, cx);
        }
        Enqueue::Queued
    }

    /// Damages the packet with the configured probability. Of a super-packet only the first segment is damaged; the others
    /// are to enter one by one (`netem_segment`).
    fn corrupt(&mut self, packet: &mut Packet) -> Vec<Packet> {
        let (chance, correlated) = &mut self.config.corrupt;
        if !correlated.hits(*chance, &mut self.rng) {
            return Vec::new();
        }
        let mut others = Vec::new();
        if packet.segments() > 1 {
            others.extend(packet.segment());
            *packet = others.remove(0);
        }
        packet.damage();
        others
    }

    /// Gives the packet its time and its place.
    fn queue(&mut self, packet: Packet, now: Instant) {
        if self.reorders() {
            self.counter = 0;
            self.stats.requeues += 1;
            self.ahead_time = now;
            self.ahead.push_front(packet);
            return;
        }
        let leaves = self.time_to_send(packet.wire_len(), now);
        self.counter = self.counter.wrapping_add(1);
        self.on_the_way.insert(leaves, packet);
    }

    /// True if the next packet goes ahead of the others: only every `gap`th may.
    fn reorders(&mut self) -> bool {
        let (chance, correlated) = &mut self.config.reorder;
        self.config.gap != 0
            && self.counter >= self.config.gap - 1
            && *chance >= correlated.draw(&mut self.rng)
    }

    /// When a packet of `len` bytes that comes now leaves. With a rate, its delay begins when
    /// the last packet leaves, less the time it has still to wait for that.
    fn time_to_send(&mut self, len: u32, now: Instant) -> Instant {
        let mut delay = self.draw_delay();
        let mut from = now;
        if let Some(rate) = self.config.rate {
            if let Some(last) = self.last_time() {
                // Delays of centuries wrap, as in the kernel.
                delay = delay.wrapping_sub(last.as_nanos().wrapping_sub(now.as_nanos()) as i64);
                delay = delay.max(0);
                from = last;
            }
            delay = delay.wrapping_add(rate.time_of(len));
        }
        Instant::from_nanos(from.as_nanos().saturating_add_signed(delay))
    }

    fn draw_delay(&mut self) -> i64 {
        let NetemConfig { delay, jitter, delay_correlation, distribution, .. } = &mut self.config;
        if *jitter == 0 {
            return *delay;
        }
        spread(*delay, *jitter, distribution.as_ref(), delay_correlation.draw(&mut self.rng))
    }

    /// The latest time to leave of all that wait.
    fn last_time(&self) -> Option<Instant> {
        let ahead = (!self.ahead.is_empty()).then_some(self.ahead_time);
        self.on_the_way.last_time().max(ahead)
    }

    fn waiting(&self) -> u32 {
        let child = self.child.as_ref().map_or(0, |child| child.backlog().packets);
        self.on_the_way.len() + self.ahead.backlog().packets + child
    }

    /// The next packet whose time, and slot, has come; else when that will be.
    fn take_due(&mut self, now: Instant) -> Result<Packet, Option<Instant>> {
        let leaves = self.on_the_way.first_time().ok_or(None)?;
        if self.config.slot.is_some() && self.slot.next < leaves {
            self.next_slot(now);
        }
        if leaves > now || self.slot.next > now {
            return Err(Some(leaves.max(self.slot.next)));
        }
        let packet = self.on_the_way.pop().expect("a first packet");
        self.use_slot(packet.wire_len(), now);
        Ok(packet)
    }

    fn use_slot(&mut self, len: u32, now: Instant) {
        if self.config.slot.is_none() {
            return;
        }
        self.slot.packets_left -= 1;
        self.slot.bytes_left -= i64::from(len);
        if self.slot.packets_left <= 0 || self.slot.bytes_left <= 0 {
            self.next_slot(now);
        }
    }

    /// `get_slot_next`: the next slot opens a random time from now.
    fn next_slot(&mut self, now: Instant) {
        let Some(slot) = self.config.slot else { return };
        let range = slot.max_delay.saturating_sub(slot.min_delay);
        let random = ((u128::from(self.rng.next_u32()) * u128::from(range)) >> 32) as u64;
        let opens = now + Duration::from_nanos(slot.min_delay.saturating_add(random));
        self.slot = SlotState::filled(Some(slot), opens);
    }

    /// Moves what is due into the inner qdisc and takes what that gives.
    fn dequeue_through_child(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let dropped_before = cx.dropped.len();
        loop {
            match self.take_due(cx.now) {
                Ok(packet) => {
                    let child = self.child.as_mut().expect("called with a child");
                    child.enqueue(packet, cx);
                }
                Err(wake) => {
                    self.watchdog = wake;
                    break;
                }
            }
        }
        let packet = self.child.as_mut().expect("called with a child").dequeue(cx);
        self.stats.drops += (cx.dropped.len() - dropped_before) as u64;
        if packet.is_some() {
            self.watchdog = None;
        }
        packet
    }

    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        if let Some(packet) = self.ahead.pop_front() {
            return Some(packet);
        }
        if self.child.is_some() {
            return self.dequeue_through_child(cx);
        }
        match self.take_due(cx.now) {
            Ok(packet) => Some(packet),
            Err(wake) => {
                self.watchdog = wake;
                None
            }
        }
    }
}

impl Qdisc for Netem {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enter(packet, Doubling::Allowed, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.watchdog = None;
        let packet = self.next_packet(cx)?;
        self.stats.count_sent(&packet);
        Some(packet)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.ahead.purge(cx);
        while let Some(packet) = self.on_the_way.pop() {
            cx.drop(Reason::QueuePurge, packet);
        }
        if let Some(child) = &mut self.child {
            child.purge(cx);
        }
        self.watchdog = None;
    }

    fn wake_at(&self) -> Option<Instant> {
        let child = self.child.as_ref().and_then(|child| child.wake_at());
        self.watchdog.into_iter().chain(child).min()
    }

    fn backlog(&self) -> Backlog {
        let child = self.child.as_ref().map_or(Backlog::default(), |child| child.backlog());
        let timed = Backlog { packets: self.on_the_way.len(), bytes: self.on_the_way.bytes() };
        self.ahead.backlog() + timed + child
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

impl SlotState {
    /// A slot that opens at `next` with its full allowance.
    fn filled(slot: Option<Slot>, next: Instant) -> Self {
        let or_any = |count: u32| if count == 0 { i64::MAX } else { i64::from(count) };
        let (packets, bytes) = slot.map_or((0, 0), |slot| (slot.packets, slot.bytes));
        Self { next, packets_left: or_any(packets), bytes_left: or_any(bytes) }
    }
}
