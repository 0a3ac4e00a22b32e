//! Half-open passive connections: what may end the handshake, and what may not
//! (`tcp_check_req`, `inet_csk_reqsk_queue_…`).

use super::segment::Segment;
use super::state::State;
use super::{Connection, Cx, SocketError};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use crate::trace::Cause;

/// The listener's decisions for one of its connections in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Gate {
    /// The accept queue is full: the ACK does not count (`sk_acceptq_is_full`).
    pub full: bool,
    /// … and the peer is to be told by a reset (`tcp_abort_on_overflow`).
    pub abort: bool,
    /// The peer is behind a gateway, which `SO_DONTROUTE` forbids: the ACK does not count either
    /// (`inet_csk_route_child_sock`).
    pub unreachable: bool,
    /// The application has accepted the connection already (Fast Open).
    pub accepted: bool,
    /// A listener waits for it: it is a request, not a simultaneous open.
    pub request: bool,
    /// The segment has brought a SYN cookie: the handshake is over, whatever the listener defers
    /// (`tcp_get_cookie_sock`).
    pub cookie: bool,
}

/// What becomes of a segment for a half-open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestCheck {
    /// The handshake may end with it.
    Continue,
    /// It is dropped.
    Drop,
}

impl Connection {
    /// A segment for a half-open connection (`tcp_check_req`).
    pub(super) fn check_request(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> RequestCheck {
        let fast_open = self.is_passive_fast_open();
        let tcp = seg.tcp;
        let isn = self.snd.wl1;
        let control = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST;
        let paws = self.paws_rejects_request(seg, cx);
        let syn_alone = tcp.flags.0 & control.0 == TcpFlags::SYN.0;
        if syn_alone && seg.seq == isn && !paws {
            self.accurate_syn_again(seg);
            self.answer_syn_again(fast_open, cx);
            return RequestCheck::Drop;
        }
        let acks = tcp.flags.contains(TcpFlags::ACK);
        // What a reset acknowledges says nothing; its place decides (RFC 5961 section 3).
        let resets =
            tcp.flags.contains(TcpFlags::RST) && self.config.profile.challenges_half_open_resets;
        if acks && !resets && !fast_open && tcp.ack != self.snd.iss + 1 {
            self.reset_stray(seg, cx);
            return RequestCheck::Drop;
        }
        let tsecr = !fast_open && self.echoes_wrong_timestamp(seg, cx);
        let end = self.rcv.nxt + self.rcv.wnd.min(65_535);
        let in_window = in_window(seg, self.rcv.nxt, end);
        if paws || tsecr || !in_window {
            if !tcp.flags.contains(TcpFlags::RST)
                && !self.is_oow_limited_ack(seg, cx.now, &mut cx.mib.ack_skipped_syn_recv)
            {
                self.send_request_ack(seg, cx);
            }
            if paws {
                cx.mib.paws_estab += 1;
            } else if tsecr {
                cx.mib.tsecr_rejected += 1;
            }
            return RequestCheck::Drop;
        }
        if resets && seg.seq != self.rcv.nxt {
            if !self.oow_rate_limited(cx.now, &mut cx.mib.ack_skipped_challenge) {
                cx.mib.challenge_ack += 1;
                self.send_request_ack(seg, cx);
            }
            return RequestCheck::Drop;
        }
        let mut flags = tcp.flags;
        if seg.seq == isn {
            flags = flags.without(TcpFlags::SYN);
        }
        if flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            cx.mib.attempt_fails += 1;
            self.end_request(flags, fast_open, seg, cx);
            return RequestCheck::Drop;
        }
        if !acks {
            return RequestCheck::Drop;
        }
        if fast_open {
            return RequestCheck::Continue;
        }
        self.may_leave_handshake(seg, cx)
    }

    /// The listener may not want it yet: a bare ACK while it waits for data, or a full queue.
    fn may_leave_handshake(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> RequestCheck {
        if self.is_accurate() {
            // Whatever becomes of the ACK, its option has been seen.
            self.first_option(&seg.tcp.options.acc_ecn());
        }
        let deferred = self.config.socket.defer_accept;
        if self.retransmits < deferred && !cx.gate.cookie && seg.end_seq == self.snd.wl1 + 1 {
            self.handshake_acked = true;
            cx.mib.defer_accept_drop += 1;
            return RequestCheck::Drop;
        }
        if cx.gate.full {
            cx.mib.listen_overflows += 1;
            cx.mib.listen_drops += 1;
            if cx.gate.abort {
                cx.mib.embryonic_rsts += 1;
                self.reset_stray(seg, cx);
                self.done(cx);
            } else {
                self.handshake_acked = true;
            }
            return RequestCheck::Drop;
        }
        if cx.gate.unreachable {
            // The kernel has made the connection by then, and drops it (`tcp_v4_syn_recv_sock`).
            cx.mib.passive_opens += 1;
            cx.mib.attempt_fails += 1;
            cx.mib.listen_drops += 1;
            return RequestCheck::Drop;
        }
        RequestCheck::Continue
    }

    /// Where the handshake stands; the window is what the SYN-ACK offered
    /// (`tcp_v4_reqsk_send_ack`).
    fn send_request_ack(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let options = self.options(cx.now);
        let window = self.syn_window() >> self.opt.rcv_wscale;
        // A Fast Open may have sent data already.
        let seq = if self.is_passive_fast_open() { self.snd.nxt } else { self.snd.iss + 1 };
        let tcp = self.header(seq, TcpFlags::ACK, window, options);
        let ecn = self.ecn_of_control();
        let answer = self.control_packet(tcp, ecn, cx);
        Self::answer_out(answer, seg, cx);
    }

    /// The SYN came again: so does the SYN-ACK, and the timer starts over.
    fn answer_syn_again(&mut self, fast_open: bool, cx: &mut Cx<'_>) {
        if self.oow_rate_limited(cx.now, &mut cx.mib.ack_skipped_syn_recv) {
            return;
        }
        if fast_open {
            cx.mib.retrans_segs += 1;
            cx.mib.syn_retrans += 1;
            self.totals.total_retrans += 1;
            self.send_syn_ack(cx);
        } else {
            self.resend_syn_ack(cx);
            self.arm_request_timer(cx.now);
        }
    }

    /// A reset, or a SYN where none may be (`embryonic_reset`).
    fn end_request(
        &mut self,
        flags: TcpFlags,
        fast_open: bool,
        seg: &Segment<'_>,
        cx: &mut Cx<'_>,
    ) {
        if !flags.contains(TcpFlags::RST) {
            self.reset_stray_for(seg, cx);
        } else if fast_open {
            self.fail(SocketError::Reset, cx);
        }
        if !fast_open {
            cx.mib.embryonic_rsts += 1;
            self.done(cx);
        }
    }

    fn paws_rejects_request(&self, seg: &Segment<'_>, cx: &Cx<'_>) -> bool {
        let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) else {
            return false;
        };
        self.is_older(ts.value, 0, cx.now) && !seg.tcp.flags.contains(TcpFlags::RST)
    }

    /// The echoed timestamp is none that our SYN-ACKs carried.
    fn echoes_wrong_timestamp(&self, seg: &Segment<'_>, cx: &Cx<'_>) -> bool {
        let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) else {
            return false;
        };
        let Some(first) = self.rec.retrans_stamp else { return false };
        if ts.echo == 0 || self.state != State::SynRecv {
            return false;
        }
        let behind = ts.echo.wrapping_sub(first.get()) as i32;
        // The latest one, that is: ACKs of a request carry timestamps as well, which count for nothing.
        let latest = self
            .queue
            .rtx_head()
            .map_or(cx.now, |head| crate::units::Instant::from_nanos(self.queue.get(head).sent_ns));
        let ahead = ts.echo.wrapping_sub(self.ts_now(latest).max(1)) as i32;
        behind < 0 || ahead > 0
    }

    /// The SYN-ACK was not answered in time, or was and the listener still waits: is it to be sent
    /// again? (`syn_ack_recalc`.) `None`: the request is over.
    pub(super) fn syn_ack_is_due(&self) -> Option<bool> {
        let own = self.config.socket.syn_retries.map(|retries| retries.get().into());
        let limit = own.unwrap_or(self.config.sysctl.tcp_synack_retries);
        let timeouts = u32::from(self.retransmits);
        let deferred = u32::from(self.config.socket.defer_accept);
        if deferred == 0 {
            return (timeouts < limit).then_some(true);
        }
        let over = timeouts >= limit && (!self.handshake_acked || timeouts >= deferred);
        (!over).then_some(!self.handshake_acked || timeouts + 1 >= deferred)
    }

    /// Sends the SYN-ACK again, as the timer demands.
    pub(super) fn retransmit_syn_ack(&mut self, cx: &mut Cx<'_>) {
        self.rethink_txhash();
        if let Some(head) = self.queue.rtx_head() {
            self.send_again(head, 1, Cause::Handshake, cx);
        }
    }
}

/// RFC 9293 section 3.10.7.4: any of the segment lies in the window (`tcp_in_window`).
pub(super) fn in_window(seg: &Segment<'_>, start: Seq, end: Seq) -> bool {
    if seg.seq == start {
        return true;
    }
    if seg.end_seq.after(start) && seg.seq.before(end) {
        return true;
    }
    seg.seq == end && seg.seq == seg.end_seq
}
