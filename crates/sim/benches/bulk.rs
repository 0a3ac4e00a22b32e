//! How fast full TCP runs: N pairs of hosts with one bulk flow each over one bottleneck.
//!
//! `cargo bench -p ackwright-sim --bench bulk [PAIRS [SECONDS]]` prints MTU-sized packet-hops per
//! CPU second; pure acknowledgments cost time but do not count. Set-up is not counted.

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::LinkConfig;
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::fs;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let pairs = numbers.next().unwrap_or(10);
    let seconds = numbers.next().unwrap_or(20);
    let before_setup = cpu_seconds();
    let (mut world, sinks) = dumbbell(pairs);
    let before = cpu_seconds();
    world.run_until(Instant::ZERO + Duration::from_secs(seconds));
    let took = cpu_seconds() - before;
    let received: u64 = sinks.iter().map(|sink| world.report(*sink).received_bytes).sum();
    let stats = world.stats();
    println!(
        "{pairs} flows: set-up {:.2} s, {} hops, {} events in {took:.2} CPU s: {:.2} M hops/s, \
         goodput {:.0} of {} Mbit/s",
        before - before_setup,
        stats.full_hops,
        stats.events,
        stats.full_hops as f64 / took / 1e6,
        received as f64 * 8.0 / 1e6 / seconds as f64,
        10 * pairs,
    );
}

/// A bottleneck of 10 Mbit/s a pair and 20 ms round trip, with a queue of one bandwidth-delay
/// product and at least 100 packets.
fn dumbbell(pairs: u64) -> (World, Vec<AppId>) {
    let mut net = Topology::new();
    let (r1, r2) = (net.router("R1"), net.router("R2"));
    let middle = LinkConfig::new(Rate::from_mbit(10 * pairs), Duration::from_millis(8));
    let wire = net.wire(r1, r2, middle);
    net.wire_mut(wire).a.interface.queue_limit = (17 * pairs).max(100) as u32;
    let mut flows = Vec::new();
    for pair in 0..pairs {
        let (a, b) = (net.host(&format!("A{pair}")), net.host(&format!("B{pair}")));
        let access = LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(1));
        net.wire(a, r1, access.clone());
        net.wire(r2, b, access);
        let local = SocketAddr::new(net.address(a).expect("wired"), 0);
        let remote = SocketAddr::new(net.address(b).expect("wired"), 5001);
        flows.push((a, b, local, remote));
    }
    let mut world = net.build(1).expect("possible");
    let mut sinks = Vec::new();
    for (index, (a, b, local, remote)) in flows.into_iter().enumerate() {
        let start = Instant::ZERO + Duration::from_micros(1_000_003 * index as u64 / pairs);
        let tcp = TcpConfig::default();
        let sink = TcpSink::new(remote, tcp.clone());
        sinks.push(world.add_app(b, Box::new(sink), Instant::ZERO, None));
        world.add_app(a, Box::new(TcpSend::bulk(local, remote, tcp)), start, None);
    }
    (world, sinks)
}

/// Time of this process on a processor in seconds, from the kernel's account in hundredths.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux keeps an account");
    let after_name = stat.rsplit(')').next().expect("the name is in brackets");
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("a number")).sum();
    ticks as f64 / 100.0
}
