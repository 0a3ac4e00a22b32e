//! PROBE_BW: eight phases of about one RTT each. In the first the flow sends faster, to probe for more
//! bandwidth; in the second slower, to drain the resulting queue; then at the estimated rate.

use super::{BBR_UNIT, Bbr, Mode};
use crate::packet::seq::Seq;
use crate::rng::mix;
use crate::tcp::cc::{Ack, RateSample, Window};

/// The cycle (`bbr_pacing_gain`).
pub const GAINS: [u32; 8] = [
    BBR_UNIT * 5 / 4,
    BBR_UNIT * 3 / 4,
    BBR_UNIT,
    BBR_UNIT,
    BBR_UNIT,
    BBR_UNIT,
    BBR_UNIT,
    BBR_UNIT,
];
/// Number of phases at which a cycle may begin: any but the slower one (`bbr_cycle_rand`).
const FIRST_PHASES: u32 = 7;

impl Bbr {
    /// Begins a cycle at a random phase, so that flows do not probe together
    /// (`bbr_reset_probe_bw_mode`).
    pub(super) fn enter_probe_bw(&mut self, ack: &Ack) {
        self.mode = Mode::ProbeBw;
        let draw = self.params.cycle_draw.map_or_else(|| self.draw(ack), u32::from);
        self.cycle_idx = (GAINS.len() as u32 - 1 - draw % FIRST_PHASES) as u8;
        self.advance_cycle_phase(ack);
    }

    /// The next phase, if this one is over (`bbr_update_cycle_phase`).
    pub(super) fn update_cycle_phase(&mut self, window: &Window, ack: &Ack, sample: &RateSample) {
        if self.mode == Mode::ProbeBw && self.is_next_cycle_phase(window, ack, sample) {
            self.advance_cycle_phase(ack);
        }
    }

    fn advance_cycle_phase(&mut self, ack: &Ack) {
        self.cycle_idx = (self.cycle_idx + 1) % GAINS.len() as u8;
        self.cycle_us = ack.delivered_us;
    }

    /// A phase lasts one minimum RTT. The faster one continues until the flight has reached its target, or
    /// until there is a loss; the slower one ends as soon as the queue is drained
    /// (`bbr_is_next_cycle_phase`).
    fn is_next_cycle_phase(&self, window: &Window, ack: &Ack, sample: &RateSample) -> bool {
        let is_full_length =
            ack.delivered_us.saturating_sub(self.cycle_us) > u64::from(self.min_rtt_us);
        if self.pacing_gain == BBR_UNIT {
            return is_full_length;
        }
        let in_net = self.packets_in_net_at_edt(window, ack, sample.prior_in_flight);
        let bw = self.max_bw.get();
        if self.pacing_gain > BBR_UNIT {
            let target = self.inflight(window, ack, bw, self.pacing_gain);
            return is_full_length && (sample.losses > 0 || in_net >= target);
        }
        is_full_length || in_net <= self.inflight(window, ack, bw, BBR_UNIT)
    }

    fn draw(&mut self, ack: &Ack) -> u32 {
        self.draws = self.draws.wrapping_add(1);
        draw_below(ack.iss, self.draws, FIRST_PHASES)
    }
}

/// A pseudo-random number below `bound`, from the initial sequence number (unpredictable, but determined by the seed) and
/// the number of earlier draws.
pub fn draw_below(iss: Seq, draws: u32, bound: u32) -> u32 {
    ((u64::from(drawn(iss, draws)) * u64::from(bound)) >> 32) as u32
}

/// The same without a bound: 32 bits.
pub fn drawn(iss: Seq, draws: u32) -> u32 {
    let both = u64::from(iss.0) << 32 | u64::from(draws);
    (mix(both.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32) as u32
}
