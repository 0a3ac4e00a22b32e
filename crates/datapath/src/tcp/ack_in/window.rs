//! What an ACK tells of the peer's window (RFC 9293 section 3.10.7.4).

use crate::packet::seq::Seq;
use crate::packet::{Tcp, TcpFlags};
use crate::tcp::segment::Segment;
use crate::tcp::timer::{Pending, Timer};
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

impl Connection {
    /// The segment's window field would change what we know.
    pub(in crate::tcp) fn changes_window(&self, tcp: &Tcp) -> bool {
        let window = u32::from(tcp.window) << self.opt.snd_wscale;
        tcp.ack.after(self.snd.una) && (window != self.snd.wnd || tcp.seq.before(self.snd.wl1))
            || (tcp.ack == self.snd.una && window > self.snd.wnd)
            || (tcp.seq.after(self.snd.wl1) && window != self.snd.wnd)
    }

    /// `tcp_snd_una_update`.
    pub(super) fn snd_una_update(&mut self, ack: Seq) {
        self.totals.bytes_acked += u64::from(ack.bytes_since(self.snd.una));
        self.snd.una = ack;
        self.forget_sent(ack);
    }

    /// RFC 9293 section 3.10.7.4: window update (`tcp_ack_update_window`). True: it changed.
    pub(super) fn ack_update_window(
        &mut self,
        seg: &Segment<'_>,
        ack: Seq,
        cx: &mut Cx<'_>,
    ) -> bool {
        let mut window = u32::from(seg.tcp.window);
        if !seg.tcp.flags.contains(TcpFlags::SYN) {
            window <<= self.opt.snd_wscale;
        }
        let may_update = ack.after(self.snd.una)
            || seg.seq.after(self.snd.wl1)
            || (seg.seq == self.snd.wl1 && (window > self.snd.wnd || window == 0));
        let (mut updated, mut restarts) = (false, false);
        if may_update {
            updated = true;
            self.snd.wl1 = seg.seq;
            if self.snd.wnd != window {
                self.snd.wnd = window;
                self.expected = None;
                self.predict_if_calm();
                restarts = !self.queue.unsent_is_empty();
                if window > self.snd.max_window {
                    self.snd.max_window = window;
                    self.sync_mss();
                }
            }
        }
        if restarts {
            self.slow_start_after_idle_check(cx);
        }
        self.snd_una_update(ack);
        updated
    }

    /// The peer's window may have opened (`tcp_ack_probe`).
    pub(super) fn ack_probe(&mut self, now: Instant) {
        let Some(head) = self.queue.send_head() else { return };
        if self.queue.get(head).end_seq.after(self.wnd_end()) {
            let when = self.probe0_when();
            self.reset_xmit_timer(Pending::Probe0, when, now);
            return;
        }
        self.backoff = 0;
        self.probes_since = None;
        if self.pending == Pending::Probe0 {
            self.pending = Pending::None;
            self.timers.stop(Timer::Transmit);
        }
    }
}
