//! How many ICMP errors a router sends (`icmpv4_global_allow`, `icmpv4_xrlim_allow`,
//! `inet_peer_xrlim_allow`, `icmpv6_xrlim_allow`).

use crate::profile::Profile;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use core::net::IpAddr;
use std::collections::BTreeMap;

/// `net.ipv4.icmp_*` and `net.ipv6.icmp.*`, with the defaults of 6.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpLimits {
    /// `net.ipv4.icmp_msgs_per_sec`: errors to all together.
    pub msgs_per_sec: u32,
    /// `net.ipv4.icmp_msgs_burst`: so many of them at once.
    pub msgs_burst: u32,
    /// `net.ipv4.icmp_ratelimit`: between errors to one address; six may come at once.
    pub ratelimit: Duration,
    /// `net.ipv4.icmp_ratemask`: for which types, by bit.
    pub ratemask: u32,
    /// `net.ipv6.icmp.ratelimit`.
    pub ratelimit_v6: Duration,
    /// `net.ipv6.icmp.ratemask`: for which types.
    pub ratemask_v6: u128,
}

/// Token buckets for errors sent.
#[derive(Debug)]
pub(super) struct Limiter {
    pub limits: IcmpLimits,
    /// What is left; below zero where the last one took more.
    credit: i64,
    /// When something was added last.
    filled_at: Option<Instant>,
    peers: BTreeMap<IpAddr, Bucket>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: Duration,
    at: Instant,
}

/// `XRLIM_BURST_FACTOR`.
const BURST: u64 = 6;
/// So many addresses are remembered (`inet_peer_threshold` is far above).
const PEERS: usize = 4_096;

impl Default for IcmpLimits {
    fn default() -> Self {
        Self::of(&Profile::linux_6_18())
    }
}

impl IcmpLimits {
    /// The defaults of a kernel.
    pub fn of(profile: &Profile) -> Self {
        let (msgs_per_sec, msgs_burst) = profile.icmp_msgs;
        Self {
            msgs_per_sec,
            msgs_burst,
            ratelimit: Duration::from_millis(1_000),
            ratemask: 6_168,
            ratelimit_v6: Duration::from_millis(100),
            // All errors (0 to 127) but "packet too big" (2).
            ratemask_v6: !(1 << 2),
        }
    }
}

impl Limiter {
    pub fn new(limits: IcmpLimits, rng: Rng) -> Self {
        Self { limits, credit: 0, filled_at: None, peers: BTreeMap::new(), rng }
    }

    /// Whether an error of this type and code may go to `to` now.
    pub fn allow(&mut self, now: Instant, (kind, code): (u8, u8), to: IpAddr) -> bool {
        let limits = self.limits;
        let (limited, timeout) = match to {
            // Paths must be found: `ICMP_FRAG_NEEDED` always goes.
            IpAddr::V4(_) if (kind, code) == (3, 4) => (false, limits.ratelimit),
            IpAddr::V4(_) => (kind < 32 && limits.ratemask >> kind & 1 != 0, limits.ratelimit),
            IpAddr::V6(_) => {
                (kind < 128 && limits.ratemask_v6 >> kind & 1 != 0, limits.ratelimit_v6)
            }
        };
        if !limited {
            return true;
        }
        if !self.allow_to_all(now) || !self.allow_to(now, timeout, to) {
            return false;
        }
        // Nobody must be able to find out how much is left (CVE-2020-25705).
        self.credit -= self.rng.below(3) as i64;
        true
    }

    /// `icmp_global_allow()`, since Linux 6.12: tokens are added only once the bucket is empty, then all of
    /// the time since the last refill.
    fn allow_to_all(&mut self, now: Instant) -> bool {
        if self.credit > 0 {
            return true;
        }
        let longest = Duration::from_secs(1);
        let since = self.filled_at.map_or(longest, |at| now.saturating_since(at).min(longest));
        if since < Duration::from_millis(20) {
            return false;
        }
        let more = u64::from(self.limits.msgs_per_sec) * since.as_nanos() / 1_000_000_000;
        if more == 0 {
            return false;
        }
        self.filled_at = Some(now);
        self.credit = (self.credit + more as i64).min(self.limits.msgs_burst.into());
        true
    }

    fn allow_to(&mut self, now: Instant, timeout: Duration, to: IpAddr) -> bool {
        if timeout == Duration::ZERO {
            return true;
        }
        let most = timeout * BURST;
        if self.peers.len() >= PEERS && !self.peers.contains_key(&to) {
            // Whoever has all its tokens again need not be remembered.
            self.peers.retain(|_, it| it.tokens + now.saturating_since(it.at) < most);
            if self.peers.len() >= PEERS {
                return false;
            }
        }
        let bucket = self.peers.entry(to).or_insert(Bucket { tokens: most, at: now });
        bucket.tokens = (bucket.tokens + now.saturating_since(bucket.at)).min(most);
        bucket.at = now;
        let may = bucket.tokens >= timeout;
        if may {
            bucket.tokens -= timeout;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_EXCEEDED: (u8, u8) = (11, 0);
    const FRAGMENTATION_NEEDED: (u8, u8) = (3, 4);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn limiter() -> Limiter {
        Limiter::new(IcmpLimits::default(), Rng::stream(1, 1))
    }

    #[test]
    fn one_address_gets_six_at_once_and_then_one_a_second() {
        let (mut limiter, to) = (limiter(), IpAddr::from([10, 0, 0, 1]));
        let sent = (0..20).filter(|_| limiter.allow(at(5_000), TIME_EXCEEDED, to)).count();
        assert_eq!(sent, 6);
        let sent = (0..100).filter(|n| limiter.allow(at(5_000 + n * 100), TIME_EXCEEDED, to));
        assert_eq!(sent.count(), 9, "in the 9.9 s that follow");
    }

    #[test]
    fn path_mtus_and_echo_replies_are_not_limited() {
        let (mut limiter, to) = (limiter(), IpAddr::from([10, 0, 0, 1]));
        assert!((0..1_000).all(|_| limiter.allow(at(1), FRAGMENTATION_NEEDED, to)));
        assert!((0..1_000).all(|_| limiter.allow(at(1), (0, 0), to)));
        let to = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]);
        assert!((0..1_000).all(|_| limiter.allow(at(1), (2, 0), to)));
        assert_eq!((0..20).filter(|_| limiter.allow(at(1), (3, 0), to)).count(), 6);
    }

    /// As long as something is left nothing is added; then all of the last second at once, though no more than
    /// a burst. What took more than was left is a debt.
    #[test]
    fn nothing_is_added_before_all_is_spent() {
        let mut limiter = limiter();
        assert!(limiter.allow_to_all(at(0)), "the first one fills it");
        assert_eq!(limiter.credit, 50);
        limiter.credit = 10;
        assert!(limiter.allow_to_all(at(900)));
        assert_eq!(limiter.credit, 10);
        limiter.credit = -1;
        assert!(limiter.allow_to_all(at(940)));
        assert_eq!(limiter.credit, 50);
        limiter.credit = -1;
        assert!(!limiter.allow_to_all(at(959)));
        assert!(limiter.allow_to_all(at(960)));
        assert_eq!(limiter.credit, 19);
    }

    #[test]
    fn the_profile_tells_how_many() {
        let of = |profile| IcmpLimits::of(&profile);
        assert_eq!(of(Profile::linux_6_18()), IcmpLimits::default());
        let newest = of(Profile::linux_7());
        assert_eq!((newest.msgs_per_sec, newest.msgs_burst), (10_000, 10_000));
    }

    #[test]
    fn all_together_get_no_more_than_the_burst_and_then_the_rate() {
        let mut limiter = limiter();
        let mut addresses = (0..100_000_u32).map(|n| IpAddr::V4(n.into()));
        let mut sent = |limiter: &mut Limiter, millis: u64, tries: usize| {
            addresses
                .by_ref()
                .take(tries)
                .filter(|to| limiter.allow(at(millis), TIME_EXCEEDED, *to))
                .count()
        };
        let burst = sent(&mut limiter, 10_000, 1_000);
        // Each takes 0, 1 or 2 of 50.
        assert!((26..150).contains(&burst), "{burst}");
        assert_eq!(sent(&mut limiter, 10_001, 100), 0);
        let mut later = 0;
        for step in 1..=10 {
            later += sent(&mut limiter, 10_000 + step * 100, 1_000);
        }
        assert!((260..1_500).contains(&later), "{later}");
    }
}
