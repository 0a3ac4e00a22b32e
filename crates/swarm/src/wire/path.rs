//! The path MTU by device and route, and when a connection must have learnt it.

use core::num::NonZeroU32;
use datapath::fib::{Prefix, Route};

use super::bench::Bench;
use super::mtu::{PathMtuChange, possible_mtu};
use crate::case::BrokenLaw;

impl Bench {
    /// `ip link set … mtu`.
    pub(super) fn set_mtu(&mut self, mtu: u32) {
        let mtu = possible_mtu(self.ipv6, mtu);
        self.max_mtu = self.max_mtu.max(mtu);
        self.one_mtu = false;
        self.host.port_config_mut(self.port).mtu = mtu;
    }

    /// `ip route replace … mtu` for the peer alone.
    pub(super) fn set_route_mtu(&mut self, mtu: u32) {
        let mtu = possible_mtu(self.ipv6, mtu);
        self.one_mtu = false;
        let mut route = Route::on_link(Prefix::host(self.addresses[1]), self.port.0);
        route.metrics.mtu = NonZeroU32::new(mtu);
        self.host.fib_mut().replace(route).expect("a route to a neighbour");
        let flows = 0..self.flows.len();
        let segments = |at| self.view(at).map(|look| (at, look.info.segs_in));
        self.rerouted = Some(PathMtuChange { mtu, since: flows.filter_map(segments).collect() });
    }

    /// A connection that has had a segment since the route changed knows its MTU (`__sk_dst_check`
    /// and `tcp_current_mss`).
    pub(super) fn check_path(&self, at: usize) -> Result<(), BrokenLaw> {
        let (Some(rerouted), Some(now)) = (&self.rerouted, self.view(at)) else { return Ok(()) };
        let heard = |&(flow, segments): &(usize, u32)| flow == at && now.info.segs_in > segments;
        if rerouted.since.iter().any(heard) && now.info.pmtu > rerouted.mtu {
            let what = format!("the route says {}, and {now:?}", rerouted.mtu);
            return Err(("path MTU", what));
        }
        Ok(())
    }
}
