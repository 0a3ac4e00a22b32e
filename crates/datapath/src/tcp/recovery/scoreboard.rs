//! The scoreboard: reading SACK blocks into tags (`tcp_sacktag_write_queue`, RFC 2018, RFC 2883).

use super::super::ack_event::AckEvent;
use super::super::skb::{SkbId, tag};
use super::super::{Connection, Cx};
use super::CaState;
use super::shift::Shift;
use super::tagged::{BlockKind, Tagged};
use super::undo::SeenBy;
use crate::packet::seq::Seq;
use crate::packet::{SackBlock, SackList};

/// The relevant blocks, sorted by start, and which of them is a DSACK.
#[derive(Clone, Copy, Default)]
struct Blocks {
    sorted: [SackBlock; 4],
    len: usize,
    dsack: Option<usize>,
}

impl Connection {
    /// `tcp_highest_sack_seq`: just past the highest SACKed segment; `snd_una` if there is none, as without SACK.
    pub(in super::super) fn highest_sack_seq(&self) -> Seq {
        let none = self.rec.sacked_out == 0 || !self.is_sack();
        if none { self.snd.una } else { self.rec.highest_sack }
    }

    /// Reads the SACK blocks of an ACK.
    pub(in super::super) fn sacktag_write_queue(
        &mut self,
        wire: &SackList,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) {
        let AckEvent { ack, prior_snd_una, .. } = *event;
        event.sacked.reord = self.snd.nxt;
        if self.rec.sacked_out == 0 {
            self.rec.highest_sack = self.snd.una;
        }
        let has_dsack = self.check_dsack(wire, event, cx);
        if ack.before(prior_snd_una - self.snd.max_window) || self.rec.packets_out == 0 {
            return;
        }
        let blocks = self.usable_blocks(wire, event, has_dsack, cx);
        let cache = self.rec.sack_cache;
        self.tag_blocks(&blocks, &cache, event, cx);
        if !self.uses_rack() {
            self.recount_fackets();
            let fast = self.sack_fast_path(wire, event);
            let sorted = &blocks.sorted[..blocks.len];
            if self.find_lost_retransmissions(sorted, &cache, fast, cx) {
                event.flags.data_sacked = true;
                event.flags.lost_retrans = true;
            }
        }
        self.rec.sack_cache = blocks.sorted;
        if self.window.ca_state != CaState::Loss || self.rec.undo_marker.is_some() {
            self.check_sack_reordering(event.sacked.reord, SeenBy::Sack, cx);
        }
    }

    /// Is the first block a DSACK? Counts it (`tcp_check_dsack`, RFC 2883 section 4).
    fn check_dsack(&mut self, wire: &SackList, event: &mut AckEvent, cx: &mut Cx<'_>) -> bool {
        let [first, rest @ ..] = wire.as_slice() else { return false };
        if first.start.before(event.ack) {
            cx.mib.dsack_recv += 1;
        } else if rest
            .first()
            .is_some_and(|second| !first.end.after(second.end) && !first.start.before(second.start))
        {
            cx.mib.dsack_ofo_recv += 1;
        } else {
            return false;
        }
        let Some(dup_segs) = self.dsack_seen(*first, event) else { return false };
        // Data that was acknowledged and removed: count it without searching the queue.
        if self.rec.undo_retrans > 0
            && !first.end.after(event.prior_snd_una)
            && self.rec.undo_marker.is_some_and(|marker| first.end.after(marker))
        {
            self.rec.undo_retrans = (self.rec.undo_retrans - dup_segs as i32).max(0);
        }
        true
    }

    /// Segments that a DSACK reports as received twice, unless that is impossible
    /// (`tcp_dsack_seen`).
    fn dsack_seen(&mut self, block: SackBlock, event: &mut AckEvent) -> Option<u32> {
        let len = block.end.bytes_since(block.start);
        if !block.start.before(block.end) || len > self.snd.max_window {
            return None;
        }
        let mut dup_segs = 1;
        if len > self.snd.mss {
            dup_segs = len.div_ceil(self.snd.mss);
        } else if self.rec.tlp_high_seq == Some(block.end) {
            event.flags.dsack_tlp = true;
        }
        self.totals.dsack_dups = self.totals.dsack_dups.wrapping_add(dup_segs);
        if self.totals.dsack_dups > self.totals.total_retrans {
            return None;
        }
        if self.totals.reord_seen > 0 && !event.flags.dsack_tlp {
            self.rec.rack.dsack_seen = true;
        }
        event.flags.dsacking = true;
        event.sacked.delivered = event.sacked.delivered.wrapping_add(dup_segs);
        Some(dup_segs)
    }

    /// Sorts the blocks and drops those that are invalid or old.
    fn usable_blocks(
        &self,
        wire: &SackList,
        event: &AckEvent,
        has_dsack: bool,
        cx: &mut Cx<'_>,
    ) -> Blocks {
        let mut blocks = Blocks::default();
        for (index, block) in wire.as_slice().iter().enumerate() {
            let kind = BlockKind::dsack_if(index == 0 && has_dsack);
            if !self.sack_block_is_valid(*block, kind) {
                let merely_old = event.ack != self.snd.una && !block.end.after(self.snd.una);
                if kind == BlockKind::Sack && !merely_old {
                    cx.mib.sack_discard += 1;
                }
                continue;
            }
            if !block.end.after(event.prior_snd_una) {
                continue;
            }
            let mut place = blocks.len;
            while place > 0 && blocks.sorted[place - 1].start.after(block.start) {
                blocks.sorted[place] = blocks.sorted[place - 1];
                place -= 1;
            }
            blocks.sorted[place] = *block;
            blocks.len += 1;
            match blocks.dsack {
                Some(dsack) if dsack >= place => blocks.dsack = Some(dsack + 1),
                None if kind == BlockKind::Dsack => blocks.dsack = Some(place),
                _ => {}
            }
        }
        blocks
    }

    /// `tcp_is_sackblock_valid`.
    fn sack_block_is_valid(&self, block: SackBlock, kind: BlockKind) -> bool {
        let SackBlock { start, end } = block;
        if end.after(self.snd.nxt) || !start.before(end) || !start.before(self.snd.nxt) {
            return false;
        }
        if start.after(self.snd.una) {
            return true;
        }
        let BlockKind::Dsack = kind else { return false };
        let Some(undo_marker) = self.rec.undo_marker else { return false };
        if end.after(self.snd.una) {
            return false;
        }
        if !start.before(undo_marker) {
            return true;
        }
        end.after(undo_marker) && !start.before(end - self.snd.max_window)
    }

    /// Tags what the blocks cover, in order of sequence numbers, skipping what the previous ACK already
    /// reported. Records are measured by whole blocks, wherever the walk begins.
    fn tag_blocks(
        &mut self,
        blocks: &Blocks,
        cache: &[SackBlock; 4],
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) {
        let mut known = if self.rec.sacked_out == 0 { &[][..] } else { &cache[..] };
        let mut at = None;
        let mut index = 0;
        while index < blocks.len {
            let block = blocks.sorted[index];
            let kind = BlockKind::dsack_if(blocks.dsack == Some(index));
            let dsack = (blocks.dsack == Some(index + 1)).then(|| blocks.sorted[index + 1]);
            while let [old, later @ ..] = known
                && old.start != old.end
                && !block.start.before(old.end)
            {
                known = later;
            }
            if let [old, later @ ..] = known
                && old.start != old.end
                && kind == BlockKind::Sack
                && block.end.after(old.start)
            {
                if block.start.before(old.start) {
                    at = self.skip_to(at, block.start);
                    let head = SackBlock { start: block.start, end: old.start };
                    at = self.tag_range(at, head, dsack, BlockKind::Sack, event, cx);
                }
                if !block.end.after(old.end) {
                    index += 1;
                    continue;
                }
                if let Some(dsack) = dsack.filter(|dsack| dsack.start.before(old.end)) {
                    // Skipping must not miss it (`tcp_maybe_skipping_dsack`).
                    at = self.skip_to(at, dsack.start);
                    at = self.tag_range(at, dsack, None, BlockKind::Dsack, event, cx);
                }
                known = later;
                if self.highest_sack_seq() != old.end {
                    at = self.skip_to(at, old.end);
                    continue;
                }
                at = self.beyond_highest_sack();
                if at.is_none() {
                    break;
                }
            } else {
                if !block.start.before(self.highest_sack_seq()) {
                    at = self.beyond_highest_sack();
                    if at.is_none() {
                        break;
                    }
                }
                at = self.skip_to(at, block.start);
            }
            at = self.tag_range(at, block, dsack, kind, event, cx);
            index += 1;
        }
    }

    /// Where a walk continues that skips everything before `seq` (`tcp_sacktag_skip`).
    fn skip_to(&self, at: Option<Seq>, seq: Seq) -> Option<Seq> {
        if at.is_some_and(|at| at.after(seq)) {
            return at;
        }
        let record = self.queue.rtx_at(self.queue.rtx_index_ending_after(seq))?;
        Some(self.queue.get(record).seq).filter(|first| !first.after(seq))
    }

    /// The record behind the highest SACKed one (`tcp_highest_sack`).
    fn beyond_highest_sack(&self) -> Option<Seq> {
        let index = match self.rec.sacked_out {
            0 => 0,
            _ => self.queue.rtx_index_ending_after(self.rec.highest_sack),
        };
        self.queue.rtx_at(index).map(|id| self.queue.get(id).seq)
    }

    /// Walks the queue through one range, from the record that begins at `from` on
    /// (`tcp_sacktag_walk`). `dsack`: the block after this one, if that is a DSACK. Returns where the
    /// walk has ended.
    fn tag_range(
        &mut self,
        from: Option<Seq>,
        range: SackBlock,
        dsack: Option<SackBlock>,
        kind: BlockKind,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) -> Option<Seq> {
        let mut index = self.queue.rtx_index_ending_after(from?);
        loop {
            let id = self.queue.rtx_at(index)?;
            let seq = self.queue.get(id).seq;
            if !seq.before(range.end) {
                return Some(seq);
            }
            let came_twice = dsack.is_some_and(|dsack| {
                seq.before(dsack.end) && self.match_to_sack(id, dsack) == Match::Inside
            });
            if came_twice {
                self.tag_skb(id, BlockKind::Dsack, event, cx);
                index += 1;
                continue;
            }
            match self.shift_sacked(index, range, kind, event, cx) {
                Shift::Joined => continue,
                Shift::Passed => {}
                Shift::Unfit => match self.match_to_sack(id, range) {
                    Match::Inside => self.tag_skb(id, kind, event, cx),
                    Match::Outside => {}
                    Match::Refused => return Some(seq),
                },
            }
            index += 1;
        }
    }

    /// Is the segment inside the range? Splits super-packets at whole segments
    /// (`tcp_match_skb_to_sack`).
    fn match_to_sack(&mut self, id: SkbId, range: SackBlock) -> Match {
        let skb = *self.queue.get(id);
        let starts_inside = !range.start.after(skb.seq);
        if starts_inside && !range.end.before(skb.end_seq) {
            return Match::Inside;
        }
        if skb.pcount <= 1 || !skb.end_seq.after(range.start) {
            return Match::Outside;
        }
        let mss = u32::from(skb.gso_size);
        let mut len = if starts_inside {
            range.end.bytes_since(skb.seq)
        } else {
            range.start.bytes_since(skb.seq).max(mss)
        };
        if starts_inside && len < mss {
            return Match::Refused;
        }
        if len > mss {
            let whole = len / mss * mss;
            len = if !starts_inside && whole < len { whole + mss } else { whole };
        }
        if len >= skb.len() && !starts_inside {
            return Match::Outside;
        }
        if self.is_too_much_to_split(id) {
            return Match::Refused;
        }
        self.fragment(id, len);
        if starts_inside { Match::Inside } else { Match::Outside }
    }

    /// Tags a whole record as SACKed.
    fn tag_skb(&mut self, id: SkbId, kind: BlockKind, event: &mut AckEvent, cx: &mut Cx<'_>) {
        let skb = *self.queue.get(id);
        if let Some(sacked) = self.tag_one(Tagged::whole(&skb), kind, event, cx) {
            if !skb.has(tag::SACKED) && sacked & tag::SACKED != 0 {
                event.flags.delivered_bytes += skb.len();
            }
            let skb = self.queue.get_mut(id);
            skb.sacked = sacked;
            self.rate.skb_delivered(skb, &mut event.sample);
            if sacked & tag::SACKED != 0 {
                self.queue.unlink_sent(id);
            }
        }
    }

    /// Counts one range of a record as SACKed and returns its new tags; `None`: it is
    /// cumulatively acknowledged already (`tcp_sacktag_one`).
    pub(super) fn tag_one(
        &mut self,
        range: Tagged,
        kind: BlockKind,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) -> Option<u8> {
        let Tagged { seq, end_seq, pcount, sacked: before, sent_us } = range;
        let mut sacked = before;
        if kind == BlockKind::Dsack && sacked & tag::EVER_RETRANS != 0 {
            if self.rec.undo_retrans > 0
                && self.rec.undo_marker.is_some_and(|marker| end_seq.after(marker))
            {
                self.rec.undo_retrans = (self.rec.undo_retrans - pcount as i32).max(0);
            }
            if sacked & tag::SACKED != 0 {
                event.sacked.reord = event.sacked.reord.min(seq);
            }
        }
        if !end_seq.after(self.snd.una) {
            return None;
        }
        if sacked & tag::SACKED == 0 {
            let min_rtt_us = self.rtt.min.get_us();
            self.rec.rack.advance(sacked, end_seq, sent_us, cx.now_us(), min_rtt_us);
            sacked = self.untag_lost(sacked, pcount);
            if before & tag::EVER_RETRANS == 0 {
                // Never retransmitted: if it was a hole, it was reordered.
                if seq.before(self.highest_sack_seq()) {
                    event.sacked.reord = event.sacked.reord.min(seq);
                }
                if !end_seq.after(self.rec.high_seq) {
                    event.flags.orig_sack_acked = true;
                }
                let first_us = event.sacked.sent_us.map_or(sent_us, |(first_us, _)| first_us);
                event.sacked.sent_us = Some((first_us, sent_us));
            }
            sacked |= tag::SACKED;
            event.flags.data_sacked = true;
            self.rec.sacked_out += pcount;
            event.sacked.delivered += pcount;
            if self.rec.sacked_out == pcount || end_seq.after(self.rec.highest_sack) {
                self.rec.highest_sack = end_seq;
            }
        }
        if kind == BlockKind::Dsack && sacked & tag::RETRANS != 0 {
            sacked &= !tag::RETRANS;
            self.rec.retrans_out -= pcount;
        }
        Some(sacked)
    }

    /// A SACKed segment is neither lost nor, if it was lost, still being retransmitted.
    fn untag_lost(&mut self, sacked: u8, pcount: u32) -> u8 {
        if sacked & tag::LOST == 0 {
            return sacked;
        }
        self.rec.lost_out -= pcount;
        if sacked & tag::RETRANS != 0 {
            self.rec.retrans_out -= pcount;
            return sacked & !(tag::LOST | tag::RETRANS);
        }
        sacked & !tag::LOST
    }
}

/// Position of a segment relative to a SACK block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Inside,
    Outside,
    /// It is partly covered, and cannot be split.
    Refused,
}
