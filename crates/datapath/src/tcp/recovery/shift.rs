//! Merges adjacent SACKed records (`tcp_shift_skb_data`): the queue stays short however long
//! the reported block is, and the memory of merged records is available to the application again.

use super::super::ack_event::AckEvent;
use super::super::skb::{Skb, SkbId, tag};
use super::super::{Connection, Cx};
use super::tagged::{BlockKind, Tagged};
use crate::packet::{SackBlock, TcpFlags};

/// The outcome for a record that a SACK block touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// Its newly SACKed part was merged into the record before it; continue at the same place.
    Joined,
    /// Nothing of it can be tagged; continue behind it.
    Passed,
    /// It cannot be merged: tag it in place (`NULL`, the fallback).
    Unfit,
}

/// Tags for the state of a record (`TCPCB_TAGBITS`).
const TAG_BITS: u8 = tag::SACKED | tag::RETRANS | tag::LOST;
/// Limit of a merged record in bytes (65,535 * `TCP_MIN_GSO_SIZE`).
const LONGEST: u32 = 65_535 * 8;

/// Payload of a record's segments (`tcp_skb_seglen`).
fn segment_len(skb: &Skb) -> u32 {
    if skb.pcount == 1 { skb.len() } else { skb.gso_size.into() }
}

/// It is SACKed and nothing else.
fn is_plainly_sacked(skb: &Skb) -> bool {
    skb.sacked & TAG_BITS == tag::SACKED
}

/// A part of a record that is to move to the one before it.
#[derive(Clone, Copy)]
struct Part {
    len: u32,
    pcount: u32,
    mss: u32,
}

impl Connection {
    /// Moves what `range` covers of the record at `index` into the SACKed record before it, and
    /// the SACKed one behind it too if that leaves no gap.
    pub(super) fn shift_sacked(
        &mut self,
        index: usize,
        range: SackBlock,
        kind: BlockKind,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) -> Shift {
        let id = self.queue.rtx_at(index).expect("the walk is at a record");
        let skb = *self.queue.get(id);
        let Some(before) = index.checked_sub(1).and_then(|index| self.queue.rtx_at(index)) else {
            return Shift::Unfit;
        };
        // A retransmission not marked lost must not become plainly SACKed.
        let odd =
            kind == BlockKind::Sack && skb.sacked & (tag::LOST | tag::RETRANS) == tag::RETRANS;
        if odd || skb.is_pinned() || !skb.end_seq.after(self.snd.una) || !self.may_join(before) {
            return Shift::Unfit;
        }
        let part = match part_to_shift(&skb, self.queue.get(before), range) {
            Ok(part) => part,
            Err(instead) => return instead,
        };
        let fits = self.queue.get(before).len() + part.len < LONGEST;
        if !(skb.seq + part.len).after(self.snd.una) || !fits {
            return Shift::Unfit;
        }
        let moved = Tagged {
            seq: skb.seq,
            end_seq: skb.seq + part.len,
            pcount: part.pcount,
            sacked: skb.sacked,
            sent_us: skb.sent_us(),
        };
        self.tag_one(moved, kind, event, cx);
        if !skb.has(tag::SACKED) {
            // The kernel tests the record after it was split: the remaining part counts.
            event.flags.delivered_bytes += skb.len() - part.len;
        }
        self.rate.skb_delivered(self.queue.get_mut(id), &mut event.sample);
        if !self.join(before, index, part) {
            return Shift::Joined;
        }
        // The hole is filled: the record behind it may be merged, too.
        if let Some(next) = self.queue.rtx_at(index) {
            let behind = *self.queue.get(next);
            let whole = Part { len: behind.len(), pcount: behind.pcount.into(), mss: part.mss };
            let fits = self.queue.get(before).len() + whole.len < LONGEST;
            if is_plainly_sacked(&behind)
                && !behind.is_pinned()
                && segment_len(&behind) == part.mss
                && self.may_join(before)
                && fits
            {
                self.join(before, index, whole);
            }
        }
        Shift::Joined
    }

    /// Something may be appended to the record `id`.
    fn may_join(&self, id: SkbId) -> bool {
        let skb = self.queue.get(id);
        is_plainly_sacked(skb) && !skb.eor && !skb.is_pinned()
    }

    /// Appends `part` of the record at `index` to the one before it (`tcp_shifted_skb`). True: that
    /// was all of it, and it is gone.
    fn join(&mut self, before: SkbId, index: usize, part: Part) -> bool {
        let id = self.queue.rtx_at(index).expect("a record is joined");
        let skb = self.queue.get_mut(id);
        skb.seq += part.len;
        skb.truesize = skb.truesize.saturating_sub(part.len);
        skb.pcount -= part.pcount as u16;
        if skb.pcount <= 1 {
            skb.gso_size = 0;
        }
        let rest = *skb;
        let into = self.queue.get_mut(before);
        into.end_seq += part.len;
        into.truesize += part.len;
        into.pcount += part.pcount as u16;
        if into.gso_size == 0 {
            into.gso_size = part.mss as u16;
        }
        into.sacked |= rest.sacked & tag::EVER_RETRANS;
        if !rest.is_empty() {
            return false;
        }
        into.flags |= rest.flags;
        into.eor = rest.eor;
        into.undelivered = false;
        if rest.flags.contains(TcpFlags::FIN) {
            into.end_seq += 1;
        }
        let gone = self.queue.remove_rtx(index);
        self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(gone.truesize);
        true
    }
}

/// Which front part of `skb` can move; otherwise what to do with it.
fn part_to_shift(skb: &Skb, before: &Skb, range: SackBlock) -> Result<Part, Shift> {
    let starts_inside = !range.start.after(skb.seq);
    if starts_inside && !range.end.before(skb.end_seq) {
        let mss = segment_len(skb);
        let part = Part { len: skb.len(), pcount: skb.pcount.into(), mss };
        return if mss == segment_len(before) { Ok(part) } else { Err(Shift::Unfit) };
    }
    if !skb.end_seq.after(range.start) || skb.pcount <= 1 {
        return Err(Shift::Passed);
    }
    let mss = u32::from(skb.gso_size);
    if !starts_inside || mss != segment_len(before) {
        return Err(Shift::Unfit);
    }
    match range.end.bytes_since(skb.seq) / mss {
        0 => Err(Shift::Passed),
        pcount => Ok(Part { len: pcount * mss, pcount, mss }),
    }
}
