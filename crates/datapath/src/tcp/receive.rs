//! Receiving: reassembly, SACK blocks to send, window and buffer autotuning
//! (`tcp_data_queue`, `__tcp_select_window`, `tcp_rcv_space_adjust`).

use super::input::Segment;
use super::seq::Seq;
use super::{Connection, Cx};
use crate::node::SocketReady;
use crate::packet::{Packet, SackBlock, SackList};
use crate::profile::WindowFromSpace;
use crate::units::Instant;
use std::collections::VecDeque;

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

/// A run of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Received {
    seq: Seq,
    end_seq: Seq,
    truesize: u32,
    fin: bool,
}

/// The receive side of a connection.
#[derive(Clone, Debug)]
pub(super) struct Receive {
    /// Next expected (`rcv_nxt`).
    pub nxt: Seq,
    /// `rcv_nxt` of the latest ACK sent (`rcv_wup`).
    pub wup: Seq,
    /// Window of the latest ACK sent (`rcv_wnd`), bytes.
    pub wnd: u32,
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
    /// In-order data that the application has not read.
    queue: VecDeque<Received>,
    /// Data beyond a hole, by sequence.
    out_of_order: Vec<Received>,
    /// SACK blocks to report, newest first (`selective_acks`).
    blocks: [SackBlock; 4],
    num_blocks: usize,
    /// Duplicate to report with the next ACK (`duplicate_sack`).
    pub dsack: Option<SackBlock>,
    /// RTT as the receiver sees it, µs times 8 (`rcv_rtt_est.rtt_us`).
    pub rtt_us_8: u32,
    rtt_seq: Seq,
    rtt_time_us: u64,
    last_tsecr: u32,
    /// Bytes read in the previous RTT (`rcvq_space.space`).
    pub space: u32,
    space_seq: Seq,
    space_time_us: u64,
    /// Payload per truesize in 1/256 (`scaling_ratio`).
    pub scaling_ratio: u32,
    /// FIN was received in order.
    pub fin_received: bool,
}

/// `struct sk_buff`, cache-aligned.
const SK_BUFF_LEN: u32 = 256;
/// `struct skb_shared_info`, cache-aligned.
const SHARED_INFO_LEN: u32 = 320;
/// Room for headers in front of the payload.
const HEADROOM: u32 = 192;
/// Smallest buffer.
const MIN_HEAD: u32 = 512;
/// `TCP_INIT_CWND`.
const INIT_CWND: u32 = 10;

impl Receive {
    pub fn new(rcvbuf: u32) -> Self {
        Self {
            nxt: Seq(0),
            wup: Seq(0),
            wnd: 0,
            copied_seq: Seq(0),
            ssthresh: 0,
            window_clamp: 0,
            rcvbuf,
            rmem_alloc: 0,
            queue: VecDeque::new(),
            out_of_order: Vec::new(),
            blocks: [SackBlock::default(); 4],
            num_blocks: 0,
            dsack: None,
            rtt_us_8: 0,
            rtt_seq: Seq(0),
            rtt_time_us: 0,
            last_tsecr: 0,
            space: 0,
            space_seq: Seq(0),
            space_time_us: 0,
            scaling_ratio: 128,
            fin_received: false,
        }
    }

    /// Bytes that the application has not read, FIN left out.
    pub fn unread_bytes(&self) -> u32 {
        self.nxt.bytes_since(self.copied_seq).saturating_sub(u32::from(self.fin_received))
    }

    /// There is something to SACK.
    pub fn has_sack_blocks(&self) -> bool {
        self.num_blocks > 0 || self.dsack.is_some()
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
        for block in &self.blocks[..self.num_blocks] {
            if list.len() == max {
                break;
            }
            list.push(*block);
        }
        list
    }

    /// Right edge of the window less `nxt` (`tcp_receive_window`).
    pub fn window(&self) -> u32 {
        let window = (self.wup + self.wnd) - self.nxt;
        window.max(0) as u32
    }

    /// Puts the range of a new out-of-order segment first, joined with what it touches
    /// (`tcp_sack_new_ofo_skb`).
    fn report_block(&mut self, start: Seq, end: Seq) {
        let mut joined = SackBlock { start, end };
        let mut kept = 0;
        for index in 0..self.num_blocks {
            let block = self.blocks[index];
            if block.start.at_or_before(joined.end) && joined.start.at_or_before(block.end) {
                joined = SackBlock {
                    start: joined.start.min(block.start),
                    end: joined.end.max(block.end),
                };
            } else {
                self.blocks[kept] = block;
                kept += 1;
            }
        }
        kept = kept.min(3);
        self.blocks.copy_within(0..kept, 1);
        self.blocks[0] = joined;
        self.num_blocks = kept + 1;
    }

    /// Forgets blocks that `nxt` has passed (`tcp_sack_remove`).
    fn drop_passed_blocks(&mut self) {
        if self.out_of_order.is_empty() {
            self.num_blocks = 0;
            return;
        }
        let mut kept = 0;
        for index in 0..self.num_blocks {
            if self.blocks[index].start.after(self.nxt) {
                self.blocks[kept] = self.blocks[index];
                kept += 1;
            }
        }
        self.num_blocks = kept;
    }

    /// Inserts an out-of-order run; returns the part that was there already, for DSACK.
    fn insert_out_of_order(&mut self, new: Received) -> Option<SackBlock> {
        let at = self.out_of_order.partition_point(|old| old.end_seq.before(new.seq));
        let mut run = new;
        let mut duplicate = None;
        let mut end = at;
        while let Some(&old) = self.out_of_order.get(end) {
            if old.seq.after(run.end_seq) {
                break;
            }
            let overlap_start = old.seq.max(new.seq);
            let overlap_end = old.end_seq.min(new.end_seq);
            if overlap_start.before(overlap_end) {
                duplicate = Some(SackBlock { start: overlap_start, end: overlap_end });
            }
            run.seq = run.seq.min(old.seq);
            run.end_seq = run.end_seq.max(old.end_seq);
            run.truesize += old.truesize;
            run.fin |= old.fin;
            end += 1;
        }
        self.out_of_order.splice(at..end, [run]);
        duplicate
    }

    /// Appends in-order data.
    fn append(&mut self, run: Received) {
        self.queue.push_back(run);
    }
}

impl Connection {
    /// Payload that fits in `space` bytes of memory (`tcp_win_from_space`).
    pub(super) fn win_from_space(&self, space: u32) -> u32 {
        match self.config.profile.window_from_space {
            WindowFromSpace::AdvWinScale => {
                let shift = self.config.sysctl.tcp_adv_win_scale as i32;
                if shift <= 0 { space >> -shift } else { space - (space >> shift) }
            }
            WindowFromSpace::ScalingRatio => {
                ((u64::from(space) * u64::from(self.rcv.scaling_ratio)) >> 8) as u32
            }
        }
    }

    /// Memory that `window` bytes of payload take (`tcp_space_from_win`).
    fn space_from_win(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.rcv.scaling_ratio)
    }

    /// Window that the whole buffer would give (`tcp_full_space`).
    pub(super) fn full_space(&self) -> u32 {
        self.win_from_space(self.rcv.rcvbuf)
    }

    /// Window that the free buffer gives (`tcp_space`).
    fn free_space(&self) -> u32 {
        self.win_from_space(self.rcv.rcvbuf.saturating_sub(self.rcv.rmem_alloc))
    }

    /// Learns how much of its memory a segment's payload is (`tcp_measure_rcv_mss`, since 6.6).
    pub(super) fn measure_scaling_ratio(&mut self, seg: &Segment<'_>) {
        if self.config.profile.window_from_space == WindowFromSpace::ScalingRatio {
            self.rcv.scaling_ratio = ((seg.len << 8) / seg.truesize).max(1);
            self.rcv.window_clamp = self.full_space();
        }
    }

    /// The window to offer now, bytes (`__tcp_select_window`).
    pub(super) fn window_to_offer(&mut self) -> u32 {
        let mut mss = self.ack.rcv_mss;
        let allowed = self.full_space();
        let full = self.rcv.window_clamp.min(allowed);
        let mut free = self.free_space();
        mss = mss.min(full);
        if mss == 0 {
            return 0;
        }
        let scale = self.opt.rcv_wscale;
        if free < full >> 1 {
            self.ack.quick = 0;
            free = free >> scale << scale;
            if free < allowed >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(self.rcv.ssthresh);
        if scale > 0 {
            return free.next_multiple_of(1 << scale);
        }
        let window = self.rcv.wnd;
        if i64::from(window) <= i64::from(free) - i64::from(mss) || window > free {
            free / mss * mss
        } else if mss == full && free > window + (full >> 1) {
            free
        } else {
            window
        }
    }

    /// The window field of a segment sent now; remembers what was offered (`tcp_select_window`).
    pub(super) fn select_window(&mut self, cx: &mut Cx<'_>) -> u16 {
        let old = self.rcv.wnd;
        let current = self.rcv.window();
        let mut new = self.window_to_offer();
        let scale = self.opt.rcv_wscale;
        if new < current {
            // Never shrink the window that was offered.
            if new == 0 {
                cx.mib.want_zero_window += 1;
            }
            new = current.next_multiple_of(1 << scale);
        }
        self.rcv.wnd = new;
        self.rcv.wup = self.rcv.nxt;
        let ceiling = if scale == 0 { 65_535 } else { 65_535 << scale };
        let field = (new.min(ceiling) >> scale) as u16;
        if field == 0 {
            if old > 0 {
                cx.mib.to_zero_window += 1;
            }
        } else if old == 0 {
            cx.mib.from_zero_window += 1;
        }
        field
    }

    /// Takes the payload and FIN of an acceptable segment (`tcp_data_queue`).
    pub(super) fn data_queue(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        if seg.seq == seg.end_seq {
            return;
        }
        if seg.seq == self.rcv.nxt {
            if self.rcv.window() == 0 && seg.len > 0 {
                cx.mib.zero_window_drop += 1;
                self.out_of_window();
                return;
            }
            self.queue_in_order(seg, seg.seq, cx);
        } else if !seg.end_seq.after(self.rcv.nxt) {
            // A needless retransmission: acknowledge at once, with DSACK.
            cx.mib.dsack_old_sent += 1;
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
                self.queue_in_order(seg, self.rcv.nxt, cx);
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

    fn set_dsack(&mut self, start: Seq, end: Seq) {
        if self.is_sack() && self.config.sysctl.tcp_dsack != 0 {
            self.rcv.dsack = Some(SackBlock { start, end });
        }
    }

    /// The buffer takes another segment (`tcp_try_rmem_schedule`).
    fn has_room(&self) -> bool {
        self.rcv.rmem_alloc <= self.rcv.rcvbuf
    }

    fn queue_in_order(&mut self, seg: &Segment<'_>, from: Seq, cx: &mut Cx<'_>) {
        if !self.has_room() && !self.rcv.queue.is_empty() {
            cx.mib.rcv_q_drop += 1;
            self.ack.now = true;
            self.ack.scheduled = true;
            return;
        }
        let run =
            Received { seq: from, end_seq: seg.end_seq, truesize: seg.truesize, fin: seg.fin() };
        self.rcv.append(run);
        self.rcv.rmem_alloc += run.truesize;
        self.totals.bytes_received +=
            u64::from(seg.end_seq.bytes_since(self.rcv.nxt) - u32::from(seg.fin()));
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
        if self.rcv.num_blocks > 0 {
            self.rcv.drop_passed_blocks();
        }
        cx.ready |= SocketReady::READABLE;
    }

    /// Moves what has become in-order (`tcp_ofo_queue`).
    fn join_out_of_order(&mut self, cx: &mut Cx<'_>) {
        while let Some(&run) = self.rcv.out_of_order.first() {
            if run.seq.after(self.rcv.nxt) {
                break;
            }
            self.rcv.out_of_order.remove(0);
            if run.seq.before(self.rcv.nxt) {
                self.set_dsack(run.seq, run.end_seq.min(self.rcv.nxt));
            }
            if !run.end_seq.after(self.rcv.nxt) {
                self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(run.truesize);
                continue;
            }
            let in_order = Received { seq: self.rcv.nxt, ..run };
            self.totals.bytes_received +=
                u64::from(run.end_seq.bytes_since(self.rcv.nxt) - u32::from(run.fin));
            self.rcv.append(in_order);
            self.rcv.nxt = run.end_seq;
            if run.fin {
                self.fin(cx);
            }
        }
    }

    /// Keeps data beyond a hole (`tcp_data_queue_ofo`).
    fn queue_out_of_order(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) {
        self.ecn_check_ce(seg.ecn, cx);
        if !self.has_room() {
            cx.mib.ofo_drop += 1;
            return;
        }
        self.ack.scheduled = true;
        self.totals.rcv_ooopack += seg.segments;
        cx.mib.ofo_queue += 1;
        let truesize = seg.truesize;
        let run = Received { seq: seg.seq, end_seq: seg.end_seq, truesize, fin: seg.fin() };
        if let Some(duplicate) = self.rcv.insert_out_of_order(run) {
            cx.mib.dsack_ofo_sent += 1;
            self.set_dsack(duplicate.start, duplicate.end);
        }
        if self.is_sack() {
            self.rcv.report_block(seg.seq, seg.end_seq);
            // The segment itself is charged after the window has grown.
            self.grow_window(seg);
        }
        self.rcv.rmem_alloc += truesize;
    }

    /// Lets the window grow when data comes in full segments (`tcp_grow_window`).
    pub(super) fn grow_window(&mut self, seg: &Segment<'_>) {
        let limit = self.rcv.window_clamp.min(self.free_space());
        let Some(room) = limit.checked_sub(self.rcv.ssthresh).filter(|&room| room > 0) else {
            return;
        };
        let truesize = seg.truesize;
        let increment = if self.win_from_space(truesize) <= seg.len {
            2 * self.opt.advmss
        } else {
            self.slow_window_growth(truesize, seg.len)
        };
        if increment > 0 {
            self.rcv.ssthresh += room.min(increment.max(2 * seg.len));
            self.ack.quick |= 1;
        }
    }

    /// Segments that waste memory let the window grow only while it is small
    /// (`__tcp_grow_window`).
    fn slow_window_growth(&self, truesize: u32, len: u32) -> u32 {
        let mut truesize = self.win_from_space(truesize) >> 1;
        let mut window = self.win_from_space(self.config.sysctl.tcp_rmem[2]) >> 1;
        while self.rcv.ssthresh <= window {
            if truesize <= len {
                return 2 * self.ack.rcv_mss;
            }
            truesize >>= 1;
            window >>= 1;
        }
        0
    }

    /// Measures the RTT on the receiving side by timestamps (`tcp_rcv_rtt_measure_ts`).
    pub(super) fn rcv_rtt_measure_ts(&mut self, seg: &Segment<'_>, now: Instant) {
        let Some(ts) = seg.tcp.options.timestamps.filter(|_| self.opt.timestamps) else {
            return;
        };
        if ts.echo == self.rcv.last_tsecr {
            return;
        }
        self.rcv.last_tsecr = ts.echo;
        if seg.end_seq.bytes_since(seg.seq) < self.ack.rcv_mss {
            return;
        }
        let delta_ms = self.ts_now(now).wrapping_sub(ts.echo);
        if delta_ms < i32::MAX as u32 / 1_000 {
            self.rcv_rtt_update(delta_ms.max(1) * 1_000, false);
        }
    }

    /// Measures it by windows when there are no timestamps (`tcp_rcv_rtt_measure`).
    pub(super) fn rcv_rtt_measure(&mut self, now: Instant) {
        if self.rcv.rtt_time_us != 0 {
            if self.rcv.nxt.before(self.rcv.rtt_seq) {
                return;
            }
            let delta = now.as_micros().saturating_sub(self.rcv.rtt_time_us).max(1);
            self.rcv_rtt_update(delta as u32, true);
        }
        self.rcv.rtt_seq = self.rcv.nxt + self.rcv.wnd;
        self.rcv.rtt_time_us = now.as_micros();
    }

    /// `tcp_rcv_rtt_update`: smaller samples count at once, larger ones are smoothed in.
    fn rcv_rtt_update(&mut self, sample_us: u32, by_window: bool) {
        let old = self.rcv.rtt_us_8;
        let sample_8 = sample_us << 3;
        if old == 0 || sample_8 < old {
            self.rcv.rtt_us_8 = sample_8;
        } else if !by_window {
            self.rcv.rtt_us_8 = old - (old >> 3) + sample_us;
        }
    }

    /// Whether a read would find nothing, not even an end.
    #[inline]
    pub fn would_block(&self) -> bool {
        self.rcv.unread_bytes() == 0
            && self.error.is_none()
            && !self.rcv.fin_received
            && self.state != super::state::State::Close
    }

    /// The application reads up to `max` bytes (`tcp_recvmsg`).
    pub fn read(&mut self, max: u64, cx: &mut Cx<'_>) -> TcpRead {
        let unread = u64::from(self.rcv.unread_bytes());
        if unread == 0 {
            return if self.error.is_some() {
                TcpRead::Reset
            } else if self.rcv.fin_received || self.state == super::state::State::Close {
                TcpRead::Eof
            } else {
                TcpRead::WouldBlock
            };
        }
        let taken = unread.min(max) as u32;
        let mut left = taken;
        while left > 0 {
            left -= self.read_from_front(left);
            // Segment by segment: what a filled hole delivers at once is not one RTT's worth.
            self.rcv_space_adjust(cx.now);
        }
        self.cleanup_rbuf(taken, cx);
        TcpRead::Data(u64::from(taken))
    }

    /// Reads up to `max` bytes from the oldest run; returns how many.
    fn read_from_front(&mut self, max: u32) -> u32 {
        let front = *self.rcv.queue.front().expect("unread bytes lie in the queue");
        let end = front.end_seq - u32::from(front.fin);
        let taken = end.bytes_since(self.rcv.copied_seq).min(max);
        self.rcv.copied_seq += taken;
        if self.rcv.copied_seq == end {
            self.rcv.rmem_alloc = self.rcv.rmem_alloc.saturating_sub(front.truesize);
            self.rcv.queue.pop_front();
        }
        taken
    }

    /// Dynamic right-sizing: grows the buffer when the application keeps up
    /// (`tcp_rcv_space_adjust`).
    fn rcv_space_adjust(&mut self, now: Instant) {
        let now_us = now.as_micros();
        let elapsed = now_us.saturating_sub(self.rcv.space_time_us);
        if self.rcv.rtt_us_8 == 0 || elapsed < u64::from(self.rcv.rtt_us_8 >> 3) {
            return;
        }
        let copied = self.rcv.copied_seq.bytes_since(self.rcv.space_seq);
        if copied > self.rcv.space {
            if self.config.sysctl.tcp_moderate_rcvbuf != 0 && self.config.receive_buffer == 0 {
                self.grow_rcvbuf(copied);
            }
            self.rcv.space = copied;
        }
        self.rcv.space_seq = self.rcv.copied_seq;
        self.rcv.space_time_us = now_us;
    }

    /// Twice what one RTT brought, and more while that grows.
    fn grow_rcvbuf(&mut self, copied: u32) {
        let advmss = u64::from(self.opt.advmss);
        let mut window = (u64::from(copied) << 1) + 16 * advmss;
        let space = u64::from(self.rcv.space.max(1));
        let growth = window * u64::from(copied - self.rcv.space) / space;
        window += growth << 1;
        let wanted = match self.config.profile.window_from_space {
            WindowFromSpace::ScalingRatio => self.space_from_win(window),
            WindowFromSpace::AdvWinScale => {
                let profile = &self.config.profile;
                let mut per_segment = self.opt.advmss
                    + profile.max_tcp_header
                    + profile.shared_info_len
                    + profile.sk_buff_len;
                while self.win_from_space(per_segment) < self.opt.advmss {
                    per_segment += 128;
                }
                window / advmss * u64::from(per_segment)
            }
        };
        let rcvbuf = wanted.min(u64::from(self.config.sysctl.tcp_rmem[2])) as u32;
        if rcvbuf > self.rcv.rcvbuf {
            self.rcv.rcvbuf = rcvbuf;
            self.rcv.window_clamp = self.win_from_space(rcvbuf);
        }
    }

    /// The connection is established: sets the measurements going (`tcp_init_buffer_space`).
    pub(super) fn init_buffer_space(&mut self, now: Instant) {
        if self.config.send_buffer == 0 {
            self.sndbuf_expand();
        }
        let advmss = self.opt.advmss;
        self.rcv.space = self.rcv.wnd.min(INIT_CWND * advmss);
        self.rcv.space_time_us = now.as_micros();
        self.rcv.space_seq = self.rcv.copied_seq;
        let max = self.full_space();
        let app_win = self.config.sysctl.tcp_app_win;
        if self.rcv.window_clamp >= max {
            self.rcv.window_clamp = max;
            if app_win > 0 && max > 4 * advmss {
                let share = max.checked_shr(app_win).unwrap_or(0);
                self.rcv.window_clamp = (max - share).max(4 * advmss);
            }
        }
        // Keep one segment in reserve.
        if app_win > 0 && self.rcv.window_clamp > 2 * advmss && self.rcv.window_clamp + advmss > max
        {
            self.rcv.window_clamp = (2 * advmss).max(max - advmss);
        }
        self.rcv.ssthresh = self.rcv.ssthresh.min(self.rcv.window_clamp);
        self.window.snd_cwnd_stamp = self.jiffies32(now);
    }
}

/// Memory that an arriving packet is charged as. What the sender's stack handed down whole comes
/// with its memory, as over veth; a segment that was cut from a super-packet lies in a linear
/// buffer from the next larger slab.
pub(super) fn truesize_of(packet: &Packet) -> u32 {
    if packet.meta.gso_segs > 0 && packet.meta.truesize > 0 {
        return packet.meta.truesize;
    }
    let buffer = (packet.body.len + HEADROOM + SHARED_INFO_LEN).next_power_of_two();
    SK_BUFF_LEN + buffer.max(MIN_HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seq: u32, end: u32) -> Received {
        Received { seq: Seq(seq), end_seq: Seq(end), truesize: 2_000, fin: false }
    }

    fn reported(rcv: &mut Receive) -> Vec<(u32, u32)> {
        rcv.sack_list(4).as_slice().iter().map(|b| (b.start.0, b.end.0)).collect()
    }

    #[test]
    fn the_newest_block_comes_first_and_neighbours_join() {
        let mut rcv = Receive::new(100_000);
        for (seq, end, blocks) in [
            (2_000, 3_000, vec![(2_000, 3_000)]),
            (5_000, 6_000, vec![(5_000, 6_000), (2_000, 3_000)]),
            (3_000, 4_000, vec![(2_000, 4_000), (5_000, 6_000)]),
            (4_000, 5_000, vec![(2_000, 6_000)]),
        ] {
            rcv.insert_out_of_order(run(seq, end));
            rcv.report_block(Seq(seq), Seq(end));
            assert_eq!(reported(&mut rcv), blocks, "after {seq}..{end}");
        }
        assert_eq!(rcv.out_of_order.len(), 1);
    }

    #[test]
    fn a_fifth_block_pushes_the_oldest_out() {
        let mut rcv = Receive::new(100_000);
        for start in [2_000, 4_000, 6_000, 8_000, 10_000] {
            rcv.report_block(Seq(start), Seq(start + 1_000));
        }
        assert_eq!(
            reported(&mut rcv),
            [(10_000, 11_000), (8_000, 9_000), (6_000, 7_000), (4_000, 5_000)]
        );
    }

    #[test]
    fn overlap_is_reported_as_duplicate() {
        let mut rcv = Receive::new(100_000);
        assert_eq!(rcv.insert_out_of_order(run(2_000, 3_000)), None);
        let duplicate = rcv.insert_out_of_order(run(2_500, 3_500)).unwrap();
        assert_eq!((duplicate.start, duplicate.end), (Seq(2_500), Seq(3_000)));
    }
}
