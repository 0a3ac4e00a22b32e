//! A token-bucket policer lets a burst through and then drops what exceeds its rate. Two intervals
//! of heavy loss at about the same delivery rate mean that one is at work: the flow then keeps to
//! that rate for 48 round trips (`bbr_lt_bw_*`).

use super::{BBR_SCALE, BBR_UNIT, BW_UNIT, Bbr, Mode, pacing};
use crate::tcp::cc::{Ack, RateSample};

/// An interval has at least so many round trips (`bbr_lt_intvl_min_rtts`).
const INTERVAL_ROUNDS: u32 = 4;
/// Share of packets lost, in 1/256, from which on losses are heavy (`bbr_lt_loss_thresh`).
const LOSS_SHARE: u32 = 50;
/// Two rates are about the same when they differ by an eighth at most (`bbr_lt_bw_ratio`) ...
const SAME_SHARE: u32 = BBR_UNIT / 8;
/// ... or by 4 kbit/s, in byte/s (`bbr_lt_bw_diff`).
const SAME_BYTES: u64 = 4_000 / 8;
/// For so many round trips the rate is kept to (`bbr_lt_bw_max_rtts`).
const KEPT_ROUNDS: u32 = 48;

/// State of the long-term sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LongTerm {
    sampling: bool,
    in_use: bool,
    /// Round trips of this interval, or since the rate is in use.
    rounds: u32,
    /// The rate of the latest interval; 0 = none.
    bw: u32,
    /// When the interval began, ms, and what was delivered and lost until then.
    began_ms: u32,
    began_delivered: u32,
    began_lost: u32,
}

impl LongTerm {
    /// The policer's rate, if the flow keeps to one.
    pub fn rate_in_use(&self) -> Option<u32> {
        self.in_use.then_some(self.bw)
    }

    /// Begins anew (`bbr_reset_lt_bw_sampling`).
    pub fn reset(&mut self, ack: &Ack) {
        *self = Self::default();
        self.begin_interval(ack);
    }

    /// `bbr_reset_lt_bw_sampling_interval`.
    fn begin_interval(&mut self, ack: &Ack) {
        self.began_ms = (ack.delivered_us / 1_000) as u32;
        self.began_delivered = ack.delivered;
        self.began_lost = ack.lost;
        self.rounds = 0;
    }

    /// `bw` is about the rate of the interval before. In 32 bits, as the kernel computes it.
    fn is_same(&self, bw: u32, ack: &Ack) -> bool {
        let difference = bw.abs_diff(self.bw);
        difference.wrapping_mul(BBR_UNIT) <= SAME_SHARE.wrapping_mul(self.bw)
            || pacing::bytes_per_second(u64::from(difference), BBR_UNIT, ack.mss) <= SAME_BYTES
    }
}

impl Bbr {
    /// One ACK's part in it (`bbr_lt_bw_sampling`).
    pub(super) fn sample_long_term(&mut self, ack: &Ack, sample: &RateSample) {
        if self.long_term.in_use {
            self.keep_to_policer(ack);
            return;
        }
        let state = &mut self.long_term;
        // An interval begins and ends with a loss: then the policer's bucket is empty.
        if !state.sampling {
            if sample.losses == 0 {
                return;
            }
            state.begin_interval(ack);
            state.sampling = true;
        }
        if sample.is_app_limited {
            state.reset(ack);
            return;
        }
        state.rounds += u32::from(self.round_start);
        if state.rounds < INTERVAL_ROUNDS {
            return;
        }
        if state.rounds > 4 * INTERVAL_ROUNDS {
            state.reset(ack);
            return;
        }
        if sample.losses > 0 {
            self.end_interval(ack);
        }
    }

    /// The rate is in use: after a while it is probed whether the policer is still there.
    fn keep_to_policer(&mut self, ack: &Ack) {
        if self.mode == Mode::ProbeBw && self.round_start {
            self.long_term.rounds += 1;
            if self.long_term.rounds >= KEPT_ROUNDS {
                self.long_term.reset(ack);
                self.enter_probe_bw(ack);
            }
        }
    }

    /// If losses were heavy, the interval's rate counts.
    fn end_interval(&mut self, ack: &Ack) {
        let state = &mut self.long_term;
        let lost = ack.lost.wrapping_sub(state.began_lost);
        let delivered = ack.delivered.wrapping_sub(state.began_delivered);
        if delivered == 0 || lost << BBR_SCALE < LOSS_SHARE.wrapping_mul(delivered) {
            return;
        }
        let span_ms = ((ack.delivered_us / 1_000) as u32).wrapping_sub(state.began_ms);
        if (span_ms as i32) < 1 {
            return;
        }
        if span_ms >= u32::MAX / 1_000 {
            state.reset(ack);
            return;
        }
        let bw = (u64::from(delivered) * BW_UNIT / u64::from(span_ms * 1_000)) as u32;
        // (`bbr_lt_bw_interval_done`)
        if state.bw > 0 && state.is_same(bw, ack) {
            state.bw = bw.wrapping_add(state.bw) >> 1;
            state.in_use = true;
            state.rounds = 0;
            self.pacing_gain = BBR_UNIT;
            return;
        }
        state.bw = bw;
        state.begin_interval(ack);
    }
}
