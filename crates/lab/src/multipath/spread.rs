//! How flows spread over next hops, and which of them move when one is gone.

use std::net::{IpAddr, Ipv4Addr};

use datapath::fib::hash::{HashKey, Policy};
use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::resilient::{Member, ResilientConfig};
use datapath::fib::{Algorithm, Fib, Hashed, NextHop, Prefix, Route, RouteKey, Settings};
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};

use super::Case;
use crate::ecmp::{self, Disruption, FlowLoad, Load};

/// Flows of each measurement, as many as the kernel was asked for.
const FLOWS: usize = 10_000;
/// Random streams of flows and of hash keys.
const FLOW_STREAM: u64 = 1 << 47;

/// Flows of which the ports differ, and the addresses too if `hosts`.
fn flows(hosts: bool) -> Vec<FlowLoad> {
    let mut rng = Rng::stream(1, FLOW_STREAM + u64::from(hosts));
    let mut address = |base: u32| {
        let host = if hosts { rng.next_u32() & 0xffff } else { 1 };
        IpAddr::V4(Ipv4Addr::from_bits(base + host))
    };
    let mut ports = Rng::stream(1, FLOW_STREAM + 2);
    (0..FLOWS)
        .map(|_| {
            let key = RouteKey {
                src: address(0x0a09_0000),
                iif: Some(u16::MAX - 1),
                protocol: 17,
                src_port: ports.next_u32() as u16,
                dst_port: ports.next_u32() as u16,
                ..RouteKey::to(address(0xc612_0000))
            };
            FlowLoad { key, flow: None, bytes: 1 }
        })
        .collect()
}

fn settle(fib: &mut Fib, policy: Policy) {
    let key = HashKey::from_seed(1);
    fib.set_settings(Settings { key, ..fib.settings().both(Hashed::by(policy)) });
}

/// A route with one next hop for each weight.
fn route(weights: &[u16], policy: Policy, algorithm: Algorithm) -> Fib {
    let hops = (1..).zip(weights).map(|(port, &weight)| NextHop::new(port, None).weight(weight));
    let mut fib = Fib::new();
    let route = Route::new(Prefix::DEFAULT_V4, hops.collect()).algorithm(algorithm);
    fib.add(route).expect("the first route");
    settle(&mut fib, policy);
    fib
}

/// A resilient group of four, its buckets idle as soon as they are not used.
fn resilient() -> Fib {
    let now = Instant::ZERO;
    let mut fib = Fib::new();
    for id in 1..=4 {
        let hop = ObjectConfig::Hop(NextHop::new(id, None));
        fib.add_object(now, id.into(), hop).expect("a new object");
    }
    let members = (1..=4).map(|id| Member { id, weight: 1 }).collect();
    let config = ResilientConfig {
        buckets: 128,
        idle_timer: Duration::ZERO,
        unbalanced_timer: Duration::ZERO,
    };
    let group = ObjectConfig::Resilient(members, config);
    fib.add_object(now, 10, group).expect("a group of what is there");
    fib.add(Route::object(Prefix::DEFAULT_V4, 10)).expect("the first route");
    settle(&mut fib, Policy::L4);
    fib
}

/// All cases: what a failure moves, and how even the load is.
pub fn cases() -> Vec<Case> {
    let (pairs, hosts) = (flows(false), flows(true));
    let mut cases = Vec::new();
    for count in [3u16, 4, 5, 8] {
        let fib = route(&vec![1; count.into()], Policy::L4, Algorithm::System);
        for gone in 1..=count.div_ceil(2) {
            cases.push(moved(format!("{gone} of {count}"), &fib, &pairs, gone));
        }
        if count == 4 {
            for gone in 3..=4 {
                cases.push(moved(format!("{gone} of 4"), &fib, &pairs, gone));
            }
        }
    }
    let modulo = route(&[1; 4], Policy::L4, Algorithm::Modulo);
    cases.push(moved("modulo-N, 2 of 4".into(), &modulo, &hosts, 2));
    cases.push(moved("resilient, 2 of 4".into(), &resilient(), &pairs, 2));
    for (name, weights, policy, flows) in [
        ("L4, 2 hops", &[1, 1][..], Policy::L4, &pairs),
        ("L4, 4 hops", &[1; 4], Policy::L4, &pairs),
        ("L4, 1 to 3", &[1, 3], Policy::L4, &pairs),
        ("L3, one pair", &[1; 4], Policy::L3, &pairs),
        ("L3, 4 hops", &[1; 4], Policy::L3, &hosts),
        ("L3, 1 to 3", &[1, 3], Policy::L3, &hosts),
    ] {
        let load = ecmp::load(&route(weights, policy, Algorithm::System), flows);
        cases.push((name.into(), vec![("largest share", "%", largest(&load))]));
    }
    cases
}

fn moved(name: String, fib: &Fib, flows: &[FlowLoad], gone: u16) -> Case {
    let Disruption { own, collateral, .. } = ecmp::fail(fib, flows, &[gone]);
    let figures = vec![
        ("flows moved", "%", 100.0 * (own + collateral)),
        ("others moved", "%", 100.0 * collateral),
    ];
    (name, figures)
}

fn largest(load: &Load) -> f64 {
    let most = load.hops.iter().map(|hop| hop.flows).max().unwrap_or(0);
    100.0 * most as f64 / FLOWS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2992: 1/N + [(i-1)(i-2)/2 + (N-i)(N-i-1)/2] / (N(N-1)).
    #[test]
    fn disruption_is_what_the_rfc_says() {
        let cases = cases();
        for (count, gone) in [(3.0f64, 1.0f64), (4.0, 1.0), (4.0, 2.0), (5.0, 3.0), (8.0, 4.0)] {
            let (left, right) = (gone - 1.0, count - gone);
            let pairs = f64::midpoint(left * (left - 1.0), right * (right - 1.0));
            let theory = 100.0 * (1.0 / count + pairs / (count * (count - 1.0)));
            let name = format!("{gone} of {count}");
            let case = cases.iter().find(|(case, _)| *case == name).expect("it is measured");
            // Four standard deviations of a share of 10,000.
            assert!((case.1[0].2 - theory).abs() < 2.0, "{name}: {case:?} {theory}");
        }
        let figure =
            |name: &str, at: usize| cases.iter().find(|(case, _)| case == name).unwrap().1[at].2;
        assert!(figure("resilient, 2 of 4", 1).abs() < 1e-9, "nobody else moves");
        assert!(figure("modulo-N, 2 of 4", 0) > 60.0);
        assert!((figure("L3, one pair", 0) - 100.0).abs() < 1e-9);
    }
}
