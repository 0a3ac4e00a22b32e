//! `MSG_ZEROCOPY`: which writes still lie in records, and what the application is told once none of
//! their bytes does (`msg_zerocopy_callback`). No page is shared here; what is kept are the numbers.

use super::rare::Notice;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use std::collections::VecDeque;

/// Bytes that one notification may be about if writes share it (`msg_zerocopy_realloc`).
const SHARED_BYTES: u64 = 1 << 19;
/// Writes that may share one notification.
const SHARED_WRITES: u32 = 65_534;
/// Pieces of memory in one record (`MAX_SKB_FRAGS`).
const MAX_FRAGS: u32 = 17;
/// Each piece is charged in whole pages.
const PAGE: u32 = 4096;

/// Writes whose memory is finished with (`SO_EE_ORIGIN_ZEROCOPY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroCopied {
    /// Number of the first (`ee_info`).
    pub first: u32,
    /// Number of the last (`ee_data`).
    pub last: u32,
}

/// What a connection knows of its zero-copy writes.
#[derive(Debug, Default)]
pub(super) struct ZeroCopy {
    /// Number of the next write (`sk_zckey`).
    next: u32,
    /// Writes whose bytes lie in records, in order (`struct ubuf_info_msgzc`).
    held: VecDeque<Held>,
    /// Pieces in the last record that belongs to the last of `held`.
    frags: u32,
    /// Where in a page the bytes begin that are appended next.
    start: u32,
    /// The last of `held` is being written.
    writing: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    first: u32,
    count: u32,
    bytes: u64,
    /// End of the last record that holds some of it.
    end: Seq,
}

impl Connection {
    /// A zero-copy write of `bytes` begins: it shares the notification of the last one while that one's
    /// bytes lie in the record to be appended to (`msg_zerocopy_realloc`).
    #[cold]
    pub(super) fn begin_zerocopy(&mut self, bytes: u64) {
        let appends = self.tail_is_zerocopy();
        let end = self.snd.write_seq;
        let zerocopy = &mut self.rare().zerocopy;
        zerocopy.writing = true;
        let next = zerocopy.next;
        zerocopy.next = next.wrapping_add(1);
        if let Some(last) = zerocopy.held.back_mut().filter(|last| {
            appends
                && last.count < SHARED_WRITES
                && last.bytes + bytes <= SHARED_BYTES
                && last.first.wrapping_add(last.count) == next
        }) {
            last.count += 1;
            last.bytes += bytes;
            return;
        }
        zerocopy.held.push_back(Held { first: next, count: 1, bytes, end });
    }

    /// The write is over. `taken`: some of it was.
    #[cold]
    pub(super) fn end_zerocopy(&mut self, taken: bool, cx: &mut Cx<'_>) {
        let zerocopy = &mut self.rare().zerocopy;
        if !core::mem::take(&mut zerocopy.writing) {
            return;
        }
        if !taken && let Some(last) = zerocopy.held.back_mut() {
            // As if it had never been (`msg_zerocopy_put_abort`).
            zerocopy.next = zerocopy.next.wrapping_sub(1);
            last.count -= 1;
            if last.count == 0 {
                zerocopy.held.pop_back();
            }
        }
        self.zerocopy_acked(cx);
    }

    /// A zero-copy write is going on, and has been since before it had to wait.
    pub(super) fn is_in_zerocopy(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.zerocopy.writing)
    }

    /// The record to be appended to holds bytes of the last zero-copy write (`skb_zcopy`).
    fn tail_is_zerocopy(&self) -> bool {
        let Some(tail) = self.queue.unsent_tail() else { return false };
        let Some(last) = self.rare.as_ref().and_then(|rare| rare.zerocopy.held.back()) else {
            return false;
        };
        last.end.after(self.queue.get(tail).seq)
    }

    /// Bytes of a zero-copy write lie in or behind the record that begins at `seq`: nothing is moved between
    /// records there (`skb_shift`).
    pub(super) fn holds_zerocopy_from(&self, seq: Seq) -> bool {
        let last = self.rare.as_ref().and_then(|rare| rare.zerocopy.held.back());
        last.is_some_and(|last| last.end.after(seq))
    }

    /// How much of a piece of `left` bytes, of which `done` are written, the record to be appended to takes,
    /// which has `room`; nothing: it belongs to another write, or has all the pieces that it may have.
    #[cold]
    pub(super) fn zerocopy_room(&mut self, room: u32, left: u64, done: u64) -> u32 {
        let Some(tail) = self.queue.unsent_tail() else { return 0 };
        let (empty, appends) = (self.queue.get(tail).is_empty(), self.tail_is_zerocopy());
        let zerocopy = &mut self.rare().zerocopy;
        if empty || !appends {
            zerocopy.frags = 0;
        }
        // A record of one write takes no bytes of the next (`skb_zerocopy_iter_stream`).
        let of_another = !appends && self.tail_was_zerocopy();
        let zerocopy = &mut self.rare().zerocopy;
        zerocopy.start = (done % u64::from(PAGE)) as u32;
        let pages = ((MAX_FRAGS - zerocopy.frags) * PAGE).saturating_sub(zerocopy.start);
        let room = room.min(pages).min(u32::try_from(left).unwrap_or(u32::MAX));
        if of_another && !empty { 0 } else { room }
    }

    /// The record to be appended to holds bytes of a zero-copy write before the last.
    fn tail_was_zerocopy(&self) -> bool {
        let Some(tail) = self.queue.unsent_tail() else { return false };
        let Some(rare) = &self.rare else { return false };
        let seq = self.queue.get(tail).seq;
        rare.zerocopy.held.iter().rev().nth(1).is_some_and(|held| held.end.after(seq))
    }

    /// `bytes` were appended to the last record. What it is charged beyond them is given.
    #[cold]
    pub(super) fn appended_to_zerocopy(&mut self, bytes: u32) -> u32 {
        let appends = self.tail_is_zerocopy();
        let end = self.snd.write_seq;
        let zerocopy = &mut self.rare().zerocopy;
        let pages = (zerocopy.start + bytes).div_ceil(PAGE);
        let writing = zerocopy.writing;
        if let Some(last) = zerocopy.held.back_mut().filter(|_| writing || appends) {
            last.end = end;
        }
        if !writing {
            return 0;
        }
        zerocopy.frags += pages;
        pages * PAGE - bytes
    }

    /// What holds no bytes any more is told (`msg_zerocopy_callback`). The device always copies: who looks at
    /// packets on their way does.
    #[cold]
    pub(super) fn zerocopy_acked(&mut self, cx: &mut Cx<'_>) {
        let una = self.snd.una;
        let head = self.queue.rtx_head().map(|head| self.queue.get(head).seq);
        let all = self.queue.rtx_len() == 0 && self.queue.unsent_is_empty();
        let Some(rare) = &mut self.rare else { return };
        let zerocopy = &mut rare.zerocopy;
        while let Some(first) = zerocopy.held.front().copied() {
            let gone = !first.end.after(una) && head.is_none_or(|head| !head.before(first.end));
            let written = zerocopy.writing && zerocopy.held.len() == 1;
            if !(gone || all) || written {
                break;
            }
            zerocopy.held.pop_front();
            let last = first.first.wrapping_add(first.count - 1);
            tell(&mut rare.told, ZeroCopied { first: first.first, last });
            cx.ready |= SocketReady::ERROR;
        }
    }

    /// The SYN took `bytes` of a zero-copy write along.
    pub fn zerocopy_in_syn(&mut self, bytes: u32) {
        self.begin_zerocopy(bytes.into());
        let end = self.snd.write_seq;
        let zerocopy = &mut self.rare().zerocopy;
        zerocopy.writing = false;
        if let Some(last) = zerocopy.held.back_mut() {
            last.end = end;
        }
    }
}

/// Adds to what is told; writes that follow each other are told as one (`skb_zerocopy_notify_extend`).
fn tell(told: &mut VecDeque<Notice>, range: ZeroCopied) {
    if let Some(Notice::ZeroCopied(last)) = told.back_mut()
        && last.last.wrapping_add(1) == range.first
    {
        last.last = range.last;
        return;
    }
    told.push_back(Notice::ZeroCopied(range));
}
