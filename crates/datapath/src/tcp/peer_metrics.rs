//! What connections leave behind for those that follow them to the same peer: RTT, threshold, window, reordering
//! (`tcp_update_metrics`, `tcp_init_metrics`).

use super::cc::INFINITE_SSTHRESH;
use super::shared::Metrics;
use super::{Connection, Cx};
use crate::trace::CaState;
use crate::units::{Duration, Instant};

/// How long all but Fast Open is believed since a connection last left something (`TCP_METRICS_TIMEOUT`).
const BELIEVED_FOR: Duration = Duration::from_secs(3_600);

impl Metrics {
    /// What is still believed.
    pub(crate) fn believed(mut self, now: Instant) -> Self {
        self.forget_old(now);
        self
    }

    fn forget_old(&mut self, now: Instant) {
        if now.saturating_since(self.updated) > BELIEVED_FOR {
            let Self { mss, cookie, try_experimental, syn_losses, .. } = *self;
            let fresh = Self { updated: now, ..Self::default() };
            *self = Self { mss, cookie, try_experimental, syn_losses, ..fresh };
        }
    }

    /// A longer RTT counts at once, a shorter one by an eighth: it is better to think it too long.
    fn learn_rtt(&mut self, srtt_us_8: u32, mdev_us_4: u32) {
        let shorter = self.rtt_us_8.wrapping_sub(srtt_us_8) as i32;
        if shorter <= 0 {
            self.rtt_us_8 = srtt_us_8;
        } else {
            self.rtt_us_8 -= (shorter >> 3) as u32;
        }
        let deviation = (shorter.unsigned_abs() >> 1).max(mdev_us_4);
        if deviation >= self.rttvar_us_4 {
            self.rttvar_us_4 = deviation;
        } else {
            self.rttvar_us_4 -= (self.rttvar_us_4 - deviation) >> 2;
        }
    }
}

impl Connection {
    /// The connection is over in order: what it has learnt is kept (`tcp_update_metrics`).
    pub(super) fn update_metrics(&self, cx: &mut Cx<'_>) {
        if self.config.sysctl.tcp_no_metrics_save != 0 {
            return;
        }
        let key = (self.local.ip, self.remote.ip);
        let Some(srtt) = self.rtt.srtt_us_8.filter(|_| self.backoff == 0) else {
            // It has not even found out the RTT: nothing is sure about that any more.
            if let Some(known) = cx.shared.metrics.get_mut(&key) {
                known.forget_old(cx.now);
                known.rtt_us_8 = 0;
            }
            return;
        };
        let known = cx.shared.metrics.entry(key).or_default();
        known.forget_old(cx.now);
        known.learn_rtt(srtt.get(), self.rtt.mdev_us_4);
        self.leave_window(known);
        known.updated = cx.now;
    }

    /// What of window and threshold is worth keeping depends on how far the connection came.
    fn leave_window(&self, known: &mut Metrics) {
        let (cwnd, ssthresh) = (self.window.snd_cwnd, self.window.snd_ssthresh);
        let sysctl = &self.config.sysctl;
        let keeps_ssthresh = sysctl.tcp_no_ssthresh_metrics_save == 0;
        if ssthresh >= INFINITE_SSTHRESH {
            // Slow start has found no end yet: only a larger window than before tells something.
            if keeps_ssthresh && known.ssthresh != 0 && cwnd >> 1 > known.ssthresh {
                known.ssthresh = cwnd >> 1;
            }
            known.cwnd = known.cwnd.max(cwnd);
        } else if cwnd >= ssthresh && self.window.ca_state == CaState::Open {
            if keeps_ssthresh {
                known.ssthresh = ssthresh.max(cwnd >> 1);
            }
            known.cwnd = known.cwnd.wrapping_add(cwnd) >> 1;
        } else {
            // The window is none that the path has shown.
            known.cwnd = known.cwnd.wrapping_add(ssthresh) >> 1;
            if keeps_ssthresh && known.ssthresh != 0 && ssthresh > known.ssthresh {
                known.ssthresh = ssthresh;
            }
            let reordering = self.rec.reordering;
            if known.reordering < reordering && reordering != sysctl.tcp_reordering {
                known.reordering = reordering;
            }
        }
    }

    /// What others have left for this one, which has just been established (`tcp_init_metrics`): threshold, reordering,
    /// and the first timeout, where they had a longer RTT than the handshake. Gives whether they had.
    pub(super) fn apply_peer_metrics(&mut self, cx: &Cx<'_>) -> bool {
        if cx.shared.metrics.is_empty() {
            return false;
        }
        let known = cx.shared.metrics_of(self).believed(cx.now);
        if self.config.sysctl.tcp_no_ssthresh_metrics_save == 0 && known.ssthresh != 0 {
            self.window.snd_ssthresh = known.ssthresh;
        }
        if known.reordering != 0 {
            self.rec.reordering = known.reordering;
        }
        let longer = known.rtt_us_8 > self.rtt.srtt_us_8();
        if longer {
            let ticks = known.rtt_us_8 / (8 * 1_000);
            self.rto = ticks + (2 * ticks).max(self.rto_min_us() / 1_000);
        }
        longer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::fastopen::TryExperimental;

    /// `tcp_update_metrics()`: RTT and its variation, in µs.
    #[test]
    fn a_longer_rtt_counts_at_once_and_a_shorter_one_by_an_eighth() {
        let mut known = Metrics::default();
        for (srtt, mdev, rtt, rttvar) in [
            (400_000, 200_000, 400_000, 400_000),
            (8_000, 4_000, 351_000, 398_000),
            (351_000, 100_000, 351_000, 323_500),
            (500_000, 100_000, 500_000, 279_875),
        ] {
            known.learn_rtt(srtt * 8, mdev * 4);
            let expected = (rtt * 8, rttvar * 4);
            assert_eq!((known.rtt_us_8, known.rttvar_us_4), expected, "{srtt}");
        }
    }

    /// `tcpm_check_stamp()`: Fast Open's is kept.
    #[test]
    fn metrics_not_renewed_for_an_hour_are_forgotten() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let try_experimental = TryExperimental::Yes;
        let known = Metrics {
            mss: 9,
            try_experimental,
            rtt_us_8: 1,
            cwnd: 2,
            updated: at(100),
            ..Metrics::default()
        };
        assert_eq!(known.believed(at(3_700)), known);
        let left = Metrics { mss: 9, try_experimental, updated: at(3_701), ..Metrics::default() };
        assert_eq!(known.believed(at(3_701)), left);
    }
}
