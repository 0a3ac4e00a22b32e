//! RACK (RFC 8985): a segment is lost when one sent sufficiently later was delivered.

use super::super::ack_event::AckFlags;
use super::super::skb::{SkbId, tag};
use super::super::timer::{Pending, TIMEOUT_MIN};
use super::super::{Connection, Cx};
use super::CaState;
use crate::packet::seq::Seq;
use crate::tcp::cc::CongestionControl;
use crate::trace::Cause;

/// RACK's state (`struct tcp_rack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in super::super) struct Rack {
    /// Send time of the latest sent segment that was delivered, µs (`mstamp`).
    pub sent_us: Option<u64>,
    /// Just past that segment.
    pub end_seq: Seq,
    /// RTT of it, µs.
    pub rtt_us: u32,
    /// `delivered` when the reordering window was last widened.
    pub last_delivered: u32,
    /// The reordering window in units of min_rtt/4.
    pub reo_wnd_steps: u8,
    /// Recoveries for which a widened window persists.
    pub reo_wnd_persist: u8,
    /// A DSACK arrived in this round.
    pub dsack_seen: bool,
    /// `sent_us` and `end_seq` changed with this ACK.
    pub advanced: bool,
}

/// `TCP_RACK_RECOVERY_THRESH`.
pub(super) const RECOVERY_PERSIST: u8 = 16;
/// `tcp_recovery` bit: the window does not adapt.
const STATIC_REO_WND: u32 = 2;
/// `tcp_recovery` bit: no duplicate-ACK threshold.
const NO_DUPTHRESH: u32 = 4;
/// `TCP_TIMEOUT_MIN_US`.
const TIMEOUT_MIN_US: u32 = TIMEOUT_MIN * 1_000;

impl Rack {
    /// A fresh connection's state.
    pub fn new() -> Self {
        Self { reo_wnd_steps: 1, ..Self::default() }
    }

    /// A segment sent at `sent_us` and ending at `end_seq` was delivered (`tcp_rack_advance`,
    /// RFC 8985 section 6.2 step 2).
    pub fn advance(
        &mut self,
        sacked: u8,
        end_seq: Seq,
        sent_us: u64,
        now_us: u64,
        min_rtt_us: u32,
    ) {
        let rtt_us = now_us.saturating_sub(sent_us) as u32;
        if rtt_us < min_rtt_us && sacked & tag::EVER_RETRANS != 0 {
            // Too fast for the retransmission: the original was delivered.
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if self.sent_us.is_none_or(|last_us| sent_after(sent_us, end_seq, last_us, self.end_seq)) {
            self.sent_us = Some(sent_us);
            self.end_seq = end_seq;
        }
    }
}

/// Order of transmission: by time, ties by sequence (`tcp_skb_sent_after`).
pub(in super::super) fn sent_after(us: u64, seq: Seq, other_us: u64, other_seq: Seq) -> bool {
    us > other_us || (us == other_us && seq.after(other_seq))
}

impl Connection {
    /// Marks segments that RACK considers lost after an ACK; true if the reordering timer was set
    /// (`tcp_rack_mark_lost`).
    pub(super) fn rack_mark_lost(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.rec.rack.advanced {
            return false;
        }
        self.rec.rack.advanced = false;
        let Some(timeout_us) = self.rack_detect_loss(cx) else { return false };
        let ticks = (timeout_us + TIMEOUT_MIN_US).div_ceil(1_000);
        self.reset_xmit_timer(Pending::Reorder, ticks, cx.now);
        true
    }

    /// RFC 8985 section 6.2 step 5. Returns the time until the next segment may be lost, µs, if there is any.
    pub(super) fn rack_detect_loss(&mut self, cx: &mut Cx<'_>) -> Option<u32> {
        let Rack { sent_us, end_seq, .. } = self.rec.rack;
        let rack_us = sent_us?;
        let reo_wnd_us = self.rack_reo_wnd_us();
        let now_us = cx.now_us();
        let mut timeout_us = None;
        let mut next = self.queue.sent_head();
        while let Some(id) = next {
            next = self.queue.sent_after(id);
            let skb = self.queue.get(id);
            if skb.has(tag::LOST) && !skb.has(tag::RETRANS) {
                continue;
            }
            let sent_us = skb.sent_us();
            if !sent_after(rack_us, end_seq, sent_us, skb.end_seq) {
                break;
            }
            let remaining = self.rack_skb_timeout(sent_us, reo_wnd_us, now_us);
            if remaining <= 0 {
                self.mark_skb_lost(id, Cause::Rack, cx);
                self.queue.unlink_sent(id);
            } else {
                timeout_us = timeout_us.max(Some(remaining as u32));
            }
        }
        timeout_us
    }

    /// How long until a segment sent at `sent_us` is lost, µs; not positive: it is
    /// (`tcp_rack_skb_timeout`).
    pub(super) fn rack_skb_timeout(&self, sent_us: u64, reo_wnd_us: u32, now_us: u64) -> i64 {
        let age = now_us as i64 - sent_us as i64;
        i64::from(self.rec.rack.rtt_us) + i64::from(reo_wnd_us) - age
    }

    /// RFC 8985 section 6.2 step 4 (`tcp_rack_reo_wnd`).
    fn rack_reo_wnd_us(&self) -> u32 {
        let recovery = self.config.sysctl.tcp_recovery;
        if self.totals.reord_seen == 0 {
            if self.window.ca_state >= CaState::Recovery {
                return 0;
            }
            if self.rec.sacked_out >= self.rec.reordering && recovery & NO_DUPTHRESH == 0 {
                return 0;
            }
        }
        let window =
            (self.rtt.min.get_us() >> 2).saturating_mul(self.rec.rack.reo_wnd_steps.into());
        window.min(self.rtt.srtt_us())
    }

    /// Widens or narrows the window by DSACKs, once per round trip (`tcp_rack_update_reo_wnd`).
    pub(in super::super) fn rack_update_reo_wnd(&mut self, prior_delivered: u32) {
        let rack = &mut self.rec.rack;
        if self.config.sysctl.tcp_recovery & STATIC_REO_WND != 0 || prior_delivered == 0 {
            return;
        }
        // A round has passed when something sent after the latest change was delivered.
        if (prior_delivered.wrapping_sub(rack.last_delivered) as i32) < 0 {
            rack.dsack_seen = false;
        }
        if rack.dsack_seen {
            rack.reo_wnd_steps = rack.reo_wnd_steps.saturating_add(1);
            rack.dsack_seen = false;
            rack.last_delivered = self.rate.delivered;
            rack.reo_wnd_persist = RECOVERY_PERSIST;
        } else if rack.reo_wnd_persist == 0 {
            rack.reo_wnd_steps = 1;
        }
    }

    /// The reordering timer fired (`tcp_rack_reo_timeout`).
    pub(in super::super) fn rack_reo_timeout(&mut self, cx: &mut Cx<'_>) {
        let prior_in_flight = self.packets_in_flight();
        let lost_before = self.totals.lost;
        self.rack_detect_loss(cx);
        if prior_in_flight != self.packets_in_flight() {
            if self.window.ca_state != CaState::Recovery {
                self.enter_recovery(AckFlags::default(), cx);
                if !self.cc.has_cong_control() {
                    let lost = self.totals.lost.wrapping_sub(lost_before);
                    self.cwnd_reduction(1, lost, AckFlags::default());
                }
            }
            self.xmit_retransmit_queue(Cause::Rack, cx);
        }
        // Segments still within the reordering window wait for the next ACK, or the timeout.
        if self.pending != Pending::Retransmit {
            self.rearm_rto(cx.now);
        }
    }

    /// Without SACK: three duplicate ACKs, or a partial ACK in Recovery, mark the head lost
    /// (`tcp_newreno_mark_lost`).
    pub(super) fn newreno_mark_lost(&mut self, snd_una_advanced: bool, cx: &mut Cx<'_>) {
        let state = self.window.ca_state;
        let dup_acks_suffice =
            state < CaState::Recovery && self.rec.sacked_out >= self.rec.reordering;
        let partial_ack = state == CaState::Recovery && snd_una_advanced;
        if !dup_acks_suffice && !partial_ack {
            return;
        }
        let Some(head) = self.queue.rtx_head() else { return };
        if self.queue.get(head).has(tag::LOST) {
            return;
        }
        let mss = match self.queue.get(head).gso_size {
            0 => self.snd.mss,
            size => size.into(),
        };
        self.split_head_to_one_segment(head, mss);
        self.mark_skb_lost(head, Cause::DupAcks, cx);
        self.queue.unlink_sent(head);
    }

    fn split_head_to_one_segment(&mut self, head: SkbId, mss: u32) {
        if self.queue.get(head).pcount > 1 && self.queue.get(head).len() > mss {
            self.fragment(head, mss);
        }
    }
}
