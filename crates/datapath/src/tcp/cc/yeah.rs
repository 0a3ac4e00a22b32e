//! YeAH-TCP (A. Baiocchi, A. Castellani, F. Vacirca, "YeAH-TCP: Yet Another Highspeed TCP", PFLDnet 2007), as
//! `tcp_yeah.c`: Scalable TCP while the queue is short, else Reno that empties it before anything is lost.

use super::{Ack, AckSample, CaState, CcInfo, CongestionControl, CwndEvent, Vegas, Window};

/// YeAH's state (`struct yeah`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yeah {
    /// Measures round trips.
    vegas: Vegas,
    /// Segments in the queue at the end of the latest round trip (`lastQ`).
    queue: u32,
    /// Round trips with a long queue, in a row (`doing_reno_now`).
    reno_rounds: u32,
    /// What a Reno flow in our place would have for a window (`reno_count`).
    reno_window: u32,
    /// Round trips with a short queue (`fast_count`).
    fast_rounds: u32,
}

/// Segments in the queue that are too many (`TCP_YEAH_ALPHA`).
const ALPHA: u32 = 80;
/// A queue of more than this part of the lowest RTT is too long (`TCP_YEAH_PHY`).
const PHY: u32 = 8;
/// What a loss takes at least, as a shift (`TCP_YEAH_DELTA`).
const DELTA: u32 = 3;
/// What emptying the queue takes at most, as a shift (`TCP_YEAH_EPSILON`).
const EPSILON: u32 = 1;
/// So many round trips of Reno, and a loss halves (`TCP_YEAH_RHO`).
const RHO: u32 = 16;
/// After so many fast round trips there is no Reno flow about (`TCP_YEAH_ZETA`).
const ZETA: u32 = 50;
/// `TCP_SCALABLE_AI_CNT`.
const SCALABLE: u32 = 100;
/// What the count of Reno rounds ends at.
const MOST_ROUNDS: u32 = 0x00ff_ffff;
/// Windows are no larger, segments.
const CLAMP: u32 = u32::MAX / 128;

impl Default for Yeah {
    fn default() -> Self {
        Self { vegas: Vegas::default(), queue: 0, reno_rounds: 0, reno_window: 2, fast_rounds: 0 }
    }
}

impl Yeah {
    /// A round trip is over: how long is the queue?
    fn estimate_queue(&mut self, window: &mut Window, min_rtt: u32, base_rtt: u32) {
        let waiting = min_rtt - base_rtt;
        let queue = (u64::from(window.snd_cwnd) * u64::from(waiting) / u64::from(min_rtt)) as u32;
        if queue > ALPHA || waiting > base_rtt / PHY {
            if queue > ALPHA && window.snd_cwnd > self.reno_window {
                let excess = queue.min(window.snd_cwnd >> EPSILON);
                window.snd_cwnd = (window.snd_cwnd - excess).max(self.reno_window);
                window.snd_ssthresh = window.snd_cwnd;
            }
            self.reno_window = if self.reno_window <= 2 {
                (window.snd_cwnd >> 1).max(2)
            } else {
                self.reno_window + 1
            };
            self.reno_rounds = (self.reno_rounds + 1).min(MOST_ROUNDS);
        } else {
            self.fast_rounds += 1;
            if self.fast_rounds > ZETA {
                self.reno_window = 2;
                self.fast_rounds = 0;
            }
            self.reno_rounds = 0;
        }
        self.queue = queue;
    }
}

impl CongestionControl for Yeah {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        *self = Self::default();
        self.vegas.init(window, ack);
        window.snd_cwnd_clamp = window.snd_cwnd_clamp.min(CLAMP);
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cwnd = window.snd_cwnd;
        let half = (cwnd >> 1).max(2);
        // Where no Reno flow competes, a loss takes what was in the queue.
        let cut =
            if self.reno_rounds < RHO { self.queue.min(half).max(cwnd >> DELTA) } else { half };
        self.fast_rounds = 0;
        self.reno_window = (self.reno_window >> 1).max(2);
        cwnd.saturating_sub(cut).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        let mut left = acked;
        if window.in_slow_start() {
            left = window.slow_start(acked);
        }
        if left > 0 {
            let fast = self.reno_rounds == 0;
            let per_increase = if fast { window.snd_cwnd.min(SCALABLE) } else { window.snd_cwnd };
            window.additive_increase(per_increase, left);
        }
        if let Some((samples, min_rtt, base_rtt)) = self.vegas.end_round(ack)
            && samples > 2
        {
            self.estimate_queue(window, min_rtt, base_rtt);
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, ack: &Ack, sample: &AckSample) {
        self.vegas.pkts_acked(window, ack, sample);
    }

    fn set_state(&mut self, window: &mut Window, ack: &Ack, new: CaState) {
        self.vegas.set_state(window, ack, new);
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        self.vegas.cwnd_event(window, ack, event);
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }

    fn get_info(&self, ack: &Ack) -> Option<CcInfo> {
        self.vegas.get_info(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    #[test]
    fn a_long_queue_is_emptied_and_a_short_one_lets_the_window_grow_fast() {
        let mut yeah = Yeah::default();
        let mut window = Window { snd_ssthresh: 2, ..Window::new(400) };
        yeah.estimate_queue(&mut window, 10_000, 9_900);
        assert_eq!((window.snd_cwnd, yeah.reno_rounds, yeah.queue), (400, 0, 4));
        // 100 of 400 segments wait, 20 more than are allowed.
        yeah.estimate_queue(&mut window, 10_000, 7_500);
        assert_eq!((window.snd_cwnd, yeah.reno_rounds, yeah.reno_window), (300, 1, 150));
    }

    #[test]
    fn a_loss_takes_the_queue_unless_reno_flows_compete() {
        let lost = |queue, reno_rounds| {
            let mut yeah = Yeah { queue, reno_rounds, ..Yeah::default() };
            yeah.ssthresh(&Window::new(400), &ack_at(0))
        };
        assert_eq!([lost(4, 0), lost(90, 3), lost(300, 3), lost(4, 16)], [350, 310, 200, 200]);
    }
}
