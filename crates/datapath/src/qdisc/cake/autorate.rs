//! `autorate-ingress`: the rate of a link behind which we sit, estimated from arrivals.
//!
//! Packets that arrive closer together than usual belong to a burst; a gap longer than usual ends
//! it. Bytes and time between two such gaps give a sample of the bandwidth.

use super::ewma;

/// The estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Autorate {
    /// When the last packet came, in ns.
    last_packet: u64,
    /// Average gap between packets in ns.
    average_gap: u64,
    /// Bytes since the window began.
    window_bytes: u64,
    /// When the window began, in ns.
    window_begin: u64,
    /// The estimate in byte/s (`avg_peak_bandwidth`).
    pub peak: u64,
}

impl Autorate {
    /// Bytes have been queued.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.window_bytes += bytes;
    }

    /// Bytes of a filtered ACK have made way for what was queued.
    pub fn remove_bytes(&mut self, bytes: u64) {
        self.window_bytes = self.window_bytes.saturating_sub(bytes);
    }

    /// A packet came and autorate is off.
    pub fn passed(&mut self, now: u64) {
        self.window_bytes = 0;
        self.last_packet = now;
    }

    /// A packet came at `now`: the new rate in byte/s, at the end of a burst.
    ///
    /// The kernel means to change the rate every 250 ms at most, but never notes when it last did,
    /// so it changes it at every such gap: seen in traces.
    pub fn arrived(&mut self, now: u64) -> Option<u64> {
        let gap = now.saturating_sub(self.last_packet).min(LONGEST_GAP);
        self.average_gap = ewma(self.average_gap, gap, if gap > self.average_gap { 2 } else { 8 });
        self.last_packet = now;
        if gap <= self.average_gap {
            return None;
        }
        let window = now.saturating_sub(self.window_begin).max(1);
        let sample =
            (u128::from(self.window_bytes) * u128::from(NANOS) / u128::from(window)) as u64;
        self.peak = ewma(self.peak, sample, if sample > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = now;
        Some((self.peak * 15) >> 4)
    }
}

const NANOS: u64 = 1_000_000_000;
/// Longer gaps count as this long.
const LONGEST_GAP: u64 = NANOS;
