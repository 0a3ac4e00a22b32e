//! Receiving: what an acceptable segment brings (`tcp_data_queue`).
//!
//! | file | what it holds |
//! |---|---|
//! | this one | which queue the bytes of a segment enter, and how they are acknowledged |
//! | [`read`] | what the application reads |
//! | [`state`] | the receive side of a connection |

mod read;
mod state;

pub use read::TcpRead;
pub(super) use state::ReceiveState;

use super::rcv_window::Truesize;
use super::reassembly::{Placement, Received};
use super::segment::{Path, Segment};
use super::timer::Timer;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::packet::{Memory, SackBlock};

/// `TCP_SACK_BLOCKS_EXPECTED`.
const BLOCKS_EXPECTED: usize = 2;

impl Connection {
    /// Takes the payload and FIN of an acceptable segment (`tcp_data_queue`).
    pub(super) fn data_queue(&mut self, seg: &Segment<'_>, path: Path, cx: &mut Cx<'_>) {
        if seg.seq == seg.end_seq {
            return;
        }
        // A duplicate that no ACK has told of is history, once a segment gets a second look.
        match path {
            Path::Fast => cx.mib.hp_hits += 1,
            Path::Slow => self.rcv.dsack = None,
        }
        if seg.seq == self.rcv.nxt {
            if self.rcv.window() == 0 && seg.len > 0 {
                cx.mib.zero_window_drop += 1;
                self.out_of_window();
                return;
            }
            self.queue_in_order(seg, path, cx);
        } else if !seg.end_seq.after(self.rcv.nxt) {
            // A needless retransmission: acknowledge at once, with DSACK.
            cx.mib.delayed_ack_lost += 1;
            self.accurate_spurious_retransmission(seg.seq);
            self.rehash_on_duplicate(seg, cx);
            self.set_dsack(seg.seq, seg.end_seq, cx);
            self.out_of_window();
        } else if !seg.seq.before(self.rcv.nxt + self.rcv.window()) {
            self.out_of_window();
        } else if seg.seq.before(self.rcv.nxt) {
            self.set_dsack(seg.seq, self.rcv.nxt, cx);
            if self.rcv.window() == 0 {
                self.out_of_window();
            } else {
                self.queue_in_order(seg, Path::Slow, cx);
            }
        } else {
            self.queue_out_of_order(seg, cx);
        }
    }

    /// Acknowledge quickly: the peer is out of step.
    fn out_of_window(&mut self) {
        self.enter_quickack_mode(super::ack_out::MAX_QUICKACKS);
        self.ack.scheduled = true;
    }

    /// What came twice is told with the next ACK, if blocks are, and only then counted (`tcp_dsack_set`).
    pub(super) fn set_dsack(&mut self, start: Seq, end: Seq, cx: &mut Cx<'_>) {
        if self.is_sack() && self.config.sysctl.tcp_dsack != 0 {
            if start.before(self.rcv.nxt) {
                cx.mib.dsack_old_sent += 1;
            } else {
                cx.mib.dsack_ofo_sent += 1;
            }
            self.rcv.latest_duplicate = start;
            self.rcv.dsack = Some(SackBlock { start, end });
        }
    }

    /// More that came twice: one range can be told, so what does not touch it is left out
    /// (`tcp_dsack_extend`).
    fn extend_dsack(&mut self, start: Seq, end: Seq, cx: &mut Cx<'_>) {
        match &mut self.rcv.dsack {
            None => self.set_dsack(start, end, cx),
            Some(block) => _ = super::sack_blocks::extend(block, start, end),
        }
    }

    /// The buffer takes another segment (`tcp_can_ingest`).
    pub(super) fn has_room(&self) -> bool {
        self.rcv.rmem_alloc <= self.rcv.rcvbuf
    }

    /// A predicted segment fits into reserved memory (`Connection::path_of`): no check is needed.
    fn queue_in_order(&mut self, seg: &Segment<'_>, path: Path, cx: &mut Cx<'_>) {
        if path == Path::Slow
            && !self.has_room()
            && !self.make_room(seg, cx)
            && self.refuse_for_memory(seg, cx)
        {
            return;
        }
        self.rcv.rmem_alloc += self.rcv.queue.append(self.received(seg, seg.seq, seg.end_seq));
        self.keep_received(seg.seq, &seg.packet.body);
        self.totals.bytes_received += u64::from(seg.end_seq.bytes_since(self.rcv.nxt));
        self.rcv.nxt = seg.end_seq;
        if seg.len > 0 {
            self.event_data_recv(seg, cx);
        }
        if seg.fin() {
            self.fin(cx);
        }
        if !self.rcv.is_in_order() {
            self.join_out_of_order(cx);
            if self.rcv.is_in_order() {
                // RFC 5681 section 4.2: the gap is filled, tell at once.
                self.ack.now = true;
            }
        }
        self.drop_passed_blocks();
        if path == Path::Slow {
            self.predict_if_calm();
        }
        cx.ready |= SocketReady::READABLE;
    }

    /// There is no memory for a segment in order: the peer is told at once. True if it is not taken
    /// all the same, because other data waits to be read.
    #[cold]
    fn refuse_for_memory(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> bool {
        self.ack.no_memory = self.config.profile.strict_receive_window;
        self.ack.now = true;
        self.ack.scheduled = true;
        cx.ready |= SocketReady::READABLE;
        let drop = !self.rcv.queue.is_empty() && seg.len > 0;
        cx.mib.rcv_q_drop += u64::from(drop);
        drop
    }

    /// Forgets SACK blocks that are history (`tcp_sack_remove`).
    fn drop_passed_blocks(&mut self) {
        if self.rcv.is_in_order() {
            self.rcv.blocks.clear();
        } else {
            self.rcv.blocks.drop_passed(self.rcv.nxt);
        }
    }

    /// Moves what has become in-order (`tcp_ofo_queue`).
    fn join_out_of_order(&mut self, cx: &mut Cx<'_>) {
        let filled_to = self.rcv.nxt;
        while let Some(&record) = self.rcv.out_of_order.first() {
            if record.seq.after(self.rcv.nxt) {
                break;
            }
            if !self.rcv.hole_filled {
                self.rcv.hole_filled = true;
                self.rcv.queue.reserve(self.rcv.out_of_order.len());
            }
            self.rcv.out_of_order.pop();
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(record.truesize);
            if record.seq.before(filled_to) {
                self.extend_dsack(record.seq, record.end_seq.min(filled_to), cx);
            }
            if !record.end_seq.after(self.rcv.nxt) {
                continue;
            }
            self.totals.bytes_received += u64::from(record.end_seq.bytes_since(self.rcv.nxt));
            self.rcv.rmem_alloc += self.rcv.queue.append(record);
            self.rcv.nxt = record.end_seq;
            if record.fin {
                self.fin(cx);
            }
        }
    }

    /// Keeps data beyond a hole (`tcp_data_queue_ofo`).
    fn queue_out_of_order(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.ecn_check_ce(seg.ecn, cx);
        if !self.has_room() && !self.make_room(seg, cx) {
            cx.mib.ofo_drop += 1;
            cx.ready |= SocketReady::READABLE;
            return;
        }
        if self.config.profile.rcvbuf_grows_out_of_order {
            self.measure_rcv_mss(seg);
        }
        self.expected = None;
        self.ack.scheduled = true;
        self.totals.rcv_ooopack += seg.segments;
        cx.mib.ofo_queue += 1;
        let done = self.rcv.out_of_order.insert(self.received(seg, seg.seq, seg.end_seq));
        self.keep_received(seg.seq, &seg.packet.body);
        self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(done.freed);
        if let Some(duplicate) = done.duplicate {
            self.set_dsack(duplicate.start, duplicate.end, cx);
        }
        // A record of its own is charged after the window has grown, pages that join before.
        let joined = done.placed == Placement::Coalesced;
        if joined {
            self.rcv.rmem_alloc += done.charged;
        }
        if self.is_sack() {
            if joined {
                self.grow_window(seg, Truesize::WithoutHead);
            }
            self.report_block(seg.seq, seg.end_seq, cx);
        }
        if done.placed == Placement::Kept {
            if self.is_sack() {
                self.grow_window(seg, Truesize::Whole);
            }
            self.rcv.rmem_alloc += done.charged;
        }
        if cx.gate.accepted && !self.orphan && self.config.profile.rcvbuf_grows_out_of_order {
            self.right_size(self.rcv.space);
        }
    }

    /// Tells the peer of a new range beyond a hole. With more blocks than an ACK that was held
    /// back should have to tell of, that ACK goes out first (`tcp_sack_new_ofo_skb`).
    fn report_block(&mut self, start: Seq, end: Seq, cx: &mut Cx<'_>) {
        let touched = self.rcv.blocks.extend(start, end);
        if touched.unwrap_or(self.rcv.blocks.len()) >= BLOCKS_EXPECTED {
            self.send_compressed_ack(cx);
        }
        match touched {
            Some(index) => self.rcv.blocks.promote(index),
            None => self.rcv.blocks.insert(start, end),
        }
    }

    /// Sends what compression held back (`tcp_sack_compress_send_ack`).
    pub(super) fn send_compressed_ack(&mut self, cx: &mut Cx<'_>) {
        if self.ack.compressed == 0 {
            return;
        }
        self.timers.stop(Timer::CompressedAck);
        // One of them is sent after all.
        cx.mib.ack_compressed += u64::from(self.ack.compressed - 1);
        self.ack.compressed = 0;
        self.send_ack(cx);
    }

    /// Data and FIN of a SYN or SYN-ACK (`tcp_fastopen_add_skb`).
    pub(super) fn take_handshake_data(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        let from = self.rcv.nxt;
        let end_seq = from + seg.len + u32::from(seg.fin());
        self.rcv.rmem_alloc += self.rcv.queue.append(self.received(seg, from, end_seq));
        self.keep_received(from, &seg.packet.body);
        self.rcv.nxt = end_seq;
        self.totals.bytes_received += u64::from(seg.len);
        if seg.fin() {
            self.fin(cx);
        }
        cx.ready |= SocketReady::READABLE;
    }

    /// What a segment becomes in a receive queue, from `seq` to `end_seq`.
    fn received(&self, seg: &Segment<'_>, seq: Seq, end_seq: Seq) -> Received {
        let headers = seg.packet.finished_header_len();
        let (memory, fin) = (seg.memory, seg.fin());
        let record = Received::new(seq, end_seq, seg.len, memory, headers, fin, seg.overhead);
        if memory != Memory::Paged {
            return record;
        }
        let ahead = (seq - self.rcv.nxt) as u32;
        record.in_pages_of_sender((self.totals.bytes_received as u32).wrapping_add(ahead))
    }
}
