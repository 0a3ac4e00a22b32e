//! CUBIC (RFC 9438) in Linux's fixed-point form (`tcp_cubic.c`: `bictcp_*`, `cubictcp_*`).
//!
//! Time is in 1/1024 s (`BICTCP_HZ` = 10 bits) since the epoch's start, windows in segments.

use super::cube_root::cubic_root;
use super::hystart::HyStart;
use super::{Ack, AckSample, CaState, CongestionControl, CwndEvent, Window};

/// CUBIC's state (`struct bictcp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    /// Segments acknowledged for each segment of growth (`cnt`).
    segments_per_increase: u32,
    /// Window before the latest reduction (`last_max_cwnd`).
    last_max_cwnd: u32,
    /// Window at the latest update (`last_cwnd`).
    last_cwnd: u32,
    /// Jiffies of the latest update (`last_time`).
    last_time: u32,
    /// Where the plateau of the cubic lies (`bic_origin_point`), segments.
    origin_point: u32,
    /// Time from the epoch's start to the plateau (`bic_K`), 1/1024 s.
    k: u32,
    /// Lowest RTT seen, µs (`delay_min`).
    delay_min_us: u32,
    /// Jiffies at the start of the epoch; 0 = none (`epoch_start`).
    epoch_start: u32,
    /// Segments acknowledged since the epoch's start (`ack_cnt`).
    ack_cnt: u32,
    /// The window that Reno would have (`tcp_cwnd`).
    reno_cwnd: u32,
    /// Slow start exit.
    hystart: HyStart,
    hystart_enabled: bool,
    /// What a loss leaves of the window, in 1/1024 (`beta`).
    beta: u32,
    /// Acknowledged segments per Reno increase, in eighths of the window (`beta_scale`).
    reno_scale: u32,
}

/// `BICTCP_BETA_SCALE`.
const BETA_SCALE: u32 = 1_024;
/// `bic_scale`: C = 41 · 10 / 1024 = 0.4.
const BIC_SCALE: u32 = 41;
/// C in units of 1/1024 per (1/1024 s)³ (`cube_rtt_scale` = `bic_scale` · 10).
const CUBE_RTT_SCALE: u64 = BIC_SCALE as u64 * 10;
/// 2⁴⁰ / `cube_rtt_scale`: K = cbrt(`CUBE_FACTOR` · (Wmax − cwnd)).
pub(super) const CUBE_FACTOR: u64 = (1 << 40) / CUBE_RTT_SCALE;
/// `BICTCP_HZ`.
const CUBIC_HZ_SHIFT: u32 = 10;
/// Jiffies in a second.
const HZ: u32 = 1_000;

impl Cubic {
    /// A fresh module; a loss leaves `beta`/1024 of the window.
    pub fn new(hystart_enabled: bool, beta: u32) -> Self {
        Self {
            segments_per_increase: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            origin_point: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: 0,
            ack_cnt: 0,
            reno_cwnd: 0,
            hystart: HyStart::default(),
            hystart_enabled,
            beta,
            reno_scale: 8 * (BETA_SCALE + beta) / 3 / (BETA_SCALE - beta),
        }
    }

    /// Forgets everything (`bictcp_reset`).
    fn reset(&mut self) {
        *self = Self::new(self.hystart_enabled, self.beta);
    }

    /// Recomputes the growth rate after `acked` segments (`bictcp_update`).
    fn update(&mut self, cwnd: u32, acked: u32, jiffies: u32) {
        self.ack_cnt += acked;
        let unchanged = self.last_cwnd == cwnd;
        if unchanged && (jiffies.wrapping_sub(self.last_time) as i32) <= (HZ / 32) as i32 {
            return;
        }
        // The cubic is computed once per jiffy at most; the Reno-friendly part on every ACK.
        if !(self.epoch_start != 0 && jiffies == self.last_time) {
            self.last_cwnd = cwnd;
            self.last_time = jiffies;
            if self.epoch_start == 0 {
                self.start_epoch(cwnd, acked, jiffies);
            }
            self.follow_the_cubic(cwnd, jiffies);
        }
        self.keep_up_with_reno(cwnd);
        // RFC 9438 section 4.4: at most one segment for two acknowledged.
        self.segments_per_increase = self.segments_per_increase.max(2);
    }

    fn start_epoch(&mut self, cwnd: u32, acked: u32, jiffies: u32) {
        self.epoch_start = jiffies;
        self.ack_cnt = acked;
        self.reno_cwnd = cwnd;
        if self.last_max_cwnd <= cwnd {
            self.k = 0;
            self.origin_point = cwnd;
        } else {
            self.k = cubic_root(CUBE_FACTOR * u64::from(self.last_max_cwnd - cwnd));
            self.origin_point = self.last_max_cwnd;
        }
    }

    /// W(t) = C (t − K)³ + Wmax, one minimum RTT ahead (RFC 9438 section 4.2).
    fn follow_the_cubic(&mut self, cwnd: u32, jiffies: u32) {
        let since_epoch = jiffies.wrapping_sub(self.epoch_start);
        let ahead = self.delay_min_us.div_ceil(1_000);
        let t = (u64::from(since_epoch) + u64::from(ahead)) << CUBIC_HZ_SHIFT;
        let t = t / u64::from(HZ);
        let k = u64::from(self.k);
        let offset = t.abs_diff(k);
        // After six idle minutes the cube exceeds 64 bits and wraps, as in the kernel.
        let cube = offset.wrapping_mul(offset).wrapping_mul(offset);
        let delta = (CUBE_RTT_SCALE.wrapping_mul(cube) >> (10 + 3 * CUBIC_HZ_SHIFT)) as u32;
        let target = if t < k {
            self.origin_point.wrapping_sub(delta)
        } else {
            self.origin_point.wrapping_add(delta)
        };
        self.segments_per_increase =
            if target > cwnd { cwnd / (target - cwnd) } else { cwnd.wrapping_mul(100) };
        // Before the first loss the plateau is unknown: at least 5 % growth per RTT.
        if self.last_max_cwnd == 0 && self.segments_per_increase > 20 {
            self.segments_per_increase = 20;
        }
    }

    /// Never slower than Reno with the same average window (RFC 9438 section 4.3).
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let per_increase = (cwnd * self.reno_scale) >> 3;
        if per_increase > 0 {
            while self.ack_cnt > per_increase {
                self.ack_cnt -= per_increase;
                self.reno_cwnd += 1;
            }
        }
        if self.reno_cwnd > cwnd {
            let allowed = cwnd / (self.reno_cwnd - cwnd);
            self.segments_per_increase = self.segments_per_increase.min(allowed);
        }
    }
}

impl CongestionControl for Cubic {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        self.reset();
        if self.hystart_enabled {
            self.hystart.reset(ack);
        }
    }

    /// beta · cwnd, with fast convergence (RFC 9438 sections 4.6 and 4.7).
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        self.epoch_start = 0;
        let cwnd = window.snd_cwnd;
        self.last_max_cwnd = if cwnd < self.last_max_cwnd {
            cwnd.wrapping_mul(BETA_SCALE + self.beta) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        (cwnd.wrapping_mul(self.beta) / BETA_SCALE).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        let mut acked = acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(window.snd_cwnd, acked, ack.jiffies);
        window.additive_increase(self.segments_per_increase, acked);
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        // Delay samples right after a recovery still include the old queue.
        if self.epoch_start != 0 && (ack.jiffies.wrapping_sub(self.epoch_start) as i32) < HZ as i32
        {
            return;
        }
        let delay_us = rtt_us.max(1);
        if self.delay_min_us == 0 || self.delay_min_us > delay_us {
            self.delay_min_us = delay_us;
        }
        if self.hystart_enabled && window.in_slow_start() {
            self.hystart.update(window, ack, delay_us, self.delay_min_us);
        }
    }

    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Loss {
            self.reset();
            self.hystart.reset(ack);
        }
    }

    /// Idle time does not count as growth time (RFC 9438 section 5.8).
    fn cwnd_event(&mut self, _window: &mut Window, ack: &Ack, event: CwndEvent) {
        if event != CwndEvent::TxStart {
            return;
        }
        let idle = ack.jiffies.wrapping_sub(ack.lsndtime) as i32;
        if self.epoch_start != 0 && idle > 0 {
            self.epoch_start = self.epoch_start.wrapping_add(idle as u32);
            if (self.epoch_start.wrapping_sub(ack.jiffies) as i32) > 0 {
                self.epoch_start = ack.jiffies;
            }
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
    use crate::profile::Profile;

    fn avoidance(cwnd: u32) -> Window {
        Window { snd_ssthresh: cwnd.min(5), is_cwnd_limited: true, ..Window::new(cwnd) }
    }

    #[test]
    fn a_loss_takes_three_tenths() {
        let mut cubic = Cubic::new(true, 717);
        assert_eq!(cubic.ssthresh(&avoidance(100), &ack_at(0)), 70);
        assert_eq!(cubic.last_max_cwnd, 100);
        // Fast convergence: after a second loss below the old maximum, the new maximum is less than the window.
        assert_eq!(cubic.ssthresh(&avoidance(80), &ack_at(0)), 56);
        assert_eq!(cubic.last_max_cwnd, 80 * (1024 + 717) / 2048);
    }

    /// In 2007 a loss left 819/1024, four fifths.
    #[test]
    fn a_loss_took_a_fifth() {
        let beta = Profile::linux_2_6_22().cubic_beta;
        assert_eq!(Cubic::new(false, beta).ssthresh(&avoidance(100), &ack_at(0)), 79);
    }

    #[test]
    fn the_plateau_comes_after_k_seconds() {
        // RFC 9438 section 4.2: K = cbrt((Wmax - cwnd) / C); 30 segments below at C = 0.4: 4.2 s.
        let mut cubic = Cubic::new(false, 717);
        let mut window = avoidance(100);
        window.snd_cwnd = cubic.ssthresh(&window, &ack_at(1));
        cubic.delay_min_us = 200_000;
        let mut reached = None;
        for millis in (10..8_000u32).step_by(10) {
            let before = window.snd_cwnd;
            let acked = before / 20;
            cubic.cong_avoid(&mut window, &ack_at(millis), acked);
            if before < 100 && window.snd_cwnd >= 100 {
                reached = Some(millis);
            }
        }
        let seconds = f64::from(reached.expect("the old window is reached again")) / 1_000.0;
        assert!((2.5..4.8).contains(&seconds), "{seconds} s");
    }

    #[test]
    fn idle_time_is_not_growth_time() {
        let mut cubic = Cubic::new(false, 717);
        cubic.epoch_start = 1_000;
        let mut window = avoidance(10);
        let ack = Ack { lsndtime: 2_000, ..ack_at(5_000) };
        cubic.cwnd_event(&mut window, &ack, CwndEvent::TxStart);
        assert_eq!(cubic.epoch_start, 4_000);
    }
}
