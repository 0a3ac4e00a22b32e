//! What leaves a world at its border and comes back is what would have arrived, as late as it was kept.

use apps::{AppReport, TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::border::HandedOut;
use sim::link::{LinkConfig, LinkId};
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::collections::VecDeque;

const BYTES: u64 = 1_000_000;
const LATER: Duration = Duration::from_millis(3);

/// A sends [`BYTES`] to B over 10 Mbit/s and 5 ms; the link that arrives at B.
fn world() -> (World, LinkId, [AppId; 2]) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    net.wire(a, b, LinkConfig::new(Rate::from_mbit(10), Duration::from_millis(5)));
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5_001);
    let mut world = net.build(1).expect("possible");
    let sink = Box::new(TcpSink::new(to, TcpConfig::default()));
    let sink = world.add_app(b, sink, Instant::ZERO, None);
    let sender = Box::new(TcpSend::bulk(from, to, TcpConfig::default()).limit(BYTES));
    let sender = world.add_app(a, sender, Instant::ZERO + LATER, None);
    let link = world.link_of(a, Port(0));
    (world, link, [sender, sink])
}

fn reports(world: &World, apps: [AppId; 2]) -> [AppReport; 2] {
    apps.map(|app| world.report(app))
}

/// Carries what is handed out back in, so much later, until nothing is left to happen.
fn carry(world: &mut World, later: Duration) {
    let mut on_the_way: VecDeque<(Instant, LinkId, Packet)> = VecDeque::new();
    let mut out = Vec::new();
    let end = Instant::ZERO + Duration::from_secs(20);
    loop {
        let first = on_the_way.front().map(|one| one.0);
        let Some(next) = world.next_at().into_iter().chain(first).min() else { return };
        if next > end {
            return;
        }
        world.run_until(next);
        while on_the_way.front().is_some_and(|one| one.0 <= next) {
            let (_, link, packet) = on_the_way.pop_front().expect("there is one");
            world.hand_in(link, packet);
        }
        world.take_handed_out(&mut out);
        let back = |HandedOut { at, link, packet }| (at + later, link, packet);
        on_the_way.extend(out.drain(..).map(back));
    }
}

#[test]
fn what_comes_back_is_what_would_have_arrived() {
    let (mut whole, _, apps) = world();
    whole.run_until(Instant::ZERO + Duration::from_secs(20));
    let [sent, received] = reports(&whole, apps);
    assert_eq!((sent.sent_bytes, received.received_bytes), (BYTES, BYTES));
    let straight = received.last_received.expect("it has arrived");

    let (mut world, link, apps) = world();
    world.hand_out(link);
    carry(&mut world, LATER);
    let [sent, received] = reports(&world, apps);
    assert_eq!((sent.sent_bytes, received.received_bytes), (BYTES, BYTES));
    assert!(sent.finished.is_some(), "the connection is closed");
    let round = received.last_received.expect("it has arrived");
    assert!(round >= straight + LATER, "{round:?} after {straight:?}");
}

#[test]
fn what_is_kept_outside_never_arrives() {
    let (mut world, link, apps) = world();
    world.hand_out(link);
    world.run_until(Instant::ZERO + Duration::from_secs(2));
    let mut out = Vec::new();
    world.take_handed_out(&mut out);
    assert!(out.len() >= 2, "a SYN, and again: {}", out.len());
    assert!(out.iter().all(|one| one.link == link && !one.packet.is_empty()));
    assert_eq!(reports(&world, apps)[1].received_bytes, 0);
    world.take_handed_out(&mut out);
    let known = out.len();
    world.run_until(world.now());
    world.take_handed_out(&mut out);
    assert_eq!(out.len(), known, "each is handed out once");
}

/// A packet that somebody else has made leaves by a port as any other.
#[test]
fn others_may_send_by_a_port() {
    let (mut world, link, _) = world();
    world.hand_out(link);
    world.run_until(Instant::ZERO + Duration::from_millis(50));
    let mut out = Vec::new();
    world.take_handed_out(&mut out);
    let syn = out.pop().expect("a SYN has come").packet;
    let (node, port) = world.link(link).from;
    let before = world.link(link).stats.packets;
    world.send_by(node, port, syn);
    world.run_until(Instant::ZERO + Duration::from_millis(60));
    world.take_handed_out(&mut out);
    assert_eq!(world.link(link).stats.packets, before + 1);
    assert_eq!(out.len(), 1);
}
