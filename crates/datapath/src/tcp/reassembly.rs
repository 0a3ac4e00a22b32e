//! What was received, as the kernel keeps it: records in order, and records beyond a hole
//! (`tcp_queue_rcv`, `tcp_data_queue_ofo`).

mod record;
mod tree;

pub use record::truesize_of_segments;
pub(super) use record::{Received, pages_for, truesize_of};

use super::sack_blocks::extend;
use crate::packet::SackBlock;
use crate::packet::seq::Seq;
use std::collections::VecDeque;
use tree::{Id, Side, Tree};

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

    /// Makes room for so many more records.
    pub fn reserve(&mut self, more: usize) {
        self.0.reserve_exact(more);
    }

    /// Nothing waits, and the room for it is given back.
    #[cold]
    pub fn give_room_back(&mut self) {
        assert!(self.0.is_empty(), "room for records that wait is given back");
        self.0 = VecDeque::new();
    }

    /// Nobody else has a share in the records any more.
    pub fn unshare(&mut self) {
        self.0.iter_mut().for_each(|record| record.shared = false);
    }

    /// Throws all away; gives the memory that this frees.
    pub fn purge(&mut self) -> u32 {
        self.0.drain(..).map(|record| record.truesize).sum()
    }

    /// The records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Received> {
        self.0.iter()
    }

    /// Nothing waits to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records, to squeeze.
    pub fn records_mut(&mut self) -> &mut VecDeque<Received> {
        &mut self.0
    }
}

/// Records beyond a hole, by sequence number (`out_of_order_queue`). Most of the time there is no hole.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfOrder(Option<Box<Tree>>);

/// What became of a record that was put beyond a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
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
    pub placed: Placement,
    /// Memory that is charged for the record.
    pub charged: u32,
    /// Memory of records that it has replaced.
    pub freed: u32,
    /// What was received twice.
    pub duplicate: Option<SackBlock>,
}

/// Where a record goes that joins no other.
enum InsertPosition {
    /// Here.
    Free(Option<(Id, Side)>),
    /// In the place of one that begins with it and that it covers.
    Instead(Id),
    /// It has joined this one, which is charged so much for it.
    Joined(u32),
    /// Nowhere: all of it is there.
    Covered,
}

impl OutOfOrder {
    #[inline]
    fn tree(&self) -> &Tree {
        static NONE: Tree = Tree::EMPTY;
        self.0.as_deref().unwrap_or(&NONE)
    }

    fn tree_mut(&mut self) -> &mut Tree {
        self.0.get_or_insert_default()
    }

    /// Takes a record out. What held the last one is given back: there may be many connections.
    fn remove(&mut self, id: Id) -> Received {
        let record = self.tree_mut().remove(id);
        if self.tree().len() == 0 {
            self.0 = None;
        }
        record
    }

    /// Nobody else has a share in the records any more.
    pub fn unshare(&mut self) {
        self.0.iter_mut().flat_map(|tree| tree.iter_mut()).for_each(|record| record.shared = false);
    }

    /// The records by sequence number.
    pub fn records(&self) -> impl Iterator<Item = &Received> {
        self.tree().iter()
    }

    /// No hole is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Throws all away (`skb_rbtree_purge`). Gives the memory that this frees.
    pub fn purge(&mut self) -> u32 {
        let freed = self.records().map(|record| record.truesize).sum();
        self.0 = None;
        freed
    }

    /// How many records lie here.
    pub fn len(&self) -> usize {
        self.tree().len()
    }

    /// The queue contains only a FIN.
    pub fn is_one_fin(&self) -> bool {
        self.tree().len() == 1 && self.first().is_some_and(|record| record.fin)
    }

    /// The record with the lowest sequence number.
    pub fn first(&self) -> Option<&Received> {
        self.tree().first().map(|id| self.tree().get(id))
    }

    /// The record with the highest.
    pub fn last(&self) -> Option<&Received> {
        self.tree().last().map(|id| self.tree().get(id))
    }

    /// Takes the record with the lowest sequence number.
    pub fn pop(&mut self) -> Option<Received> {
        self.tree().first().map(|id| self.remove(id))
    }

    /// Takes the record with the highest.
    pub fn pop_last(&mut self) -> Option<Received> {
        self.tree().last().map(|id| self.remove(id))
    }

    /// `now` lies where `before` did, which is a run of neighbours (`tcp_collapse`, `tcp_rbtree_insert`).
    pub fn exchange(&mut self, before: &[Received], now: &[Received]) {
        let same = before.iter().zip(now).take_while(|(old, new)| old == new).count();
        let (before, now) = (&before[same..], &now[same..]);
        let last = before.iter().rev().zip(now.iter().rev());
        let same = last.take_while(|(old, new)| old == new).count();
        let (before, now) = (&before[..before.len() - same], &now[..now.len() - same]);
        let mut next = self.tree().first();
        while let Some(id) = next.filter(|&id| before.first() != Some(self.tree().get(id))) {
            next = self.tree().next(id);
        }
        for _ in before {
            let Some(id) = next else { break };
            next = self.tree().next(id);
            self.remove(id);
        }
        for new in now {
            let place = self.tree().place_of(new);
            self.tree_mut().insert(place, *new);
        }
    }

    /// Puts a record in its place (`tcp_data_queue_ofo`).
    pub fn insert(&mut self, mut new: Received) -> Insertion {
        let mut result =
            Insertion { placed: Placement::Kept, charged: new.truesize, freed: 0, duplicate: None };
        let at = match self.find_place(&new, &mut result.duplicate) {
            InsertPosition::Covered => {
                return Insertion { placed: Placement::Dropped, charged: 0, ..result };
            }
            InsertPosition::Joined(charged) => {
                return Insertion { placed: Placement::Coalesced, charged, ..result };
            }
            InsertPosition::Free(place) => self.tree_mut().insert(place, new),
            InsertPosition::Instead(old) => {
                result.freed += self.tree().get(old).truesize;
                *self.tree_mut().get_mut(old) = new;
                old
            }
        };
        while let Some(id) = self.tree().next(at) {
            let old = *self.tree().get(id);
            if !new.end_seq.after(old.seq) {
                break;
            }
            extend_dsack(&mut result.duplicate, old.seq, old.end_seq.min(new.end_seq));
            if new.end_seq.before(old.end_seq) {
                break;
            }
            result.freed += self.remove(id).truesize;
        }
        new.condense();
        result.charged = new.truesize;
        *self.tree_mut().get_mut(at) = new;
        result
    }

    /// Descends the tree to the place of `new`, and checks the records on the way.
    fn find_place(&mut self, new: &Received, duplicate: &mut Option<SackBlock>) -> InsertPosition {
        let Some(last) = self.tree().last() else { return InsertPosition::Free(None) };
        if let Some(charged) = self.tree_mut().get_mut(last).coalesce(new) {
            return InsertPosition::Joined(charged);
        }
        if !new.seq.before(self.tree().get(last).end_seq) {
            return InsertPosition::Free(Some((last, Side::Right)));
        }
        let (mut at, mut place) = (self.tree().root(), None);
        while let Some(id) = at {
            let old = *self.tree().get(id);
            let mut side = Side::Right;
            if new.seq.before(old.seq) {
                side = Side::Left;
            } else if new.seq.before(old.end_seq) {
                if !new.end_seq.after(old.end_seq) {
                    *duplicate = Some(SackBlock { start: new.seq, end: new.end_seq });
                    return InsertPosition::Covered;
                }
                if new.seq == old.seq {
                    extend_dsack(duplicate, old.seq, old.end_seq);
                    return InsertPosition::Instead(id);
                }
                *duplicate = Some(SackBlock { start: new.seq, end: old.end_seq });
            } else if let Some(charged) = self.tree_mut().get_mut(id).coalesce(new) {
                return InsertPosition::Joined(charged);
            }
            place = Some((id, side));
            at = self.tree().child(id, side);
        }
        InsertPosition::Free(place)
    }
}

/// More has come twice (`tcp_dsack_extend`).
fn extend_dsack(duplicate: &mut Option<SackBlock>, start: Seq, end: Seq) {
    match duplicate {
        None => *duplicate = Some(SackBlock { start, end }),
        Some(block) => _ = extend(block, start, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Memory;

    fn lying_in(memory: Memory, seq: u32, end: u32) -> Received {
        Received::new(Seq(seq), Seq(end), end - seq, memory, 52, false, 1_280)
    }

    fn record(seq: u32, end: u32) -> Received {
        lying_in(Memory::Cut, seq, end)
    }

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock { start: Seq(start), end: Seq(end) }
    }

    #[test]
    fn what_was_there_is_reported_as_duplicate() {
        let mut queue = OutOfOrder::default();
        for (new, placed, freed, duplicate) in [
            (record(2_000, 3_000), Placement::Kept, 0, None),
            (record(4_000, 5_000), Placement::Kept, 0, None),
            (record(2_200, 2_800), Placement::Dropped, 0, Some(block(2_200, 2_800))),
            (record(2_500, 3_500), Placement::Kept, 0, Some(block(2_500, 3_000))),
            (record(3_500, 4_500), Placement::Kept, 0, Some(block(4_000, 4_500))),
            (record(3_500, 6_000), Placement::Kept, 2 * 2_304, Some(block(3_500, 5_000))),
        ] {
            let done = queue.insert(new);
            assert_eq!((done.placed, done.freed, done.duplicate), (placed, freed, duplicate));
        }
    }

    #[test]
    fn pages_join_the_record_before_them_and_heads_do_not() {
        let paged = |seq, end| lying_in(Memory::Paged, seq, end);
        let mut queue = OutOfOrder::default();
        queue.insert(paged(1_000, 2_000));
        let joined = queue.insert(paged(2_000, 3_000));
        assert_eq!((joined.placed, joined.charged), (Placement::Coalesced, 1_000));
        let apart = queue.insert(record(3_000, 4_448));
        assert_eq!((apart.placed, apart.charged), (Placement::Kept, 2_304));
        let mut in_order = InOrder::default();
        let charged: Vec<u32> =
            (1..20).map(|n| in_order.append(paged(n * 1_000, n * 1_000 + 1_000))).collect();
        // Seventeen fragments fill a record.
        assert_eq!(charged[..2], [2_280, 1_000]);
        assert_eq!(charged[16..18], [1_000, 2_280]);
    }

    #[test]
    fn what_held_records_beyond_a_hole_is_given_back() {
        let mut queue = OutOfOrder::default();
        (1..100).for_each(|n| _ = queue.insert(record(n * 2_000, n * 2_000 + 1_000)));
        assert!(!queue.is_empty());
        while queue.pop().is_some() {}
        assert!(queue.is_empty() && queue.0.is_none());
    }

    #[test]
    fn a_linearised_record_has_room_for_another_segment() {
        // As observed: two full segments for 4,352 bytes beyond a hole.
        let single = |seq: u32| lying_in(Memory::Linearised, seq, seq + 1_448);
        let mut queue = OutOfOrder::default();
        let charged: Vec<u32> = (0..4).map(|n| queue.insert(single(n * 1_448)).charged).collect();
        assert_eq!(charged, [4_352, 0, 4_352, 0]);
        // In order it is charged as it came.
        let mut in_order = InOrder::default();
        let charged: Vec<u32> = (0..4).map(|n| in_order.append(single(n * 1_448))).collect();
        assert_eq!(charged, [2_728, 0, 2_728, 0]);
        // With a small head, as since 6.3.
        let small = Received::new(Seq(0), Seq(1_448), 1_448, Memory::Linearised, 52, false, 896);
        assert_eq!(InOrder::default().append(small), 2_344);
    }
}
