//! Forward retransmissions: in Recovery, when what is lost has gone again and no new data can go,
//! segments below the highest SACK that nobody has called lost go again as well (the second pass of
//! 2.6.22's `tcp_xmit_retransmit_queue`).

use super::super::skb::tag;
use super::super::{Connection, Cx};
use super::{CaState, Resent};
use crate::trace::Cause;

impl Connection {
    /// Retransmits forward as the window allows.
    pub(super) fn xmit_forward(&mut self, cx: &mut Cx<'_>) {
        if !self.config.profile.forward_retransmits
            || self.window.ca_state != CaState::Recovery
            || !self.is_sack()
            || self.may_send_now(cx)
        {
            return;
        }
        let highest = self.highest_sack_seq();
        let mut index = 0;
        while let Some(id) = self.queue.rtx_at(index) {
            let skb = *self.queue.get(id);
            let is_full = self.packets_in_flight() >= self.window.snd_cwnd;
            if is_full || !skb.seq.before(highest) {
                return;
            }
            index += 1;
            if skb.has(tag::SACKED | tag::LOST | tag::RETRANS) {
                continue;
            }
            if self.retransmit_skb(id, 1, Cause::Forward, cx) != Resent::Sent {
                return;
            }
            if index == 1 {
                self.rearm_rto(cx.now);
            }
        }
    }

    /// There is new data that the peer's window has room for (`tcp_may_send_now`).
    fn may_send_now(&self, cx: &Cx<'_>) -> bool {
        self.queue.send_head().is_some_and(|head| {
            let skb = self.queue.get(head);
            let first_end = skb.seq + skb.len().min(self.current_mss(cx.now));
            !first_end.after(self.wnd_end())
        })
    }
}
