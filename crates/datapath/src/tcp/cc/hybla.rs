//! TCP Hybla (C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks",
//! International Journal of Satellite Communications and Networking 22(5), 2004), as `tcp_hybla.c`: grows over a
//! satellite as fast as Reno does over a path of 25 ms.

use super::{Ack, CaState, CongestionControl, Reno, Window};
use core::num::NonZeroU32;

/// Hybla's state (`struct hybla`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hybla {
    /// Nothing is lost (`hybla_en`).
    enabled: bool,
    /// Growth of less than a segment, in 1/128 (`snd_cwnd_cents`).
    cents: u32,
    /// RTT over 25 ms: whole, and in 1/8 (`rho`, `rho_3ls`).
    rho: u32,
    rho_8: u32,
    /// Its square in 1/128 (`rho2_7ls`).
    rho_squared_128: u32,
    /// Lowest smoothed RTT, µs times 8.
    min_srtt_us_8: u32,
}

/// The RTT that Reno's growth is compared with, ms (`rtt0`).
const RTT0_MS: u32 = 25;
/// Largest window, segments.
const CLAMP: u32 = 65_535;
/// 2^(n/8) in 1/128.
const ROOTS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];

impl Hybla {
    fn recalc_param(&mut self, srtt_us_8: u32) {
        self.rho_8 = (srtt_us_8 / (RTT0_MS * 1_000)).max(8);
        self.rho = self.rho_8 >> 3;
        self.rho_squared_128 = self.rho_8.wrapping_mul(self.rho_8) << 1;
    }
}

fn srtt_us_8(ack: &Ack) -> u32 {
    ack.srtt_us_8.map_or(0, NonZeroU32::get)
}

impl CongestionControl for Hybla {
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        let srtt = srtt_us_8(ack);
        *self = Self { enabled: true, min_srtt_us_8: srtt, ..Self::default() };
        self.recalc_param(srtt);
        window.snd_cwnd_clamp = CLAMP;
        window.snd_cwnd = self.rho;
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        Reno.ssthresh(window, ack)
    }

    /// 2^rho - 1 segments an ACK in slow start, rho^2 / cwnd after it.
    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        let srtt = srtt_us_8(ack);
        if srtt < self.min_srtt_us_8 {
            self.recalc_param(srtt);
            self.min_srtt_us_8 = srtt;
        }
        if !window.cwnd_limited() {
            return;
        }
        if !self.enabled {
            return Reno.cong_avoid(window, ack, acked);
        }
        let slow_start = window.in_slow_start();
        let growth = if slow_start {
            let root = ROOTS[(self.rho_8 & 7) as usize];
            (root << self.rho.min(16)) - 128
        } else {
            let growth = self.rho_squared_128 / window.snd_cwnd.max(1);
            if growth < 128 {
                window.snd_cwnd_cnt += 1;
            }
            growth
        };
        window.snd_cwnd = window.snd_cwnd.saturating_add(growth >> 7);
        self.cents += growth % 128;
        while self.cents >= 128 {
            window.snd_cwnd = window.snd_cwnd.saturating_add(1);
            self.cents -= 128;
            window.snd_cwnd_cnt = 0;
        }
        // The window is so large that an ACK adds less than a hundredth of a segment.
        if growth == 0 && window.snd_cwnd_cnt >= window.snd_cwnd {
            window.snd_cwnd += 1;
            window.snd_cwnd_cnt = 0;
        }
        if slow_start {
            window.snd_cwnd = window.snd_cwnd.min(window.snd_ssthresh);
        }
        window.snd_cwnd = window.snd_cwnd.min(window.snd_cwnd_clamp);
    }

    fn set_state(&mut self, _window: &mut Window, _ack: &Ack, new: CaState) {
        self.enabled = new == CaState::Open;
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    fn over(rtt_ms: u32, cwnd: u32, ssthresh: u32, acks: u32) -> u32 {
        let ack = Ack { srtt_us_8: NonZeroU32::new(rtt_ms * 8_000), ..ack_at(0) };
        let mut hybla = Hybla::default();
        let mut window = Window::new(10);
        hybla.init(&mut window, &ack);
        window.snd_cwnd = cwnd;
        window.snd_ssthresh = ssthresh;
        window.is_cwnd_limited = true;
        (0..acks).for_each(|_| hybla.cong_avoid(&mut window, &ack, 1));
        window.snd_cwnd
    }

    /// The paper's equation 6: 2^rho - 1, and rho^2 / W.
    #[test]
    fn growth_is_that_of_reno_over_25_ms() {
        assert_eq!(over(25, 10, 1_000, 10), 20, "slow start at 25 ms is Reno's");
        assert_eq!(over(100, 10, 1_000, 1), 25, "and 15 segments an ACK at 100 ms");
        assert_eq!(over(100, 100, 2, 100), 114, "16 segments a round trip, rounded down each time");
        assert_eq!(over(25, 10, 2, 10), 10, "one a round trip at 25 ms, less what is cut off");
        assert_eq!(over(25, 10, 2, 11), 11);
    }
}
