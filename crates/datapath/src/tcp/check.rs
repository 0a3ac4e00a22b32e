//! TCP's books, recomputed from the queues (`tcp_verify_left_out` and much more): counts, order,
//! timers. Under debug assertions a host does so whenever a call has come back from a connection.

use super::Connection;
use super::skb::{Skb, tag};
use super::state::State;
use super::timer::Timer;
use crate::packet::seq::Seq;
use crate::profile::LossDetection;

/// A queue of more records is looked at only now and then.
const ALWAYS: usize = 48;
/// How often: every so many arriving segments.
const SELDOM: u32 = 64;

/// What the records in flight add up to, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(clippy::struct_field_names, reason = "the kernel's names of these counters")]
struct Sums {
    packets_out: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
}

impl Connection {
    /// Asserts that every count and limit agrees with the queues. Nothing without debug assertions.
    #[inline]
    pub fn check(&self) {
        if cfg!(debug_assertions) {
            if self.state.is_synchronized() {
                self.check_all();
            }
            let opening = matches!(self.state, State::SynSent | State::SynRecv);
            assert!(!opening || self.timers.is_set(Timer::Transmit), "half-open without a timer");
        }
    }

    #[cold]
    fn check_all(&self) {
        assert!(!self.snd.una.after(self.snd.nxt), "snd_una is beyond snd_nxt");
        assert!(!self.snd.nxt.after(self.snd.write_seq), "snd_nxt is beyond write_seq");
        let few = self.queue.rtx_len() <= ALWAYS;
        if few || self.totals.segs_in.is_multiple_of(SELDOM) {
            self.check_counts();
            self.check_order();
            self.check_received();
            self.check_memory();
            self.check_bytes();
        }
        self.check_timers();
    }

    /// `packets_out`, `sacked_out`, `lost_out`, `retrans_out`.
    fn check_counts(&self) {
        let sums = self.in_flight().fold(Sums::default(), |sums, skb| {
            let counted = |tag| if skb.has(tag) { u32::from(skb.pcount) } else { 0 };
            Sums {
                packets_out: sums.packets_out + u32::from(skb.pcount),
                sacked_out: sums.sacked_out + counted(tag::SACKED),
                lost_out: sums.lost_out + counted(tag::LOST),
                retrans_out: sums.retrans_out + counted(tag::RETRANS),
            }
        });
        let rec = &self.rec;
        assert_eq!(rec.packets_out, sums.packets_out, "packets_out");
        assert_eq!(rec.lost_out, sums.lost_out, "lost_out");
        if self.is_sack() {
            assert_eq!(rec.sacked_out, sums.sacked_out, "sacked_out");
        }
        assert!(self.left_out() <= rec.packets_out, "sacked_out + lost_out > packets_out");
        // Linux since 4.19 counts a retransmission twice whose loss was undone before a timeout
        // (docs/LINUX.md).
        let leaks = self.config.profile.loss_detection == LossDetection::Rack;
        let exact = rec.retrans_out == sums.retrans_out;
        assert!(exact || leaks && rec.retrans_out > sums.retrans_out, "retrans_out");
    }

    fn in_flight(&self) -> impl Iterator<Item = &Skb> {
        let ids = (0..self.queue.rtx_len()).filter_map(|index| self.queue.rtx_at(index));
        ids.map(|id| self.queue.get(id))
    }

    fn unsent(&self) -> impl Iterator<Item = &Skb> {
        let ids = (0..).map_while(|index| self.queue.unsent_at(index));
        ids.map(|id| self.queue.get(id))
    }

    /// Records follow each other without a gap, from `snd_una` over `snd_nxt` to `write_seq`.
    fn check_order(&self) {
        let mut next = None;
        for skb in self.in_flight() {
            assert!(skb.end_seq.after(self.snd.una), "an acknowledged record is in flight");
            assert!(skb.pcount > 0, "a record of no segments is in flight");
            next = Some(follows(next, skb.seq, skb.end_seq));
        }
        assert!(next.is_none_or(|end| end == self.snd.nxt), "the flight ends before snd_nxt");
        let mut next = Some(self.snd.nxt);
        for skb in self.unsent() {
            next = Some(follows(next, skb.seq, skb.end_seq));
        }
        assert_eq!(next, Some(self.snd.write_seq), "the queue ends before write_seq");
    }

    /// What waits to be read has no hole and ends at `rcv_nxt`; what lies beyond a hole is in order.
    /// Records may overlap in both, as the kernel's do.
    fn check_received(&self) {
        let mut next: Option<Seq> = None;
        for record in self.rcv.queue.records() {
            assert!(next.is_none_or(|end| !record.seq.after(end)), "a hole in what was received");
            assert!(next.is_none_or(|end| record.end_seq.after(end)), "received twice");
            next = Some(record.end_seq);
        }
        assert!(next.is_none_or(|end| end == self.rcv.nxt), "what was received ends elsewhere");
        let mut last = self.rcv.nxt;
        for record in self.rcv.out_of_order.records() {
            assert!(record.seq.after(self.rcv.nxt), "no hole before what lies beyond one");
            assert!(!record.seq.before(last), "out of order");
            last = record.seq;
        }
    }

    /// Memory is charged for what lies in the queues, and for nothing else (`sk_wmem_queued`,
    /// `sk_rmem_alloc`).
    fn check_memory(&self) {
        let sent: u32 = self.in_flight().chain(self.unsent()).map(|skb| skb.truesize).sum();
        assert_eq!(self.snd.wmem_queued, sent, "sk_wmem_queued");
        let received = self.rcv.queue.records().chain(self.rcv.out_of_order.records());
        let received: u32 = received.map(|record| record.truesize).sum();
        assert_eq!(self.rcv.rmem_alloc, received, "sk_rmem_alloc");
    }

    /// Something will happen one day, whatever comes: what is in flight is retransmitted, what
    /// waits is sent or the window probed (`tcp_check_probe_timer`), what is owed is acknowledged.
    fn check_timers(&self) {
        let transmit = self.timers.is_set(Timer::Transmit);
        if self.state.may_transmit() {
            assert!(self.rec.packets_out == 0 || transmit, "in flight without a timer");
            let stopped = self.timers.is_set(Timer::Pacing) || self.snd.throttled;
            let nothing = self.snd.nxt == self.snd.write_seq;
            assert!(nothing || transmit || stopped, "something waits without a timer");
        }
        let waits = self.snd.wmem_alloc > 0 || self.snd.goes_on_later;
        assert!(!self.snd.throttled || waits, "throttled by nothing");
        let alive = self.config.keepalive && self.state.may_transmit() && !self.orphan;
        let asked = self.timers.is_set(Timer::Keepalive);
        // Where SYNs have crossed nobody starts it.
        assert!(!alive || asked || self.crosses(), "kept alive without a timer");
        let delayed = self.timers.is_set(Timer::DelayedAck);
        assert!(!self.ack.timer || delayed, "an ACK is put off without a timer");
        let compressed = self.timers.is_set(Timer::CompressedAck);
        assert!(self.ack.compressed == 0 || compressed, "SACKs are held back without a timer");
    }
}

/// Asserts that a record begins where the one before has ended; gives its end.
fn follows(before: Option<Seq>, seq: Seq, end_seq: Seq) -> Seq {
    assert!(before.is_none_or(|end| end == seq), "a gap between two records");
    assert!(!end_seq.before(seq), "a record ends before it begins");
    end_seq
}
