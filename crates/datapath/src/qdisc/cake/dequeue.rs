//! The way out: the shaper, the choice of tin and flow, COBALT.

use super::Cake;
use super::cobalt::Decision;
use super::flows::Set;
use super::hash::QUEUES;
use super::pool::{Charge, DetachedPacket};
use super::shaper::ChargeKind;
use crate::packet::Packet;
use crate::qdisc::Cx;
use crate::reason::Reason;

impl Cake {
    /// `cake_dequeue`: the next packet, moved to `place`; false if nothing may leave.
    pub(super) fn next_packet(&mut self, place: &mut Packet, cx: &mut Cx<'_>) -> bool {
        let now = cx.now.as_nanos();
        self.wake_at = None;
        let mut first = true;
        loop {
            if self.backlog.packets == 0 {
                return false;
            }
            if self.clocks.closed(now) {
                self.stats.overlimits += 1;
                self.wait();
                return false;
            }
            let Some(tin) = self.choose_tin(now) else { return false };
            self.current = tin;
            if let Some(ticket) = self.serve_tin(tin, first, cx) {
                self.send(tin, ticket, now, place);
                return true;
            }
            first = false;
        }
    }

    /// The tin that may send: by its clock when shaped, in turn when not.
    fn choose_tin(&mut self, now: u64) -> Option<usize> {
        if self.cost.is_free() { self.choose_tin_in_turn() } else { self.choose_tin_by_clock(now) }
    }

    /// The highest tin with a queue that is due; if none is due, the one that is due first.
    #[inline]
    fn choose_tin_by_clock(&self, now: u64) -> Option<usize> {
        let mut left = self.active & self.config.tins.mask();
        let mut best = None;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let clock = self.tins[index].clock;
            if best.is_none_or(|(_, least)| clock <= now || clock <= least) {
                best = Some((index, clock));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Deficit round robin over the tins, for when there are no clocks. It begins at the tin chosen
    /// last, which after a change may no longer exist.
    fn choose_tin_in_turn(&mut self) -> Option<usize> {
        let count = self.config.tins.classes().len();
        let (mut wrapped, mut empty) = (false, true);
        let mut at = self.current;
        loop {
            let tin = &mut self.tins[at];
            let active = tin.has_active_flows();
            if tin.deficit >= 0 && active {
                return Some(at);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum as i32;
            }
            empty &= !active;
            at += 1;
            if at >= count {
                if wrapped && empty {
                    return None;
                }
                (at, wrapped) = (0, true);
            }
        }
    }

    /// The next packet of a tin, or `None` if the tin must be chosen again. Each dequeue
    /// first visits a decaying flow, if there is one, so that its state decays further.
    #[inline]
    fn serve_tin(
        &mut self,
        number: usize,
        mut first: bool,
        cx: &mut Cx<'_>,
    ) -> Option<DetachedPacket> {
        let now = cx.now.as_nanos();
        let mode = self.config.flows;
        'flow: loop {
            let index = self.tins[number].next_flow(first, mode, &mut self.draws)?;
            first = false;
            loop {
                let Some(ticket) = self.take(number, index) else {
                    self.retire(number, index, now);
                    return None;
                };
                self.shrunk(number, index);
                let Some(reason) = self.judge(number, index, &ticket, now) else {
                    let adjusted = self.pool.charge(&ticket).adjusted;
                    self.account_sent(number, index, adjusted);
                    return Some(ticket);
                };
                self.drop_judged(number, index, reason, ticket, cx);
                if self.config.ingress {
                    continue 'flow;
                }
            }
        }
    }

    /// A flow was empty when it was to be served.
    #[inline]
    fn retire(&mut self, number: usize, index: usize, now: u64) {
        let tin = &mut self.tins[number];
        tin.retire(index, self.config.flows, now);
        if !tin.has_active_flows() {
            self.active &= !(1 << number);
        }
    }

    /// COBALT's decision: the drop reason if the packet is to be dropped. May mark it. The last
    /// packet of a queue is never dropped.
    #[inline]
    fn judge(
        &mut self,
        number: usize,
        index: usize,
        ticket: &DetachedPacket,
        now: u64,
    ) -> Option<Reason> {
        let tin = &mut self.tins[number];
        let params = tin.params;
        let bulk_flows = if self.config.ingress { u64::from(tin.count(Set::Bulk)) } else { 0 };
        let flow = tin.flows_mut().get_mut(index);
        let packet = self.pool.packet_mut(ticket);
        let sojourn = now - packet.meta.enqueued_at.as_nanos();
        let verdict = flow.cobalt.judge(&params, now, sojourn, bulk_flows);
        let signal = verdict.decision == Decision::Signal;
        let marked = signal && packet.mark_ce();
        let flood = flow.cobalt.p_drop != 0 && flow.cobalt.blue_drops(self.draws.blue());
        let refused = signal && !marked;
        flow.cobalt.settle(&params, now, verdict.late, refused || flood);
        let last = flow.chain.is_empty();
        let reason = match (refused, flood) {
            (true, _) => Some(Reason::QdiscCongested),
            (false, true) => Some(Reason::CakeFlood),
            (false, false) => None,
        };
        let reason = reason.filter(|_| !last);
        tin.counters.marked += u32::from(marked && reason.is_none());
        reason
    }

    fn drop_judged(
        &mut self,
        number: usize,
        index: usize,
        reason: Reason,
        ticket: DetachedPacket,
        cx: &mut Cx<'_>,
    ) {
        if self.config.ingress {
            let adjusted = self.pool.charge(&ticket).adjusted;
            self.charge(number, adjusted, cx.now.as_nanos(), ChargeKind::Dropped);
            self.account_sent(number, index, adjusted);
        }
        let tin = &mut self.tins[number];
        tin.counters.dropped += 1;
        tin.flows_mut().get_mut(index).dropped += 1;
        self.drop(reason, ticket, cx);
    }

    /// Takes a packet's length from the deficits of its flow and tin.
    fn account_sent(&mut self, number: usize, index: usize, adjusted: u32) {
        let tin = &mut self.tins[number];
        tin.deficit -= adjusted as i32;
        tin.flows_mut().get_mut(index).deficit -= adjusted as i32;
    }

    /// Counts, charges and moves to `place` a packet that leaves.
    #[inline]
    fn send(&mut self, number: usize, ticket: DetachedPacket, now: u64, place: &mut Packet) {
        let Charge { len, adjusted, .. } = self.pool.charge(&ticket);
        let packet = self.pool.packet(&ticket);
        let delay = now - packet.meta.enqueued_at.as_nanos();
        self.stats.bytes += u64::from(len);
        self.stats.packets += u64::from(packet.segments());
        self.sent += 1;
        self.tins[number].delays.add(delay);
        self.charge(number, adjusted, now, ChargeKind::Sent);
        if self.backlog.packets == 0 {
            self.wake_for_decay(now);
        } else if self.clocks.ahead(now) {
            self.wait();
        }
        if let Some(longest) = &mut self.longest {
            longest.sent();
        }
        ticket.redeem(&mut self.pool, place);
    }

    /// An empty instance with decaying flows asks to be called after a while.
    fn wake_for_decay(&mut self, now: u64) {
        let tins = &self.tins[..self.config.tins.classes().len()];
        let decaying = tins.iter().find(|tin| tin.count(Set::Decaying) > 0);
        self.wake_at = decaying
            .map(|tin| crate::units::Instant::from_nanos(now.saturating_add(tin.params.target)));
    }
}

const _: () = assert!(QUEUES <= u16::MAX as usize, "queues are numbered with 16 bits");
