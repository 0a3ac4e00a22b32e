//! TCP Vegas (L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global
//! Internet", JSAC 13(8), 1995), as `tcp_vegas.c`.

use super::{Ack, AckSample, CaState, CongestionControl, CwndEvent, Reno, Window};
use crate::packet::seq::Seq;

/// Vegas's state (`struct vegas`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vegas {
    /// What is acknowledged beyond this ends a round trip (`beg_snd_nxt`).
    round_end: Seq,
    /// Vegas is active: nothing was lost (`doing_vegas_now`).
    enabled: bool,
    /// RTT samples in this round trip (`cntRTT`).
    rtt_count: u16,
    /// Lowest RTT in this round trip, and ever, µs and one more; [`UNKNOWN`] without samples.
    min_rtt: u32,
    base_rtt: u32,
}

/// `struct tcpvegas_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VegasInfo {
    /// Vegas is active.
    pub enabled: bool,
    /// RTT samples in this round trip.
    pub rtt_count: u32,
    /// Lowest RTT ever, µs.
    pub rtt: u32,
    /// Lowest RTT in this round trip, µs.
    pub min_rtt: u32,
}

impl VegasInfo {
    /// The structure's bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let words = [u32::from(self.enabled), self.rtt_count, self.rtt, self.min_rtt];
        let mut bytes = [0; 16];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// More than any RTT, µs.
const UNKNOWN: u32 = 0x7fff_ffff;
/// With fewer segments than this in the queue the window grows.
const ALPHA: u32 = 2;
/// With more it shrinks.
const BETA: u32 = 4;
/// With more slow start ends.
const GAMMA: u32 = 1;

impl Default for Vegas {
    fn default() -> Self {
        Self { round_end: Seq(0), enabled: true, rtt_count: 0, min_rtt: UNKNOWN, base_rtt: UNKNOWN }
    }
}

impl Vegas {
    fn enable(&mut self, ack: &Ack) {
        self.enabled = true;
        self.round_end = ack.snd_nxt;
        self.rtt_count = 0;
        self.min_rtt = UNKNOWN;
    }

    /// `tcp_vegas_init`, also after idle times.
    fn reset(&mut self, ack: &Ack) {
        self.base_rtt = UNKNOWN;
        self.enable(ack);
    }

    /// If this ACK ends a round trip: its RTT samples, the lowest of them, and the lowest RTT ever, µs.
    pub(super) fn end_round(&mut self, ack: &Ack) -> Option<(u16, u32, u32)> {
        if !ack.snd_una.after(self.round_end) {
            return None;
        }
        let round = (self.rtt_count, self.min_rtt, self.base_rtt);
        self.round_end = ack.snd_nxt;
        self.rtt_count = 0;
        self.min_rtt = UNKNOWN;
        Some(round)
    }

    /// Once per round trip the window is adjusted to the estimated queue.
    fn adjust(&self, window: &mut Window, acked: u32) {
        let (cwnd, base) = (u64::from(window.snd_cwnd), u64::from(self.base_rtt));
        let target = (cwnd * base / u64::from(self.min_rtt)) as u32;
        let queue = window.snd_cwnd.wrapping_mul(self.min_rtt - self.base_rtt) / self.base_rtt;
        if window.in_slow_start() {
            if queue > GAMMA {
                window.snd_cwnd = window.snd_cwnd.min(target.wrapping_add(1));
                window.snd_ssthresh = window.snd_ssthresh.min(window.snd_cwnd);
            } else {
                window.slow_start(acked);
            }
        } else if queue > BETA {
            window.snd_cwnd -= 1;
            window.snd_ssthresh = window.snd_ssthresh.min(window.snd_cwnd);
        } else if queue < ALPHA {
            window.snd_cwnd += 1;
        }
        window.snd_cwnd = window.snd_cwnd.max(2).min(window.snd_cwnd_clamp);
        if !window.in_cwnd_reduction() {
            // `tcp_current_ssthresh`.
            let most = (window.snd_cwnd >> 1) + (window.snd_cwnd >> 2);
            window.snd_ssthresh = window.snd_ssthresh.max(most);
        }
    }
}

impl CongestionControl for Vegas {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        self.reset(ack);
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        Reno.ssthresh(window, ack)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if !self.enabled {
            return Reno.cong_avoid(window, ack, acked);
        }
        if !ack.snd_una.after(self.round_end) {
            if window.in_slow_start() {
                window.slow_start(acked);
            }
            return;
        }
        self.round_end = ack.snd_nxt;
        // With two samples or fewer, delayed ACKs would look like a queue.
        if self.rtt_count <= 2 {
            Reno.cong_avoid(window, ack, acked);
        } else {
            self.adjust(window, acked);
        }
        self.rtt_count = 0;
        self.min_rtt = UNKNOWN;
    }

    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt = rtt_us.saturating_add(1);
        self.base_rtt = self.base_rtt.min(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        self.rtt_count = self.rtt_count.wrapping_add(1);
    }

    fn set_state(&mut self, _window: &mut Window, ack: &Ack, new: CaState) {
        if new == CaState::Open {
            self.enable(ack);
        } else {
            self.enabled = false;
        }
    }

    fn cwnd_event(&mut self, _window: &mut Window, ack: &Ack, event: CwndEvent) {
        if matches!(event, CwndEvent::CwndRestart | CwndEvent::TxStart) {
            self.reset(ack);
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }

    fn get_info(&self, _ack: &Ack) -> Option<super::CcInfo> {
        Some(super::CcInfo::Vegas(VegasInfo {
            enabled: self.enabled,
            rtt_count: u32::from(self.rtt_count),
            rtt: self.base_rtt,
            min_rtt: self.min_rtt,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    #[test]
    fn the_window_keeps_two_to_four_segments_in_the_queue() {
        for (rtt_us, cwnd) in [(10_000, 51), (10_500, 50), (11_500, 49)] {
            let mut vegas = Vegas::default();
            let mut window = Window { snd_ssthresh: 2, ..Window::new(50) };
            let mut ack = ack_at(0);
            vegas.init(&mut window, &ack);
            for rtt_us in [rtt_us; 3] {
                let sample = AckSample { pkts_acked: 1, rtt_us: Some(rtt_us), in_flight: 49 };
                vegas.pkts_acked(&mut window, &ack, &sample);
            }
            vegas.base_rtt = 10_001;
            ack.snd_una = ack.snd_nxt + 1_448;
            vegas.cong_avoid(&mut window, &ack, 1);
            assert_eq!(window.snd_cwnd, cwnd, "{rtt_us}");
        }
    }
}
