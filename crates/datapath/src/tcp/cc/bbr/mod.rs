//! BBR version 1, as Linux does it (`tcp_bbr.c`; Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! It keeps a model of the path, the highest delivery rate of the last ten round trips and the
//! lowest RTT of the last ten seconds, and sends at that rate with about twice their product in
//! flight. Losses are no signal, but for two things: what is lost leaves the window for a round trip,
//! and losses at a steady rate betray a policer.
//!
//! | file | what it holds |
//! |---|---|
//! | this one | the state, the order of an ACK's steps, gains, what TCP asks |
//! | `bandwidth` | round trips, and the highest delivery rate of ten of them |
//! | `long_term` | the rate of a policer, from the losses of 4 to 16 round trips |
//! | `aggregation` | how many packets ACKs bring beyond what the rate explains |
//! | `startup` | STARTUP and DRAIN: is the pipe full, and is the queue gone? |
//! | `probe_bw` | PROBE_BW: eight phases, one faster, one slower |
//! | `probe_rtt` | the lowest RTT, and PROBE_RTT, which empties the pipe to see it |
//! | `pacing` | the pacing rate, and the size of super-packets |
//! | `cwnd` | the window: BDP, quanta, recovery |

mod aggregation;
mod bandwidth;
mod cwnd;
mod info;
mod long_term;
mod pacing;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

pub use info::BbrInfo;

// What version 3 shares.
pub(super) use bandwidth::WindowedMax;
pub(super) use pacing::{bytes_per_second, tso_segs_goal};
pub(super) use probe_bw::{draw_below, drawn};

use super::{Ack, CcInfo, CongestionControl, CwndEvent, INFINITE_SSTHRESH, RateSample, Window};
use crate::trace::CaState;
use aggregation::Aggregation;
use long_term::LongTerm;

/// Rates are in packets per µs times 2^24 (`BW_UNIT`): one unit is about 715 bit/s with packets of
/// 1,500 bytes.
pub(super) const BW_SCALE: u32 = 24;
/// See [`BW_SCALE`].
pub(super) const BW_UNIT: u64 = 1 << BW_SCALE;
/// Gains and other fractions are in 1/256 (`BBR_UNIT`).
pub(super) const BBR_SCALE: u32 = 8;
/// See [`BBR_SCALE`].
pub(super) const BBR_UNIT: u32 = 1 << BBR_SCALE;
/// 2/ln 2: the smallest gain that doubles the rate in each round trip (`bbr_high_gain`).
const HIGH_GAIN: u32 = BBR_UNIT * 2885 / 1000 + 1;
/// ln 2 / 2: drains in one round trip what STARTUP has queued (`bbr_drain_gain`).
const DRAIN_GAIN: u32 = BBR_UNIT * 1000 / 2885;
/// Two BDP, so that delayed and stretched ACKs do not stall the flow (`bbr_cwnd_gain`).
const CWND_GAIN: u32 = BBR_UNIT * 2;

/// The phases (`enum bbr_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate each round trip until the delivery rate stops growing.
    Startup,
    /// Empties the queue that this has made.
    Drain,
    /// Cycles around the estimated rate.
    ProbeBw,
    /// Keeps the pipe nearly empty, to see the RTT without a queue.
    ProbeRtt,
}

/// Parameters of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// Fixed result of every draw of PROBE_BW's first phase, 0 to 6, to replay a recorded transfer;
    /// `None`: drawn from the connection's random stream.
    pub cycle_draw: Option<u8>,
}

/// BBR's state on one connection (`struct bbr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bbr {
    params: Params,
    mode: Mode,
    /// Lowest RTT of the window, µs; `u32::MAX` = none yet.
    min_rtt_us: u32,
    /// When it was measured, jiffies.
    min_rtt_stamp: u32,
    /// When PROBE_RTT may end, jiffies; none until the flight is small.
    probe_rtt_done_stamp: Option<u32>,
    probe_rtt_round_done: bool,
    /// Highest delivery rate of recent round trips.
    max_bw: WindowedMax,
    /// Round trips so far.
    rtt_cnt: u32,
    /// The next one begins when this was delivered at sending.
    next_rtt_delivered: u32,
    /// This ACK begins a round trip.
    round_start: bool,
    /// The congestion machine's state at the latest ACK.
    prev_ca_state: CaState,
    /// The first round trip of recovery: the window is what is in flight.
    packet_conservation: bool,
    /// The flow restarts after being idle.
    idle_restart: bool,
    /// There was an RTT sample to begin the pacing rate with.
    has_seen_rtt: bool,
    pacing_gain: u32,
    cwnd_gain: u32,
    /// The pipe was full once.
    full_bw_reached: bool,
    /// Rounds in which the rate did not grow by a quarter over `full_bw`.
    full_bw_cnt: u8,
    full_bw: u32,
    /// Where in the cycle of gains.
    cycle_idx: u8,
    /// When that phase began, µs.
    cycle_us: u64,
    /// Window before recovery or PROBE_RTT.
    prior_cwnd: u32,
    /// Phases drawn so far.
    draws: u32,
    long_term: LongTerm,
    aggregation: Aggregation,
}

impl Bbr {
    /// A fresh module.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            mode: Mode::Startup,
            min_rtt_us: u32::MAX,
            min_rtt_stamp: 0,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            max_bw: WindowedMax::default(),
            rtt_cnt: 0,
            next_rtt_delivered: 0,
            round_start: false,
            prev_ca_state: CaState::Open,
            packet_conservation: false,
            idle_restart: false,
            has_seen_rtt: false,
            pacing_gain: 0,
            cwnd_gain: 0,
            full_bw_reached: false,
            full_bw_cnt: 0,
            full_bw: 0,
            cycle_idx: 0,
            cycle_us: 0,
            prior_cwnd: 0,
            draws: 0,
            long_term: LongTerm::default(),
            aggregation: Aggregation::default(),
        }
    }

    /// The estimated bandwidth, or a policer's rate if one was detected (`bbr_bw`).
    fn bw(&self) -> u32 {
        self.long_term.rate_in_use().unwrap_or(self.max_bw.get())
    }

    /// Updates the model of the path (`bbr_update_model`). The order matters: each step uses
    /// the results of the earlier ones.
    fn update_model(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        self.update_bw(ack, sample);
        self.update_ack_aggregation(window, ack, sample);
        self.update_cycle_phase(window, ack, sample);
        self.check_full_bw_reached(sample);
        self.check_drain(window, ack);
        self.update_min_rtt(window, ack, sample);
        self.update_gains();
    }

    /// `bbr_update_gains`.
    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.rate_in_use().is_some() => (BBR_UNIT, CWND_GAIN),
            Mode::ProbeBw => (probe_bw::GAINS[usize::from(self.cycle_idx)], CWND_GAIN),
            Mode::ProbeRtt => (BBR_UNIT, BBR_UNIT),
        };
    }

    /// `bbr_reset_mode`.
    fn reset_mode(&mut self, ack: &Ack) {
        if self.full_bw_reached {
            self.enter_probe_bw(ack);
        } else {
            self.mode = Mode::Startup;
        }
    }
}

impl CongestionControl for Bbr {
    /// `bbr_init`.
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        *self = Self::new(self.params);
        self.next_rtt_delivered = ack.delivered;
        self.min_rtt_us = ack.min_rtt_us;
        self.min_rtt_stamp = ack.jiffies;
        self.long_term.reset(ack);
        self.aggregation.restart(ack.now_us);
        window.snd_ssthresh = INFINITE_SSTHRESH;
        window.needs_pacing = true;
        self.init_pacing_rate_from_rtt(window, ack);
    }

    /// Saves the window, to restore it after recovery; BBR does not use the threshold
    /// (`bbr_ssthresh`).
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        self.save_cwnd(window);
        window.snd_ssthresh
    }

    fn cong_avoid(&mut self, _window: &mut Window, _ack: &Ack, _acked: u32) {
        unreachable!("BBR has a cong_control");
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    /// `bbr_main`.
    fn cong_control(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        self.update_model(window, ack, sample);
        let bw = self.bw();
        self.set_pacing_rate(window, ack, bw, self.pacing_gain);
        self.set_cwnd(window, ack, sample, bw, self.cwnd_gain);
    }

    fn min_tso_segs(&self, window: &Window) -> Option<u32> {
        Some(pacing::min_tso_segs(window))
    }

    /// Three windows, since packets of a lossy flight stay queued for longer (`bbr_sndbuf_expand`).
    fn sndbuf_expand(&self) -> u32 {
        3
    }

    /// A timeout ends the round trip and restarts the search for the full bandwidth; a policer may be the cause
    /// (`bbr_set_state`).
    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Loss {
            self.prev_ca_state = CaState::Loss;
            self.full_bw = 0;
            self.round_start = true;
            self.sample_long_term(ack, &RateSample { losses: 1, ..RateSample::default() });
        }
    }

    /// After idle the rate is the estimated one, without a phase of probing in it
    /// (`bbr_cwnd_event`).
    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        if event != CwndEvent::TxStart || window.app_limited.is_none() {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(ack.now_us);
        match self.mode {
            Mode::ProbeBw => self.set_pacing_rate(window, ack, self.bw(), BBR_UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(window, ack),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// The loss was spurious: the search for the full bandwidth restarts, and the detection of a policer is
    /// discarded (`bbr_undo_cwnd`).
    fn undo_cwnd(&mut self, window: &Window, ack: &Ack) -> u32 {
        self.full_bw = 0;
        self.full_bw_cnt = 0;
        self.long_term.reset(ack);
        window.snd_cwnd
    }

    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        Some(CcInfo::Bbr(self.info(ack)))
    }
}
