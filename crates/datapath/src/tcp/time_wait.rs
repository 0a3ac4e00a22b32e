//! After the end: TIME-WAIT, and FIN-WAIT-2 of an orphaned connection (`tcp_timewait_state_process`).

use super::segment::Segment;
use super::state::State;
use super::timer::{HZ, Timer};
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::packet::{Packet, TcpFlags};
use crate::units::Instant;
use core::net::IpAddr;

/// What a connection takes over of one in TIME-WAIT between the same ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Inherited {
    /// Its initial sequence number, beyond all that the old one sent.
    pub iss: Seq,
    /// The latest timestamp that came, which the SYN echoes.
    pub ts_recent: u32,
    /// When that was (`ts_recent_stamp`); 0: never.
    pub ts_recent_stamp: u32,
}

impl Connection {
    /// Both ends are closed: wait for stragglers (`tcp_time_wait`).
    pub(super) fn enter_time_wait(&mut self, cx: &mut Cx<'_>) {
        self.keep_window_for_time_wait(TIME_WAIT_TICKS, cx);
        self.state = State::TimeWait;
        for timer in [Timer::Transmit, Timer::DelayedAck, Timer::CompressedAck, Timer::Pacing] {
            self.timers.stop(timer);
        }
        self.pending = super::timer::Pending::None;
        self.last_oow_ack = None;
        self.timeout = cx.now.as_millis();
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

    /// What a connection takes over that begins between the same ends. `None`: it may not, as without a timestamp
    /// nothing tells what belongs to this one (`tcp_twsk_unique`, RFC 6191).
    pub fn recyclable(&self) -> Option<Inherited> {
        let ended = self.state == State::TimeWait || self.waits_as_time_wait() && self.orphan;
        if !ended || self.opt.ts_recent_stamp == 0 {
            return None;
        }
        // A number of 0 would stand for none in the kernel (`write_seq`).
        let iss = Seq((self.snd.nxt + BEYOND_OLD_WINDOW).0.max(1));
        let (ts_recent, ts_recent_stamp) = (self.opt.ts_recent, self.opt.ts_recent_stamp);
        Some(Inherited { iss, ts_recent, ts_recent_stamp })
    }

    /// From when on, in ms, its port may be chosen for a connection between the same ends by a socket that does not
    /// ask for it (`tcp_tw_reuse`). `None`: not as long as it lasts.
    pub fn reusable_from(&self) -> Option<u64> {
        let sysctl = &self.config.sysctl;
        let allowed = match sysctl.tcp_tw_reuse {
            0 => false,
            2 => is_loopback(self.local.ip) || is_loopback(self.remote.ip),
            _ => true,
        };
        if !allowed || self.state != State::TimeWait || self.opt.ts_recent_stamp == 0 {
            return None;
        }
        if self.config.profile.has_tw_reuse_delay {
            return Some(self.timeout + u64::from(sysctl.tcp_tw_reuse_delay));
        }
        // The stamp is one more than the second.
        Some(u64::from(self.opt.ts_recent_stamp) * 1_000)
    }

    /// TIME-WAIT ends early: a new connection has taken its place.
    pub fn retire(&mut self, cx: &mut Cx<'_>) {
        self.done(cx);
    }

    /// The connection is small from here on: what it offers as window is what it could take last
    /// (`tw_rcv_wnd`). `ticks`: how long that lasts, a short time being counted apart (`inet_twsk_schedule`).
    pub(super) fn keep_window_for_time_wait(&mut self, ticks: u64, cx: &mut Cx<'_>) {
        if !self.waits_as_time_wait() {
            if ticks > SHORT_TICKS {
                cx.mib.time_wait += 1;
            } else {
                cx.mib.time_wait_killed += 1;
            }
            self.update_metrics(cx);
            // It has not answered an invalid segment yet (`tw_last_oow_ack_time`).
            self.last_oow_ack = None;
            self.rcv.tw_window = self.acceptable_window();
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

/// 2 MSL (`TCP_TIMEWAIT_LEN`), ticks.
pub(in crate::tcp) const TIME_WAIT_TICKS: u64 = 60 * HZ as u64;

/// What does not last longer is counted as killed, ticks.
const SHORT_TICKS: u64 = 4 * HZ as u64;

/// Nothing comes late over loopback, so `tcp_tw_reuse` is safe there.
fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    }
}
