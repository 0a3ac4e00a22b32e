//! TCP Westwood+ (S. Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over
//! Wireless Links", MobiCom 2001; L. Grieco, S. Mascolo, CCR 34(2), 2004), as `tcp_westwood.c`: Reno whose
//! threshold after a loss is the bandwidth estimate times the minimum RTT.

use super::{
    Ack, AckEventFlags, AckSample, CcInfo, CongestionControl, CwndEvent, Reno, VegasInfo, Window,
};
use crate::packet::seq::Seq;
use crate::tcp::timer::HZ;

/// Westwood's state (`struct westwood`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Westwood {
    /// Bandwidth filtered once, byte a jiffy (`bw_ns_est`).
    filtered_once: u32,
    /// Filtered twice: the estimate (`bw_est`).
    bandwidth: u32,
    /// When the period of observation began, jiffies (`rtt_win_sx`).
    period_began: u32,
    /// Bytes acknowledged in it (`bk`).
    acked_bytes: u32,
    /// What was acknowledged when an ACK was last counted.
    snd_una: Seq,
    /// Bytes that duplicate ACKs have counted already (`accounted`).
    accounted: u32,
    /// Latest RTT, and the lowest since a timeout, jiffies.
    rtt: u32,
    min_rtt: u32,
    /// The next ACK is the first (`first_ack`).
    is_first_ack: bool,
    /// A timeout occurred: the minimum RTT is to be reset (`reset_rtt_min`).
    forgets_min_rtt: bool,
}

/// A period of observation lasts a RTT, and this at least, jiffies (`TCP_WESTWOOD_RTT_MIN`).
const SHORTEST_PERIOD: u32 = HZ / 20;
/// RTT before there is a sample, jiffies (`TCP_WESTWOOD_INIT_RTT`).
const INIT_RTT: u32 = 20 * HZ;

impl Westwood {
    /// A low-pass filter: the new value weighs an eighth.
    fn low_pass(old: u32, new: u32) -> u32 {
        ((u64::from(old) * 7 + u64::from(new)) >> 3) as u32
    }

    /// Ends a period of observation that has lasted long enough (`westwood_update_window`).
    fn end_period(&mut self, ack: &Ack) {
        if self.is_first_ack {
            self.snd_una = ack.snd_una;
            self.is_first_ack = false;
        }
        let elapsed = ack.jiffies.wrapping_sub(self.period_began) as i32;
        if self.rtt == 0 || elapsed <= self.rtt.max(SHORTEST_PERIOD) as i32 {
            return;
        }
        let sample = self.acked_bytes / elapsed as u32;
        if self.filtered_once == 0 && self.bandwidth == 0 {
            // The filter begins with the first sample, not with zero.
            self.filtered_once = sample;
            self.bandwidth = sample;
        } else {
            self.filtered_once = Self::low_pass(self.filtered_once, sample);
            self.bandwidth = Self::low_pass(self.bandwidth, self.filtered_once);
        }
        self.acked_bytes = 0;
        self.period_began = ack.jiffies;
    }

    /// Bytes that an ACK stands for: a duplicate one for a segment, which the ACK that then covers it
    /// does not count again (`westwood_acked_count`).
    fn count(&mut self, ack: &Ack) -> u32 {
        let mut bytes = ack.snd_una.0.wrapping_sub(self.snd_una.0);
        if bytes == 0 {
            self.accounted = self.accounted.wrapping_add(ack.mss);
            bytes = ack.mss;
        }
        if bytes > ack.mss {
            if self.accounted >= bytes {
                self.accounted -= bytes;
                bytes = ack.mss;
            } else {
                bytes -= self.accounted;
                self.accounted = 0;
            }
        }
        self.snd_una = ack.snd_una;
        bytes
    }

    /// Segments that the path has room for without a queue (`tcp_westwood_bw_rttmin`).
    fn pipe(&self, ack: &Ack) -> u32 {
        (self.bandwidth.wrapping_mul(self.min_rtt) / ack.mss.max(1)).max(2)
    }
}

impl CongestionControl for Westwood {
    fn init(&mut self, _window: &mut Window, ack: &Ack) {
        *self = Self {
            period_began: ack.jiffies,
            snd_una: ack.snd_una,
            rtt: INIT_RTT,
            min_rtt: INIT_RTT,
            is_first_ack: true,
            forgets_min_rtt: true,
            ..Self::default()
        };
    }

    fn ssthresh(&mut self, window: &Window, ack: &Ack) -> u32 {
        Reno.ssthresh(window, ack)
    }

    fn cong_avoid(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        Reno.cong_avoid(window, ack, acked);
    }

    fn pkts_acked(&mut self, _window: &mut Window, _ack: &Ack, sample: &AckSample) {
        if let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) {
            self.rtt = rtt_us.div_ceil(1_000_000 / HZ);
        }
    }

    fn in_ack_event(&mut self, _window: &mut Window, ack: &Ack, flags: AckEventFlags) {
        self.end_period(ack);
        let bytes = if flags.slow_path {
            self.count(ack)
        } else {
            let bytes = ack.snd_una.0.wrapping_sub(self.snd_una.0);
            self.snd_una = ack.snd_una;
            bytes
        };
        self.acked_bytes = self.acked_bytes.wrapping_add(bytes);
        if self.forgets_min_rtt {
            self.min_rtt = self.rtt;
            self.forgets_min_rtt = false;
        } else {
            self.min_rtt = self.min_rtt.min(self.rtt);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, ack: &Ack, event: CwndEvent) {
        match event {
            CwndEvent::CompleteCwr => {
                window.snd_ssthresh = self.pipe(ack);
                window.snd_cwnd = window.snd_ssthresh.min(window.snd_cwnd_clamp);
            }
            CwndEvent::Loss => {
                window.snd_ssthresh = self.pipe(ack);
                self.forgets_min_rtt = true;
            }
            CwndEvent::TxStart | CwndEvent::CwndRestart => {}
        }
    }

    fn undo_cwnd(&mut self, window: &Window, _ack: &Ack) -> u32 {
        window.snd_cwnd.max(window.prior_cwnd)
    }

    fn get_info(&self, _ack: &Ack) -> Option<CcInfo> {
        let micros = |jiffies: u32| jiffies.wrapping_mul(1_000_000 / HZ);
        Some(CcInfo::Vegas(VegasInfo {
            enabled: true,
            rtt_count: 0,
            rtt: micros(self.rtt),
            min_rtt: micros(self.min_rtt),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::ack_at;
    use super::*;

    #[test]
    fn the_threshold_after_a_loss_is_what_the_path_delivers_in_its_lowest_round_trip() {
        let mut westwood = Westwood::default();
        let mut window = Window::new(80);
        westwood.init(&mut window, &ack_at(0));
        // A segment each millisecond, with 50 ms of delay and no queue: 50 segments.
        for millis in 1..3_000 {
            let sample = AckSample { pkts_acked: 1, rtt_us: Some(50_000), in_flight: 50 };
            let ack = Ack { snd_una: Seq(millis * 1_448), ..ack_at(millis) };
            westwood.pkts_acked(&mut window, &ack, &sample);
            westwood.in_ack_event(&mut window, &ack, AckEventFlags::default());
        }
        westwood.cwnd_event(&mut window, &ack_at(3_000), CwndEvent::Loss);
        assert!((49..=50).contains(&window.snd_ssthresh), "{}", window.snd_ssthresh);
    }

    /// What duplicate ACKs have counted is not counted again.
    #[test]
    fn a_duplicate_ack_counts_one_segment_and_the_next_ack_fewer() {
        let mut westwood = Westwood::default();
        let count = |westwood: &mut Westwood, segments: u32| {
            westwood.count(&Ack { snd_una: Seq(segments * 1_448), ..ack_at(0) })
        };
        assert_eq!([1, 1, 1, 5].map(|una| count(&mut westwood, una)), [1_448, 1_448, 1_448, 2_896]);
    }
}
