//! A short retransmission is merged with the records behind it: one full segment instead of several small
//! ones (`tcp_retrans_try_collapse`).

use super::super::Connection;
use super::super::skb::{Pages, Skb, SkbId, tag};
use crate::packet::TcpFlags;

impl Connection {
    /// Merges following records into the record `id`, which is about to be retransmitted, up to `space` bytes
    /// in total.
    pub(super) fn collapse_retransmission(&mut self, id: SkbId, space: u32) {
        let head = *self.queue.get(id);
        let switched_off = self.config.sysctl.tcp_retrans_collapse == 0;
        if switched_off || head.flags.contains(TcpFlags::SYN) || !may_collapse(&head) {
            return;
        }
        let index = self.queue.rtx_index_ending_after(head.seq);
        let mut room = space - head.len();
        while let Some(next) = self.queue.rtx_at(index + 1) {
            let (head, following) = (*self.queue.get(id), *self.queue.get(next));
            let fits = following.len() <= room && !following.end_seq.after(self.wnd_end());
            if !may_collapse(&following) || !may_take(&head, &following) || !fits {
                break;
            }
            room -= following.len();
            self.join_retransmission(id, next, index + 1);
        }
    }

    /// Merges `next`, the `index`-th record in flight, into `id` (`tcp_collapse_retrans`).
    fn join_retransmission(&mut self, id: SkbId, next: SkbId, index: usize) {
        self.adjust_pcount(next, 1, 0);
        let gone = self.queue.remove_rtx(index);
        let skb = self.queue.get_mut(id);
        let grown = gone.len();
        skb.end_seq = gone.end_seq;
        skb.truesize += grown;
        skb.flags |= gone.flags;
        skb.sacked |= gone.sacked & tag::EVER_RETRANS;
        skb.eor = gone.eor;
        let overhead = gone.truesize.saturating_sub(grown);
        self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(overhead);
    }
}

/// Whether the records can be merged (`tcp_skb_can_collapse`), and only bytes that are not in the application's memory have to
/// be moved (`skb_shift`); a lone FIN has none.
fn may_take(head: &Skb, following: &Skb) -> bool {
    let moves = !following.is_empty();
    let as_pure = (head.pages == Pages::Application) == (following.pages == Pages::Application);
    !head.eor && as_pure && !(moves && (head.is_pinned() || following.is_pinned()))
}

/// Single segments that are not SACKed can be joined (`tcp_can_collapse`).
fn may_collapse(skb: &Skb) -> bool {
    skb.pcount == 1 && !skb.has(tag::SACKED)
}
