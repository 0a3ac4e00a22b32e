//! Paths that take smaller packets in the middle than at their ends: TCP finds out or has its
//! segments cut, datagrams and echo requests arrive whole.

use apps::{AppReport, Ping, TcpSend, TcpSink, UdpEcho};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::{Network, Packet};
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::record::Observer;
use sim::topology::Topology;
use sim::world::World;
use std::cell::RefCell;
use std::rc::Rc;

/// A - 1500 - R1 - `mtu` - R2 - 1500 - B, 10 ms each way.
fn narrow(mtu: u32) -> (World, NodeId, NodeId, SocketAddr, SocketAddr) {
    let mut net = Topology::new();
    let (a, r1) = (net.host("A"), net.router("R1"));
    let (r2, b) = (net.router("R2"), net.host("B"));
    let access = LinkConfig::new(Rate::from_mbit(100), Duration::ZERO);
    net.wire(a, r1, access.clone());
    let middle = LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(10));
    let middle = net.wire(r1, r2, middle);
    net.wire_mut(middle).a.interface.mtu = mtu;
    net.wire_mut(middle).b.interface.mtu = mtu;
    net.wire(r2, b, access);
    let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
    let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
    (net.build(1).expect("possible"), a, b, local, remote)
}

const START: Instant = Instant::from_nanos(1_000_000_000);

/// 200 kB of TCP within ten seconds of its start.
fn transfer(mtu: u32) -> AppReport {
    let (mut world, a, b, local, remote) = narrow(mtu);
    let sink = TcpSink::new(remote, TcpConfig::default());
    let sink = world.add_app(b, Box::new(sink), Instant::ZERO, None);
    let sender = TcpSend::bulk(local, remote, TcpConfig::default()).limit(200_000);
    world.add_app(a, Box::new(sender), START, None);
    world.run_until(START + Duration::from_secs(10));
    world.report(sink)
}

/// Less than `ip_rt_min_pmtu` (552) is not believed: the sender stays at 552 and no longer forbids
/// routers to cut its packets.
#[test]
fn tcp_gets_through_whatever_the_path_takes() {
    for mtu in [1499, 1000, 552, 551, 500, 296, 90, 68] {
        assert_eq!(transfer(mtu).received_bytes, 200_000, "MTU {mtu}");
    }
}

/// The route to B takes less from the time of `change` on, while the handshake is under way because
/// the first segment `lost` of it does not arrive.
fn lowered_while_connecting(lost: LinkId, change: Instant) -> AppReport {
    let (mut world, a, b, local, remote) = narrow(9_000);
    for (node, port) in [(a, 0), (b, 0)] {
        world.with_host(node, |_, host| host.port_config_mut(Port(port)).mtu = 9_000);
    }
    let sink =
        world.add_app(b, Box::new(TcpSink::new(remote, TcpConfig::default())), Instant::ZERO, None);
    let sender = TcpSend::bulk(local, remote, TcpConfig::default()).limit(200_000);
    world.add_app(a, Box::new(sender), START, None);
    world.set_link_up_at(Instant::ZERO, lost, false);
    world.set_link_up_at(START + Duration::from_millis(100), lost, true);
    world.run_until(change);
    for (node, port) in [(a, 0), (b, 0)] {
        world.with_host(node, |_, host| host.port_config_mut(Port(port)).mtu = 1_500);
    }
    world.run_until(START + Duration::from_secs(10));
    world.report(sink)
}

#[test]
fn an_mtu_that_is_lowered_while_a_connection_is_being_opened_holds_for_it() {
    let to_b = LinkId(0);
    let to_a = LinkId(1);
    for lost in [to_b, to_a] {
        for millis in [500, 1_005, 1_015, 1_025] {
            let change = START + Duration::from_millis(millis);
            let report = lowered_while_connecting(lost, change);
            assert_eq!(report.received_bytes, 200_000, "{lost:?} lost, changed at {change:?}");
        }
    }
}

/// The sizes of what A sends, and whether routers may cut it.
struct Sizes {
    link: LinkId,
    sent: Vec<(u32, bool)>,
}

impl Observer for Sizes {
    fn sent(&mut self, _now: Instant, link: LinkId, packet: &Packet) {
        if let (true, Network::Ipv4(ip)) = (link == self.link, packet.network) {
            self.sent.push((packet.meta.len - 14, ip.dont_fragment));
        }
    }
}

/// Ten probes of `size` bytes through `mtu`: how many were answered, and what A sent.
fn probes(mtu: u32, size: u32, udp: bool) -> (AppReport, Vec<(u32, bool)>) {
    let (mut world, a, b, local, remote) = narrow(mtu);
    let interval = Duration::from_millis(100);
    let ping = if udp {
        world.add_app(b, Box::new(UdpEcho::new(remote)), Instant::ZERO, None);
        Ping::udp(local, remote, size, interval)
    } else {
        Ping::icmp(remote.ip(), size, interval)
    };
    let link = world.link_of(a, Port(0));
    let sizes = Rc::new(RefCell::new(Sizes { link, sent: Vec::new() }));
    world.observe(Box::new(Rc::clone(&sizes)));
    let end = START + Duration::from_millis(950);
    let app = world.add_app(a, Box::new(ping), START, Some(end));
    world.run_until(end + Duration::from_secs(2));
    let sent = sizes.borrow().sent.clone();
    (world.report(app), sent)
}

#[test]
fn probes_larger_than_their_path_arrive_in_fragments() {
    for udp in [false, true] {
        // Larger than the first link already: cut at once, DF would forbid it.
        let (report, sent) = probes(1500, 3000, udp);
        assert_eq!((report.sent, report.round_trips.len()), (10, 10), "udp {udp}");
        assert_eq!(sent[..3], [(1500, false), (1500, false), (3000 + 8 - 2 * 1480 + 20, false)]);
        // Only the middle is too narrow: the first is lost with an ICMP error, the rest is cut.
        let (report, sent) = probes(1000, 1400, udp);
        // A datagram's answer asks the path as well, an echo reply does not.
        let answered = if udp { 8 } else { 9 };
        assert_eq!((report.sent, report.round_trips.len()), (10, answered), "udp {udp}");
        assert_eq!(sent[0], (1428, true));
        assert_eq!(sent[1..3], [(996, false), (1428 - 976, false)], "udp {udp}");
        // What is not believed to be so narrow is cut by the router.
        let (report, sent) = probes(300, 500, udp);
        assert_eq!((report.sent, report.round_trips.len()), (10, answered), "udp {udp}");
        assert_eq!(sent[..2], [(528, true), (528, false)], "udp {udp}");
    }
}
