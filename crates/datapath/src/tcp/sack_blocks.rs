//! The SACK blocks for data beyond a hole (`tcp_sack_new_ofo_skb`, RFC 2018).

use crate::packet::seq::Seq;
use crate::packet::{SackBlock, SackList};

/// Widens `block` by what touches it; says whether that does (`tcp_sack_extend`).
pub(super) fn extend(block: &mut SackBlock, start: Seq, end: Seq) -> bool {
    let touches = !start.after(block.end) && !block.start.after(end);
    if touches {
        *block = SackBlock { start: block.start.min(start), end: block.end.max(end) };
    }
    touches
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
        self.blocks[..self.len].iter_mut().position(|block| extend(block, start, end))
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
}
