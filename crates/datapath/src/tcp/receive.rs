//! Receiving: what an acceptable segment brings, and what the application reads
//! (`tcp_data_queue`, `tcp_recvmsg`).

use super::input::Segment;
use super::predict::Path;
use super::rcv_window::Truesize;
use super::reassembly::{InOrder, OutOfOrder, Placed, Received};
use super::sack_blocks::SackBlocks;
use super::timer::Timer;
use super::urgent::ReadLimit;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::seq::Seq;
use crate::packet::{Memory, SackBlock, SackList};
use crate::units::Instant;

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpRead {
    /// That many bytes.
    Data(u64),
    /// Nothing yet.
    WouldBlock,
    /// The peer has closed.
    Eof,
    /// The connection failed.
    Reset,
}

/// The receive side of a connection.
// What an ACK looks at comes first: see `OFTEN_USED`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct ReceiveState {
    /// Next expected (`rcv_nxt`).
    pub nxt: Seq,
    /// `rcv_nxt` of the latest ACK sent (`rcv_wup`).
    pub wup: Seq,
    /// Window of the latest ACK sent (`rcv_wnd`), bytes.
    pub wnd: u32,
    /// Rightmost edge that was ever offered, RFC 7323 section 2.4 (`rcv_mwnd_seq`).
    pub edge: Seq,
    /// Next byte for the application (`copied_seq`).
    pub copied_seq: Seq,
    /// Current limit of the window (`rcv_ssthresh`), bytes.
    pub ssthresh: u32,
    /// Hard limit of the window (`window_clamp`), bytes.
    pub window_clamp: u32,
    /// `sk_rcvbuf`.
    pub rcvbuf: u32,
    /// Memory of what is queued (`sk_rmem_alloc`).
    pub rmem_alloc: u32,
    /// Payload per truesize in 1/256 (`scaling_ratio`).
    pub scaling_ratio: u32,
    /// FIN was received in order.
    pub fin_received: bool,
    /// What lay beyond a hole came into the queue and is not read yet.
    pub hole_filled: bool,
    /// In-order data that the application has not read.
    pub queue: InOrder,
    /// Data beyond a hole (`out_of_order_queue`).
    pub out_of_order: OutOfOrder,
    /// SACK blocks to report.
    pub blocks: SackBlocks,
    /// Duplicate to report with the next ACK (`duplicate_sack`).
    pub dsack: Option<SackBlock>,
    /// Where the latest duplicate began, reported or not (`duplicate_sack[0].start_seq`).
    pub latest_duplicate: Seq,
    /// RTT as the receiver sees it, µs times 8 (`rcv_rtt_est.rtt_us`).
    pub rtt_us_8: u32,
    pub rtt_seq: Seq,
    pub last_tsecr: u32,
    /// Bytes read in the previous RTT (`rcvq_space.space`).
    pub space: u32,
    pub space_seq: Seq,
    /// Window of a TIME-WAIT socket (`tw_rcv_wnd`); 0: it is none.
    pub tw_window: u32,
    pub rtt_time_us: Option<u64>,
    pub space_time_us: u64,
}

/// `TCP_SACK_BLOCKS_EXPECTED`.
const BLOCKS_EXPECTED: usize = 2;

impl ReceiveState {
    /// How many bytes from the beginning a segment without data needs.
    pub const OFTEN_USED: usize = core::mem::offset_of!(Self, queue);

    pub fn new(rcvbuf: u32) -> Self {
        Self {
            nxt: Seq(0),
            wup: Seq(0),
            wnd: 0,
            edge: Seq(0),
            copied_seq: Seq(0),
            ssthresh: 0,
            window_clamp: 0,
            rcvbuf,
            rmem_alloc: 0,
            queue: InOrder::default(),
            out_of_order: OutOfOrder::default(),
            blocks: SackBlocks::default(),
            dsack: None,
            latest_duplicate: Seq(0),
            rtt_us_8: 0,
            rtt_seq: Seq(0),
            rtt_time_us: None,
            last_tsecr: 0,
            space: 0,
            space_seq: Seq(0),
            space_time_us: 0,
            scaling_ratio: 128,
            tw_window: 0,
            fin_received: false,
            hole_filled: false,
        }
    }

    /// Bytes that the application has not read, FIN left out.
    pub fn unread_bytes(&self) -> u32 {
        self.nxt.bytes_since(self.copied_seq).saturating_sub(u32::from(self.fin_received))
    }

    /// The same, and what lies beyond holes.
    pub fn waiting_bytes(&self) -> u64 {
        let beyond = self.out_of_order.records().map(|record| {
            u64::from(record.end_seq.bytes_since(record.seq)) - u64::from(record.fin)
        });
        u64::from(self.unread_bytes()) + beyond.sum::<u64>()
    }

    /// There is something to SACK.
    pub fn has_sack_blocks(&self) -> bool {
        self.blocks.len() > 0 || self.dsack.is_some()
    }

    /// Nothing waits to be read.
    pub fn queue_is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// SACK blocks that could be sent, a DSACK included.
    pub fn sack_count(&self) -> usize {
        self.blocks.len() + usize::from(self.dsack.is_some())
    }

    /// Just past the highest byte that SACK blocks report.
    pub fn highest_reported(&self) -> Option<Seq> {
        self.blocks.highest_end()
    }

    /// All that came out of order is one FIN.
    pub fn holds_one_fin_out_of_order(&self) -> bool {
        self.out_of_order.is_one_fin()
    }

    /// Where the latest data beyond a hole ends (`ooo_last_skb`).
    pub fn last_beyond_hole(&self) -> Option<Seq> {
        self.out_of_order.last().map(|record| record.end_seq)
    }

    /// No hole is open.
    pub fn is_in_order(&self) -> bool {
        self.out_of_order.is_empty()
    }

    /// The blocks for the next ACK, DSACK first, `max` at most. Takes the DSACK.
    pub fn sack_list(&mut self, max: usize) -> SackList {
        let mut list = SackList::EMPTY;
        if let Some(dsack) = self.dsack.take() {
            list.push(dsack);
        }
        self.blocks.append_to(&mut list, max);
        list
    }

    /// Notes the right edge of the window offered now, before it changes.
    pub fn keep_right_edge(&mut self) {
        let edge = self.wup + self.wnd;
        if edge.after(self.edge) || self.edge.before(self.nxt) {
            self.edge = edge;
        }
    }

    /// The most that any window offered still lets in (`tcp_max_receive_window`).
    pub fn max_window(&self) -> u32 {
        let kept = (self.edge - self.nxt).max(0) as u32;
        kept.max(self.window())
    }

    /// Right edge of the window less `nxt` (`tcp_receive_window`).
    pub fn window(&self) -> u32 {
        let window = (self.wup + self.wnd) - self.nxt;
        window.max(0) as u32
    }
}

impl Connection {
    /// Takes the payload and FIN of an acceptable segment (`tcp_data_queue`).
    pub(super) fn data_queue(&mut self, seg: &Segment<'_>, path: Path, cx: &mut Cx<'_>) {
        if seg.seq == seg.end_seq {
            return;
        }
        // A duplicate that no ACK has told of is history, once a segment gets a second look.
        if path == Path::Slow {
            self.rcv.dsack = None;
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
            cx.mib.dsack_old_sent += 1;
            self.accurate_spurious_retransmission(seg.seq);
            self.rehash_on_duplicate(seg, cx);
            self.set_dsack(seg.seq, seg.end_seq);
            self.out_of_window();
        } else if !seg.seq.before(self.rcv.nxt + self.rcv.window()) {
            self.out_of_window();
        } else if seg.seq.before(self.rcv.nxt) {
            cx.mib.dsack_old_sent += 1;
            self.set_dsack(seg.seq, self.rcv.nxt);
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

    pub(super) fn set_dsack(&mut self, start: Seq, end: Seq) {
        if self.is_sack() && self.config.sysctl.tcp_dsack != 0 {
            self.rcv.latest_duplicate = start;
            self.rcv.dsack = Some(SackBlock { start, end });
        }
    }

    /// More that came twice: one range can be told, so what does not touch it is left out
    /// (`tcp_dsack_extend`).
    fn extend_dsack(&mut self, start: Seq, end: Seq) {
        match &mut self.rcv.dsack {
            None => self.set_dsack(start, end),
            Some(block) => _ = super::sack_blocks::extend(block, start, end),
        }
    }

    /// The buffer takes another segment (`tcp_can_ingest`).
    pub(super) fn has_room(&self) -> bool {
        self.rcv.rmem_alloc <= self.rcv.rcvbuf
    }

    /// What is predicted lies in memory that is reserved (`Connection::path_of`): nobody asks for room.
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
                self.extend_dsack(record.seq, record.end_seq.min(filled_to));
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
        if self.config.profile.right_sizes_holes {
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
            cx.mib.dsack_ofo_sent += 1;
            self.set_dsack(duplicate.start, duplicate.end);
        }
        // A record of its own is charged after the window has grown, pages that join before.
        let joined = done.placed == Placed::Coalesced;
        if joined {
            self.rcv.rmem_alloc += done.charged;
        }
        if self.is_sack() {
            if joined {
                self.grow_window(seg, Truesize::WithoutHead);
            }
            self.report_block(seg.seq, seg.end_seq, cx);
        }
        if done.placed == Placed::Kept {
            if self.is_sack() {
                self.grow_window(seg, Truesize::Whole);
            }
            self.rcv.rmem_alloc += done.charged;
        }
        if cx.gate.accepted && !self.orphan && self.config.profile.right_sizes_holes {
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

    /// A packet socket has let go of what it saw of this connection's segments.
    pub fn unshare_received(&mut self) {
        self.rcv.queue.unshare();
        self.rcv.out_of_order.unshare();
    }

    /// Whether a read would find nothing, not even an end.
    #[inline]
    pub fn would_block(&self) -> bool {
        self.rcv.unread_bytes() == 0
            && self.error.is_none()
            && !self.rcv.fin_received
            && !self.shut_read
            && self.state != super::state::State::Close
    }

    /// The application reads up to `max` bytes (`tcp_recvmsg`).
    pub fn read(&mut self, max: u64, cx: &mut Cx<'_>) -> TcpRead {
        self.read_with(max, None, cx)
    }

    /// The same, into memory: as many bytes as it has room for. What was sent as a length is zeroes.
    pub fn read_into(&mut self, memory: &mut [u8], cx: &mut Cx<'_>) -> TcpRead {
        self.read_with(memory.len() as u64, Some(memory), cx)
    }

    fn read_with(&mut self, max: u64, memory: Option<&mut [u8]>, cx: &mut Cx<'_>) -> TcpRead {
        if self.rare.is_some() {
            self.pass_urgent_byte();
        }
        let unread = u64::from(self.rcv.unread_bytes().min(self.limit_of_read().most));
        if unread == 0 {
            // Whoever has read the end need not hear of what came after it (`SOCK_DONE`).
            return if self.rcv.fin_received {
                self.read_fin();
                TcpRead::Eof
            } else if self.error.is_some() {
                TcpRead::Reset
            } else if self.would_block() {
                TcpRead::WouldBlock
            } else {
                TcpRead::Eof
            };
        }
        let taken = unread.min(max) as u32;
        if let Some(memory) = memory {
            self.copy_received(self.rcv.copied_seq, &mut memory[..taken as usize]);
        }
        self.take_unread(taken, cx.now);
        if u64::from(taken) < max {
            self.read_fin();
        }
        if self.rare.is_some() {
            self.urgent_passed();
        }
        self.cleanup_rbuf(taken, cx);
        TcpRead::Data(u64::from(taken))
    }

    /// A read of up to `max` bytes where there are some, and nothing but those to hear of: how many it was. It needs
    /// nothing but the connection; [`ack_after_read`](Self::ack_after_read) says whether an ACK follows. `None`, and nothing
    /// done, in all other cases.
    #[inline]
    pub fn read_bytes(&mut self, now: Instant, max: u64) -> Option<u32> {
        let unread = self.rcv.unread_bytes();
        let may_end = self.rcv.fin_received || self.shut_read || self.error.is_some();
        if unread == 0 || may_end || self.rare.is_some() || !self.state.is_synchronized() {
            return None;
        }
        let taken = u64::from(unread).min(max) as u32;
        self.take_unread(taken, now);
        Some(taken)
    }

    /// Takes so many bytes, which are there, out of the receive queue.
    #[inline]
    fn take_unread(&mut self, bytes: u32, now: Instant) {
        if !self.config.profile.reads_without_clock {
            self.ack.clock = now;
        }
        let mut left = bytes;
        while left > 0 {
            left -= self.read_from_front(left);
            // Segment by segment: what a filled hole delivers at once is not one RTT's worth.
            self.rcv_space_adjust(self.ack.clock);
        }
    }

    /// Bytes that a read of up to `max` would give, which stay (`MSG_PEEK`).
    pub fn peek(&mut self, max: u64) -> u64 {
        let ReadLimit { skipped, most } = self.limit_of_read();
        let unread = self.rcv.unread_bytes().saturating_sub(skipped).min(most);
        u64::from(unread).min(max)
    }

    /// The bytes that a read would give, which stay; gives their number.
    pub fn peek_into(&mut self, memory: &mut [u8]) -> u64 {
        let from = self.rcv.copied_seq + self.limit_of_read().skipped;
        let seen = self.peek(memory.len() as u64);
        self.copy_received(from, &mut memory[..seen as usize]);
        seen
    }

    /// One unread byte is passed over.
    pub(super) fn skip_byte(&mut self) {
        if self.rcv.unread_bytes() > 0 {
            self.read_from_front(1);
        }
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

    /// Whoever reads on finds the end: a record that is a FIN alone has been read, too (`found_fin_ok`).
    fn read_fin(&mut self) {
        if let Some(front) = self.rcv.queue.front()
            && front.fin
            && front.end_seq == self.rcv.copied_seq + 1
        {
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(front.truesize);
            self.rcv.queue.pop();
        }
    }

    /// Reads up to `max` bytes from the oldest run; returns how many.
    fn read_from_front(&mut self, max: u32) -> u32 {
        let front = *self.rcv.queue.front().expect("unread bytes lie in the queue");
        let end = front.end_seq - u32::from(front.fin);
        let taken = end.bytes_since(self.rcv.copied_seq).min(max);
        self.rcv.copied_seq += taken;
        self.forget_read();
        if self.rcv.copied_seq == end {
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(front.truesize);
            self.rcv.queue.pop();
            if self.rcv.hole_filled && self.rcv.queue.is_empty() {
                // So much waits seldom, and there may be many connections.
                self.rcv.hole_filled = false;
                self.rcv.queue.give_room_back();
            }
        }
        taken
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
