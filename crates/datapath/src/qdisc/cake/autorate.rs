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
    /// When the rate was last changed, in ns (`last_reconfig_time`); 0 before, or where that is not noted.
    last_change: u64,
}

impl Autorate {
    /// Bytes have been queued.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.window_bytes = self.window_bytes.wrapping_add(bytes);
    }

    /// An ACK was filtered when another packet was queued: its bytes are subtracted. If they are more than the window
    /// has counted, the kernel's number wraps, and so does the estimate.
    pub fn remove_bytes(&mut self, bytes: u64) {
        self.window_bytes = self.window_bytes.wrapping_sub(bytes);
    }

    /// A packet arrived while autorate is off.
    pub fn passed(&mut self, now: u64) {
        self.window_bytes = 0;
        self.last_packet = now;
    }

    /// A packet arrived at `now`: returns the new rate in byte/s at the end of a burst.
    ///
    /// The kernel intends to change the rate at most every 250 ms. Up to 7.0 it never records the time of the last change
    /// (`waits`), so it changes the rate at every such gap from 250 ms after boot on (observed in traces).
    pub fn arrived(&mut self, now: u64, waits: bool) -> Option<u64> {
        let gap = now.saturating_sub(self.last_packet).min(LONGEST_GAP);
        self.average_gap = ewma(self.average_gap, gap, if gap > self.average_gap { 2 } else { 8 });
        self.last_packet = now;
        if gap <= self.average_gap {
            return None;
        }
        let window = now.saturating_sub(self.window_begin).max(1);
        let sample = self.window_bytes.wrapping_mul(NANOS) / window;
        self.peak = ewma(self.peak, sample, if sample > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = now;
        if now <= self.last_change + BETWEEN_CHANGES {
            return None;
        }
        if waits {
            self.last_change = now;
        }
        Some(self.peak.wrapping_mul(15) >> 4)
    }
}

const NANOS: u64 = 1_000_000_000;
/// Minimum time between two changes, and from boot to the first, in ns.
const BETWEEN_CHANGES: u64 = 250_000_000;
/// Longer gaps count as this long.
const LONGEST_GAP: u64 = NANOS;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The first window begins at boot: if the machine has been up for a hundred seconds,
    /// the first estimate is a few bytes a second, whatever arrives.
    #[test]
    fn the_first_estimate_is_of_all_the_time_since_the_boot() {
        let mut autorate = Autorate::default();
        autorate.add_bytes(1_500);
        assert_eq!(autorate.arrived(100 * NANOS, true), Some(2), "15/16 of a quarter of 15 byte/s");
        assert_eq!(autorate.peak, 3);
    }

    #[test]
    fn an_ack_replaced_by_a_shorter_packet_wraps_the_window() {
        let mut autorate = Autorate::default();
        autorate.arrived(NANOS, true);
        autorate.add_bytes(54);
        autorate.remove_bytes(60);
        autorate.add_bytes(66);
        autorate.arrived(3 * NANOS, true);
        assert_eq!(autorate.peak, 7, "60 bytes in two seconds, a quarter of it");
        autorate.add_bytes(54);
        autorate.remove_bytes(60);
        autorate.arrived(5 * NANOS, true);
        assert_eq!(autorate.peak, 6 + 2_305_843_008, "2^64 - 6 * 10^9 in two seconds");
    }

    #[test]
    fn a_wrapped_estimate_wraps_the_rate_as_well() {
        let mut autorate = Autorate::default();
        autorate.arrived(NANOS, true);
        autorate.remove_bytes(1);
        autorate.peak = u64::MAX / 4;
        let rate = autorate.arrived(3 * NANOS, true);
        assert_eq!(rate, Some(autorate.peak.wrapping_mul(15) >> 4));
        assert!(autorate.peak > u64::MAX / 15, "fifteen of it are more than 64 bits");
    }

    #[test]
    fn the_rate_stays_for_a_quarter_of_a_second_after_the_boot() {
        for waits in [false, true] {
            let mut autorate = Autorate::default();
            autorate.add_bytes(1_500);
            assert_eq!(autorate.arrived(250 * MS, waits), None);
            assert_eq!(autorate.peak, 1_500, "though it is estimated");
            assert!(autorate.arrived(450 * MS, waits).is_some());
        }
    }

    /// Gaps that grow, so that each of them ends a burst. `waits`: as since 7.1; before every gap had its rate.
    #[test]
    fn a_rate_stays_for_a_quarter_of_a_second_where_the_kernel_notes_when_it_came() {
        let changes = |waits: bool| {
            let mut autorate = Autorate::default();
            let times = [300, 350, 410, 480, 549, 551, 640, 760, 800, 801, 802, 1_000];
            let change = |at: &u64| {
                autorate.add_bytes(1_500);
                autorate.arrived(at * MS, waits).is_some()
            };
            times.into_iter().filter(change).collect::<Vec<u64>>()
        };
        assert_eq!(changes(true), [300, 640, 1_000]);
        assert_eq!(changes(false), [300, 640, 760, 1_000]);
    }
}
