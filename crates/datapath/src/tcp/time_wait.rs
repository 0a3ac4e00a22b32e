//! After the end: TIME-WAIT, and FIN-WAIT-2 of an orphaned connection (`tcp_timewait_state_process`).

use super::input::Segment;
use super::state::State;
use super::timer::Timer;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::packet::{Packet, TcpFlags};
use crate::units::Instant;

impl Connection {
    /// Both ends are closed: wait for stragglers (`tcp_time_wait`).
    pub(super) fn enter_time_wait(&mut self, cx: &mut Cx<'_>) {
        cx.mib.time_wait += 1;
        self.keep_window_for_time_wait();
        self.state = State::TimeWait;
        for timer in [Timer::Transmit, Timer::DelayedAck, Timer::CompressedAck, Timer::Pacing] {
            self.timers.stop(timer);
        }
        self.pending = super::timer::Pending::None;
        self.last_oow_ack = None;
        self.start_time_wait_timer(cx.now);
        cx.ready |= SocketReady::HANGUP;
    }

    /// In TIME-WAIT, a SYN that cannot be an old duplicate opens a new connection: beyond what was
    /// received and not older, or with a newer timestamp (RFC 6191, RFC 9293 section 3.6.1). Gives
    /// the initial sequence number that the new one begins with, beyond all that this one sent (RFC
    /// 1122 section 4.2.2.13, `tcp_tw_isn`).
    pub fn yields_to(&self, packet: &Packet, now: Instant) -> Option<Seq> {
        let tcp = packet.tcp().filter(|_| self.state == State::TimeWait)?;
        let others = TcpFlags::ACK | TcpFlags::RST;
        if !tcp.flags.contains(TcpFlags::SYN)
            || tcp.flags.intersects(others)
            || self.time_wait_paws_rejects(tcp, now)
        {
            return None;
        }
        let newer = tcp.options.timestamps.is_some_and(|ts| {
            self.opt.timestamps && (ts.value.wrapping_sub(self.opt.ts_recent) as i32) > 0
        });
        (tcp.seq.after(self.rcv.nxt) || newer).then(|| self.snd.nxt + BEYOND_OLD_WINDOW)
    }

    /// TIME-WAIT ends early: a new connection has taken its place.
    pub fn retire(&mut self, cx: &mut Cx<'_>) {
        self.done(cx);
    }

    /// The connection is small from here on: what it offers as window is what it could take last
    /// (`tw_rcv_wnd`).
    pub(super) fn keep_window_for_time_wait(&mut self) {
        if !self.waits_as_time_wait() {
            // It has not answered an invalid segment yet (`tw_last_oow_ack_time`).
            self.last_oow_ack = None;
            self.rcv.tw_window = self.rcv.max_window();
            if self.config.socket.ttl.is_some() || self.config.socket.hop_limit.is_some() {
                // What it sends has not the TTL of its socket any more (`tcp_v4_timewait_ack`).
                let socket = &mut self.config_mut().socket;
                (socket.ttl, socket.hop_limit) = (None, None);
            }
        }
    }

    /// It is a TIME-WAIT socket, whose windows have not to fit into their field.
    pub(super) fn waits_as_time_wait(&self) -> bool {
        self.rcv.tw_window > 0 && matches!(self.state, State::FinWait2 | State::TimeWait)
    }

    /// A segment for a connection that nobody holds and whose FIN is acknowledged: only the peer's FIN is
    /// awaited.
    pub(super) fn fin_wait_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let stale = self.time_wait_paws_rejects(seg.tcp, cx.now);
        let end = self.rcv.nxt + self.rcv.tw_window;
        if stale || !super::passive::in_window(seg, self.rcv.nxt, end) {
            if !self.is_oow_limited_ack(seg, cx.now, &mut cx.mib.ack_skipped_fin_wait2) {
                self.send_ack(cx);
            }
            return;
        }
        if seg.has(TcpFlags::RST) {
            return self.done(cx);
        }
        if seg.has(TcpFlags::SYN) && !seg.seq.before(self.rcv.nxt) {
            self.reset_stray_for(seg, cx);
            return self.done(cx);
        }
        let news = seg.end_seq.after(self.rcv.nxt) && seg.end_seq != seg.seq;
        if !seg.has(TcpFlags::ACK) || !news {
            return;
        }
        if !seg.fin() || seg.end_seq != self.rcv.nxt + 1 {
            cx.mib.abort_on_data += 1;
            self.reset_stray_for(seg, cx);
            return self.done(cx);
        }
        self.rcv.nxt = seg.end_seq;
        if let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) {
            self.store_ts_recent(ts.value, cx.now);
        }
        self.rcv.fin_received = true;
        self.send_ack(cx);
        self.enter_time_wait(cx);
    }

    /// A segment in TIME-WAIT (`tcp_timewait_state_process`). A bare ACK in its place is taken
    /// silently; all else is an old duplicate, or our last ACK was lost: it is answered.
    pub(super) fn time_wait_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let timestamps = seg.tcp.options.timestamps;
        let stale = self.time_wait_paws_rejects(seg.tcp, cx.now);
        if stale {
            cx.mib.paws_time_wait += 1;
        }
        let in_place = !stale && seg.seq == self.rcv.nxt;
        if seg.has(TcpFlags::RST) {
            if in_place && self.config.sysctl.tcp_rfc1337 == 0 {
                self.done(cx);
            }
            return;
        }
        if in_place && seg.end_seq == seg.seq {
            self.start_time_wait_timer(cx.now);
            if let Some(ts) = timestamps {
                self.store_ts_recent(ts.value, cx.now);
            }
            return;
        }
        if stale || seg.has(TcpFlags::ACK) {
            self.start_time_wait_timer(cx.now);
        }
        if !self.is_oow_limited_ack(seg, cx.now, &mut cx.mib.ack_skipped_time_wait) {
            self.send_ack(cx);
        }
    }
}

/// How far beyond the last byte sent a reopened connection begins: the largest window without
/// scale, and two.
const BEYOND_OLD_WINDOW: u32 = 65_535 + 2;
