//! What connections leave behind for those that follow them to the same peer: RTT, threshold, window, reordering
//! (`tcp_update_metrics`, `tcp_init_metrics`).

use super::cc::INFINITE_SSTHRESH;
use super::shared::Metrics;
use super::{Connection, Cx};
use crate::metrics::{Locks, RouteMetrics};
use crate::trace::CaState;
use crate::units::{Duration, Instant};
use core::num::NonZeroU32;

/// How long all but Fast Open is believed since a connection last left something (`TCP_METRICS_TIMEOUT`).
const BELIEVED_FOR: Duration = Duration::from_secs(3_600);

impl Metrics {
    /// What the route says of a peer of which nothing is known, or not any more (`tcpm_suck_dst`).
    pub(super) fn of_route(now: Instant, route: &RouteMetrics) -> Self {
        let set = |metric: Option<NonZeroU32>| metric.map_or(0, NonZeroU32::get);
        Self {
            rtt_us_8: set(route.rtt_ms_8).wrapping_mul(1_000),
            rttvar_us_4: set(route.rttvar_ms_4).wrapping_mul(1_000),
            ssthresh: set(route.ssthresh),
            cwnd: set(route.cwnd),
            reordering: set(route.reordering),
            locks: route.locks,
            updated: now,
            ..Self::default()
        }
    }

    /// What is still believed.
    pub(crate) fn believed(mut self, now: Instant, route: &RouteMetrics) -> Self {
        self.forget_old(now, route);
        self
    }

    fn forget_old(&mut self, now: Instant, route: &RouteMetrics) {
        if now.saturating_since(self.updated) > BELIEVED_FOR {
            let Self { mss, cookie, try_experimental, syn_losses, .. } = *self;
            *self =
                Self { mss, cookie, try_experimental, syn_losses, ..Self::of_route(now, route) };
        }
    }

    /// A longer RTT counts at once, a shorter one by an eighth: it is better to think it too long.
    fn learn_rtt(&mut self, srtt_us_8: u32, mdev_us_4: u32) {
        let shorter = self.rtt_us_8.wrapping_sub(srtt_us_8) as i32;
        if self.may_change(Locks::RTT) {
            if shorter <= 0 {
                self.rtt_us_8 = srtt_us_8;
            } else {
                self.rtt_us_8 -= (shorter >> 3) as u32;
            }
        }
        let deviation = (shorter.unsigned_abs() >> 1).max(mdev_us_4);
        if !self.may_change(Locks::RTTVAR) {
            return;
        }
        if deviation >= self.rttvar_us_4 {
            self.rttvar_us_4 = deviation;
        } else {
            self.rttvar_us_4 -= (self.rttvar_us_4 - deviation) >> 2;
        }
    }

    /// Whether a route has not locked it (`tcp_metric_locked`).
    fn may_change(&self, what: Locks) -> bool {
        !self.locks.contains(what)
    }
}

impl Connection {
    /// The connection is over in order: what it has learnt is kept (`tcp_update_metrics`).
    pub(super) fn update_metrics(&self, cx: &mut Cx<'_>) {
        if self.config.sysctl.tcp_no_metrics_save != 0 {
            return;
        }
        let key = (self.local.ip, self.remote.ip);
        let route = self.route_metrics();
        let Some(srtt) = self.rtt.srtt_us_8.filter(|_| self.backoff == 0) else {
            // It has not even found out the RTT: nothing is sure about that any more.
            if let Some(known) = cx.shared.metrics.get_mut(&key) {
                known.forget_old(cx.now, &route);
                if known.may_change(Locks::RTT) {
                    known.rtt_us_8 = 0;
                }
            }
            return;
        };
        let fresh = || Metrics::of_route(cx.now, &route);
        let known = cx.shared.metrics.entry(key).or_insert_with(fresh);
        known.forget_old(cx.now, &route);
        known.learn_rtt(srtt.get(), self.rtt.mdev_us_4);
        self.leave_window(known);
        known.updated = cx.now;
    }

    /// What of window and threshold is worth keeping depends on how far the connection came.
    fn leave_window(&self, known: &mut Metrics) {
        let (cwnd, ssthresh) = (self.window.snd_cwnd, self.window.snd_ssthresh);
        let sysctl = &self.config.sysctl;
        let keeps_ssthresh =
            sysctl.tcp_no_ssthresh_metrics_save == 0 && known.may_change(Locks::SSTHRESH);
        let keeps_cwnd = known.may_change(Locks::CWND);
        if ssthresh >= INFINITE_SSTHRESH {
            // Slow start has found no end yet: only a larger window than before tells something.
            if keeps_ssthresh && known.ssthresh != 0 && cwnd >> 1 > known.ssthresh {
                known.ssthresh = cwnd >> 1;
            }
            if keeps_cwnd {
                known.cwnd = known.cwnd.max(cwnd);
            }
        } else if cwnd >= ssthresh && self.window.ca_state == CaState::Open {
            if keeps_ssthresh {
                known.ssthresh = ssthresh.max(cwnd >> 1);
            }
            if keeps_cwnd {
                known.cwnd = known.cwnd.wrapping_add(cwnd) >> 1;
            }
        } else {
            // The window is none that the path has shown.
            if keeps_cwnd {
                known.cwnd = known.cwnd.wrapping_add(ssthresh) >> 1;
            }
            if keeps_ssthresh && known.ssthresh != 0 && ssthresh > known.ssthresh {
                known.ssthresh = ssthresh;
            }
            let reordering = self.rec.reordering;
            let larger = known.reordering < reordering && reordering != sysctl.tcp_reordering;
            if larger && known.may_change(Locks::REORDERING) {
                known.reordering = reordering;
            }
        }
    }

    /// What others have left for this one, which has just been established (`tcp_init_metrics`): threshold, reordering,
    /// and the first timeout, where they had a longer RTT than the handshake. Gives whether they had. What the route
    /// says of the peer counts once somebody has left something, or before 6.8 at once.
    pub(super) fn apply_peer_metrics(&mut self, cx: &Cx<'_>) -> bool {
        let by_route = self.config.profile.route_metrics_without_entry && self.rare.is_some();
        if cx.shared.metrics.is_empty() && !by_route {
            return false;
        }
        let route = self.route_metrics();
        let known = match cx.shared.metrics.get(&(self.local.ip, self.remote.ip)) {
            Some(known) => known.believed(cx.now, &route),
            None if by_route => Metrics::of_route(cx.now, &route),
            None => return false,
        };
        if known.locks.contains(Locks::CWND) && known.cwnd != 0 {
            self.window.snd_cwnd_clamp = known.cwnd;
        }
        if self.config.sysctl.tcp_no_ssthresh_metrics_save == 0 && known.ssthresh != 0 {
            self.window.snd_ssthresh = known.ssthresh.min(self.window.snd_cwnd_clamp);
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

    /// `tcpm_check_stamp()`: Fast Open's is kept, for the rest the route's word counts again.
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
        let route = RouteMetrics { reordering: NonZeroU32::new(7), ..RouteMetrics::default() };
        assert_eq!(known.believed(at(3_700), &route), known);
        let left = Metrics {
            mss: 9,
            try_experimental,
            reordering: 7,
            updated: at(3_701),
            ..Metrics::default()
        };
        assert_eq!(known.believed(at(3_701), &route), left);
    }
}
