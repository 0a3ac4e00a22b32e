//! The pacing rate: the estimated rate times the gain of the phase, one percent below it; and how
//! many segments leave at once.

use super::{BBR_SCALE, BBR_UNIT, BW_SCALE, BW_UNIT, Bbr, HIGH_GAIN};
use crate::tcp::cc::{Ack, Window};

/// How far the pacing rate stays below the estimated rate, so that a queue drains
/// (`bbr_pacing_margin_percent`).
const MARGIN_PERCENT: u64 = 1;
/// Below this rate segments go out one at a time, byte/s (`bbr_min_tso_rate`: 1.2 Mbit/s).
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// `sk_pacing_shift`: a super-packet is about 1 ms worth of data.
const PACING_SHIFT: u32 = 10;
/// `GSO_LEGACY_MAX_SIZE`.
const GSO_LEGACY_MAX_SIZE: u64 = 65_536;
/// The most that the kernel's arithmetic lets a super-packet count.
const MAX_TSO_SEGS: u32 = 0x7f;

/// `bw` times `gain`, less the margin, in byte/s for segments of `mss` bytes
/// (`bbr_rate_bytes_per_sec`).
pub fn bytes_per_second(bw: u64, gain: u32, mss: u32) -> u64 {
    let rate = bw.wrapping_mul(u64::from(mss)).wrapping_mul(u64::from(gain)) >> BBR_SCALE;
    rate.wrapping_mul(1_000_000 / 100 * (100 - MARGIN_PERCENT)) >> BW_SCALE
}

/// `bbr_min_tso_segs`.
pub fn min_tso_segs(window: &Window) -> u32 {
    if window.pacing_rate < MIN_TSO_RATE { 1 } else { 2 }
}

/// Segments that one super-packet is likely to have (`bbr_tso_segs_goal`).
pub fn tso_segs_goal(window: &Window, ack: &Ack) -> u32 {
    let longest = GSO_LEGACY_MAX_SIZE - 1 - u64::from(ack.max_tcp_header);
    let bytes = (window.pacing_rate >> PACING_SHIFT).min(longest);
    let segs = (bytes / u64::from(ack.mss)) as u32;
    segs.max(min_tso_segs(window)).min(MAX_TSO_SEGS)
}

fn pacing_rate(bw: u64, gain: u32, ack: &Ack) -> u64 {
    bytes_per_second(bw, gain, ack.mss).min(ack.max_pacing_rate)
}

impl Bbr {
    /// The initial window once per RTT, or per ms as long as that is not known, times the gain of
    /// STARTUP (`bbr_init_pacing_rate_from_rtt`).
    pub(super) fn init_pacing_rate_from_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let rtt_us = match ack.srtt_us_8 {
            Some(srtt) => {
                self.has_seen_rtt = true;
                (srtt.get() >> 3).max(1)
            }
            None => 1_000,
        };
        let bw = u64::from(window.snd_cwnd) * BW_UNIT / u64::from(rtt_us);
        window.pacing_rate = pacing_rate(bw, HIGH_GAIN, ack);
    }

    /// The rate never falls before the pipe was full once, because the first samples belong to a window that
    /// was still growing (`bbr_set_pacing_rate`).
    pub(super) fn set_pacing_rate(&mut self, window: &mut Window, ack: &Ack, bw: u32, gain: u32) {
        let rate = pacing_rate(u64::from(bw), gain, ack);
        if !self.has_seen_rtt && ack.srtt_us_8.is_some() {
            self.init_pacing_rate_from_rtt(window, ack);
        }
        if self.full_bw_reached || rate > window.pacing_rate {
            window.pacing_rate = rate;
        }
    }

    /// Packets in flight at the time when the packet being sent now departs: pacing may delay it,
    /// and meanwhile more is delivered (`bbr_packets_in_net_at_edt`).
    pub(super) fn packets_in_net_at_edt(&self, window: &Window, ack: &Ack, now: u32) -> u32 {
        let ahead_us = ack.wstamp_ns.saturating_sub(ack.now_ns) / 1_000;
        let delivered = (u64::from(self.bw()).wrapping_mul(ahead_us) >> BW_SCALE) as u32;
        let burst = if self.pacing_gain > BBR_UNIT { tso_segs_goal(window, ack) } else { 0 };
        (now + burst).saturating_sub(delivered)
    }
}
