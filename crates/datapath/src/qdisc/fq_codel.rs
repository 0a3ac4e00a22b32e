//! fq_codel: flows by hash, served by deficit round robin, each under CoDel (RFC 8290; Linux
//! `net/sched/sch_fq_codel.c`).

use super::assertions::{assert_holds, assert_lists};
use super::codel::{CodelParams, CodelStats, CodelTime, CodelVars, Control, Source};
use super::hash::{FlowKey, scale};
use super::queue::PacketQueue;
use super::{Backlog, Cx, Enqueue, Handle, Qdisc, Stats};
use crate::packet::Packet;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::units::Instant;
use std::collections::VecDeque;

/// What an [`FqCodel`] is configured with (`TCA_FQ_CODEL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Packets that may wait in all flows.
    pub limit: u32,
    /// Number of flows; fixed once it is made.
    pub flows: u32,
    /// Bytes that a flow may send per round.
    pub quantum: u32,
    /// Bytes of packet memory (`truesize`) that may be in use.
    pub memory_limit: u32,
    /// Packets dropped at once, at most, when a limit is exceeded.
    pub drop_batch: u32,
    /// Each flow's control law.
    pub params: CodelParams,
}

impl FqCodelConfig {
    /// The defaults for a device whose largest frame is `mtu` bytes.
    pub fn new(mtu: u32) -> Self {
        Self {
            limit: 10 * 1024,
            flows: 1024,
            quantum: mtu,
            memory_limit: 32 << 20,
            drop_batch: 64,
            params: CodelParams { ecn: true, ..CodelParams::new(mtu) },
        }
    }
}

/// The largest quantum (`FQ_CODEL_QUANTUM_MAX`).
pub const MAX_QUANTUM: u32 = 1 << 20;

/// What fq_codel counts besides the common counters (`struct tc_fq_codel_qd_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FqCodelStats {
    /// Packets dropped because a limit was exceeded.
    pub drop_overlimit: u32,
    /// Those of them dropped because of the memory limit.
    pub drop_overmemory: u32,
    /// Times that a flow became new.
    pub new_flow_count: u32,
    /// Bytes of packet memory in use.
    pub memory_usage: u32,
}

/// Fair queueing with controlled delay.
#[derive(Clone, Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    handle: Handle,
    key: FlowKey,
    /// Empty until the first packet comes.
    flows: Vec<FqCodelFlow>,
    new_flows: VecDeque<u32>,
    old_flows: VecDeque<u32>,
    waiting: Backlog,
    control_stats: CodelStats,
    own_stats: FqCodelStats,
    /// Packets that a parent holds and that still count against the limit.
    held: u32,
    stats: Stats,
}

#[derive(Clone, Debug, Default)]
struct FqCodelFlow {
    queue: PacketQueue,
    deficit: i32,
    /// In one of the two lists.
    listed: bool,
    vars: CodelVars,
}

impl FqCodel {
    /// An empty queue attached as `handle`, whose flow hash is keyed from `rng`.
    pub fn new(config: FqCodelConfig, handle: Handle, mut rng: Rng) -> Self {
        assert!(config.flows > 0, "at least one flow");
        assert!((1..=MAX_QUANTUM).contains(&config.quantum), "a quantum that is none");
        Self {
            config,
            handle,
            key: FlowKey::new(&mut rng),
            flows: Vec::new(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            waiting: Backlog::default(),
            control_stats: CodelStats::default(),
            own_stats: FqCodelStats::default(),
            held: 0,
            stats: Stats::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &FqCodelConfig {
        &self.config
    }

    /// Other settings (`fq_codel_change`); the number of flows stays. What waits beyond the new
    /// limits is dequeued and discarded: it counts as sent, not as dropped.
    pub fn change(&mut self, config: FqCodelConfig, cx: &mut Cx<'_>) {
        self.config = FqCodelConfig { flows: self.config.flows, ..config };
        while self.waiting.packets > config.limit
            || self.own_stats.memory_usage > config.memory_limit
        {
            let Some(packet) = self.dequeue(cx) else { break };
            cx.drop(Reason::QueuePurge, packet);
        }
    }

    /// What the control law has counted, all flows together.
    pub fn control_stats(&self) -> &CodelStats {
        &self.control_stats
    }

    /// fq_codel's own counters.
    pub fn own_stats(&self) -> &FqCodelStats {
        &self.own_stats
    }

    /// Flows in the list of new and in the list of old flows.
    pub fn list_lengths(&self) -> (u32, u32) {
        (self.new_flows.len() as u32, self.old_flows.len() as u32)
    }

    /// Asserts that lists, backlog and memory agree with the flows.
    pub(super) fn check(&self) {
        let packets = || self.flows.iter().flat_map(|flow| flow.queue.iter());
        self.flows.iter().for_each(|flow| flow.queue.check("a flow of fq_codel"));
        assert_holds(self.waiting, packets().map(Backlog::of).sum(), "fq_codel");
        let memory: u32 = packets().map(|packet| packet.meta.truesize).sum();
        assert_eq!(self.own_stats.memory_usage, memory, "memory that fq_codel says and holds");
        let flows = self.flows.iter().map(|flow| (flow.listed, !flow.queue.is_empty()));
        assert_lists(flows, self.new_flows.iter().chain(&self.old_flows).copied(), "fq_codel");
    }

    /// Whether a packet may go straight to the device (`TCQ_F_CAN_BYPASS`).
    pub(super) fn may_bypass(&self) -> bool {
        self.waiting.packets == 0 && self.config.limit > 0
    }

    /// Counts a packet that went past the queue as sent.
    pub(super) fn count_bypass(&mut self, packet: &Packet) {
        self.stats.count_sent(packet);
    }

    /// Tells how many packets a parent holds that count as waiting here.
    pub(super) fn set_held(&mut self, held: u32) {
        self.held = held;
    }

    /// The packet's flow: by `skb->priority` if that names one of this qdisc's classes, else by
    /// hash (`fq_codel_classify`).
    pub fn flow_of(&self, packet: &Packet) -> u32 {
        let class = Handle(packet.meta.priority);
        let minor = u32::from(class.minor());
        if self.handle.owns(class) && (1..=self.config.flows).contains(&minor) {
            return minor - 1;
        }
        scale(self.key.hash(packet), self.config.flows)
    }

    /// The flow with the most bytes, the first of equals.
    fn fattest(&self) -> u32 {
        let mut best = (0, 0);
        for (flow, bytes) in self.flows.iter().map(|flow| flow.queue.backlog().bytes).enumerate() {
            if bytes > best.1 {
                best = (flow as u32, bytes);
            }
        }
        best.0
    }

    /// Drops the oldest packet of `flow`.
    fn drop_head(&mut self, flow: u32, cx: &mut Cx<'_>) {
        let packet = self.flows[flow as usize].queue.pop_front().expect("a packet to drop");
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.wire_len();
        self.own_stats.memory_usage -= packet.meta.truesize;
        self.stats.drops += 1;
        cx.drop(Reason::QdiscOverlimit, packet);
    }

    /// Drops half of the bytes of the longest flow, or a batch of packets (`fq_codel_drop`). Returns the flow
    /// and the number of packets.
    fn drop_batch(&mut self, cx: &mut Cx<'_>) -> (u32, u32) {
        let fattest = self.fattest();
        let bytes = |this: &Self| this.flows[fattest as usize].queue.backlog().bytes;
        let before = bytes(self);
        let mut dropped = 0;
        while dropped < self.config.drop_batch.max(1) && bytes(self) > 0 {
            if dropped > 0 && before - bytes(self) >= before >> 1 {
                break;
            }
            self.drop_head(fattest, cx);
            dropped += 1;
        }
        let vars = &mut self.flows[fattest as usize].vars;
        vars.count = vars.count.wrapping_add(dropped);
        (fattest, dropped)
    }

    /// What to do when a limit is exceeded by a packet of `flow`.
    fn overflow(&mut self, flow: u32, over_memory: bool, cx: &mut Cx<'_>) -> Enqueue {
        let (fattest, dropped) = self.drop_batch(cx);
        self.own_stats.drop_overlimit += dropped;
        self.own_stats.drop_overmemory += if over_memory { dropped } else { 0 };
        if fattest == flow { Enqueue::Congested } else { Enqueue::Queued }
    }

    /// The flow whose turn it is: new flows first. A flow without credit gets a quantum and goes
    /// to the end of the old ones.
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        loop {
            let (flow, new) = match self.new_flows.front() {
                Some(flow) => (*flow, true),
                None => (*self.old_flows.front()?, false),
            };
            let state = &mut self.flows[flow as usize];
            if state.deficit > 0 {
                return Some((flow, new));
            }
            state.deficit += self.config.quantum as i32;
            self.unlist(new);
            self.old_flows.push_back(flow);
        }
    }

    fn unlist(&mut self, new: bool) {
        let list = if new { &mut self.new_flows } else { &mut self.old_flows };
        list.pop_front();
    }

    /// A flow ran dry: a new one passes through the old list once, so that it cannot starve the
    /// others by coming back.
    fn retire(&mut self, flow: u32, new: bool) {
        self.unlist(new);
        if new && !self.old_flows.is_empty() {
            self.old_flows.push_back(flow);
        } else {
            self.flows[flow as usize].listed = false;
        }
    }

    fn dequeue_flow(&mut self, flow: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = CodelTime::at(cx.now);
        let FqCodelFlow { queue, vars, .. } = &mut self.flows[flow as usize];
        let source = OneFlow {
            queue,
            waiting: &mut self.waiting,
            memory: &mut self.own_stats.memory_usage,
            drops: &mut self.stats.drops,
            cx,
        };
        let stats = &mut self.control_stats;
        Control { params: &self.config.params, vars, stats, source, now }.dequeue()
    }
}

/// One flow as the control law sees it; the backlog is that of the whole qdisc.
struct OneFlow<'a, 'b> {
    queue: &'a mut PacketQueue,
    waiting: &'a mut Backlog,
    memory: &'a mut u32,
    drops: &'a mut u64,
    cx: &'a mut Cx<'b>,
}

impl Source for OneFlow<'_, '_> {
    fn pop(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.wire_len();
        *self.memory -= packet.meta.truesize;
        Some(packet)
    }

    fn bytes(&self) -> u32 {
        self.waiting.bytes
    }

    fn discard(&mut self, packet: Packet) {
        *self.drops += 1;
        self.cx.drop(Reason::QdiscCongested, packet);
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Enqueue {
        if self.flows.is_empty() {
            self.flows.resize(self.config.flows as usize, FqCodelFlow::default());
        }
        let index = self.flow_of(&packet);
        packet.meta.enqueued_at = cx.now;
        self.waiting = self.waiting + Backlog::of(&packet);
        self.own_stats.memory_usage += packet.meta.truesize;
        let flow = &mut self.flows[index as usize];
        flow.queue.push_back(packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.config.quantum as i32;
            self.new_flows.push_back(index);
            self.own_stats.new_flow_count += 1;
        }
        let over_memory = self.own_stats.memory_usage > self.config.memory_limit;
        if self.waiting.packets + self.held <= self.config.limit && !over_memory {
            return Enqueue::Queued;
        }
        self.overflow(index, over_memory, cx)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let (flow, new) = self.next_flow()?;
            let Some(packet) = self.dequeue_flow(flow, cx) else {
                self.retire(flow, new);
                continue;
            };
            self.flows[flow as usize].deficit -= packet.wire_len() as i32;
            self.stats.count_sent(&packet);
            return Some(packet);
        }
    }

    fn purge(&mut self, cx: &mut Cx<'_>) {
        self.flows.iter_mut().for_each(|flow| flow.queue.purge(cx));
        self.flows.clear();
        self.new_flows.clear();
        self.old_flows.clear();
        self.waiting = Backlog::default();
        self.own_stats.memory_usage = 0;
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.waiting
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, flow_frame};
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn bench(config: FqCodelConfig) -> Bench<FqCodel> {
        Bench::new(FqCodel::new(config, Handle::new(1, 0), Rng::stream(1, 1)))
    }

    fn sized(port: u16, len: u32) -> Packet {
        let mut packet = flow_frame(port, len, 0);
        packet.meta.truesize = 2304;
        packet
    }

    fn port(packet: &Packet) -> u16 {
        packet.transport.ports().expect("UDP").0
    }

    #[test]
    fn a_new_flow_goes_before_old_ones() {
        let mut bench = bench(FqCodelConfig::new(1514));
        for _ in 0..4 {
            bench.enqueue(0, sized(1, 1500));
        }
        assert_eq!(bench.dequeue(0).as_ref().map(port), Some(1));
        assert_eq!(bench.dequeue(0).as_ref().map(port), Some(1), "14 B of credit are enough");
        bench.enqueue(0, sized(2, 100));
        assert_eq!(bench.dequeue(0).as_ref().map(port), Some(2));
        assert_eq!(bench.drain_lengths(0), [1500, 1500]);
        assert_eq!(bench.qdisc().own_stats().new_flow_count, 2);
        assert_eq!(bench.qdisc().list_lengths(), (0, 0));
    }

    #[test]
    fn rounds_are_fair_in_bytes() {
        let mut bench = bench(FqCodelConfig::new(1514));
        for _ in 0..300 {
            bench.enqueue(0, sized(1, 1500));
            bench.enqueue(0, sized(2, 300));
        }
        let mut bytes = [0u32; 3];
        for _ in 0..240 {
            let packet = bench.dequeue(0).expect("a backlog");
            bytes[usize::from(port(&packet))] += packet.len();
        }
        assert!(bytes[1].abs_diff(bytes[2]) <= 2 * 1514, "{bytes:?}");
    }

    #[test]
    fn the_fattest_flow_pays_for_overflow() {
        let mut bench = bench(FqCodelConfig { limit: 100, ..FqCodelConfig::new(1514) });
        for _ in 0..90 {
            bench.enqueue(0, sized(1, 1000));
        }
        for _ in 0..10 {
            assert_eq!(bench.enqueue(0, sized(2, 1000)), Enqueue::Queued);
        }
        assert_eq!(bench.enqueue(0, sized(2, 1000)), Enqueue::Queued, "the other flow paid");
        assert_eq!(bench.qdisc().own_stats().drop_overlimit, 45, "half its bytes");
        assert_eq!(bench.qdisc().backlog().packets, 56);
        let mut alone = self::bench(FqCodelConfig { limit: 1, ..FqCodelConfig::new(1514) });
        alone.enqueue(0, sized(1, 1000));
        assert_eq!(alone.enqueue(0, sized(1, 1000)), Enqueue::Congested);
    }

    #[test]
    fn memory_is_limited_too() {
        let config = FqCodelConfig { memory_limit: 3 * 2304, ..FqCodelConfig::new(1514) };
        let mut bench = bench(config);
        for _ in 0..4 {
            bench.enqueue(0, sized(1, 100));
        }
        assert_eq!(bench.qdisc().own_stats().drop_overmemory, 2);
        assert_eq!(bench.qdisc().own_stats().memory_usage, 2 * 2304);
    }

    #[test]
    fn priority_may_name_the_flow() {
        let mut bench = bench(FqCodelConfig::new(1514));
        for (nth, minor) in [5u32, 5, 7].into_iter().enumerate() {
            let mut packet = sized(nth as u16, 100);
            packet.meta.priority = 1 << 16 | minor;
            bench.enqueue(0, packet);
        }
        assert_eq!(bench.qdisc().own_stats().new_flow_count, 2);
    }

    proptest! {
        /// Conservation (by the bench) under any arrivals, and everything comes out in the end.
        #[test]
        fn everything_drains(
            limit in 1u32..40,
            quantum in 300u32..3000,
            arrivals in prop::collection::vec((0u64..20_000_000, 0u16..6, 60u32..1514, any::<bool>()), 1..120),
        ) {
            let mut bench = bench(FqCodelConfig { limit, quantum, ..FqCodelConfig::new(1514) });
            let mut at = 0;
            for (gap, port, len, take) in arrivals {
                at += gap;
                bench.enqueue(at, sized(port, len));
                if take {
                    bench.dequeue(at);
                }
                prop_assert!(bench.qdisc().backlog().packets <= limit);
            }
            bench.drain_lengths(at);
            prop_assert_eq!(bench.qdisc().backlog(), Backlog::default());
            prop_assert_eq!(bench.qdisc().own_stats().memory_usage, 0);
        }
    }
}
