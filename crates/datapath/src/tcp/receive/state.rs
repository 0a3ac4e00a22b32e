//! The receive side of a connection: its sequence space, its window and its queues.

use crate::packet::seq::Seq;
use crate::packet::{SackBlock, SackList};
use crate::tcp::reassembly::{InOrder, OutOfOrder};
use crate::tcp::sack_blocks::SackBlocks;

/// The receive side of a connection.
// What an ACK looks at comes first: see `OFTEN_USED`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(in crate::tcp) struct ReceiveState {
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
