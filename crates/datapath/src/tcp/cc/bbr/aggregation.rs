//! ACKs that come in bunches (wireless links, offloads, thinned ACKs) would leave a window of two
//! BDP empty between them. How many packets they bring beyond what the rate explains is added to
//! the window (`bbr_update_ack_aggregation`).

use super::{BW_UNIT, Bbr};
use crate::tcp::cc::{Ack, RateSample, Window};

/// The maximum is taken over two windows of so many round trips each (`bbr_extra_acked_win_rtts`).
const WINDOW_ROUNDS: u8 = 5;
/// An epoch ends when so many packets are counted (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_MAX: u32 = 1 << 20;
/// The window grows for at most that much time at the estimated rate, µs
/// (`bbr_extra_acked_max_us`).
const MAX_US: u64 = 100_000;

/// State of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Aggregation {
    /// When ACKs began to come faster than the rate, µs.
    epoch_us: u64,
    /// Packets acknowledged since.
    epoch_acked: u32,
    /// Most packets in excess, in each of the two windows.
    extra_acked: [u16; 2],
    /// Round trips in the present window.
    rounds: u8,
    /// Which of the two it is.
    index: usize,
}

impl Aggregation {
    /// A new epoch begins; what was found so far stays.
    pub fn restart(&mut self, now_us: u64) {
        self.epoch_us = now_us;
        self.epoch_acked = 0;
    }

    fn extra_acked(&self) -> u32 {
        u32::from(self.extra_acked[0].max(self.extra_acked[1]))
    }
}

impl Bbr {
    pub(super) fn update_ack_aggregation(
        &mut self,
        window: &Window,
        ack: &Ack,
        sample: &RateSample,
    ) {
        if sample.acked_sacked == 0 || sample.delivered.is_none() || sample.interval_us == 0 {
            return;
        }
        let bw = u64::from(self.bw());
        let state = &mut self.aggregation;
        if self.round_start {
            state.rounds = (state.rounds + 1).min(0x1f);
            if state.rounds >= WINDOW_ROUNDS {
                state.rounds = 0;
                state.index ^= 1;
                state.extra_acked[state.index] = 0;
            }
        }
        let epoch_us = ack.delivered_us.saturating_sub(state.epoch_us);
        let mut expected = (bw.wrapping_mul(epoch_us) / BW_UNIT) as u32;
        let restart =
            state.epoch_acked <= expected || state.epoch_acked + sample.acked_sacked >= EPOCH_MAX;
        if restart {
            state.restart(ack.delivered_us);
            expected = 0;
        }
        state.epoch_acked = (state.epoch_acked + sample.acked_sacked).min(EPOCH_MAX - 1);
        let extra = (state.epoch_acked.wrapping_sub(expected)).min(window.snd_cwnd);
        if extra > u32::from(state.extra_acked[state.index]) {
            state.extra_acked[state.index] = extra as u16;
        }
    }

    /// Segments to add to the window (`bbr_ack_aggregation_cwnd`).
    pub(super) fn aggregation_cwnd(&self) -> u32 {
        if !self.full_bw_reached {
            return 0;
        }
        let most = (u64::from(self.bw()) * MAX_US / BW_UNIT) as u32;
        self.aggregation.extra_acked().min(most)
    }
}
