//! The way out: the shaper, the choice of tin and flow, COBALT.

use super::Cake;
use super::cobalt::Decision;
use super::hash::QUEUES;
use super::pool::{Queued, Ticket};
use crate::packet::Packet;
use crate::qdisc::Cx;
use crate::reason::Reason;

/// What became of a turn.
enum Turn {
    /// A packet to send.
    Send(Ticket),
    /// Nothing here: choose tin and flow again.
    ChooseTin,
    /// Choose another flow of the same tin.
    ChooseFlow,
}

impl Cake {
    /// `cake_dequeue`.
    pub(super) fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now.as_nanos();
        self.wake_at = None;
        let mut first = true;
        loop {
            if self.backlog.packets == 0 {
                return None;
            }
            if self.clocks.closed(now) {
                self.stats.overlimits += 1;
                self.wait();
                return None;
            }
            let tin = self.choose_tin(now)?;
            if let Some(ticket) = self.serve_tin(tin, first, cx) {
                return Some(self.send(tin, ticket, now));
            }
            first = false;
        }
    }

    /// The tin that may send: by its clock when shaped, in turn when not.
    fn choose_tin(&mut self, now: u64) -> Option<usize> {
        if self.cost.is_free() { self.choose_tin_in_turn() } else { self.choose_tin_by_clock(now) }
    }

    /// The highest tin with a queue that is due; if none is due, the one that is due first.
    fn choose_tin_by_clock(&self, now: u64) -> Option<usize> {
        let mut best: Option<(usize, u64)> = None;
        for (index, tin) in self.tins[..self.config.tins.classes().len()].iter().enumerate() {
            let better = best.is_none_or(|(_, clock)| tin.clock <= now || tin.clock <= clock);
            if tin.has_active_flows() && better {
                best = Some((index, tin.clock));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Deficit round robin over the tins, for when there are no clocks.
    fn choose_tin_in_turn(&mut self) -> Option<usize> {
        let count = self.config.tins.classes().len();
        if !self.tins[..count].iter().any(super::tin::Tin::has_active_flows) {
            return None;
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.has_active_flows() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum as i32;
            }
            self.current = (self.current + 1) % count;
        }
    }

    /// The next packet of a tin, or `None` if the tin must be chosen again. The first look of a
    /// dequeue is at a flow that decays, if there is one: each packet sent lets one decay a bit.
    fn serve_tin(&mut self, tin: usize, mut first: bool, cx: &mut Cx<'_>) -> Option<Ticket> {
        loop {
            let index = self.tins[tin].flows_mut().first(first)?;
            first = false;
            match self.serve_flow(tin, index, cx) {
                Turn::Send(ticket) => {
                    let adjusted = self.pool.get(&ticket).adjusted;
                    self.account_sent(tin, index, adjusted);
                    return Some(ticket);
                }
                Turn::ChooseTin => return None,
                Turn::ChooseFlow => {}
            }
        }
    }

    /// One flow's turn: a packet that COBALT lets pass, if the flow may send.
    fn serve_flow(&mut self, number: usize, index: usize, cx: &mut Cx<'_>) -> Turn {
        let now = cx.now.as_nanos();
        let mode = self.config.flows;
        if self.tins[number].flows_mut().get(index).deficit <= 0 {
            self.tins[number].next_round(index, mode, &mut self.draws);
            return Turn::ChooseFlow;
        }
        loop {
            let Some(ticket) = self.take(number, index) else {
                self.tins[number].retire(index, mode, now);
                return Turn::ChooseTin;
            };
            self.shrunk(number, index);
            let Some(reason) = self.judge(number, index, &ticket, now) else {
                return Turn::Send(ticket);
            };
            self.drop_judged(number, index, reason, ticket, cx);
            if self.config.ingress {
                return Turn::ChooseFlow;
            }
        }
    }

    /// COBALT's judgement: why to drop the packet, if it is to be dropped. May mark it. The last
    /// packet of a queue is never dropped.
    fn judge(&mut self, number: usize, index: usize, ticket: &Ticket, now: u64) -> Option<Reason> {
        let tin = &mut self.tins[number];
        let params = tin.params;
        let bulk_flows = if self.config.ingress { u64::from(tin.bulk) } else { 0 };
        let flow = tin.flows_mut().get_mut(index);
        let queued = self.pool.get_mut(ticket);
        let sojourn = now - queued.packet.meta.enqueued_at.as_nanos();
        let verdict = flow.cobalt.judge(&params, now, sojourn, bulk_flows);
        let signal = verdict.decision == Decision::Signal;
        let marked = signal && queued.packet.mark_ce();
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
        ticket: Ticket,
        cx: &mut Cx<'_>,
    ) {
        if self.config.ingress {
            let adjusted = self.pool.get(&ticket).adjusted;
            self.charge(number, adjusted, cx.now.as_nanos(), true);
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

    /// Counts and charges a packet that leaves.
    fn send(&mut self, number: usize, ticket: Ticket, now: u64) -> Packet {
        let Queued { packet, len, adjusted, .. } = self.pool.get(&ticket);
        let (adjusted, delay) = (*adjusted, now - packet.meta.enqueued_at.as_nanos());
        self.stats.bytes += u64::from(*len);
        self.stats.packets += u64::from(packet.segments());
        self.tins[number].delays.add(delay);
        self.charge(number, adjusted, now, false);
        if self.backlog.packets == 0 {
            self.wake_for_decay(now);
        } else if self.clocks.ahead(now) {
            self.wait();
        }
        if let Some(longest) = &mut self.longest {
            longest.sent();
        }
        ticket.redeem(&mut self.pool)
    }

    /// An empty instance with flows that decay asks to be looked at after a while.
    fn wake_for_decay(&mut self, now: u64) {
        let decaying = self.tins.iter().find(|tin| tin.decaying > 0);
        self.wake_at = decaying
            .map(|tin| crate::units::Instant::from_nanos(now.saturating_add(tin.params.target)));
    }
}

const _: () = assert!(QUEUES <= u16::MAX as usize, "queues are numbered with 16 bits");
