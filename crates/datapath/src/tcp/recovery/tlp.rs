//! Tail loss probes (RFC 8985 section 7).

use super::super::ack_event::AckEvent;
use super::super::nagle::Nonagle;
use super::super::timer::{Pending, TIMEOUT_MIN};
use super::super::{Connection, Cx};
use super::{CaState, Resent};
use crate::trace::{Cause, EventKind};
use crate::units::Instant;

/// Start of the retransmission timeout, before whose end a probe has to be sent (`advancing_rto` of
/// `tcp_schedule_loss_probe`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::tcp) enum Rto {
    /// Now: an ACK has advanced `snd_una`.
    FromNow,
    /// When the oldest segment was sent.
    FromOldest,
}

impl Connection {
    /// Arms the probe timer if a probe makes sense; true if so (`tcp_schedule_loss_probe`).
    pub(in super::super) fn schedule_loss_probe(&mut self, rto: Rto, now: Instant) -> bool {
        let early_retrans = self.config.sysctl.tcp_early_retrans;
        let makes_sense = self.config.profile.tail_loss_probe
            && matches!(early_retrans, 3 | 4)
            && self.rec.packets_out > 0
            && self.is_sack()
            && !self.is_passive_fast_open()
            && matches!(self.window.ca_state, CaState::Open | CaState::Cwr);
        if !makes_sense {
            return false;
        }
        let mut timeout_us = if let Some(srtt_us_8) = self.rtt.srtt_us_8 {
            let two_rtt_us = srtt_us_8.get() >> 2;
            if self.rec.packets_out == 1 {
                // Room for the delayed ACK of a lone segment.
                two_rtt_us + self.rto_min_us()
            } else {
                two_rtt_us + TIMEOUT_MIN * 1_000
            }
        } else {
            self.config.profile.timeout_init_ms * 1_000
        };
        let rto_delta_us = match rto {
            Rto::FromNow => i64::from(self.rto) * 1_000,
            Rto::FromOldest => self.rto_delta_us(now),
        };
        if rto_delta_us > 0 {
            timeout_us = timeout_us.min(u32::try_from(rto_delta_us).unwrap_or(u32::MAX));
        }
        self.reset_paced_timer(Pending::LossProbe, timeout_us.div_ceil(1_000), now);
        true
    }

    /// The probe timer fired (`tcp_send_loss_probe`).
    pub(in super::super) fn send_loss_probe(&mut self, cx: &mut Cx<'_>) {
        if self.rec.tlp_high_seq.is_none() {
            self.rec.tlp_retrans = false;
            if self.send_probe(cx) {
                self.rec.tlp_high_seq = Some(self.snd.nxt);
                cx.mib.loss_probes += 1;
                self.pending = Pending::None;
                cx.event(self.id, EventKind::LossProbe { tlp_high_seq: self.snd.nxt });
            }
        }
        self.rearm_rto(cx.now);
    }

    /// New data if the window allows, else the last segment once more. True if sent.
    fn send_probe(&mut self, cx: &mut Cx<'_>) -> bool {
        if let Some(head) = self.queue.send_head() {
            let skb = self.queue.get(head);
            let mss = self.current_mss(cx.now);
            let one = if skb.len() > mss { skb.seq + mss } else { skb.end_seq };
            if !one.after(self.wnd_end()) {
                let before = self.rec.packets_out;
                self.write_xmit(mss, Nonagle::OFF, Push::Probe, cx);
                return self.rec.packets_out > before;
            }
        }
        let Some(tail) = self.queue.rtx_tail() else { return false };
        if self.skb_still_in_host_queue(tail) {
            return false;
        }
        let mss = self.current_mss(cx.now);
        let skb = *self.queue.get(tail);
        let mut probe = tail;
        if skb.pcount > 1 && skb.len() > (u32::from(skb.pcount) - 1) * mss {
            probe = self.fragment_into(tail, (u32::from(skb.pcount) - 1) * mss, mss);
        }
        if self.send_again(probe, 1, Cause::TailLossProbe, cx) == Resent::Sent {
            self.rec.tlp_retrans = true;
            return true;
        }
        false
    }

    /// An ACK arrived while a probe is out (`tcp_process_tlp_ack`).
    pub(in super::super) fn process_tlp_ack(&mut self, event: &mut AckEvent, cx: &mut Cx<'_>) {
        event.view = None;
        let AckEvent { ack, flags, .. } = *event;
        let Some(high_seq) = self.rec.tlp_high_seq else { return };
        if ack.before(high_seq) {
            return;
        }
        if !self.rec.tlp_retrans {
            // The probe was new data: nothing was lost, or SACK reports it.
            self.rec.tlp_high_seq = None;
        } else if flags.dsack_tlp {
            // The original arrived as well: the probe was needless.
            self.rec.tlp_high_seq = None;
        } else if ack.after(high_seq) {
            // Beyond the probe without a DSACK: it repaired a loss. RFC 8985 section 7.4.2.
            self.init_cwnd_reduction(cx);
            self.set_ca_state(CaState::Cwr, cx);
            self.end_cwnd_reduction(cx);
            self.try_keep_open(cx);
            cx.mib.loss_probe_recovery += 1;
        } else if !flags.not_dup() && !flags.snd_una_advanced && !flags.data_sacked {
            // A pure duplicate ACK: both copies arrived.
            self.rec.tlp_high_seq = None;
        }
    }

    /// Time until the retransmission timeout of the oldest segment, µs; not positive: it is due
    /// (`tcp_rto_delta_us`).
    pub(in super::super) fn rto_delta_us(&self, now: Instant) -> i64 {
        let sent_us = match self.queue.rtx_head() {
            Some(head) => self.queue.get(head).sent_us(),
            None => now.as_micros(),
        };
        sent_us as i64 + i64::from(self.rto) * 1_000 - now.as_micros() as i64
    }

    /// The latest copy of `id` has not left the host yet (`skb_still_in_host_queue`): devices
    /// send in order, so it has left when all memory handed down before it has come back.
    pub(in super::super) fn skb_still_in_host_queue(&self, id: super::SkbId) -> bool {
        let returned = self.snd.handed_down.wrapping_sub(self.snd.wmem_alloc);
        (self.queue.get(id).handed_down.wrapping_sub(returned) as i32) > 0
    }
}

/// Who requests transmission (`push_one`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Push {
    /// As much as permitted.
    All,
    /// One super-packet (`tcp_push_one`).
    One,
    /// One segment whatever the congestion window says: a loss probe.
    Probe,
    /// As little as a small receive window takes, when the persist timer fires.
    Window,
}

impl Push {
    /// The congestion window does not apply.
    pub(in super::super) fn is_forced(self) -> bool {
        matches!(self, Self::Probe | Self::Window)
    }
}
