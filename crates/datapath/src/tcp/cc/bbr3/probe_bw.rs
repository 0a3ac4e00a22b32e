//! "ProbeBW": DOWN drains, CRUISE waits, REFILL fills the pipe for one round trip, UP looks for more.

use super::model::delivery_rate;
use super::{Bbr3, INFINITY, MIN_PIPE_CWND, State};
use crate::tcp::cc::bbr::BBR_UNIT;
use crate::tcp::cc::{Ack, RateSample, Window};

/// Maximum number of round trips between probes, however large the flight.
const MOST_ROUNDS: u32 = 63;
/// Minimum time between probes, µs; up to a second is added at random.
const LEAST_WAIT_US: u64 = 2_000_000;

/// What arriving ACKs give feedback about (`BBR.ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPhase {
    /// Nothing: the rate is not being probed.
    Init,
    /// The pipe is being filled.
    Refilling,
    /// The flight begins to rise.
    ProbeStarting,
    /// The raised flight.
    ProbeFeedback,
    /// The end of the raised flight.
    ProbeStopping,
}

impl Bbr3 {
    /// "ProbeBW Algorithm Details": `StartProbeBW_DOWN`.
    pub(super) fn start_probe_bw_down(&mut self, ack: &Ack) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        // (`PickProbeWait`)
        self.rounds_since_probe_up = self.draw(ack, 2);
        self.bw_probe_wait = LEAST_WAIT_US + u64::from(self.draw(ack, 1_000_000));
        self.cycle_stamp = ack.now_us;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(ack);
        self.state = State::ProbeBwDown;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_probe_bw_refill(&mut self, ack: &Ack) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(ack);
        self.state = State::ProbeBwRefill;
    }

    /// `StartProbeBW_UP`.
    fn start_probe_bw_up(&mut self, window: &Window, ack: &Ack, rs: &RateSample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(ack);
        self.reset_full_bw();
        self.full_bw = delivery_rate(rs);
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope(window);
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(
        &mut self,
        window: &Window,
        ack: &Ack,
        rs: &RateSample,
    ) {
        if !self.full_bw_reached || self.adapt_long_term_model(window, ack, rs) {
            return;
        }
        match self.state {
            State::ProbeBwDown => {
                if !self.probes_if_it_is_time(window, ack) && self.is_time_to_cruise(window, ack) {
                    self.state = State::ProbeBwCruise;
                }
            }
            State::ProbeBwCruise => {
                self.probes_if_it_is_time(window, ack);
            }
            State::ProbeBwRefill => {
                if self.round_start {
                    self.is_bw_probe_sample = true;
                    self.start_probe_bw_up(window, ack, rs);
                }
            }
            State::ProbeBwUp => {
                if self.is_time_to_go_down(window, ack, rs) {
                    self.prev_probe_too_high = false;
                    self.start_probe_bw_down(ack);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// "A Dual-Time-Scale Approach for Coexistence": `IsTimeToProbeBW`.
    fn probes_if_it_is_time(&mut self, window: &Window, ack: &Ack) -> bool {
        let elapsed = ack.now_us > self.cycle_stamp + self.bw_probe_wait;
        // As often as Reno would have filled the pipe anew (`IsRenoCoexistenceProbeTime`).
        let rounds = self.target_inflight(window).min(MOST_ROUNDS);
        if elapsed || self.rounds_since_probe_up >= rounds {
            self.start_probe_bw_refill(ack);
            return true;
        }
        false
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self, window: &Window, ack: &Ack) -> bool {
        ack.packets_in_flight <= self.inflight_with_headroom()
            && ack.packets_in_flight <= self.inflight(window, ack, self.max_bw(), BBR_UNIT)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, window: &Window, ack: &Ack, rs: &RateSample) -> bool {
        if self.prev_probe_too_high && ack.packets_in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if window.is_cwnd_limited && window.snd_cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = delivery_rate(rs);
            return false;
        }
        self.full_bw_now
    }

    /// `InflightWithHeadroom`: 15 % below the bound (`BBR.Headroom`).
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = (u64::from(self.inflight_longterm) * 15 / 100).max(1) as u32;
        self.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE_CWND)
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_inflight_longterm_slope(&mut self, window: &Window) {
        let growth_this_round = 1_u32 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (window.snd_cwnd / growth_this_round).max(1);
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_inflight_longterm_upward(&mut self, window: &Window, rs: &RateSample) {
        if !window.is_cwnd_limited || window.snd_cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked = self.bw_probe_up_acked.saturating_add(rs.acked_sacked);
        if self.bw_probe_up_acked >= self.probe_up_acked_per_inc {
            let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
            self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
            self.inflight_longterm = self.inflight_longterm.saturating_add(delta);
        }
        if self.round_start {
            self.raise_inflight_longterm_slope(window);
        }
    }

    /// `AdaptLongTermModel`. True: it has changed the state.
    fn adapt_long_term_model(&mut self, window: &Window, ack: &Ack, rs: &RateSample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !rs.is_app_limited {
                self.advance_max_bw_filter();
            }
            // "Precautionary Bandwidth Probing: Acceleration"
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_probe_bw_refill(ack);
                return true;
            }
        }
        if !Self::is_inflight_too_high(ack, rs.tx_in_flight, rs.lost, rs.delivered_ce)
            && self.inflight_longterm != INFINITY
        {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(window, rs);
            }
        }
        false
    }
}
