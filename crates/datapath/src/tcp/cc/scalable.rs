//! Scalable TCP (T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks",
//! CCR 33(2), 2003), as `tcp_scalable.c`.

use super::{Ack, CongestionControl, Window};

/// Scalable TCP: no state of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Scalable;

/// At most so many segments acknowledged bring one more (`TCP_SCALABLE_AI_CNT`).
const AI_CNT: u32 = 100;
/// A loss costs an eighth of the window (`TCP_SCALABLE_MD_SCALE`).
const MD_SCALE: u32 = 3;

impl CongestionControl for Scalable {
    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        (window.snd_cwnd - (window.snd_cwnd >> MD_SCALE)).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, _ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.additive_increase(window.snd_cwnd.min(AI_CNT), left);
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
    fn it_grows_by_a_hundredth_and_loses_an_eighth() {
        let mut window = Window { snd_ssthresh: 100, is_cwnd_limited: true, ..Window::new(1_000) };
        Scalable.cong_avoid(&mut window, &ack_at(0), 1_000);
        assert_eq!(window.snd_cwnd, 1_010);
        assert_eq!(Scalable.ssthresh(&window, &ack_at(0)), 1_010 - 126);
    }
}
