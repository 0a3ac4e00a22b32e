//! A world's capture: every packet, every drop with its reason, and the same bytes in every run.

use apps::{Cbr, UdpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Flaws, Ipv4, LinkHeader, MacAddr, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
    Udp,
};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant, Rate};
use pcap::{LinkType, Reader, Snap, Writer};
use sim::capture::{Capture, LinkEnd};
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::record::{DropPlace, Observer as _};
use sim::topology::Topology;
use std::cell::RefCell;
use std::io::{self, Write};
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
    taps.tap(world.link_of(a, Port(0)), LinkEnd::Sent, "A");
    taps.tap_drops(DropPlace::Node(r), "R");
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

/// A segment of 100 bytes on an Ethernet.
fn segment() -> Packet {
    Packet {
        link: LinkHeader::Ethernet {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
        },
        network: Network::Ipv4(Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6)),
        transport: Transport::Tcp(Tcp {
            src_port: 40000,
            dst_port: 5201,
            seq: Seq(1),
            ack: Seq(1),
            flags: TcpFlags::ACK,
            window: 512,
            urgent: 0,
            options: TcpOptions::default(),
        }),
        body: Body::of_len(100),
        ..Packet::default()
    }
    .finish()
}

#[test]
fn taps_write_what_passes_and_why_it_was_dropped() {
    let (a, b, node) = (LinkId(0), LinkId(1), NodeId(0));
    let mut taps = Capture::new(Writer::new(Vec::new()).expect("writes"), Snap::Headers);
    taps.tap(a, LinkEnd::Sent, "a");
    taps.tap(b, LinkEnd::Delivered, "b");
    taps.tap_drops(DropPlace::Node(node), "router");
    let packet = segment();
    let mut bare = packet.clone();
    bare.set_link(LinkHeader::None);
    let at = Instant::from_nanos;
    taps.sent(at(1), a, &packet);
    taps.delivered(at(2), a, &packet);
    taps.sent(at(3), b, &bare);
    taps.dropped(at(4), DropPlace::Node(node), Reason::QdiscOverlimit, &bare);
    taps.dropped(at(5), DropPlace::Link(a), Reason::LinkLoss, &packet);
    taps.delivered(at(6), b, &bare);
    let file = taps.finish().expect("writes");
    let mut reader = Reader::new(&file[..]).expect("reads");
    let records: Vec<_> = reader.by_ref().map(|record| record.expect("is whole")).collect();
    let interfaces = reader.interfaces();
    let seen: Vec<_> = records
        .iter()
        .map(|record| {
            let interface = &interfaces[record.interface];
            (record.nanos.unwrap_or(0), interface.name.as_deref(), interface.link_type)
        })
        .collect();
    let expected = [
        (1, Some("a"), LinkType::ETHERNET),
        (4, Some("router drops"), LinkType::RAW),
        (6, Some("b"), LinkType::RAW),
    ];
    assert_eq!(seen, expected);
    assert_eq!(records[1].comments, ["dropped: QDISC_OVERLIMIT"]);
    assert_eq!(records[0].original_len, 154);
}

#[test]
fn a_capture_keeps_its_first_error() {
    let mut taps = Capture::new(Writer::new(Full(200)).expect("fits"), Snap::Headers);
    taps.tap(LinkId(0), LinkEnd::Sent, "a");
    let packet = segment();
    for nanos in 0..9 {
        taps.sent(Instant::from_nanos(nanos), LinkId(0), &packet);
    }
    let error = taps.finish().err().expect("was kept");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// A disk that fills up.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
