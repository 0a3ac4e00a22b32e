//! "Updating the Model Upon Packet Loss", and "Updating the Model Upon Detecting a Spurious Loss
//! Recovery".

use super::{Bbr3, INFINITY, State};
use crate::tcp::cc::{Ack, LostPacket, Window};

/// More than this share of the flight lost is too much, in percent (`BBR.LossThresh`).
const LOSS_THRESH: u64 = 2;

/// 0.7 of it (`BBR.Beta`).
pub fn beta(value: u32) -> u32 {
    (u64::from(value) * 7 / 10) as u32
}

impl Bbr3 {
    /// "Probing for Bandwidth In ProbeBW": `IsInflightTooHigh`. Packets with CE count as lost ones
    /// ("ECN").
    pub(super) fn is_inflight_too_high(
        ack: &Ack,
        tx_in_flight: u32,
        lost: u32,
        marked: u32,
    ) -> bool {
        let congested = u64::from(lost) + u64::from(marked);
        congested * 100 > u64::from(tx_in_flight) * LOSS_THRESH || (lost > 0 && !ack.has_sack)
    }

    /// The same: `HandleInflightTooHigh`.
    fn handle_inflight_too_high(
        &mut self,
        window: &Window,
        ack: &Ack,
        tx_in_flight: u32,
        is_app_limited: bool,
    ) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            self.inflight_longterm = tx_in_flight.max(beta(self.target_inflight(window)));
        }
        if self.state == State::ProbeBwUp {
            self.undo_state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(ack);
        }
    }

    /// The same: `NoteLoss`.
    pub(super) fn note_loss(&mut self, window: &Window, ack: &Ack) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = ack.delivered;
            self.save_cwnd(window);
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// The same: `HandleLostPacket`.
    pub(super) fn handle_lost_packet(&mut self, window: &Window, ack: &Ack, packet: &LostPacket) {
        self.note_loss(window, ack);
        if self.loss_ranges_in_round == 0 || packet.seq != self.last_lost_end {
            self.loss_ranges_in_round += 1;
        }
        self.last_lost_end = packet.end_seq;
        if !self.is_bw_probe_sample {
            return;
        }
        if Self::is_inflight_too_high(ack, packet.tx_in_flight, packet.lost, 0) {
            let at_loss = inflight_at_loss(packet);
            self.handle_inflight_too_high(window, ack, at_loss, packet.is_app_limited);
        }
    }

    /// "When not Probing for Bandwidth": `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// The same: `ResetShortTermModel`.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = INFINITY;
        self.inflight_shortterm = INFINITY;
    }

    /// The same: `AdaptLowerBoundsFromCongestion`, `InitLowerBounds`, `LossLowerBounds`.
    pub(super) fn adapt_lower_bounds_from_congestion(&mut self, window: &Window) {
        if self.is_probing_bw() || !self.is_loss_in_round {
            return;
        }
        if self.bw_shortterm == INFINITY {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = window.snd_cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(beta(self.bw_shortterm));
        self.inflight_shortterm = self.inflight_latest.max(beta(self.inflight_shortterm));
    }

    /// "Saving State Upon Loss Recovery": `SaveStateUponLoss`, without the window. Once an episode:
    /// TCP marks losses, which may end a probe, before it enters recovery.
    pub(super) fn save_state_upon_loss(&mut self) {
        if self.undo_saved {
            return;
        }
        self.undo_saved = true;
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// "Handling a Spurious Loss Recovery": `HandleSpuriousLossDetection`, without the window.
    pub(super) fn handle_spurious_loss_detection(&mut self, ack: &Ack) {
        self.undo_saved = false;
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        match self.undo_state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBwUp)
                if self.state != State::ProbeBwUp && self.state != State::ProbeRtt =>
            {
                self.start_probe_bw_refill(ack);
            }
            _ => {}
        }
    }
}

/// "Probing for Bandwidth In ProbeBW": `InflightAtLoss`. The lost record may be a super-packet, of which
/// a part was still below the threshold.
fn inflight_at_loss(packet: &LostPacket) -> u32 {
    let size = u64::from(packet.segments);
    let inflight_prev = u64::from(packet.tx_in_flight).saturating_sub(size);
    let lost_prev = u64::from(packet.lost).saturating_sub(size);
    // (LossThresh * inflight_prev - lost_prev) / (1 - LossThresh), rounded up.
    let over = (LOSS_THRESH * inflight_prev).saturating_sub(100 * lost_prev);
    (inflight_prev + over.div_ceil(100 - LOSS_THRESH)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::seq::Seq;

    fn lost(tx_in_flight: u32, lost: u32, segments: u32) -> LostPacket {
        let (seq, end_seq, is_app_limited) = (Seq(0), Seq(1), false);
        LostPacket { seq, end_seq, segments, tx_in_flight, lost, is_app_limited }
    }

    /// The prefix after which two percent were exceeded.
    #[test]
    fn the_bound_is_where_losses_crossed_two_percent() {
        // 98 in flight before a burst of 40 that is all lost: two more fit.
        assert_eq!(inflight_at_loss(&lost(138, 40, 40)), 100);
        // Nothing of it fits when as much was lost before.
        assert_eq!(inflight_at_loss(&lost(110, 12, 10)), 100);
        assert_eq!(inflight_at_loss(&lost(10, 3, 1)), 9);
    }
}
