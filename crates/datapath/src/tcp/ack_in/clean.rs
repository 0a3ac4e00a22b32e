//! What is acknowledged leaves the send queue (`tcp_clean_rtx_queue`), and tells about RTT and
//! order as it goes.

use crate::packet::TcpFlags;
use crate::packet::seq::Seq;
use crate::tcp::ack_event::{AckEvent, AckFlags};
use crate::tcp::cc::{AckSample, CongestionControl};
use crate::tcp::recovery::SeenBy;
use crate::tcp::segment::Segment;
use crate::tcp::skb::{Skb, SkbId, tag};
use crate::tcp::{Connection, Cx};
use crate::units::Instant;

/// RTT evidence gathered while the queue is cleaned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cleaned {
    /// Send time of the first and last wholly acknowledged, never retransmitted segment, µs.
    pub first_us: Option<u64>,
    pub last_us: u64,
    /// Segments acknowledged.
    pub packets: u32,
    /// Lowest acknowledged sequence number that was neither SACKed nor retransmitted.
    pub reord: Option<Seq>,
}

impl Connection {
    /// Removes what is acknowledged, takes RTT samples, notices reordering
    /// (`tcp_clean_rtx_queue`).
    pub(super) fn clean_rtx_queue(
        &mut self,
        seg: &Segment<'_>,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) {
        let mut cleaned = Cleaned::default();
        let prior_sacked = self.rec.sacked_out;
        let fully_acked = self.remove_acked(&mut cleaned, event, cx);
        if self.queue.rtx_head().is_none() {
            self.chrono_idle(cx.now);
        }
        // A receiver may discard what it has SACKed (RFC 2018 section 8): then the ACK stops right
        // before it.
        if let Some(head) = self.queue.rtx_head()
            && self.queue.get(head).has(tag::SACKED)
        {
            event.flags.sack_reneging = true;
        }
        let (rtt_us, ca_rtt_us) = self.ack_rtt(seg, &cleaned, event, cx);
        event.sample.rtt_us = ca_rtt_us;
        // A lone small segment may have met a delayed ACK (`FLAG_ACK_MAYBE_DELAYED`).
        let original = cleaned.first_us.is_some() && !event.flags.retrans_data_acked;
        let lone_runt = cleaned.packets == 1
            && fully_acked
            && original
            && !event.flags.syn_acked
            && !event.flags.ece
            && !event.flags.dsacking
            && prior_sacked == 0
            && self.snd.una.bytes_since(event.prior_snd_una) < self.snd.mss
            && event.sample.prior_delivered.wrapping_add(1) == self.rate.delivered;
        event.sample.is_ack_delayed = lone_runt;
        let rtt_updated = self.ack_update_rtt(rtt_us, ca_rtt_us, lone_runt, cx.now);
        if event.flags.acked() {
            event.flags.set_xmit_timer = true;
            if self.rare.is_some() {
                self.mtu_probe_acked(cx);
            }
            self.after_cumulative_ack(&cleaned, event, cx);
        } else if rtt_updated
            && let Some((first_sack_us, _)) = event.sacked.sent_us
            && let Some(head) = self.queue.rtx_head()
        {
            // Do not let SACKs of data sent before the head was (re)sent extend the timeout.
            let sack_rtt_us = cx.now_us().saturating_sub(first_sack_us);
            if sack_rtt_us > cx.now_us().saturating_sub(self.queue.get(head).sent_us()) {
                event.flags.set_xmit_timer = true;
            }
        }
        if self.rec.packets_out == 0 && self.is_sack() {
            self.forget_leaks();
        }
        let ack = event.view.insert(self.ack_view(cx.now));
        let ack_sample = AckSample {
            pkts_acked: cleaned.packets,
            rtt_us: ca_rtt_us,
            in_flight: self.rate.delivered.wrapping_sub(event.sample.prior_delivered),
        };
        self.cc.pkts_acked(&mut self.window, ack, &ack_sample);
    }

    /// Nothing is in flight: what was counted twice counts no more (`FASTRETRANS_DEBUG`).
    fn forget_leaks(&mut self) {
        self.rec.lost_out = 0;
        self.rec.sacked_out = 0;
        self.rec.retrans_out = 0;
    }

    /// Takes records off the head of the queue as far as they are acknowledged. False: of the last one only
    /// a part was.
    fn remove_acked(
        &mut self,
        cleaned: &mut Cleaned,
        event: &mut AckEvent,
        cx: &mut Cx<'_>,
    ) -> bool {
        let mut fully_acked = true;
        while let Some(id) = self.queue.rtx_head() {
            let skb = *self.queue.get(id);
            let pcount = if skb.end_seq.after(self.snd.una) {
                let trimmed = self.trim_head(id);
                if trimmed == 0 {
                    break;
                }
                fully_acked = false;
                trimmed
            } else {
                u32::from(skb.pcount)
            };
            self.note_acked(&skb, pcount, cleaned, &mut event.flags);
            self.count_acked(&skb, pcount, event, cx);
            if !fully_acked {
                break;
            }
            let popped = self.queue.pop_rtx_head();
            self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(popped.truesize);
        }
        fully_acked
    }

    /// The head `id` is acknowledged in part: whole segments of a super-packet leave it
    /// (`tcp_tso_acked`). Returns how many.
    fn trim_head(&mut self, id: SkbId) -> u32 {
        let una = self.snd.una;
        let head = self.queue.get_mut(id);
        if !una.after(head.seq) || head.pcount <= 1 {
            return 0;
        }
        let before = u32::from(head.pcount);
        let acked = una.bytes_since(head.seq);
        head.seq = una;
        head.truesize = head.truesize.saturating_sub(acked);
        head.set_segments(u32::from(head.gso_size));
        let gone = before - u32::from(head.pcount);
        self.snd.wmem_queued = self.snd.wmem_queued.saturating_sub(acked);
        gone
    }

    /// What a wholly acknowledged record tells about RTT and order.
    fn note_acked(&mut self, skb: &Skb, pcount: u32, cleaned: &mut Cleaned, flags: &mut AckFlags) {
        cleaned.packets += pcount;
        if skb.has(tag::EVER_RETRANS) {
            if skb.has(tag::RETRANS) {
                self.rec.retrans_out -= pcount;
            }
            flags.retrans_data_acked = true;
        } else if !skb.has(tag::SACKED) {
            cleaned.last_us = skb.sent_us();
            cleaned.first_us.get_or_insert(cleaned.last_us);
            if cleaned.reord.is_none_or(|reord| skb.seq.before(reord)) {
                cleaned.reord = Some(skb.seq);
            }
            if !skb.end_seq.after(self.rec.high_seq) {
                flags.orig_sack_acked = true;
            }
        }
    }

    /// Takes `pcount` acknowledged segments of a record out of the counts.
    fn count_acked(&mut self, skb: &Skb, pcount: u32, event: &mut AckEvent, cx: &mut Cx<'_>) {
        if skb.has(tag::SACKED) {
            self.rec.sacked_out -= pcount;
        } else if self.is_sack() {
            self.count_delivered(pcount, event.flags.ece, cx);
            if !skb.flags.contains(TcpFlags::SYN) && !self.is_spurious_retransmit(skb) {
                let min_rtt_us = self.rtt.min.get_us();
                let sent_us = skb.sent_us();
                self.rec.rack.advance(skb.sacked, skb.end_seq, sent_us, cx.now_us(), min_rtt_us);
            }
        }
        if skb.has(tag::LOST) {
            self.rec.lost_out -= pcount;
        }
        self.rec.packets_out -= pcount;
        let mut gone = *skb;
        self.rate.skb_delivered(&mut gone, &mut event.sample);
        if skb.flags.contains(TcpFlags::SYN) {
            event.flags.syn_acked = true;
            self.rec.retrans_stamp = None;
        } else {
            event.flags.data_acked = true;
        }
    }

    /// The ACK echoes a timestamp from before the latest retransmission of `skb`: that was needless
    /// (`tcp_skb_spurious_retrans`).
    fn is_spurious_retransmit(&self, skb: &Skb) -> bool {
        let sent = self.ts_now(Instant::from_nanos(skb.sent_ns));
        skb.has(tag::RETRANS | tag::EVER_RETRANS) && self.echoes_before(sent)
    }

    /// Reordering and duplicate-ACK books after a cumulative advance.
    fn after_cumulative_ack(&mut self, cleaned: &Cleaned, event: &mut AckEvent, cx: &mut Cx<'_>) {
        if !self.is_sack() {
            self.remove_reno_sacks(cleaned.packets, event.flags.ece, cx);
            // Without SACK nothing tells whether the original or the retransmission arrived.
            if event.flags.retrans_data_acked {
                event.flags.orig_sack_acked = false;
            }
        } else if let Some(reord) = cleaned.reord
            && reord.before(event.prior_highest)
        {
            // A hole that was never retransmitted got filled.
            self.check_sack_reordering(reord, SeenBy::Sack, cx);
        }
    }
}
