//! `net.ipv4.neigh.default.*` and `net.ipv6.neigh.default.*`, with the kernel's defaults
//! (`arp_tbl`, `nd_tbl`).

use crate::units::Duration;
use core::net::IpAddr;

/// What one address family does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// `base_reachable_time_ms`: a confirmation holds for half of this to one and a half of it.
    pub base_reachable_time: Duration,
    /// `retrans_time_ms`: between questions.
    pub retrans_time: Duration,
    /// `ucast_solicit`: questions to the address that is known.
    pub ucast_solicit: u32,
    /// `mcast_solicit`: questions to all.
    pub mcast_solicit: u32,
    /// `mcast_resolicit`: questions to all once the known address has not answered.
    pub mcast_resolicit: u32,
    /// `delay_first_probe_time`: how long a confirmation may come by itself.
    pub delay_first_probe_time: Duration,
    /// `gc_stale_time`: what was not used for so long may go.
    pub gc_stale_time: Duration,
    /// `locktime`: an answer within this of another does not take its place.
    pub locktime: Duration,
    /// `unres_qlen_bytes`: memory of the packets that wait for one neighbour.
    pub unres_qlen_bytes: u32,
    /// `gc_thresh1`: with fewer neighbours than this none is ever thrown away.
    pub gc_thresh1: u32,
    /// `gc_thresh2`: down to this many are thrown away when there are too many.
    pub gc_thresh2: u32,
    /// `gc_thresh3`: there are never more than this.
    pub gc_thresh3: u32,
}

/// Of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `net.ipv4.neigh.default`.
    pub v4: Family,
    /// `net.ipv6.neigh.default`.
    pub v6: Family,
}

impl Default for Settings {
    fn default() -> Self {
        let v4 = Family {
            base_reachable_time: Duration::from_secs(30),
            retrans_time: Duration::from_secs(1),
            ucast_solicit: 3,
            mcast_solicit: 3,
            mcast_resolicit: 0,
            delay_first_probe_time: Duration::from_secs(5),
            gc_stale_time: Duration::from_secs(60),
            locktime: Duration::from_secs(1),
            unres_qlen_bytes: 212_992,
            gc_thresh1: 128,
            gc_thresh2: 512,
            gc_thresh3: 1_024,
        };
        Self { v4, v6: Family { locktime: Duration::ZERO, ..v4 } }
    }
}

impl Family {
    /// Questions are never closer than 10 ms.
    pub(super) fn retransmit(&self) -> Duration {
        self.retrans_time.max(Duration::from_millis(10))
    }
}

impl Settings {
    /// Those for an address.
    pub const fn family(&self, of: IpAddr) -> &Family {
        if of.is_ipv4() { &self.v4 } else { &self.v6 }
    }

    /// Writes one by its full name; false if there is none of that name.
    pub fn set(&mut self, name: &str, value: u32) -> bool {
        let (family, name) = if let Some(rest) = name.strip_prefix("net.ipv4.neigh.default.") {
            (&mut self.v4, rest)
        } else if let Some(rest) = name.strip_prefix("net.ipv6.neigh.default.") {
            (&mut self.v6, rest)
        } else {
            return false;
        };
        let (seconds, millis) =
            (Duration::from_secs(value.into()), Duration::from_millis(value.into()));
        match name {
            "base_reachable_time_ms" => family.base_reachable_time = millis,
            "base_reachable_time" => family.base_reachable_time = seconds,
            "retrans_time_ms" => family.retrans_time = millis,
            "ucast_solicit" => family.ucast_solicit = value,
            "mcast_solicit" => family.mcast_solicit = value,
            "mcast_resolicit" => family.mcast_resolicit = value,
            "delay_first_probe_time" => family.delay_first_probe_time = seconds,
            "gc_stale_time" => family.gc_stale_time = seconds,
            // In hundredths of a second (`USER_HZ`).
            "locktime" => family.locktime = Duration::from_millis(u64::from(value) * 10),
            "unres_qlen_bytes" => family.unres_qlen_bytes = value,
            "gc_thresh1" => family.gc_thresh1 = value,
            "gc_thresh2" => family.gc_thresh2 = value,
            "gc_thresh3" => family.gc_thresh3 = value,
            _ => return false,
        }
        true
    }
}
