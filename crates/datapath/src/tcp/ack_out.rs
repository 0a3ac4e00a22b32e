//! When to acknowledge: delayed and quick ACKs, interactive mode, SACK compression
//! (`__tcp_ack_snd_check`, RFC 5681 section 4.2).

use super::options::MSS_DEFAULT;
use super::rcv_window::Truesize;
use super::segment::Segment;
use super::timer::{TIMEOUT_MIN, Timer};
use super::{Connection, Cx};
use crate::packet::seq::Seq;
use crate::packet::{FlowLabel, TcpFlags};
use crate::units::{Duration, Instant};
use core::num::NonZeroU32;

/// State of the acknowledging side (`icsk_ack` and friends).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct AckState {
    /// An ACK is owed (`ICSK_ACK_SCHED`).
    pub scheduled: bool,
    /// The delayed-ACK timer runs (`ICSK_ACK_TIMER`).
    pub timer: bool,
    /// A small segment was received (`ICSK_ACK_PUSHED`).
    pub pushed: bool,
    /// A second one (`ICSK_ACK_PUSHED2`).
    pub pushed2: bool,
    /// Acknowledge at once, one time (`ICSK_ACK_NOW`).
    pub now: bool,
    /// There was no memory for a segment: the next ACK closes the window (`ICSK_ACK_NOMEM`).
    pub no_memory: bool,
    /// Quick ACKs left.
    pub quick: u8,
    /// Interactive: the application answers, so ACKs can ride on data (`pingpong`).
    pub pingpong: u8,
    /// Delayed-ACK timeout, jiffies.
    pub ato: u32,
    /// When the delayed-ACK timer is meant to fire, jiffies.
    pub timeout: u64,
    /// When data last arrived, jiffies.
    pub lrcvtime: u32,
    /// Length of the last small segment.
    pub last_seg_size: u32,
    /// Estimate of the peer's MSS.
    pub rcv_mss: u32,
    /// When a segment last arrived or a read last looked at the clock (`tcp_mstamp`).
    pub clock: Instant,
    /// What leaves now has a timestamp of that time.
    pub unclocked: bool,
    /// ACKs held back by compression.
    pub compressed: u32,
    /// Duplicate ACKs sent before compression starts.
    pub dup_ack_counter: u8,
    /// `rcv_nxt` when the two above were reset.
    pub compressed_rcv_nxt: Seq,
    /// TSecr of the segment being processed (`rx_opt.rcv_tsecr`).
    pub rcv_tsecr: Option<NonZeroU32>,
    /// Next IPv4 identification (`inet_id`).
    pub ip_id: u16,
    /// IPv6 flow label of the peer's latest data (`lrcv_flowlabel`).
    pub peers_label: FlowLabel,
}

/// `TCP_MAX_QUICKACKS`.
pub(super) const MAX_QUICKACKS: u32 = 16;
/// `TCP_ATO_MIN`, jiffies.
const ATO_MIN: u32 = 40;
/// `TCP_DELACK_MIN`, jiffies.
const DELACK_MIN: u32 = 40;
/// `TCP_DELACK_MAX`, jiffies.
const DELACK_MAX: u32 = 200;
/// Half a second in jiffies.
const HALF_SECOND: u32 = 500;
/// `TCP_PINGPONG_THRESH`.
const PINGPONG_THRESH: u8 = 1;
/// `TCP_MIN_MSS`.
pub(super) const MSS_MIN: u32 = 88;
/// `TCP_FASTRETRANS_THRESH`.
const FASTRETRANS_THRESH: u8 = 3;
/// Segments shorter than this do not let the window grow.
const GROW_MIN_LEN: u32 = 128;

impl Connection {
    /// A data segment was taken in order: adapts the delayed-ACK engine
    /// (`tcp_event_data_recv`).
    pub(super) fn event_data_recv(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.ack.scheduled = true;
        self.measure_rcv_mss(seg);
        self.rcv_rtt_measure(cx.now);
        let now = self.jiffies32(cx.now);
        if self.ack.ato == 0 {
            self.incr_quickack(MAX_QUICKACKS);
            self.ack.ato = ATO_MIN;
        } else {
            let gap = now.wrapping_sub(self.ack.lrcvtime);
            if gap <= ATO_MIN / 2 {
                self.ack.ato = (self.ack.ato >> 1) + ATO_MIN / 2;
            } else if gap < self.ack.ato {
                self.ack.ato = ((self.ack.ato >> 1) + gap).min(self.max_ato());
            } else if gap > self.rto {
                // The sender restarts after idle: help it.
                self.incr_quickack(MAX_QUICKACKS);
            }
        }
        self.ack.lrcvtime = now;
        self.ack.peers_label = seg.flow_label();
        self.ecn_check_ce(seg.ecn, cx);
        if seg.len >= GROW_MIN_LEN {
            self.grow_window(seg, Truesize::WithoutHead);
        }
    }

    /// Upper bound of the delayed-ACK timeout, jiffies.
    fn max_ato(&self) -> u32 {
        if self.config.profile.ato_limited_to_delack_max {
            self.rto.min(DELACK_MAX)
        } else {
            self.rto
        }
    }

    /// How long an ACK may wait, jiffies (`tcp_delack_max`): less than the peer's timeout, taken to be as ours.
    fn delack_max(&self) -> u32 {
        let own = self.config.socket.delack_max_us;
        let most = own.map_or(DELACK_MAX, |us| us.get().div_ceil(1_000));
        if !self.config.profile.delack_max_below_rto_min {
            return most;
        }
        most.min(self.rto_min_us().div_ceil(1_000).max(TIMEOUT_MIN) - 1)
    }

    /// Estimates the peer's MSS; small segments mean that an answer may be wanted soon
    /// (`tcp_measure_rcv_mss`).
    pub(super) fn measure_rcv_mss(&mut self, seg: &Segment<'_>) {
        let previous = core::mem::take(&mut self.ack.last_seg_size);
        let len = if seg.gso_size > 0 { seg.gso_size } else { seg.len };
        if len >= self.ack.rcv_mss {
            if len != self.ack.rcv_mss {
                self.measure_scaling_ratio(seg);
            }
            self.ack.rcv_mss = len.min(self.opt.advmss);
            if seg.tcp.flags.contains(TcpFlags::PSH) {
                self.ack.pushed = true;
            }
            return;
        }
        let with_header = len + 20 + seg.tcp.options.len();
        let full_for_peer = with_header >= MSS_DEFAULT + 20
            || (with_header >= MSS_MIN + 20
                && !seg
                    .tcp
                    .flags
                    .intersects(TcpFlags::FIN | TcpFlags::URG | TcpFlags::SYN | TcpFlags::PSH));
        if full_for_peer {
            let len = with_header.saturating_sub(self.header_len());
            self.ack.last_seg_size = len;
            if len == previous {
                self.ack.rcv_mss = len;
                return;
            }
        }
        if self.ack.pushed {
            self.ack.pushed2 = true;
        }
        self.ack.pushed = true;
    }

    /// Grants quick ACKs: enough for half a window, `max` at most (`tcp_incr_quickack`).
    fn incr_quickack(&mut self, max: u32) {
        let quick = match self.rcv.wnd / (2 * self.ack.rcv_mss.max(1)) {
            0 => 2,
            quick => quick,
        };
        self.ack.quick = self.ack.quick.max(quick.min(max) as u8);
    }

    /// `tcp_enter_quickack_mode`.
    pub(super) fn enter_quickack_mode(&mut self, max: u32) {
        self.incr_quickack(max);
        self.ack.pingpong = 0;
        self.ack.ato = ATO_MIN;
    }

    fn in_quickack_mode(&self) -> bool {
        (self.ack.quick > 0 && !self.in_pingpong())
            || self.rare.as_ref().is_some_and(|rare| rare.route.quickack)
    }

    /// `inet_csk_in_pingpong_mode`.
    pub(super) fn in_pingpong(&self) -> bool {
        self.ack.pingpong >= PINGPONG_THRESH
    }

    /// Data goes out: it carries the ACK, and if it answers data, the connection is interactive
    /// (`tcp_event_data_sent`).
    pub(super) fn data_sent(&mut self, cx: &mut Cx<'_>) {
        let now = self.jiffies32(cx.now);
        if self.packets_in_flight() == 0 {
            self.cwnd_event(super::cc::CwndEvent::TxStart, cx);
            self.plb_check(cx);
        }
        self.snd.lsndtime = now;
        if now.wrapping_sub(self.ack.lrcvtime) < self.ack.ato {
            self.ack.pingpong = self.ack.pingpong.saturating_add(1);
        }
    }

    /// An ACK for all that came went out, alone or with data (`tcp_event_ack_sent`).
    pub(super) fn ack_was_sent(&mut self, cx: &mut Cx<'_>) {
        self.compressed_acks_sent(cx);
        // Only an ACK that new data asked for uses up a quick one.
        if self.ack.quick > 0 && self.ack.scheduled {
            self.ack.quick -= 1;
            if self.ack.quick == 0 {
                self.ack.ato = ATO_MIN;
            }
        }
        self.ack.scheduled = false;
        self.ack.timer = false;
        self.ack.pushed = false;
        self.ack.pushed2 = false;
        self.ack.now = false;
    }

    /// Any ACK carries the SACK blocks that compression has held back.
    pub(super) fn compressed_acks_sent(&mut self, cx: &mut Cx<'_>) {
        if self.ack.compressed > 0 {
            cx.mib.ack_compressed += u64::from(self.ack.compressed);
            self.ack.compressed = 0;
            self.timers.stop(Timer::CompressedAck);
        }
    }

    /// After a segment: acknowledge now, later, or compressed (`__tcp_ack_snd_check`).
    pub(super) fn ack_snd_check(&mut self, cx: &mut Cx<'_>) {
        if !self.ack.scheduled {
            return;
        }
        if self.must_ack_now() {
            self.send_ack(cx);
        } else if self.rcv.is_in_order() {
            self.send_delayed_ack(cx);
        } else {
            self.send_or_compress_dup_ack(cx);
        }
    }

    /// More than one full segment unacknowledged and the window can advance, or nobody is woken to read
    /// (`SO_RCVLOWAT`), whose read would acknowledge; quick mode; or the protocol demands it.
    fn must_ack_now(&mut self) -> bool {
        let unacked = self.rcv.nxt.bytes_since(self.rcv.wup);
        if unacked > self.ack.rcv_mss {
            let waiting = self.rcv.nxt.bytes_since(self.rcv.copied_seq);
            let nobody_reads = waiting < self.config.socket.rcvlowat.max(1);
            if nobody_reads || self.window_to_offer() >= self.rcv.wnd {
                return true;
            }
        }
        self.in_quickack_mode() || self.ack.now
    }

    /// ACKs of out-of-order data: three at once, then one per ms or part of an RTT.
    fn send_or_compress_dup_ack(&mut self, cx: &mut Cx<'_>) {
        let sysctl = &self.config.sysctl;
        if !self.is_sack()
            || !self.config.profile.sack_compression
            || self.ack.compressed >= sysctl.tcp_comp_sack_nr
        {
            self.send_ack(cx);
            return;
        }
        if self.ack.compressed_rcv_nxt != self.rcv.nxt {
            self.ack.compressed_rcv_nxt = self.rcv.nxt;
            self.ack.dup_ack_counter = 0;
        }
        if self.ack.dup_ack_counter < FASTRETRANS_THRESH {
            self.ack.dup_ack_counter += 1;
            self.send_ack(cx);
            return;
        }
        self.ack.compressed += 1;
        if self.timers.is_set(Timer::CompressedAck) {
            return;
        }
        let mut rtt_us_8 = self.rcv.rtt_us_8;
        if let Some(srtt_us_8) = self.rtt.srtt_us_8 {
            rtt_us_8 = rtt_us_8.min(srtt_us_8.get());
        }
        let rtt_us_8 = u64::from(rtt_us_8);
        let share_ns = if self.config.profile.has_comp_sack_rtt_percent {
            (rtt_us_8 + (rtt_us_8 >> 2)) * u64::from(sysctl.tcp_comp_sack_rtt_percent)
        } else {
            rtt_us_8 * 125 / 20
        };
        let delay_ns = share_ns.min(u64::from(sysctl.tcp_comp_sack_delay_ns));
        let slack_ns = u64::from(sysctl.tcp_comp_sack_slack_ns);
        // With a delay of nothing the timer fires in an interrupt: after what arrives at the very time.
        let wait = Duration::from_nanos(delay_ns + slack_ns + u64::from(delay_ns == 0));
        self.timers.set(Timer::CompressedAck, cx.now + wait);
    }

    /// `tcp_send_delayed_ack`.
    fn send_delayed_ack(&mut self, cx: &mut Cx<'_>) {
        let mut ato = self.ack.ato;
        if ato > DELACK_MIN {
            let mut max =
                if self.in_pingpong() || self.ack.pushed { DELACK_MAX } else { HALF_SECOND };
            if self.rtt.srtt_us_8.is_some() {
                let rtt = self.rtt.srtt_us().div_ceil(1_000).max(DELACK_MIN);
                max = max.min(rtt);
            }
            ato = ato.min(max);
        }
        ato = ato.min(self.delack_max());
        let jiffies = self.jiffies_clock().now(cx.now);
        let mut timeout = jiffies + u64::from(ato);
        if self.ack.timer {
            if self.ack.timeout <= jiffies + u64::from(ato >> 2) {
                // It is about to expire anyway.
                self.send_ack(cx);
                return;
            }
            if self.ack.timeout <= timeout && self.timers.is_set(Timer::DelayedAck) {
                // It stays in its place on the wheel (mod_timer).
                return;
            }
            timeout = timeout.min(self.ack.timeout);
        }
        self.ack.timer = true;
        self.ack.timeout = timeout;
        let expiry = self.jiffies_clock().wheel_expiry(cx.now, timeout - jiffies);
        self.timers.place(Timer::DelayedAck, cx.now, expiry);
    }

    /// The delayed-ACK timer fired (`tcp_delack_timer_handler`).
    pub(super) fn delayed_ack_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.ack.compressed > 0 {
            self.ack.clock = cx.now;
            self.send_compressed_ack(cx);
            return;
        }
        if !self.ack.timer {
            return;
        }
        self.ack.timer = false;
        if !self.ack.scheduled {
            return;
        }
        if self.in_pingpong() {
            // The answer did not come in time: leave interactive mode.
            self.ack.pingpong = 0;
            self.ack.ato = ATO_MIN;
        } else {
            self.ack.ato = (self.ack.ato << 1).min(self.max_ato());
        }
        self.ack.clock = cx.now;
        cx.mib.delayed_acks += 1;
        self.send_ack(cx);
    }

    /// The compression timer fired (`tcp_compressed_ack_kick`).
    pub(super) fn compressed_ack_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.ack.compressed > 0 {
            // The ACK sent now would have been sent anyway: it is not a compressed one.
            self.ack.compressed -= 1;
            if self.config.profile.comp_sack_timer_reads_clock {
                self.ack.clock = cx.now;
            }
            self.send_unclocked_ack(cx);
        }
    }

    /// After a read: an ACK that opens the window, or that a waiting sender needs
    /// (`tcp_cleanup_rbuf`).
    pub(super) fn cleanup_rbuf(&mut self, copied: u32, cx: &mut Cx<'_>) {
        if self.ack_after_read(copied) {
            self.ack_read(cx);
        }
    }

    /// The ACK that a read is followed by.
    pub fn ack_read(&mut self, cx: &mut Cx<'_>) {
        self.ack.clock = cx.now;
        self.send_ack(cx);
    }

    /// Whether a read of `copied` bytes, which has just been made, is followed by such an [ACK](Self::ack_read).
    #[inline]
    pub fn ack_after_read(&mut self, copied: u32) -> bool {
        let mut ack_now = false;
        if self.ack.scheduled {
            let unacked = self.rcv.nxt.bytes_since(self.rcv.wup);
            let drained = copied > 0 && self.rcv.rmem_alloc == 0;
            let small_waits = self.ack.pushed2 || (self.ack.pushed && !self.in_pingpong());
            ack_now = unacked > self.ack.rcv_mss || (drained && small_waits);
        }
        if copied > 0 && !ack_now && !self.shut_read && !self.rcv.fin_received {
            let current = self.rcv.window();
            if 2 * current <= self.rcv.window_clamp {
                let new = self.window_to_offer();
                ack_now = new > 0 && new >= 2 * current;
            }
        }
        ack_now
    }

    /// The application has looked at `bytes` without taking them (`tcp_recvmsg_locked` with `MSG_PEEK`).
    pub fn peeked(&mut self, bytes: u32, cx: &mut Cx<'_>) {
        self.ack.clock = cx.now;
        self.cleanup_rbuf(bytes, cx);
    }

    /// First guess of the peer's MSS (`tcp_initialize_rcv_mss`).
    pub(super) fn initialize_rcv_mss(&mut self) {
        let hint = self.opt.advmss.min(self.snd.mss).min(self.rcv.wnd / 2);
        self.ack.rcv_mss = hint.clamp(MSS_MIN, MSS_DEFAULT);
    }
}
