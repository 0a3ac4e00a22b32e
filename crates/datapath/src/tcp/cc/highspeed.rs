//! HighSpeed TCP (RFC 3649), as `tcp_highspeed.c`.

use super::{Ack, CongestionControl, Window};

/// HighSpeed TCP's state (`struct hstcp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HighSpeed {
    /// The row of [`ROWS`] that the window is in; one more is the growth a round trip (`ai`).
    row: usize,
}

/// RFC 3649 appendix B: up to which window (segments), and what a loss costs there, in 1/256
/// (`hstcp_aimd_vals`).
const ROWS: [(u32, u32); 73] = [
    (38, 128),
    (118, 112),
    (221, 104),
    (347, 98),
    (495, 93),
    (663, 89),
    (851, 86),
    (1_058, 83),
    (1_284, 81),
    (1_529, 78),
    (1_793, 76),
    (2_076, 74),
    (2_378, 72),
    (2_699, 71),
    (3_039, 69),
    (3_399, 68),
    (3_778, 66),
    (4_177, 65),
    (4_596, 64),
    (5_036, 62),
    (5_497, 61),
    (5_979, 60),
    (6_483, 59),
    (7_009, 58),
    (7_558, 57),
    (8_130, 56),
    (8_726, 55),
    (9_346, 54),
    (9_991, 53),
    (10_661, 52),
    (11_358, 52),
    (12_082, 51),
    (12_834, 50),
    (13_614, 49),
    (14_424, 48),
    (15_265, 48),
    (16_137, 47),
    (17_042, 46),
    (17_981, 45),
    (18_955, 45),
    (19_965, 44),
    (21_013, 43),
    (22_101, 43),
    (23_230, 42),
    (24_402, 41),
    (25_618, 41),
    (26_881, 40),
    (28_193, 39),
    (29_557, 39),
    (30_975, 38),
    (32_450, 38),
    (33_986, 37),
    (35_586, 36),
    (37_253, 36),
    (38_992, 35),
    (40_808, 35),
    (42_707, 34),
    (44_694, 33),
    (46_776, 33),
    (48_961, 32),
    (51_258, 32),
    (53_677, 31),
    (56_230, 30),
    (58_932, 30),
    (61_799, 29),
    (64_851, 28),
    (68_113, 28),
    (71_617, 27),
    (75_401, 26),
    (79_517, 26),
    (84_035, 25),
    (89_053, 24),
    (94_717, 23),
];

impl HighSpeed {
    fn find_row(&mut self, cwnd: u32) {
        while cwnd > ROWS[self.row].0 && self.row < ROWS.len() - 1 {
            self.row += 1;
        }
        while self.row > 0 && cwnd <= ROWS[self.row - 1].0 {
            self.row -= 1;
        }
    }
}

/// Largest window (`hstcp_init`), segments.
const CLAMP: u32 = u32::MAX / 128;

impl CongestionControl for HighSpeed {
    fn init(&mut self, window: &mut Window, _ack: &Ack) {
        *self = Self::default();
        window.snd_cwnd_clamp = window.snd_cwnd_clamp.min(CLAMP);
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cost = (u64::from(window.snd_cwnd) * u64::from(ROWS[self.row].1)) >> 8;
        (window.snd_cwnd - cost as u32).max(2)
    }

    /// RFC 3649 section 5: a(w) segments a round trip. The kernel counts ACKs, not segments.
    fn cong_avoid(&mut self, window: &mut Window, _ack: &Ack, acked: u32) {
        if !window.cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
            return;
        }
        self.find_row(window.snd_cwnd);
        if window.snd_cwnd < window.snd_cwnd_clamp {
            window.snd_cwnd_cnt += self.row as u32 + 1;
            if window.snd_cwnd_cnt >= window.snd_cwnd {
                window.snd_cwnd_cnt -= window.snd_cwnd;
                window.snd_cwnd += 1;
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

    #[test]
    fn windows_of_38_are_renos_and_larger_ones_grow_faster_and_lose_less() {
        for (cwnd, acks, ssthresh) in [(38, 38, 19), (100, 50, 57), (1_000, 125, 676)] {
            let mut module = HighSpeed::default();
            let limited = Window { is_cwnd_limited: true, snd_ssthresh: 2, ..Window::new(cwnd) };
            let mut window = limited;
            let count = (1..=cwnd).find(|_| {
                module.cong_avoid(&mut window, &ack_at(0), 1);
                window.snd_cwnd > cwnd
            });
            assert_eq!(count, Some(acks), "{cwnd}");
            assert_eq!(module.ssthresh(&limited, &ack_at(0)), ssthresh, "{cwnd}");
        }
    }
}
