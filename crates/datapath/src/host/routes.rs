//! The host's route table: longest prefix first, this host's own addresses among the routes.

use crate::fib::{Decision, Hop};
use core::net::IpAddr;

/// Routes in order of prefix length, longest first.
#[derive(Debug, Default)]
pub struct Routes {
    entries: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    bits: u128,
    mask: u128,
    v4: bool,
    decision: Decision,
}

impl Routes {
    /// Adds a route; an equal prefix that is already there stays in front.
    pub fn add(&mut self, prefix: IpAddr, len: u8, decision: Decision) {
        let (bits, v4) = bits_of(prefix);
        let len = if v4 { len + 96 } else { len };
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        let place = self.entries.partition_point(|route| route.mask >= mask);
        self.entries.insert(place, Route { bits: bits & mask, mask, v4, decision });
    }

    /// What to do with a packet for `dst`.
    pub fn look_up(&self, dst: IpAddr) -> Decision {
        let (bits, v4) = bits_of(dst);
        self.entries
            .iter()
            .find(|route| route.v4 == v4 && bits & route.mask == route.bits)
            .map_or(Decision::NoRoute, |route| route.decision)
    }

    /// Adds a route out of a port.
    pub fn via(&mut self, prefix: IpAddr, len: u8, port: u16, gateway: Option<IpAddr>) {
        self.add(prefix, len, Decision::Forward(Hop { port, gateway }));
    }
}

/// The address as 128 bits, IPv4 in the low 32.
fn bits_of(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}
