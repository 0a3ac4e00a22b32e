//! The minimum RTT of the last ten seconds. When it is too old, PROBE_RTT reduces the flight to four
//! packets for 200 ms and a round trip, so that the queue drains and the RTT can be measured.

use super::{Bbr, Mode, cwnd};
use crate::tcp::cc::{Ack, RateSample, Window};
use crate::tcp::timer::HZ;

/// How long the minimum RTT is valid, s (`bbr_min_rtt_win_sec`).
const WINDOW_SECONDS: u32 = 10;
/// How long PROBE_RTT lasts at least, ms (`bbr_probe_rtt_mode_ms`).
const DURATION_MS: u32 = 200;

/// `a` is later than `b`, jiffies.
fn is_after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

impl Bbr {
    /// `bbr_update_min_rtt`.
    pub(super) fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack, sample: &RateSample) {
        let expired = is_after(ack.jiffies, self.min_rtt_stamp.wrapping_add(WINDOW_SECONDS * HZ));
        // An RTT that includes a delayed ACK must not replace one that is merely old.
        if let Some(rtt_us) = sample.rtt_us
            && (rtt_us < self.min_rtt_us || (expired && !sample.is_ack_delayed))
        {
            self.min_rtt_us = rtt_us;
            self.min_rtt_stamp = ack.jiffies;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window);
            self.probe_rtt_done_stamp = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(window, ack);
        }
        if sample.has_delivered() {
            self.idle_restart = false;
        }
    }

    /// PROBE_RTT waits until the flight is small, then for its time, and for a round trip.
    fn probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        // Samples of a flight that we have kept small do not count.
        let end = ack.delivered.wrapping_add(ack.packets_in_flight);
        window.app_limited = Some(end.max(1));
        if self.probe_rtt_done_stamp.is_none() {
            if ack.packets_in_flight <= cwnd::MIN_TARGET {
                let ticks = DURATION_MS * HZ / 1_000;
                self.probe_rtt_done_stamp = Some(ack.jiffies.wrapping_add(ticks));
                self.probe_rtt_round_done = false;
                self.next_rtt_delivered = ack.delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(window, ack);
        }
    }

    /// `bbr_check_probe_rtt_done`.
    pub(super) fn check_probe_rtt_done(&mut self, window: &mut Window, ack: &Ack) {
        if !self.probe_rtt_done_stamp.is_some_and(|done| is_after(ack.jiffies, done)) {
            return;
        }
        self.min_rtt_stamp = ack.jiffies;
        window.snd_cwnd = window.snd_cwnd.max(self.prior_cwnd);
        self.reset_mode(ack);
    }
}
