//! CAIA delay-gradient (D. Hayes, G. Armitage, "Revisiting TCP congestion control using delay gradients",
//! NETWORKING 2011; K. K. Jonassen, "Implementing CAIA Delay-Gradient in Linux", 2015), as `tcp_cdg.c`: the probability of a
//! back-off grows with the gradient of the RTT, and a loss halves the window that there would be without back-offs.

use super::bbr::drawn;
use super::{Ack, AckSample, CongestionControl, CwndEvent, Reno, Window};
use crate::packet::seq::Seq;

/// Parameters of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// Fixed result of every draw against the probability of a back-off, to replay a recorded transfer;
    /// `None`: drawn from the connection's random stream.
    pub draw: Option<u32>,
}

/// CDG's state (`struct cdg`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdg {
    params: Params,
    /// Lowest and highest RTT of this round trip and of the one before, µs; 0 without samples.
    rtt: MinMax,
    rtt_prev: MinMax,
    /// The latest gradients, their sum, the index of the next one, and whether all are filled.
    gradients: [MinMax; WINDOW],
    sum: MinMax,
    tail: usize,
    filled: bool,
    /// The reduction under way is a back-off (`CDG_BACKOFF`).
    backs_off: bool,
    /// Delayed ACKs to expect, up to 5.
    delayed_acks: u32,
    /// What is acknowledged beyond this ends the round trip.
    round_end: Seq,
    /// What the window would be if there had been no back-offs.
    shadow_window: u32,
    /// Back-offs since the RTT last fell.
    backoffs: u32,
    /// RTT samples in this round trip, up to 8.
    samples: u32,
    /// Lowest RTT ever, µs; 0 without samples.
    delay_min: u32,
    /// Arrival of the latest ACK of a train, and of its first one, µs; 0 if there is none.
    last_ack: u32,
    train_began: u32,
    draws: u32,
}

/// Lowest and highest, µs, or how they changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct MinMax {
    min: i32,
    max: i32,
}

/// `window`: gradients that are averaged.
const WINDOW: usize = 8;
/// `backoff_beta`: what a back-off leaves, in 1/1024.
const BACKOFF_BETA: u32 = 724;
/// `backoff_factor`: the sum of the gradients in µs times this is the exponent in millionths.
const BACKOFF_FACTOR: u32 = 42;
/// `use_ineff`: after this many back-offs in a row without effect, further ones are skipped.
const INEFFECTIVE: u32 = 5;
/// ACKs closer together than this belong to one train, µs.
const TRAIN_GAP: u32 = 3_000;
/// Lower bound of both thresholds of HyStart, µs.
const SHORTEST: u32 = 125;
/// Samples before HyStart looks at delay.
const MIN_SAMPLES: u32 = 8;
/// Delayed ACKs that are remembered.
const MOST_DELAYED: u32 = 5;
/// The RTT falls if a gradient is this, µs.
const FALLS: i32 = -32;

impl Cdg {
    /// A fresh module.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            rtt: MinMax::default(),
            rtt_prev: MinMax::default(),
            gradients: [MinMax::default(); WINDOW],
            sum: MinMax::default(),
            tail: 0,
            filled: false,
            backs_off: false,
            delayed_acks: 0,
            round_end: Seq(0),
            shadow_window: 0,
            backoffs: 0,
            samples: 0,
            delay_min: 0,
            last_ack: 0,
            train_began: 0,
            draws: 0,
        }
    }

    fn begin(&mut self, window: &Window, ack: &Ack) {
        let draws = self.draws;
        *self = Self::new(self.params);
        self.draws = draws;
        self.round_end = ack.snd_nxt;
        self.shadow_window = window.snd_cwnd;
    }

    /// Slow start ends when a train of ACKs is longer than half the minimum RTT, or when the RTT has risen by an
    /// eighth (`tcp_cdg_hystart_update`).
    fn hystart(&mut self, window: &mut Window, ack: &Ack) {
        let (delay, lowest) = (self.rtt.min as u32, self.delay_min);
        self.delay_min = if lowest == 0 || (delay != 0 && delay < lowest) { delay } else { lowest };
        if self.delay_min == 0 {
            return;
        }
        let now = ack.now_us as u32;
        if self.last_ack == 0 || !window.cwnd_limited() {
            self.last_ack = now;
            self.train_began = now;
        } else if (now.wrapping_sub(self.last_ack.wrapping_add(TRAIN_GAP)) as i32) < 0 {
            let one_way = (self.delay_min / 2).max(SHORTEST);
            self.last_ack = now;
            if (now.wrapping_sub(self.train_began.wrapping_add(one_way)) as i32) > 0 {
                window.snd_ssthresh = window.snd_cwnd.max(2);
                window.hystart.train = true;
                return;
            }
        }
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let threshold = self.delay_min.saturating_add(self.delay_min / 8).max(SHORTEST);
            if delay > threshold {
                window.snd_ssthresh = window.snd_cwnd.max(2);
                window.hystart.delay = true;
            }
        }
    }

    /// How much the RTT rises over eight round trips, µs (`tcp_cdg_grad`).
    fn gradient(&mut self) -> i32 {
        let new = self.rtt.less(self.rtt_prev);
        self.sum = self.sum.plus(new).less(self.gradients[self.tail]);
        self.gradients[self.tail] = new;
        self.tail = (self.tail + 1) % WINDOW;
        let MinMax { min, max } = self.sum;
        let mut gradient = if min > 0 { min } else { max };
        if !self.filled {
            if self.tail == 0 {
                self.filled = true;
            } else {
                // Extrapolate from the gradients known so far.
                gradient = gradient.wrapping_mul(WINDOW as i32) / self.tail as i32;
            }
        }
        if min <= FALLS || max <= FALLS {
            self.backoffs = 0;
        }
        gradient
    }

    /// Draws whether to back off (`tcp_cdg_backoff`).
    fn backs_off_now(&mut self, gradient: u32, window: &mut Window, ack: &Ack) -> bool {
        self.draws = self.draws.wrapping_add(1);
        let draw = self.params.draw.unwrap_or_else(|| drawn(ack.iss, self.draws));
        if draw <= negative_exponential(gradient.wrapping_mul(BACKOFF_FACTOR)) {
            return false;
        }
        self.backoffs = self.backoffs.wrapping_add(1);
        if self.backoffs > INEFFECTIVE {
            return false;
        }
        self.shadow_window = self.shadow_window.max(window.snd_cwnd);
        self.backs_off = true;
        window.wants_reduction = true;
        true
    }

    /// Later measurements belong to another window.
    fn start_round(&mut self, ack: &Ack) {
        self.round_end = ack.snd_nxt;
        self.rtt_prev = self.rtt;
        self.rtt = MinMax::default();
    }
}

impl MinMax {
    fn plus(self, other: Self) -> Self {
        Self { min: self.min.wrapping_add(other.min), max: self.max.wrapping_add(other.max) }
    }

    fn less(self, other: Self) -> Self {
        Self { min: self.min.wrapping_sub(other.min), max: self.max.wrapping_sub(other.max) }
    }

    fn is_known(self) -> bool {
        self != Self::default()
    }
}

/// 2^32 e^-x, for x in millionths (`nexp_u32`): a product over the bits of x / 256, with linear interpolation
/// of the remainder.
fn negative_exponential(x: u32) -> u32 {
    let mut bits = x >> 8;
    if bits > 0xffff {
        return 0;
    }
    let mut result = u32::MAX - (x & 0xff) * (u32::MAX / 1_000_000);
    for factor in POWERS {
        if bits & 1 == 1 {
            result = ((u64::from(result) * factor) >> 16) as u32;
        }
        bits >>= 1;
    }
    result
}

/// 2^16 e^(-0.000256 2^n).
const POWERS: [u64; 16] = [
    65_519, 65_502, 65_469, 65_402, 65_268, 65_001, 64_471, 63_423, 61_379, 57_485, 50_423, 38_796,
    22_966, 8_048, 988, 15,
];

impl CongestionControl for Cdg {
    /// The RTT of the handshake is measured before `init`, and counts.
    fn init(&mut self, window: &mut Window, ack: &Ack) {
        let rtt = self.rtt;
        self.begin(window, ack);
        self.rtt = rtt;
    }

    fn ssthresh(&mut self, window: &Window, _ack: &Ack) -> u32 {
        let cwnd = window.snd_cwnd;
        if self.backs_off {
            return ((u64::from(cwnd) * u64::from(BACKOFF_BETA)) >> 10).max(2) as u32;
        }
        // A loss: the window that there would be without back-offs is halved.
        self.shadow_window = (self.shadow_window >> 1).min(cwnd);
        self.shadow_window.max(cwnd >> 1).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        if window.in_slow_start() {
            self.hystart(window, ack);
        }
        if ack.snd_una.after(self.round_end) && self.rtt.is_known() {
            let gradient = if self.rtt_prev.is_known() { self.gradient() } else { 0 };
            self.start_round(ack);
            self.last_ack = 0;
            self.samples = 0;
            if gradient > 0 && self.backs_off_now(gradient as u32, window, ack) {
                return;
            }
        }
        if !window.cwnd_limited() {
            self.shadow_window = self.shadow_window.min(window.snd_cwnd);
            return;
        }
        let before = window.snd_cwnd;
        Reno.cong_avoid(window, ack, acked);
        let growth = window.snd_cwnd.wrapping_sub(before);
        self.shadow_window = self.shadow_window.max(self.shadow_window.wrapping_add(growth));
    }

    fn pkts_acked(&mut self, _window: &mut Window, ack: &Ack, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) else { return };
        let rtt = rtt_us as i32;
        // The RTT of a delayed ACK counts only if it is the lowest.
        if ack.sacked_out == 0 {
            if sample.pkts_acked == 1 && self.delayed_acks > 0 {
                self.rtt.min = self.rtt.min.min(rtt);
                self.delayed_acks -= 1;
                return;
            }
            if sample.pkts_acked > 1 && self.delayed_acks < MOST_DELAYED {
                self.delayed_acks += 1;
            }
        }
        self.rtt.min = if self.rtt.min == 0 { rtt } else { self.rtt.min.min(rtt) };
        self.rtt.max = self.rtt.max.max(rtt);
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        match event {
            CwndEvent::CwndRestart => self.begin(window, ack),
            CwndEvent::CompleteCwr => {
                self.backs_off = false;
                self.start_round(ack);
            }
            CwndEvent::TxStart | CwndEvent::Loss => {}
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
    fn the_exponential_is_right_to_a_thousandth() {
        for x in [0, 100, 255, 256, 1_000, 10_000, 333_000, 1_000_000, 5_000_000, 16_000_000] {
            let exact = (-f64::from(x) / 1e6).exp() * f64::from(u32::MAX);
            let off = (f64::from(negative_exponential(x)) - exact).abs();
            assert!(off <= exact / 1_000.0 + 3_000.0, "{x}: off by {off} of {exact}");
        }
        assert_eq!(negative_exponential(u32::MAX), 0);
    }

    /// P(back-off) = 1 - e^(-gradient / G), with G = 3 ms and the gradient the mean of eight.
    #[test]
    fn back_offs_are_as_likely_as_the_paper_says() {
        let mut cdg = Cdg::new(Params::default());
        let mut taken = 0;
        for n in 0..4_000 {
            let ack = Ack { iss: Seq(n), ..ack_at(0) };
            cdg.backoffs = 0;
            taken += u32::from(cdg.backs_off_now(8 * 2_976, &mut Window::new(10), &ack));
        }
        assert!((2_440..2_620).contains(&taken), "{taken} of 4000, expected 63.2 %");
    }

    #[test]
    fn a_back_off_takes_three_tenths_and_the_loss_after_it_nothing_more() {
        let mut cdg = Cdg::new(Params { draw: Some(u32::MAX) });
        let mut window = Window { snd_ssthresh: 2, ..Window::new(100) };
        cdg.init(&mut window, &ack_at(0));
        assert!(cdg.backs_off_now(10_000, &mut window, &ack_at(0)));
        assert!(window.wants_reduction);
        window.snd_cwnd = cdg.ssthresh(&window, &ack_at(0));
        assert_eq!(window.snd_cwnd, 70);
        cdg.cwnd_event(&mut window, &ack_at(0), CwndEvent::CompleteCwr);
        assert_eq!(cdg.ssthresh(&window, &ack_at(0)), 50, "half of the shadow window of 100");
    }
}
