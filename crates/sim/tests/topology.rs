//! What topologies are impossible, and which way packets go through one.

use datapath::fib::{Prefix, Route};
use sim::link::LinkConfig;
use sim::topology::{Topology, TopologyError};

#[test]
fn impossible_topologies_are_named() {
    let mut twice = Topology::new();
    let (a, b) = (twice.host("A"), twice.host("A"));
    twice.wire(a, b, LinkConfig::default());
    assert_eq!(twice.build(1).err(), Some(TopologyError::DuplicateName("A".into())));

    let mut lone = Topology::new();
    lone.host("A");
    assert_eq!(lone.build(1).err(), Some(TopologyError::Unconnected("A".into())));

    let mut knot = Topology::new();
    let a = knot.host("A");
    knot.wire(a, a, LinkConfig::default());
    assert_eq!(knot.build(1).err(), Some(TopologyError::SelfLink("A".into())));
    assert_eq!(knot.find("B"), Err(TopologyError::UnknownNode("B".into())));
}

/// A - R1 - R2 - B, and C - D apart.
#[test]
fn routes_are_shortest_paths_and_their_absence_is_an_error() {
    let mut net = Topology::new();
    let [a, r1, r2, r3, b] = ["A", "R1", "R2", "R3", "B"]
        .map(|name| if name.starts_with('R') { net.router(name) } else { net.host(name) });
    let (c, d) = (net.host("C"), net.host("D"));
    for (x, y) in [(a, r1), (r1, r3), (r3, r2), (r1, r2), (r2, b), (c, d)] {
        net.wire(x, y, LinkConfig::default());
    }
    let world = net.build(1).expect("possible");
    assert_eq!(net.trace(&world, a, b), Ok(vec![a, r1, r2, b]));
    let none = TopologyError::NoRoute { from: "A".into(), to: "C".into() };
    assert_eq!(net.trace(&world, a, c), Err(none));
}

#[test]
fn a_circle_of_routes_is_an_error() {
    let mut net = Topology::new();
    let (a, b) = (net.router("A"), net.router("B"));
    let c = net.host("C");
    net.wire(a, b, LinkConfig::default());
    net.wire(b, c, LinkConfig::default());
    let target = net.address(c).expect("wired");
    net.route(b, Route::on_link(Prefix::host(target), 0));
    let world = net.build(1).expect("possible");
    let circle = TopologyError::RoutingLoop { from: "A".into(), to: "C".into() };
    assert_eq!(net.trace(&world, a, c), Err(circle));
}
