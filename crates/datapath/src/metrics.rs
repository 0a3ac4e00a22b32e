//! Metrics of routes, which TCP heeds.

/// Metrics of a route that TCP heeds (`RTAX_*`); 0 = not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RouteMetrics {
    /// Packet size, bytes (`mtu`).
    pub mtu: u32,
    /// … which no ICMP message may lower (`mtu lock`).
    pub mtu_locked: bool,
    /// MSS to advertise, bytes (`advmss`).
    pub advmss: u32,
    /// Window to offer at most, bytes (`window`).
    pub window: u32,
    /// Initial congestion window, segments (`initcwnd`).
    pub initcwnd: u32,
    /// Initial receive window, segments (`initrwnd`).
    pub initrwnd: u32,
    /// Lowest retransmission timeout, µs (`rto_min`).
    pub rto_min_us: u32,
    /// ACKs are not delayed (`quickack`).
    pub quickack: bool,
    /// Data may go with the SYN without a cookie (`fastopen_no_cookie`).
    pub fastopen_no_cookie: bool,
}
