//! Header prediction: the segments that an established connection takes without a second look
//! (`tcp_rcv_established`, `tp->pred_flags`). What differs for them is what the second look does besides.

use super::Connection;
use super::accecn::{CE_PACKETS_INIT, ace_flags};
use super::segment::{Path, Segment};
use super::state::State;
use crate::packet::{PAGE_SIZE, TcpFlags};

/// What the header of the next segment will be, but for its numbers (`tp->pred_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The window field.
    window: u16,
    /// All flags but PSH.
    flags: TcpFlags,
}

impl Connection {
    /// The next segment will have the window of the latest (`tcp_fast_path_on`).
    pub(super) fn predict(&mut self) {
        let mut flags = TcpFlags::ACK;
        if self.is_accurate() {
            flags |= ace_flags(self.rate.delivered_ce.wrapping_add(CE_PACKETS_INIT));
        }
        let window = (self.snd.wnd >> self.opt.snd_wscale) as u16;
        self.expected = Some(Expected { window, flags });
    }

    /// The same, if nothing needs a second look: no hole, a window and room behind it, no urgent data
    /// (`tcp_fast_path_check`). Something else was expected before, or nothing, and stays so otherwise.
    pub(super) fn predict_if_calm(&mut self) {
        if self.rcv.is_in_order()
            && self.rcv.wnd > 0
            && self.rcv.rmem_alloc < self.rcv.rcvbuf
            && !self.has_unpassed_urgent()
        {
            self.predict();
        }
    }

    /// Which way the segment takes.
    #[inline]
    pub(super) fn path_of(&self, seg: &Segment<'_>) -> Path {
        if self.is_predicted(seg) { Path::Fast } else { Path::Slow }
    }

    /// The segment is the next one in order, and nothing in its header but its numbers is news. An ACK may be an old one.
    fn is_predicted(&self, seg: &Segment<'_>) -> bool {
        let Some(expected) = self.expected else { return false };
        self.state == State::Established
            && seg.tcp.flags.without(TcpFlags::PSH) == expected.flags
            && seg.tcp.window == expected.window
            && seg.seq == self.rcv.nxt
            && !seg.tcp.ack.after(self.snd.nxt)
            && self.carries_what_is_always_carried(seg)
            && (seg.len == 0 || self.has_reserved(seg))
    }

    /// A timestamp that is not older than the last, or no option at all.
    fn carries_what_is_always_carried(&self, seg: &Segment<'_>) -> bool {
        let is_old = |value: u32| (value.wrapping_sub(self.opt.ts_recent) as i32) < 0;
        seg.tcp.options.are_usual(self.opt.timestamps)
            && !seg.tcp.options.timestamps.is_some_and(|ts| is_old(ts.value))
    }

    /// Its bytes lie within the window, and in memory that is the socket's already.
    fn has_reserved(&self, seg: &Segment<'_>) -> bool {
        let reserved = self.forward_alloc();
        !seg.end_seq.after(self.rcv.nxt + self.rcv.window())
            // It always takes more than its bytes, which need no working out.
            && seg.len < reserved
            && seg.truesize() <= reserved
    }

    /// Memory that is reserved, in pages, and not in use (`sk_forward_alloc`), bytes.
    pub fn forward_alloc(&self) -> u32 {
        self.rcv.rmem_alloc.wrapping_add(self.snd.wmem_queued).wrapping_neg() % PAGE_SIZE
    }
}
