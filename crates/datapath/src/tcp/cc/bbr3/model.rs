//! "Updating Network Path Model Parameters": round trips, the highest rate, the latest deliveries,
//! aggregation.

use super::{Bbr3, State};
use crate::tcp::cc::bbr::BW_UNIT;
use crate::tcp::cc::{Ack, RateSample, Window};

/// Round trips that `extra_acked` is remembered for (`BBR.ExtraAckedFilterLen`); in Startup: one.
const EXTRA_ACKED_FILTER_LEN: u32 = 10;

/// `RS.delivery_rate`; 0 if the ACK gives no sample.
pub fn delivery_rate(rs: &RateSample) -> u32 {
    match rs.delivered {
        Some(delivered) if rs.interval_us > 0 => {
            (u64::from(delivered) * BW_UNIT / rs.interval_us) as u32
        }
        _ => 0,
    }
}

/// The ACK delivers a packet that was sent when at least `delivered` was delivered.
fn was_sent_after(rs: &RateSample, delivered: u32) -> bool {
    rs.prior_us.is_some() && rs.prior_delivered.wrapping_sub(delivered) as i32 >= 0
}

impl Bbr3 {
    /// "BBR.max_bw Max Filter": of this cycle and the one before.
    pub(super) fn max_bw(&self) -> u32 {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// "Tracking Time for the BBR.max_bw Max Filter": `AdvanceMaxBwFilter`. A cycle without any
    /// sample does not count.
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] > 0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0];
        }
    }

    /// "BBR.round_count: Tracking Packet-Timed Round Trips": `StartRound`.
    pub(super) fn start_round(&mut self, ack: &Ack) {
        self.next_round_delivered = ack.delivered;
    }

    /// The same: `UpdateRound`.
    fn update_round(&mut self, ack: &Ack, rs: &RateSample) {
        self.round_start = was_sent_after(rs, self.next_round_delivered);
        if self.round_start {
            self.start_round(ack);
            self.round_count = self.round_count.wrapping_add(1);
            self.rounds_since_probe_up = self.rounds_since_probe_up.saturating_add(1);
        }
    }

    /// "Updating the BBR.max_bw Max Filter": `UpdateMaxBw`.
    fn update_max_bw(&mut self, ack: &Ack, rs: &RateSample) {
        self.update_round(ack, rs);
        let rate = delivery_rate(rs);
        if rate > 0 && (rate >= self.max_bw() || !rs.is_app_limited) {
            self.max_bw_filter[1] = self.max_bw_filter[1].max(rate);
        }
    }

    /// "When not Probing for Bandwidth": `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery_signals(&mut self, ack: &Ack, rs: &RateSample) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(delivery_rate(rs));
        self.inflight_latest = self.inflight_latest.max(rs.delivered.unwrap_or(0));
        if was_sent_after(rs, self.loss_round_delivered) {
            self.loss_round_delivered = ack.delivered;
            self.loss_round_start = true;
        }
    }

    /// The same: `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = delivery_rate(rs);
            self.inflight_latest = rs.delivered.unwrap_or(0);
        }
    }

    /// The same: `UpdateCongestionSignals`. Startup reads the count of ranges lost in a round, so the
    /// count is reset only after that.
    pub(super) fn update_congestion_signals(
        &mut self,
        window: &Window,
        ack: &Ack,
        rs: &RateSample,
    ) {
        self.update_max_bw(ack, rs);
        if !self.loss_round_start {
            return;
        }
        self.adapt_lower_bounds_from_congestion(window);
        self.is_loss_in_round = false;
    }

    /// "BBR.extra_acked": `UpdateACKAggregation`.
    pub(super) fn update_ack_aggregation(&mut self, window: &Window, ack: &Ack, rs: &RateSample) {
        let interval = ack.now_us.saturating_sub(self.extra_acked_interval_start);
        let mut expected = (u64::from(self.bw).saturating_mul(interval) / BW_UNIT) as u32;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = ack.now_us;
            expected = 0;
        }
        self.extra_acked_delivered = self.extra_acked_delivered.saturating_add(rs.acked_sacked);
        let extra = (self.extra_acked_delivered.saturating_sub(expected)).min(window.snd_cwnd);
        let len = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked_filter.sample(len, self.round_count, extra);
    }

    /// "ProbeBW Algorithm Details": `IsProbingBW`.
    pub(super) fn is_probing_bw(&self) -> bool {
        matches!(self.state, State::Startup | State::ProbeBwRefill | State::ProbeBwUp)
    }
}
