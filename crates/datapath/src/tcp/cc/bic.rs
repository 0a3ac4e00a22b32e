//! BIC TCP (L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control for Fast Long-Distance
//! Networks", INFOCOM 2004), as `tcp_bic.c`.

use super::{Ack, AckSample, CaState, CongestionControl, Window};

/// BIC's state (`struct bictcp` of `tcp_bic.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bic {
    /// Segments acknowledged for each segment of growth (`cnt`).
    segments_per_increase: u32,
    /// Window before the latest reduction (`last_max_cwnd`).
    last_max_cwnd: u32,
    /// Window at the latest update (`last_cwnd`).
    last_cwnd: u32,
    /// Jiffies of the latest update (`last_time`).
    last_time: u32,
    /// Segments that an ACK acknowledges, smoothed, in 1/16 (`delayed_ack`).
    segments_per_ack_16: u32,
}

/// `max_increment`: maximum growth in a round trip, segments.
const MAX_INCREMENT: u32 = 16;
/// `low_window`: up to this window BIC is Reno, segments.
const LOW_WINDOW: u32 = 14;
/// `beta`: what a loss leaves of the window, in 1/1024.
const BETA: u64 = 819;
const BETA_SCALE: u64 = 1_024;
/// `smooth_part`: round trips in which the last segments before the old window are found.
const SMOOTH_PART: u32 = 20;
/// `BICTCP_B`: the search goes a quarter of the way.
const B: u32 = 4;
/// `ACK_RATIO_SHIFT`.
const ACK_RATIO_SHIFT: u32 = 4;
/// Jiffies in a second.
const HZ: u32 = 1_000;

impl Default for Bic {
    fn default() -> Self {
        Self {
            segments_per_increase: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            segments_per_ack_16: 2 << ACK_RATIO_SHIFT,
        }
    }
}

impl Bic {
    /// How fast the window grows now (`bictcp_update`).
    fn update(&mut self, cwnd: u32, jiffies: u32) {
        let unchanged = self.last_cwnd == cwnd;
        if unchanged && (jiffies.wrapping_sub(self.last_time) as i32) <= (HZ / 32) as i32 {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_time = jiffies;
        if cwnd <= LOW_WINDOW {
            self.segments_per_increase = cwnd;
            return;
        }
        let mut count = self.search(cwnd);
        // Before the first loss, or if the link is hardly used.
        if self.last_max_cwnd == 0 {
            count = count.min(20);
        }
        let count = (u64::from(count) << ACK_RATIO_SHIFT) / u64::from(self.segments_per_ack_16);
        self.segments_per_increase = (count as u32).max(1);
    }

    /// Segments acknowledged for each one of growth: fast far from the window of the latest loss,
    /// slowly beside it, faster again beyond.
    fn search(&self, cwnd: u32) -> u32 {
        if cwnd < self.last_max_cwnd {
            let distance = (self.last_max_cwnd - cwnd) / B;
            if distance > MAX_INCREMENT {
                cwnd / MAX_INCREMENT
            } else if distance <= 1 {
                cwnd.wrapping_mul(SMOOTH_PART) / B
            } else {
                cwnd / distance
            }
        } else {
            let beyond = cwnd - self.last_max_cwnd;
            if beyond < B {
                cwnd.wrapping_mul(SMOOTH_PART) / B
            } else if beyond < MAX_INCREMENT * (B - 1) {
                cwnd.wrapping_mul(B - 1) / beyond
            } else {
                cwnd / MAX_INCREMENT
            }
        }
    }
}

impl CongestionControl for Bic {
    fn init(&mut self, _window: &mut Window, _ack: &Ack) {
        *self = Self::default();
    }

    /// With fast convergence: after a loss below the old window, the flow aims lower to release bandwidth.
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cwnd = window.snd_cwnd;
        self.last_max_cwnd = if cwnd < self.last_max_cwnd {
            (u64::from(cwnd) * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32
        } else {
            cwnd
        };
        if cwnd <= LOW_WINDOW {
            (cwnd >> 1).max(2)
        } else {
            ((u64::from(cwnd) * BETA / BETA_SCALE) as u32).max(2)
        }
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            self.update(window.snd_cwnd, ack.jiffies);
            window.additive_increase(self.segments_per_increase, left);
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, _ack: &Ack, sample: &AckSample) {
        if window.ca_state == CaState::Open {
            let smoothed = self.segments_per_ack_16;
            let change = sample.pkts_acked.wrapping_sub(smoothed >> ACK_RATIO_SHIFT);
            self.segments_per_ack_16 = smoothed.wrapping_add(change);
        }
    }

    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, new: CaState) {
        if new == CaState::Loss {
            *self = Self::default();
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    #[test]
    fn the_search_is_fast_far_from_the_old_window_and_slow_beside_it() {
        let bic = Bic { last_max_cwnd: 200, ..Bic::default() };
        for (cwnd, count) in [(100, 6), (160, 16), (198, 990), (202, 1_010), (220, 33), (400, 25)] {
            assert_eq!(bic.search(cwnd), count, "{cwnd}");
        }
    }

    #[test]
    fn a_loss_leaves_four_fifths_and_half_of_a_small_window() {
        for (cwnd, ssthresh) in [(100, 79), (15, 11), (14, 7), (1, 2)] {
            assert_eq!(Bic::default().ssthresh(&Window::new(cwnd), &ack_at(0)), ssthresh);
        }
    }
}
