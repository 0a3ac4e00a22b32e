//! `MSG_ZEROCOPY`: which writes still lie in records, and what the application is told once none of
//! their bytes does (`msg_zerocopy_callback`). No page is shared here; what is kept are the numbers.

use super::error_queue::{ErrorQueueEntry, ZeroCopied};
use super::skb::Pages;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::PAGE_SIZE;
use crate::packet::seq::Seq;
use std::collections::VecDeque;

/// Bytes that one notification may be about if writes share it (`msg_zerocopy_realloc`).
const SHARED_BYTES: u64 = 1 << 19;
/// Writes that may share one notification.
const SHARED_WRITES: u32 = 65_534;
/// Pieces of memory in one record (`MAX_SKB_FRAGS`).
const MAX_FRAGS: u32 = 17;

/// A connection's state for zero-copy writes.
#[derive(Debug, Default)]
pub(super) struct ZeroCopy {
    /// Number of the next write (`sk_zckey`).
    next: u32,
    /// Writes whose bytes lie in records, in order (`struct ubuf_info_msgzc`).
    held: VecDeque<PendingNotification>,
    /// The record to be appended to, as it was when it was last.
    tail: Tail,
    /// Where in a page the bytes begin that are appended next.
    start: u32,
    /// The last of `held` is being written.
    writing: bool,
}

/// Pieces of memory in a record (`skb_shinfo(skb)->nr_frags`).
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    /// First byte of the record, and just past its last one.
    seq: Seq,
    end: Seq,
    frags: u32,
    /// The last piece is the kernel's, and takes what is written next.
    copied: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingNotification {
    first: u32,
    count: u32,
    bytes: u64,
    /// Its first byte.
    begin: Seq,
    /// End of the last record that holds some of it, if one does.
    end: Option<Seq>,
}

impl PendingNotification {
    /// What is told of it once `sent` is the next byte to send.
    fn notified(&self, sent: Seq) -> ZeroCopied {
        let last = self.first.wrapping_add(self.count - 1);
        ZeroCopied { first: self.first, last, copied: sent.after(self.begin) }
    }
}

impl Connection {
    /// A zero-copy write of `bytes` begins: it shares the notification of the last one while that one's
    /// bytes lie in the record to be appended to (`msg_zerocopy_realloc`).
    #[cold]
    pub(super) fn begin_zerocopy(&mut self, bytes: u64) {
        let appends = self.tail_is_zerocopy();
        let begin = self.snd.write_seq;
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
        zerocopy.held.push_back(PendingNotification {
            first: next,
            count: 1,
            bytes,
            begin,
            end: None,
        });
    }

    /// The write is over, and some of it was taken.
    #[cold]
    pub(crate) fn end_zerocopy(&mut self, cx: &mut Cx<'_>) {
        if core::mem::take(&mut self.rare().zerocopy.writing) {
            self.zerocopy_acked(cx);
        }
    }

    /// The write is over, and nothing of it was taken: as if it had never been (`msg_zerocopy_put_abort`).
    #[cold]
    pub(super) fn abort_zerocopy(&mut self, cx: &mut Cx<'_>) {
        let zerocopy = &mut self.rare().zerocopy;
        if !zerocopy.writing {
            return;
        }
        if let Some(last) = zerocopy.held.back_mut() {
            zerocopy.next = zerocopy.next.wrapping_sub(1);
            last.count -= 1;
            if last.count == 0 {
                zerocopy.held.pop_back();
            }
        }
        self.end_zerocopy(cx);
    }

    /// A zero-copy write is going on, and has been since before it had to wait.
    pub(super) fn is_in_zerocopy(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.zerocopy.writing)
    }

    /// The record to be appended to holds bytes of the last zero-copy write (`skb_zcopy`).
    fn tail_is_zerocopy(&self) -> bool {
        let Some(tail) = self.queue.unsent_tail() else { return false };
        let last = self.rare.as_ref().and_then(|rare| rare.zerocopy.held.back());
        let end = last.and_then(|last| last.end);
        let tail = self.queue.get(tail);
        tail.is_pinned() && end.is_some_and(|end| end.after(tail.seq))
    }

    /// How much of a piece of `left` bytes, of which `done` are written, the record to be appended to takes,
    /// which has `room`; nothing: it belongs to another write, or has all the pieces that it may have.
    #[cold]
    pub(super) fn zerocopy_room(&mut self, room: u32, left: u64, done: u64) -> u32 {
        let Some(tail) = self.queue.unsent_tail() else { return 0 };
        // A record of one write takes no bytes of the next (`skb_zerocopy_iter_stream`).
        if self.queue.get(tail).is_pinned() && !self.tail_is_zerocopy() {
            return 0;
        }
        let frags = self.look_at_tail().frags;
        let zerocopy = &mut self.rare().zerocopy;
        zerocopy.start = (done % u64::from(PAGE_SIZE)) as u32;
        let pages = (MAX_FRAGS.saturating_sub(frags) * PAGE_SIZE).saturating_sub(zerocopy.start);
        room.min(pages).min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// How much of what is copied the record to be appended to takes, which has `room`; nothing: it has all
    /// the pieces that it may have, and the last one is the application's.
    #[cold]
    pub(super) fn room_for_copy(&mut self, room: u32) -> u32 {
        let tail = self.look_at_tail();
        if tail.frags >= MAX_FRAGS && !tail.copied { 0 } else { room }
    }

    /// The pieces of the record to be appended to. Of one that was not looked at yet, the kernel has made one;
    /// of one whose front has been sent the pages before are gone.
    fn look_at_tail(&mut self) -> Tail {
        let Some(tail) = self.queue.unsent_tail() else { return Tail::default() };
        let record = *self.queue.get(tail);
        let known = &mut self.rare().zerocopy.tail;
        if known.seq != record.seq || record.is_empty() {
            let rest = record.is_pinned() && known.end == record.end_seq;
            let sent = if rest { record.seq.bytes_since(known.seq) } else { 0 };
            let kernels = u32::from(!record.is_empty());
            let frags =
                if rest { known.frags.saturating_sub(sent / PAGE_SIZE).max(1) } else { kernels };
            let copied = if rest { known.copied } else { !record.is_empty() };
            *known = Tail { seq: record.seq, end: record.end_seq, frags, copied };
        }
        *known
    }

    /// `bytes` were appended to the last record. What it is charged beyond them is given.
    #[cold]
    pub(super) fn appended_to_zerocopy(&mut self, bytes: u32) -> u32 {
        let end = self.snd.write_seq;
        let Some(tail) = self.queue.unsent_tail() else { return 0 };
        let writing = self.is_in_zerocopy();
        let belongs = writing || self.tail_is_zerocopy();
        let record = self.queue.get_mut(tail);
        record.pages = match record.pages {
            // The first bytes decide whether it is the application's alone.
            Pages::Kernel if writing && record.len() == bytes => Pages::Application,
            Pages::Kernel if writing => Pages::Mixed,
            Pages::Application if !writing => Pages::Mixed,
            pages => pages,
        };
        let zerocopy = &mut self.rare().zerocopy;
        if let Some(last) = zerocopy.held.back_mut().filter(|_| belongs) {
            last.end = Some(end);
        }
        let pages = (zerocopy.start + bytes).div_ceil(PAGE_SIZE);
        zerocopy.tail.end = end;
        let piece = u32::from(!zerocopy.tail.copied);
        zerocopy.tail.frags += if writing { pages } else { piece };
        zerocopy.tail.copied = !writing;
        if writing { pages * PAGE_SIZE - bytes } else { 0 }
    }

    /// What holds no bytes any more is told (`msg_zerocopy_callback`).
    #[cold]
    pub(super) fn zerocopy_acked(&mut self, cx: &mut Cx<'_>) {
        let (una, sent) = (self.snd.una, self.snd.nxt);
        let head = self.queue.rtx_head().map(|head| self.queue.get(head).seq);
        let all = self.queue.rtx_len() == 0 && self.queue.unsent_is_empty();
        let Some(rare) = &mut self.rare else { return };
        let zerocopy = &mut rare.zerocopy;
        let told_before = rare.error_queue.len();
        if all && !zerocopy.writing {
            // What was not sent is thrown away first (`tcp_write_queue_purge`).
            let unsent = zerocopy.held.iter().filter(|held| !sent.after(held.begin));
            unsent.for_each(|held| notify(&mut rare.error_queue, held.notified(sent)));
            zerocopy.held.retain(|held| sent.after(held.begin));
        }
        while let Some(first) = zerocopy.held.front().copied() {
            let gone = first
                .end
                .is_none_or(|end| !end.after(una) && head.is_none_or(|head| !head.before(end)));
            let written = zerocopy.writing && zerocopy.held.len() == 1;
            if !(gone || all) || written {
                break;
            }
            zerocopy.held.pop_front();
            notify(&mut rare.error_queue, first.notified(sent));
            cx.ready |= SocketReady::ERROR;
        }
        if rare.error_queue.len() > told_before {
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
            last.begin = end - bytes;
            last.end = Some(end);
        }
    }
}

/// Adds to what is told; writes that follow each other are told as one (`skb_zerocopy_notify_extend`).
fn notify(told: &mut VecDeque<ErrorQueueEntry>, range: ZeroCopied) {
    if let Some(ErrorQueueEntry::ZeroCopied(last)) = told.back_mut()
        && last.last.wrapping_add(1) == range.first
    {
        last.last = range.last;
        return;
    }
    told.push_back(ErrorQueueEntry::ZeroCopied(range));
}
