//! Loss detection without RACK. Forward acknowledgment (Mathis and Mahdavi 1996) is Linux's until
//! 4.11, as in 2.6.22: everything more than `reordering` segments below the highest SACK is lost.
//! Later kernels with `tcp_recovery = 0` count SACKed segments instead, as RFC 6675 does.

use super::super::skb::tag;
use super::super::{Connection, Cx};
use crate::profile::LossDetection;
use crate::trace::Cause;
use crate::units::Instant;

/// Whether an episode of recovery has just begun when losses are detected (`fast_rexmit` of `tcp_update_scoreboard`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Episode {
    /// It has just begun.
    Start,
    /// It has begun with an ACK before this one.
    Continue,
}

impl Connection {
    /// The profile's own rule is FACK; if not, RACK was switched off.
    fn is_fack_profile(&self) -> bool {
        self.config.profile.loss_detection == LossDetection::Fack
    }

    /// FACK holds until reordering is seen (`tcp_update_reordering` switches it off).
    fn fack_enabled(&self) -> bool {
        self.is_sack() && self.totals.reord_seen == 0
    }

    /// Segments that were overtaken according to duplicate ACKs or SACKs (`tcp_fackets_out`,
    /// `tcp_dupack_heuristics`).
    fn passed_segments(&self) -> u32 {
        if self.is_sack() && self.is_fack_profile() {
            self.rec.fackets_out
        } else {
            self.rec.sacked_out + 1
        }
    }

    /// `tcp_time_to_recover` without RACK.
    pub(super) fn fack_wants_recovery(&self, now: Instant) -> bool {
        if self.passed_segments() > self.rec.reordering {
            return true;
        }
        if !self.is_fack_profile() {
            return false;
        }
        if self.head_timed_out(now) {
            return true;
        }
        // A window too small for three duplicate ACKs, and nothing more to send.
        let packets_out = self.rec.packets_out;
        packets_out <= self.rec.reordering
            && self.rec.sacked_out >= (packets_out / 2).max(self.config.sysctl.tcp_reordering)
            && self.queue.unsent_is_empty()
    }

    /// `tcp_force_fast_retransmit`: the highest SACK is far enough above `snd_una`.
    pub(super) fn fack_forces_retransmit(&self) -> bool {
        let distance = self.highest_sack_seq().bytes_since(self.snd.una);
        distance > self.rec.reordering.wrapping_mul(self.snd.mss)
    }

    /// The oldest segment is older than the timeout, though the timer was restarted since
    /// (`tcp_head_timedout`).
    fn head_timed_out(&self, now: Instant) -> bool {
        let rto_us = u64::from(self.rto) * 1_000;
        self.rec.packets_out > 0
            && self
                .queue
                .rtx_head()
                .is_some_and(|head| now.as_micros() > self.queue.get(head).sent_us() + rto_us)
    }

    /// Marks lost what FACK or the number of duplicate ACKs implies (`tcp_update_scoreboard`); at least the
    /// head if recovery begins.
    pub(super) fn update_scoreboard(&mut self, episode: Episode, cx: &mut Cx<'_>) {
        if self.is_sack() && !self.is_fack_profile() {
            match self.rec.sacked_out.checked_sub(self.rec.reordering) {
                Some(passed) => self.mark_below_sacked(passed, cx),
                None if episode == Episode::Start => self.mark_head_lost(1, cx),
                None => {}
            }
            return;
        }
        let lost = if self.fack_enabled() {
            self.rec.fackets_out.saturating_sub(self.rec.reordering).max(1)
        } else {
            1
        };
        self.mark_head_lost(lost, cx);
        if self.is_sack() && self.head_timed_out(cx.now) {
            self.mark_timed_out(cx);
        }
    }

    /// Marks the first `segments` of the queue lost, unless tagged already
    /// (`tcp_mark_head_lost`).
    fn mark_head_lost(&mut self, segments: u32, cx: &mut Cx<'_>) {
        let mut count = 0;
        let mut index = 0;
        while let Some(id) = self.queue.rtx_at(index) {
            let skb = *self.queue.get(id);
            if skb.end_seq.after(self.rec.high_seq) {
                break;
            }
            let pcount = u32::from(skb.pcount);
            if count + pcount > segments {
                if count < segments && pcount > 1 && !skb.has(tag::SACKED) {
                    self.fragment(id, (segments - count) * u32::from(skb.gso_size));
                    continue;
                }
                break;
            }
            count += pcount;
            if !skb.has(tag::SACKED | tag::LOST | tag::RETRANS) {
                self.mark_skb_lost(id, Cause::DupAcks, cx);
            }
            index += 1;
        }
    }

    /// Marks segments at the head of the queue lost that have at least `reordering` SACKed segments above them
    /// (RFC 6675 section 4, `IsLost`): those with more than `passed` of them.
    fn mark_below_sacked(&mut self, passed: u32, cx: &mut Cx<'_>) {
        let mut sacked = 0;
        for index in 0..self.queue.rtx_len() {
            let id = self.queue.rtx_at(index).expect("within the queue");
            let skb = *self.queue.get(id);
            if skb.end_seq.after(self.rec.high_seq) {
                break;
            }
            if skb.has(tag::SACKED) {
                sacked += u32::from(skb.pcount);
                if sacked > passed {
                    break;
                }
            } else if !skb.has(tag::LOST) {
                self.mark_skb_lost(id, Cause::DupAcks, cx);
            }
        }
    }

    /// Marks every segment lost that is older than the timeout.
    fn mark_timed_out(&mut self, cx: &mut Cx<'_>) {
        let limit_us = cx.now_us().saturating_sub(u64::from(self.rto) * 1_000);
        for index in 0..self.queue.rtx_len() {
            let id = self.queue.rtx_at(index).expect("within the queue");
            let skb = self.queue.get(id);
            if skb.sent_us() >= limit_us {
                break;
            }
            if !skb.has(tag::SACKED | tag::LOST | tag::RETRANS) {
                self.mark_skb_lost(id, Cause::Timeout, cx);
            }
        }
    }

    /// Recounts the segments up to the highest SACKed one (`fackets_out`).
    pub(super) fn recount_fackets(&mut self) {
        self.rec.fackets_out = 0;
        if self.rec.sacked_out == 0 {
            return;
        }
        for index in 0..self.queue.rtx_len() {
            let skb = self.queue.get(self.queue.rtx_at(index).expect("within the queue"));
            if skb.seq.at_or_after(self.rec.highest_sack) {
                break;
            }
            self.rec.fackets_out += u32::from(skb.pcount);
        }
    }
}
