//! Retransmitting lost segments as the window allows.

use super::super::nagle::Nonagle;
use super::super::skb::{SkbId, tag};
use super::super::state::State;
use super::super::timer::Pending;
use super::super::{Connection, Cx, GSO_MAX_SIZE};
use super::{CaState, Rexmit};
use crate::profile::LostRetransmit;
use crate::reason::Enqueue;
use crate::trace::{Cause, EventKind};
use crate::units::Instant;

/// What became of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Resent {
    /// It was sent.
    Sent,
    /// The host itself has dropped it: local congestion.
    Dropped,
    /// It must not be sent now: the latest copy has not left the host yet (`EBUSY`), or it lies beyond the
    /// window (`EAGAIN`).
    Waits,
}

impl Connection {
    /// Sends what an ACK asked for (`tcp_xmit_recovery`).
    pub(in super::super) fn xmit_recovery(&mut self, rexmit: Rexmit, cx: &mut Cx<'_>) {
        if self.state == State::SynSent {
            // Fast Open handles the data of a SYN.
            return;
        }
        match rexmit {
            Rexmit::None => return,
            Rexmit::New => {
                self.push_pending_frames(Nonagle::OFF, cx);
                if self.snd.nxt.after(self.rec.high_seq) {
                    return;
                }
                self.rec.frto = false;
            }
            Rexmit::Lost => {}
        }
        match self.window.ca_state {
            CaState::Loss => self.xmit_retransmit_queue(Cause::Timeout, cx),
            _ if self.uses_rack() => self.xmit_retransmit_queue(Cause::Rack, cx),
            CaState::Open | CaState::Disorder | CaState::Cwr | CaState::Recovery => {
                self.xmit_retransmit_queue(Cause::DupAcks, cx);
                self.xmit_forward(cx);
            }
        }
    }

    /// Retransmits lost segments while the window has room (`tcp_xmit_retransmit_queue`).
    pub(in super::super) fn xmit_retransmit_queue(&mut self, cause: Cause, cx: &mut Cx<'_>) {
        let Some(head) = self.queue.rtx_head() else { return };
        let head_seq = self.queue.get(head).seq;
        let hint = self.rec.retransmit_hint.unwrap_or(head_seq);
        let max_segs = self.tso_segs(self.current_mss(cx.now));
        let mut index = self.queue.rtx_index_ending_after(hint);
        let mut hole = None;
        let mut rearm = false;
        while let Some(id) = self.queue.rtx_at(index) {
            if self.pacing_blocks(cx.now) {
                break;
            }
            let skb = *self.queue.get(id);
            if hole.is_none() {
                self.rec.retransmit_hint = Some(skb.seq);
            }
            let room = self.window.snd_cwnd.saturating_sub(self.packets_in_flight());
            if room == 0 || self.rec.retrans_out >= self.rec.lost_out {
                break;
            }
            index += 1;
            if !skb.has(tag::LOST) {
                if !skb.has(tag::RETRANS | tag::SACKED) && hole.is_none() {
                    hole = Some(skb.seq);
                }
                continue;
            }
            if skb.has(tag::SACKED | tag::RETRANS) {
                continue;
            }
            if self.small_queue_blocks(id, 1) {
                break;
            }
            if self.retransmit_skb(id, room.min(max_segs), cause, cx) != Resent::Sent {
                break;
            }
            let sent = u32::from(self.queue.get(id).pcount);
            if self.window.ca_state == CaState::Loss {
                cx.mib.slow_start_retrans += u64::from(sent);
            } else {
                cx.mib.fast_retrans += u64::from(sent);
            }
            if self.window.in_cwnd_reduction() {
                self.rec.prr_out += sent;
            }
            if id == head && self.pending != Pending::Reorder {
                rearm = true;
            }
        }
        if rearm {
            self.reset_paced_timer(Pending::Retransmit, self.rto, cx.now);
        }
    }

    /// Retransmits up to `segs` segments of `id` and updates the counters (`tcp_retransmit_skb`).
    pub(in super::super) fn retransmit_skb(
        &mut self,
        id: SkbId,
        segs: u32,
        cause: Cause,
        cx: &mut Cx<'_>,
    ) -> Resent {
        let sent = self.send_again(id, segs, cause, cx);
        let skb = *self.queue.get(id);
        if sent == Resent::Sent {
            let by_time = self.config.profile.lost_retransmit == LostRetransmit::Rack;
            let skb = self.queue.get_mut(id);
            skb.sacked |= tag::RETRANS;
            if !by_time {
                skb.set_snd_nxt_at_retransmit(self.snd.nxt);
            }
            self.rec.retrans_out += u32::from(skb.pcount);
        }
        let stamp = self.stamp(Instant::from_nanos(skb.sent_ns));
        self.rec.retrans_stamp = self.rec.retrans_stamp.or(stamp);
        self.rec.undo_retrans = self.rec.undo_retrans.max(0) + i32::from(skb.pcount);
        sent
    }

    /// Sends `id`, or its first `segs` segments, once more (`__tcp_retransmit_skb`).
    pub(in super::super) fn send_again(
        &mut self,
        id: SkbId,
        segs: u32,
        cause: Cause,
        cx: &mut Cx<'_>,
    ) -> Resent {
        if self.skb_still_in_host_queue(id) {
            return Resent::Waits;
        }
        self.cancel_mtu_probe();
        self.trim_acked(id);
        let mss = self.current_mss(cx.now);
        let skb = *self.queue.get(id);
        let mut room = self.wnd_end() - skb.seq;
        if room <= 0 && !skb.flags.contains(crate::packet::TcpFlags::SYN) {
            // Out of the peer's window; only the head goes, as a window probe.
            if skb.seq != self.snd.una {
                return Resent::Waits;
            }
            room = mss as i32;
        }
        let mut len = mss * segs;
        if len > room as u32 && room > 0 {
            len = room as u32 / mss * mss;
            if len == 0 {
                len = room as u32;
            }
        }
        if skb.len() > len {
            if self.is_too_much_to_split(id) {
                return Resent::Waits;
            }
            self.fragment_into(id, len, mss);
        } else if skb.pcount > 0 {
            let before = u32::from(skb.pcount);
            let skb = self.queue.get_mut(id);
            skb.set_segments(mss);
            let after = u32::from(skb.pcount);
            self.adjust_pcount(id, before, after);
            let space = mss.min(room as u32);
            if self.queue.get(id).len() < space {
                self.collapse_retransmission(id, space);
            }
        }
        let skb = *self.queue.get(id);
        let segs = u32::from(skb.pcount.max(1));
        cx.mib.retrans_segs += u64::from(segs);
        if skb.flags.contains(crate::packet::TcpFlags::SYN) {
            cx.mib.syn_retrans += 1;
        }
        self.totals.total_retrans = self.totals.total_retrans.wrapping_add(segs);
        self.totals.bytes_retrans += u64::from(skb.len());
        cx.event(self.id, EventKind::Retransmit { seq: skb.seq, end_seq: skb.end_seq, cause });
        let verdict = self.transmit_again(id, cx);
        let skb = self.queue.get_mut(id);
        skb.sacked |= tag::EVER_RETRANS;
        if verdict == Enqueue::Dropped {
            cx.mib.retrans_fail += 1;
            return Resent::Dropped;
        }
        self.queue.resent(id);
        Resent::Sent
    }

    /// Removes the acknowledged front of a record (`tcp_trim_head`).
    fn trim_acked(&mut self, id: SkbId) {
        let una = self.snd.una;
        let skb = self.queue.get_mut(id);
        if !skb.seq.before(una) || !una.before(skb.end_seq) {
            return;
        }
        let acked = una.bytes_since(skb.seq);
        skb.seq = una;
        skb.truesize = skb.truesize.saturating_sub(acked);
        self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(acked);
    }

    /// The head was retransmitted with another segment count (`tcp_adjust_pcount`).
    pub(super) fn adjust_pcount(&mut self, id: SkbId, before: u32, after: u32) {
        if before == after {
            return;
        }
        let sacked = self.queue.get(id).sacked;
        let moved = |count: &mut u32| *count = *count + after - before;
        moved(&mut self.rec.packets_out);
        if sacked & tag::SACKED != 0 {
            moved(&mut self.rec.sacked_out);
        }
        if sacked & tag::RETRANS != 0 {
            moved(&mut self.rec.retrans_out);
        }
        if sacked & tag::LOST != 0 {
            moved(&mut self.rec.lost_out);
        }
        if !self.is_sack() {
            // Duplicate ACKs are counted in segments, of which there are fewer now.
            self.rec.sacked_out = self.rec.sacked_out.saturating_sub(before.saturating_sub(after));
        }
    }

    /// A record in flight must not be split, because that takes memory, if half of the queue is more than the send buffer
    /// and two full records. The first and the last record may be split anyway (`tcp_fragment`).
    pub(super) fn is_too_much_to_split(&self, id: SkbId) -> bool {
        let profile = &self.config.profile;
        let record = GSO_MAX_SIZE + profile.sk_buff_len + profile.shared_info_len;
        u64::from(self.snd.wmem_queued >> 1) > u64::from(self.snd.sndbuf) + 2 * u64::from(record)
            && profile.splitting_bounded_by_sndbuf
            && self.queue.rtx_head() != Some(id)
            && self.queue.rtx_tail() != Some(id)
    }

    /// Splits `id` after `len` bytes and keeps every count right (`tcp_fragment`). Returns the
    /// second half.
    pub(in super::super) fn fragment(&mut self, id: SkbId, len: u32) -> SkbId {
        let mss = match self.queue.get(id).gso_size {
            0 => self.snd.mss,
            size => size.into(),
        };
        self.fragment_into(id, len, mss)
    }

    /// The same, with segments of `mss` bytes in both halves.
    pub(super) fn fragment_into(&mut self, id: SkbId, len: u32, mss: u32) -> SkbId {
        let before = u32::from(self.queue.get(id).pcount);
        let overhead = self.config.profile.skb_overhead;
        let new = self.queue.split(id, len, overhead, mss);
        self.snd.wmem_queued += overhead;
        let first = u32::from(self.queue.get(id).pcount);
        let second = u32::from(self.queue.get(new).pcount);
        if !self.queue.get(id).seq.before(self.snd.nxt) || first + second == before {
            return new;
        }
        self.adjust_pcount(id, before, first + second);
        new
    }
}
