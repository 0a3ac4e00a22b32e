//! What waits below a paced sender, and the times in its timestamps.

use apps::{TcpSend, TcpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::qdisc::fq::{Fq, FqConfig};
use datapath::qdisc::{Handle, Sched};
use datapath::rng::Rng;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::record::Observer;
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::rc::Rc;

/// A sender that may send 125 kB/s, to a receiver 5 ms away at `rate`.
fn paced_sender(rate: Rate) -> (World, NodeId, AppId) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    net.wire(a, b, LinkConfig::new(rate, Duration::from_millis(5)));
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    let sink = TcpSink::new(to, TcpConfig::default());
    world.add_app(b, Box::new(sink), Instant::ZERO, None);
    let config = TcpConfig { max_pacing_rate: 125_000, ..TcpConfig::default() };
    let sender = TcpSend::bulk(from, to, config);
    let sender = world.add_app(a, Box::new(sender), Instant::ZERO, None);
    (world, a, sender)
}

/// The times and timestamps of packets put on a link.
struct Tap(LinkId, Vec<(Instant, u64)>);

impl Observer for Tap {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let stamps = packet.tcp().and_then(|tcp| tcp.options.timestamps);
        if link == self.0
            && let Some(stamps) = stamps
        {
            self.1.push((now, stamps.value.into()));
        }
    }
}

/// The time is that at which fq is to let the packet go, as recorded from Linux 7.3 (`tcp_wstamp_ns`).
#[test]
fn a_timestamp_is_that_of_the_departure() {
    let (mut world, a, _) = paced_sender(Rate::from_mbit(100));
    let fq = Fq::new(FqConfig::new(1514), Rng::stream(1, 1));
    let fq = Sched::new(Handle::new(1, 0), fq);
    world.with_host(a, |now, host| host.set_qdisc(now, Port(0), fq));
    let tap = Rc::new(RefCell::new(Tap(world.link_of(a, Port(0)), Vec::new())));
    world.observe(Box::new(Rc::clone(&tap)));
    world.run_until(Instant::ZERO + Duration::from_secs(3));
    let packets = &tap.borrow().1;
    assert!(packets.len() > 200);
    let (first, offset) = packets[0];
    // fq's timer is late by its slack, the second segment of two by the time of the first on the wire.
    let late = Duration::from_micros(200);
    for &(at, stamp) in &packets[1..] {
        let departure = stamp - offset + first.as_millis();
        assert!((at - late).as_millis() <= departure && departure <= at.as_millis(), "{at:?}");
    }
}

/// Slower than its pace, the device holds two super-packets, and a third comes only once half of one has left: the
/// socket itself counts as a byte of its limit, which is two.
#[test]
fn less_than_three_super_packets_wait_below_a_slow_sender() {
    let (mut world, a, sender) = paced_sender(Rate::from_bits_per_sec(500_000));
    let mut most = 0;
    for tick in 1..3_000 {
        world.run_until(Instant::ZERO + Duration::from_millis(tick));
        let socket = world.report(sender).socket.expect("connected");
        let connection = world.host(a).tcp_connection(socket).expect("open");
        most = most.max(connection.wmem_alloc());
    }
    assert_eq!(most, (896 + 2 * 1_448) * 5 / 2);
}
