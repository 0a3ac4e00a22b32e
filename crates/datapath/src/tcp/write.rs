//! The application's writes: how bytes become skb records (`tcp_sendmsg_locked`).

use super::bytes::Payload;
use super::open::MSS_DEFAULT;
use super::output::Push;
use super::skb::Skb;
use super::state::State;
use super::{Connection, Cx, GSO_MAX_SIZE};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;

mod memory;

/// Nagle's switches (`tp->nonagle`).
pub(super) mod nagle {
    /// `TCP_NODELAY`.
    pub const OFF: u8 = 1;
    /// `TCP_CORK`, `MSG_MORE`.
    pub const CORK: u8 = 2;
    /// Push once, whatever Nagle says.
    pub const PUSH: u8 = 4;

    /// What the options of a new connection ask for.
    pub fn asked(config: &crate::tcp::TcpConfig) -> u8 {
        let cork = if config.socket.cork { CORK } else { 0 };
        if config.nodelay { OFF | cork } else { cork }
    }
}

/// How bytes are written (`MSG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteFlags {
    /// `MSG_MORE`: more follows soon.
    pub more: bool,
    /// `MSG_EOR`: nothing is to be appended.
    pub end_of_record: bool,
    /// `MSG_OOB`: the last byte is urgent.
    pub out_of_band: bool,
    /// `MSG_ZEROCOPY`, and the socket has been asked for it: the application is told when the memory is free.
    pub zerocopy: bool,
    /// Bytes of each of the pieces of memory that a zero-copy write is made of; 0 = it is one piece. Pieces
    /// do not share pages (`struct iovec`).
    pub piece: u32,
    /// This write does not continue one that had to wait.
    pub separate: bool,
    /// Time stamps wanted of this write (`SOF_TIMESTAMPING_TX_*`); 0 = as the socket says.
    pub timestamping: u32,
}

impl Connection {
    /// Writes up to `bytes` bytes; returns how many were taken. What was not taken waits for
    /// [`WRITABLE`](crate::node::SocketReady::WRITABLE), and the next write continues this one. `more`: `MSG_MORE`.
    pub fn write(&mut self, bytes: u64, more: bool, cx: &mut Cx<'_>) -> u64 {
        self.write_with(bytes.into(), WriteFlags { more, ..WriteFlags::default() }, cx)
    }

    /// The application may write: the connection is established, or open before it is.
    pub fn takes_writes(&self) -> bool {
        !self.shut_write
            && (matches!(self.state, State::Established | State::CloseWait)
                || self.is_passive_fast_open())
    }

    /// Writes as much of `payload` as there is room for, as `flags` say; returns how many bytes were
    /// taken (`tcp_sendmsg_locked`).
    pub fn write_with(&mut self, payload: Payload<'_>, flags: WriteFlags, cx: &mut Cx<'_>) -> u64 {
        let bytes = payload.len();
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
        if flags.zerocopy && bytes > 0 && (flags.separate || !self.is_in_zerocopy()) {
            self.begin_zerocopy(bytes);
        }
        let mut left = bytes;
        // Nobody has looked at the clock yet: an option that is due by now is not thought of.
        let (mss, size_goal) = self.write_goal(flags, self.ack.clock);
        while left > 0 {
            let mut room = self.room_in_tail(size_goal);
            if flags.zerocopy && room > 0 {
                let done = bytes - left;
                let piece = u64::from(flags.piece);
                room = self.zerocopy_room(room, left, done.checked_rem(piece).unwrap_or(done));
                if room == 0 {
                    self.mark_push();
                }
            } else if self.rare.is_some() && room > 0 {
                room = self.room_for_copy(room);
                if room == 0 {
                    self.mark_push();
                }
            }
            if room == 0 {
                if !self.memory_is_free() {
                    if bytes > left && self.stamps_writes(flags) {
                        self.stamp_write(flags.timestamping);
                    }
                    self.wait_for_space(bytes > left, mss, size_goal, cx);
                    self.snd.write_unfinished = copied;
                    if flags.zerocopy && !copied {
                        self.abort_zerocopy(cx);
                    }
                    return bytes - left;
                }
                self.entail(cx);
                continue;
            }
            let mut taken = left.min(u64::from(room)) as u32;
            if flags.zerocopy && flags.piece > 0 {
                let begun = ((bytes - left) % u64::from(flags.piece)) as u32;
                taken = taken.min(flags.piece - begun);
            }
            if let Payload::Bytes(all) = payload {
                let from = (bytes - left) as usize;
                self.keep_written(&all[from..from + taken as usize]);
            }
            let full = self.append_to_tail(taken, size_goal, !copied);
            copied = true;
            left -= u64::from(taken);
            if left == 0 || !full || flags.out_of_band {
                continue;
            }
            if self.forced_push() {
                self.mark_push();
                self.push_frames_of(mss, nagle::PUSH, cx);
            } else if self.queue.send_head() == self.queue.unsent_tail() {
                self.write_xmit(mss, nagle::PUSH, Push::One, cx);
            }
        }
        self.snd.write_unfinished = false;
        if !copied {
            if flags.zerocopy {
                self.abort_zerocopy(cx);
            }
            return 0;
        }
        if flags.zerocopy {
            self.end_zerocopy(cx);
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
        self.tcp_push(flags.more, self.snd.nonagle, mss, size_goal, cx);
        bytes
    }

    /// Somebody wants to know when the bytes of this write leave or arrive.
    #[inline]
    fn stamps_writes(&self, flags: WriteFlags) -> bool {
        self.config.socket.timestamping != 0 || flags.timestamping != 0
    }

    /// Bytes of one segment, and of one record: a single segment where the urgent pointer is about
    /// (`tcp_send_mss`).
    fn write_goal(&mut self, flags: WriteFlags, now: crate::units::Instant) -> (u32, u32) {
        let mss = self.current_mss(now);
        let goal = if flags.out_of_band { mss } else { self.size_goal(mss) };
        (mss, goal)
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

    /// The writer has to wait: push what there is (`wait_for_space`).
    fn wait_for_space(&mut self, wrote: bool, mss: u32, size_goal: u32, cx: &mut Cx<'_>) {
        self.snd.no_space = true;
        if wrote {
            self.tcp_push(false, nagle::PUSH, mss, size_goal, cx);
        }
    }

    /// `tcp_push`: marks the end of a write and sends what may go.
    fn tcp_push(&mut self, more: bool, nonagle: u8, mss: u32, size_goal: u32, cx: &mut Cx<'_>) {
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
        self.push_frames_of(mss, nonagle, cx);
    }

    /// A small write while packets are still in the device (`tcp_should_autocork`).
    fn should_autocork(&self, tail: u32, size_goal: u32) -> bool {
        let skb = self.queue.get(tail);
        skb.len() < size_goal
            && !skb.eor
            && self.config.sysctl.tcp_autocorking != 0
            && self.queue.rtx_len() > 0
            // The socket itself counts as one byte (`SK_WMEM_ALLOC_BIAS`).
            && self.snd.wmem_alloc >= skb.truesize
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
        if self.rare.is_some() {
            let padding = self.appended_to_zerocopy(bytes);
            self.queue.get_mut(tail).truesize += padding;
            self.snd.wmem_queued += padding;
        }
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

    /// Sequence number just past everything that was written.
    pub fn write_seq(&self) -> Seq {
        self.snd.write_seq
    }
}
