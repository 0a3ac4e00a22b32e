//! What a host has kept of its peers (`tcp_metrics_nl_cmd_get`, `tcp_metrics_nl_cmd_del`).

use crate::host::Host;
use crate::tcp::shared::Metrics;
use core::net::IpAddr;

impl Host {
    /// What is known about peers, by our address and theirs (`ip tcp_metrics show`).
    pub fn tcp_metrics(&self) -> Vec<((IpAddr, IpAddr), Metrics)> {
        let known = self.tcp.iter().flat_map(|stack| &stack.shared.metrics);
        known.map(|(ends, metrics)| (*ends, *metrics)).collect()
    }

    /// From now on this is known about a peer.
    pub fn set_tcp_metrics(&mut self, local: IpAddr, peer: IpAddr, metrics: Metrics) {
        self.tcp_stack().shared.metrics.insert((local, peer), metrics);
    }

    /// Forgets what was learnt about these peers (`ip tcp_metrics delete`); gives how many they were.
    pub fn forget_tcp_metrics(&mut self, is_meant: impl Fn(IpAddr) -> bool) -> usize {
        let known = &mut self.tcp_stack().shared.metrics;
        let before = known.len();
        known.retain(|(_, peer), _| !is_meant(*peer));
        before - known.len()
    }

    /// Forgets what was learnt about all peers (`ip tcp_metrics flush`).
    pub fn flush_tcp_metrics(&mut self) {
        self.forget_tcp_metrics(|_| true);
    }
}
