//! How the window shrinks: proportional rate reduction (RFC 9937, formerly RFC 6937), or rate
//! halving in kernels before 3.2.

use super::super::ack_event::AckFlags;
use super::super::cc::{CongestionControl, CwndEvent, INFINITE_SSTHRESH};
use super::super::{Connection, Cx};
use super::CaState;
use crate::profile::Reduction;

impl Connection {
    /// A Recovery or CWR episode begins (`tcp_init_cwnd_reduction`).
    pub(super) fn init_cwnd_reduction(&mut self, cx: &mut Cx<'_>) {
        self.rec.high_seq = self.snd.nxt;
        self.rec.tlp_high_seq = None;
        self.window.snd_cwnd_cnt = 0;
        self.window.prior_cwnd = self.window.snd_cwnd;
        self.rec.prr_delivered = 0;
        self.rec.prr_out = 0;
        self.reduce_ssthresh(cx);
        self.ecn_queue_cwr();
    }

    /// One ACK's worth of reduction (`tcp_cwnd_reduction`, RFC 9937 section 6.2).
    pub(in super::super) fn cwnd_reduction(
        &mut self,
        newly_delivered: u32,
        newly_lost: u32,
        flags: AckFlags,
    ) {
        if self.config.profile.reduction == Reduction::RateHalving {
            self.rate_halve(flags);
            return;
        }
        // An earlier reduction may have left a window of zero, from which this one began. Linux warns,
        // and the next timeout recovers.
        if newly_delivered == 0 || self.window.prior_cwnd == 0 {
            return;
        }
        let in_flight = self.packets_in_flight();
        let room = self.window.snd_ssthresh as i32 - in_flight as i32;
        self.rec.prr_delivered += newly_delivered;
        let prr_out = self.rec.prr_out as i32;
        let mut send = if room < 0 {
            let share = u64::from(self.window.snd_ssthresh) * u64::from(self.rec.prr_delivered);
            share.div_ceil(u64::from(self.window.prior_cwnd)) as i32 - prr_out
        } else {
            // RFC 9937: the slow-start bound only while nothing more is being lost.
            let conserving = (self.rec.prr_delivered as i32 - prr_out).max(newly_delivered as i32);
            let safe = flags.snd_una_advanced && newly_lost == 0;
            (conserving + i32::from(safe)).min(room)
        };
        // The first retransmission always goes out.
        send = send.max(i32::from(prr_out == 0));
        self.window.snd_cwnd = in_flight.saturating_add_signed(send);
    }

    /// One segment less for every second ACK, and never more than the flight plus one
    /// (`tcp_cwnd_down` of 2.6.22).
    pub(in super::super) fn rate_halve(&mut self, flags: AckFlags) {
        let is_signal = flags.forward_progress()
            || flags.snd_una_advanced
            || (!self.is_sack() && !flags.not_dup());
        if !is_signal {
            return;
        }
        let count = self.window.snd_cwnd_cnt + 1;
        self.window.snd_cwnd_cnt = count & 1;
        if count >> 1 > 0 && self.window.snd_cwnd > self.window.snd_ssthresh {
            self.window.snd_cwnd -= count >> 1;
        }
        self.window.snd_cwnd = self.window.snd_cwnd.min(self.packets_in_flight() + 1);
    }

    /// The episode is over: the window becomes the threshold (`tcp_end_cwnd_reduction`).
    pub(super) fn end_cwnd_reduction(&mut self, cx: &mut Cx<'_>) {
        if self.cc.has_cong_control() {
            return;
        }
        if self.config.profile.reduction == Reduction::RateHalving {
            self.window.snd_cwnd = self.window.snd_cwnd.min(self.window.snd_ssthresh);
        } else if self.window.snd_ssthresh < INFINITE_SSTHRESH
            && (self.window.ca_state == CaState::Cwr || self.rec.undo_marker.is_some())
        {
            self.window.snd_cwnd = self.window.snd_ssthresh;
        }
        self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        let ack = self.ack_view(cx.now);
        self.cc.cwnd_event(&mut self.window, &ack, CwndEvent::CompleteCwr);
    }
}
