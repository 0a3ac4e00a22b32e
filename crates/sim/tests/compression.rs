//! ACKs of out-of-order data: some at once, then held back (`tcp_comp_sack_*`).

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, LinkId};
use sim::record::Observer;
use sim::topology::Topology;
use std::cell::RefCell;
use std::rc::Rc;

/// When segments above a gap came to the receiver, and when it sent ACKs with SACK blocks.
struct Tap {
    there: LinkId,
    back: LinkId,
    data: Vec<(Instant, u32)>,
    acks: Vec<(Instant, u32)>,
}

impl Observer for Tap {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        if link == self.back && !tcp.options.sack.as_slice().is_empty() {
            self.acks.push((now, tcp.ack.0));
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let Some(tcp) = packet.tcp() else { return };
        if link == self.there && packet.body.len > 0 {
            self.data.push((now, tcp.seq.0));
        }
    }
}

/// Sends 300 kB at `mbit` with a round trip of 40 ms, without the `lost`-th packet, and gives the
/// first held back ACK: when its segment came, and when it was sent.
fn first_held_ack(mbit: u64, lost: u32) -> (Instant, Instant) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let way = LinkConfig::new(Rate::from_mbit(mbit), Duration::from_millis(20));
    let rule = format!("f data {lost} drop").parse().expect("a rule");
    let there = LinkConfig { rules: vec![rule], ..way.clone() };
    net.wire_with(a, b, there, way);
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    let tcp = TcpConfig::default();
    world.add_app(b, Box::new(TcpSink::new(to, tcp.clone())), Instant::ZERO, None);
    let sender = TcpSend::bulk(from, to, tcp).limit(300_000);
    world.add_app(a, Box::new(sender), Instant::ZERO, None);
    let tap = Rc::new(RefCell::new(Tap {
        there: world.link_of(a, Port(0)),
        back: world.link_of(b, Port(0)),
        data: Vec::new(),
        acks: Vec::new(),
    }));
    world.observe(Box::new(Rc::clone(&tap)));
    world.run_until(Instant::ZERO + Duration::from_secs(5));

    let tap = tap.borrow();
    let missing = tap.acks[0].1;
    let above: Vec<Instant> =
        tap.data.iter().filter(|(_, seq)| *seq > missing).map(|(at, _)| *at).collect();
    let acks: Vec<Instant> = tap.acks.iter().map(|(at, _)| *at).collect();
    let held = acks.iter().zip(&above).position(|(ack, at)| ack != at).expect("one is held back");
    assert!(held >= 3, "the first three are sent at once, in quick-ACK mode more: {held}");
    (above[held], acks[held])
}

/// Departure 8 of docs/LINUX.md: the timer fires at delay + slack, 1 ms + 0.01 ms by default when the
/// round trip is longer than 20 ms.
#[test]
fn a_held_duplicate_ack_waits_for_delay_and_slack() {
    let (came, sent) = first_held_ack(100, 50);
    assert_eq!(sent, came + Duration::from_micros(1_010));
}

/// A delayed-ACK timer that was still running finds the held ACK and sends it, at its jiffy.
#[test]
fn a_running_delayed_ack_timer_sends_it_earlier() {
    let (came, sent) = first_held_ack(1_000, 29);
    assert!(sent < came + Duration::from_micros(1_010), "{came:?} {sent:?}");
    assert_eq!(sent.as_nanos() % 1_000_000, 0);
}
