//! What may be sent next: window, Nagle, TSO sizing and deferral, small queues (`tcp_write_xmit`).

use super::cc::{CongestionControl, CwndEvent};
use super::mtu_probe::Probing;
pub(super) use super::recovery::Push;
use super::recovery::Rto;
use super::skb::SkbId;
use super::timer::Timer;
use super::write::nagle;
use super::{Connection, Cx, GSO_MAX_SIZE};
use crate::packet::TcpFlags;
use crate::reason::Enqueue;
use crate::trace::CaState;
use crate::units::{Duration, Instant, NANOS_PER_SEC};

/// `sk_pacing_shift`: about 1 ms worth of data at the pacing rate.
const PACING_SHIFT: u32 = 10;

/// Why output stopped before the queue was empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Limits {
    cwnd: bool,
    rwnd: bool,
}

impl Connection {
    /// Sends what may go (`__tcp_push_pending_frames`).
    pub(super) fn push_pending_frames(&mut self, nonagle: u8, cx: &mut Cx<'_>) {
        self.push_frames_of(self.current_mss(cx.now), nonagle, cx);
    }

    /// The same, in segments of `mss` bytes: those of a write are of one size, though options come and go.
    pub(super) fn push_frames_of(&mut self, mss: u32, nonagle: u8, cx: &mut Cx<'_>) {
        if self.state == super::state::State::Close {
            return;
        }
        if self.write_xmit(mss, nonagle, Push::All, cx) {
            self.check_probe_timer(cx.now);
        }
    }

    /// Sends unsent records as far as window, pacing, Nagle and queues allow. True: nothing is in
    /// flight and something waits, so that only a window probe can help.
    pub(super) fn write_xmit(
        &mut self,
        mut mss: u32,
        nonagle: u8,
        push: Push,
        cx: &mut Cx<'_>,
    ) -> bool {
        if self.is_accurate() && self.beacon_is_due(cx.now) {
            // Its option may have become due since.
            mss = self.current_mss(cx.now);
        }
        let max_segs = if self.queue.unsent_is_empty() { 1 } else { self.tso_segs(mss) };
        self.ack.clock = cx.now;
        let mut sent = 0;
        if push == Push::All && self.rare.is_some() {
            match self.mtu_probe(cx) {
                Probing::Sent => sent = 1,
                Probing::Wait => return false,
                Probing::No => {}
            }
        }
        let mut limits = Limits::default();
        while let Some(id) = self.queue.send_head() {
            // The persist timer asks neither pacing nor small queues (tcp_write_wakeup).
            if push != Push::Window && self.pacing_blocks(cx.now) {
                break;
            }
            let Some(len) = self.sendable_len(id, mss, nonagle, push, max_segs, &mut limits, cx)
            else {
                break;
            };
            if self.queue.get(id).len() > len {
                self.fragment(id, len);
            }
            if (push != Push::Window && self.small_queue_blocks(id, 0))
                || self.queue.get(id).seq == self.queue.get(id).end_seq
            {
                break;
            }
            if self.transmit_skb(id, cx) == Enqueue::Dropped {
                break;
            }
            let small = self.snd.small;
            sent += self.new_data_sent(id, mss, cx);
            if push == Push::Window {
                // What the persist timer sends is no small segment that others wait for.
                self.snd.small = small;
            }
            if push != Push::All {
                break;
            }
        }
        if push == Push::Window {
            // What the persist timer sends says nothing of the congestion window (`tcp_write_wakeup`).
            return false;
        }
        self.chrono_rwnd_limited(limits.rwnd, cx.now);
        limits.cwnd |= self.packets_in_flight() >= self.window.snd_cwnd;
        if sent > 0 || limits.cwnd {
            self.cwnd_validate(limits.cwnd, cx);
        }
        if sent > 0 {
            if self.window.in_cwnd_reduction() {
                self.rec.prr_out += sent;
            }
            if !push.is_forced() {
                self.schedule_loss_probe(Rto::Runs, cx.now);
            }
            return false;
        }
        self.rec.packets_out == 0 && !self.queue.unsent_is_empty()
    }

    /// How many bytes of the send head may go now; `None`: not yet.
    #[expect(clippy::too_many_arguments, reason = "one decision, all of its grounds")]
    fn sendable_len(
        &mut self,
        id: SkbId,
        mss: u32,
        nonagle: u8,
        push: Push,
        max_segs: u32,
        limits: &mut Limits,
        cx: &mut Cx<'_>,
    ) -> Option<u32> {
        self.init_segments(id, mss);
        let quota = match self.cwnd_quota(id) {
            0 if push.is_forced() => 1,
            0 => return None,
            quota => quota,
        };
        if self.config.profile.grows_records && push != Push::Window {
            let missing = (quota.min(max_segs) * mss).saturating_sub(self.queue.get(id).len());
            self.snd.wmem_queued -= self.queue.grow_send_head(id, missing);
            self.init_segments(id, mss);
            if self.queue.get(id).pcount == 1 && self.queue.get(id).len() > mss {
                // Segments have become shorter since (`tcp_set_skb_tso_segs`): it is two of them, and stays whole.
                self.queue.get_mut(id).set_segments(mss);
            }
        }
        let skb = *self.queue.get(id);
        let first_end = if skb.len() > mss { skb.seq + mss } else { skb.end_seq };
        if first_end.after(self.wnd_end()) {
            limits.rwnd = true;
            return None;
        }
        if skb.pcount == 1 {
            let nonagle = if self.queue.is_unsent_tail(id) { nonagle } else { nagle::PUSH };
            if !self.nagle_allows(id, mss, nonagle) {
                return None;
            }
            return Some(mss);
        }
        if push == Push::All && self.tso_should_defer(id, max_segs, limits, cx.now) {
            return None;
        }
        if self.rare.is_some() && self.is_urgent() {
            // The urgent pointer belongs to each segment.
            return Some(mss);
        }
        Some(self.split_point(id, mss, quota.min(max_segs), nonagle))
    }

    /// Counts segments of a record that was appended to or never sent (`tcp_init_tso_segs`).
    fn init_segments(&mut self, id: SkbId, mss: u32) {
        let skb = self.queue.get_mut(id);
        if skb.pcount == 0 || (skb.pcount > 1 && u32::from(skb.gso_size) != mss) {
            skb.set_segments(mss);
        }
    }

    /// Segments that the window allows now, at most half of it (`tcp_cwnd_test`).
    fn cwnd_quota(&self, id: SkbId) -> u32 {
        let skb = self.queue.get(id);
        if self.config.profile.fin_exempt_from_cwnd
            && skb.flags.contains(TcpFlags::FIN)
            && skb.pcount == 1
        {
            return 1;
        }
        let in_flight = self.packets_in_flight();
        let cwnd = self.window.snd_cwnd;
        if in_flight >= cwnd {
            return 0;
        }
        (cwnd >> 1).max(1).min(cwnd - in_flight)
    }

    /// Nagle's algorithm with Minshall's modification (`tcp_nagle_test`).
    fn nagle_allows(&self, id: SkbId, mss: u32, nonagle: u8) -> bool {
        let skb = self.queue.get(id);
        // Urgent data waits for nothing, nor does what is written while it is under way.
        if nonagle & nagle::PUSH != 0 || skb.flags.contains(TcpFlags::FIN) || self.is_urgent() {
            return true;
        }
        !self.nagle_holds(skb.len() < mss, nonagle)
    }

    /// `tcp_nagle_check`: a partial segment has to wait.
    fn nagle_holds(&self, partial: bool, nonagle: u8) -> bool {
        partial
            && (nonagle & nagle::CORK != 0
                || (nonagle == 0 && self.rec.packets_out > 0 && self.minshall_holds()))
    }

    /// A small packet is still unacknowledged (`tcp_minshall_check`).
    fn minshall_holds(&self) -> bool {
        self.snd.small.after(self.snd.una) && !self.snd.small.after(self.snd.nxt)
    }

    /// Where to cut a super-packet (`tcp_mss_split_point`).
    fn split_point(&self, id: SkbId, mss: u32, max_segs: u32, nonagle: u8) -> u32 {
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
        if self.nagle_holds(partial != 0, nonagle) {
            return needed - partial;
        }
        needed
    }

    /// Waiting a moment may make a fuller super-packet (`tcp_tso_should_defer`).
    fn tso_should_defer(
        &self,
        id: SkbId,
        max_segs: u32,
        limits: &mut Limits,
        now: Instant,
    ) -> bool {
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
        if limit >= max_segs * mss || (!self.queue.is_unsent_tail(id) && limit >= skb.len()) {
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
                limits.cwnd = true;
                return true;
            }
        } else if send_win <= skb.len() {
            limits.rwnd = true;
            return true;
        }
        !(skb.flags.contains(TcpFlags::FIN) || skb.eor)
    }

    /// Segments of `mss` bytes in one super-packet: about 1 ms at the pacing rate, more when the RTT is short
    /// (`tcp_tso_autosize`).
    pub(super) fn tso_segs(&self, mss: u32) -> u32 {
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

    /// Enough waits below the socket already (`tcp_small_queue_check`). `factor`: shift of the
    /// limit.
    pub(super) fn small_queue_blocks(&mut self, id: SkbId, factor: u32) -> bool {
        if !self.config.profile.small_queues {
            return false;
        }
        let mut limit = (2 * u64::from(self.queue.get(id).truesize))
            .max(self.window.pacing_rate >> PACING_SHIFT);
        if !self.is_paced() {
            limit = limit.min(u64::from(self.config.sysctl.tcp_limit_output_bytes));
        }
        // The socket itself counts as one byte (`SK_WMEM_ALLOC_BIAS`).
        if u64::from(self.snd.wmem_alloc) < limit << factor {
            return false;
        }
        if self.queue.rtx_len() <= 1 {
            // One may always go: its completion is our clock.
            return false;
        }
        // With a limit of 0 the socket's own byte is too much. No device gives anything back then: ACKs go on.
        self.snd.throttled |= self.snd.wmem_alloc > 0;
        true
    }

    /// The device is done with `truesize` bytes of ours (`tcp_wfree`). True: the output has waited
    /// for that, and [`resume_output`](Self::resume_output) is due.
    #[inline]
    #[must_use]
    pub fn transmit_done(&mut self, truesize: u32) -> bool {
        debug_assert!(truesize <= self.snd.wmem_alloc, "more given back than was taken");
        self.snd.wmem_alloc = self.snd.wmem_alloc.saturating_sub(truesize);
        self.snd.throttled
    }

    /// The output has stopped until the device is done with something.
    #[inline]
    pub fn waits_for_memory(&self) -> bool {
        self.snd.throttled
    }

    /// The output may go on, but a program holds the socket (`tcp_tsq_workfn`): [`resume_output`](Self::resume_output) is
    /// due when it lets go.
    pub fn put_off_output(&mut self) {
        self.snd.goes_on_later = true;
    }

    /// Whether that has been put off.
    pub fn has_put_off_output(&self) -> bool {
        self.snd.goes_on_later
    }

    /// Goes on where TCP Small Queues have stopped the output (`tcp_tsq_handler`).
    pub fn resume_output(&mut self, cx: &mut Cx<'_>) {
        (self.snd.throttled, self.snd.goes_on_later) = (false, false);
        if !self.state.may_transmit() {
            return;
        }
        if self.rec.lost_out > self.rec.retrans_out
            && self.window.snd_cwnd > self.packets_in_flight()
        {
            self.xmit_retransmit_queue(crate::trace::Cause::Rack, cx);
        }
        self.write_xmit(self.current_mss(cx.now), self.snd.nonagle, Push::All, cx);
    }

    /// Books for a record sent for the first time (`tcp_event_new_data_sent`). Returns its
    /// segments.
    pub(super) fn new_data_sent(&mut self, id: SkbId, mss: u32, cx: &mut Cx<'_>) -> u32 {
        let skb = *self.queue.get(id);
        let prior_packets = self.rec.packets_out;
        self.snd.nxt = skb.end_seq;
        self.queue.send_head_sent();
        self.rec.packets_out += u32::from(skb.pcount);
        if prior_packets == 0 || self.pending == super::timer::Pending::LossProbe {
            self.rearm_rto(cx.now);
        }
        cx.mib.orig_data_sent += u64::from(skb.pcount);
        if skb.len() < u32::from(skb.pcount) * mss {
            self.snd.small = skb.end_seq;
        }
        self.check_space(cx);
        u32::from(skb.pcount)
    }

    /// Was the window used? (`tcp_cwnd_validate`, RFC 7661 in spirit.)
    fn cwnd_validate(&mut self, is_cwnd_limited: bool, cx: &mut Cx<'_>) {
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
    pub(super) fn check_app_limited(&mut self) {
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
    pub(super) fn slow_start_after_idle_check(&mut self, cx: &mut Cx<'_>) {
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

    /// Internal pacing: the next packet is not due yet (`tcp_pacing_check`).
    pub(super) fn pacing_blocks(&mut self, now: Instant) -> bool {
        if !self.paces_itself() || self.snd.wstamp_ns <= now.as_nanos() {
            return false;
        }
        self.timers.set(Timer::Pacing, Instant::from_nanos(self.snd.wstamp_ns));
        true
    }

    /// Moves the time of the next packet past one of `len` payload bytes
    /// (`tcp_update_skb_after_send`).
    pub(super) fn pace_after(&mut self, len: u32, prior_wstamp_ns: u64) {
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
    pub(super) fn update_pacing_rate(&mut self) {
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

/// `tcp_max_tso_deferred_mss`.
const MAX_TSO_DEFERRED_SEGS: u32 = 3;
