//! "ProbeRTT": every five seconds, unless the application was idle, the flight shrinks to half a BDP
//! for 200 ms and a round trip; and "BBR.min_rtt Min Filter".

use super::probe_bw::AckPhase;
use super::{Bbr3, State};
use crate::tcp::cc::{Ack, RateSample, Window};

/// `BBR.MinRTTFilterLen`, µs.
const MIN_RTT_FILTER_LEN: u64 = 10_000_000;
/// `BBR.ProbeRTTInterval`, µs.
const PROBE_RTT_INTERVAL: u64 = 5_000_000;
/// `BBR.ProbeRTTDuration`, µs.
const PROBE_RTT_DURATION: u64 = 200_000;

impl Bbr3 {
    /// "ProbeRTT Logic": `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack, rs: &RateSample) {
        self.probe_rtt_expired = ack.now_us > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt_us) = rs.rtt_us
            && (rtt_us < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_min_delay = rtt_us;
            self.probe_rtt_min_stamp = ack.now_us;
        }
        let min_rtt_expired = ack.now_us > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// The same: `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, window: &mut Window, ack: &Ack, rs: &RateSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            // The window is saved as long as the state is not ProbeRTT.
            self.save_cwnd(window);
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(ack);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(window, ack);
        }
        if rs.has_delivered() {
            self.idle_restart = false;
        }
    }

    /// The same: `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let end = ack.delivered.wrapping_add(ack.packets_in_flight);
        window.app_limited = Some(end.max(1));
        if self.probe_rtt_done_stamp.is_none() {
            if ack.packets_in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_stamp = Some(ack.now_us + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(ack);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(window, ack);
        }
    }

    /// The same: `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, window: &mut Window, ack: &Ack) {
        if self.probe_rtt_done_stamp.is_some_and(|done| ack.now_us > done) {
            self.probe_rtt_min_stamp = ack.now_us;
            window.snd_cwnd = window.snd_cwnd.max(self.prior_cwnd);
            self.exit_probe_rtt(ack);
        }
    }

    /// "Exiting ProbeRTT": `ExitProbeRTT`.
    fn exit_probe_rtt(&mut self, ack: &Ack) {
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down(ack);
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }
}
