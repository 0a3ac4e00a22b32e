//! Asking whether a closed window is still closed (`tcp_probe_timer`).

use super::{RESOURCE_PROBE_INTERVAL, RTO_MIN};
use crate::packet::TcpFlags;
use crate::tcp::nagle::Nonagle;
use crate::tcp::output::Push;
use crate::tcp::timer::{Pending, TIMEOUT_MIN};
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

impl Connection {
    /// A window probe will be needed (`tcp_check_probe_timer`).
    pub(in crate::tcp) fn check_probe_timer(&mut self, now: Instant) {
        if self.rec.packets_out == 0 && self.pending == Pending::None {
            let when = self.probe0_base();
            self.reset_xmit_timer(Pending::Probe0, when, now);
        }
    }

    /// `tcp_probe0_base`.
    fn probe0_base(&self) -> u32 {
        self.rto.max(RTO_MIN)
    }

    /// `tcp_probe0_when`: exponential back-off.
    pub(in crate::tcp) fn probe0_when(&self) -> u32 {
        let shift = u32::from(self.backoff).min(20);
        let when = u64::from(self.probe0_base()) << shift;
        when.min(u64::from(self.rto_max_ms())) as u32
    }

    /// Time to ask whether the window is still closed (`tcp_probe_timer`, `tcp_send_probe0`).
    pub(super) fn probe_timeout(&mut self, cx: &mut Cx<'_>) {
        if self.rec.packets_out > 0 || self.queue.unsent_is_empty() {
            self.probes_out = 0;
            return;
        }
        let now = self.jiffies32(cx.now);
        let user_ms = self.config.user_timeout_ms;
        let since = *self.probes_since.get_or_insert(now);
        let mut over = user_ms.is_some_and(|user_ms| now.wrapping_sub(since) >= user_ms.get());
        let mut limit = self.config.sysctl.tcp_retries2;
        if self.orphan {
            let backed_off = u64::from(self.rto) << u32::from(self.backoff).min(20);
            let alive = backed_off < u64::from(self.rto_max_ms());
            limit = self.orphan_retries(alive);
            over |= !alive && u32::from(self.backoff) >= limit;
        }
        if over || u32::from(self.probes_out) >= limit {
            return self.write_error(cx);
        }
        let congested = !self.write_wakeup(cx);
        if self.rec.packets_out > 0 || self.queue.unsent_is_empty() {
            self.probes_out = 0;
            self.backoff = 0;
            self.probes_since = None;
            return;
        }
        self.probes_out = self.probes_out.saturating_add(1);
        let mut when = RESOURCE_PROBE_INTERVAL;
        if !congested {
            if u32::from(self.backoff) < self.config.sysctl.tcp_retries2 {
                self.backoff += 1;
            }
            when = self.probe0_when();
        }
        let when = self.clamped_probe(when, cx.now);
        self.reset_xmit_timer(Pending::Probe0, when, cx.now);
    }

    /// The next probe comes no later than the end of the user's patience
    /// (`tcp_clamp_probe0_to_user_timeout`).
    fn clamped_probe(&self, when: u32, now: Instant) -> u32 {
        let (Some(user_ms), Some(since)) = (self.config.user_timeout_ms, self.probes_since) else {
            return when;
        };
        let elapsed = self.jiffies32(now).wrapping_sub(since);
        when.min(user_ms.get().saturating_sub(elapsed).max(TIMEOUT_MIN))
    }

    /// Sends data if a little fits, else an empty probe, and before it one that tells of urgent data
    /// (`tcp_write_wakeup`). False: the queue below has dropped it.
    fn write_wakeup(&mut self, cx: &mut Cx<'_>) -> bool {
        if let Some(head) = self.queue.send_head()
            && self.queue.get(head).seq.before(self.wnd_end())
        {
            let skb = *self.queue.get(head);
            if self.snd.pushed_seq.before(skb.end_seq) {
                self.snd.pushed_seq = skb.end_seq;
            }
            let room = self.wnd_end().bytes_since(skb.seq);
            let mss = self.current_mss(cx.now);
            let size = mss.min(room);
            self.queue.get_mut(head).flags |= TcpFlags::PSH;
            // A FIN needs room as well: without it, it stays behind. So does a PSH of what is left.
            if room < skb.end_seq.bytes_since(skb.seq) || mss < skb.len() {
                self.queue.get_mut(head).pcount = 0;
                self.fragment(head, size);
            }
            self.queue.get_mut(head).flags |= TcpFlags::PSH;
            self.write_xmit(size, Nonagle::PUSH, Push::Window, cx);
            return self.rec.packets_out > 0 || self.queue.unsent_is_empty();
        }
        if self.is_urgent_within_reach() {
            cx.mib.win_probe += 1;
            self.send_probe_ack(self.snd.una, cx);
        }
        cx.mib.win_probe += 1;
        self.send_probe_ack(self.snd.una - 1, cx);
        true
    }
}
