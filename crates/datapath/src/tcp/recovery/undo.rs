//! Undoing a spurious reduction: Eifel (RFC 4015) by timestamps, DSACK
//! (RFC 3708), and the adaptation to reordering that comes with it.

use super::super::cc::CongestionControl;
use super::super::skb::tag;
use super::super::state::State;
use super::super::{Connection, Cx};
use super::CaState;
use super::rack::RECOVERY_PERSIST;
use crate::packet::seq::Seq;
use crate::trace::EventKind;

/// What has shown that segments were reordered (`ts` of `tcp_check_sack_reordering`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum SeenBy {
    /// SACK blocks, or an ACK of data that was never retransmitted.
    Sack,
    /// The echo of a timestamp from before the retransmission.
    Timestamps,
}

impl Connection {
    /// Every retransmission was spurious, as far as can be known (`tcp_may_undo`).
    fn may_undo(&self) -> bool {
        self.rec.undo_marker.is_some() && (self.rec.undo_retrans == 0 || self.packet_delayed())
    }

    /// The ACK answers an original sent before the first retransmission, or nothing was
    /// retransmitted at all (`tcp_packet_delayed`).
    fn packet_delayed(&self) -> bool {
        let Some(first) = self.rec.retrans_stamp else {
            // The stamp is also cleared, though there were retransmissions, by the ACK of a SYN
            // and where an episode without SACK waits at `high_seq`.
            let waits = !self.is_sack() && !self.snd.una.before(self.rec.high_seq);
            return !waits && self.state != State::SynSent;
        };
        self.echoes_before(first.get())
    }

    /// The segment that is being processed echoes a TSval from before `stamp`.
    pub(in super::super) fn echoes_before(&self, stamp: u32) -> bool {
        self.ack.rcv_tsecr.is_some_and(|echo| (echo.get().wrapping_sub(stamp) as i32) < 0)
    }

    /// Removes all marks of loss (`tcp_undo_cwnd_reduction` with `unmark_loss`).
    fn unmark_losses(&mut self) {
        for index in 0..self.queue.rtx_len() {
            let id = self.queue.rtx_at(index).expect("within the queue");
            self.queue.get_mut(id).sacked &= !tag::LOST;
        }
        self.rec.lost_out = 0;
        self.rec.retransmit_hint = None;
    }

    /// Restores window and threshold from before the episode (`tcp_undo_cwnd_reduction`). Marks of loss
    /// stay: see [`unmark_losses`](Self::unmark_losses).
    fn undo_cwnd_reduction(&mut self, cx: &mut Cx<'_>) {
        if let Some(prior_ssthresh) = self.rec.prior_ssthresh {
            let ack = self.ack_view(cx.now);
            self.window.snd_cwnd = self.cc.undo_cwnd(&self.window, &ack);
            if prior_ssthresh > self.window.snd_ssthresh {
                self.window.snd_ssthresh = prior_ssthresh;
                self.ecn.queue_cwr = false;
            }
            debug_assert!(
                self.window.snd_ssthresh >= prior_ssthresh,
                "a reduction is undone, and its threshold stays"
            );
        }
        self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        self.rec.undo_marker = None;
        // RACK detects all losses anew.
        self.rec.rack.advanced = true;
        cx.event(
            self.id,
            EventKind::Undo {
                snd_cwnd: self.window.snd_cwnd,
                snd_ssthresh: self.window.snd_ssthresh,
            },
        );
    }

    /// The handshake of a Fast Open timed out and is over now, perhaps without need.
    pub(in super::super) fn try_undo_handshake_loss(&mut self, cx: &mut Cx<'_>) {
        self.try_undo_recovery(cx);
    }

    /// Everything of the episode is acknowledged (`tcp_try_undo_recovery`). True: stay in it.
    pub(super) fn try_undo_recovery(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.may_undo() {
            let was_loss = self.window.ca_state == CaState::Loss;
            self.undo_cwnd_reduction(cx);
            if was_loss {
                cx.mib.loss_undo += 1;
            } else {
                cx.mib.full_undo += 1;
            }
        } else {
            let persist = &mut self.rec.rack.reo_wnd_persist;
            *persist = persist.saturating_sub(1);
        }
        if self.non_sack_prevents_reopen() {
            return true;
        }
        self.reopen(cx);
        false
    }

    /// DSACKs have proven every retransmission spurious (`tcp_try_undo_dsack`).
    pub(super) fn try_undo_dsack(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.rec.undo_marker.is_none() || self.rec.undo_retrans != 0 {
            return false;
        }
        let persist = &mut self.rec.rack.reo_wnd_persist;
        *persist = (*persist + 1).min(RECOVERY_PERSIST);
        self.undo_cwnd_reduction(cx);
        cx.mib.dsack_undo += 1;
        true
    }

    /// Was the timeout spurious? Undoes it if so, and returns true (`tcp_try_undo_loss`).
    pub(super) fn try_undo_loss(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.may_undo() {
            return false;
        }
        self.undo_loss(cx);
        if !self.non_sack_prevents_reopen() && self.is_sack() {
            self.reopen(cx);
        }
        true
    }

    /// F-RTO has found the timeout spurious (`tcp_try_undo_loss` with `frto_undo`).
    pub(super) fn undo_spurious_timeout(&mut self, cx: &mut Cx<'_>) {
        self.undo_loss(cx);
        cx.mib.spurious_rtos += 1;
        if !self.non_sack_prevents_reopen() {
            self.reopen(cx);
        }
    }

    /// Reverts a timeout: marks of loss and the smaller window.
    fn undo_loss(&mut self, cx: &mut Cx<'_>) {
        self.unmark_losses();
        self.undo_cwnd_reduction(cx);
        cx.mib.loss_undo += 1;
        self.retransmits = 0;
    }

    /// The episode is over.
    fn reopen(&mut self, cx: &mut Cx<'_>) {
        self.set_ca_state(CaState::Open, cx);
        self.rec.is_sack_reneg = false;
    }

    /// A partial ACK in Recovery (`tcp_try_undo_partial`). True: the ACK needs nothing more.
    pub(super) fn try_undo_partial(
        &mut self,
        prior_snd_una: Seq,
        do_lost: &mut bool,
        cx: &mut Cx<'_>,
    ) -> bool {
        if self.rec.undo_marker.is_none() || !self.packet_delayed() {
            *do_lost = self.fack_forces_retransmit();
            return false;
        }
        // The hole was filled by the delayed original, not by a retransmission.
        self.check_sack_reordering(prior_snd_una, SeenBy::Timestamps, cx);
        if self.rec.retrans_out > 0 {
            // Clock out new data, but mark and retransmit no more.
            return true;
        }
        if !self.any_retrans_done() {
            self.rec.retrans_stamp = None;
        }
        self.unmark_losses();
        self.undo_cwnd_reduction(cx);
        cx.mib.partial_undo += 1;
        self.try_keep_open(cx);
        false
    }

    /// Without SACK, hold the state until something above `high_seq` is acknowledged (RFC 6582).
    fn non_sack_prevents_reopen(&mut self) -> bool {
        if self.snd.una != self.rec.high_seq || self.is_sack() {
            return false;
        }
        if !self.any_retrans_done() {
            self.rec.retrans_stamp = None;
        }
        true
    }

    /// Data from `low_seq` on was overtaken by what the highest SACK covers
    /// (`tcp_check_sack_reordering`).
    pub(in super::super) fn check_sack_reordering(
        &mut self,
        low_seq: Seq,
        seen_by: SeenBy,
        cx: &mut Cx<'_>,
    ) {
        let highest = self.highest_sack_seq();
        if !low_seq.before(highest) {
            return;
        }
        let metric = highest.bytes_since(low_seq);
        let mss = self.snd.mss;
        if metric > self.rec.reordering.wrapping_mul(mss) {
            let max = self.config.sysctl.tcp_max_reordering;
            self.rec.reordering = metric.div_ceil(mss).min(max);
        }
        self.totals.reord_seen += 1;
        match seen_by {
            SeenBy::Timestamps => cx.mib.ts_reorder += 1,
            SeenBy::Sack => cx.mib.sack_reorder += 1,
        }
    }

    /// Duplicate ACKs emulate SACK (`tcp_add_reno_sack`).
    pub(in super::super) fn add_reno_sack(&mut self, dup_acks: u32, ece: bool, cx: &mut Cx<'_>) {
        if dup_acks == 0 {
            return;
        }
        let before = self.rec.sacked_out;
        self.rec.sacked_out += dup_acks;
        self.check_reno_reordering(0, cx);
        let delivered = self.rec.sacked_out as i32 - before as i32;
        if delivered > 0 {
            self.count_delivered(delivered as u32, ece, cx);
        }
    }

    /// More duplicate ACKs than segments that can have caused them: reordering
    /// (`tcp_check_reno_reordering`).
    pub(in super::super) fn check_reno_reordering(&mut self, addend: u32, cx: &mut Cx<'_>) {
        if !self.limit_reno_sacked() {
            return;
        }
        let max = self.config.sysctl.tcp_max_reordering;
        self.rec.reordering = (self.rec.packets_out + addend).min(max);
        self.totals.reord_seen += 1;
        cx.mib.reno_reorder += 1;
    }

    /// Duplicate ACKs beyond what can be in flight beside the losses do not count; true if there
    /// were any (`tcp_limit_reno_sacked`).
    pub(in super::super) fn limit_reno_sacked(&mut self) -> bool {
        let holes = self.rec.lost_out.max(1).min(self.rec.packets_out);
        let most = self.rec.packets_out - holes;
        let too_many = self.rec.sacked_out > most;
        self.rec.sacked_out = self.rec.sacked_out.min(most);
        too_many
    }

    /// `tcp_reset_reno_sack`.
    pub(in super::super) fn reset_reno_sack(&mut self) {
        self.rec.sacked_out = 0;
    }

    /// `acked` segments left the queue without SACK (`tcp_remove_reno_sacks`).
    pub(in super::super) fn remove_reno_sacks(&mut self, acked: u32, ece: bool, cx: &mut Cx<'_>) {
        if acked > 0 {
            let newly = (acked as i32 - self.rec.sacked_out as i32).max(1);
            self.count_delivered(newly as u32, ece, cx);
            self.rec.sacked_out = self.rec.sacked_out.saturating_sub(acked - 1);
        }
        self.check_reno_reordering(acked, cx);
    }
}
