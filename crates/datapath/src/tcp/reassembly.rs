//! What was received, as the kernel keeps it: records in order, records beyond a hole, and the SACK
//! blocks that tell of those (`tcp_data_queue_ofo`, `tcp_sack_new_ofo_skb`).

use crate::packet::seq::Seq;
use crate::packet::{Memory, SackBlock, SackList};
use std::collections::VecDeque;

/// One received segment, or several that share a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub seq: Seq,
    pub end_seq: Seq,
    /// Memory that it is charged as.
    pub truesize: u32,
    /// Bytes of its head (`skb_end_offset`).
    head: u32,
    /// Free bytes behind the payload, if that lies in the head (`skb_tailroom`).
    room: u32,
    /// Fragments of pages; 0 = all bytes lie in the head.
    frags: u8,
    /// Somebody else has a share in it, a packet socket for one: nothing may be appended
    /// (`skb_cloned`).
    shared: bool,
    pub fin: bool,
}

/// `MAX_SKB_FRAGS`.
const MAX_FRAGS: u8 = 17;
/// `struct sk_buff`, cache-aligned.
const SK_BUFF_LEN: u32 = 256;
/// `struct skb_shared_info`, cache-aligned.
const SHARED_INFO_LEN: u32 = 320;
/// Smallest buffer.
const MIN_BUFFER: u32 = 512;
/// Room for headers that a stack leaves in front of the payload (`MAX_TCP_HEADER`).
const STACK_HEADERS: u32 = 256;
/// Ethernet, IP and TCP headers, and what a device leaves in front of them.
const DEVICE_HEADERS: u32 = 82;
/// What linearising asks for beyond what it needs.
const SPARE: u32 = 128;

/// The buffer that `bytes` come from, without `struct skb_shared_info` at its end.
fn head_for(bytes: u32) -> u32 {
    (bytes + SHARED_INFO_LEN).next_power_of_two().max(MIN_BUFFER) - SHARED_INFO_LEN
}

/// `SKB_TRUESIZE`.
fn truesize(head: u32) -> u32 {
    head + SHARED_INFO_LEN + SK_BUFF_LEN
}

/// The head of a record of a send queue.
fn stack_head() -> u32 {
    head_for(STACK_HEADERS)
}

/// What `tun_alloc_skb` leaves free in front of a packet (`NET_SKB_PAD`).
const TUN_PAD: u32 = 64;
/// `PAGE_SIZE`.
const PAGE: u32 = 4_096;

/// Whole pages that `bytes` are put into, up to eight at a time (`alloc_skb_with_frags`): their
/// memory and their number.
fn pages_for(mut bytes: u32) -> (u32, u8) {
    let (mut memory, mut frags) = (0, 0_u8);
    while bytes > 0 {
        let room = bytes.next_multiple_of(PAGE);
        let chunk = [8, 4, 2, 1].map(|pages| pages * PAGE).into_iter().find(|&it| it <= room);
        let chunk = chunk.unwrap_or(PAGE);
        memory += chunk;
        frags = frags.saturating_add(1);
        bytes = bytes.saturating_sub(chunk);
    }
    (memory, frags)
}

/// The buffer that `bytes` written to a tun device come into, without `struct skb_shared_info`:
/// small ones come from a cache of their own (`skb_small_head_cache`).
fn tun_head_for(bytes: u32) -> u32 {
    if bytes <= SMALL_HEAD { SMALL_HEAD } else { head_for(bytes) }
}

/// `SKB_SMALL_HEAD_HEADROOM`.
const SMALL_HEAD: u32 = 320;

/// A packet of so many bytes fits into one buffer.
fn tun_is_linear(packet: u32) -> bool {
    TUN_PAD + packet < PAGE
}

/// Memory that a segment is charged as when it arrives; `headers`: bytes of its IP and TCP
/// headers.
pub(super) fn truesize_of(memory: Memory, headers: u32, len: u32) -> u32 {
    match memory {
        Memory::Tun if tun_is_linear(headers + len) => {
            truesize(tun_head_for(TUN_PAD + headers + len))
        }
        Memory::Tun => truesize(tun_head_for(TUN_PAD)) + pages_for(headers + len).0,
        Memory::Linear => truesize(head_for(DEVICE_HEADERS + len)),
        Memory::Cut => truesize(head_for(STACK_HEADERS + len)),
        Memory::Linearised | Memory::Paged => truesize(stack_head()) + len,
    }
}

impl Received {
    /// What a segment of `len` payload bytes becomes; `headers`: bytes of IP and TCP headers.
    pub fn new(seq: Seq, end_seq: Seq, len: u32, memory: Memory, headers: u32, fin: bool) -> Self {
        let charged = truesize_of(memory, headers, len);
        if memory == Memory::Tun && !tun_is_linear(headers + len) {
            let frags = pages_for(headers + len).1;
            let head = tun_head_for(TUN_PAD);
            let shared = true;
            return Self { seq, end_seq, truesize: charged, head, room: 0, frags, shared, fin };
        }
        let (head, headers) = match memory {
            Memory::Tun => (tun_head_for(TUN_PAD + headers + len), TUN_PAD + headers),
            Memory::Linear => (head_for(DEVICE_HEADERS + len), DEVICE_HEADERS),
            Memory::Cut => (head_for(STACK_HEADERS + len), STACK_HEADERS),
            Memory::Linearised => (linearised_head(len), STACK_HEADERS),
            Memory::Paged => (stack_head(), STACK_HEADERS),
        };
        let in_head = if memory == Memory::Paged { head - headers } else { len };
        Self {
            seq,
            end_seq,
            truesize: charged,
            head,
            room: head - headers - in_head,
            frags: u8::from(memory == Memory::Paged),
            shared: memory == Memory::Tun,
            fin,
        }
    }

    /// A record that several were copied into: all bytes in a head made for them.
    pub fn collapsed(seq: Seq, len: u32) -> Self {
        let head = head_for(len);
        let (truesize, room) = (truesize(head), head - len);
        let end_seq = seq + len;
        Self { seq, end_seq, truesize, head, room, frags: 0, shared: false, fin: false }
    }

    /// Payload bytes.
    pub fn len(&self) -> u32 {
        self.end_seq.bytes_since(self.seq) - u32::from(self.fin)
    }

    /// Appends `next`, if it follows at once and can share the record; returns the memory that it
    /// is charged as from now on (`tcp_try_coalesce`, `skb_try_coalesce`).
    fn coalesce(&mut self, next: &Self) -> Option<u32> {
        if next.seq != self.end_seq || self.shared {
            return None;
        }
        let len = next.len();
        let charged = if len <= self.room {
            // Copied into the head.
            self.room -= len;
            0
        } else if next.frags > 0 && self.frags + next.frags <= MAX_FRAGS {
            self.room = 0;
            self.frags += next.frags;
            next.truesize - truesize(next.head)
        } else {
            return None;
        };
        self.end_seq = next.end_seq;
        self.truesize += charged;
        self.fin |= next.fin;
        Some(charged)
    }

    /// A record that may stay for a while is charged what its head really is, and pages that fit
    /// into the head are given back (`skb_condense`).
    fn condense(&mut self) {
        if self.frags > 0 {
            let room = self.head.saturating_sub(STACK_HEADERS);
            if self.len() > room {
                return;
            }
            self.room = room - self.len();
            self.frags = 0;
        }
        self.truesize = truesize(self.head);
    }
}

/// The head that a record of a send queue gets when its pages are copied into it
/// (`__pskb_pull_tail`, `pskb_expand_head`).
fn linearised_head(len: u32) -> u32 {
    match (STACK_HEADERS + len).checked_sub(stack_head()) {
        None | Some(0) => stack_head(),
        Some(missing) => head_for(stack_head() + missing + SPARE),
    }
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

    /// Nobody else has a share in the records any more.
    pub fn unshare(&mut self) {
        self.0.iter_mut().for_each(|record| record.shared = false);
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
    /// Nobody else has a share in the records any more.
    pub fn unshare(&mut self) {
        self.0.iter_mut().for_each(|record| record.shared = false);
    }

    /// The records by sequence number.
    pub fn records(&self) -> impl Iterator<Item = &Received> {
        self.0.iter()
    }

    /// No hole is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Throws all away (`skb_rbtree_purge`). Gives the memory that this frees.
    pub fn purge(&mut self) -> u32 {
        self.0.drain(..).map(|record| record.truesize).sum()
    }

    /// The records, to squeeze and to throw away.
    pub fn records_mut(&mut self) -> &mut VecDeque<Received> {
        &mut self.0
    }

    /// All that lies here is one FIN.
    pub fn is_one_fin(&self) -> bool {
        self.0.len() == 1 && self.0[0].fin
    }

    /// The record with the lowest sequence number.
    pub fn first(&self) -> Option<&Received> {
        self.0.front()
    }

    /// The record with the highest.
    pub fn last(&self) -> Option<&Received> {
        self.0.back()
    }

    /// Takes that record.
    pub fn pop(&mut self) -> Option<Received> {
        self.0.pop_front()
    }

    /// Puts a record in its place (`tcp_data_queue_ofo`).
    pub fn insert(&mut self, mut new: Received) -> Insertion {
        let mut result =
            Insertion { placed: Placed::Kept, charged: new.truesize, freed: 0, duplicate: None };
        // The first record that does not end before the new one begins.
        let mut at = self.0.partition_point(|old| old.end_seq.at_or_before(new.seq));
        if let Some(charged) = at.checked_sub(1).and_then(|index| self.0[index].coalesce(&new)) {
            // What the grown record covers would lie within it.
            while let Some(&old) = self.0.get(at)
                && !old.end_seq.after(new.end_seq)
            {
                self.0.remove(at);
                result.freed += old.truesize;
            }
            return Insertion { placed: Placed::Coalesced, charged, ..result };
        }
        // Records overlap, so that several may begin before the new one.
        while let Some(&old) = self.0.get(at)
            && old.seq.at_or_before(new.seq)
        {
            if !new.end_seq.after(old.end_seq) {
                result.duplicate = Some(SackBlock { start: new.seq, end: new.end_seq });
                return Insertion { placed: Placed::Dropped, charged: 0, ..result };
            }
            if old.seq == new.seq {
                break;
            }
            result.duplicate = Some(SackBlock { start: new.seq, end: old.end_seq });
            at += 1;
        }
        while let Some(&old) = self.0.get(at)
            && old.seq.before(new.end_seq)
        {
            let end = old.end_seq.min(new.end_seq);
            match &mut result.duplicate {
                None => result.duplicate = Some(SackBlock { start: old.seq, end }),
                Some(block) => _ = extend(block, old.seq, end),
            }
            if new.end_seq.before(old.end_seq) {
                break;
            }
            self.0.remove(at);
            result.freed += old.truesize;
        }
        new.condense();
        result.charged = new.truesize;
        self.0.insert(at, new);
        result
    }
}

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

    fn lying_in(memory: Memory, seq: u32, end: u32) -> Received {
        Received::new(Seq(seq), Seq(end), end - seq, memory, 52, false)
    }

    fn record(seq: u32, end: u32) -> Received {
        lying_in(Memory::Cut, seq, end)
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
        let paged = |seq, end| lying_in(Memory::Paged, seq, end);
        let mut queue = OutOfOrder::default();
        queue.insert(paged(1_000, 2_000));
        let joined = queue.insert(paged(2_000, 3_000));
        assert_eq!((joined.placed, joined.charged), (Placed::Coalesced, 1_000));
        let apart = queue.insert(record(3_000, 4_448));
        assert_eq!((apart.placed, apart.charged), (Placed::Kept, 2_304));
        let mut in_order = InOrder::default();
        let charged: Vec<u32> =
            (1..20).map(|n| in_order.append(paged(n * 1_000, n * 1_000 + 1_000))).collect();
        // Seventeen fragments fill a record.
        assert_eq!(charged[..2], [2_280, 1_000]);
        assert_eq!(charged[16..18], [1_000, 2_280]);
    }

    #[test]
    fn a_linearised_record_has_room_for_one_more() {
        // As observed: two full segments for 4,352 bytes beyond a hole.
        let single = |seq: u32| lying_in(Memory::Linearised, seq, seq + 1_448);
        let mut queue = OutOfOrder::default();
        let charged: Vec<u32> = (0..4).map(|n| queue.insert(single(n * 1_448)).charged).collect();
        assert_eq!(charged, [4_352, 0, 4_352, 0]);
        // In order it is charged as it came.
        let mut in_order = InOrder::default();
        let charged: Vec<u32> = (0..4).map(|n| in_order.append(single(n * 1_448))).collect();
        assert_eq!(charged, [2_728, 0, 2_728, 0]);
    }

    #[test]
    fn heads_come_from_slabs_as_observed() {
        // Frames sent by a program: 176 bytes are charged 768, 177 are charged 1,280, and so on.
        for (frame, charged) in
            [(176, 768), (177, 1_280), (688, 1_280), (689, 2_304), (1_712, 2_304), (1_713, 4_352)]
        {
            assert_eq!(truesize_of(Memory::Linear, 52, frame - 66), charged, "{frame}");
        }
    }
}
