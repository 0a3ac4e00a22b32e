//! Timeouts of the life of a connection, for TCP_INFO (`tcp_update_rto_stats`,
//! `tcp_update_rto_time`).

use super::Connection;
use crate::units::Instant;

/// How often, and for how long, a connection waited for its retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct RtoTotals {
    /// Timeouts, those of the handshake included (`total_rto`).
    pub timeouts: u16,
    /// Series of them without progress in between (`total_rto_recoveries`).
    pub series: u16,
    /// Time from the first timeout of each series to its end, ms (`total_rto_time`).
    time_ms: u32,
    /// When the series at hand began, ms (`rto_stamp`).
    since_ms: u32,
    /// There is one.
    in_series: bool,
    /// Timeouts after which another path was tried (`timeout_rehash`).
    pub rehashed: u16,
}

impl RtoTotals {
    /// Time in series of timeouts, that at hand included, ms.
    pub fn time_ms(self, now: Instant) -> u32 {
        self.time_ms + self.open_ms(now)
    }

    fn open_ms(self, now: Instant) -> u32 {
        if self.in_series { millis(now).wrapping_sub(self.since_ms) } else { 0 }
    }
}

impl Connection {
    /// The retransmission timer went off: one more without progress. A series counts from `since`.
    pub(super) fn note_timeout(&mut self, since: Instant) {
        let totals = &mut self.totals.rto;
        if self.retransmits == 0 {
            totals.series = totals.series.saturating_add(1);
            (totals.since_ms, totals.in_series) = (millis(since), true);
        }
        totals.timeouts = totals.timeouts.saturating_add(1);
        self.retransmits = self.retransmits.saturating_add(1);
    }

    /// Loss is left, or the handshake done: the time of the series, if there is one, is over (`tcp_update_rto_time`).
    /// One more that begins before that takes its place.
    pub(super) fn end_series(&mut self, now: Instant) {
        let totals = &mut self.totals.rto;
        totals.time_ms += totals.open_ms(now);
        totals.in_series = false;
    }
}

const fn millis(at: Instant) -> u32 {
    at.as_millis() as u32
}
