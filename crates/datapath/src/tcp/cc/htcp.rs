//! H-TCP (D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004;
//! draft-leith-tcp-htcp), as `tcp_htcp.c`: the longer the last loss is ago, the faster the window grows, and a
//! loss leaves the share that empties the queue.

use super::{Ack, AckSample, CaState, CongestionControl, Window};
use crate::tcp::timer::HZ;

/// H-TCP's state (`struct htcp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Htcp {
    /// Growth in a round trip, in 1/128 segments.
    alpha: u32,
    /// What a loss leaves, in 1/128.
    beta: u8,
    /// The latest reduction saw a throughput like the one before (`modeswitch`).
    is_steady: bool,
    /// Packets of the latest ACK (`pkts_acked`).
    acked: u16,
    /// Packets acknowledged since `measured`.
    packets: u32,
    /// Lowest and highest RTT, jiffies.
    min_rtt: u32,
    max_rtt: u32,
    /// When the window was last reduced, jiffies (`last_cong`).
    reduced: u32,
    before: Option<UndoState>,
    /// Throughput, packets a second: lowest and highest since the reduction, the highest of the
    /// time before, and smoothed (`minB`, `maxB`, `old_maxB`, `Bi`).
    min_rate: u32,
    max_rate: u32,
    old_max_rate: u32,
    rate: u32,
    /// When throughput was last measured, jiffies (`lasttime`).
    measured: u32,
}

/// State to restore if a reduction was spurious (`undo_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UndoState {
    reduced: u32,
    max_rtt: u32,
    old_max_rate: u32,
}

/// One segment a round trip (`ALPHA_BASE`).
const ALPHA_BASE: u32 = 1 << 7;
/// A half (`BETA_MIN`).
const BETA_MIN: u8 = 1 << 6;
/// Four fifths (`BETA_MAX`).
const BETA_MAX: u8 = 102;
/// The highest RTT rises by this much at once at most, jiffies.
const MAX_RTT_STEP: u32 = HZ / 50;
/// A path with a shorter RTT is not drained for longer, jiffies.
const SHORT_RTT: u32 = HZ / 100;

impl Default for Htcp {
    fn default() -> Self {
        Self {
            alpha: ALPHA_BASE,
            beta: BETA_MIN,
            is_steady: false,
            acked: 1,
            packets: 0,
            min_rtt: 0,
            max_rtt: 0,
            reduced: 0,
            before: None,
            min_rate: 0,
            max_rate: 0,
            old_max_rate: 0,
            rate: 0,
            measured: 0,
        }
    }
}

impl Htcp {
    /// A reduction begins (`htcp_reset`).
    fn note_reduction(&mut self, ack: &Ack) {
        let Self { reduced, max_rtt, old_max_rate, .. } = *self;
        self.before = Some(UndoState { reduced, max_rtt, old_max_rate });
        self.reduced = ack.jiffies;
    }

    fn measure_rtt(&mut self, rtt: u32, state: CaState) {
        if self.min_rtt > rtt || self.min_rtt == 0 {
            self.min_rtt = rtt;
        }
        if state != CaState::Open {
            return;
        }
        self.max_rtt = self.max_rtt.max(self.min_rtt);
        if self.max_rtt < rtt && rtt <= self.max_rtt.saturating_add(MAX_RTT_STEP) {
            self.max_rtt = rtt;
        }
    }

    /// A window's worth of packets tells the throughput, once a RTT is over
    /// (`measure_achieved_throughput`).
    fn measure_rate(&mut self, acked: u32, window: &Window, ack: &Ack) {
        if !matches!(window.ca_state, CaState::Open | CaState::Disorder) {
            self.packets = 0;
            self.measured = ack.jiffies;
            return;
        }
        self.packets = self.packets.wrapping_add(acked);
        let growth = (self.alpha >> 7).max(1);
        let elapsed = ack.jiffies.wrapping_sub(self.measured);
        let is_window = self.packets >= window.snd_cwnd.wrapping_sub(growth);
        if !is_window || elapsed < self.min_rtt || self.min_rtt == 0 {
            return;
        }
        let rate = self.packets.wrapping_mul(HZ) / elapsed.max(1);
        if ack.jiffies.wrapping_sub(self.reduced) / self.min_rtt <= 3 {
            // Right after a reduction there is no measurement.
            (self.min_rate, self.max_rate, self.rate) = (rate, rate, rate);
        } else {
            self.rate = self.rate.wrapping_mul(3).wrapping_add(rate) / 4;
            self.max_rate = self.max_rate.max(self.rate);
            self.min_rate = self.min_rate.min(self.max_rate);
        }
        self.packets = 0;
        self.measured = ack.jiffies;
    }

    /// Where throughput is as before, the share of the RTT that is no queue (`htcp_beta_update`).
    fn update_beta(&mut self) {
        let (rate, old) = (self.max_rate, self.old_max_rate);
        self.old_max_rate = rate;
        // Within a fifth, in 32 bits (`between`).
        let low = old.wrapping_mul(4);
        let span = old.wrapping_mul(6).wrapping_sub(low);
        if span < rate.wrapping_mul(5).wrapping_sub(low) {
            self.beta = BETA_MIN;
            self.is_steady = false;
        } else if self.is_steady && self.min_rtt > SHORT_RTT && self.max_rtt > 0 {
            let share = (self.min_rtt << 7) / self.max_rtt;
            self.beta = (share as u8).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.is_steady = true;
        }
    }

    /// Growth by the time since the reduction, and by the RTT (`htcp_alpha_update`).
    fn update_alpha(&mut self, ack: &Ack) {
        let mut factor = 1_u32;
        let since = ack.jiffies.wrapping_sub(self.reduced);
        if since > HZ {
            let beyond = since - HZ;
            let square = (beyond / 2).wrapping_mul(beyond / 2) / HZ;
            factor = 1 + beyond.wrapping_mul(10).wrapping_add(square) / HZ;
        }
        if self.min_rtt > 0 {
            // Removes half of the effect that the RTT has on growth per second.
            let scale = ((HZ << 3) / self.min_rtt.wrapping_mul(10).max(1)).clamp(1 << 2, 10 << 3);
            factor = (factor.wrapping_shl(3) / scale).max(1);
        }
        self.alpha = factor.wrapping_mul(2).wrapping_mul((1 << 7) - u32::from(self.beta));
        if self.alpha == 0 {
            self.alpha = ALPHA_BASE;
        }
    }
}

impl CongestionControl for Htcp {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        *self = Self { reduced: ack.jiffies, ..Self::default() };
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        self.update_beta();
        self.update_alpha(ack);
        // The highest RTT decays slowly.
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            let queue = self.max_rtt - self.min_rtt;
            self.max_rtt = self.min_rtt + queue.wrapping_mul(95) / 100;
        }
        (window.snd_cwnd.wrapping_mul(self.beta.into()) >> 7).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
        } else if window.snd_cwnd_cnt.wrapping_mul(self.alpha) >> 7 >= window.snd_cwnd {
            if window.snd_cwnd < window.snd_cwnd_clamp {
                window.snd_cwnd += 1;
            }
            window.snd_cwnd_cnt = 0;
            self.update_alpha(ack);
        } else {
            window.snd_cwnd_cnt = window.snd_cwnd_cnt.wrapping_add(self.acked.into());
            self.acked = 1;
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        if window.ca_state == CaState::Open {
            self.acked = sample.pkts_acked as u16;
        }
        if let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) {
            self.measure_rtt(rtt_us.div_ceil(1_000_000 / HZ), window.ca_state);
        }
        self.measure_rate(sample.pkts_acked, window, ack);
    }

    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        match new {
            // The reduction is over and was not spurious.
            CaState::Open => {
                if self.before.take().is_some_and(|before| before.reduced != 0) {
                    self.reduced = ack.jiffies;
                }
            }
            CaState::Cwr | CaState::Recovery | CaState::Loss => self.note_reduction(ack),
            CaState::Disorder => {}
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        if let Some(before) = self.before.take().filter(|before| before.reduced != 0) {
            self.reduced = before.reduced;
            self.max_rtt = before.max_rtt;
            self.old_max_rate = before.old_max_rate;
        }
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    /// alpha = 1 + 10 (t - 1) + ((t - 1) / 2)^2, twice times 1 - beta, with 100 ms.
    #[test]
    fn growth_rises_with_the_time_since_the_reduction() {
        for (seconds, segments) in [(0, 1), (1, 1), (2, 11), (3, 22), (5, 45), (11, 126)] {
            let mut htcp = Htcp { min_rtt: 100, ..Htcp::default() };
            htcp.init(&mut Window::new(10), &ack_at(0));
            htcp.min_rtt = 100;
            htcp.update_alpha(&ack_at(seconds * 1_000));
            assert_eq!(htcp.alpha >> 7, segments, "{seconds} s");
        }
    }

    #[test]
    fn a_loss_leaves_the_share_of_the_rtt_that_is_no_queue() {
        let steady = Htcp { min_rtt: 60, max_rtt: 100, is_steady: true, ..Htcp::default() };
        let mut htcp = Htcp { max_rate: 1_000, old_max_rate: 1_000, ..steady };
        assert_eq!(htcp.ssthresh(&Window::new(128), &ack_at(0)), 76);
        assert_eq!(htcp.max_rtt, 98);
        let mut changed = Htcp { max_rate: 1_000, old_max_rate: 500, ..steady };
        assert_eq!(changed.ssthresh(&Window::new(128), &ack_at(0)), 64);
    }
}
