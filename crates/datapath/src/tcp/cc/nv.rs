//! TCP-NV, New Vegas (L. Brakmo, "TCP-NV: Congestion Avoidance for Data Centers", Linux Plumbers 2010), as
//! `tcp_nv.c`: Vegas by rates instead of single RTT, made for networks whose hosts coalesce packets and interrupts.

use super::bbr::drawn;
use super::{
    Ack, AckSample, CaState, CcInfo, CongestionControl, INFINITE_SSTHRESH, VegasInfo, Window,
};
use crate::packet::seq::Seq;
use crate::tcp::timer::HZ;

/// Parameters of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// Fixed result of every draw of the time until the minimum RTT is reset, to replay a recorded
    /// transfer; `None`: drawn from the connection's random stream.
    pub draw: Option<u8>,
}

/// NV's state (`struct tcpnv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nv {
    params: Params,
    /// When the minimum RTT is reset, jiffies.
    min_rtt_ends: u32,
    /// Growth is this much slower (below 0) or faster than Reno's, as a shift.
    growth_shift: i32,
    /// There is no congestion (`nv_allow_cwnd_growth`).
    may_grow: bool,
    /// A reduction is under way (`nv_reset`).
    restarts: bool,
    /// ACKs since the latest decision, up to 255 (`nv_eval_call_cnt`).
    calls: u32,
    /// Window that keeps super-packets flowing, segments.
    min_cwnd: u32,
    /// Round trips since the latest decision.
    rounds: u32,
    /// RTT, µs: smoothed, lowest, and lowest since a while.
    last_rtt: u32,
    min_rtt: u32,
    min_rtt_new: u32,
    /// Highest rate since the latest decision, 100 bit/s.
    max_rate: u32,
    /// What is acknowledged beyond this begins a round trip.
    round_start: Seq,
    last_snd_una: Seq,
    /// Round trips without congestion.
    calm: u32,
    draws: u32,
}

/// `nv_pad`: segments that may be in the queue.
const PAD: u32 = 10;
/// `nv_pad_buffer`: the window grows if it is this far below the pad.
const PAD_BUFFER: u32 = 2;
/// `nv_reset_period`: approximate time after which the minimum RTT is reset, s.
const RESET_PERIOD: u32 = 5;
/// `nv_min_cwnd`: NV does not shrink the window further, segments.
const FLOOR: u32 = 2;
/// Initial estimate of the window that super-packets need, segments (`NV_MIN_CWND`).
const MIN_CWND: u32 = 4;
/// `nv_cong_dec_mult`: what congestion takes of the excess, in 1/128.
const DECREASE: u32 = 30 * 128 / 100;
/// `nv_ssthresh_factor`: the threshold is this much of the right window, in eighths.
const SSTHRESH_FACTOR: u32 = 8;
/// `nv_rtt_factor`: weight of a new RTT, in 1/256.
const RTT_FACTOR: u64 = 128;
/// `nv_loss_dec_factor`: what a loss leaves, in 1/1024.
const LOSS_FACTOR: u32 = 819;
/// `nv_cwnd_growth_rate_neg`: round trips without congestion after which growth accelerates again.
const CALM: u32 = 8;
/// `nv_dec_eval_min_calls`, `nv_inc_eval_min_calls`, `nv_ssthresh_eval_min_calls`: ACKs that a decision needs.
const DECREASE_CALLS: u32 = 60;
const INCREASE_CALLS: u32 = 20;
const SSTHRESH_CALLS: u32 = 30;
/// `nv_stop_rtt_cnt`: round trips above the right window until growth stops.
const STOP_ROUNDS: u32 = 10;
/// `nv_rtt_min_cnt`: round trips that a decision needs.
const MIN_ROUNDS: u32 = 2;
/// The window that keeps super-packets going is found in steps of 2 up to this (`NV_TSO_CWND_BOUND`).
const TSO_BOUND: u32 = 80;
const MIN_CWND_GROW: u32 = 2;
/// Slowest growth, as a shift.
const SLOWEST: i32 = -8;
/// Bytes a µs are so many 100 bit/s.
const RATE_UNIT: u64 = 80_000;

impl Nv {
    /// A fresh module.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            min_rtt_ends: 0,
            growth_shift: 0,
            may_grow: true,
            restarts: false,
            calls: 0,
            min_cwnd: MIN_CWND,
            rounds: 0,
            last_rtt: 0,
            min_rtt: u32::MAX,
            min_rtt_new: u32::MAX,
            max_rate: 0,
            round_start: Seq(0),
            last_snd_una: Seq(0),
            calm: 0,
            draws: 0,
        }
    }

    /// Restarts the measurements (`tcpnv_reset`).
    fn restart_measurement(&mut self, ack: &Ack) {
        self.restarts = false;
        self.calm = 0;
        self.rounds = 0;
        self.last_rtt = 0;
        self.max_rate = 0;
        self.round_start = ack.snd_una;
        self.calls = 0;
        self.last_snd_una = ack.snd_una;
    }

    /// A sample of the RTT: its moving average, µs.
    fn average_rtt(&mut self, rtt_us: u32) -> u32 {
        let average = if self.last_rtt > 0 {
            let old = u64::from(self.last_rtt) * (256 - RTT_FACTOR);
            ((u64::from(rtt_us) * RTT_FACTOR + old) >> 8) as u32
        } else {
            self.min_rtt = rtt_us.wrapping_shl(1);
            rtt_us
        };
        self.last_rtt = average;
        average
    }

    /// The minimum RTT of the latest periods.
    fn note_min_rtt(&mut self, average: u32, ack: &Ack) {
        self.min_rtt = self.min_rtt.min(average);
        self.min_rtt_new = self.min_rtt_new.min(average);
        if (ack.jiffies.wrapping_sub(self.min_rtt_ends) as i32) < 0 {
            return;
        }
        self.draws = self.draws.wrapping_add(1);
        let draw = match self.params.draw {
            Some(draw) => u32::from(draw),
            None => drawn(ack.iss, self.draws) >> 24,
        };
        self.min_rtt = self.min_rtt_new;
        self.min_rtt_new = u32::MAX;
        let period = (RESET_PERIOD * (384 + draw) * HZ) >> 9;
        self.min_rtt_ends = ack.jiffies.wrapping_add(period);
        self.min_cwnd = (self.min_cwnd / 2).max(MIN_CWND);
    }

    /// A round trip is over: is the window above what the rate needs? (The second half of
    /// `tcpnv_acked`.)
    fn end_round(&mut self, window: &mut Window, ack: &Ack, acked_bytes: u32) {
        self.round_start = ack.snd_nxt;
        self.rounds = (self.rounds + 1).min(0xff);
        // One ACK a round trip: the window is too small for what the hosts coalesce.
        if self.calls == 1
            && acked_bytes >= (self.min_cwnd - 1).wrapping_mul(ack.mss)
            && self.min_cwnd < TSO_BOUND + 1
        {
            self.min_cwnd = (self.min_cwnd + MIN_CWND_GROW).min(TSO_BOUND + 1);
            self.round_start = ack.snd_nxt + self.min_cwnd.wrapping_mul(ack.mss);
            self.calls = 0;
            self.may_grow = true;
            return;
        }
        let slope = RATE_UNIT * u64::from(ack.mss.max(1));
        let needed = u64::from(self.max_rate) * u64::from(self.min_rtt) / slope;
        let most = (needed as u32).wrapping_add(PAD);
        if window.snd_cwnd > most {
            if !self.is_sure_of_congestion(window) {
                return;
            }
            self.decrease(window, most);
        } else if window.snd_cwnd <= most - PAD_BUFFER {
            if self.calls < INCREASE_CALLS {
                return;
            }
            self.may_grow = true;
            self.calm += 1;
            if self.growth_shift < 0 && self.calm > CALM {
                self.growth_shift += 1;
                self.calm = 0;
            }
        } else {
            return;
        }
        self.calls = 0;
        self.rounds = 0;
        self.max_rate = 0;
        window.snd_cwnd = window.snd_cwnd.max(FLOOR).min(window.snd_cwnd_clamp);
    }

    fn is_sure_of_congestion(&mut self, window: &Window) -> bool {
        if self.rounds < MIN_ROUNDS {
            return false;
        }
        if window.snd_ssthresh == INFINITE_SSTHRESH {
            return self.calls >= SSTHRESH_CALLS;
        }
        if self.calls < DECREASE_CALLS {
            if self.may_grow && self.rounds > STOP_ROUNDS {
                self.may_grow = false;
            }
            return false;
        }
        true
    }

    fn decrease(&mut self, window: &mut Window, most: u32) {
        self.may_grow = false;
        window.snd_ssthresh = (SSTHRESH_FACTOR.wrapping_mul(most) >> 3).max(2);
        let excess = window.snd_cwnd - most;
        if excess > 2 {
            window.snd_cwnd -= (excess.wrapping_mul(DECREASE) >> 7).max(2);
        } else {
            window.snd_cwnd = most;
        }
        self.growth_shift = self.growth_shift.min(0);
        self.calm = 0;
    }
}

impl CongestionControl for Nv {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        *self = Self::new(self.params);
        self.restart_measurement(ack);
        self.min_rtt_ends = ack.jiffies.wrapping_add(2 * HZ);
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        (window.snd_cwnd.wrapping_mul(LOSS_FACTOR) >> 10).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, _ack: &Ack, acked: u32) {
        if !window.cwnd_limited() || !self.may_grow {
            return;
        }
        let mut left = acked;
        if window.in_slow_start() {
            left = window.slow_start(acked);
            if left == 0 {
                return;
            }
        }
        let per_increase = if self.growth_shift < 0 {
            window.snd_cwnd << self.growth_shift.unsigned_abs()
        } else {
            (window.snd_cwnd >> self.growth_shift).max(4)
        };
        window.additive_increase(per_increase, left);
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        if !matches!(window.ca_state, CaState::Open | CaState::Disorder) {
            return;
        }
        let acked_bytes = ack.snd_una.0.wrapping_sub(self.last_snd_una.0);
        self.last_snd_una = ack.snd_una;
        if sample.in_flight == 0 {
            return;
        }
        let average = self.average_rtt(rtt_us);
        let in_flight = u64::from(sample.in_flight.wrapping_mul(ack.mss));
        let rate = (in_flight * RATE_UNIT / u64::from(average.max(1))) as u32;
        self.max_rate = self.max_rate.max(rate);
        self.calls = (self.calls + 1).min(255);
        self.note_min_rtt(average, ack);
        if self.round_start.before(ack.snd_una) {
            self.end_round(window, ack, acked_bytes);
        }
    }

    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        match new {
            CaState::Open if self.restarts => self.restart_measurement(ack),
            CaState::Open | CaState::Disorder => {}
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.restarts = true;
                self.may_grow = false;
                if new == CaState::Loss {
                    self.growth_shift = (self.growth_shift.min(0) - 1).max(SLOWEST);
                }
            }
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }

    fn get_info(&self, _ack: &Ack) -> Option<CcInfo> {
        Some(CcInfo::Vegas(VegasInfo {
            enabled: true,
            rtt_count: self.rounds,
            rtt: self.last_rtt,
            min_rtt: self.min_rtt,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    /// 100 segments in flight and 10 ms: with 5 ms of it a queue, 50 segments are too many, 10 of
    /// which are allowed.
    #[test]
    fn congestion_takes_a_quarter_of_what_is_above_the_right_window() {
        let mut nv = Nv::new(Params::default());
        let mut window = Window::new(100);
        nv.init(&mut window, &ack_at(0));
        nv.restart_measurement(&ack_at(0));
        (nv.last_rtt, nv.min_rtt) = (10_000, 5_000);
        for n in 0..40 {
            let ack = Ack { snd_una: Seq(n * 1_448), ..ack_at(0) };
            let sample = AckSample { pkts_acked: 1, rtt_us: Some(10_000), in_flight: 100 };
            nv.round_start = if n == 39 { Seq(0) } else { Seq(1 << 30) };
            nv.rounds = 3;
            nv.pkts_acked(&mut window, &ack, &sample);
        }
        assert_eq!((window.snd_ssthresh, window.snd_cwnd), (60, 100 - ((40 * 38) >> 7)));
        assert!(!nv.may_grow);
    }

    #[test]
    fn a_loss_takes_a_fifth_and_timeouts_slow_growth_down() {
        let mut nv = Nv::new(Params::default());
        let mut window = Window::new(100);
        assert_eq!(nv.ssthresh(&window, &ack_at(0)), 79);
        for _ in 0..20 {
            nv.set_state(&mut window, &ack_at(0), CaState::Loss);
        }
        assert_eq!(nv.growth_shift, SLOWEST);
    }
}
