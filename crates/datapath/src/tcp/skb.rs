//! A record of the send queue (`struct sk_buff`), and the tags of the scoreboard. How records are
//! kept: `queue`.

mod queue;

pub use queue::SendQueue;

use crate::packet::TcpFlags;
use crate::packet::seq::Seq;

/// Index of a record in the slab.
pub type SkbId = u32;

/// No record.
pub const NONE: SkbId = u32::MAX;

/// Scoreboard tags of a sent record (`TCP_SKB_CB(skb)->sacked`).
pub mod tag {
    /// Selectively acknowledged (`TCPCB_SACKED_ACKED`).
    pub const SACKED: u8 = 1;
    /// A retransmission of it is in the network (`TCPCB_SACKED_RETRANS`).
    pub const RETRANS: u8 = 2;
    /// Presumed lost (`TCPCB_LOST`).
    pub const LOST: u8 = 4;
    /// Was retransmitted at least once (`TCPCB_EVER_RETRANS`).
    pub const EVER_RETRANS: u8 = 8;
}

/// Whose pages a record's bytes lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Pages {
    /// The kernel's: nothing of it was written with `MSG_ZEROCOPY`.
    #[default]
    Kernel,
    /// All the application's (`SKBFL_PURE_ZEROCOPY`).
    Application,
    /// Some of either.
    Mixed,
}

/// A run of bytes (or SYN, FIN) in the send queue (`struct sk_buff` with its `tcp_skb_cb`).
///
/// One cache line: between its transmission and its acknowledgment a record is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Skb {
    /// First sequence number.
    pub seq: Seq,
    /// Just past the last one.
    pub end_seq: Seq,
    /// Time of the latest transmission in ns (`skb_mstamp_ns`).
    pub sent_ns: u64,
    /// The lower half of [`first_sent_us`](Self::first_sent_us).
    first_sent_low_us: u32,
    /// The lower half of [`delivered_us`](Self::delivered_us).
    delivered_low_us: u32,
    /// `tx.delivered`: packets delivered when it was sent.
    pub delivered: u32,
    /// `tx.delivered_ce`.
    pub delivered_ce: u32,
    /// See [`flight`](Self::flight); with the lost-retransmission rules of 2007
    /// [`snd_nxt_at_retransmit`](Self::snd_nxt_at_retransmit) instead.
    note: u32,
    /// Bytes of memory charged.
    pub truesize: u32,
    /// Memory handed to the device in all, just after the latest copy of this was.
    pub handed_down: u32,
    /// Neighbours in the list by transmission time.
    sent_prev: SkbId,
    sent_next: SkbId,
    /// `gso_segs`: packets on the wire.
    pub pcount: u16,
    /// `gso_size`: payload bytes of each.
    pub gso_size: u16,
    /// Flags to send.
    pub flags: TcpFlags,
    /// Scoreboard tags, see [`tag`].
    pub sacked: u8,
    /// The application was the limit when it was sent.
    pub app_limited: bool,
    /// End of record: nothing may be appended (`MSG_EOR`).
    pub eor: bool,
    /// It was sent, and has not been counted as delivered since (`tx.delivered_mstamp` is set).
    pub undelivered: bool,
    /// It is in the list by transmission time.
    listed: bool,
    /// Whose its memory is.
    pub pages: Pages,
}

impl Skb {
    /// A record that was never sent.
    pub fn new(seq: Seq, end_seq: Seq, flags: TcpFlags, truesize: u32) -> Self {
        Self {
            seq,
            end_seq,
            sent_ns: 0,
            first_sent_low_us: 0,
            delivered_low_us: 0,
            delivered: 0,
            delivered_ce: 0,
            note: 0,
            truesize,
            handed_down: 0,
            sent_prev: NONE,
            sent_next: NONE,
            pcount: 0,
            gso_size: 0,
            flags,
            sacked: 0,
            app_limited: false,
            eor: false,
            undelivered: false,
            listed: false,
            pages: Pages::Kernel,
        }
    }

    /// Payload bytes: SYN and FIN take sequence space but no bytes (`skb->len`).
    pub fn len(&self) -> u32 {
        let control = u32::from(self.flags.intersects(TcpFlags::SYN))
            + u32::from(self.flags.intersects(TcpFlags::FIN));
        self.end_seq.bytes_since(self.seq) - control
    }

    /// No payload: a bare SYN or FIN, or a record that is still being filled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if any of `tags` is set.
    pub fn has(&self, tags: u8) -> bool {
        self.sacked & tags != 0
    }

    /// It has memory of the application's, which is not moved to another record (`skb_zcopy`, `skb_shift`).
    pub fn is_pinned(&self) -> bool {
        self.pages != Pages::Kernel
    }

    /// Time of the latest transmission in µs (`tcp_skb_timestamp_us`).
    pub fn sent_us(&self) -> u64 {
        self.sent_ns / 1_000
    }

    /// Notes when the flight began that it is being sent in, and when the latest delivery was, in µs.
    pub fn set_rate_times(&mut self, first_sent_us: u64, delivered_us: u64) {
        self.first_sent_low_us = first_sent_us as u32;
        self.delivered_low_us = delivered_us as u32;
    }

    /// `tx.first_tx_mstamp`: start of the flight that it was sent in, µs. At most 71 minutes before
    /// it was sent, as the kernel's differences (`tcp_stamp_us_delta`).
    pub fn first_sent_us(&self) -> u64 {
        self.before_sent_us(self.first_sent_low_us)
    }

    /// `tx.delivered_mstamp`: time of the latest delivery when it was sent, µs. At most 71 minutes
    /// before it was sent.
    pub fn delivered_us(&self) -> u64 {
        self.before_sent_us(self.delivered_low_us)
    }

    /// The latest time up to its transmission with this lower half.
    #[inline]
    fn before_sent_us(&self, low_us: u32) -> u64 {
        let sent_us = self.sent_us();
        sent_us.saturating_sub((sent_us as u32).wrapping_sub(low_us).into())
    }

    /// Notes how many packets were in flight just after it was sent and how many were marked
    /// lost until then: 16 bits each, since a record is one cache line.
    pub fn set_flight(&mut self, in_flight: u32, lost: u32) {
        self.note = in_flight.min(u16::MAX.into()) << 16 | lost & 0xffff;
    }

    /// Packets in flight just after it was sent, 65,535 at most; and the lower half of what was lost
    /// until then.
    pub fn flight(&self) -> (u32, u16) {
        (self.note >> 16, self.note as u16)
    }

    /// Of the legacy lost-retransmission rule: `snd_nxt` when it was retransmitted (`ack_seq`).
    pub fn snd_nxt_at_retransmit(&self) -> Seq {
        Seq(self.note)
    }

    /// See [`snd_nxt_at_retransmit`](Self::snd_nxt_at_retransmit).
    pub fn set_snd_nxt_at_retransmit(&mut self, snd_nxt: Seq) {
        self.note = snd_nxt.0;
    }

    /// Recomputes `pcount` and `gso_size` for segments of `mss` (`tcp_set_skb_tso_segs`).
    pub fn set_segments(&mut self, mss: u32) {
        let len = self.len();
        if len <= mss {
            self.pcount = 1;
            self.gso_size = 0;
        } else {
            self.pcount = len.div_ceil(mss) as u16;
            self.gso_size = mss as u16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_cache_line() {
        assert_eq!(size_of::<Skb>(), 64);
    }

    #[test]
    fn half_a_time_tells_the_whole() {
        let mut skb = Skb::new(Seq(1), Seq(2), TcpFlags::ACK, 768);
        for (sent_us, delta_us) in [(7_u64, 0), (7, 7), (1 << 32, 1), (9 << 40, (1 << 32) - 1)] {
            skb.sent_ns = sent_us * 1_000 + 999;
            skb.set_rate_times(sent_us - delta_us, sent_us);
            assert_eq!((skb.first_sent_us(), skb.delivered_us()), (sent_us - delta_us, sent_us));
        }
    }
}
