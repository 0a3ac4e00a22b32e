//! What BBR tells of itself: `struct tcp_bbr_info`, which `ss` shows.

use super::{BW_SCALE, Bbr};
use crate::tcp::cc::Ack;

/// `struct tcp_bbr_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BbrInfo {
    /// Estimated rate, byte/s.
    pub bw: u64,
    /// Lowest RTT, µs.
    pub min_rtt_us: u32,
    /// Gain of the pacing rate, in 1/256.
    pub pacing_gain: u32,
    /// Gain of the window, in 1/256.
    pub cwnd_gain: u32,
}

impl BbrInfo {
    /// The structure's bytes.
    pub fn to_bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.bw.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.min_rtt_us.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.pacing_gain.to_le_bytes());
        bytes[16..].copy_from_slice(&self.cwnd_gain.to_le_bytes());
        bytes
    }
}

impl Bbr {
    /// `bbr_get_info`.
    pub(super) fn info(&self, ack: &Ack) -> BbrInfo {
        let bytes = u64::from(self.bw()).wrapping_mul(u64::from(ack.mss)).wrapping_mul(1_000_000);
        BbrInfo {
            bw: bytes >> BW_SCALE,
            min_rtt_us: self.min_rtt_us,
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
        }
    }
}
