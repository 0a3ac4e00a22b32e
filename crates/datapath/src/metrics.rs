//! Metrics of routes, which TCP heeds, and what ICMP tells of a path.

use core::num::{NonZeroU8, NonZeroU32};

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
    /// RTT to peers, ms times 8, as all up to `cwnd` of a peer of which nothing is known yet (`rtt`, `tcpm_suck_dst`).
    pub rtt_ms_8: Option<NonZeroU32>,
    /// Its variation, ms times 4 (`rttvar`).
    pub rttvar_ms_4: Option<NonZeroU32>,
    /// Threshold that slow start ends at, segments (`ssthresh`).
    pub ssthresh: Option<NonZeroU32>,
    /// Reordering degree, segments (`reordering`).
    pub reordering: Option<NonZeroU32>,
    /// Window, segments; where it is locked, none is larger (`cwnd`).
    pub cwnd: Option<NonZeroU32>,
    /// TTL or hop limit of packets whose socket has none of its own (`hoplimit`).
    pub hoplimit: Option<NonZeroU8>,
    /// Congestion control of connections, by its name (`congctl`).
    pub congctl: Option<&'static str>,
    /// Which metrics besides `mtu` are locked.
    pub locks: Locks,
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

/// Metrics of a route that are locked (`RTAX_LOCK`): what connections learn does not take their place. Locks of others than
/// these mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Locks(pub u32);

impl Locks {
    /// `rtt lock`.
    pub const RTT: Self = Self(1 << 4);
    /// `rttvar lock`.
    pub const RTTVAR: Self = Self(1 << 5);
    /// `ssthresh lock`.
    pub const SSTHRESH: Self = Self(1 << 6);
    /// `cwnd lock`.
    pub const CWND: Self = Self(1 << 7);
    /// `reordering lock`.
    pub const REORDERING: Self = Self(1 << 9);
    /// `congctl lock`: sockets do not choose another.
    pub const CONGCTL: Self = Self(1 << 16);

    /// Whether these are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
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
