//! The way in: classification, hashing, the ACK filter, the memory limit.

use super::classid::Choice;
use super::flows::{Flows, Lookup};
use super::hash::FlowKeys;
use super::memory::{footprint, segment_footprint};
use super::overflow::{Backlogs, Longest, MAX_TINS, QueueId};
use super::pool::{Charge, Hint, Waiting};
use super::segment::{Segment, may_be_tcp};
use super::shaper::ChargeKind;
use super::tin::Tin;
use super::{AckFilter, AckJudgement, AckRule, FilteredAck, FlowMode};
use super::{Cake, ack_filter, tins};
use crate::packet::Packet;
use crate::qdisc::Cx;
use crate::reason::{Enqueue, Reason};
use crate::units::Rate;

impl Cake {
    /// `cake_enqueue`.
    pub(super) fn insert(&mut self, packet: &mut Packet, cx: &mut Cx<'_>) -> Enqueue {
        let now = cx.now.as_nanos();
        let tin = tins::select(&self.config, self.handle, packet);
        if self.config.wash {
            packet.set_dscp(0);
        }
        let index = self.classify(tin, packet);
        self.restart_clocks(tin, now);
        let counters = &mut self.tins[tin].counters;
        counters.max_len = counters.max_len.max(packet.wire_len());
        self.admit(tin, index, packet, cx);
        self.grown(tin, index);
        self.estimate_rate(now);
        self.tins[tin].activate(index, self.config.flows, &mut self.draws);
        self.active |= 1 << tin;
        self.memory.max_used = self.memory.max_used.max(self.memory.used);
        self.prune(QueueId { tin: tin as u8, queue: index as u16 }, cx)
    }

    /// The queue for `packet` in `tin` (`cake_classify`, `cake_hash`).
    #[inline]
    fn classify(&mut self, tin: usize, packet: &Packet) -> usize {
        let mode = self.config.flows;
        let tin = &mut self.tins[tin];
        let flows = tin.flows.get_or_insert_with(|| Box::new(Flows::new()));
        if mode == FlowMode::Flowblind {
            return 0;
        }
        let conntrack = self.conntrack.as_deref().filter(|_| self.config.nat);
        let keys = FlowKeys::of(packet, conntrack);
        let hashes = self.hasher.hashes(&keys, Choice::of(&self.filters, packet));
        let hosts = || (hashes.source(), hashes.destination());
        let (index, lookup) = flows.find(hashes.queue(mode), mode, hosts);
        match lookup {
            Lookup::Direct => {}
            Lookup::Indirect => tin.counters.way_hits += 1,
            Lookup::Miss => tin.counters.way_misses += 1,
            Lookup::Collision => tin.counters.way_collisions += 1,
        }
        index
    }

    /// After idleness the clocks start from now: no credit accumulates.
    #[inline]
    fn restart_clocks(&mut self, tin: usize, now: u64) {
        let tin = &mut self.tins[tin];
        if tin.backlog != 0 {
            return;
        }
        tin.clock = tin.clock.max(now);
        if self.backlog.packets != 0 {
            return;
        }
        if self.clocks.closed(now) {
            self.stats.overlimits += 1;
            self.wait();
        }
        self.clocks.restart(now);
    }

    /// Puts `packet` into its queue, cut into its segments if it is a super-packet and that is
    /// wanted, and lets the ACK filter look at the queue.
    #[inline]
    fn admit(&mut self, tin: usize, index: usize, packet: &mut Packet, cx: &mut Cx<'_>) {
        if self.config.split_gso && packet.segments() > 1 {
            self.split(tin, index, packet, cx);
            return;
        }
        let filter = self.config.ack_filter;
        if filter == AckFilter::Off || !may_be_tcp(&packet.network) {
            self.push(tin, index, packet, footprint(packet), cx);
            return;
        }
        if filter == AckFilter::Naive {
            let flows = self.tins[tin].flows_mut();
            if !flows.get(index).chain.is_empty() && flows.last_ack(index).drops(packet) {
                self.refuse_ack(tin, packet.take(), cx);
                return;
            }
        }
        let is_ack = Hint::of(packet).may_be_ack();
        self.push(tin, index, packet, footprint(packet), cx);
        // A queue of data need not be searched, however long it is.
        let chain = &self.tins[tin].flows_mut().get(index).chain;
        let others = chain.acks() != u32::from(is_ack) || self.ack_log.is_some();
        if others && !chain.has_one() {
            self.filter_acks(tin, index, filter, cx);
        }
    }

    /// Puts the segments of a super-packet into its queue. Its place is empty afterwards, as for a packet queued whole.
    #[cold]
    fn split(&mut self, tin: usize, index: usize, place: &mut Packet, cx: &Cx<'_>) {
        let packet = place.take();
        let mut left = packet.segments();
        for mut segment in packet.segment() {
            left -= 1;
            let memory = segment_footprint(&packet, &segment, left == 0);
            self.push(tin, index, &mut segment, memory, cx);
        }
    }

    /// Appends one packet to its queue.
    #[inline]
    fn push(&mut self, tin: usize, index: usize, packet: &mut Packet, memory: u32, cx: &Cx<'_>) {
        let len = packet.wire_len();
        let adjusted = self.sizes.adjust(&self.config, packet);
        self.memory.used += u64::from(memory);
        self.backlog.packets += 1;
        self.backlog.bytes += len;
        self.autorate.add_bytes(u64::from(len));
        let tin = &mut self.tins[tin];
        tin.counters.packets += 1;
        tin.counters.bytes += u64::from(len);
        tin.backlog += len;
        let flow = tin.flows_mut().get_mut(index);
        flow.backlog += len;
        self.pool.push(&mut flow.chain, packet, Charge { len, adjusted, memory }, cx.now);
    }

    /// Removes the ACK that the packet just queued has made redundant.
    fn filter_acks(&mut self, tin: usize, index: usize, filter: AckFilter, cx: &mut Cx<'_>) {
        let flow = self.tins[tin].flows_mut().get_mut(index);
        let newest = self.pool.last(&flow.chain).expect("a packet was just queued");
        let queue = || self.pool.before_last(&flow.chain);
        let mut judgements = Vec::new();
        if self.ack_log.is_some() {
            let older: Vec<&Packet> = queue().map(Waiting::packet).collect();
            ack_filter::judge(filter, newest, older.iter().copied(), &mut |place, rule| {
                judgements.push(AckJudgement {
                    owner: older[place].meta.owner,
                    newest: newest.meta.owner,
                    rule,
                    at: cx.now,
                    gone: if rule.drops() { gone(older[place], newest) } else { None },
                });
            });
        }
        let Some(position) = ack_filter::victim(filter, newest, queue()) else {
            for judgement in judgements {
                self.log_ack(judgement);
            }
            return;
        };
        let ticket = self.pool.remove(&mut flow.chain, position);
        let Charge { len, adjusted, .. } = self.pool.charge(&ticket);
        flow.backlog -= len;
        self.tins[tin].backlog -= len;
        self.tins[tin].counters.ack_drops += 1;
        self.autorate.remove_bytes(u64::from(len));
        self.account_gone(&ticket);
        if self.config.ingress {
            self.charge(tin, adjusted, cx.now.as_nanos(), ChargeKind::Dropped);
        }
        for judgement in judgements {
            self.log_ack(judgement);
        }
        self.drop(Reason::AckFilter, ticket, cx);
    }

    /// Drops an arriving ACK, with the counters of a filtered one.
    fn refuse_ack(&mut self, tin: usize, packet: Packet, cx: &mut Cx<'_>) {
        let owner = packet.meta.owner;
        if self.ack_log.is_some() {
            let gone = gone(&packet, &packet);
            let (rule, at) = (AckRule::EveryOther, cx.now);
            self.log_ack(AckJudgement { owner, newest: owner, rule, at, gone });
        }
        let adjusted = self.sizes.adjust(&self.config, &packet);
        let counters = &mut self.tins[tin].counters;
        counters.packets += 1;
        counters.bytes += u64::from(packet.wire_len());
        counters.ack_drops += 1;
        self.stats.drops += 1;
        if self.config.ingress {
            self.charge(tin, adjusted, cx.now.as_nanos(), ChargeKind::Dropped);
        }
        cx.drop(Reason::AckFilter, packet);
    }

    fn grown(&mut self, tin: usize, index: usize) {
        if let Some(longest) = &mut self.longest {
            let place = QueueId { tin: tin as u8, queue: index as u16 };
            longest.grown(place, &*self.tins);
        }
    }

    fn estimate_rate(&mut self, now: u64) {
        if !self.config.autorate_ingress {
            self.autorate.passed(now);
        } else if let Some(bytes_per_sec) =
            self.autorate.arrived(now, self.config.autorate_every_250_ms)
        {
            self.rate = Rate::from_bytes_per_sec(bytes_per_sec);
            self.reconfigure();
        }
    }

    /// Drops from the longest queues until the memory limit is kept (`cake_drop`). The packet's
    /// owner is notified if its own queue was hit.
    fn prune(&mut self, own: QueueId, cx: &mut Cx<'_>) -> Enqueue {
        let mut verdict = Enqueue::Queued;
        while self.memory.used > self.memory.limit {
            let longest = self.longest.get_or_insert_with(|| Box::new(Longest::new()));
            let place = longest.longest(&*self.tins);
            if place == own {
                verdict = Enqueue::Congested;
            }
            if self.drop_head(place, cx) {
                self.check_longest(place);
            } else if let Some(longest) = &mut self.longest {
                longest.distrust();
            }
        }
        verdict
    }

    /// Drops the first packet of the queue at `place`; false if it has none.
    fn drop_head(&mut self, place: QueueId, cx: &mut Cx<'_>) -> bool {
        let now = cx.now.as_nanos();
        let (number, index) = (usize::from(place.tin), usize::from(place.queue));
        let Some(ticket) = self.take(number, index) else { return false };
        let tin = &mut self.tins[number];
        let params = tin.params;
        let flow = tin.flows_mut().get_mut(index);
        flow.dropped += 1;
        let begun = flow.cobalt.queue_full(&params, now);
        tin.unresponsive += u16::from(begun);
        tin.counters.dropped += 1;
        if self.config.ingress {
            let adjusted = self.pool.charge(&ticket).adjusted;
            self.charge(number, adjusted, now, ChargeKind::Dropped);
        }
        self.drop(Reason::QdiscOverlimit, ticket, cx);
        self.shrunk(number, index);
        true
    }

    /// Tells the heap that a queue has become shorter.
    pub(super) fn shrunk(&mut self, tin: usize, index: usize) {
        if let Some(longest) = &mut self.longest {
            let place = QueueId { tin: tin as u8, queue: index as u16 };
            longest.shrunk(place, &*self.tins);
        }
    }
}

impl Backlogs for [Tin; MAX_TINS] {
    fn backlog(&self, place: QueueId) -> u32 {
        let flows = self[usize::from(place.tin)].flows.as_ref();
        flows.map_or(0, |flows| flows.get(usize::from(place.queue)).backlog)
    }
}

/// What is logged about a dropped ACK.
fn gone(older: &Packet, newest: &Packet) -> Option<FilteredAck> {
    let flow = older.inner_flow().or_else(|| older.flow())?;
    let (ack, newest) = (Segment::of(older)?.ack, Segment::of(newest)?.ack);
    Some(FilteredAck { flow, ack, newest })
}
