//! "Startup" and "Drain".

use super::model::delivery_rate;
use super::{Bbr3, State};
use crate::tcp::cc::bbr::BBR_UNIT;
use crate::tcp::cc::{Ack, RateSample, Window};
use crate::trace::CaState;

/// Discontiguous ranges lost in a round trip before Startup ends for it (`BBRStartupFullLossCnt`).
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// Round trips that Drain lasts at most.
const DRAIN_ROUNDS: u32 = 3;

impl Bbr3 {
    /// "Exiting Acceleration Based on Bandwidth Plateau": `ResetFullBW`.
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// The same: `CheckFullBWReached`.
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        let rate = delivery_rate(rs);
        if u64::from(rate) * 4 >= u64::from(self.full_bw) * 5 {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// "Startup Dynamics": `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, window: &Window, ack: &Ack, rs: &RateSample) {
        self.check_startup_high_loss(window, ack, rs);
        if self.loss_round_start {
            self.loss_ranges_in_round = 0;
        }
        if self.state == State::Startup && self.full_bw_reached {
            self.enter_drain();
        }
    }

    /// "Exiting Startup Based on Packet Loss": a whole round trip of fast recovery with more than
    /// 2 % lost in at least six places; without SACK, any loss in fast recovery.
    fn check_startup_high_loss(&mut self, window: &Window, ack: &Ack, rs: &RateSample) {
        if self.state != State::Startup || window.ca_state != CaState::Recovery {
            return;
        }
        let enough = if ack.has_sack {
            self.loss_round_start && self.loss_ranges_in_round >= STARTUP_FULL_LOSS_COUNT
        } else {
            rs.losses > 0
        };
        if enough && Self::is_inflight_too_high(ack, rs.tx_in_flight, rs.lost, rs.delivered_ce) {
            self.undo_state = Some(State::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp().max(self.inflight_latest);
        }
    }

    /// "Drain": `EnterDrain`.
    fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.round_count;
    }

    /// The same: `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, window: &Window, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let rounds = self.round_count.wrapping_sub(self.drain_start_round);
        if ack.packets_in_flight <= self.inflight(window, ack, self.bw, BBR_UNIT)
            || rounds > DRAIN_ROUNDS
        {
            self.start_probe_bw_down(ack);
        }
    }
}
