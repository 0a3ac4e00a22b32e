//! BBR version 3, by draft-ietf-ccwg-bbr (the working group's text of 3 August 2026, after -06).
//!
//! What is new against version 1: losses count. More than 2 % of them in a round trip of probing set an
//! upper bound on what is in flight (`inflight_longterm`); losses at other times lower the rate
//! and the flight for the rest of the cycle (`bw_shortterm`, `inflight_shortterm`). Probing is rarer,
//! about as often as Reno would lose something, and leaves room for other flows.
//!
//! Section numbers are replaced by the draft's headings, which are more stable; each is quoted above
//! the code that implements it. Names are the draft's. docs/bbr.md lists the departures.
//!
//! | file | the draft's sections |
//! |---|---|
//! | this one | Algorithm Organization, Restarting From Idle |
//! | [`model`] | round trips, `max_bw`, latest delivery signals, `extra_acked` |
//! | [`startup`] | Startup, Drain |
//! | [`probe_bw`] | ProbeBW: DOWN, CRUISE, REFILL, UP |
//! | [`probe_rtt`] | ProbeRTT, `min_rtt` |
//! | [`loss`] | Updating the Model Upon Packet Loss, and upon a Spurious Loss Recovery |
//! | [`control`] | Updating Control Parameters: pacing rate, quantum, window |

mod control;
mod loss;
mod model;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

use super::bbr::{BBR_UNIT, BW_SCALE, BbrInfo, WindowedMax};
use super::{
    Ack, CcInfo, CongestionControl, CwndEvent, INFINITE_SSTHRESH, LostPacket, RateSample, Window,
};
use crate::packet::seq::Seq;
use crate::trace::CaState;
use probe_bw::AckPhase;

/// No bound: the draft's Infinity.
const INFINITY: u32 = u32::MAX;
/// 2.77 (`BBR.StartupPacingGain`). Gains are in 1/256.
const STARTUP_PACING_GAIN: u32 = BBR_UNIT * 277 / 100;
/// 0.5 (`BBR.DrainPacingGain`).
const DRAIN_PACING_GAIN: u32 = BBR_UNIT / 2;
/// 2 (`BBR.DefaultCwndGain`).
const DEFAULT_CWND_GAIN: u32 = BBR_UNIT * 2;
/// 0.5 (`BBR.ProbeRTTCwndGain`).
const PROBE_RTT_CWND_GAIN: u32 = BBR_UNIT / 2;
/// Packets (`BBR.MinPipeCwnd`).
const MIN_PIPE_CWND: u32 = 4;
/// `C.InitialCwnd` (RFC 6928), packets.
const INITIAL_CWND: u32 = 10;

/// `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl State {
    /// `IsInAProbeBWState`.
    fn is_probe_bw(self) -> bool {
        matches!(
            self,
            Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp
        )
    }

    /// Pacing gain and window gain ("Summary of Control Behavior in the State Machine").
    fn gains(self) -> (u32, u32) {
        match self {
            Self::Startup => (STARTUP_PACING_GAIN, DEFAULT_CWND_GAIN),
            Self::Drain => (DRAIN_PACING_GAIN, DEFAULT_CWND_GAIN),
            Self::ProbeBwDown => (BBR_UNIT * 90 / 100, DEFAULT_CWND_GAIN),
            Self::ProbeBwCruise | Self::ProbeBwRefill => (BBR_UNIT, DEFAULT_CWND_GAIN),
            Self::ProbeBwUp => (BBR_UNIT * 5 / 4, BBR_UNIT * 9 / 4),
            Self::ProbeRtt => (BBR_UNIT, PROBE_RTT_CWND_GAIN),
        }
    }
}

/// The draft's variables `BBR.*`. Rates are in packets per µs times 2^24, volumes in packets, times in
/// µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bbr3 {
    state: State,
    // Round trips.
    round_count: u32,
    next_round_delivered: u32,
    round_start: bool,
    rounds_since_probe_up: u32,
    // The rate: the highest of the previous cycle and of this one, and what losses leave of it.
    max_bw_filter: [u32; 2],
    bw_shortterm: u32,
    bw: u32,
    // The volume.
    inflight_longterm: u32,
    inflight_shortterm: u32,
    // The latest round trip of deliveries.
    loss_round_delivered: u32,
    loss_round_start: bool,
    is_loss_in_round: bool,
    loss_ranges_in_round: u32,
    last_lost_end: Seq,
    bw_latest: u32,
    inflight_latest: u32,
    // Is the pipe full?
    full_bw: u32,
    full_bw_count: u8,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u32,
    // ProbeBW.
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    cycle_stamp: u64,
    bw_probe_wait: u64,
    // ProbeRTT and the RTT.
    min_rtt: u32,
    min_rtt_stamp: u64,
    probe_rtt_min_delay: u32,
    probe_rtt_min_stamp: u64,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<u64>,
    probe_rtt_round_done: bool,
    // Aggregation.
    extra_acked_interval_start: u64,
    extra_acked_delivered: u32,
    extra_acked_filter: WindowedMax,
    // Undo.
    undo_saved: bool,
    undo_state: Option<State>,
    undo_bw_shortterm: u32,
    undo_inflight_shortterm: u32,
    undo_inflight_longterm: u32,
    // The rest.
    idle_restart: bool,
    has_seen_rtt: bool,
    prior_cwnd: u32,
    prev_ca_state: CaState,
    draws: u32,
}

impl Default for Bbr3 {
    fn default() -> Self {
        Self {
            state: State::Startup,
            round_count: 0,
            next_round_delivered: 0,
            round_start: false,
            rounds_since_probe_up: 0,
            max_bw_filter: [0; 2],
            bw_shortterm: INFINITY,
            bw: 0,
            inflight_longterm: INFINITY,
            inflight_shortterm: INFINITY,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            loss_ranges_in_round: 0,
            last_lost_end: Seq(0),
            bw_latest: 0,
            inflight_latest: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            cycle_stamp: 0,
            bw_probe_wait: 0,
            min_rtt: INFINITY,
            min_rtt_stamp: 0,
            probe_rtt_min_delay: INFINITY,
            probe_rtt_min_stamp: 0,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            extra_acked_interval_start: 0,
            extra_acked_delivered: 0,
            extra_acked_filter: WindowedMax::default(),
            undo_saved: false,
            undo_state: None,
            undo_bw_shortterm: 0,
            undo_inflight_shortterm: 0,
            undo_inflight_longterm: 0,
            idle_restart: false,
            has_seen_rtt: false,
            prior_cwnd: 0,
            prev_ca_state: CaState::Open,
            draws: 0,
        }
    }
}

impl Bbr3 {
    /// "Per-ACK Steps": `UpdateModelAndState`, in the draft's order.
    fn update_model_and_state(&mut self, window: &mut Window, ack: &Ack, rs: &RateSample) {
        self.update_latest_delivery_signals(ack, rs);
        self.update_congestion_signals(window, ack, rs);
        self.update_ack_aggregation(window, ack, rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(window, ack, rs);
        self.check_drain_done(window, ack);
        self.update_probe_bw_cycle_phase(window, ack, rs);
        self.update_min_rtt(ack, rs);
        self.check_probe_rtt(window, ack, rs);
        self.advance_latest_delivery_signals(rs);
        self.bw = self.max_bw().min(self.bw_shortterm);
    }

    /// "Restarting From Idle": `HandleRestartFromIdle`. Nothing is in flight.
    fn handle_restart_from_idle(&mut self, window: &mut Window, ack: &Ack) {
        if window.app_limited.is_none() {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_interval_start = ack.now_us;
        if self.state.is_probe_bw() {
            self.set_pacing_rate_with_gain(window, ack, BBR_UNIT);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(window, ack);
        }
    }

    /// A pseudo-random number below `bound`, from the initial sequence number and the number of earlier draws.
    fn draw(&mut self, ack: &Ack, bound: u32) -> u32 {
        self.draws = self.draws.wrapping_add(1);
        super::bbr::draw_below(ack.iss, self.draws, bound)
    }
}

impl CongestionControl for Bbr3 {
    /// "Initialization": `OnInit`.
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        *self = Self {
            min_rtt: ack.srtt_us_8.map_or(INFINITY, |srtt| (srtt.get() >> 3).max(1)),
            min_rtt_stamp: ack.now_us,
            probe_rtt_min_stamp: ack.now_us,
            extra_acked_interval_start: ack.now_us,
            next_round_delivered: ack.delivered,
            loss_round_delivered: ack.delivered.wrapping_add(1),
            ..Self::default()
        };
        window.snd_ssthresh = INFINITE_SSTHRESH;
        window.needs_pacing = true;
        self.init_pacing_rate(window, ack);
    }

    /// "Modulating cwnd in Loss Recovery": `OnEnterFastRecovery`, `OnEnterRTO`.
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        self.save_cwnd(window);
        self.save_state_upon_loss();
        window.snd_ssthresh
    }

    fn cong_avoid(&mut self, _window: &mut Window, _ack: &Ack, _acked: u32) {
        unreachable!("BBR has a cong_control");
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    /// "Per-ACK Steps": `UpdateOnACK`.
    fn cong_control(&mut self, window: &mut Window, ack: &Ack, rs: &RateSample) {
        if rs.delivered_ce > 0 {
            // "ECN": CE marks are congestion.
            self.note_loss(window, ack);
        }
        self.update_model_and_state(window, ack, rs);
        self.set_pacing_rate(window, ack);
        self.set_cwnd(window, ack, rs);
    }

    /// "Send Quantum": 1 ms at the pacing rate, but two segments at least.
    fn min_tso_segs(&self, _window: &Window) -> Option<u32> {
        Some(2)
    }

    fn sndbuf_expand(&self) -> u32 {
        3
    }

    /// "Per-Loss Steps".
    fn skb_marked_lost(&mut self, window: &mut Window, ack: &Ack, packet: &LostPacket) {
        self.handle_lost_packet(window, ack, packet);
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        if event == CwndEvent::TxStart {
            self.handle_restart_from_idle(window, ack);
        }
    }

    /// A timeout counts as a recovery that the next ACK may end.
    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, new: CaState) {
        if new == CaState::Loss {
            self.prev_ca_state = CaState::Loss;
        }
    }

    /// "Handling a Spurious Loss Recovery".
    fn undo_cwnd(&mut self, window: &Window, ack: &Ack) -> u32 {
        self.handle_spurious_loss_detection(ack);
        window.snd_cwnd.max(self.prior_cwnd)
    }

    /// As version 1 reports it; the draft does not define this.
    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        let (pacing_gain, cwnd_gain) = self.state.gains();
        let bw = u64::from(self.bw).wrapping_mul(u64::from(ack.mss)).wrapping_mul(1_000_000);
        let bw = bw >> BW_SCALE;
        Some(CcInfo::Bbr(BbrInfo { bw, min_rtt_us: self.min_rtt, pacing_gain, cwnd_gain }))
    }
}
