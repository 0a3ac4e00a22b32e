//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, `tcp_rate.c`).

use super::skb::{Skb, tag};
use crate::packet::seq::Seq;

/// The connection's side of rate sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RateState {
    /// Packets delivered, retransmissions included (`delivered`).
    pub delivered: u32,
    /// Of those, with CE (`delivered_ce`).
    pub delivered_ce: u32,
    /// When `delivered` last grew, µs (`delivered_mstamp`).
    pub delivered_us: u64,
    /// Start of the current send window, µs (`first_tx_mstamp`).
    pub first_tx_us: u64,
    /// The latest valid sample: packets, and over how many µs.
    pub rate_delivered: u32,
    /// See `rate_delivered`.
    pub rate_interval_us: u32,
    /// That sample was application-limited.
    pub rate_app_limited: bool,
}

/// What is in the network when a record is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Packets in flight before it; `None` where nothing is unacknowledged.
    pub before: Option<u32>,
    /// Packets marked lost in all.
    pub lost: u32,
}

/// One ACK's sample (`struct rate_sample`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RateSample {
    /// `tx.delivered_mstamp` of the latest sent packet that this ACK delivered.
    pub prior_us: Option<u64>,
    /// `tx.delivered` of it.
    pub prior_delivered: u32,
    /// `tx.delivered_ce` of it.
    pub prior_delivered_ce: u32,
    /// Packets in flight just after that packet was sent (up to 65,535).
    pub tx_in_flight: u32,
    /// The lower half of what was marked lost in all when it was sent.
    pub prior_lost: u16,
    /// Packets marked lost since it was sent.
    pub lost: u32,
    /// Packets delivered over the interval; `None`: the ACK gives no valid sample.
    pub delivered: Option<u32>,
    /// Of those, with CE.
    pub delivered_ce: u32,
    /// Length of the interval, µs: the longer of the next two.
    pub interval_us: u64,
    /// From the first to the last of its packets sent, µs (`snd_interval_us`).
    pub send_interval_us: u64,
    /// From the first to the last of its packets delivered, µs (`rcv_interval_us`).
    pub ack_interval_us: u64,
    /// RTT of this ACK, µs.
    pub rtt_us: Option<u32>,
    /// Packets newly marked lost with this ACK.
    pub losses: u32,
    /// Packets newly acknowledged or SACKed.
    pub acked_sacked: u32,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// Just past the latest sent packet delivered.
    pub last_end_seq: Seq,
    /// The sample is application-limited.
    pub is_app_limited: bool,
    /// It was taken from a retransmission.
    pub is_retrans: bool,
    /// The receiver may have held this ACK back (`FLAG_ACK_MAYBE_DELAYED`).
    pub is_ack_delayed: bool,
    /// Packets were delivered, but in less time than any round trip takes: that is no rate.
    pub is_too_short: bool,
}

impl RateSample {
    /// The ACK tells of something that was delivered, be it a valid sample or not (`rs->delivered > 0`).
    pub fn has_delivered(&self) -> bool {
        self.is_too_short || self.delivered.is_some_and(|delivered| delivered > 0)
    }
}

impl RateState {
    /// Notes in `skb` what was known when it was sent (`tcp_rate_skb_sent`).
    pub fn skb_sent(&mut self, skb: &mut Skb, now_us: u64, flight: Flight, app_limited: bool) {
        let Flight { before, lost } = flight;
        let nothing_in_flight = before.is_none();
        let in_flight = before.unwrap_or(0) + u32::from(skb.pcount);
        skb.set_flight(in_flight, lost);
        if nothing_in_flight {
            // Nothing was being delivered: the send window starts now.
            self.first_tx_us = now_us;
            self.delivered_us = now_us;
        }
        skb.set_rate_times(self.first_tx_us, self.delivered_us);
        skb.undelivered = true;
        skb.delivered = self.delivered;
        skb.delivered_ce = self.delivered_ce;
        skb.app_limited = app_limited;
    }

    /// `skb` was delivered: keeps the sample of the latest sent one (`tcp_rate_skb_delivered`).
    pub fn skb_delivered(&mut self, skb: &mut Skb, sample: &mut RateSample) {
        if !skb.undelivered {
            return;
        }
        let sent_us = skb.sent_us();
        let later = sent_us > self.first_tx_us
            || (sent_us == self.first_tx_us && skb.end_seq.after(sample.last_end_seq));
        if sample.prior_delivered == 0 || later {
            sample.prior_delivered = skb.delivered;
            sample.prior_delivered_ce = skb.delivered_ce;
            sample.prior_us = Some(skb.delivered_us());
            sample.is_app_limited = skb.app_limited;
            (sample.tx_in_flight, sample.prior_lost) = skb.flight();
            sample.is_retrans = skb.has(tag::RETRANS | tag::EVER_RETRANS);
            sample.last_end_seq = skb.end_seq;
            self.first_tx_us = sent_us;
            sample.send_interval_us = sent_us.saturating_sub(skb.first_sent_us());
        }
        if skb.has(tag::SACKED) {
            // Delivered once: the cumulative ACK to come must not count it again.
            skb.undelivered = false;
        }
    }

    /// Finishes the sample of one ACK, of which `acked_sacked` and `losses` are known
    /// (`tcp_rate_gen`).
    pub fn generate(
        &mut self,
        sample: &mut RateSample,
        app_limited: &mut Option<u32>,
        reneging: bool,
        lost: u32,
        now_us: u64,
        min_rtt_us: u32,
    ) {
        // The bubble is gone when more is delivered than was in flight when it came about.
        if app_limited.is_some_and(|end| (self.delivered.wrapping_sub(end) as i32) > 0) {
            *app_limited = None;
        }
        if sample.acked_sacked > 0 {
            self.delivered_us = now_us;
        }
        let (Some(prior_us), false) = (sample.prior_us, reneging) else {
            sample.delivered = None;
            sample.interval_us = 0;
            return;
        };
        let over = self.delivered.wrapping_sub(sample.prior_delivered);
        sample.lost = u32::from((lost as u16).wrapping_sub(sample.prior_lost));
        sample.delivered_ce = self.delivered_ce.wrapping_sub(sample.prior_delivered_ce);
        sample.ack_interval_us = now_us.saturating_sub(prior_us);
        sample.interval_us = sample.send_interval_us.max(sample.ack_interval_us);
        if sample.interval_us < u64::from(min_rtt_us) {
            // ACK compression: the rate would be an overestimate.
            sample.delivered = None;
            sample.is_too_short = over > 0;
            return;
        }
        sample.delivered = Some(over);
        let better = u64::from(over) * u64::from(self.rate_interval_us)
            >= u64::from(self.rate_delivered) * sample.interval_us;
        if !sample.is_app_limited || better {
            self.rate_delivered = over;
            self.rate_interval_us = sample.interval_us as u32;
            self.rate_app_limited = sample.is_app_limited;
        }
    }

    /// The latest delivery rate in byte/s for segments of `mss` bytes (`tcp_compute_delivery_rate`).
    pub fn delivery_rate(&self, mss: u32) -> u64 {
        if self.rate_delivered == 0 || self.rate_interval_us == 0 {
            return 0;
        }
        u64::from(self.rate_delivered) * u64::from(mss) * 1_000_000
            / u64::from(self.rate_interval_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rs->delivered` stays where the interval is none (`tcp_rate_gen`).
    #[test]
    fn delivered_counts_even_if_the_interval_is_too_short() {
        for (now_us, reneging, delivered, is_too_short) in
            [(150, false, None, true), (1_200, false, Some(1), false), (150, true, None, false)]
        {
            let mut rate = RateState { delivered: 6, ..RateState::default() };
            let mut sample = RateSample {
                prior_us: Some(100),
                prior_delivered: 5,
                acked_sacked: 1,
                ..RateSample::default()
            };
            rate.generate(&mut sample, &mut None, reneging, 0, now_us, 1_000);
            assert_eq!((sample.delivered, sample.is_too_short), (delivered, is_too_short));
            assert_eq!(sample.has_delivered(), !reneging);
        }
    }
}
