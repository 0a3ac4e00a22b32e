//! In steady state a packet of full TCP costs no allocation, from the application's write through
//! two routers to the application's read, with its acknowledgment on the way back.

use allocation_counter::measure;
use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::LinkConfig;
use sim::record::{Fingerprint, Observer};
use sim::topology::Topology;
use sim::world::World;

/// Three pairs of hosts with one bulk flow each over one bottleneck of 100 Mbit/s, 20 ms.
fn dumbbell(tcp: &TcpConfig) -> World {
    let mut net = Topology::new();
    let (near, far) = (net.router("near"), net.router("far"));
    let bottleneck = LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(8));
    net.wire(near, far, bottleneck);
    let pairs: Vec<_> = (0..3)
        .map(|pair| {
            let (sender, receiver) = (net.host(&format!("s{pair}")), net.host(&format!("r{pair}")));
            let access = LinkConfig::new(Rate::from_mbit(1_000), Duration::from_millis(1));
            net.wire(sender, near, access.clone());
            net.wire(far, receiver, access);
            (sender, receiver)
        })
        .collect();
    let mut world = net.build(1).expect("a dumbbell can be built");
    for (sender, receiver) in pairs {
        let address = |node| world.host(node).port(datapath::node::Port(0)).config.addresses[0].0;
        let from = SocketAddr::new(address(sender), 40_001);
        let to = SocketAddr::new(address(receiver), 5_001);
        let sink = TcpSink::new(to, tcp.clone());
        world.add_app(receiver, Box::new(sink), Instant::ZERO, None);
        let send = TcpSend::bulk(from, to, tcp.clone());
        world.add_app(sender, Box::new(send), Instant::ZERO, None);
    }
    world
}

/// Wants to see all there is.
struct Everything;

impl Observer for Everything {}

/// Allocations and packets of the seconds from `warm` to `end`, observed or not.
fn allocations(tcp: &TcpConfig, warm: u64, end: u64, observed: bool) -> (u64, u64) {
    let mut world = dumbbell(tcp);
    if observed {
        world.observe(Box::new(Fingerprint::default()));
        world.observe(Box::new(Everything));
    }
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    world.run_until(at(warm));
    let before = world.stats().full_hops;
    let info = measure(|| world.run_until(at(end)));
    (info.count_total, world.stats().full_hops - before)
}

/// Windows that the receivers limit: nothing is lost, and every buffer has found its size.
#[test]
fn a_steady_flow_allocates_nothing() {
    let tcp = TcpConfig { receive_buffer: NonZeroU32::new(128 * 1024), ..TcpConfig::default() };
    for observed in [false, true] {
        let (count, hops) = allocations(&tcp, 3, 6, observed);
        assert!(hops > 10_000, "{hops} hops");
        assert_eq!(count, 0, "allocations in {hops} hops, observed: {observed}");
    }
}

/// Windows that losses limit: a buffer may still find a new maximum now and then.
#[test]
fn losses_and_recovery_allocate_nothing_per_packet() {
    for observed in [false, true] {
        let (count, hops) = allocations(&TcpConfig::default(), 5, 25, observed);
        assert!(hops > 200_000, "{hops} hops");
        assert!(count < hops / 2_000, "{count} allocations in {hops} hops, observed: {observed}");
    }
}
