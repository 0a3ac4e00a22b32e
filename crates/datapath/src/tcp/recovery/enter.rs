//! Entering CWR, Recovery and Loss: what is saved, marked and reduced.

use crate::profile::{LossDetection, Reduction};
use crate::tcp::ack_event::AckFlags;
use crate::tcp::cc::{CongestionControl, CwndEvent};
use crate::tcp::skb::{SkbId, tag};
use crate::tcp::{Connection, Cx};
use crate::trace::{CaState, Cause, EventKind};

impl Connection {
    /// `tcp_enter_recovery`. `flags`: of the ACK that revealed the loss; none if a timer did.
    pub(in crate::tcp) fn enter_recovery(&mut self, flags: AckFlags, cx: &mut Cx<'_>) {
        if self.is_sack() {
            cx.mib.sack_recovery += 1;
        } else {
            cx.mib.reno_recovery += 1;
        }
        self.rec.prior_ssthresh = None;
        self.init_undo();
        if !self.window.in_cwnd_reduction() {
            if !flags.ece {
                self.rec.prior_ssthresh = Some(self.current_ssthresh());
            }
            self.init_cwnd_reduction(cx);
        }
        self.set_ca_state(CaState::Recovery, cx);
    }

    /// `tcp_enter_cwr`: reduces the window after a congestion signal without loss.
    pub(in crate::tcp) fn enter_cwr(&mut self, cx: &mut Cx<'_>) {
        self.rec.prior_ssthresh = None;
        if self.window.ca_state < CaState::Cwr {
            self.rec.undo_marker = None;
            self.init_cwnd_reduction(cx);
            self.set_ca_state(CaState::Cwr, cx);
        }
    }

    /// Retransmits what is marked lost for a reason other than congestion
    /// (`tcp_non_congestion_loss_retransmit`).
    pub(in crate::tcp) fn retransmit_without_congestion(&mut self, cause: Cause, cx: &mut Cx<'_>) {
        if self.window.ca_state != CaState::Loss {
            self.rec.high_seq = self.snd.nxt;
            self.window.snd_ssthresh = self.current_ssthresh();
            self.rec.prior_ssthresh = None;
            self.rec.undo_marker = None;
            self.set_ca_state(CaState::Loss, cx);
        }
        self.xmit_retransmit_queue(cause, cx);
    }

    /// `tcp_enter_loss`: a timeout, or reneging.
    pub(in crate::tcp) fn enter_loss(&mut self, cx: &mut Cx<'_>) {
        let new_recovery = self.window.ca_state < CaState::Recovery;
        self.timeout_mark_lost(cx);
        if self.window.ca_state <= CaState::Disorder
            || !self.rec.high_seq.after(self.snd.una)
            || (self.window.ca_state == CaState::Loss && self.retransmits == 0)
        {
            self.rec.prior_ssthresh = Some(self.current_ssthresh());
            self.window.prior_cwnd = self.window.snd_cwnd;
            self.reduce_ssthresh(cx);
            self.cwnd_event(CwndEvent::Loss, cx);
            self.plb_timeout(cx);
            self.init_undo();
        }
        self.window.snd_cwnd = if self.config.profile.reduction == Reduction::RateHalving {
            1
        } else {
            self.packets_in_flight() + 1
        };
        self.window.snd_cwnd_cnt = 0;
        self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        let reordering = self.config.sysctl.tcp_reordering;
        if self.window.ca_state <= CaState::Disorder && self.rec.sacked_out >= reordering {
            self.rec.reordering = self.rec.reordering.min(reordering);
        }
        self.set_ca_state(CaState::Loss, cx);
        self.rec.high_seq = self.snd.nxt;
        self.rec.tlp_high_seq = None;
        self.ecn_queue_cwr();
        self.rec.frto = self.config.sysctl.tcp_frto != 0
            && (new_recovery || self.retransmits > 0)
            && !self.probes_mtu();
    }

    /// Which segments a timeout declares lost (`tcp_timeout_mark_lost`).
    fn timeout_mark_lost(&mut self, cx: &mut Cx<'_>) {
        let Some(head) = self.queue.rtx_head() else { return };
        let reneging = self.queue.get(head).has(tag::SACKED);
        if reneging {
            cx.mib.sack_reneging += 1;
            self.rec.sacked_out = 0;
            self.rec.fackets_out = 0;
            self.rec.is_sack_reneg = true;
        } else if !self.is_sack() {
            self.reset_reno_sack();
        }
        for index in 0..self.queue.rtx_len() {
            let Some(id) = self.queue.rtx_at(index) else { break };
            if self.config.profile.loss_detection == LossDetection::Fack {
                self.forget_retransmission(id);
            }
            if reneging {
                self.queue.get_mut(id).sacked &= !tag::SACKED;
            } else if self.uses_rack()
                && id != head
                && self.rack_skb_timeout(self.queue.get(id).sent_us(), 0, cx.now_us()) > 0
            {
                continue;
            }
            self.mark_skb_lost(id, Cause::Timeout, cx);
        }
        self.rec.retransmit_hint = None;
    }

    /// Its retransmission is not in flight any more (`tcp_enter_loss` before RACK, which cleared all
    /// tags but SACKED).
    pub(super) fn forget_retransmission(&mut self, id: SkbId) {
        let skb = self.queue.get_mut(id);
        if skb.has(tag::RETRANS) {
            skb.sacked &= !tag::RETRANS;
            self.rec.retrans_out -= u32::from(skb.pcount);
        }
    }

    /// `tcp_init_undo`.
    fn init_undo(&mut self) {
        self.rec.undo_marker = Some(self.snd.una);
        // A tail loss probe may cause a DSACK, too.
        let probes = u32::from(self.rec.tlp_high_seq.is_some() && self.rec.tlp_retrans);
        let sent_again = self.rec.retrans_out + probes;
        self.rec.undo_retrans = if sent_again > 0 { sent_again as i32 } else { -1 };
    }

    /// Asks the congestion module for a new threshold.
    pub(in crate::tcp) fn reduce_ssthresh(&mut self, cx: &mut Cx<'_>) {
        let ack = self.ack_view(cx.now);
        let prior_cwnd = self.window.snd_cwnd;
        self.window.snd_ssthresh = self.cc.ssthresh(&self.window, &ack);
        cx.event(self.id, EventKind::Reduce { prior_cwnd, snd_ssthresh: self.window.snd_ssthresh });
    }
}
