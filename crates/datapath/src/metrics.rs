//! Metrics of routes, which TCP heeds, and what ICMP tells of a path.

use core::num::NonZeroU32;

/// Metrics of a route that TCP heeds (`RTAX_*`), as far as they are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RouteMetrics {
    /// Packet size, bytes (`mtu`).
    pub mtu: Option<NonZeroU32>,
    /// … which no ICMP message may lower (`mtu lock`).
    pub mtu_locked: bool,
    /// MSS to advertise, bytes (`advmss`).
    pub advmss: Option<NonZeroU32>,
    /// Window to offer at most, bytes (`window`).
    pub window: Option<NonZeroU32>,
    /// Initial congestion window, segments (`initcwnd`).
    pub initcwnd: Option<NonZeroU32>,
    /// Initial receive window, segments (`initrwnd`).
    pub initrwnd: Option<NonZeroU32>,
    /// Lowest retransmission timeout, µs (`rto_min`).
    pub rto_min_us: Option<NonZeroU32>,
    /// ACKs are not delayed (`quickack`).
    pub quickack: bool,
    /// Data may go with the SYN without a cookie (`fastopen_no_cookie`).
    pub fastopen_no_cookie: bool,
}

/// What ICMP has told of a path (`fib_nh_exception`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Largest packet, bytes.
    pub bytes: u32,
    /// It was told to be smaller than is believed: packets go without DF and routers may cut them
    /// (`fnhe_mtu_locked`).
    pub locked: bool,
}

impl PathMtu {
    /// A path that had `old` bytes is told to take `told` only, where less than `lowest` is not
    /// believed (`__ip_rt_update_pmtu`).
    pub fn from_report(told: u32, old: u32, lowest: u32) -> Self {
        if told < lowest {
            return Self { bytes: old.min(lowest), locked: true };
        }
        Self { bytes: told, locked: false }
    }
}
