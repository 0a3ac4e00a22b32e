//! STARTUP doubles the sending rate each round trip until the delivery rate stops growing. DRAIN
//! then sends slower until the resulting queue is drained.

use super::{BBR_SCALE, BBR_UNIT, Bbr, Mode};
use crate::tcp::cc::{Ack, RateSample, Window};

/// The rate grows if it has become at least 5/4 of what it was (`bbr_full_bw_thresh`).
const GROWTH: u32 = BBR_UNIT * 5 / 4;
/// After so many round trips without growth the pipe is full (`bbr_full_bw_cnt`).
const FLAT_ROUNDS: u8 = 3;

impl Bbr {
    /// `bbr_check_full_bw_reached`.
    pub(super) fn check_full_bw_reached(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        let enough = ((u64::from(self.full_bw) * u64::from(GROWTH)) >> BBR_SCALE) as u32;
        if self.max_bw.get() >= enough {
            self.full_bw = self.max_bw.get();
            self.full_bw_cnt = 0;
            return;
        }
        self.full_bw_cnt += 1;
        self.full_bw_reached = self.full_bw_cnt >= FLAT_ROUNDS;
    }

    /// Into DRAIN when the pipe is full, out of it when no more than one BDP is in flight
    /// (`bbr_check_drain`).
    pub(super) fn check_drain(&mut self, window: &mut Window, ack: &Ack) {
        let bw = self.max_bw.get();
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            window.snd_ssthresh = self.inflight(window, ack, bw, BBR_UNIT);
        }
        if self.mode == Mode::Drain
            && self.packets_in_net_at_edt(window, ack, ack.packets_in_flight)
                <= self.inflight(window, ack, bw, BBR_UNIT)
        {
            self.enter_probe_bw(ack);
        }
    }
}
