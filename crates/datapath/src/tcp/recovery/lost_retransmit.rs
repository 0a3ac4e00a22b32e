//! How a retransmission is found lost again: the rules of 2.6.22 and of the two patches of
//! October 2007 (Takano, "detection of loss of retransmitted packets").
//!
//! When a segment is retransmitted, `snd_nxt` of that moment is noted with it (`ack_seq`). If
//! data at or above that point is SACKed later and the retransmission is not, it was lost. The
//! vanilla walk looked at each retransmission only once per ACK, during the scan of the SACK
//! block below or in which it lies, and compared `ack_seq` with the end of that one block only.

use super::super::skb::tag;
use super::super::{Connection, Cx};
use super::CaState;
use super::sack_fast_path::FastWalk;
use crate::packet::SackBlock;
use crate::packet::seq::Seq;
use crate::profile::LostRetransmit;
use crate::trace::Cause;

/// A retransmission in the network: its first sequence number and `snd_nxt` when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retransmission {
    seq: Seq,
    ack_seq: Seq,
}

impl Connection {
    /// Looks for lost retransmissions after an ACK with `blocks`, sorted by start, where `cache`
    /// holds the blocks of the previous ACK, and `fast` is the only walk if the fast path applies. Returns true if any was found.
    pub(super) fn find_lost_retransmissions(
        &mut self,
        blocks: &[SackBlock],
        cache: &[SackBlock],
        fast: Option<FastWalk>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let detector = self.config.profile.lost_retransmit;
        if detector == LostRetransmit::Rack
            || self.rec.retrans_out == 0
            || self.window.ca_state != CaState::Recovery
        {
            return false;
        }
        let mut walked = [SackBlock::default(); 4];
        let mut count = 0;
        for block in blocks {
            let is_left_out = fast.is_some_and(|fast| fast.block != *block);
            let is_known =
                detector.skips_reported() && cache.iter().any(|old| covers(*old, *block));
            if !(is_left_out || is_known) {
                walked[count] = *block;
                count += 1;
            }
        }
        let first = fast.map_or(0, |fast| self.queue.rtx_index_ending_after(fast.from));
        let retransmissions = (first..self.queue.rtx_len()).filter_map(|index| {
            let skb = self.queue.get(self.queue.rtx_at(index)?);
            skb.has(tag::RETRANS)
                .then_some(Retransmission { seq: skb.seq, ack_seq: skb.snd_nxt_at_retransmit() })
        });
        let highest = blocks.iter().fold(None, |highest: Option<Seq>, block| {
            Some(highest.map_or(block.end, |highest| highest.max(block.end)))
        });
        let compare_highest = highest.filter(|_| detector.compares_highest());
        match lost_up_to(&walked[..count], compare_highest, retransmissions) {
            Some(end) => self.mark_retransmissions_lost(end, cx),
            None => false,
        }
    }

    /// Marks every retransmission whose `ack_seq` lies below `end`.
    fn mark_retransmissions_lost(&mut self, end: Seq, cx: &mut Cx<'_>) -> bool {
        let slack = if self.totals.reord_seen == 0 {
            0
        } else {
            // Without FACK a retransmission counts as lost only beyond the reordering degree.
            self.rec.reordering * self.snd.mss
        };
        let mut found = false;
        for index in 0..self.queue.rtx_len() {
            let id = self.queue.rtx_at(index).expect("within the queue");
            let skb = *self.queue.get(id);
            if skb.seq.after(end) {
                break;
            }
            let passed = end.after(skb.snd_nxt_at_retransmit())
                && !end.before(skb.snd_nxt_at_retransmit() + slack);
            if skb.has(tag::RETRANS) && passed {
                // A forward retransmission may be of data that has arrived: only its mark is removed.
                if skb.has(tag::SACKED) {
                    self.forget_retransmission(id);
                }
                self.mark_skb_lost(id, Cause::LostRetransmit, cx);
                found = true;
            }
        }
        found
    }
}

/// The forward walk: one pass over the retransmissions for all `blocks` (sorted). Each is looked
/// at during the scan of the first block that ends above it, and compared with that block's end,
/// or with `highest` if given. Returns the largest end that some `ack_seq` lies below.
fn lost_up_to(
    blocks: &[SackBlock],
    highest: Option<Seq>,
    retransmissions: impl Iterator<Item = Retransmission>,
) -> Option<Seq> {
    let mut lost: Option<Seq> = None;
    let mut block = 0;
    for retransmission in retransmissions {
        while block < blocks.len() && retransmission.seq.at_or_after(blocks[block].end) {
            block += 1;
        }
        let Some(scanned) = blocks.get(block) else { break };
        let end = highest.unwrap_or(scanned.end);
        if end.after(retransmission.ack_seq) {
            lost = Some(lost.map_or(end, |lost| lost.max(end)));
        }
    }
    lost
}

/// `inner` was reported as part of `outer` before.
fn covers(outer: SackBlock, inner: SackBlock) -> bool {
    outer.start != outer.end
        && outer.start.at_or_before(inner.start)
        && outer.end.at_or_after(inner.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pairs: &[(u32, u32)]) -> Vec<SackBlock> {
        pairs.iter().map(|&(start, end)| SackBlock { start: Seq(start), end: Seq(end) }).collect()
    }

    fn retransmitted(seq: u32, ack_seq: u32) -> std::vec::IntoIter<Retransmission> {
        vec![Retransmission { seq: Seq(seq), ack_seq: Seq(ack_seq) }].into_iter()
    }

    /// "A retransmitted packet is lost if it is not SACKed, and its ack_seq is smaller than the
    /// sequence number of any SACKed packet."
    #[test]
    fn a_block_above_ack_seq_shows_that_a_retransmission_was_lost() {
        let sacks = blocks(&[(30_000, 33_000)]);
        assert_eq!(lost_up_to(&sacks, None, retransmitted(10_000, 32_000)), Some(Seq(33_000)));
        assert_eq!(lost_up_to(&sacks, None, retransmitted(10_000, 33_000)), None);
    }

    /// "A retransmitted packet which ack_seq is smaller than the end_seq of the last SACK block
    /// but larger than that of the currently being processed SACK block can not be detected as
    /// lost."
    #[test]
    fn the_vanilla_walk_misses_what_only_a_later_block_tells() {
        let sacks = blocks(&[(12_000, 14_000), (30_000, 33_000)]);
        assert_eq!(lost_up_to(&sacks, None, retransmitted(10_000, 32_000)), None);
    }

    /// "PATCH #1 fixes this problem by comparing the ack_seq with the largest end_seq of the SACK
    /// blocks."
    #[test]
    fn patch_1_compares_with_the_largest_end() {
        let sacks = blocks(&[(12_000, 14_000), (30_000, 33_000)]);
        let highest = Some(Seq(33_000));
        assert_eq!(lost_up_to(&sacks, highest, retransmitted(10_000, 32_000)), Some(Seq(33_000)));
    }

    /// "PATCH #2 optimizes processing by skipping such already reported SACK blocks. Usually,
    /// only the first SACK block of an ACK packet is the new one to be processed. Therefore, in
    /// most cases, applying PATCH #2 also solves the problem."
    #[test]
    fn patch_2_leaves_the_new_block_only_and_so_finds_it() {
        let new_only = blocks(&[(30_000, 33_000)]);
        assert_eq!(lost_up_to(&new_only, None, retransmitted(10_000, 32_000)), Some(Seq(33_000)));
        let old = SackBlock { start: Seq(12_000), end: Seq(14_000) };
        assert!(covers(old, old));
        assert!(!covers(old, SackBlock { start: Seq(12_000), end: Seq(15_000) }));
    }

    /// "However, to ensure accurate processing in case there are multiple new SACK blocks in an
    /// ACK packet, PATCH #2 should be applied in conjunction with PATCH #1."
    #[test]
    fn with_several_new_blocks_patch_2_alone_still_misses() {
        let all_new = blocks(&[(12_000, 15_000), (30_000, 33_000)]);
        assert_eq!(lost_up_to(&all_new, None, retransmitted(10_000, 32_000)), None);
        let highest = Some(Seq(33_000));
        assert_eq!(lost_up_to(&all_new, highest, retransmitted(10_000, 32_000)), Some(Seq(33_000)));
    }

    /// "The next SACK block is processed not from the snd_una but from the end_seq of the
    /// previously processed SACK block": the walk never goes back.
    #[test]
    fn a_retransmission_between_two_blocks_is_compared_with_the_second() {
        let sacks = blocks(&[(12_000, 14_000), (30_000, 33_000)]);
        assert_eq!(lost_up_to(&sacks, None, retransmitted(20_000, 32_000)), Some(Seq(33_000)));
    }
}
