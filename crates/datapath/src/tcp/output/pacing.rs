//! Pacing: when the next packet may go, and at which rate packets do (`tcp_pacing_check`, `tcp_update_pacing_rate`).

use crate::tcp::Connection;
use crate::tcp::cc::CongestionControl;
use crate::tcp::timer::Timer;
use crate::units::{Duration, Instant, NANOS_PER_SEC};

impl Connection {
    /// Internal pacing: the next packet is not due yet (`tcp_pacing_check`).
    pub(in crate::tcp) fn pacing_blocks(&mut self, now: Instant) -> bool {
        if !self.paces_itself() || self.snd.wstamp_ns <= now.as_nanos() {
            return false;
        }
        self.timers.set(Timer::Pacing, Instant::from_nanos(self.snd.wstamp_ns));
        true
    }

    /// Moves the time of the next packet past one of `len` payload bytes
    /// (`tcp_update_skb_after_send`).
    pub(in crate::tcp) fn pace_after(&mut self, len: u32, prior_wstamp_ns: u64) {
        // The first ten segments are not paced.
        let starts = self.totals.data_segs_out < 10;
        let unlimited = self.window.pacing_rate == 0 || self.window.pacing_rate == u64::MAX;
        if !self.is_paced() || unlimited || starts {
            return;
        }
        let mut len_ns = u64::from(len) * NANOS_PER_SEC / self.window.pacing_rate;
        // Catch up at most half a packet's time of what was lost to late wake-ups.
        let credit = self.snd.wstamp_ns - prior_wstamp_ns;
        len_ns -= (len_ns / 2).min(credit);
        self.snd.wstamp_ns += Duration::from_nanos(len_ns).as_nanos();
    }

    /// `tcp_update_pacing_rate`: 200 % of cwnd/srtt in slow start, 120 % later. The rate of a module
    /// that has a `cong_control` stays.
    pub(in crate::tcp) fn update_pacing_rate(&mut self) {
        if self.cc.has_cong_control() {
            return;
        }
        let window = &self.window;
        let ratio = if window.snd_cwnd < window.snd_ssthresh / 2 {
            self.config.sysctl.tcp_pacing_ss_ratio
        } else {
            self.config.sysctl.tcp_pacing_ca_ratio
        };
        let mut rate = u64::from(self.snd.mss) * ((1_000_000 / 100) << 3) * u64::from(ratio);
        rate *= u64::from(window.snd_cwnd.max(self.rec.packets_out));
        if let Some(srtt_us_8) = self.rtt.srtt_us_8 {
            rate /= u64::from(srtt_us_8.get());
        }
        self.window.pacing_rate = rate.min(self.config.max_pacing_rate);
    }
}
