//! What was received, as the kernel keeps it: records in order, records beyond a hole, and the SACK
//! blocks that tell of those (`tcp_data_queue_ofo`, `tcp_sack_new_ofo_skb`).

use super::seq::Seq;
use crate::packet::{Memory, SackBlock, SackList};
use std::collections::VecDeque;

/// One received segment, or several whose pages lie in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub seq: Seq,
    pub end_seq: Seq,
    /// Memory that it is charged as.
    pub truesize: u32,
    /// Fragments of pages; 0 = all bytes lie in the head.
    pub frags: u8,
    pub fin: bool,
}

/// `MAX_SKB_FRAGS`.
const MAX_FRAGS: u8 = 17;

impl Received {
    /// Appends the pages of `next`, if it follows at once and lies in pages; returns the memory
    /// that it is charged as from now on (`tcp_try_coalesce`, `skb_try_coalesce`).
    fn coalesce(&mut self, next: &Self) -> Option<u32> {
        let fits = next.frags > 0 && self.frags + next.frags <= MAX_FRAGS;
        if next.seq != self.end_seq || !fits {
            return None;
        }
        let payload = next.end_seq.bytes_since(next.seq) - u32::from(next.fin);
        self.end_seq = next.end_seq;
        self.frags += next.frags;
        self.truesize += payload;
        self.fin |= next.fin;
        Some(payload)
    }
}

/// How many fragments a packet's bytes lie in, as far as the receiver's queue is concerned.
pub(super) fn fragments(memory: Memory) -> u8 {
    u8::from(memory == Memory::Paged)
}

/// In-order data that the application has not read.
#[derive(Clone, Debug, Default)]
pub(super) struct InOrder(VecDeque<Received>);

impl InOrder {
    /// Appends a record; returns the memory that it is charged as (`tcp_queue_rcv`).
    pub fn append(&mut self, record: Received) -> u32 {
        if let Some(charged) = self.0.back_mut().and_then(|tail| tail.coalesce(&record)) {
            return charged;
        }
        self.0.push_back(record);
        record.truesize
    }

    /// The oldest record.
    pub fn front(&self) -> Option<&Received> {
        self.0.front()
    }

    /// Takes the oldest record.
    pub fn pop(&mut self) -> Option<Received> {
        self.0.pop_front()
    }

    /// Nothing waits to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Records beyond a hole, by sequence number; none lies within another.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfOrder(VecDeque<Received>);

/// What became of a record that was put beyond a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It lies there.
    Kept,
    /// Its pages belong to the record before it.
    Coalesced,
    /// All of it was there already.
    Dropped,
}

/// The outcome of [`OutOfOrder::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    pub placed: Placed,
    /// Memory that is charged for the record.
    pub charged: u32,
    /// Memory of records that it has replaced.
    pub freed: u32,
    /// What was received twice.
    pub duplicate: Option<SackBlock>,
}

impl OutOfOrder {
    /// No hole is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that lies here is one FIN.
    pub fn is_one_fin(&self) -> bool {
        self.0.len() == 1 && self.0[0].fin
    }

    /// The record with the lowest sequence number.
    pub fn first(&self) -> Option<&Received> {
        self.0.front()
    }

    /// Takes that record.
    pub fn pop(&mut self) -> Option<Received> {
        self.0.pop_front()
    }

    /// Puts a record in its place (`tcp_data_queue_ofo`).
    pub fn insert(&mut self, new: Received) -> Insertion {
        let mut result =
            Insertion { placed: Placed::Kept, charged: new.truesize, freed: 0, duplicate: None };
        // The first record that does not end before the new one begins.
        let mut at = self.0.partition_point(|old| old.end_seq.at_or_before(new.seq));
        if let Some(charged) = at.checked_sub(1).and_then(|index| self.0[index].coalesce(&new)) {
            return Insertion { placed: Placed::Coalesced, charged, ..result };
        }
        if let Some(&old) = self.0.get(at)
            && old.seq.at_or_before(new.seq)
        {
            if !new.end_seq.after(old.end_seq) {
                result.duplicate = Some(SackBlock { start: new.seq, end: new.end_seq });
                return Insertion { placed: Placed::Dropped, charged: 0, ..result };
            }
            if old.seq.before(new.seq) {
                result.duplicate = Some(SackBlock { start: new.seq, end: old.end_seq });
                at += 1;
            }
        }
        while let Some(&old) = self.0.get(at)
            && old.seq.before(new.end_seq)
        {
            let end = old.end_seq.min(new.end_seq);
            let start = result.duplicate.map_or(old.seq, |block| block.start);
            result.duplicate = Some(SackBlock { start, end });
            if new.end_seq.before(old.end_seq) {
                break;
            }
            self.0.remove(at);
            result.freed += old.truesize;
        }
        self.0.insert(at, new);
        result
    }
}

/// The blocks to report, newest first (`selective_acks`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackBlocks {
    blocks: [SackBlock; 4],
    len: usize,
}

impl SackBlocks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Just past the highest byte that they report.
    pub fn highest_end(&self) -> Option<Seq> {
        let ends = self.blocks[..self.len].iter().map(|block| block.end);
        ends.reduce(|high, end| if end.after(high) { end } else { high })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds them to `list`, which takes `max` in all.
    pub fn append_to(&self, list: &mut SackList, max: usize) {
        for block in &self.blocks[..self.len] {
            if list.len() == max {
                break;
            }
            list.push(*block);
        }
    }

    /// Extends the block that touches `start..end`; returns which (`tcp_sack_extend`).
    pub fn extend(&mut self, start: Seq, end: Seq) -> Option<usize> {
        let touched = self.blocks[..self.len].iter_mut().position(|block| {
            let touches = !start.after(block.end) && !block.start.after(end);
            if touches {
                *block = SackBlock { start: block.start.min(start), end: block.end.max(end) };
            }
            touches
        });
        touched
    }

    /// Puts block `index`, just extended, first, joined with others that it has grown into
    /// (`tcp_sack_maybe_coalesce`).
    pub fn promote(&mut self, index: usize) {
        self.blocks[..=index].rotate_right(1);
        let mut first = self.blocks[0];
        let mut kept = 1;
        for at in 1..self.len {
            let block = self.blocks[at];
            if !block.start.after(first.end) && !first.start.after(block.end) {
                first = SackBlock {
                    start: first.start.min(block.start),
                    end: first.end.max(block.end),
                };
            } else {
                self.blocks[kept] = block;
                kept += 1;
            }
        }
        self.blocks[0] = first;
        self.len = kept;
    }

    /// A new block, put first; the oldest of five is forgotten.
    pub fn insert(&mut self, start: Seq, end: Seq) {
        self.len = (self.len + 1).min(self.blocks.len());
        self.blocks[..self.len].rotate_right(1);
        self.blocks[0] = SackBlock { start, end };
    }

    /// Forgets blocks that `nxt` has passed (`tcp_sack_remove`).
    pub fn drop_passed(&mut self, nxt: Seq) {
        let mut kept = 0;
        for index in 0..self.len {
            if self.blocks[index].start.after(nxt) {
                self.blocks[kept] = self.blocks[index];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u32, end: u32) -> Received {
        Received { seq: Seq(seq), end_seq: Seq(end), truesize: 2_304, frags: 0, fin: false }
    }

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock { start: Seq(start), end: Seq(end) }
    }

    fn report(blocks: &mut SackBlocks, start: u32, end: u32) -> Vec<(u32, u32)> {
        match blocks.extend(Seq(start), Seq(end)) {
            Some(index) => blocks.promote(index),
            None => blocks.insert(Seq(start), Seq(end)),
        }
        let mut list = SackList::EMPTY;
        blocks.append_to(&mut list, 4);
        list.as_slice().iter().map(|b| (b.start.0, b.end.0)).collect()
    }

    #[test]
    fn the_newest_block_comes_first_and_neighbours_join() {
        let mut blocks = SackBlocks::default();
        for (seq, end, expected) in [
            (2_000, 3_000, vec![(2_000, 3_000)]),
            (5_000, 6_000, vec![(5_000, 6_000), (2_000, 3_000)]),
            (3_000, 4_000, vec![(2_000, 4_000), (5_000, 6_000)]),
            (4_000, 5_000, vec![(2_000, 6_000)]),
        ] {
            assert_eq!(report(&mut blocks, seq, end), expected, "after {seq}..{end}");
        }
    }

    #[test]
    fn a_fifth_block_pushes_the_oldest_out() {
        let mut blocks = SackBlocks::default();
        let mut last = Vec::new();
        for start in [2_000, 4_000, 6_000, 8_000, 10_000] {
            last = report(&mut blocks, start, start + 1_000);
        }
        assert_eq!(last, [(10_000, 11_000), (8_000, 9_000), (6_000, 7_000), (4_000, 5_000)]);
    }

    #[test]
    fn what_was_there_is_reported_as_duplicate() {
        let mut queue = OutOfOrder::default();
        for (new, placed, freed, duplicate) in [
            (record(2_000, 3_000), Placed::Kept, 0, None),
            (record(4_000, 5_000), Placed::Kept, 0, None),
            (record(2_200, 2_800), Placed::Dropped, 0, Some(block(2_200, 2_800))),
            (record(2_500, 3_500), Placed::Kept, 0, Some(block(2_500, 3_000))),
            (record(3_500, 4_500), Placed::Kept, 0, Some(block(4_000, 4_500))),
            (record(3_500, 6_000), Placed::Kept, 2 * 2_304, Some(block(3_500, 5_000))),
        ] {
            let done = queue.insert(new);
            assert_eq!((done.placed, done.freed, done.duplicate), (placed, freed, duplicate));
        }
    }

    #[test]
    fn pages_join_the_record_before_them_and_heads_do_not() {
        let paged =
            |seq, end| Received { truesize: 1_280 + end - seq, frags: 1, ..record(seq, end) };
        let mut queue = OutOfOrder::default();
        queue.insert(paged(1_000, 2_000));
        let joined = queue.insert(paged(2_000, 3_000));
        assert_eq!((joined.placed, joined.charged), (Placed::Coalesced, 1_000));
        let apart = queue.insert(record(3_000, 4_000));
        assert_eq!((apart.placed, apart.charged), (Placed::Kept, 2_304));
        let mut in_order = InOrder::default();
        let charged: Vec<u32> =
            (1..20).map(|n| in_order.append(paged(n * 1_000, n * 1_000 + 1_000))).collect();
        // Seventeen fragments fill a record.
        assert_eq!(charged[..2], [2_280, 1_000]);
        assert_eq!(charged[16..18], [1_000, 2_280]);
    }
}
