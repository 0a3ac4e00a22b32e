//! Reno (RFC 5681), as `tcp_reno_*` in the kernel.

use super::{Ack, CongestionControl, Window};

/// Reno: no state of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    /// RFC 5681 section 3.1: half the window, but the window and not the flight, as Linux.
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        (window.snd_cwnd >> 1).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, _ack: &Ack, acked: u32) {
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
        window.additive_increase(window.snd_cwnd, acked);
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    fn limited(cwnd: u32, ssthresh: u32) -> Window {
        Window { snd_ssthresh: ssthresh, is_cwnd_limited: true, ..Window::new(cwnd) }
    }

    #[test]
    fn slow_start_takes_every_ack_and_hands_the_rest_on() {
        let mut window = limited(10, 14);
        Reno.cong_avoid(&mut window, &ack_at(0), 6);
        assert_eq!((window.snd_cwnd, window.snd_cwnd_cnt), (14, 2));
    }

    #[test]
    fn avoidance_adds_one_segment_a_window() {
        let mut window = limited(10, 5);
        for _ in 0..10 {
            Reno.cong_avoid(&mut window, &ack_at(0), 1);
        }
        assert_eq!(window.snd_cwnd, 11);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut window = Window { max_packets_out: 3, ..Window::new(10) };
        Reno.cong_avoid(&mut window, &ack_at(0), 3);
        assert_eq!(window.snd_cwnd, 10);
    }

    #[test]
    fn a_loss_halves_but_leaves_two() {
        assert_eq!(Reno.ssthresh(&limited(21, 99), &ack_at(0)), 10);
        assert_eq!(Reno.ssthresh(&limited(1, 99), &ack_at(0)), 2);
    }
}
