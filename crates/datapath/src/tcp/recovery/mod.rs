//! Loss recovery: the Open, Disorder, CWR, Recovery, Loss machine (`tcp_fastretrans_alert`).
//!
//! | file | what it holds |
//! |---|---|
//! | [`enter`] | into CWR, Recovery and Loss |
//! | [`scoreboard`] | which segments are SACKed; reading SACK blocks |
//! | [`shift`] | SACKed neighbours become one record |
//! | [`lost_retransmit`], [`sack_fast_path`] | the rules of 2007: how a retransmission is found lost again |
//! | [`rack`], [`fack`] | which segments are lost: by time, or by forward acknowledgment |
//! | [`tlp`] | tail loss probes |
//! | [`prr`] | how the window shrinks |
//! | [`undo`], [`frto`] | undoing a spurious reduction |
//! | [`resend`], [`collapse`], [`forward`] | retransmitting; merging small records; retransmitting what may be lost |

mod collapse;
mod enter;
mod fack;
mod forward;
mod frto;
mod lost_retransmit;
mod prr;
mod rack;
mod resend;
mod sack_fast_path;
mod scoreboard;
mod shift;
mod tagged;
mod tlp;
mod undo;

pub(super) use rack::Rack;
pub(super) use resend::Resent;
pub(super) use sack_fast_path::SackFastPath;
pub(super) use tlp::{Push, Rto};
pub(super) use undo::SeenBy;

use super::ack_event::{AckEvent, AckFlags};
use super::cc::{CongestionControl, CwndEvent, LostPacket};
use super::skb::SkbId;
use super::timer::HZ;
use super::{Connection, Cx};
use crate::packet::SackBlock;
use crate::packet::seq::Seq;
use crate::profile::LossDetection;
use crate::trace::{CaState, Cause, EventKind};
use core::num::NonZeroU32;
use fack::Episode;

/// The scoreboard's counts and the state of the congestion state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Recovery {
    /// Segments sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Of those, SACKed (or counted by duplicate ACKs).
    pub sacked_out: u32,
    /// Of those, presumed lost.
    pub lost_out: u32,
    /// Retransmissions in the network.
    pub retrans_out: u32,
    /// `snd_nxt` when the episode began.
    pub high_seq: Seq,
    /// `snd_una` when the episode began, while it may be undone.
    pub undo_marker: Option<Seq>,
    /// Retransmissions not yet proven spurious; −1: none was outstanding at the start.
    pub undo_retrans: i32,
    /// TSval of the first retransmission.
    pub retrans_stamp: Option<NonZeroU32>,
    /// Threshold to return to, if the reduction may be undone.
    pub prior_ssthresh: Option<u32>,
    /// Segments delivered since the reduction began.
    pub prr_delivered: u32,
    /// Segments sent since the reduction began.
    pub prr_out: u32,
    /// Reordering degree, segments.
    pub reordering: u32,
    /// Highest sequence number when the tail loss probe went out.
    pub tlp_high_seq: Option<Seq>,
    /// The probe was a retransmission.
    pub tlp_retrans: bool,
    /// F-RTO is checking whether a timeout was spurious.
    pub frto: bool,
    /// The receiver has reneged on SACKed data.
    pub is_sack_reneg: bool,
    /// Just past the highest SACKed segment; meaningful while `sacked_out > 0`.
    pub highest_sack: Seq,
    /// Where retransmission goes on.
    pub retransmit_hint: Option<Seq>,
    /// Blocks of the previous ACK, sorted (`recv_sack_cache`).
    pub sack_cache: [SackBlock; 4],
    /// RACK.
    pub rack: Rack,
    /// Segments from `snd_una` to the highest one that was SACKed (`fackets_out`, until 4.15).
    pub fackets_out: u32,
}

/// What to send after an ACK (`REXMIT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rexmit {
    /// Nothing special.
    None,
    /// Lost segments.
    Lost,
    /// New data first (F-RTO).
    New,
}

impl Connection {
    /// `tcp_ack_is_dubious`: the state machine must process this ACK.
    pub(super) fn ack_is_dubious(&self, flags: AckFlags) -> bool {
        !flags.not_dup() || flags.ca_alert() || self.window.ca_state != CaState::Open
    }

    /// The RACK rules apply.
    pub(super) fn uses_rack(&self) -> bool {
        self.config.profile.loss_detection == LossDetection::Rack
            && (self.config.profile.rack_always_on || self.config.sysctl.tcp_recovery & 1 != 0)
    }

    /// Processes one ACK: undo, mark losses, enter or leave states.
    pub(super) fn fastretrans_alert(
        &mut self,
        dup_acks: u32,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) -> Rexmit {
        event.view = None;
        let prior_snd_una = event.prior_snd_una;
        let flags = &mut event.flags;
        let mut do_lost = dup_acks > 0 || (flags.data_sacked && self.fack_forces_retransmit());
        if self.rec.packets_out == 0 {
            self.rec.sacked_out = 0;
        }
        if flags.snd_una_advanced && self.rec.fackets_out > 0 {
            self.recount_fackets();
        }
        if flags.ece {
            self.rec.prior_ssthresh = None;
        }
        if self.check_sack_reneging(flags, cx) {
            return Rexmit::None;
        }
        if self.leave_finished_state(cx) {
            return Rexmit::None;
        }
        match self.window.ca_state {
            CaState::Recovery => {
                if !flags.snd_una_advanced {
                    if !self.is_sack() {
                        self.add_reno_sack(dup_acks, flags.ece, cx);
                    }
                } else if self.try_undo_partial(prior_snd_una, &mut do_lost, cx) {
                    return Rexmit::None;
                }
                if self.try_undo_dsack(cx) {
                    self.try_to_open(*flags, cx);
                }
                self.identify_packet_loss(flags, cx);
                if self.window.ca_state != CaState::Recovery {
                    if !self.time_to_recover(cx) {
                        return Rexmit::None;
                    }
                    self.enter_recovery(*flags, cx);
                }
            }
            CaState::Loss => {
                let rexmit = self.process_loss(*flags, dup_acks, cx);
                if self.window.ca_state != CaState::Loss {
                    self.end_series(cx.now);
                }
                self.identify_packet_loss(flags, cx);
                if self.window.ca_state != CaState::Open && !flags.lost_retrans {
                    return rexmit;
                }
                // The window was undone or retransmissions are lost: check for losses again.
                return self.process_open(flags, dup_acks, do_lost, rexmit, cx);
            }
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                return self.process_open(flags, dup_acks, do_lost, Rexmit::None, cx);
            }
        }
        if !self.uses_rack() && do_lost {
            self.update_scoreboard(Episode::Continue, cx);
        }
        Rexmit::Lost
    }

    /// Open, Disorder and CWR: is it time to recover?
    fn process_open(
        &mut self,
        flags: &mut AckFlags,
        dup_acks: u32,
        do_lost: bool,
        so_far: Rexmit,
        cx: &mut Cx<'_>,
    ) -> Rexmit {
        if !self.is_sack() {
            if flags.snd_una_advanced {
                self.reset_reno_sack();
            }
            self.add_reno_sack(dup_acks, flags.ece, cx);
        }
        if self.window.ca_state <= CaState::Disorder {
            self.try_undo_dsack(cx);
        }
        self.identify_packet_loss(flags, cx);
        if !self.time_to_recover(cx) {
            self.try_to_open(*flags, cx);
            return so_far;
        }
        // A lost path MTU probe is no sign of congestion.
        if self.mtu_probe_lost(cx) {
            return so_far;
        }
        self.enter_recovery(*flags, cx);
        if !self.uses_rack() && do_lost {
            self.update_scoreboard(Episode::Start, cx);
        }
        Rexmit::Lost
    }

    /// Leaves a state whose `high_seq` is acknowledged. True: the ACK needs nothing more.
    fn leave_finished_state(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.window.ca_state == CaState::Open {
            self.rec.retrans_stamp = None;
            return false;
        }
        if self.snd.una.before(self.rec.high_seq) {
            return false;
        }
        match self.window.ca_state {
            CaState::Cwr => {
                // Held until something above high_seq is acknowledged, so that CWR gets through.
                if self.snd.una != self.rec.high_seq {
                    self.end_cwnd_reduction(cx);
                    self.set_ca_state(CaState::Open, cx);
                }
            }
            CaState::Recovery => {
                if !self.is_sack() {
                    self.reset_reno_sack();
                }
                if self.try_undo_recovery(cx) {
                    return true;
                }
                self.end_cwnd_reduction(cx);
            }
            CaState::Open | CaState::Disorder | CaState::Loss => {}
        }
        false
    }

    /// `tcp_time_to_recover`.
    fn time_to_recover(&self, cx: &Cx<'_>) -> bool {
        self.rec.lost_out > 0 || (!self.uses_rack() && self.fack_wants_recovery(cx.now))
    }

    /// `tcp_identify_packet_loss`.
    fn identify_packet_loss(&mut self, flags: &mut AckFlags, cx: &mut Cx<'_>) {
        if self.rec.packets_out == 0 || !self.uses_rack() {
            return;
        }
        if self.is_sack() {
            let prior_retrans = self.rec.retrans_out;
            if self.rack_mark_lost(cx) {
                flags.set_xmit_timer = false;
            }
            if prior_retrans > self.rec.retrans_out {
                flags.lost_retrans = true;
            }
        } else {
            self.newreno_mark_lost(flags.snd_una_advanced, cx);
        }
    }

    /// Without losses left, back to Open or Disorder; on ECE, into CWR (`tcp_try_to_open`).
    fn try_to_open(&mut self, flags: AckFlags, cx: &mut Cx<'_>) {
        if !self.any_retrans_done() {
            self.rec.retrans_stamp = None;
        }
        if flags.ece {
            self.enter_cwr(cx);
        }
        if self.window.ca_state == CaState::Cwr {
            if self.config.profile.reduction == crate::profile::Reduction::RateHalving {
                self.rate_halve(flags);
            }
        } else {
            self.try_keep_open(cx);
        }
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self, cx: &mut Cx<'_>) {
        let state = if self.left_out() > 0 || self.any_retrans_done() {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.window.ca_state != state {
            self.set_ca_state(state, cx);
            self.rec.high_seq = self.snd.nxt;
        }
    }

    /// Marks one segment lost, or its retransmission lost again (`tcp_mark_skb_lost`).
    pub(super) fn mark_skb_lost(&mut self, id: SkbId, cause: Cause, cx: &mut Cx<'_>) {
        use super::skb::tag;
        let skb = *self.queue.get(id);
        if skb.has(tag::SACKED) {
            return;
        }
        self.rewind_retransmit_hint(skb.seq);
        let pcount = u32::from(skb.pcount);
        if skb.has(tag::LOST) {
            if !skb.has(tag::RETRANS) {
                return;
            }
            self.queue.get_mut(id).sacked &= !tag::RETRANS;
            self.rec.retrans_out -= pcount;
            cx.mib.lost_retransmit += u64::from(pcount);
        } else {
            if skb.has(tag::RETRANS) && cause == Cause::LostRetransmit {
                self.queue.get_mut(id).sacked &= !tag::RETRANS;
                self.rec.retrans_out -= pcount;
                cx.mib.lost_retransmit += u64::from(pcount);
            }
            self.rec.lost_out += pcount;
            self.queue.get_mut(id).sacked |= tag::LOST;
        }
        self.totals.lost = self.totals.lost.wrapping_add(pcount);
        self.notify_loss(id, cx);
        cx.event(self.id, EventKind::MarkLost { seq: skb.seq, end_seq: skb.end_seq, cause });
    }

    /// Notifies the congestion control module that a record was marked lost.
    fn notify_loss(&mut self, id: SkbId, cx: &Cx<'_>) {
        let skb = self.queue.get(id);
        let (tx_in_flight, prior_lost) = skb.flight();
        let packet = LostPacket {
            seq: skb.seq,
            end_seq: skb.end_seq,
            segments: u32::from(skb.pcount),
            tx_in_flight,
            lost: u32::from((self.totals.lost as u16).wrapping_sub(prior_lost)),
            is_app_limited: skb.app_limited,
        };
        let ack = self.ack_view(cx.now);
        self.cc.skb_marked_lost(&mut self.window, &ack, &packet);
    }

    /// Retransmission must resume at or before `seq` (`tcp_verify_retransmit_hint`).
    fn rewind_retransmit_hint(&mut self, seq: Seq) {
        let none_to_resend = self.rec.retrans_out >= self.rec.lost_out;
        match self.rec.retransmit_hint {
            None if none_to_resend => self.rec.retransmit_hint = Some(seq),
            Some(hint) if seq.before(hint) => self.rec.retransmit_hint = Some(seq),
            _ => {}
        }
    }

    /// `tcp_check_sack_reneging`: the cumulative ACK points into data that was SACKed.
    fn check_sack_reneging(&mut self, flags: &mut AckFlags, cx: &mut Cx<'_>) -> bool {
        if !flags.sack_reneging || !flags.snd_una_advanced {
            return false;
        }
        let half_rtt_ms = (self.rtt.srtt_us_8() >> 4).div_ceil(1_000);
        let delay = half_rtt_ms.max(HZ / 100);
        self.reset_xmit_timer(super::timer::Pending::Retransmit, delay, cx.now);
        flags.set_xmit_timer = false;
        true
    }

    /// Changes the state of the congestion state machine (`tcp_set_ca_state`).
    pub(super) fn set_ca_state(&mut self, new: CaState, cx: &mut Cx<'_>) {
        let from = self.window.ca_state;
        let ack = self.ack_view(cx.now);
        self.cc.set_state(&mut self.window, &ack, new);
        self.window.ca_state = new;
        if from != new {
            cx.event(
                self.id,
                EventKind::CaState {
                    from,
                    to: new,
                    snd_cwnd: self.window.snd_cwnd,
                    snd_ssthresh: self.window.snd_ssthresh,
                },
            );
        }
    }

    /// Notifies the congestion control module (`tcp_ca_event`).
    pub(super) fn cwnd_event(&mut self, event: CwndEvent, cx: &Cx<'_>) {
        let ack = self.ack_view(cx.now);
        self.cc.cwnd_event(&mut self.window, &ack, event);
    }

    /// `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        let Self { window, .. } = self;
        if window.in_cwnd_reduction() {
            window.snd_ssthresh
        } else {
            window.snd_ssthresh.max((window.snd_cwnd >> 1) + (window.snd_cwnd >> 2))
        }
    }

    /// Something that was retransmitted is not acknowledged yet (`tcp_any_retrans_done`).
    fn any_retrans_done(&self) -> bool {
        if self.rec.retrans_out > 0 {
            return true;
        }
        self.queue
            .rtx_head()
            .is_some_and(|head| self.queue.get(head).has(super::skb::tag::EVER_RETRANS))
    }

    /// The congestion module needs ECN.
    pub(super) fn cc_needs_ecn(&self) -> bool {
        self.cc.needs_ecn()
    }

    /// The module needs Accurate ECN and sends ECT(1) (`tcp_ca_needs_accecn`).
    pub(super) fn cc_needs_accecn(&self) -> bool {
        self.cc.needs_accecn()
    }
}
