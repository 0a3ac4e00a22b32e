//! A world's capture: every packet, every drop with its reason, and the same bytes in every run.

use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::{Flaws, Transport, Udp};
use datapath::units::{Duration, Instant, Rate};
use sim::app::{Cbr, UdpSink};
use sim::link::LinkConfig;
use sim::pcap::{Capture, Reader, Side, Snap, Writer};
use sim::record::Place;
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// 40 Mbit/s of datagrams into a bottleneck of 10 Mbit/s for half a second; packets sent by A and
/// packets dropped by the router are captured. Gives the file, the packets sent and the drops.
fn overload() -> (Vec<u8>, u64, u64) {
    let mut net = Topology::new();
    let (a, r, b) = (net.host("A"), net.router("R"), net.host("B"));
    net.wire(a, r, LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(1)));
    net.wire(r, b, LinkConfig::new(Rate::from_mbit(10), Duration::from_millis(5)));
    let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
    let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
    let mut world = net.build(1).expect("possible");
    let end = Instant::ZERO + Duration::from_millis(500);
    let cbr = Cbr::new(local, remote, 1000 - 42, Duration::from_micros(200));
    let sender = world.add_app(a, Box::new(cbr), Instant::ZERO, Some(end));
    world.add_app(b, Box::new(UdpSink::new(remote)), Instant::ZERO, None);

    let mut taps = Capture::new(Writer::new(Vec::new()).expect("writes"), Snap::Headers);
    taps.tap(world.link_of(a, Port(0)), Side::Sent, "A");
    taps.tap_drops(Place::Node(r), "R");
    let taps = Rc::new(RefCell::new(taps));
    world.observe(Box::new(Rc::clone(&taps)));
    world.run_until(end + Duration::from_millis(2000));
    let (sent, drops) = (world.report(sender).sent, world.stats().node_drops);
    drop(world);
    let taps = Rc::into_inner(taps).expect("the world is gone").into_inner();
    (taps.finish().expect("writes"), sent, drops)
}

#[test]
fn every_packet_and_every_drop_is_in_the_file() {
    let (file, sent, drops) = overload();
    assert!(drops > 100, "{drops}");
    let mut reader = Reader::new(&file[..]).expect("reads");
    let (mut passed, mut dropped) = (0, 0);
    while let Some(record) = reader.next_record().expect("is whole") {
        let interface = &reader.interfaces()[record.interface];
        let packet = record.packet(interface).expect("known").expect("parses");
        assert_eq!(packet.transport, Transport::Udp(Udp { src_port: 4000, dst_port: 5000 }));
        assert_eq!(packet.flaws(), Flaws::TRUNCATED);
        assert_eq!(packet.body.len, 1000 - 42);
        match interface.name.as_deref() {
            Some("A") => {
                assert_eq!(record.comments, [""; 0]);
                passed += 1;
            }
            Some("R drops") => {
                assert_eq!(record.comments, ["dropped: QDISC_OVERLIMIT"]);
                dropped += 1;
            }
            other => panic!("an interface {other:?}"),
        }
    }
    assert_eq!((passed, dropped), (sent, drops));
}

#[test]
fn two_runs_give_the_same_bytes() {
    assert_eq!(overload(), overload());
}
