//! Header prediction: the segments that an established connection takes without a second look
//! (`tcp_rcv_established`, `tp->pred_flags`). What differs for them is what the second look does besides.

use super::Connection;
use super::input::Segment;
use super::state::State;
use crate::packet::TcpFlags;

/// Memory is reserved for a socket in pages (`PAGE_SIZE`).
const PAGE: u32 = 4_096;

impl Connection {
    /// The segment is the next one in order, and nothing in its header but its numbers is news.
    pub(super) fn is_predicted(&self, seg: &Segment<'_>) -> bool {
        let flags = seg.tcp.flags.without(TcpFlags::PSH);
        let expected = if self.is_accurate() {
            // The ACE field is part of what is predicted; it is looked at either way.
            flags.without(TcpFlags(0x1c0)) == TcpFlags::ACK
        } else {
            flags == TcpFlags::ACK
        };
        self.state == State::Established
            && expected
            && seg.seq == self.rcv.nxt
            && !seg.tcp.ack.after(self.snd.nxt)
            && u32::from(seg.tcp.window) == self.snd.wnd >> self.opt.snd_wscale
            && self.rcv.is_in_order()
            && self.rcv.wnd > 0
            && self.rcv.rmem_alloc < self.rcv.rcvbuf
            && !self.has_urgent()
            && self.carries_what_is_always_carried(seg)
            && (seg.len == 0 || seg.truesize <= self.forward_alloc())
    }

    /// A timestamp that is not older than the last, or no option at all.
    fn carries_what_is_always_carried(&self, seg: &Segment<'_>) -> bool {
        let usual = if self.opt.timestamps { super::options::TIMESTAMPS_LEN } else { 0 };
        let newer = seg.tcp.options.timestamps.is_none_or(|ts| {
            !self.opt.timestamps || (ts.value.wrapping_sub(self.opt.ts_recent) as i32) >= 0
        });
        seg.tcp.options.len() == usual && newer
    }

    /// Memory that is reserved and not in use (`sk_forward_alloc`), bytes.
    pub fn forward_alloc(&self) -> u32 {
        self.rcv.rmem_alloc.wrapping_add(self.snd.wmem_queued).wrapping_neg() % PAGE
    }
}
