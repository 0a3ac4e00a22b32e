//! Super-packets: how many segments, where to cut, and whether a fuller one is worth a moment (`tcp_tso_autosize`,
//! `tcp_mss_split_point`, `tcp_tso_should_defer`).

use super::{PACING_SHIFT, Run};
use crate::packet::TcpFlags;
use crate::tcp::cc::CongestionControl;
use crate::tcp::nagle::Nonagle;
use crate::tcp::skb::SkbId;
use crate::tcp::{Connection, GSO_MAX_SIZE};
use crate::trace::CaState;
use crate::units::Instant;

/// `tcp_max_tso_deferred_mss`.
const MAX_TSO_DEFERRED_SEGS: u32 = 3;

impl Connection {
    /// Segments of `mss` bytes in one super-packet: about 1 ms at the pacing rate, more when the RTT is short
    /// (`tcp_tso_autosize`).
    pub(in crate::tcp) fn tso_segs(&self, mss: u32) -> u32 {
        let sysctl = &self.config.sysctl;
        let longest = GSO_MAX_SIZE - 1 - self.config.profile.max_tcp_header;
        let segs = if self.config.profile.tso_autosize {
            let mut bytes = self.window.pacing_rate >> PACING_SHIFT;
            let shift = self.rtt.min.get_us().checked_shr(sysctl.tcp_tso_rtt_log).unwrap_or(0);
            if shift < u32::BITS {
                bytes += u64::from(longest >> shift);
            }
            let bytes = bytes.min(u64::from(longest)) as u32;
            let least = self.cc.min_tso_segs(&self.window).unwrap_or(sysctl.tcp_min_tso_segs);
            let segs = (bytes / mss).max(least);
            let most = self.window.needs_pacing.then(|| self.cc.max_tso_segs(&self.window, mss));
            segs.min(most.flatten().unwrap_or(u32::MAX))
        } else {
            longest / mss
        };
        segs.min(self.config.gso_segs_limit()).max(1)
    }

    /// Where to cut a super-packet (`tcp_mss_split_point`).
    #[inline]
    pub(super) fn split_point(&self, id: SkbId, mss: u32, max_segs: u32, nonagle: Nonagle) -> u32 {
        let skb = self.queue.get(id);
        let window = self.wnd_end().bytes_since(skb.seq);
        let max_len = mss * max_segs;
        if max_len <= window && !self.queue.is_unsent_tail(id) {
            return max_len;
        }
        let needed = skb.len().min(window);
        if max_len <= needed {
            return max_len;
        }
        let partial = needed % mss;
        if partial != 0 && self.nagle_holds_small(nonagle) {
            return needed - partial;
        }
        needed
    }

    /// Waiting a moment may make a fuller super-packet (`tcp_tso_should_defer`).
    #[inline]
    pub(super) fn tso_should_defer(&self, id: SkbId, run: &mut Run, now: Instant) -> bool {
        if self.window.ca_state >= CaState::Recovery {
            return false;
        }
        let now_ns = now.as_nanos();
        if now_ns > self.snd.wstamp_ns + 1_000_000 {
            return false;
        }
        let skb = self.queue.get(id);
        let mss = self.snd.mss;
        let in_flight = self.packets_in_flight();
        let send_win = self.wnd_end().bytes_since(skb.seq);
        let cong_win = self.window.snd_cwnd.saturating_sub(in_flight).saturating_mul(mss);
        let limit = send_win.min(cong_win);
        if limit >= run.max_segs * mss || (!self.queue.is_unsent_tail(id) && limit >= skb.len()) {
            return false;
        }
        let divisor = self.config.sysctl.tcp_tso_win_divisor;
        let whole = self.snd.wnd.min(self.window.snd_cwnd.saturating_mul(mss));
        let enough = match whole.checked_div(divisor) {
            Some(share) => limit >= share,
            None => limit > MAX_TSO_DEFERRED_SEGS * mss,
        };
        if enough {
            return false;
        }
        let Some(head) = self.queue.rtx_head() else { return false };
        // Do not wait for an ACK that is more than 1 ms, or half an RTT, away.
        let srtt_ns = 125 * i64::from(self.rtt.srtt_us_8());
        let ack_in_ns = self.queue.get(head).sent_ns as i64 + srtt_ns - now_ns as i64;
        if ack_in_ns > (srtt_ns >> 1).min(1_000_000) {
            return false;
        }
        if cong_win < send_win {
            if cong_win <= skb.len() {
                run.cwnd_limited = true;
                return true;
            }
        } else if send_win <= skb.len() {
            run.rwnd_limited = true;
            return true;
        }
        !(skb.flags.contains(TcpFlags::FIN) || skb.eor)
    }
}
