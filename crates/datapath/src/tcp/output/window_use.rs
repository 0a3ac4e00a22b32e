//! Is the congestion window used, and what becomes of one that was not? (`tcp_cwnd_validate`,
//! `tcp_rate_check_app_limited`, RFC 7661 in spirit; `tcp_cwnd_restart`, RFC 2861.)

use crate::tcp::cc::{CongestionControl, CwndEvent};
use crate::tcp::{Connection, Cx};
use crate::trace::CaState;

impl Connection {
    /// Was the window used? (`tcp_cwnd_validate`, RFC 7661 in spirit.)
    #[inline]
    pub(super) fn cwnd_validate(&mut self, is_cwnd_limited: bool, cx: &mut Cx<'_>) {
        let packets_out = self.rec.packets_out;
        let window = &mut self.window;
        if self.snd.una.at_or_after(window.cwnd_usage_seq)
            || is_cwnd_limited
            || (!window.is_cwnd_limited && packets_out > window.max_packets_out)
        {
            window.is_cwnd_limited = is_cwnd_limited;
            window.max_packets_out = packets_out;
            window.cwnd_usage_seq = self.snd.nxt;
        }
        let jiffies = self.config.jiffies_at_zero.wrapping_add(cx.now.as_millis()) as u32;
        if window.cwnd_limited() {
            window.snd_cwnd_used = 0;
            window.snd_cwnd_stamp = jiffies;
            return;
        }
        window.snd_cwnd_used = window.snd_cwnd_used.max(packets_out);
        let unused_for = jiffies.wrapping_sub(window.snd_cwnd_stamp) as i32;
        if self.config.sysctl.tcp_slow_start_after_idle != 0
            && unused_for >= self.rto as i32
            && !self.cc.has_cong_control()
        {
            self.cwnd_application_limited(jiffies);
        }
        if self.queue.unsent_is_empty() && self.snd.no_space {
            self.chrono_sndbuf_limited(cx.now);
        }
    }

    /// A write finds less than a segment unsent, nothing below the socket, and room in the window:
    /// the application is the limit, until what is in flight now is delivered
    /// (`tcp_rate_check_app_limited`).
    pub(in crate::tcp) fn check_app_limited(&mut self) {
        let profile = &self.config.profile;
        let least_truesize = 1 + profile.sk_buff_len + profile.shared_info_len;
        let in_flight = self.packets_in_flight();
        if self.notsent_bytes() < u64::from(self.snd.mss)
            && self.snd.wmem_alloc < least_truesize
            && in_flight < self.window.snd_cwnd
            && self.rec.lost_out <= self.rec.retrans_out
        {
            self.window.app_limited = Some(self.rate.delivered.wrapping_add(in_flight));
        }
    }

    /// The application did not fill the window for a whole timeout (`tcp_cwnd_application_limited`).
    fn cwnd_application_limited(&mut self, jiffies: u32) {
        if self.window.ca_state == CaState::Open && !self.snd.no_space {
            let init = self.init_cwnd();
            let used = self.window.snd_cwnd_used.max(init.min(self.window.snd_cwnd));
            if used < self.window.snd_cwnd {
                self.window.snd_ssthresh = self.current_ssthresh();
                self.window.snd_cwnd = (self.window.snd_cwnd + used) >> 1;
            }
            self.window.snd_cwnd_used = 0;
        }
        self.window.snd_cwnd_stamp = jiffies;
    }

    /// A write after idle: does the window restart? (`tcp_slow_start_after_idle_check`.)
    pub(in crate::tcp) fn slow_start_after_idle_check(&mut self, cx: &mut Cx<'_>) {
        if self.config.sysctl.tcp_slow_start_after_idle == 0
            || self.rec.packets_out > 0
            || self.cc.has_cong_control()
        {
            return;
        }
        let jiffies = self.jiffies32(cx.now);
        let idle = jiffies.wrapping_sub(self.snd.lsndtime) as i32;
        if idle > self.rto as i32 {
            self.cwnd_restart(idle, jiffies, cx);
        }
    }

    /// RFC 2861, RFC 5681 section 4.1: halve for every timeout that passed (`tcp_cwnd_restart`).
    fn cwnd_restart(&mut self, idle: i32, jiffies: u32, cx: &mut Cx<'_>) {
        let mut idle = idle;
        let mut cwnd = self.window.snd_cwnd;
        self.cwnd_event(CwndEvent::CwndRestart, cx);
        self.window.snd_ssthresh = self.current_ssthresh();
        let floor = self.init_cwnd().min(cwnd);
        loop {
            idle -= self.rto as i32;
            if idle <= 0 || cwnd <= floor {
                break;
            }
            cwnd >>= 1;
        }
        self.window.snd_cwnd = cwnd.max(floor);
        self.window.snd_cwnd_stamp = jiffies;
        self.window.snd_cwnd_used = 0;
    }
}
