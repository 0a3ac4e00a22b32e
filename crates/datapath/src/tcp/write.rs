//! The application's writes: how bytes become skb records (`tcp_sendmsg_locked`).

use super::bytes::Payload;
use super::nagle::Nonagle;
use super::options::MSS_DEFAULT;
use super::output::Push;
use super::skb::Skb;
use super::state::State;
use super::{Connection, Cx, GSO_MAX_SIZE};
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;

mod memory;

/// How bytes are written (`MSG_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteFlags {
    /// `MSG_MORE`: more follows soon.
    pub more: bool,
    /// `MSG_EOR`: nothing is to be appended.
    pub end_of_record: bool,
    /// `MSG_OOB`: the last byte is urgent.
    pub out_of_band: bool,
    /// `MSG_ZEROCOPY` with `SO_ZEROCOPY`: the application is notified when the memory is free.
    pub zerocopy: bool,
    /// Bytes of each of the pieces of memory that a zero-copy write is made of; 0 = it is one piece. Pieces
    /// do not share pages (`struct iovec`).
    pub piece: u32,
    /// This write does not continue one that had to wait.
    pub separate: bool,
    /// Time stamps wanted of this write (`SOF_TIMESTAMPING_TX_*`); 0 = as the socket says.
    pub timestamping: u32,
}

/// One write on its way into the send queue (the local variables of `tcp_sendmsg_locked`).
struct Write<'a> {
    payload: Payload<'a>,
    flags: WriteFlags,
    /// Bytes of one segment (`mss_now`).
    mss: u32,
    /// Bytes that one record should hold.
    size_goal: u32,
    /// Bytes that this call has put into the queue.
    done: u64,
    /// Some were put there, perhaps by the call before, which this one continues (`copied`).
    copied: bool,
}

impl Write<'_> {
    fn left(&self) -> u64 {
        self.payload.len() - self.done
    }

    /// Bytes that are done of the piece of memory that is written from.
    fn done_of_piece(&self) -> u64 {
        self.done.checked_rem(self.flags.piece.into()).unwrap_or(self.done)
    }
}

/// Why what was written is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndOfWrite {
    /// It is all of a write.
    Complete,
    /// The writer says that more follows soon (`MSG_MORE`).
    MoreFollows,
    /// The writer waits for space.
    Waits,
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
        if !self.takes_writes() {
            return 0;
        }
        let mut write = self.begin_write(payload, flags);
        while write.left() > 0 {
            let room = self.room_for(&write);
            if room > 0 {
                self.copy_to_tail(&mut write, room, cx);
            } else if self.memory_is_free() {
                self.entail(cx);
            } else {
                self.interrupt_write(&write, cx);
                return write.done;
            }
        }
        self.end_write(&write, cx);
        write.done
    }

    /// A write begins, or goes on where it had to wait: to the kernel that is one sendmsg.
    #[inline]
    fn begin_write<'a>(&mut self, payload: Payload<'a>, flags: WriteFlags) -> Write<'a> {
        if flags.separate {
            self.snd.write_unfinished = false;
        }
        let goes_on = self.snd.write_unfinished;
        if !goes_on {
            self.check_app_limited();
        }
        if flags.zerocopy && !payload.is_empty() && (flags.separate || !self.is_in_zerocopy()) {
            self.begin_zerocopy(payload.len());
        }
        // The clock has not been read yet: an option that is due by now is not considered.
        let mss = self.current_mss(self.ack.clock);
        // The urgent pointer is about a single segment (`tcp_send_mss`).
        let size_goal = if flags.out_of_band { mss } else { self.size_goal(mss) };
        Write { payload, flags, mss, size_goal, done: 0, copied: goes_on }
    }

    /// Bytes of the write that the last unsent record takes; none: it belongs to another write, or is full.
    #[inline]
    fn room_for(&mut self, write: &Write<'_>) -> u32 {
        let in_tail = self.room_in_tail(write.size_goal);
        if in_tail == 0 || self.rare.is_none() {
            return in_tail;
        }
        let room = if write.flags.zerocopy {
            self.zerocopy_room(in_tail, write.left(), write.done_of_piece())
        } else {
            self.room_for_copy(in_tail)
        };
        if room == 0 {
            self.mark_push();
        }
        room
    }

    /// Puts what there is `room` for into the last unsent record, and sends records that are full.
    #[inline]
    fn copy_to_tail(&mut self, write: &mut Write<'_>, room: u32, cx: &mut Cx<'_>) {
        let Write { payload, flags, mss, .. } = *write;
        let mut taken = write.left().min(u64::from(room)) as u32;
        if flags.zerocopy && flags.piece > 0 {
            taken = taken.min(flags.piece - write.done_of_piece() as u32);
        }
        if let Payload::Bytes(all) = payload {
            let from = write.done as usize;
            self.keep_written(&all[from..from + taken as usize]);
        }
        let full = self.append_to_tail(taken, write);
        write.copied = true;
        write.done += u64::from(taken);
        if write.left() == 0 || !full || flags.out_of_band {
            return;
        }
        if self.forced_push() {
            self.mark_push();
            self.push_frames_of(mss, Nonagle::PUSH, cx);
        } else if self.queue.send_head() == self.queue.unsent_tail() {
            self.write_xmit(mss, Nonagle::PUSH, Push::One, cx);
        }
    }

    /// There is no room for the rest: the writer has to wait, and what there is goes (`wait_for_space`).
    #[inline]
    fn interrupt_write(&mut self, write: &Write<'_>, cx: &mut Cx<'_>) {
        if write.done > 0 {
            self.stamp_written(write);
        }
        self.snd.no_space = true;
        if write.done > 0 {
            self.tcp_push(write, EndOfWrite::Waits, cx);
        }
        self.snd.write_unfinished = write.copied;
        if write.flags.zerocopy && !write.copied {
            self.abort_zerocopy(cx);
        }
    }

    /// All of the write was taken (`out` of `tcp_sendmsg_locked`).
    #[inline]
    fn end_write(&mut self, write: &Write<'_>, cx: &mut Cx<'_>) {
        let flags = write.flags;
        self.snd.write_unfinished = false;
        if !write.copied {
            if flags.zerocopy {
                self.abort_zerocopy(cx);
            }
            return;
        }
        if flags.zerocopy {
            self.end_zerocopy(cx);
        }
        if flags.end_of_record
            && let Some(tail) = self.queue.unsent_tail()
        {
            self.queue.get_mut(tail).eor = true;
        }
        self.stamp_written(write);
        let end = if flags.more { EndOfWrite::MoreFollows } else { EndOfWrite::Complete };
        self.tcp_push(write, end, cx);
    }

    /// Notes the write if time stamps for its bytes are wanted.
    #[inline]
    fn stamp_written(&mut self, write: &Write<'_>) {
        let wanted = write.flags.timestamping;
        if wanted != 0 || self.config.socket.timestamping != 0 {
            self.stamp_write(wanted);
        }
    }

    /// `tcp_push`: marks the end of a write and sends what may go.
    fn tcp_push(&mut self, write: &Write<'_>, end: EndOfWrite, cx: &mut Cx<'_>) {
        let Some(tail) = self.queue.unsent_tail() else { return };
        if end != EndOfWrite::MoreFollows || self.forced_push() {
            self.mark_push();
        }
        if write.flags.out_of_band {
            self.mark_urgent();
        }
        if self.should_autocork(tail, write.size_goal) {
            // Wait for the device to send: its completion pushes (tcp_tsq_handler).
            if !self.snd.throttled {
                cx.mib.auto_corking += 1;
                self.snd.throttled = true;
            }
            if self.snd.wmem_alloc > 0 {
                return;
            }
        }
        let nonagle = match end {
            EndOfWrite::Complete => self.snd.nonagle,
            EndOfWrite::MoreFollows => Nonagle::CORK,
            EndOfWrite::Waits => Nonagle::PUSH,
        };
        self.push_frames_of(write.mss, nonagle, cx);
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
        self.snd.nonagle.clear(Nonagle::PUSH);
        self.slow_start_after_idle_check(cx);
    }

    /// Appends `bytes` of a write to the last record; true if that is full now. The first bytes take a PSH back that
    /// the write before has left.
    fn append_to_tail(&mut self, bytes: u32, write: &Write<'_>) -> bool {
        let tail = self.queue.unsent_tail().expect("a record to append to");
        let skb = self.queue.get_mut(tail);
        skb.end_seq += bytes;
        skb.truesize += bytes;
        if !write.copied {
            skb.flags = skb.flags.without(TcpFlags::PSH);
        }
        skb.pcount = 0;
        let full = skb.len() >= write.size_goal;
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
