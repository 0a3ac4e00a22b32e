//! UDP through routers: what arrives, when, and the same in every run.

use apps::{AppReport, Cbr, Ping, UdpEcho, UdpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, NodeId};
use sim::record::Fingerprint;
use sim::topology::Topology;
use sim::world::World;
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A - 100 Mbit/s, 1 ms - R1 - 10 Mbit/s, 5 ms - R2 - 100 Mbit/s, 1 ms - B.
fn dumbbell(seed: u64) -> (World, NodeId, NodeId, SocketAddr, SocketAddr) {
    let mut net = Topology::new();
    let (a, r1) = (net.host("A"), net.router("R1"));
    let (r2, b) = (net.router("R2"), net.host("B"));
    let access = LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(1));
    net.wire(a, r1, access.clone());
    net.wire(r1, r2, LinkConfig::new(Rate::from_mbit(10), Duration::from_millis(5)));
    net.wire(r2, b, access);
    let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
    let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
    (net.build(seed).expect("possible"), a, b, local, remote)
}

/// Applications hear of what has come a nanosecond later.
const APP: Duration = Duration::from_nanos(1);

/// 1000 byte frames take 80 µs at 100 Mbit/s and 800 µs at 10 Mbit/s.
#[test]
fn a_datagram_takes_serialisation_and_propagation_on_each_link() {
    let (mut world, a, b, local, remote) = dumbbell(1);
    let cbr = Cbr::new(local, remote, 1000 - 42, Duration::from_millis(1000));
    world.add_app(a, Box::new(cbr), ms(10), Some(ms(500)));
    let sink = world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    world.run_until(ms(900));
    let report = world.report(sink);
    let expected = ms(10) + Duration::from_micros(80 + 1000 + 800 + 5000 + 80 + 1000) + APP;
    assert_eq!((report.received, report.first_received), (1, Some(expected)));
    assert_eq!(world.stats().hops, 3);
}

#[test]
fn a_probe_measures_the_round_trip_both_ways() {
    for udp in [false, true] {
        let (mut world, a, b, local, remote) = dumbbell(1);
        let each = Duration::from_millis(100);
        let ping = if udp {
            Ping::udp(local, remote, 1000 - 42, each)
        } else {
            Ping::icmp(remote.ip(), 1000 - 42, each)
        };
        let ping = world.add_app(a, Box::new(ping), ms(0), Some(ms(1000)));
        world.add_app(b, Box::new(UdpEcho::new(remote)), ms(0), None);
        world.run_until(ms(2000));
        let AppReport { sent, received, round_trips, .. } = world.report(ping);
        assert_eq!((sent, received), (10, 10));
        // The echo is an application; receipt is stamped by the host.
        let hearing = if udp { APP } else { Duration::ZERO };
        let trip = Duration::from_micros(2 * 7960) + hearing;
        assert!(round_trips.iter().all(|(_, took)| *took == trip), "{round_trips:?}");
        // iputils' ping takes 15.92 ms for 15 and waits 85 more from when it hears the answer.
        let drift = if udp { Duration::ZERO } else { Duration::from_micros(920) + APP };
        let left: Vec<Instant> = round_trips.iter().map(|(at, took)| *at - *took).collect();
        assert!(left.windows(2).all(|two| two[1] - two[0] == each + drift), "{left:?}");
    }
}

#[test]
fn what_was_sent_has_arrived_or_was_dropped_or_is_on_the_way() {
    let (mut world, a, b, local, remote) = dumbbell(1);
    let cbr = Cbr::new(local, remote, 1400, Duration::from_micros(500));
    let cbr = world.add_app(a, Box::new(cbr), ms(0), None);
    let sink = world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    for step in 1..40 {
        world.run_until(ms(step * 97));
        while !world.all_notified() {
            world.run_until(world.now() + APP);
        }
        let queued: u64 = (0..world.node_count())
            .flat_map(|node| {
                let host = world.host(NodeId(node as u32));
                (0..host.port_count())
                    .map(move |port| host.port(Port(port as u16)).backlog().packets)
            })
            .map(u64::from)
            .sum();
        let flying: u64 = world.links().map(|(id, _)| world.in_flight(id) as u64).sum();
        let dropped = world.stats().node_drops + world.stats().link_drops;
        let (sent, received) = (world.report(cbr).sent, world.report(sink).received);
        assert_eq!(sent, received + dropped + queued + flying, "after {step} steps");
    }
    assert!(world.stats().node_drops > 0, "the bottleneck was never full");
}

/// What is sampled is what is there after all events of the moment.
#[test]
fn samples_are_taken_at_their_times() {
    let (mut world, a, b, local, remote) = dumbbell(1);
    let cbr = Cbr::new(local, remote, 1400, Duration::from_micros(500));
    world.add_app(a, Box::new(cbr), ms(0), None);
    world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    let mut series = Vec::new();
    let bottleneck = (NodeId(1), Port(1));
    for millis in [0, 20, 40, 60, 80, 100] {
        world.run_until(ms(millis));
        assert_eq!(world.now(), ms(millis));
        series.push(world.host(bottleneck.0).port(bottleneck.1).backlog().packets);
    }
    assert!(series.is_sorted(), "a queue that fills: {series:?}");
    assert!(series[5] > 50);
}

fn fingerprint(seed: u64) -> (u64, u64) {
    let (mut world, a, b, local, remote) = dumbbell(seed);
    let print = Rc::new(RefCell::new(Fingerprint::default()));
    world.observe(Box::new(Rc::clone(&print)));
    let cbr = Cbr::new(local, remote, 1400, Duration::from_micros(500));
    world.add_app(a, Box::new(cbr), ms(0), None);
    world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    let ping = Ping::icmp(remote.ip(), 56, Duration::from_millis(10));
    world.add_app(a, Box::new(ping), ms(3), None);
    world.run_until(ms(3000));
    let print = print.borrow();
    (print.hash, print.arrivals)
}

#[test]
fn every_run_of_a_seed_is_the_same_on_every_machine() {
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_eq!(
        fingerprint(1),
        (16420804041164469396, 11905),
        "the event sequence changed: every result changes"
    );
}
