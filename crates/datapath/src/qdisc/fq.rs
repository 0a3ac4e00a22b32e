//! fq: a queue for each connection, and for the datagrams and forwarded packets of each hash, served by deficit round robin, each packet at the time that its
//! sender has set for it (Linux `net/sched/sch_fq.c`, tc-fq(8)).
//!
//! TCP writes the earliest departure time into its packets (`Meta::departs_in_ns`) once it
//! knows that it sends through fq; other traffic is paced here, by `maxrate`.

mod bands;
mod config;

pub use self::config::{FqConfig, FqFlows, FqStats};

use self::bands::{Bands, List};
use super::assertions::{assert_holds, assert_lists};
use super::hash::FlowKey;
use super::{Backlog, Cx, Enqueue, Qdisc, Stats};
use crate::packet::{Meta, Packet, Transport};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::{Duration, Instant, NANOS_PER_SEC};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A packet and when it may leave.
#[derive(Clone, Debug)]
struct Timed {
    departs_at: Instant,
    /// Its sender has set the time.
    set_by_sender: bool,
    packet: Packet,
}

#[derive(Clone, Debug, Default)]
struct FqFlow {
    key: u64,
    packets: VecDeque<Timed>,
    credit: i32,
    next_packet_at: Instant,
    /// When it ran dry; meaningful while it is detached.
    idle_since: Instant,
    detached: bool,
    was_listed: bool,
}

/// Fair queueing with pacing.
#[derive(Clone, Debug)]
pub struct Fq {
    config: FqConfig,
    key: FlowKey,
    flows: Vec<FqFlow>,
    vacant: Vec<u32>,
    by_key: BTreeMap<u64, u32>,
    /// Packets without a departure time to wait for: of control priority, or arrived while nothing was queued.
    internal: VecDeque<Packet>,
    lists: Bands,
    throttled: BTreeSet<(Instant, u32)>,
    /// How many flows have packets.
    active: u32,
    /// When the timer may fire at the earliest; `FAR_FUTURE` before it was ever set.
    watchdog: Instant,
    /// Maximum rates of datagram sockets, by owner, in byte/s (`sk_pacing_rate`); few have one.
    limits: BTreeMap<u32, u64>,
    waiting: Backlog,
    own_stats: FqStats,
    stats: Stats,
}

/// `TC_PRIO_CONTROL`, `TC_PRIO_MAX`.
const PRIO_CONTROL: u32 = 7;
const PRIO_MASK: u32 = 15;
/// `FQ_GC_AGE`: how long an idle flow is kept at least.
const GC_AGE: Duration = Duration::from_secs(3);
/// `FQ_GC_MAX`: how many are removed at a time.
const GC_MOST: usize = 8;
/// Packets that may wait for nothing beside flows that wait for their time.
const FAST_PATH_LEN: usize = 8;
/// The connection that sends a packet; that of a forwarded one is not known (`skb->sk`).
fn tcp_socket(packet: &Packet) -> Option<u32> {
    let is_owned = packet.meta.owner != Meta::NO_OWNER;
    (is_owned && matches!(packet.transport, Transport::Tcp(_))).then_some(packet.meta.owner)
}

/// Keys of flows without a socket begin here.
const ORPHANS: u64 = 1 << 32;

impl Fq {
    /// An empty queue whose hash of packets without a socket is keyed from `rng`.
    pub fn new(config: FqConfig, mut rng: Rng) -> Self {
        assert!(config.quantum > 0, "a quantum that is none");
        Self {
            config,
            key: FlowKey::new(&mut rng),
            flows: Vec::new(),
            vacant: Vec::new(),
            by_key: BTreeMap::new(),
            internal: VecDeque::new(),
            lists: Bands::default(),
            throttled: BTreeSet::new(),
            active: 0,
            watchdog: Instant::FAR_FUTURE,
            limits: BTreeMap::new(),
            waiting: Backlog::default(),
            own_stats: FqStats::default(),
            stats: Stats::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &FqConfig {
        &self.config
    }

    /// Other settings (`fq_change`). What waits beyond the new limit is dequeued and discarded as far
    /// as its time has come: it counts as sent, not as dropped.
    pub fn change(&mut self, config: FqConfig, cx: &mut Cx<'_>) {
        self.config = config;
        while self.waiting.packets > self.config.limit
            && let Some(packet) = self.dequeue(cx)
        {
            cx.drop(Reason::QueuePurge, packet);
        }
    }

    /// fq's own counters.
    pub fn own_stats(&self) -> &FqStats {
        &self.own_stats
    }

    /// How many flows there are.
    pub fn flow_counts(&self) -> FqFlows {
        let flows = self.by_key.len() as u32;
        let throttled = self.throttled.len() as u32;
        FqFlows { flows, inactive: flows - self.active, throttled }
    }

    /// Asserts that lists and backlog agree with the flows.
    pub(super) fn check(&self) {
        let in_flows = self.flows.iter().flat_map(|flow| &flow.packets);
        let packets = in_flows.map(|timed| &timed.packet).chain(&self.internal);
        assert_holds(self.waiting, packets.map(Backlog::of).sum(), "fq");
        let vacant = |index: usize| self.vacant.contains(&(index as u32));
        let flows = self.flows.iter().enumerate();
        let flows =
            flows.map(|(at, flow)| (!flow.detached && !vacant(at), !flow.packets.is_empty()));
        let throttled = self.throttled.iter().map(|(_, flow)| flow);
        let listed = self.lists.iter().chain(throttled);
        assert_lists(flows, listed.copied(), "fq");
        let active = self.flows.iter().filter(|flow| !flow.packets.is_empty()).count();
        assert_eq!(active as u32, self.active, "fq: flows with packets");
    }

    /// Senders are to set their packets' times.
    pub fn paces(&self) -> bool {
        self.config.pacing
    }

    /// Sets the maximum rate of a datagram socket, in byte/s; `u64::MAX`: no limit.
    pub fn limit_sender(&mut self, owner: u32, rate: u64) {
        if rate == u64::MAX {
            self.limits.remove(&owner);
        } else {
            self.limits.insert(owner, rate);
        }
    }

    /// The rate of a sender that sets no departure times, in byte/s. Not called for connections.
    fn limit_of(&self, packet: &Packet) -> u64 {
        if self.limits.is_empty() {
            return u64::MAX;
        }
        self.limits.get(&packet.meta.owner).copied().unwrap_or(u64::MAX)
    }

    /// Earliest and latest time at which the timer fires, if it runs (`hrtimer_start_range_ns`).
    pub fn timer_range(&self) -> Option<(Instant, Instant)> {
        let latest = self.wake_at()?;
        Some((self.watchdog, latest))
    }

    /// The packet's flow, made if it is new (`fq_classify`).
    fn classify(&mut self, packet: &Packet, now: Instant) -> u32 {
        // A datagram socket may have many peers, and those of one that is connected share a hash.
        let key = match tcp_socket(packet) {
            Some(socket) => u64::from(socket),
            None => ORPHANS | u64::from(self.key.hash(packet) & self.config.orphan_mask),
        };
        if let Some(&flow) = self.by_key.get(&key) {
            return flow;
        }
        let flows = self.by_key.len() as u32;
        if flows >= 2 * self.config.buckets && flows - self.active > flows / 2 {
            self.collect_idle_flows(now);
        }
        let flow = FqFlow {
            key,
            credit: self.config.initial_quantum as i32,
            idle_since: now,
            detached: true,
            ..FqFlow::default()
        };
        let index = if let Some(index) = self.vacant.pop() {
            self.flows[index as usize] = flow;
            index
        } else {
            self.flows.push(flow);
            self.flows.len() as u32 - 1
        };
        self.by_key.insert(key, index);
        index
    }

    /// No queued packet is due, so that this one need not join a flow
    /// (`fq_fastpath_check`).
    fn is_fast(&self, departs_at: Instant, now: Instant) -> bool {
        // Packets of the fast path do not count as queued, as long as they are few.
        let nobody_waits = self.active as usize <= self.throttled.len()
            && self.internal.len() < FAST_PATH_LEN
            && self.throttled.first().is_none_or(|&(at, _)| at > now);
        departs_at <= now && nobody_waits && self.config.maxrate == u64::MAX
    }

    /// Whether a packet that comes now goes on at once, if the device takes it.
    pub fn passes(&self, packet: &Packet, now: Instant) -> bool {
        self.is_fast(now + Duration::from_nanos(packet.meta.departs_in_ns.into()), now)
            && !self.is_limited(packet)
    }

    /// Its sender is a datagram socket with a limit.
    fn is_limited(&self, packet: &Packet) -> bool {
        self.limit_of(packet) != u64::MAX && tcp_socket(packet).is_none()
    }

    /// Sets the timer for the flow with the earliest departure time. The timer is kept if it fires no later than
    /// the new one may (`qdisc_watchdog_schedule_range_ns`), so it can be late by up to twice its slack.
    fn set_watchdog(&mut self, now: Instant) {
        let Some(&(at, _)) = self.throttled.first() else { return };
        let slack = self.config.timer_slack;
        let runs = self.watchdog < Instant::FAR_FUTURE && now < self.watchdog + slack;
        if !runs || self.watchdog < at || self.watchdog > at + slack {
            self.watchdog = at;
        }
    }

    /// `fq_gc`.
    fn collect_idle_flows(&mut self, now: Instant) {
        let old = |flow: &FqFlow| flow.detached && flow.idle_since + GC_AGE <= now;
        let idle = self.by_key.values().copied().filter(|&at| old(&self.flows[at as usize]));
        for index in idle.take(GC_MOST).collect::<Vec<u32>>() {
            self.by_key.remove(&self.flows[index as usize].key);
            self.vacant.push(index);
            self.own_stats.gc_flows += 1;
        }
    }

    /// When the packet may leave; `None`: never, it is dropped.
    fn departure(&mut self, packet: &Packet, now: Instant) -> Option<Instant> {
        let ahead = Duration::from_nanos(packet.meta.departs_in_ns.into());
        if ahead <= self.config.horizon {
            return Some(now + ahead);
        }
        if self.config.horizon_drop {
            self.own_stats.horizon_drops += 1;
            return None;
        }
        self.own_stats.horizon_caps += 1;
        Some(now + self.config.horizon)
    }

    fn refuse(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        self.stats.drops += 1;
        cx.drop(Reason::QdiscOverlimit, packet);
        Enqueue::Dropped
    }

    /// Flows whose time has come go to the end of the old ones (`fq_check_throttled`).
    fn release_throttled(&mut self, now: Instant) {
        while let Some(&(at, flow)) = self.throttled.first()
            && at <= now
        {
            self.throttled.pop_first();
            self.lists.push(List::Old, flow);
        }
    }

    /// The next packet that is due at `now`. If none is queued, flows are not touched.
    fn take(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.waiting.packets == 0 {
            return None;
        }
        if let Some(mut packet) = self.internal.pop_front() {
            packet.meta.departs_in_ns = 0;
            self.leave(&packet);
            return Some(packet);
        }
        self.release_throttled(now);
        loop {
            let (list, index) = self.lists.next()?;
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += self.config.quantum as i32;
                self.lists.pop(list);
                self.lists.push(List::Old, index);
                continue;
            }
            let Some(first) = flow.packets.front() else {
                self.lists.pop(list);
                if list == List::Old {
                    (flow.detached, flow.idle_since) = (true, cx.now);
                } else {
                    // Through the old list once, so that it cannot starve others by coming back.
                    self.lists.push(List::Old, index);
                }
                continue;
            };
            let at = first.departs_at.max(flow.next_packet_at);
            if now < at {
                self.lists.pop(list);
                flow.next_packet_at = at;
                self.throttled.insert((at, index));
                self.own_stats.throttled += 1;
                continue;
            }
            return Some(self.send_first(index, at, now));
        }
    }

    /// Takes the first packet of a flow, whose time was `at`, and sets the flow's next time.
    fn send_first(&mut self, index: u32, at: Instant, now: Instant) -> Packet {
        let flow = &mut self.flows[index as usize];
        let Timed { mut packet, set_by_sender, .. } =
            flow.packets.pop_front().expect("a packet was looked at");
        let limit = if set_by_sender { u64::MAX } else { self.limit_of(&packet) };
        let rate = self.config.maxrate.min(limit);
        let flow = &mut self.flows[index as usize];
        self.active -= u32::from(flow.packets.is_empty());
        let late = |threshold: Duration| at + threshold < now && now < Instant::FAR_FUTURE;
        if self.config.ce_threshold.is_some_and(late) {
            packet.mark_ce();
            self.own_stats.ce_mark += 1;
        }
        let mut len = packet.wire_len();
        flow.credit -= len as i32;
        self.lists.spend(len);
        let mut enforced = self.config.pacing && rate != u64::MAX;
        // Without pacing only bytes are charged to the credit (`goto out` of `fq_dequeue`).
        if self.config.pacing && !set_by_sender {
            if rate <= self.config.low_rate_threshold {
                flow.credit = 0;
            } else {
                len = len.max(self.config.quantum);
                enforced &= flow.credit <= 0;
            }
        }
        if enforced {
            let span = u64::from(len) * NANOS_PER_SEC / rate.max(1);
            let span = if span > NANOS_PER_SEC {
                self.own_stats.pkts_too_long += 1;
                NANOS_PER_SEC
            } else {
                span
            };
            // The timer may have been late: catch up, by half a packet at most.
            let late = if flow.next_packet_at == Instant::ZERO {
                0
            } else {
                now.as_nanos().saturating_sub(flow.next_packet_at.as_nanos()).min(span / 2)
            };
            flow.next_packet_at = now + Duration::from_nanos(span - late);
        }
        packet.meta.departs_in_ns = 0;
        self.leave(&packet);
        packet
    }

    fn leave(&mut self, packet: &Packet) {
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.wire_len();
    }
}

impl Qdisc for Fq {
    fn enqueue(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        if self.waiting.packets >= self.config.limit {
            return self.refuse(packet, cx);
        }
        if packet.meta.priority & PRIO_MASK == PRIO_CONTROL {
            self.own_stats.highprio_packets += 1;
            self.waiting = self.waiting + Backlog::of(&packet);
            self.internal.push_back(packet);
            return Enqueue::Queued;
        }
        let Some(departs_at) = self.departure(&packet, cx.now) else {
            return self.refuse(packet, cx);
        };
        if self.is_fast(departs_at, cx.now) && !self.is_limited(&packet) {
            self.waiting = self.waiting + Backlog::of(&packet);
            self.internal.push_back(packet);
            return Enqueue::Queued;
        }
        let index = self.classify(&packet, cx.now);
        let flow = &mut self.flows[index as usize];
        if flow.packets.len() >= self.config.flow_limit as usize {
            self.own_stats.flows_plimit += 1;
            return self.refuse(packet, cx);
        }
        self.waiting = self.waiting + Backlog::of(&packet);
        // TCP sets a departure time for each packet: now, if it need not wait.
        let set_by_sender = packet.meta.departs_in_ns > 0 || tcp_socket(&packet).is_some();
        self.active += u32::from(flow.packets.is_empty());
        let place = flow.packets.partition_point(|other| other.departs_at <= departs_at);
        flow.packets.insert(place, Timed { departs_at, set_by_sender, packet });
        if flow.detached {
            flow.detached = false;
            // In ticks (`flow_refill_delay`, `age`).
            let idle_ms = cx.now.as_millis() - flow.idle_since.as_millis();
            if idle_ms > self.config.refill_delay.as_millis() {
                flow.credit = flow.credit.max(self.config.quantum as i32);
            }
            let was_listed = core::mem::replace(&mut flow.was_listed, true);
            self.lists.push(if was_listed { List::New } else { List::First }, index);
        }
        Enqueue::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(packet) = self.take(cx.now, cx) else {
            self.set_watchdog(cx.now);
            return None;
        };
        self.stats.count_sent(&packet);
        Some(packet)
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        let in_flows = self.flows.drain(..).flat_map(|flow| flow.packets);
        let in_flows = in_flows.map(|timed| timed.packet);
        for packet in self.internal.drain(..).chain(in_flows) {
            cx.drop(Reason::QueuePurge, packet);
        }
        self.by_key.clear();
        self.vacant.clear();
        self.throttled.clear();
        self.lists = Bands::default();
        (self.watchdog, self.waiting, self.active) = (Instant::FAR_FUTURE, Backlog::default(), 0);
    }

    fn wake_at(&self) -> Option<Instant> {
        self.throttled.first().map(|_| self.watchdog + self.config.timer_slack)
    }

    fn backlog(&self) -> Backlog {
        self.waiting
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
