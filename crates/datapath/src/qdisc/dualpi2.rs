//! dualpi2: a low-latency queue for L4S traffic beside a classic one, both under one PI controller (RFC 9332; Linux
//! `net/sched/sch_dualpi2.c`, since 6.17).
//!
//! Packets with ECT(1) or CE go to the L-queue, all others to the C-queue. The controller keeps the delay of the C-queue
//! near its target: its probability, squared, drops or marks classic packets, and times the coupling factor it marks
//! L4S packets, so that both kinds of senders get the same rate. A step threshold keeps the L-queue short by itself.

mod pi2;

pub use pi2::{Gain, Pi2};

use super::assertions::assert_holds;
use super::filter::Filter;
use super::queue::PacketQueue;
use super::{Backlog, Cx, Enqueue, Handle, Qdisc, Stats};
use crate::packet::{Ecn, Packet};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use pi2::{roll, roll_squared};
use std::collections::VecDeque;

/// From where on packets of the L-queue are marked, whatever the controller says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepThreshold {
    /// A packet has waited for longer than this (`TCA_DUALPI2_STEP_THRESH_US`).
    Sojourn(Duration),
    /// More packets than this are left behind it (`TCA_DUALPI2_STEP_THRESH_PKTS`).
    Packets(u32),
}

/// What a [`DualPi2`] is configured with (`TCA_DUALPI2_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DualPi2Config {
    /// Packets that may wait in both queues.
    pub limit: u32,
    /// Bytes of packet memory (`truesize`) that may be in use.
    pub memory_limit: u32,
    /// The delay that the controller aims at.
    pub target: Duration,
    /// The time between two updates of the probability, at least 1 µs.
    pub tupdate: Duration,
    /// The gain of what is above the target.
    pub alpha: Gain,
    /// The gain of what has changed since the last update.
    pub beta: Gain,
    /// When the L-queue marks by itself.
    pub step_threshold: StepThreshold,
    /// Packets in the L-queue below which an arriving packet is exempt from the step.
    pub min_qlen_step: u32,
    /// How many times the base probability L4S packets are marked with (`k`), at least 1.
    pub coupling_factor: u8,
    /// Drop, not only mark, once L4S packets would be marked with certainty.
    pub drop_overload: bool,
    /// Decide at the arrival of a packet, not at its departure.
    pub drop_early: bool,
    /// The share of the C-queue while both wait, in per cent, 0 to 100.
    pub classic_protection: u8,
    /// Bits of the ECN field of which one makes a packet an L4S packet: 1 (ECT(1) and CE) or 3 (all but Not-ECT).
    pub ecn_mask: u8,
    /// Queue the segments of a super-packet one by one.
    pub split_gso: bool,
    /// The largest frame of the device, in bytes (`psched_mtu`).
    pub mtu: u32,
}

impl DualPi2Config {
    /// The defaults for a device whose largest frame is `mtu` bytes (`dualpi2_reset_default`).
    pub fn new(mtu: u32) -> Self {
        Self {
            limit: 10_000,
            memory_limit: memory_limit_of(10_000, mtu),
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(16),
            alpha: Gain::from_256th_hz(41),
            beta: Gain::from_256th_hz(819),
            step_threshold: StepThreshold::Sojourn(Duration::from_millis(1)),
            min_qlen_step: 0,
            coupling_factor: 2,
            drop_overload: true,
            drop_early: false,
            classic_protection: 10,
            ecn_mask: Ecn::Ect1 as u8,
            split_gso: true,
            mtu,
        }
    }

    /// The credit of a queue that has just become empty: that of the C-queue if positive (`c_protection_init`).
    fn initial_credit(&self) -> i32 {
        let [wc, wl] = self.weights();
        (self.mtu as i32).wrapping_mul(wc - wl)
    }

    /// The weights of the C-queue and the L-queue, in per cent.
    fn weights(&self) -> [i32; 2] {
        let wc = i32::from(self.classic_protection);
        [wc, 100 - wc]
    }
}

/// The memory limit that belongs to a limit in packets (`get_memory_limit`).
pub fn memory_limit_of(limit: u32, mtu: u32) -> u32 {
    let bytes = u64::from(limit) * u64::from(mtu) * 2;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What dualpi2 counts besides the common counters (`struct tc_dualpi2_xstats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DualPi2Stats {
    /// Packets that have come into the C-queue.
    pub packets_in_c: u32,
    /// Packets that have come into the L-queue.
    pub packets_in_l: u32,
    /// The most packets that were found waiting.
    pub maxq: u32,
    /// Marks, by the controller and by the step.
    pub ecn_mark: u32,
    /// Marks by the step.
    pub step_marks: u32,
    /// Bytes of packet memory in use.
    pub memory_used: u32,
    /// The most that were in use.
    pub max_memory_used: u32,
}

/// What a packet is classified as (`enum dualpi2_classification_results`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// To the C-queue.
    Classic,
    /// To the L-queue.
    L4s,
    /// To the L-queue, never marked nor dropped by the controller (`DUALPI2_C_LLLL`).
    Exempt,
}

/// What is known of a packet in the L-queue.
#[derive(Clone, Copy, Debug)]
struct LEntry {
    class: Class,
    /// The step may mark it.
    apply_step: bool,
}

/// A packet was taken from a queue.
struct Taken {
    class: Class,
    apply_step: bool,
    /// What that does to the credit once it is sent.
    credit: i32,
}

/// Two coupled queues.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    config: DualPi2Config,
    handle: Handle,
    filters: Vec<Filter>,
    rng: Rng,
    c_queue: PacketQueue,
    l_queue: PacketQueue,
    /// One for each packet in `l_queue`.
    l_entries: VecDeque<LEntry>,
    pi2: Pi2,
    /// Positive: it is the C-queue's turn (`c_protection_credit`).
    credit: i32,
    /// What a parent holds and what still counts as waiting here.
    held: Backlog,
    own_stats: DualPi2Stats,
    stats: Stats,
}

impl DualPi2 {
    /// Two empty queues attached as `handle`, that draw from `rng`.
    pub fn new(config: DualPi2Config, handle: Handle, rng: Rng) -> Self {
        assert!(config.coupling_factor > 0, "a coupling of at least 1");
        assert!(config.tupdate.as_nanos() > 0, "an update takes time");
        assert!(config.classic_protection <= 100, "a share in per cent");
        Self {
            handle,
            filters: Vec::new(),
            rng,
            c_queue: PacketQueue::default(),
            l_queue: PacketQueue::default(),
            l_entries: VecDeque::new(),
            pi2: Pi2::default(),
            credit: config.initial_credit(),
            held: Backlog::default(),
            own_stats: DualPi2Stats::default(),
            stats: Stats::default(),
            config,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &DualPi2Config {
        &self.config
    }

    /// Other settings (`dualpi2_change`). What waits beyond new limits is dropped, from the C-queue first.
    pub fn change(&mut self, config: DualPi2Config, cx: &mut Cx<'_>) {
        self.catch_up(cx.now);
        if config.classic_protection != self.config.classic_protection {
            self.credit = config.initial_credit();
        }
        self.config = config;
        let mut packet = Packet::default();
        while self.waiting().packets > config.limit
            || self.own_stats.memory_used > config.memory_limit
        {
            let any = self.pop_c_queue(&mut packet) || self.pop_l_queue(&mut packet).is_some();
            assert!(any, "what exceeds a limit is in one of the queues");
            self.drop_packet(Reason::QdiscDrop, &mut packet, cx);
        }
    }

    /// The controller.
    pub fn controller(&self) -> &Pi2 {
        &self.pi2
    }

    /// The credit in bytes times per cent; positive: the C-queue is served next.
    pub fn credit(&self) -> i32 {
        self.credit
    }

    /// dualpi2's own counters.
    pub fn own_stats(&self) -> &DualPi2Stats {
        &self.own_stats
    }

    /// How long the oldest packets of the C-queue and the L-queue have waited at `now`.
    pub fn delays(&self, now: Instant) -> [Duration; 2] {
        [&self.c_queue, &self.l_queue].map(|queue| {
            queue.front().map_or(Duration::ZERO, |head| now.saturating_since(head.meta.enqueued_at))
        })
    }

    /// The filters in order of evaluation.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Adds a filter behind those of the same preference. Its class is 1 (the L-queue) or 2 (the L-queue, never
    /// marked); any other is the C-queue.
    pub fn add_filter(&mut self, filter: Filter) {
        filter.add_to(&mut self.filters);
    }

    /// Tells what a parent holds that counts as waiting here.
    pub(super) fn set_held(&mut self, held: Backlog) {
        self.held = held;
    }

    /// Asserts that counts agree with the queues.
    pub(super) fn check(&self) {
        self.c_queue.check("the C-queue of dualpi2");
        self.l_queue.check("the L-queue of dualpi2");
        assert_eq!(self.l_queue.backlog().packets as usize, self.l_entries.len(), "L-queue");
        let packets = || self.c_queue.iter().chain(self.l_queue.iter());
        assert_holds(self.waiting(), packets().map(Backlog::of).sum(), "dualpi2");
        let memory: u32 = packets().map(|packet| packet.meta.truesize).sum();
        assert_eq!(self.own_stats.memory_used, memory, "memory that dualpi2 says and holds");
    }

    /// What waits in both queues.
    fn waiting(&self) -> Backlog {
        self.c_queue.backlog() + self.l_queue.backlog()
    }

    /// The timer of the controller, up to `now`.
    fn catch_up(&mut self, now: Instant) {
        let heads = [self.c_queue.front(), self.l_queue.front()];
        let since = heads.into_iter().flatten().map(|head| head.meta.enqueued_at).min();
        self.pi2.catch_up(&self.config, since, now);
    }

    /// By the ECN field, else by `skb->priority` if that names a class of this qdisc, else by the first filter that
    /// matches (`dualpi2_skb_classify`).
    fn classify(&self, packet: &Packet) -> Class {
        if packet.network.ecn() as u8 & self.config.ecn_mask != 0 {
            return Class::L4s;
        }
        let priority = Handle(packet.meta.priority);
        if self.handle.owns(priority) && priority.minor() <= 2 {
            return Class::of(priority);
        }
        Filter::class_of(&self.filters, packet).map_or(Class::Classic, Class::of)
    }

    /// Queues a packet that is not to be split (`dualpi2_enqueue_skb`).
    fn admit(&mut self, class: Class, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let waiting = self.waiting() + self.held;
        let memory = u64::from(self.own_stats.memory_used) + u64::from(place.meta.truesize);
        if waiting.packets >= self.config.limit || memory > u64::from(self.config.memory_limit) {
            self.stats.overlimits += 1;
            self.drop_packet(Reason::QdiscOverlimit, place, cx);
            return Enqueue::Dropped;
        }
        if self.config.drop_early && self.must_drop(class, place) {
            self.drop_packet(Reason::QdiscCongested, place, cx);
            // Its sender is not to slow down twice (`__NET_XMIT_BYPASS`).
            return Enqueue::Queued;
        }
        let own = &mut self.own_stats;
        own.memory_used += place.meta.truesize;
        own.max_memory_used = own.max_memory_used.max(own.memory_used);
        own.maxq = own.maxq.max(waiting.packets);
        place.meta.enqueued_at = cx.now;
        if class == Class::Classic {
            own.packets_in_c = own.packets_in_c.wrapping_add(1);
            self.c_queue.push_back_from(place);
        } else {
            own.packets_in_l = own.packets_in_l.wrapping_add(1);
            let is_long = self.l_queue.backlog().packets >= self.config.min_qlen_step;
            self.l_entries.push_back(LEntry { class, apply_step: class == Class::L4s && is_long });
            self.l_queue.push_back_from(place);
        }
        Enqueue::Queued
    }

    /// Queues the segments of a super-packet; as good as queued if one of them is.
    fn admit_segments(&mut self, class: Class, whole: &Packet, cx: &mut Cx<'_>) -> Enqueue {
        let mut verdict = Enqueue::Dropped;
        for mut segment in whole.segment() {
            if self.admit(class, &mut segment, cx) == Enqueue::Queued {
                verdict = Enqueue::Queued;
            }
        }
        verdict
    }

    /// Takes the packet whose turn it is: the sign of the credit says which queue's, while both wait (`dequeue_packet`).
    fn take_next(&mut self, place: &mut Packet) -> Option<Taken> {
        let [wc, wl] = self.config.weights();
        let (has_c, has_l) = (!self.c_queue.is_empty(), !self.l_queue.is_empty());
        let credit = |weight: i32, place: &Packet| weight.wrapping_mul(place.wire_len() as i32);
        if has_l && (!has_c || self.credit <= 0) {
            let LEntry { class, apply_step } = self.pop_l_queue(place)?;
            let credit = if has_c { credit(wc, place) } else { 0 };
            return Some(Taken { class, apply_step, credit });
        }
        if self.pop_c_queue(place) {
            let credit = if has_l { credit(-wl, place) } else { 0 };
            return Some(Taken { class: Class::Classic, apply_step: false, credit });
        }
        self.credit = self.config.initial_credit();
        None
    }

    fn pop_c_queue(&mut self, place: &mut Packet) -> bool {
        let any = self.c_queue.pop_front_into(place);
        if any {
            self.own_stats.memory_used -= place.meta.truesize;
        }
        any
    }

    fn pop_l_queue(&mut self, place: &mut Packet) -> Option<LEntry> {
        let entry = self.l_entries.pop_front()?;
        self.l_queue.pop_front_into(place);
        self.own_stats.memory_used -= place.meta.truesize;
        Some(entry)
    }

    /// Whether the controller drops a packet; if it only marks it, that is done. Less than two full frames are no queue
    /// (`must_drop`).
    fn must_drop(&mut self, class: Class, packet: &mut Packet) -> bool {
        let waiting = self.waiting() + self.held;
        if class == Class::Exempt || waiting.bytes < 2 * self.config.mtu {
            return false;
        }
        let base = self.pi2.probability;
        let coupled = u64::from(base) * u64::from(self.config.coupling_factor);
        // More than certain: `Err`, an overload.
        match (class, u32::try_from(coupled)) {
            (Class::L4s, Ok(coupled)) => {
                roll(&mut self.rng, coupled) && self.mark_or_drop(packet, false)
            }
            (Class::L4s, Err(_)) => {
                let drops = self.config.drop_overload && roll_squared(&mut self.rng, base);
                if !drops {
                    self.mark(packet);
                }
                drops
            }
            (_, coupled) => {
                roll_squared(&mut self.rng, base) && self.mark_or_drop(packet, coupled.is_err())
            }
        }
    }

    /// True if the packet has to be dropped: in an overload, or as it cannot be marked.
    fn mark_or_drop(&mut self, packet: &mut Packet, overload: bool) -> bool {
        overload || !self.mark(packet)
    }

    /// Marks a packet; false if it is not ECN-capable (`dualpi2_mark`).
    fn mark(&mut self, packet: &mut Packet) -> bool {
        let is_marked = packet.mark_ce();
        self.own_stats.ecn_mark = self.own_stats.ecn_mark.wrapping_add(u32::from(is_marked));
        is_marked
    }

    /// The step of the L-queue: true if the packet has to be dropped, as it cannot be marked (`do_step_aqm`).
    fn step(&mut self, packet: &mut Packet, now: Instant) -> bool {
        let exceeded = match self.config.step_threshold {
            StepThreshold::Sojourn(most) => now.saturating_since(packet.meta.enqueued_at) > most,
            StepThreshold::Packets(most) => self.l_queue.backlog().packets > most,
        };
        if !exceeded {
            return false;
        }
        let is_marked = self.mark(packet);
        self.own_stats.step_marks = self.own_stats.step_marks.wrapping_add(u32::from(is_marked));
        !is_marked
    }

    fn drop_packet(&mut self, reason: Reason, place: &mut Packet, cx: &mut Cx<'_>) {
        self.stats.drops += 1;
        cx.drop(reason, place.take());
    }
}

impl Class {
    /// The class that a handle names.
    fn of(handle: Handle) -> Self {
        match handle.minor() {
            1 => Self::L4s,
            2 => Self::Exempt,
            _ => Self::Classic,
        }
    }
}

impl Qdisc for DualPi2 {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.enqueue_from(&mut packet, cx)
    }

    fn enqueue_from(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.catch_up(cx.now);
        let class = self.classify(place);
        if self.config.split_gso && place.segments() > 1 {
            return self.admit_segments(class, &place.take(), cx);
        }
        self.admit(class, place, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut packet = Packet::default();
        self.dequeue_into(&mut packet, cx).then_some(packet)
    }

    fn dequeue_into(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        self.catch_up(cx.now);
        while let Some(taken) = self.take_next(place) {
            if !self.config.drop_early && self.must_drop(taken.class, place) {
                self.drop_packet(Reason::QdiscCongested, place, cx);
                continue;
            }
            if taken.apply_step && self.step(place, cx.now) {
                self.drop_packet(Reason::DualPi2StepDrop, place, cx);
                continue;
            }
            self.credit = self.credit.wrapping_add(taken.credit);
            self.stats.count_sent(place);
            return true;
        }
        false
    }

    /// `dualpi2_reset`: settings and the delay that was measured last stay.
    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.c_queue.purge(cx);
        self.l_queue.purge(cx);
        self.l_entries.clear();
        self.pi2.probability = 0;
        self.own_stats = DualPi2Stats::default();
        self.credit = self.config.initial_credit();
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.waiting()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
