//! What the connections of one host share: what was learnt about peers, rate limits, and the
//! memory of middle boxes that break Fast Open.

use super::Connection;
use super::Cx;
use super::fastopen::{Cookie, TryExperimental};
use super::timer::HZ;
use crate::metrics::Locks;
use crate::units::Instant;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// Everything that the connections of a host share.
#[derive(Debug, Default)]
pub struct Shared {
    /// What is known about peers (`ip tcp_metrics`), by our address and theirs.
    pub metrics: BTreeMap<(IpAddr, IpAddr), Metrics>,
    /// Challenge ACKs of this second.
    pub challenges: ChallengeLimit,
    /// Where Fast Open was seen to break.
    pub black_hole: BlackHole,
}

/// What is known about a peer (`struct tcp_metrics_block`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Fast Open: the peer's MSS, as its SYN-ACK said; 0 = not known.
    pub mss: u16,
    /// Fast Open: the cookie to send.
    pub cookie: Option<Cookie>,
    /// Which form of the option to try next, while there is no cookie.
    pub try_experimental: TryExperimental,
    /// SYNs with data that were lost in a row.
    pub syn_losses: u16,
    /// RTT, µs times 8; 0, as of all below: not known (`TCP_METRIC_RTT`).
    pub rtt_us_8: u32,
    /// Its variation, µs times 4 (`TCP_METRIC_RTTVAR`).
    pub rttvar_us_4: u32,
    /// Threshold that slow start ends at, segments (`TCP_METRIC_SSTHRESH`).
    pub ssthresh: u32,
    /// Window, segments; nothing begins with it (`TCP_METRIC_CWND`).
    pub cwnd: u32,
    /// Reordering degree, segments (`TCP_METRIC_REORDERING`).
    pub reordering: u32,
    /// Which of these stay as the route had them (`tcpm_lock`).
    pub locks: Locks,
    /// When a connection last left something of these (`tcpm_stamp`).
    pub updated: Instant,
}

impl Metrics {
    /// Keeps what a SYN has taught about Fast Open (`tcp_fastopen_cache_set`).
    pub(super) fn store(
        &mut self,
        mss: u16,
        cookie: Option<Cookie>,
        syn_lost: bool,
        try_next: TryExperimental,
    ) {
        if mss > 0 {
            self.mss = mss;
        }
        if cookie.is_some() {
            self.cookie = cookie;
        } else if try_next > self.try_experimental && self.cookie.is_none() {
            self.try_experimental = try_next;
        }
        self.syn_losses = if syn_lost { self.syn_losses.saturating_add(1) } else { 0 };
    }
}

/// `tcp_challenge_ack_limit`: so many in a second (RFC 5961 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChallengeLimit {
    second: Option<u64>,
    left: u32,
}

impl ChallengeLimit {
    /// Whether one more may go in `second`; `limit` as the sysctl has it, drawn anew between half
    /// of it and one and a half, so that an attacker cannot count. The draw is a hash of the
    /// second: a run must repeat. A limit of 0 or less is none: the kernel draws from what is then the whole range of
    /// 32 bits (`get_random_u32_inclusive`).
    pub fn allow(&mut self, second: u64, limit: u32) -> bool {
        if limit == i32::MAX as u32 || limit as i32 <= 0 {
            return true;
        }
        if self.second != Some(second) {
            self.second = Some(second);
            let half = limit.div_ceil(2);
            let spread = second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            self.left = half.wrapping_add((spread % u64::from(limit.max(1))) as u32);
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

/// Active Fast Open rests after a path has swallowed it (`tfo_active_disable_times`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlackHole {
    times: u32,
    since_s: u64,
}

impl BlackHole {
    /// A path has swallowed a Fast Open.
    pub fn on_blackhole(&mut self, now_s: u64) {
        self.times += 1;
        self.since_s = now_s;
    }

    /// Fast Open worked: the path is whole.
    pub fn on_success(&mut self) {
        self.times = 0;
    }

    /// Whether one was seen and nothing has shown since that it is gone.
    pub fn suspected(&self) -> bool {
        self.times > 0
    }

    /// Whether active Fast Open has to rest: `timeout_s` after the first time, twice as long after
    /// each further one, up to 64 times.
    pub fn is_paused(&self, now_s: u64, timeout_s: u32) -> bool {
        if self.times == 0 || timeout_s == 0 {
            return false;
        }
        let rest = u64::from(timeout_s) << (self.times - 1).min(6);
        now_s < self.since_s + rest
    }
}

impl Shared {
    /// What is known about the peer of a connection.
    pub(super) fn metrics_of(&self, tcp: &Connection) -> Metrics {
        let key = (tcp.local.ip, tcp.remote.ip);
        self.metrics.get(&key).copied().unwrap_or_default()
    }

    /// What is known about the peer of a connection, to change.
    pub(super) fn metrics_of_mut(&mut self, tcp: &Connection, now: Instant) -> &mut Metrics {
        let fresh = || Metrics::of_route(now, &tcp.route_metrics());
        self.metrics.entry((tcp.local.ip, tcp.remote.ip)).or_insert_with(fresh)
    }
}

impl Cx<'_> {
    /// Whole seconds since time zero.
    pub(super) fn now_s(&self) -> u64 {
        self.now.as_millis() / u64::from(HZ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_limited_by_the_second() {
        let mut limit = ChallengeLimit::default();
        let first = (0..1_000).filter(|_| limit.allow(0, 100)).count();
        assert!((50..150).contains(&first), "{first} in the very first second");
        let allowed = (0..1_000).filter(|_| limit.allow(7, 100)).count();
        assert!((50..150).contains(&allowed), "{allowed}");
        let again = (0..1_000).filter(|_| limit.allow(8, 100)).count();
        assert!((50..150).contains(&again), "{again}");
        for none in [i32::MAX, 0, -1] {
            assert!((0..1_000).all(|_| limit.allow(9, none as u32)), "no limit: {none}");
        }
    }

    #[test]
    fn black_holes_rest_longer_each_time() {
        let mut hole = BlackHole::default();
        assert!(!hole.is_paused(0, 3_600));
        hole.on_blackhole(100);
        assert!(hole.is_paused(3_699, 3_600) && !hole.is_paused(3_700, 3_600));
        hole.on_blackhole(4_000);
        assert!(hole.is_paused(4_000 + 7_199, 3_600));
        assert!(!hole.is_paused(4_000 + 7_200, 3_600));
        assert!(!hole.is_paused(4_001, 0), "switched off");
        hole.on_success();
        assert!(!hole.is_paused(4_001, 3_600));
    }
}
