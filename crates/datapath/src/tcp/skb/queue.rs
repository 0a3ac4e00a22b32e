//! The send queue: skb records, made, split and moved as the kernel does.
//!
//! Two sequence-ordered queues (`sk_write_queue`: not sent yet; `tcp_rtx_queue`: sent, not
//! acknowledged) hold indices into one slab, and a list threaded through the slab keeps the sent
//! records in order of their latest transmission (`tsorted_sent_queue`). Finding a sequence
//! number is a binary search; moving a record moves four bytes.

use super::{NONE, Skb, SkbId};
use crate::grow::reserve_one;
use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use crate::prefetch::prefetch_at;
use std::collections::VecDeque;

/// The send queue of one connection.
#[derive(Clone, Debug, Default)]
pub struct SendQueue {
    slab: Vec<Skb>,
    free: Vec<SkbId>,
    rtx: VecDeque<SkbId>,
    unsent: VecDeque<SkbId>,
    /// The ends of the list by transmission time.
    sent: SentEnds,
}

/// The first and the last record of a list; [`NONE`] if it is empty.
#[derive(Clone, Copy, Debug)]
struct SentEnds {
    head: SkbId,
    tail: SkbId,
}

impl Default for SentEnds {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

/// So many records are asked for together: what an ACK or two may acknowledge.
const FORESEEN: usize = 6;

/// The slab grows by as many records at least.
const SLAB_LEAST: usize = 4;

impl SendQueue {
    /// Prefetches the numbers of the records that will be acknowledged and sent first.
    #[inline]
    pub(in crate::tcp) fn prefetch(&self) {
        prefetch_at(self.rtx.as_slices().0, 0);
        prefetch_at(self.unsent.as_slices().0, 0);
    }

    /// Prefetches those records.
    #[inline]
    pub(in crate::tcp) fn prefetch_records(&self) {
        for id in self.rtx.iter().take(FORESEEN).chain(self.unsent.iter().take(2)) {
            prefetch_at(&self.slab, *id as usize);
        }
    }

    /// The record `id`.
    #[inline]
    pub fn get(&self, id: SkbId) -> &Skb {
        &self.slab[id as usize]
    }

    /// The record `id`, to change.
    #[inline]
    pub fn get_mut(&mut self, id: SkbId) -> &mut Skb {
        &mut self.slab[id as usize]
    }

    /// Appends a new record to the unsent queue (`tcp_skb_entail`).
    pub fn push_unsent(&mut self, skb: Skb) -> SkbId {
        let id = self.store(skb);
        self.unsent.push_back(id);
        id
    }

    /// Puts a record that is being sent straight into the retransmission queue (SYN, `tcp_connect`).
    pub fn push_sent(&mut self, skb: Skb) -> SkbId {
        let id = self.store(skb);
        self.rtx.push_back(id);
        self.link_sent_tail(id);
        id
    }

    /// The next record to send for the first time (`tcp_send_head`).
    #[inline]
    pub fn send_head(&self) -> Option<SkbId> {
        self.unsent.front().copied()
    }

    /// The last record of the unsent queue (`tcp_write_queue_tail`).
    #[inline]
    pub fn unsent_tail(&self) -> Option<SkbId> {
        self.unsent.back().copied()
    }

    /// The record after the send head.
    pub fn is_unsent_tail(&self, id: SkbId) -> bool {
        self.unsent.back() == Some(&id)
    }

    /// Nothing waits to be sent (`tcp_write_queue_empty`).
    pub fn unsent_is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// The oldest record in flight (`tcp_rtx_queue_head`).
    #[inline]
    pub fn rtx_head(&self) -> Option<SkbId> {
        self.rtx.front().copied()
    }

    /// The newest record in flight (`tcp_rtx_queue_tail`).
    pub fn rtx_tail(&self) -> Option<SkbId> {
        self.rtx.back().copied()
    }

    /// How many records are in flight.
    pub fn rtx_len(&self) -> usize {
        self.rtx.len()
    }

    /// The `index`-th record in flight, oldest first.
    #[inline]
    pub fn rtx_at(&self, index: usize) -> Option<SkbId> {
        self.rtx.get(index).copied()
    }

    /// The `index`-th record that waits to be sent.
    pub fn unsent_at(&self, index: usize) -> Option<SkbId> {
        self.unsent.get(index).copied()
    }

    /// Index of the first record in flight that ends after `seq` (`tcp_sacktag_skip`).
    pub fn rtx_index_ending_after(&self, seq: Seq) -> usize {
        self.rtx.partition_point(|&id| self.get(id).end_seq.at_or_before(seq))
    }

    /// The send head has been sent (`tcp_event_new_data_sent`): it moves to the retransmission
    /// queue and to the end of the list by transmission time.
    pub fn send_head_sent(&mut self) {
        let id = self.unsent.pop_front().expect("a send head was just sent");
        self.rtx.push_back(id);
        self.link_sent_tail(id);
    }

    /// The oldest record in flight is wholly acknowledged: it leaves.
    pub fn pop_rtx_head(&mut self) -> Skb {
        let id = self.rtx.pop_front().expect("an acknowledged record is in flight");
        if let Some(&soon) = self.rtx.get(FORESEEN - 1) {
            prefetch_at(&self.slab, soon as usize);
        }
        self.unlink_sent(id);
        self.free.push(id);
        self.slab[id as usize]
    }

    /// Removes the `index`-th record in flight: a neighbour has taken over what it held
    /// (`tcp_rtx_queue_unlink_and_free`).
    pub fn remove_rtx(&mut self, index: usize) -> Skb {
        let id = self.rtx.remove(index).expect("a joined record is in flight");
        self.unlink_sent(id);
        self.free.push(id);
        self.slab[id as usize]
    }

    /// Splits record `id` after `len` payload bytes and returns the new second half
    /// (`tcp_fragment`, `tso_fragment`). FIN and PSH go with the second half. `overhead` is the
    /// truesize of the new record without data.
    pub fn split(&mut self, id: SkbId, len: u32, overhead: u32, mss: u32) -> SkbId {
        let first = self.get_mut(id);
        let old_pcount = first.pcount;
        let mut second = *first;
        let tail_flags = TcpFlags::FIN | TcpFlags::PSH;
        second.seq = first.seq + len;
        first.end_seq = second.seq;
        first.flags = first.flags.without(tail_flags);
        second.flags = second.flags.without(TcpFlags::CWR);
        let moved = second.len();
        first.truesize = first.truesize.saturating_sub(moved);
        second.truesize = overhead + moved;
        second.eor = first.eor;
        first.eor = false;
        if old_pcount > 0 {
            first.set_segments(mss);
            second.set_segments(mss);
        }
        second.listed = false;
        let listed = first.listed;
        let new = self.store(second);
        if self.unsent.front() == Some(&id) {
            self.unsent.insert(1, new);
        } else if let Some(index) = self.index_in(&self.rtx, id) {
            self.rtx.insert(index + 1, new);
            if listed {
                self.link_sent_after(id, new);
            }
        } else {
            let index = self.index_in(&self.unsent, id).expect("a split record is queued");
            self.unsent.insert(index + 1, new);
        }
        new
    }

    /// Puts `new` in front of the unsent queue and takes what it covers out of the records behind
    /// it (`tcp_mtu_probe`). Gives the memory that this frees; `None`, and nothing done, if a
    /// record ends a message, is the last with FIN, or there is too little.
    pub fn merge_unsent_head(&mut self, new: Skb) -> Option<u32> {
        let tail = self.get(*self.unsent.back()?);
        if tail.end_seq.before(new.end_seq) || self.covers_a_border(&new) {
            return None;
        }
        let mut new = new;
        let mut freed = 0;
        while let Some(&id) = self.unsent.front() {
            let skb = *self.get(id);
            if !skb.seq.before(new.end_seq) {
                break;
            }
            if skb.end_seq.after(new.end_seq) {
                let taken = new.end_seq.bytes_since(skb.seq);
                let rest = self.get_mut(id);
                rest.seq = new.end_seq;
                rest.truesize = rest.truesize.saturating_sub(taken);
                rest.pcount = 0;
                freed += taken;
                break;
            }
            new.flags |= skb.flags;
            new.eor = skb.eor;
            freed += skb.truesize;
            self.unsent.pop_front();
            self.free.push(id);
        }
        let id = self.store(new);
        self.unsent.push_front(id);
        Some(freed)
    }

    /// A record that `new` would swallow ends a message or the stream.
    fn covers_a_border(&self, new: &Skb) -> bool {
        let swallowed = self.unsent.iter().map(|&id| self.get(id));
        let mut inside = swallowed.take_while(|skb| skb.seq.before(new.end_seq));
        inside.any(|skb| {
            skb.flags.contains(TcpFlags::FIN) || (skb.eor && skb.end_seq.before(new.end_seq))
        })
    }

    /// Moves up to `amount` bytes of the second unsent record to the first one, `id`, unless that
    /// ends a message (`tcp_grow_skb`). Gives the memory that this frees.
    pub fn grow_send_head(&mut self, id: SkbId, amount: u32) -> u32 {
        let Some(&next_id) = self.unsent.get(1) else { return 0 };
        let next = *self.get(next_id);
        let moved = amount.min(next.len());
        let head = self.get(id);
        if moved == 0 || head.eor || head.is_pinned() || next.is_pinned() {
            return 0;
        }
        let all = moved == next.len();
        let head = self.get_mut(id);
        head.end_seq = if all { next.end_seq } else { head.end_seq + moved };
        head.truesize += moved;
        head.pcount = 0;
        if !all {
            let next = self.get_mut(next_id);
            next.seq += moved;
            next.truesize = next.truesize.saturating_sub(moved);
            next.pcount = 0;
            return 0;
        }
        head.flags |= next.flags;
        head.eor = next.eor;
        self.unsent.remove(1);
        self.free.push(next_id);
        next.truesize.saturating_sub(moved)
    }

    /// Forgets everything (`tcp_write_queue_purge`).
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The record sent longest ago, among those in the list by transmission time.
    #[inline]
    pub fn sent_head(&self) -> Option<SkbId> {
        Some(self.sent.head).filter(|&head| head != NONE)
    }

    /// The one sent next after `id`.
    pub fn sent_after(&self, id: SkbId) -> Option<SkbId> {
        Some(self.get(id).sent_next).filter(|&next| next != NONE)
    }

    /// Moves `id` to the end of the list by transmission time: it was just retransmitted.
    pub fn resent(&mut self, id: SkbId) {
        self.unlink_sent(id);
        self.link_sent_tail(id);
    }

    /// Takes `id` out of the list by transmission time: it was SACKed or marked lost, and RACK
    /// need not look at it again.
    pub fn unlink_sent(&mut self, id: SkbId) {
        let Skb { sent_prev, sent_next, listed, .. } = *self.get(id);
        if !listed {
            return;
        }
        match sent_prev {
            NONE => self.sent.head = sent_next,
            prev => self.get_mut(prev).sent_next = sent_next,
        }
        match sent_next {
            NONE => self.sent.tail = sent_prev,
            next => self.get_mut(next).sent_prev = sent_prev,
        }
        let skb = self.get_mut(id);
        (skb.sent_prev, skb.sent_next, skb.listed) = (NONE, NONE, false);
    }

    fn link_sent_tail(&mut self, id: SkbId) {
        let tail = core::mem::replace(&mut self.sent.tail, id);
        match tail {
            NONE => self.sent.head = id,
            tail => self.get_mut(tail).sent_next = id,
        }
        let skb = self.get_mut(id);
        (skb.sent_prev, skb.sent_next, skb.listed) = (tail, NONE, true);
    }

    fn link_sent_after(&mut self, id: SkbId, new: SkbId) {
        let next = self.get(id).sent_next;
        self.get_mut(id).sent_next = new;
        match next {
            NONE => self.sent.tail = new,
            next => self.get_mut(next).sent_prev = new,
        }
        let skb = self.get_mut(new);
        (skb.sent_prev, skb.sent_next, skb.listed) = (id, next, true);
    }

    fn index_in(&self, queue: &VecDeque<SkbId>, id: SkbId) -> Option<usize> {
        let seq = self.get(id).seq;
        let index = queue.partition_point(|&other| self.get(other).seq.before(seq));
        (queue.get(index) == Some(&id)).then_some(index)
    }

    fn store(&mut self, skb: Skb) -> SkbId {
        if let Some(id) = self.free.pop() {
            self.slab[id as usize] = skb;
            return id;
        }
        // In a large world most of the memory may lie here.
        reserve_one(&mut self.slab, SLAB_LEAST);
        self.slab.push(skb);
        (self.slab.len() - 1) as SkbId
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_of(count: u32) -> SendQueue {
        let mut queue = SendQueue::default();
        for index in 0..count {
            let seq = Seq(1_000) + index * 2_000;
            let mut skb = Skb::new(seq, seq + 2_000, TcpFlags::ACK, 3_280);
            skb.set_segments(1_000);
            queue.push_unsent(skb);
            queue.send_head_sent();
        }
        queue
    }

    fn sent_order(queue: &SendQueue) -> Vec<u32> {
        let mut order = Vec::new();
        let mut at = queue.sent_head();
        while let Some(id) = at {
            order.push(queue.get(id).seq.0);
            at = queue.sent_after(id);
        }
        order
    }

    #[test]
    fn splitting_keeps_sequence_and_send_order() {
        let mut queue = queue_of(3);
        let middle = queue.rtx_at(1).unwrap();
        queue.get_mut(middle).flags |= TcpFlags::PSH;
        let second = queue.split(middle, 1_000, 1_280, 1_000);
        assert_eq!(sent_order(&queue), [1_000, 3_000, 4_000, 5_000]);
        assert_eq!(queue.get(middle).pcount, 1);
        assert_eq!(queue.get(second).pcount, 1);
        assert!(!queue.get(middle).flags.contains(TcpFlags::PSH));
        assert!(queue.get(second).flags.contains(TcpFlags::PSH));
        assert_eq!(queue.get(second).truesize, 2_280);
        assert_eq!(queue.get(middle).truesize, 2_280);
    }

    #[test]
    fn resent_records_go_to_the_end_of_the_send_order() {
        let mut queue = queue_of(3);
        let first = queue.rtx_head().unwrap();
        queue.resent(first);
        assert_eq!(sent_order(&queue), [3_000, 5_000, 1_000]);
        queue.unlink_sent(first);
        queue.unlink_sent(first);
        assert_eq!(sent_order(&queue), [3_000, 5_000]);
        queue.pop_rtx_head();
        assert_eq!(queue.rtx_len(), 2);
    }

    #[test]
    fn search_finds_the_record_that_holds_a_sequence_number() {
        let queue = queue_of(3);
        assert_eq!(queue.rtx_index_ending_after(Seq(1_000)), 0);
        assert_eq!(queue.rtx_index_ending_after(Seq(2_999)), 0);
        assert_eq!(queue.rtx_index_ending_after(Seq(3_000)), 1);
        assert_eq!(queue.rtx_index_ending_after(Seq(7_000)), 3);
    }
}
