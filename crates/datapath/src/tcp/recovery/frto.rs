//! Loss state and F-RTO (RFC 5682): was the timeout spurious?

use super::super::ack_event::AckFlags;
use super::super::{Connection, Cx};
use super::Rexmit;

impl Connection {
    /// Processes an ACK in Loss state (`tcp_process_loss`).
    pub(super) fn process_loss(
        &mut self,
        flags: AckFlags,
        dup_acks: u32,
        cx: &mut Cx<'_>,
    ) -> Rexmit {
        let recovered = self.snd.una.at_or_after(self.rec.high_seq);
        if flags.snd_una_advanced && self.try_undo_loss(cx) {
            return Rexmit::None;
        }
        if self.rec.frto
            && let Some(rexmit) = self.frto_step(flags, dup_acks, recovered, cx)
        {
            return rexmit;
        }
        if recovered {
            self.try_undo_recovery(cx);
            return Rexmit::None;
        }
        if !self.is_sack() {
            // A duplicate ACK here means that new data of F-RTO's step 2 was delivered.
            if self.snd.nxt.after(self.rec.high_seq) && dup_acks > 0 {
                self.add_reno_sack(dup_acks, flags.ece, cx);
            } else if flags.snd_una_advanced {
                self.reset_reno_sack();
            }
        }
        Rexmit::Lost
    }

    /// RFC 5682 section 3.1. `Some`: what to send, as F-RTO has decided.
    fn frto_step(
        &mut self,
        flags: AckFlags,
        dup_acks: u32,
        recovered: bool,
        cx: &mut Cx<'_>,
    ) -> Option<Rexmit> {
        // Step 3.b: data that was never retransmitted arrived; not all was lost.
        if flags.orig_sack_acked {
            self.undo_spurious_timeout(cx);
            return Some(Rexmit::None);
        }
        if self.snd.nxt.after(self.rec.high_seq) {
            if flags.data_sacked || dup_acks > 0 {
                // Step 3.a: the loss was real.
                self.rec.frto = false;
            }
        } else if flags.snd_una_advanced && !recovered {
            // Step 2.b: try new data instead of retransmissions.
            self.rec.high_seq = self.snd.nxt;
            if !self.queue.unsent_is_empty() && self.wnd_end().after(self.snd.nxt) {
                return Some(Rexmit::New);
            }
            self.rec.frto = false;
        }
        None
    }
}
