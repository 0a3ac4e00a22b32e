//! TCP Small Queues: a connection keeps little below the socket, and goes on when that has left (`tcp_small_queue_check`,
//! `tcp_wfree`, `tcp_tsq_handler`).

use super::{PACING_SHIFT, Push};
use crate::tcp::skb::SkbId;
use crate::tcp::{Connection, Cx};
use crate::trace::Cause;

impl Connection {
    /// Enough waits below the socket already (`tcp_small_queue_check`). `factor`: shift of the
    /// limit.
    pub(in crate::tcp) fn small_queue_blocks(&mut self, id: SkbId, factor: u32) -> bool {
        if !self.config.profile.small_queues {
            return false;
        }
        let mut limit = (2 * u64::from(self.queue.get(id).truesize))
            .max(self.window.pacing_rate >> PACING_SHIFT);
        if !self.is_paced() {
            limit = limit.min(u64::from(self.config.sysctl.tcp_limit_output_bytes));
        }
        // The socket itself counts as one byte (`SK_WMEM_ALLOC_BIAS`).
        if u64::from(self.snd.wmem_alloc) < limit << factor {
            return false;
        }
        if self.queue.rtx_len() <= 1 {
            // One may always go: its completion is our clock.
            return false;
        }
        // With a limit of 0 the socket's own byte is too much. No device gives anything back then: ACKs go on.
        self.snd.throttled |= self.snd.wmem_alloc > 0;
        true
    }

    /// The device is done with `truesize` bytes of ours (`tcp_wfree`). True: the output has waited
    /// for that, and [`resume_output`](Self::resume_output) is due.
    #[inline]
    #[must_use]
    pub fn transmit_done(&mut self, truesize: u32) -> bool {
        debug_assert!(truesize <= self.snd.wmem_alloc, "more given back than was taken");
        self.snd.wmem_alloc = self.snd.wmem_alloc.saturating_sub(truesize);
        self.snd.throttled
    }

    /// The output has stopped until the device is done with something.
    #[inline]
    pub fn waits_for_memory(&self) -> bool {
        self.snd.throttled
    }

    /// The output may go on, but a program holds the socket (`tcp_tsq_workfn`): [`resume_output`](Self::resume_output) is
    /// due when it lets go.
    pub fn defer_output(&mut self) {
        self.snd.goes_on_later = true;
    }

    /// Whether that has been put off.
    pub fn has_deferred_output(&self) -> bool {
        self.snd.goes_on_later
    }

    /// Goes on where TCP Small Queues have stopped the output (`tcp_tsq_handler`).
    pub fn resume_output(&mut self, cx: &mut Cx<'_>) {
        (self.snd.throttled, self.snd.goes_on_later) = (false, false);
        if !self.state.may_transmit() {
            return;
        }
        if self.rec.lost_out > self.rec.retrans_out
            && self.window.snd_cwnd > self.packets_in_flight()
        {
            self.xmit_retransmit_queue(Cause::Rack, cx);
        }
        self.write_xmit(self.current_mss(cx.now), self.snd.nonagle, Push::All, cx);
    }
}
