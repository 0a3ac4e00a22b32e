//! "Updating Control Parameters": pacing rate, quantum, window.

use super::{Bbr3, INITIAL_CWND, MIN_PIPE_CWND, STARTUP_PACING_GAIN, State};
use crate::tcp::cc::bbr::{BBR_SCALE, BW_UNIT, bytes_per_second, tso_segs_goal};
use crate::tcp::cc::{Ack, RateSample, Window};
use crate::trace::CaState;

impl Bbr3 {
    /// "Pacing Rate": `InitPacingRate`.
    pub(super) fn init_pacing_rate(&mut self, window: &mut Window, ack: &Ack) {
        self.has_seen_rtt = ack.srtt_us_8.is_some();
        let rtt_us = ack.srtt_us_8.map_or(1_000, |srtt| (srtt.get() >> 3).max(1));
        let bw = u64::from(window.snd_cwnd) * BW_UNIT / u64::from(rtt_us);
        let rate = bytes_per_second(bw, STARTUP_PACING_GAIN, ack.mss);
        window.pacing_rate = rate.min(ack.max_pacing_rate);
    }

    /// The same: `SetPacingRate`.
    pub(super) fn set_pacing_rate(&mut self, window: &mut Window, ack: &Ack) {
        let (pacing_gain, _) = self.state.gains();
        self.set_pacing_rate_with_gain(window, ack, pacing_gain);
    }

    /// The same: `SetPacingRateWithGain`.
    pub(super) fn set_pacing_rate_with_gain(&mut self, window: &mut Window, ack: &Ack, gain: u32) {
        if !self.has_seen_rtt && ack.srtt_us_8.is_some() {
            self.init_pacing_rate(window, ack);
        }
        let rate = bytes_per_second(u64::from(self.bw), gain, ack.mss).min(ack.max_pacing_rate);
        if self.full_bw_reached || rate > window.pacing_rate {
            window.pacing_rate = rate;
        }
    }

    /// "Computing BBR.max_inflight": `BDPMultiple`.
    fn bdp_multiple(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt == super::INFINITY {
            return INITIAL_CWND;
        }
        let bdp = u128::from(bw) * u128::from(self.min_rtt);
        let packets = ((bdp * u128::from(gain)) >> BBR_SCALE).div_ceil(u128::from(BW_UNIT));
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// `BBR.bdp`.
    pub(super) fn bdp(&self) -> u32 {
        self.bdp_multiple(self.bw, super::BBR_UNIT)
    }

    /// "ProbeBW Algorithm Details": `TargetInflight`.
    pub(super) fn target_inflight(&self, window: &Window) -> u32 {
        self.bdp().min(window.snd_cwnd)
    }

    /// "Computing BBR.max_inflight": `QuantizationBudget`, with "TCP Offload Budget".
    fn quantization_budget(&self, window: &Window, ack: &Ack, inflight_cap: u32) -> u32 {
        let quantum = tso_segs_goal(window, ack).max(2);
        let cap = inflight_cap.max(3 * quantum).max(MIN_PIPE_CWND);
        if self.state == State::ProbeBwUp { cap.saturating_add(2) } else { cap }
    }

    /// The same: `Inflight`.
    pub(super) fn inflight(&self, window: &Window, ack: &Ack, bw: u32, gain: u32) -> u32 {
        self.quantization_budget(window, ack, self.bdp_multiple(bw, gain))
    }

    /// The same: `UpdateMaxInflight`.
    fn max_inflight(&self, window: &Window, ack: &Ack) -> u32 {
        let (_, cwnd_gain) = self.state.gains();
        let cap =
            self.bdp_multiple(self.bw, cwnd_gain).saturating_add(self.extra_acked_filter.get());
        self.quantization_budget(window, ack, cap)
    }

    /// "Modulating cwnd in Loss Recovery": `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self, window: &Window) {
        let in_recovery = self.prev_ca_state >= CaState::Recovery;
        self.prior_cwnd = if in_recovery || self.state == State::ProbeRtt {
            self.prior_cwnd.max(window.snd_cwnd)
        } else {
            window.snd_cwnd
        };
    }

    /// "Modulating cwnd in ProbeRTT": `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp_multiple(self.bw, super::PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    /// "cwnd Adjustment Mechanism": `SetCwnd`.
    pub(super) fn set_cwnd(&mut self, window: &mut Window, ack: &Ack, rs: &RateSample) {
        // A recovery has ended: `RestoreCwnd`.
        if self.prev_ca_state >= CaState::Recovery && window.ca_state < CaState::Recovery {
            window.snd_cwnd = window.snd_cwnd.max(self.prior_cwnd);
        }
        self.prev_ca_state = window.ca_state;
        if window.ca_state < CaState::Recovery && self.loss_round_start {
            self.undo_saved = false;
        }
        let max_inflight = self.max_inflight(window, ack);
        let mut cwnd = window.snd_cwnd;
        if self.full_bw_reached {
            cwnd = cwnd.saturating_add(rs.acked_sacked).min(max_inflight);
        } else if cwnd < max_inflight || ack.delivered < INITIAL_CWND {
            cwnd = cwnd.saturating_add(rs.acked_sacked);
        }
        cwnd = cwnd.max(MIN_PIPE_CWND);
        if self.state == State::ProbeRtt {
            cwnd = cwnd.min(self.probe_rtt_cwnd());
        }
        window.snd_cwnd = cwnd.min(self.model_cap()).min(window.snd_cwnd_clamp);
    }

    /// "Bounding cwnd Based on Recent Congestion": `BoundCwndForModel`.
    fn model_cap(&self) -> u32 {
        let cap = match self.state {
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.inflight_longterm,
            State::Startup | State::Drain => super::INFINITY,
        };
        cap.min(self.inflight_shortterm).max(MIN_PIPE_CWND)
    }
}
