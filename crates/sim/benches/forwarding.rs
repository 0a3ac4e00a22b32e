//! How fast packets are forwarded: UDP at a constant rate over three links and two routers.
//!
//! `cargo bench -p ackwright-sim --bench forwarding [PAIRS [SECONDS]]` prints packet-hops per
//! CPU second. A hop is one MTU-sized packet put on one link. Set-up is not counted.

use apps::{Cbr, UdpSink};
use core::net::SocketAddr;
use datapath::units::{Duration, Instant, Rate};
use sim::link::LinkConfig;
use sim::topology::Topology;
use sim::world::World;
use std::fs;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let pairs = numbers.next().unwrap_or(1);
    let seconds = numbers.next().unwrap_or(20);
    let before_setup = cpu_seconds();
    let mut world = dumbbell(pairs);
    let before = cpu_seconds();
    world.run_until(Instant::ZERO + Duration::from_secs(seconds));
    let took = cpu_seconds() - before;
    let stats = world.stats();
    println!(
        "{pairs} pairs: set-up {:.2} s, {} hops ({} drops), {} events in {took:.2} CPU s: {:.2} M hops/s",
        before - before_setup,
        stats.full_hops,
        stats.node_drops,
        stats.events,
        stats.full_hops as f64 / took / 1e6,
    );
}

/// Pairs of hosts over one bottleneck of 100 Mbit/s a pair; each sends 10,000 packets a second
/// divided by the number of pairs above ten.
fn dumbbell(pairs: u64) -> World {
    let mut net = Topology::new();
    let (r1, r2) = (net.router("R1"), net.router("R2"));
    let middle = LinkConfig::new(Rate::from_mbit(200 * pairs), Duration::from_millis(10));
    net.wire(r1, r2, middle);
    let mut flows = Vec::new();
    for pair in 0..pairs {
        let (a, b) = (net.host(&format!("A{pair}")), net.host(&format!("B{pair}")));
        let access = LinkConfig::new(Rate::from_mbit(1000), Duration::from_micros(100 + pair));
        net.wire(a, r1, access.clone());
        net.wire(r2, b, access);
        let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
        let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
        flows.push((a, b, local, remote));
    }
    let mut world = net.build(1).expect("possible");
    let interval = Duration::from_micros(100 * pairs.div_ceil(10));
    for (index, (a, b, local, remote)) in flows.into_iter().enumerate() {
        let start = Instant::from_nanos(97 * index as u64);
        world.add_app(a, Box::new(Cbr::new(local, remote, 1458, interval)), start, None);
        world.add_app(b, Box::new(UdpSink::new(remote)), Instant::ZERO, None);
    }
    world
}

/// User time of this process in seconds, from the kernel's account in hundredths.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux keeps an account");
    let after_name = stat.rsplit(')').next().expect("the name is in brackets");
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    ticks as f64 / 100.0
}
