//! What an arriving ACK means (`tcp_ack`): cleaning the queue, RTT samples, the congestion
//! machine, the window.

use super::cc::{AckSample, CongestionControl};
use super::input::Segment;
use super::rate::RateSample;
use super::recovery::{AckFlags, Rexmit, SackOutcome};
use super::skb::{Skb, tag};
use super::timer::{Pending, Timer};
use super::{Connection, Cx};
use crate::packet::seq::Seq;
use crate::packet::{Tcp, TcpFlags};
use crate::units::Instant;

/// What an ACK segment turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckVerdict {
    /// It was processed.
    Fine,
    /// It is older than what is known; its SACKs were used.
    Old,
    /// It acknowledges what was never sent, or is too old (RFC 5961 section 5).
    Unacceptable,
}

/// RTT evidence gathered while the queue is cleaned.
#[derive(Clone, Copy, Debug, Default)]
struct Cleaned {
    /// Send time of the first and last wholly acknowledged, never retransmitted segment, µs.
    first_us: Option<u64>,
    last_us: u64,
    /// Segments acknowledged.
    packets: u32,
    /// Lowest acknowledged sequence number that was neither SACKed nor retransmitted.
    reord: Option<Seq>,
}

impl Connection {
    /// Digests the ACK of a segment.
    pub(super) fn ack_in(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> AckVerdict {
        let prior_snd_una = self.snd.una;
        let ack = seg.tcp.ack;
        let mut flags = AckFlags::default();
        let mut sample = RateSample::default();
        let mut outcome = SackOutcome::default();
        if ack.before(prior_snd_una) {
            return self.old_ack(seg, prior_snd_una, cx);
        }
        if ack.after(self.snd.nxt) {
            return AckVerdict::Unacceptable;
        }
        if ack.after(prior_snd_una) {
            flags.snd_una_advanced = true;
            self.end_timeouts(cx.now);
        }
        let prior_highest = if self.is_sack() { self.highest_sack_seq() } else { self.snd.una };
        let prior_packets = self.rec.packets_out;
        sample.prior_in_flight = self.packets_in_flight();
        let delivered_before = self.rate.delivered;
        let lost_before = self.totals.lost;
        let sacks = &seg.tcp.options.sack;
        let plain_advance = flags.snd_una_advanced
            && sacks.is_empty()
            && seg.len == 0
            && !seg.tcp.flags.intersects(TcpFlags::ECE | TcpFlags::CWR)
            && !self.changes_window(seg.tcp);
        if plain_advance {
            self.snd.wl1 = seg.seq;
            self.snd_una_update(ack);
            flags.win_update = true;
            cx.mib.hp_acks += 1;
        } else {
            if seg.seq == seg.end_seq {
                cx.mib.pure_acks += 1;
            } else {
                flags.data = true;
            }
            flags.win_update |= self.ack_update_window(seg, ack, cx);
            if self.is_sack() && !sacks.is_empty() {
                self.sacktag_write_queue(
                    sacks,
                    ack,
                    prior_snd_una,
                    &mut sample,
                    &mut outcome,
                    &mut flags,
                    cx,
                );
            }
            flags.ece = self.ecn_is_echo(seg.tcp.flags);
            if outcome.sack_delivered > 0 {
                self.count_delivered(outcome.sack_delivered, flags.ece, cx);
            }
        }
        self.ecn_accept_cwr(seg);
        self.probes_out = 0;
        self.rcv_tstamp = self.jiffies32(cx.now);
        if prior_packets == 0 {
            self.in_ack_event(flags.ece, cx);
            self.ack_without_queue(ack, &mut flags, prior_snd_una, cx);
            return AckVerdict::Fine;
        }
        self.clean_rtx_queue(
            seg,
            prior_highest,
            prior_snd_una,
            &mut sample,
            &mut outcome,
            &mut flags,
            cx,
        );
        self.rack_update_reo_wnd(sample.prior_delivered);
        if self.is_accurate() && self.state.is_synchronized() {
            let delivered = self.rate.delivered.wrapping_sub(delivered_before);
            flags.delivered_bytes += ack.bytes_since(prior_snd_una);
            let marked = self.accurate_feedback(seg.tcp, flags, delivered);
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(marked);
            cx.mib.delivered_ce += u64::from(marked);
            flags.ece = marked > 0;
        }
        self.in_ack_event(flags.ece, cx);
        if self.rec.tlp_high_seq.is_some() {
            self.process_tlp_ack(ack, flags, cx);
        }
        let mut rexmit = Rexmit::None;
        if self.ack_is_dubious(flags) {
            let dup_acks = if flags.snd_una_advanced || flags.not_dup() || flags.dsacking {
                0
            } else if flags.data {
                1
            } else {
                seg.segments.max(1)
            };
            rexmit = self.fastretrans_alert(prior_snd_una, dup_acks, &mut flags, cx);
        }
        if flags.set_xmit_timer {
            self.set_xmit_timer(cx.now);
        }
        let delivered = self.rate.delivered.wrapping_sub(delivered_before);
        cx.mib.delivered += u64::from(delivered);
        let lost = self.totals.lost - lost_before;
        self.rate.generate(
            &mut sample,
            delivered,
            lost,
            self.rec.is_sack_reneg,
            cx.now_us(),
            self.rtt.min.get_us(),
        );
        self.cong_control(delivered, lost, flags, cx);
        self.xmit_recovery(rexmit, cx);
        AckVerdict::Fine
    }

    /// An ACK below `snd_una`: only its SACK blocks are of use.
    fn old_ack(&mut self, seg: &Segment<'_>, prior_snd_una: Seq, cx: &mut Cx<'_>) -> AckVerdict {
        let ack = seg.tcp.ack;
        let window = u64::from(self.snd.max_window).min(self.totals.bytes_acked) as u32;
        if ack.before(prior_snd_una - window) {
            self.send_challenge_ack(cx);
            return AckVerdict::Unacceptable;
        }
        let sacks = &seg.tcp.options.sack;
        if self.is_sack() && !sacks.is_empty() {
            let mut flags = AckFlags::default();
            let mut sample = RateSample::default();
            let mut outcome = SackOutcome::default();
            self.sacktag_write_queue(
                sacks,
                ack,
                prior_snd_una,
                &mut sample,
                &mut outcome,
                &mut flags,
                cx,
            );
            if outcome.sack_delivered > 0 {
                self.count_delivered(outcome.sack_delivered, false, cx);
            }
            let rexmit = self.fastretrans_alert(prior_snd_una, 0, &mut flags, cx);
            self.xmit_recovery(rexmit, cx);
        }
        AckVerdict::Old
    }

    /// Nothing was in flight: perhaps a zero window has opened (`no_queue`).
    fn ack_without_queue(
        &mut self,
        ack: Seq,
        flags: &mut AckFlags,
        prior_snd_una: Seq,
        cx: &mut Cx<'_>,
    ) {
        if flags.dsacking {
            self.fastretrans_alert(prior_snd_una, 0, flags, cx);
        }
        self.ack_probe(cx.now);
        if self.rec.tlp_high_seq.is_some() {
            self.process_tlp_ack(ack, *flags, cx);
        }
    }

    /// The segment's window field would change what we know.
    pub(super) fn changes_window(&self, tcp: &Tcp) -> bool {
        let window = u32::from(tcp.window) << self.opt.snd_wscale;
        tcp.ack.after(self.snd.una) && (window != self.snd.wnd || tcp.seq.before(self.snd.wl1))
            || (tcp.ack == self.snd.una && window > self.snd.wnd)
            || (tcp.seq.after(self.snd.wl1) && window != self.snd.wnd)
    }

    /// `tcp_snd_una_update`.
    fn snd_una_update(&mut self, ack: Seq) {
        self.totals.bytes_acked += u64::from(ack.bytes_since(self.snd.una));
        self.snd.una = ack;
    }

    /// RFC 9293 section 3.10.7.4: window update (`tcp_ack_update_window`). True: it changed.
    fn ack_update_window(&mut self, seg: &Segment<'_>, ack: Seq, cx: &mut Cx<'_>) -> bool {
        let mut window = u32::from(seg.tcp.window);
        if !seg.tcp.flags.contains(TcpFlags::SYN) {
            window <<= self.opt.snd_wscale;
        }
        let may_update = ack.after(self.snd.una)
            || seg.seq.after(self.snd.wl1)
            || (seg.seq == self.snd.wl1 && (window > self.snd.wnd || window == 0));
        let (mut updated, mut restarts) = (false, false);
        if may_update {
            updated = true;
            self.snd.wl1 = seg.seq;
            if self.snd.wnd != window {
                self.snd.wnd = window;
                restarts = !self.queue.unsent_is_empty();
                if window > self.snd.max_window {
                    self.snd.max_window = window;
                    self.sync_mss();
                }
            }
        }
        if restarts {
            self.slow_start_after_idle_check(cx);
        }
        self.snd_una_update(ack);
        updated
    }

    fn in_ack_event(&mut self, ece: bool, cx: &Cx<'_>) {
        let ack = self.ack_view(cx.now);
        self.cc.in_ack_event(&mut self.window, &ack, ece);
    }

    /// `tcp_count_delivered`.
    fn count_delivered(&mut self, delivered: u32, ece: bool, cx: &mut Cx<'_>) {
        self.rate.delivered += delivered;
        if ece {
            self.rate.delivered_ce += delivered;
            cx.mib.delivered_ce += u64::from(delivered);
        }
    }

    /// Removes what is acknowledged, takes RTT samples, notices reordering
    /// (`tcp_clean_rtx_queue`).
    #[expect(clippy::too_many_arguments, reason = "one ACK's working set, lent not copied")]
    fn clean_rtx_queue(
        &mut self,
        seg: &Segment<'_>,
        prior_highest: Seq,
        prior_snd_una: Seq,
        sample: &mut RateSample,
        outcome: &mut SackOutcome,
        flags: &mut AckFlags,
        cx: &mut Cx<'_>,
    ) {
        let mut cleaned = Cleaned::default();
        let mut fully_acked = true;
        while let Some(id) = self.queue.rtx_head() {
            let skb = *self.queue.get(id);
            let pcount = if skb.end_seq.after(self.snd.una) {
                fully_acked = false;
                self.trim_head(id)
            } else {
                u32::from(skb.pcount)
            };
            if pcount == 0 {
                break;
            }
            self.note_acked(&skb, pcount, &mut cleaned, flags);
            self.count_acked(&skb, pcount, sample, flags, cx);
            if !fully_acked {
                break;
            }
            let popped = self.queue.pop_rtx_head();
            self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(popped.truesize);
        }
        if fully_acked {
            self.chrono_idle(cx.now);
        }
        if let Some(head) = self.queue.rtx_head()
            && self.queue.get(head).has(tag::SACKED)
        {
            flags.sack_reneging = true;
        }
        let (rtt_us, ca_rtt_us) = self.ack_rtt(seg, &cleaned, outcome, *flags, cx);
        sample.rtt_us = ca_rtt_us;
        let lone_runt = cleaned.packets == 1
            && fully_acked
            && self.rec.sacked_out == 0
            && self.snd.una.bytes_since(prior_snd_una) < self.snd.mss
            && sample.prior_delivered.wrapping_add(1) == self.rate.delivered;
        let rtt_updated = self.ack_update_rtt(rtt_us, ca_rtt_us, lone_runt, cx.now);
        if flags.acked() {
            flags.set_xmit_timer = true;
            self.after_cumulative_ack(&cleaned, prior_highest, flags, cx);
        } else if rtt_updated
            && let Some((first_sack_us, _)) = outcome.sacked_us
            && let Some(head) = self.queue.rtx_head()
        {
            // Do not let SACKs of data sent before the head was (re)sent extend the timeout.
            let sack_rtt_us = cx.now_us().saturating_sub(first_sack_us);
            if sack_rtt_us > cx.now_us().saturating_sub(self.queue.get(head).sent_us()) {
                flags.set_xmit_timer = true;
            }
        }
        let ack = self.ack_view(cx.now);
        let ack_sample = AckSample {
            pkts_acked: cleaned.packets,
            rtt_us: ca_rtt_us,
            in_flight: self.rate.delivered.wrapping_sub(sample.prior_delivered),
        };
        self.cc.pkts_acked(&mut self.window, &ack, &ack_sample);
    }

    /// The head `id` is acknowledged in part: whole segments of a super-packet leave it
    /// (`tcp_tso_acked`). Returns how many.
    fn trim_head(&mut self, id: super::skb::SkbId) -> u32 {
        let una = self.snd.una;
        let head = self.queue.get_mut(id);
        if !una.after(head.seq) || head.pcount <= 1 {
            return 0;
        }
        let before = u32::from(head.pcount);
        let acked = una.bytes_since(head.seq);
        head.seq = una;
        head.truesize = head.truesize.saturating_sub(acked);
        head.set_segments(u32::from(head.gso_size));
        let gone = before - u32::from(head.pcount);
        self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(acked);
        gone
    }

    /// What a wholly acknowledged record tells about RTT and order.
    fn note_acked(&mut self, skb: &Skb, pcount: u32, cleaned: &mut Cleaned, flags: &mut AckFlags) {
        cleaned.packets += pcount;
        if skb.has(tag::EVER_RETRANS) {
            if skb.has(tag::RETRANS) {
                self.rec.retrans_out -= pcount;
            }
            flags.retrans_data_acked = true;
        } else if !skb.has(tag::SACKED) {
            cleaned.last_us = skb.sent_us();
            cleaned.first_us.get_or_insert(cleaned.last_us);
            if cleaned.reord.is_none_or(|reord| skb.seq.before(reord)) {
                cleaned.reord = Some(skb.seq);
            }
            if !skb.end_seq.after(self.rec.high_seq) {
                flags.orig_sack_acked = true;
            }
        }
    }

    /// Takes `pcount` acknowledged segments of a record out of the counts.
    fn count_acked(
        &mut self,
        skb: &Skb,
        pcount: u32,
        sample: &mut RateSample,
        flags: &mut AckFlags,
        cx: &mut Cx<'_>,
    ) {
        if skb.has(tag::SACKED) {
            self.rec.sacked_out -= pcount;
        } else if self.is_sack() {
            self.count_delivered(pcount, flags.ece, cx);
            if !skb.flags.contains(TcpFlags::SYN) && !self.is_spurious_retransmit(skb) {
                let min_rtt_us = self.rtt.min.get_us();
                let sent_us = skb.sent_us();
                self.rec.rack.advance(skb.sacked, skb.end_seq, sent_us, cx.now_us(), min_rtt_us);
            }
        }
        if skb.has(tag::LOST) {
            self.rec.lost_out -= pcount;
        }
        self.rec.packets_out -= pcount;
        let mut gone = *skb;
        self.rate.skb_delivered(&mut gone, sample);
        if skb.flags.contains(TcpFlags::SYN) {
            flags.syn_acked = true;
            self.rec.retrans_stamp = 0;
        } else {
            flags.data_acked = true;
        }
    }

    /// The ACK echoes a timestamp from before the latest retransmission of `skb`: that was needless
    /// (`tcp_skb_spurious_retrans`).
    fn is_spurious_retransmit(&self, skb: &Skb) -> bool {
        let sent = self.ts_now(Instant::from_nanos(skb.sent_ns));
        skb.has(tag::RETRANS | tag::EVER_RETRANS)
            && self.ack.rcv_tsecr != 0
            && (self.ack.rcv_tsecr.wrapping_sub(sent) as i32) < 0
    }

    /// RTT samples of this ACK, µs: for the estimator, and for congestion control.
    fn ack_rtt(
        &self,
        seg: &Segment<'_>,
        cleaned: &Cleaned,
        outcome: &SackOutcome,
        flags: AckFlags,
        cx: &Cx<'_>,
    ) -> (Option<u32>, Option<u32>) {
        let since = |us: u64| cx.now_us().saturating_sub(us) as u32;
        let mut rtt_us = None;
        let mut ca_rtt_us = None;
        if let (Some(first_us), false) = (cleaned.first_us, flags.retrans_data_acked) {
            rtt_us = Some(since(first_us));
            ca_rtt_us = Some(since(cleaned.last_us));
        }
        if let Some((first_us, last_us)) = outcome.sacked_us {
            rtt_us.get_or_insert(since(first_us));
            ca_rtt_us = Some(since(last_us));
        }
        if rtt_us.is_none()
            && flags.acked()
            && self.opt.timestamps
            && let Some(ts) = seg.tcp.options.timestamps.filter(|ts| ts.echo != 0)
        {
            // Karn's ambiguity does not exist with timestamps.
            let delta_ms = self.ts_now(cx.now).wrapping_sub(ts.echo);
            if delta_ms < i32::MAX as u32 / 1_000 {
                let sample_us = delta_ms.max(1) * 1_000;
                return (Some(sample_us), Some(sample_us));
            }
        }
        (rtt_us, ca_rtt_us)
    }

    /// `tcp_ack_update_rtt`. True: a sample was taken.
    pub(super) fn ack_update_rtt(
        &mut self,
        rtt_us: Option<u32>,
        ca_rtt_us: Option<u32>,
        maybe_delayed: bool,
        now: Instant,
    ) -> bool {
        let Some(rtt_us) = rtt_us else { return false };
        // The ACK of a lone small segment may have been delayed: no good for the minimum.
        let minimum = self.rtt.min.get_us();
        if let Some(ca_rtt_us) = ca_rtt_us.filter(|&us| !maybe_delayed || us <= minimum) {
            let window = self.config.sysctl.tcp_min_rtt_wlen * super::timer::HZ;
            let jiffies = self.jiffies32(now);
            self.rtt.min.sample(window, jiffies, ca_rtt_us);
        }
        let rto_min_us = self.rto_min_us();
        self.rtt.sample(rtt_us, self.snd.una, self.snd.nxt, rto_min_us);
        self.set_rto();
        self.backoff = 0;
        true
    }

    /// `tcp_set_rto`: whole jiffies, rounded up.
    pub(super) fn set_rto(&mut self) {
        let rto = self.rtt.rto_us().div_ceil(1_000);
        self.rto = rto.min(self.rto_max_ms());
    }

    /// Reordering and duplicate-ACK books after a cumulative advance.
    fn after_cumulative_ack(
        &mut self,
        cleaned: &Cleaned,
        prior_highest: Seq,
        flags: &mut AckFlags,
        cx: &mut Cx<'_>,
    ) {
        if !self.is_sack() {
            self.remove_reno_sacks(cleaned.packets, cx);
            // Without SACK nothing tells whether the original or the retransmission arrived.
            if flags.retrans_data_acked {
                flags.orig_sack_acked = false;
            }
        } else if let Some(reord) = cleaned.reord
            && reord.before(prior_highest)
        {
            // A hole that was never retransmitted got filled.
            self.check_sack_reordering(reord, false, cx);
        }
    }

    /// `tcp_set_xmit_timer`.
    fn set_xmit_timer(&mut self, now: Instant) {
        if !self.schedule_loss_probe(true, now) {
            self.rearm_rto(now);
        }
    }

    /// Window growth or reduction, then the pacing rate (`tcp_cong_control`).
    fn cong_control(&mut self, delivered: u32, lost: u32, flags: AckFlags, cx: &mut Cx<'_>) {
        if self.window.in_cwnd_reduction() {
            self.cwnd_reduction(delivered, lost, flags);
        } else if self.may_raise_cwnd(flags) {
            let ack = self.ack_view(cx.now);
            self.cc.cong_avoid(&mut self.window, &ack, delivered);
            self.window.snd_cwnd_stamp = ack.jiffies;
        }
        self.update_pacing_rate();
    }

    /// `tcp_may_raise_cwnd`: under reordering SACKs count as progress, else only cumulative ACKs.
    fn may_raise_cwnd(&self, flags: AckFlags) -> bool {
        if self.rec.reordering > self.config.sysctl.tcp_reordering {
            flags.forward_progress()
        } else {
            flags.data_acked
        }
    }

    /// The peer's window may have opened (`tcp_ack_probe`).
    fn ack_probe(&mut self, now: Instant) {
        let Some(head) = self.queue.send_head() else { return };
        if self.queue.get(head).end_seq.after(self.wnd_end()) {
            let when = self.probe0_when();
            self.reset_xmit_timer(Pending::Probe0, when, now);
            return;
        }
        self.backoff = 0;
        self.probes_since = None;
        if self.pending == Pending::Probe0 {
            self.pending = Pending::None;
            self.timers.stop(Timer::Transmit);
        }
    }

    /// RFC 5961: answer what may be an attack with an ACK, at a limited rate
    /// (`tcp_send_challenge_ack`).
    pub(super) fn send_challenge_ack(&mut self, cx: &mut Cx<'_>) {
        if self.oow_rate_limited(cx) {
            cx.mib.ack_skipped_challenge += 1;
            return;
        }
        let limit = self.config.sysctl.tcp_challenge_ack_limit;
        if !cx.shared.challenges.allow(cx.now_s(), limit) {
            return;
        }
        cx.mib.challenge_ack += 1;
        self.send_ack(cx);
    }

    /// Out-of-window segments are answered only so often (`tcp_oow_rate_limited`).
    pub(super) fn oow_rate_limited(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = self.jiffies32(cx.now);
        let since = now.wrapping_sub(self.last_oow_ack) as i32;
        if self.last_oow_ack != 0
            && (0..self.config.sysctl.tcp_invalid_ratelimit as i32).contains(&since)
        {
            cx.mib.ack_skipped += 1;
            return true;
        }
        self.last_oow_ack = now;
        false
    }
}
