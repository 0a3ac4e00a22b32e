//! The fast path of 2.6.22's `tcp_sacktag_write_queue`: if nothing but the end of the first block has
//! changed since the ACK before, only that block is walked, from where the last walk for it ended.
//!
//! What is SACKed comes out the same. But a retransmission below that place is not looked at, so
//! its loss stays unseen until an ACK brings another set of blocks.

use super::super::Connection;
use super::super::ack_event::AckEvent;
use crate::packet::seq::Seq;
use crate::packet::{SackBlock, SackList};

/// State kept between ACKs.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct SackFastPath {
    /// The blocks of the previous ACK, in wire order (`recv_sack_cache`).
    cache: [SackBlock; 4],
    /// Where the last walk for a first block ended, while the records that it passed are all in the
    /// queue (`fastpath_skb_hint`).
    hint: Option<Seq>,
}

/// The one walk that the fast path makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastWalk {
    /// For this block.
    pub block: SackBlock,
    /// From the record that begins here.
    pub from: Seq,
}

impl SackFastPath {
    /// Reads an ACK's blocks with `una` the head of the queue, some of which the ACK will free if it
    /// `advances`; `None`: all blocks are walked, from the head.
    fn read(&mut self, blocks: &[SackBlock], una: Seq, advances: bool) -> Option<FastWalk> {
        let [first, rest @ ..] = blocks else { return None };
        let [old, old_rest @ ..] = self.cache;
        let only_its_end = first.start == old.start && rest == &old_rest[..rest.len()];
        let walk = only_its_end
            .then(|| FastWalk { block: *first, from: self.hint.map_or(una, |hint| hint.max(una)) });
        self.cache = Default::default();
        self.cache[..blocks.len()].copy_from_slice(blocks);
        self.hint = (!advances).then_some(first.end);
        walk
    }
}

impl Connection {
    /// What the fast path walks for the blocks of an ACK; `None`: it does not apply to this ACK.
    pub(super) fn sack_fast_path(&mut self, wire: &SackList, event: &AckEvent) -> Option<FastWalk> {
        if !self.config.profile.sack_fast_path {
            return None;
        }
        let advances = event.flags.snd_una_advanced;
        self.rare().sack_fast_path.read(wire.as_slice(), event.prior_snd_una, advances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block((start, end): (u32, u32)) -> SackBlock {
        SackBlock { start: Seq(start), end: Seq(end) }
    }

    /// `una` is 1,000. An ACK: its blocks, does it advance, and from where the first one alone is walked.
    type Step = (&'static [(u32, u32)], bool, Option<u32>);

    fn steps(steps: &[Step]) {
        let mut path = SackFastPath::default();
        for (number, (blocks, advances, from)) in steps.iter().enumerate() {
            let blocks: Vec<_> = blocks.iter().copied().map(block).collect();
            let expected = from.map(|from| FastWalk { block: blocks[0], from: Seq(from) });
            assert_eq!(path.read(&blocks, Seq(1_000), *advances), expected, "step {number}");
        }
    }

    #[test]
    fn a_first_block_that_grows_is_walked_from_where_it_ended() {
        steps(&[
            (&[(5_000, 6_000), (2_000, 3_000)], false, None),
            (&[(5_000, 7_000), (2_000, 3_000)], false, Some(6_000)),
            (&[(5_000, 9_000), (2_000, 3_000)], false, Some(7_000)),
        ]);
    }

    #[test]
    fn any_other_change_walks_all_blocks_from_the_head() {
        steps(&[
            (&[(5_000, 6_000), (2_000, 3_000)], false, None),
            (&[(2_000, 4_000), (5_000, 6_000)], false, None),
            (&[(2_000, 4_000), (5_000, 7_000)], false, None),
            (&[(1_500, 4_000), (5_000, 7_000)], false, None),
            (&[(8_000, 9_000), (1_500, 4_000), (5_000, 7_000)], false, None),
        ]);
    }

    /// Blocks that the ACK no longer has are not compared: the first one may have taken them in.
    #[test]
    fn a_first_block_that_has_reached_the_second_is_walked_alone() {
        steps(&[
            (&[(2_000, 3_000), (5_000, 6_000)], false, None),
            (&[(2_000, 6_000)], false, Some(3_000)),
            (&[(2_000, 7_000), (5_000, 6_000)], false, None),
        ]);
    }

    /// If records are freed, the cached position is lost: only that block is walked, but from the head.
    #[test]
    fn after_a_cumulative_advance_the_walk_begins_at_the_head() {
        steps(&[
            (&[(5_000, 6_000)], false, None),
            (&[(5_000, 7_000)], true, Some(6_000)),
            (&[(5_000, 8_000)], false, Some(1_000)),
            (&[(5_000, 9_000)], false, Some(8_000)),
        ]);
    }

    /// A DSACK ends below the head, where its walk begins and ends.
    #[test]
    fn a_walk_begins_no_lower_than_the_head() {
        steps(&[
            (&[(500, 900), (5_000, 6_000)], false, None),
            (&[(500, 950), (5_000, 6_000)], false, Some(1_000)),
        ]);
    }
}
