//! TCP Veno (C. P. Fu, S. C. Liew, "TCP Veno: TCP Enhancement for Transmission over Wireless
//! Access Networks", JSAC 21(2), 2003), as `tcp_veno.c`: Reno with a smaller reduction if the queue is
//! short, because such a loss comes from the radio link.

use super::{Ack, AckSample, CaState, CongestionControl, CwndEvent, Reno, Window};

/// Veno's state (`struct veno`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Veno {
    /// Veno is active: nothing was lost (`doing_veno_now`).
    enabled: bool,
    /// RTT samples in all (`cntrtt`).
    rtt_count: u16,
    /// Lowest RTT since the latest growth, and ever, µs and one more; [`UNKNOWN`] without samples.
    min_rtt: u32,
    base_rtt: u32,
    /// The window grows at the end of this round trip, not of the next (`inc`).
    grows: bool,
    /// Segments in the queue, in halves (`diff`).
    diff: u32,
}

/// More than any RTT, µs.
const UNKNOWN: u32 = 0x7fff_ffff;
/// `V_PARAM_SHIFT`.
const SHIFT: u32 = 1;
/// Queue length that counts as congestion, in half segments.
const BETA: u32 = 3 << SHIFT;

impl Default for Veno {
    fn default() -> Self {
        Self {
            enabled: true,
            rtt_count: 0,
            min_rtt: UNKNOWN,
            base_rtt: UNKNOWN,
            grows: true,
            diff: 0,
        }
    }
}

impl Veno {
    fn enable(&mut self) {
        self.enabled = true;
        self.min_rtt = UNKNOWN;
    }

    /// `veno_init`, also after idle times; the number of samples and the queue estimate are kept.
    fn reset(&mut self) {
        self.base_rtt = UNKNOWN;
        self.grows = true;
        self.enable();
    }

    fn grow(&mut self, window: &mut Window, acked: u32) {
        let mut left = acked;
        if window.in_slow_start() {
            left = window.slow_start(acked);
            if left == 0 {
                return;
            }
        }
        if self.diff < BETA {
            window.additive_increase(window.snd_cwnd, left);
        } else if window.snd_cwnd_cnt >= window.snd_cwnd {
            // The queue is used: one segment every other round trip.
            if self.grows && window.snd_cwnd < window.snd_cwnd_clamp {
                window.snd_cwnd += 1;
                self.grows = false;
            } else {
                self.grows = true;
            }
            window.snd_cwnd_cnt = 0;
        } else {
            window.snd_cwnd_cnt += left;
        }
    }
}

impl CongestionControl for Veno {
    fn init(&mut self, _window: &mut Window, _ack: &Ack) {
        self.reset();
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cwnd = u64::from(window.snd_cwnd);
        let left = if self.diff < BETA { cwnd * 4 / 5 } else { cwnd >> 1 };
        (left as u32).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !self.enabled {
            return Reno.cong_avoid(window, ack, acked);
        }
        if !window.cwnd_limited() {
            return;
        }
        if self.rtt_count <= 2 {
            Reno.cong_avoid(window, ack, acked);
        } else {
            let cwnd = u64::from(window.snd_cwnd);
            let target = ((cwnd * u64::from(self.base_rtt)) << SHIFT) / u64::from(self.min_rtt);
            self.diff = (window.snd_cwnd << SHIFT).wrapping_sub(target as u32);
            self.grow(window, acked);
            window.snd_cwnd = window.snd_cwnd.max(2).min(window.snd_cwnd_clamp);
        }
        self.min_rtt = UNKNOWN;
    }

    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt = rtt_us.saturating_add(1);
        self.base_rtt = self.base_rtt.min(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        self.rtt_count = self.rtt_count.wrapping_add(1);
    }

    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, new: CaState) {
        if new == CaState::Open {
            self.enable();
        } else {
            self.enabled = false;
        }
    }

    fn cwnd_event(&mut self, _window: &mut Window, _ack: &Ack, event: CwndEvent) {
        if matches!(event, CwndEvent::CwndRestart | CwndEvent::TxStart) {
            self.reset();
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
    fn a_loss_with_an_empty_queue_costs_a_fifth_and_with_a_full_one_half() {
        for (rtt_us, ssthresh) in [(10_000, 40), (12_000, 25)] {
            let mut veno = Veno::default();
            let mut window = Window { snd_ssthresh: 2, ..Window::new(50) };
            window.is_cwnd_limited = true;
            for rtt_us in [10_000, 10_000, rtt_us, rtt_us] {
                let sample = AckSample { pkts_acked: 1, rtt_us: Some(rtt_us), in_flight: 49 };
                veno.pkts_acked(&mut window, &ack_at(0), &sample);
                veno.cong_avoid(&mut window, &ack_at(0), 1);
            }
            assert_eq!(veno.ssthresh(&window, &ack_at(0)), ssthresh, "{rtt_us}");
        }
    }
}
