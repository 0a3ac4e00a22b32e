//! The window: gain times BDP, and some segments more for what bursts need. It bounds what is in
//! flight where the model errs; the pacing rate is what steers.

use super::pacing::tso_segs_goal;
use super::{BBR_SCALE, BW_UNIT, Bbr, Mode};
use crate::tcp::cc::{Ack, RateSample, Window};
use crate::trace::CaState;

/// The least window: enough to keep an ACK clock with delayed ACKs (`bbr_cwnd_min_target`).
pub const MIN_TARGET: u32 = 4;
/// `TCP_INIT_CWND`.
const INIT_CWND: u32 = 10;

impl Bbr {
    /// Keeps the window for the time after recovery or PROBE_RTT (`bbr_save_cwnd`).
    pub(super) fn save_cwnd(&mut self, window: &Window) {
        self.prior_cwnd = if self.prev_ca_state < CaState::Recovery && self.mode != Mode::ProbeRtt {
            window.snd_cwnd
        } else {
            self.prior_cwnd.max(window.snd_cwnd)
        };
    }

    /// `gain` times the bandwidth-delay product, segments, rounded up (`bbr_bdp`).
    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return INIT_CWND;
        }
        let product = u64::from(bw) * u64::from(self.min_rtt_us);
        (product.wrapping_mul(u64::from(gain)) >> BBR_SCALE).div_ceil(BW_UNIT) as u32
    }

    /// Room for three super-packets, one in each qdisc, sender and receiver; even, so that delayed
    /// ACKs fit; and two more where the faster phase needs them (`bbr_quantization_budget`).
    fn quantization_budget(&self, window: &Window, ack: &Ack, cwnd: u32) -> u32 {
        // A sample of an absurd RTT gives an absurd product; it wraps, as in the kernel.
        let mut cwnd = cwnd.wrapping_add(3 * tso_segs_goal(window, ack));
        cwnd = cwnd.wrapping_add(1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle_idx == 0 {
            cwnd = cwnd.wrapping_add(2);
        }
        cwnd
    }

    /// Segments in flight that `gain` stands for (`bbr_inflight`).
    pub(super) fn inflight(&self, window: &Window, ack: &Ack, bw: u32, gain: u32) -> u32 {
        self.quantization_budget(window, ack, self.bdp(bw, gain))
    }

    /// `bbr_set_cwnd`.
    pub(super) fn set_cwnd(
        &mut self,
        window: &mut Window,
        ack: &Ack,
        sample: &RateSample,
        bw: u32,
        gain: u32,
    ) {
        let acked = sample.acked_sacked;
        let mut cwnd = window.snd_cwnd;
        if acked > 0 {
            let conserved;
            (cwnd, conserved) = self.recover_or_restore(window, ack, sample);
            if !conserved {
                cwnd = self.approach_target(cwnd, window, ack, acked, (bw, gain));
            }
        }
        window.snd_cwnd = cwnd.min(window.snd_cwnd_clamp);
        if self.mode == Mode::ProbeRtt {
            window.snd_cwnd = window.snd_cwnd.min(MIN_TARGET);
        }
    }

    /// Towards the target, by no more than was acknowledged; while the pipe is not full, only up.
    fn approach_target(
        &self,
        cwnd: u32,
        window: &Window,
        ack: &Ack,
        acked: u32,
        (bw, gain): (u32, u32),
    ) -> u32 {
        let target = self.bdp(bw, gain).wrapping_add(self.aggregation_cwnd());
        let target = self.quantization_budget(window, ack, target);
        let cwnd = if self.full_bw_reached {
            (cwnd + acked).min(target)
        } else if cwnd < target || ack.delivered < INIT_CWND {
            cwnd + acked
        } else {
            cwnd
        };
        cwnd.max(MIN_TARGET)
    }

    /// What is lost leaves the window. In the first round trip of recovery one packet is sent for
    /// each that is delivered; afterwards the window is as before. True: the former
    /// (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(
        &mut self,
        window: &Window,
        ack: &Ack,
        sample: &RateSample,
    ) -> (u32, bool) {
        let (before, state) = (self.prev_ca_state, window.ca_state);
        let mut cwnd = window.snd_cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        let conserved = ack.packets_in_flight + sample.acked_sacked;
        if state == CaState::Recovery && before != CaState::Recovery {
            self.packet_conservation = true;
            self.next_rtt_delivered = ack.delivered;
            cwnd = conserved;
        } else if before >= CaState::Recovery && state < CaState::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_ca_state = state;
        if self.packet_conservation {
            return (cwnd.max(conserved), true);
        }
        (cwnd, false)
    }
}
