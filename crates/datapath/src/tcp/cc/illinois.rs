//! TCP-Illinois (S. Liu, T. Başar, R. Srikant, "TCP-Illinois: A Loss- and Delay-Based Congestion Control
//! Algorithm for High-Speed Networks", VALUETOOLS 2006), as `tcp_illinois.c`: losses decide when the
//! window shrinks, the queueing delay by how much.

use super::{Ack, AckSample, CaState, CcInfo, CongestionControl, VegasInfo, Window};
use crate::packet::seq::Seq;

/// Illinois's state (`struct illinois`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illinois {
    /// RTT samples of this round trip: sum in µs, and how many.
    sum_rtt_us: u64,
    rtt_count: u16,
    /// Lowest and highest RTT ever, µs.
    base_rtt_us: u32,
    max_rtt_us: u32,
    /// What is acknowledged beyond this ends the round trip (`end_seq`).
    round_end: Seq,
    /// Growth in a round trip, in 1/128 segments.
    alpha: u32,
    /// What a loss takes of the window, in 1/64.
    beta: u32,
    /// Packets of the latest ACK.
    acked: u16,
    /// A queue was observed since growth was last at its maximum (`rtt_above`).
    was_above: bool,
    /// Round trips in a row without a queue (`rtt_low`).
    low_rounds: u8,
}

/// 1/10, 1 and 10 segments a round trip (`ALPHA_MIN`, `ALPHA_BASE`, `ALPHA_MAX`); the first is 0.3.
const ALPHA_MIN: u32 = 3 * ALPHA_BASE / 10;
const ALPHA_BASE: u32 = 1 << ALPHA_SHIFT;
const ALPHA_MAX: u32 = 10 * ALPHA_BASE;
const ALPHA_SHIFT: u32 = 7;
/// An eighth, and a half (`BETA_MIN`, `BETA_MAX`).
const BETA_MIN: u32 = 1 << (BETA_SHIFT - 3);
const BETA_MAX: u32 = 1 << (BETA_SHIFT - 1);
const BETA_SHIFT: u32 = 6;
/// Upper bound of RTT samples, µs (`RTT_MAX`).
const RTT_MAX_US: u32 = u32::MAX / ALPHA_MAX;
/// Below this window Illinois behaves as Reno, segments (`win_thresh`).
const WIN_THRESH: u32 = 15;
/// Round trips without a queue until growth returns to its maximum (`theta`).
const THETA: u8 = 5;

impl Default for Illinois {
    fn default() -> Self {
        Self {
            sum_rtt_us: 0,
            rtt_count: 0,
            base_rtt_us: 0x7fff_ffff,
            max_rtt_us: 0,
            round_end: Seq(0),
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            acked: 0,
            was_above: false,
            low_rounds: 0,
        }
    }
}

impl Illinois {
    fn start_round(&mut self, ack: &Ack) {
        self.round_end = ack.snd_nxt;
        self.rtt_count = 0;
        self.sum_rtt_us = 0;
    }

    /// Growth for an average and a highest queueing delay (`alpha`).
    fn alpha_for(&mut self, average: u32, highest: u32) -> u32 {
        let low = highest / 100;
        if average <= low {
            if self.was_above {
                // A single low round trip may be chance.
                self.low_rounds += 1;
                if self.low_rounds < THETA {
                    return self.alpha;
                }
                self.low_rounds = 0;
                self.was_above = false;
            }
            return ALPHA_MAX;
        }
        self.was_above = true;
        let (average, highest) = (average - low, highest - low);
        let fall = average.wrapping_mul(ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN;
        highest.wrapping_mul(ALPHA_MAX) / highest.wrapping_add(fall).max(1)
    }

    /// What a loss takes, for the same (`beta`).
    fn beta_for(average: u32, highest: u32) -> u32 {
        let (low, high) = (highest / 10, 8 * highest / 10);
        if average <= low {
            BETA_MIN
        } else if average >= high || high <= low {
            BETA_MAX
        } else {
            (BETA_MIN * high + (BETA_MAX - BETA_MIN) * average - BETA_MAX * low) / (high - low)
        }
    }

    /// A round trip is over (`update_params`).
    fn end_round(&mut self, window: &Window, ack: &Ack) {
        if window.snd_cwnd < WIN_THRESH {
            self.alpha = ALPHA_BASE;
            self.beta = BETA_MAX;
        } else if self.rtt_count > 0 {
            let average_us = (self.sum_rtt_us / u64::from(self.rtt_count)) as u32;
            let average = average_us.wrapping_sub(self.base_rtt_us);
            let highest = self.max_rtt_us - self.base_rtt_us;
            self.alpha = self.alpha_for(average, highest);
            self.beta = Self::beta_for(average, highest);
        }
        self.start_round(ack);
    }
}

impl CongestionControl for Illinois {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        *self = Self::default();
        self.start_round(ack);
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cut = window.snd_cwnd.wrapping_mul(self.beta) >> BETA_SHIFT;
        (window.snd_cwnd - cut).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if ack.snd_una.after(self.round_end) {
            self.end_round(window, ack);
        }
        if !window.cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
            return;
        }
        window.snd_cwnd_cnt = window.snd_cwnd_cnt.wrapping_add(self.acked.into());
        self.acked = 1;
        let growth = window.snd_cwnd_cnt.wrapping_mul(self.alpha) >> ALPHA_SHIFT;
        if growth >= window.snd_cwnd {
            let grown = window.snd_cwnd + growth / window.snd_cwnd;
            window.snd_cwnd = grown.min(window.snd_cwnd_clamp);
            window.snd_cwnd_cnt = 0;
        }
    }

    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, sample: &AckSample) {
        self.acked = sample.pkts_acked as u16;
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt_us = rtt_us.min(RTT_MAX_US);
        self.base_rtt_us = self.base_rtt_us.min(rtt_us);
        self.max_rtt_us = self.max_rtt_us.max(rtt_us);
        self.rtt_count = self.rtt_count.wrapping_add(1);
        self.sum_rtt_us += u64::from(rtt_us);
    }

    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Loss {
            self.alpha = ALPHA_BASE;
            self.beta = BETA_MAX;
            self.low_rounds = 0;
            self.was_above = false;
            self.start_round(ack);
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }

    fn get_info(&self, _ack: &Ack) -> Option<CcInfo> {
        Some(CcInfo::Vegas(VegasInfo {
            enabled: true,
            rtt_count: self.rtt_count.into(),
            rtt: self.sum_rtt_us.checked_div(self.rtt_count.into()).unwrap_or(0) as u32,
            min_rtt: self.base_rtt_us,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's curves: kappa_1 / (kappa_2 + delay), and a line between a tenth and eight tenths.
    #[test]
    fn growth_falls_and_reduction_rises_with_the_queue() {
        let of = |average: u32| {
            let mut illinois = Illinois::default();
            (illinois.alpha_for(average, 100_000), Illinois::beta_for(average, 100_000))
        };
        assert_eq!(of(1_000), (ALPHA_MAX, BETA_MIN));
        assert_eq!(of(45_000), (82, 20));
        assert_eq!(of(80_000), (47, BETA_MAX));
        assert_eq!(of(100_000), (ALPHA_MIN, BETA_MAX));
    }

    #[test]
    fn growth_is_at_its_highest_after_five_round_trips_without_a_queue() {
        let mut illinois = Illinois { was_above: true, alpha: 50, ..Illinois::default() };
        let seen: Vec<u32> = (0..6).map(|_| illinois.alpha_for(0, 100_000)).collect();
        assert_eq!(seen, [50, 50, 50, 50, ALPHA_MAX, ALPHA_MAX]);
    }
}
