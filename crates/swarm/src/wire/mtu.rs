//! MTUs of devices and routes.

/// A change of the MTU of the route to the peer.
pub(super) struct PathMtuChange {
    /// What it says, bytes.
    pub mtu: u32,
    /// The flows that had a connection then, and what that had received (`tcpi_segs_in`).
    pub since: Vec<(usize, u32)>,
}

/// The MTU nearest to `mtu` that a device of this family takes.
pub(super) fn possible_mtu(ipv6: bool, mtu: u32) -> u32 {
    mtu.clamp(if ipv6 { 1_280 } else { 68 }, 65_535)
}
