//! A receive buffer without room: small records are copied together, then what lies beyond holes is
//! thrown away (`tcp_prune_queue`, `tcp_collapse`, `tcp_prune_ofo_queue`).

use super::reassembly::Received;
use super::segment::Segment;
use super::{Connection, Cx};
use crate::packet::seq::Seq;
use std::collections::VecDeque;

/// Payload of a record that others are copied into: a page less `struct skb_shared_info`
/// (`SKB_MAX_ORDER(0, 0)`).
const COPY_MAX: u32 = 4_096 - 320;

/// What squeezing some records has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Collapsed {
    /// Memory of the records that are gone.
    freed: u32,
    /// Memory of those that took their place.
    charged: u32,
    /// How many are gone.
    records: u64,
}

impl Connection {
    /// The buffer has no room for a segment: makes some (`tcp_prune_queue`). False if there is none
    /// to be had.
    #[cold]
    pub(super) fn make_room(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        if self.rcv.rmem_alloc == 0 {
            return false;
        }
        cx.mib.prune_called += 1;
        self.clamp_window();
        if self.has_room() {
            return true;
        }
        self.collapse_out_of_order(cx);
        self.collapse_in_order(cx);
        self.squeeze_bytes();
        if self.has_room() {
            return true;
        }
        self.prune_out_of_order(seg, cx);
        if self.has_room() {
            return true;
        }
        cx.mib.rcv_pruned += 1;
        self.expected = None;
        false
    }

    /// More memory is in use than the buffer has: it may grow to that if its size is ours to
    /// choose, and the window stays small (`tcp_clamp_window`).
    fn clamp_window(&mut self) {
        self.ack.quick = 0;
        let max = self.config.sysctl.tcp_rmem[2];
        if self.rcv.rcvbuf < max && !self.config.rcvbuf_is_locked() {
            self.rcv.rcvbuf = self.rcv.rmem_alloc.min(max);
        }
        if self.rcv.rmem_alloc > self.rcv.rcvbuf {
            self.rcv.ssthresh = self.rcv.window_clamp.min(2 * self.opt.advmss);
        }
    }

    fn collapse_in_order(&mut self, cx: &mut Cx<'_>) {
        let (start, end) = (self.rcv.copied_seq, self.rcv.nxt);
        let mut records = core::mem::take(self.rcv.queue.records_mut());
        let all = records.len();
        let overhead = self.config.profile.skb_overhead;
        let window_of = |space| self.win_from_space(space);
        let squeezed = collapse(&mut records, 0..all, start, end, overhead, window_of);
        *self.rcv.queue.records_mut() = records;
        self.take_squeezed(squeezed, cx);
    }

    /// Squeezes the runs beyond holes; small ones only until they have taken an eighth of the
    /// buffer (`tcp_collapse_ofo_queue`).
    fn collapse_out_of_order(&mut self, cx: &mut Cx<'_>) {
        let tiny_max = self.rcv.rcvbuf >> 3;
        let overhead = self.config.profile.skb_overhead;
        let (mut from, mut tiny) = (0, 0);
        let mut records: VecDeque<Received> = self.rcv.out_of_order.records().copied().collect();
        while from < records.len() && tiny <= tiny_max {
            let first = records[from];
            let (mut to, mut end, mut truesize) = (from + 1, first.end_seq, first.truesize);
            while let Some(next) = records.get(to).filter(|next| !next.seq.after(end)) {
                end = end.max(next.end_seq);
                truesize += next.truesize;
                to += 1;
            }
            let before = records.len();
            if truesize != first.truesize || end.bytes_since(first.seq) >= COPY_MAX {
                let run: Vec<Received> = records.range(from..to).copied().collect();
                let window_of = |space| self.win_from_space(space);
                let squeezed =
                    collapse(&mut records, from..to, first.seq, end, overhead, window_of);
                to = to + records.len() - before;
                self.rcv.out_of_order.exchange(&run, &records.make_contiguous()[from..to]);
                self.take_squeezed(squeezed, cx);
            } else {
                tiny += truesize;
            }
            from = to;
        }
    }

    fn take_squeezed(&mut self, squeezed: Collapsed, cx: &mut Cx<'_>) {
        cx.mib.rcv_collapsed += squeezed.records;
        self.rcv.rmem_alloc = self.rcv.rmem_alloc + squeezed.charged - squeezed.freed;
    }

    /// Throws away what lies furthest beyond a hole, an eighth of the buffer at a time, but nothing
    /// that lies before the segment that asks for room (`tcp_prune_ofo_queue`). The peer is told of
    /// none of it any more.
    fn prune_out_of_order(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let step = i64::from(self.rcv.rcvbuf >> 3);
        let mut goal = step;
        let mut pruned = false;
        while let Some(&last) = self.rcv.out_of_order.last() {
            if seg.seq.after(last.seq) {
                break;
            }
            self.rcv.out_of_order.pop_last();
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(last.truesize);
            pruned = true;
            goal -= i64::from(last.truesize);
            if goal <= 0 {
                if self.has_room() {
                    break;
                }
                goal = step;
            }
        }
        if pruned {
            self.forget_pruned();
            cx.mib.ofo_pruned += 1;
            self.rcv.blocks.clear();
            self.rcv.dsack = None;
        }
    }
}

/// Copies neighbouring records of `range`, which hold `start..end`, into few that are full
/// (`tcp_collapse`), from the first on that wastes memory. One with a FIN ends it.
fn collapse(
    records: &mut VecDeque<Received>,
    range: core::ops::Range<usize>,
    mut start: Seq,
    end: Seq,
    overhead: u32,
    window_of: impl Fn(u32) -> u32,
) -> Collapsed {
    let mut done = Collapsed::default();
    let (mut at, mut to) = (range.start, range.end);
    loop {
        if at == to {
            return done;
        }
        let record = records[at];
        if !start.before(record.end_seq) {
            done.remove(records, at);
            to -= 1;
            continue;
        }
        let bloated = window_of(record.truesize) > record.len() || record.seq.before(start);
        if bloated && !record.fin {
            break;
        }
        if at + 1 < to && record.end_seq != records[at + 1].seq {
            if record.fin {
                return done;
            }
            break;
        }
        start = record.end_seq;
        at += 1;
    }
    while start.before(end) && at < to && !records[at].fin {
        let first = start;
        let room = COPY_MAX.min(end.bytes_since(start));
        let mut left = room;
        while left > 0 && at < to && !records[at].fin {
            let size = records[at].end_seq.bytes_since(start).min(left);
            start += size;
            left -= size;
            if !start.before(records[at].end_seq) {
                done.remove(records, at);
                to -= 1;
            }
        }
        let copy = Received::collapsed(first, room - left, room, overhead);
        done.charged += copy.truesize;
        records.insert(at, copy);
        at += 1;
        to += 1;
    }
    done
}

impl Collapsed {
    /// Removes a record whose bytes are elsewhere (`tcp_collapse_one`).
    fn remove(&mut self, records: &mut VecDeque<Received>, at: usize) {
        let gone = records.remove(at).expect("a record of the range");
        self.freed += gone.truesize;
        self.records += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Memory;

    fn record(seq: u32, end: u32, fin: bool) -> Received {
        let len = end - seq - u32::from(fin);
        Received::new(Seq(seq), Seq(end), len, Memory::Cut, 52, fin, 1_280)
    }

    /// Bytes that records hold, end to end.
    fn spans(records: &VecDeque<Received>) -> Vec<(u32, u32)> {
        records.iter().map(|one| (one.seq.0, one.end_seq.0)).collect()
    }

    fn squeeze(records: &[Received], start: u32, end: u32) -> (Vec<(u32, u32)>, Collapsed) {
        let mut queue: VecDeque<Received> = records.iter().copied().collect();
        let before: u32 = queue.iter().map(|one| one.truesize).sum();
        let all = queue.len();
        let done = collapse(&mut queue, 0..all, Seq(start), Seq(end), 1_280, |space| space / 2);
        let after: u32 = queue.iter().map(|one| one.truesize).sum();
        assert_eq!(before + done.charged - done.freed, after, "memory is neither made nor lost");
        (spans(&queue), done)
    }

    #[test]
    fn small_records_become_one() {
        let small: Vec<Received> =
            (0..20).map(|n| record(100 + n * 10, 110 + n * 10, false)).collect();
        let (spans, done) = squeeze(&small, 100, 300);
        assert_eq!((spans, done.records), (vec![(100, 300)], 20));
        assert_eq!(done.charged, 1_280);
    }

    #[test]
    fn what_was_read_is_not_copied() {
        let (spans, _) = squeeze(&[record(100, 200, false), record(200, 210, false)], 150, 210);
        assert_eq!(spans, [(150, 210)]);
    }

    #[test]
    fn copies_are_as_large_as_a_page_holds() {
        let many: Vec<Received> = (0..100).map(|n| record(n * 100, n * 100 + 100, false)).collect();
        let (spans, done) = squeeze(&many, 0, 10_000);
        assert_eq!(spans, [(0, 3_776), (3_776, 7_552), (7_552, 10_000)]);
        assert_eq!(done.records, 100);
    }

    #[test]
    fn a_fin_stays_as_it_is() {
        let (spans, done) = squeeze(
            &[record(100, 110, false), record(110, 120, false), record(120, 131, true)],
            100,
            131,
        );
        assert_eq!((spans, done.records), (vec![(100, 120), (120, 131)], 2));
    }

    #[test]
    fn full_records_are_left_alone() {
        let full = |n: u32| {
            Received::new(Seq(n), Seq(n + 60_000), 60_000, Memory::Paged, 52, false, 1_280)
        };
        let (spans, done) = squeeze(&[full(0), full(60_000)], 0, 120_000);
        assert_eq!((spans.len(), done), (2, Collapsed::default()));
    }
}
