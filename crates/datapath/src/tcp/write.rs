//! The application's writes: how bytes become skb records (`tcp_sendmsg_locked`), and closing.

use super::cc::CongestionControl;
use super::output::Push;
use super::skb::Skb;
use super::state::State;
use super::timer::Timer;
use super::{Connection, Cx, GSO_MAX_SIZE, SocketError};
use crate::node::SocketReady;
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;

/// Nagle's switches (`tp->nonagle`).
pub(super) mod nagle {
    /// `TCP_NODELAY`.
    pub const OFF: u8 = 1;
    /// `TCP_CORK`, `MSG_MORE`.
    pub const CORK: u8 = 2;
    /// Push once, whatever Nagle says.
    pub const PUSH: u8 = 4;
}

/// `TCP_MSS_DEFAULT`.
const MSS_DEFAULT: u32 = 536;

/// How bytes are written (`MSG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteFlags {
    /// `MSG_MORE`: more follows soon.
    pub more: bool,
    /// `MSG_EOR`: nothing is to be appended.
    pub end_of_record: bool,
    /// `MSG_OOB`: the last byte is urgent.
    pub out_of_band: bool,
    /// This write does not continue one that had to wait.
    pub separate: bool,
    /// Time stamps wanted of this write (`SOF_TIMESTAMPING_TX_*`); 0 = as the socket says.
    pub timestamping: u32,
}

impl Connection {
    /// Writes up to `bytes` bytes; returns how many were taken. What was not taken waits for
    /// [`SocketReady::WRITABLE`], and the next write continues this one. `more`: `MSG_MORE`.
    pub fn write(&mut self, bytes: u64, more: bool, cx: &mut Cx<'_>) -> u64 {
        self.write_with(bytes, WriteFlags { more, ..WriteFlags::default() }, cx)
    }

    /// The application may write: the connection is established, or open before it is.
    pub fn takes_writes(&self) -> bool {
        !self.shut_write
            && (matches!(self.state, State::Established | State::CloseWait)
                || self.is_passive_fast_open())
    }

    /// Writes up to `bytes` bytes as `flags` say; returns how many were taken
    /// (`tcp_sendmsg_locked`).
    pub fn write_with(&mut self, bytes: u64, flags: WriteFlags, cx: &mut Cx<'_>) -> u64 {
        if !self.takes_writes() {
            return 0;
        }
        if flags.separate {
            self.snd.write_unfinished = false;
        }
        // A write that had to wait goes on where it stopped: to the kernel it is one sendmsg.
        let mut copied = self.snd.write_unfinished;
        if !copied {
            self.check_app_limited();
        }
        let mut left = bytes;
        let mut size_goal = self.write_goal(flags, cx.now);
        while left > 0 {
            let room = self.room_in_tail(size_goal);
            if room == 0 {
                if !self.memory_is_free() {
                    if bytes > left && self.stamps_writes(flags) {
                        self.stamp_write(flags.timestamping);
                    }
                    self.wait_for_space(bytes > left, size_goal, cx);
                    self.snd.write_unfinished = copied;
                    return bytes - left;
                }
                self.entail(cx);
                continue;
            }
            let taken = left.min(u64::from(room)) as u32;
            let full = self.append_to_tail(taken, size_goal, !copied);
            copied = true;
            left -= u64::from(taken);
            if left == 0 || !full || flags.out_of_band {
                continue;
            }
            if self.forced_push() {
                self.mark_push();
                self.push_pending_frames(nagle::PUSH, cx);
            } else if self.queue.send_head() == self.queue.unsent_tail() {
                self.write_xmit(self.current_mss(cx.now), nagle::PUSH, Push::One, cx);
            }
            size_goal = self.write_goal(flags, cx.now);
        }
        self.snd.write_unfinished = false;
        if !copied {
            return 0;
        }
        if flags.end_of_record
            && let Some(tail) = self.queue.unsent_tail()
        {
            self.queue.get_mut(tail).eor = true;
        }
        if flags.out_of_band {
            self.mark_urgent();
        }
        if self.stamps_writes(flags) {
            self.stamp_write(flags.timestamping);
        }
        self.tcp_push(flags.more, self.snd.nonagle, size_goal, cx);
        bytes
    }

    /// Somebody wants to know when the bytes of this write leave or arrive.
    #[inline]
    fn stamps_writes(&self, flags: WriteFlags) -> bool {
        self.config.socket.timestamping != 0 || flags.timestamping != 0
    }

    /// Bytes of one record: a single segment where the urgent pointer is about.
    fn write_goal(&mut self, flags: WriteFlags, now: crate::units::Instant) -> u32 {
        let mss = self.current_mss(now);
        let goal = self.size_goal(mss);
        if flags.out_of_band { mss } else { goal }
    }

    /// `TCP_NODELAY` was set or cleared (`__tcp_sock_set_nodelay`).
    pub fn set_nodelay(&mut self, on: bool, cx: &mut Cx<'_>) {
        self.config_mut().nodelay = on;
        if on {
            self.snd.nonagle |= nagle::OFF | nagle::PUSH;
            self.push_pending_frames(self.snd.nonagle, cx);
        } else {
            self.snd.nonagle &= !nagle::OFF;
        }
    }

    /// `TCP_CORK` was set or cleared (`__tcp_sock_set_cork`).
    pub fn set_cork(&mut self, on: bool, cx: &mut Cx<'_>) {
        if on {
            self.snd.nonagle |= nagle::CORK;
            return;
        }
        self.snd.nonagle &= !nagle::CORK;
        if self.snd.nonagle & nagle::OFF != 0 {
            self.snd.nonagle |= nagle::PUSH;
        }
        self.push_pending_frames(self.snd.nonagle, cx);
    }

    /// `TCP_CORK`.
    pub fn is_corked(&self) -> bool {
        self.snd.nonagle & nagle::CORK != 0
    }

    /// `SO_SNDBUF` was set: bytes as the kernel doubles them, at least the minimum.
    pub fn set_sndbuf(&mut self, bytes: u32) {
        self.snd.sndbuf = bytes;
    }

    /// `sk_sndbuf`, bytes.
    pub fn sndbuf(&self) -> u32 {
        self.snd.sndbuf
    }

    /// `sk_wmem_queued`, bytes.
    pub fn wmem_queued(&self) -> u32 {
        self.snd.wmem_queued
    }

    /// `sk_wmem_alloc`, bytes.
    pub fn wmem_alloc(&self) -> u32 {
        self.snd.wmem_alloc
    }

    /// Enough space that a writer should be woken (`__sk_stream_is_writeable`). If there is not,
    /// the next space is told.
    pub fn poll_writable(&mut self) -> bool {
        let free = i64::from(self.snd.sndbuf) - i64::from(self.snd.wmem_queued);
        let writable = free >= i64::from(self.snd.wmem_queued >> 1)
            && self.notsent_bytes() * 2 < self.notsent_lowat();
        if !writable {
            self.snd.no_space = true;
        }
        writable
    }

    /// A write would find room (`sk_stream_memory_free`).
    pub fn has_write_memory(&self) -> bool {
        self.memory_is_free()
    }

    /// Somebody waits for space.
    pub fn wait_for_write_space(&mut self) {
        self.snd.no_space = true;
    }

    /// The writer has to wait: push what there is (`wait_for_space`).
    fn wait_for_space(&mut self, wrote_something: bool, size_goal: u32, cx: &mut Cx<'_>) {
        self.snd.no_space = true;
        if wrote_something {
            self.tcp_push(false, nagle::PUSH, size_goal, cx);
        }
    }

    /// `tcp_push`: marks the end of a write and sends what may go.
    fn tcp_push(&mut self, more: bool, nonagle: u8, size_goal: u32, cx: &mut Cx<'_>) {
        let Some(tail) = self.queue.unsent_tail() else { return };
        if !more || self.forced_push() {
            self.mark_push();
        }
        if self.should_autocork(tail, size_goal) {
            // Wait for the device to send: its completion pushes (tcp_tsq_handler).
            if !self.snd.throttled {
                cx.mib.auto_corking += 1;
                self.snd.throttled = true;
            }
            if self.snd.wmem_alloc > 0 {
                return;
            }
        }
        let nonagle = if more { nagle::CORK } else { nonagle };
        self.push_pending_frames(nonagle, cx);
    }

    /// A small write while packets are still in the device (`tcp_should_autocork`).
    fn should_autocork(&self, tail: u32, size_goal: u32) -> bool {
        let skb = self.queue.get(tail);
        skb.len() < size_goal
            && self.config.sysctl.tcp_autocorking != 0
            && self.queue.rtx_len() > 0
            && self.snd.wmem_alloc > skb.truesize
            && self.config.profile.small_queues
    }

    /// Bytes that the last unsent record still takes.
    fn room_in_tail(&self, size_goal: u32) -> u32 {
        let Some(tail) = self.queue.unsent_tail() else { return 0 };
        let skb = self.queue.get(tail);
        if skb.eor || skb.flags.contains(TcpFlags::FIN) {
            return 0;
        }
        size_goal.saturating_sub(skb.len())
    }

    /// Starts a new record at the end of the queue (`tcp_skb_entail`).
    fn entail(&mut self, cx: &mut Cx<'_>) {
        let overhead = self.config.profile.skb_overhead;
        let seq = self.snd.write_seq;
        self.queue.push_unsent(Skb::new(seq, seq, TcpFlags::ACK, overhead));
        self.snd.wmem_queued += overhead;
        self.snd.nonagle &= !nagle::PUSH;
        self.slow_start_after_idle_check(cx);
    }

    /// Appends `bytes` to the last record; true if it has reached `size_goal`. The first bytes of
    /// a write take a PSH back that the write before has left.
    fn append_to_tail(&mut self, bytes: u32, size_goal: u32, first: bool) -> bool {
        let tail = self.queue.unsent_tail().expect("a record to append to");
        let skb = self.queue.get_mut(tail);
        skb.end_seq += bytes;
        skb.truesize += bytes;
        if first {
            skb.flags = skb.flags.without(TcpFlags::PSH);
        }
        skb.pcount = 0;
        let full = skb.len() >= size_goal;
        self.snd.write_seq += bytes;
        self.snd.wmem_queued += bytes;
        full
    }

    /// Writing half a window without a push forces one (`forced_push`).
    fn forced_push(&self) -> bool {
        self.snd.write_seq.after(self.snd.pushed_seq + (self.snd.max_window >> 1))
    }

    /// `tcp_mark_push`.
    fn mark_push(&mut self) {
        if let Some(tail) = self.queue.unsent_tail() {
            self.queue.get_mut(tail).flags |= TcpFlags::PSH;
            self.snd.pushed_seq = self.snd.write_seq;
        }
    }

    /// `sk_stream_memory_free`: another record may be started.
    fn memory_is_free(&self) -> bool {
        self.snd.wmem_queued < self.snd.sndbuf && self.notsent_bytes() < self.notsent_lowat()
    }

    fn notsent_lowat(&self) -> u64 {
        match self.config.socket.notsent_lowat {
            0 => self.config.sysctl.tcp_notsent_lowat.into(),
            own => own.into(),
        }
    }

    /// Bytes written and not sent yet.
    pub(super) fn notsent_bytes(&self) -> u64 {
        u64::from(self.snd.write_seq.bytes_since(self.snd.nxt))
    }

    /// Bytes that one record should hold: whole segments, at most half the largest window
    /// (`tcp_xmit_size_goal`).
    fn size_goal(&mut self, mss: u32) -> u32 {
        let header_room = self.config.profile.max_tcp_header;
        let longest = GSO_MAX_SIZE - 1 - header_room;
        let cutoff = if self.snd.max_window > MSS_DEFAULT {
            self.snd.max_window >> 1
        } else {
            self.snd.max_window
        };
        let goal = if cutoff > 0 && longest > cutoff {
            cutoff.max(68 - self.header_len())
        } else {
            longest
        };
        let current = self.snd.gso_segs * mss;
        if goal < current || goal >= current + mss {
            self.snd.gso_segs = (goal / mss).min(self.config.gso_segs_limit());
        }
        (self.snd.gso_segs * mss).max(mss)
    }

    /// Space was freed: wakes the writer if it waits and there is enough (`tcp_check_space`,
    /// `sk_stream_write_space`).
    pub(super) fn check_space(&mut self, cx: &mut Cx<'_>) {
        if !self.snd.no_space {
            return;
        }
        if self.should_expand_sndbuf() {
            self.sndbuf_expand();
            self.window.snd_cwnd_stamp = self.jiffies32(cx.now);
        }
        let free = self.snd.sndbuf.saturating_sub(self.snd.wmem_queued);
        let enough = free >= self.snd.wmem_queued >> 1;
        if enough && self.notsent_bytes() * 2 < self.notsent_lowat() {
            self.snd.no_space = false;
            cx.ready |= SocketReady::WRITABLE;
        }
    }

    /// `tcp_should_expand_sndbuf`: the window is not full for lack of data.
    fn should_expand_sndbuf(&self) -> bool {
        self.config.send_buffer == 0 && self.packets_in_flight() < self.window.snd_cwnd
    }

    /// Room for two windows of full segments (`tcp_sndbuf_expand`).
    pub(super) fn sndbuf_expand(&mut self) {
        let profile = &self.config.profile;
        let per_mss =
            self.snd.mss_clamp.max(self.snd.mss) + profile.max_tcp_header + profile.shared_info_len;
        let per_mss = per_mss.next_power_of_two() + profile.sk_buff_len;
        let segments = self
            .config
            .profile
            .init_cwnd
            .max(10)
            .max(self.window.snd_cwnd)
            .max(self.rec.reordering + 1);
        let windows = self.cc.sndbuf_expand();
        let wanted = segments.saturating_mul(windows).saturating_mul(per_mss);
        if self.snd.sndbuf < wanted {
            self.snd.sndbuf = wanted.min(self.config.sysctl.tcp_wmem[2]);
        }
    }

    /// The application will not write any more: FIN after what is queued (`tcp_shutdown`). In
    /// SYN-RECV, FIN waits for the end of the handshake; in SYN-SENT the connection is given up
    /// (`inet_shutdown`, `tcp_disconnect`).
    pub fn shutdown_write(&mut self, cx: &mut Cx<'_>) {
        if self.shut_write {
            return;
        }
        if self.state == State::SynSent {
            return self.fail(SocketError::Reset, cx);
        }
        self.shut_write = true;
        if self.state != State::SynRecv {
            self.close_sending(cx);
        }
    }

    /// The application will not read any more.
    pub fn shutdown_read(&mut self, cx: &mut Cx<'_>) {
        self.shut_read = true;
        cx.ready |= SocketReady::READABLE | SocketReady::HANGUP;
    }

    /// The application has shut down reading, writing.
    pub fn is_shut(&self) -> (bool, bool) {
        (self.shut_read || self.rcv.fin_received, self.shut_write)
    }

    /// The handshake is over, and the application had shut down writing before.
    pub(super) fn send_deferred_fin(&mut self, cx: &mut Cx<'_>) {
        self.close_sending(cx);
    }

    /// FIN is queued, and the state follows (`tcp_close_state`).
    fn close_sending(&mut self, cx: &mut Cx<'_>) {
        if self.snd.fin_queued {
            return;
        }
        match self.state {
            State::Established | State::SynRecv => {
                self.state = State::FinWait1;
                self.send_fin(cx);
            }
            State::CloseWait => {
                self.state = State::LastAck;
                self.send_fin(cx);
            }
            _ => {}
        }
    }

    /// The application closes the socket (`tcp_close`).
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        if self.orphan {
            return;
        }
        self.orphan = true;
        self.shut_read = true;
        let unread = self.rcv.unread_bytes();
        match self.state {
            State::SynSent | State::Listen | State::Close => {
                self.fast_open_ends(cx);
                self.done(cx);
            }
            _ if unread > 0 => {
                // RFC 2525 section 2.17: data was lost to the peer; say so.
                cx.mib.abort_on_close += 1;
                self.send_reset_and_die(cx);
            }
            _ => {
                self.shut_write = true;
                self.close_sending(cx);
                if self.state == State::FinWait2 && !self.start_fin_wait_timer(cx.now) {
                    cx.mib.abort_on_linger += 1;
                    self.send_reset_and_die(cx);
                }
            }
        }
    }

    /// Closes, and resets rather than waits (`SO_LINGER` of 0 s).
    pub fn close_hard(&mut self, cx: &mut Cx<'_>) {
        if !self.orphan {
            cx.mib.abort_on_data += 1;
        }
        self.abort(cx);
    }

    /// The application dissolves the connection but keeps the socket (`tcp_disconnect`). True if that
    /// is told as an error: it was reset, or never there.
    pub fn disconnect(&mut self, cx: &mut Cx<'_>) -> bool {
        let told = self.ends_with_reset() || self.state == State::SynSent;
        self.abort(cx);
        told
    }

    /// Ends the connection with a reset (`tcp_disconnect`, `SO_LINGER` 0).
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        self.orphan = true;
        if self.ends_with_reset() {
            self.send_reset_and_die(cx);
        } else {
            self.done(cx);
        }
    }

    /// Whether a peer has to be told that it ends now (`tcp_need_reset`).
    fn ends_with_reset(&self) -> bool {
        match self.state {
            State::Established
            | State::CloseWait
            | State::FinWait1
            | State::FinWait2
            | State::SynRecv => true,
            State::Closing | State::LastAck => self.snd.nxt != self.snd.write_seq,
            State::SynSent | State::TimeWait | State::Close | State::Listen => false,
        }
    }

    fn send_reset_and_die(&mut self, cx: &mut Cx<'_>) {
        self.send_reset(cx);
        self.done(cx);
    }

    /// Queues FIN: on the last record if possible (`tcp_send_fin`).
    pub(super) fn send_fin(&mut self, cx: &mut Cx<'_>) {
        self.snd.fin_queued = true;
        if let Some(tail) = self.queue.unsent_tail() {
            let skb = self.queue.get_mut(tail);
            skb.flags |= TcpFlags::FIN;
            skb.end_seq += 1;
        } else {
            let seq = self.snd.write_seq;
            let flags = TcpFlags::ACK | TcpFlags::FIN;
            let overhead = self.config.profile.skb_overhead;
            self.queue.push_unsent(Skb::new(seq, seq + 1, flags, overhead));
            self.snd.wmem_queued += overhead;
        }
        self.snd.write_seq += 1;
        self.push_pending_frames(nagle::OFF, cx);
    }

    /// The connection is over (`tcp_done`).
    pub(super) fn done(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Close;
        self.shut_read = true;
        self.shut_write = true;
        self.queue.clear();
        self.snd.wmem_queued = 0;
        self.rec.packets_out = 0;
        for timer in [
            Timer::Transmit,
            Timer::DelayedAck,
            Timer::Keepalive,
            Timer::CompressedAck,
            Timer::Pacing,
        ] {
            self.timers.stop(timer);
        }
        self.pending = super::timer::Pending::None;
        cx.ready |= SocketReady::HANGUP;
    }

    /// The connection failed: the application will see `error` (`tcp_write_err`, `tcp_reset`).
    pub(super) fn fail(&mut self, error: SocketError, cx: &mut Cx<'_>) {
        self.error = Some(error);
        self.fast_open_ends(cx);
        if let Some(rare) = &mut self.rare {
            rare.fast_open.request = None;
            rare.fast_open.syn_data_acked &= error != SocketError::Refused;
        }
        cx.ready |= SocketReady::ERROR | SocketReady::READABLE | SocketReady::WRITABLE;
        self.done(cx);
    }

    /// Sequence number just past everything that was written.
    pub fn write_seq(&self) -> Seq {
        self.snd.write_seq
    }
}
