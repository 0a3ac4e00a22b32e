//! Applications over TCP: what they promise about bytes and times.

use apps::{
    App, AppReport, Cbr, Connect, Exchange, Ping, QueryClient, RequestClient, ResponseServer,
    TcpSend, TcpSink, UdpEcho,
};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use datapath::host::SharedBuffer;
use datapath::node::Port;
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::{Handle, Sched};
use datapath::tcp::config::TcpConfig;
use datapath::tcp::info::BriefInfo;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, NodeId};
use sim::record::Fingerprint;
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

struct Net {
    world: World,
    a: NodeId,
    b: NodeId,
    from: SocketAddr,
    to: SocketAddr,
}

impl Net {
    /// A - R - B with 20 Mbit/s and 10 ms between R and B.
    fn new() -> Self {
        let mut net = Topology::new();
        let (a, r, b) = (net.host("A"), net.router("R"), net.host("B"));
        net.wire(a, r, LinkConfig::new(Rate::from_mbit(1000), Duration::from_micros(100)));
        net.wire(r, b, LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(10)));
        let from = SocketAddr::new(net.address(a).expect("wired"), 0);
        let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
        Self { world: net.build(1).expect("possible"), a, b, from, to }
    }

    fn run(&mut self, client: impl App + 'static, server: impl App + 'static) -> [AppReport; 2] {
        let server = self.world.add_app(self.b, Box::new(server), ms(0), None);
        let client = self.world.add_app(self.a, Box::new(client), ms(100), None);
        self.world.run_until(ms(60_000));
        [self.world.report(client), self.world.report(server)]
    }
}

fn tcp() -> TcpConfig {
    TcpConfig::default()
}

#[test]
fn a_limited_transfer_arrives_whole_and_closes() {
    let mut net = Net::new();
    let sender = TcpSend::bulk(net.from, net.to, tcp()).limit(3_000_000);
    let sink = TcpSink::new(net.to, tcp());
    let [sent, received] = net.run(sender, sink);
    assert_eq!((sent.sent_bytes, received.received_bytes), (3_000_000, 3_000_000));
    let finished = received.finished.expect("the sink saw the end");
    assert!(finished > ms(100 + 1200) && finished < ms(100 + 1800), "{finished:?}");
    assert!(sent.finished.expect("closed") >= finished);
}

#[test]
fn chunks_come_with_their_gaps() {
    let mut net = Net::new();
    let gap = Duration::from_millis(500);
    let sender = TcpSend::bulk(net.from, net.to, tcp()).chunks(10_000, gap).limit(50_000);
    let sink = TcpSink::new(net.to, tcp());
    let [sent, received] = net.run(sender, sink);
    assert_eq!((sent.sent, received.received_bytes), (5, 50_000));
    let last = received.last_received.expect("some");
    assert!(last > ms(100 + 4 * 500) && last < ms(100 + 4 * 500 + 100), "{last:?}");
}

#[test]
fn an_application_that_is_off_half_of_the_time_sends_about_half() {
    let mut net = Net::new();
    let second = Duration::from_secs(1);
    // A large send buffer would go on sending while the application is off.
    let config = TcpConfig { send_buffer: NonZeroU32::new(100_000), ..tcp() };
    let sender = TcpSend::bulk(net.from, net.to, config).on_off(second, second);
    let sender = net.world.add_app(net.a, Box::new(sender), ms(0), Some(ms(20_000)));
    let sink = net.world.add_app(net.b, Box::new(TcpSink::new(net.to, tcp())), ms(0), None);
    net.world.run_until(ms(60_000));
    let (sent, received) = (net.world.report(sender), net.world.report(sink));
    assert_eq!(sent.sent_bytes, received.received_bytes);
    let full = 20 * 20_000_000 / 8;
    assert!((full / 3..full * 3 / 4).contains(&received.received_bytes), "{received:?}");
}

#[test]
fn what_is_asked_often_is_what_the_whole_reports_say() {
    let mut net = Net::new();
    let bulk = TcpSend::bulk(net.from, net.to, tcp());
    let sender = net.world.add_app(net.a, Box::new(bulk), ms(5), None);
    let sink = net.world.add_app(net.b, Box::new(TcpSink::new(net.to, tcp())), ms(0), None);
    assert_eq!(net.world.app(sender).socket(), None, "it has not begun");
    for at in (10..4_000).step_by(70) {
        net.world.run_until(ms(at));
        let report = net.world.report(sender);
        assert_eq!(net.world.app(sender).socket(), report.socket);
        assert_eq!(net.world.app(sink).received_bytes(), net.world.report(sink).received_bytes);
        let host = net.world.host(net.a);
        let socket = report.socket.expect("it has begun");
        let info = host.tcp_info(net.world.now(), socket).expect("open");
        let brief = host.tcp_connection(socket).expect("open").brief_info();
        let whole = BriefInfo {
            unacked: info.unacked,
            rtt: info.rtt,
            snd_ssthresh: info.snd_ssthresh,
            snd_cwnd: info.snd_cwnd,
            total_retrans: info.total_retrans,
            total_rto: info.total_rto,
        };
        assert_eq!(brief, whole);
    }
}

#[test]
fn requests_are_answered_one_by_one() {
    let mut net = Net::new();
    let exchange = Exchange { request: 200, response: 30_000 };
    let think = Duration::from_millis(50);
    let client = RequestClient::new(net.from, net.to, tcp(), exchange, think, 20);
    let server = ResponseServer::new(net.to, tcp(), exchange);
    let [asked, answered] = net.run(client, server);
    assert_eq!((asked.sent, asked.received, answered.received), (20, 20, 20));
    assert_eq!(asked.received_bytes, 20 * 30_000);
    assert_eq!(answered.sent_bytes, asked.received_bytes);
    let round_trip = Duration::from_micros(20_200);
    assert!(asked.round_trips.iter().all(|(_, took)| *took > round_trip));
    assert!(asked.finished.is_some() && answered.finished.is_some());
}

/// A query is answered when the slowest server has answered; the next is asked then.
#[test]
fn a_query_waits_for_every_server() {
    let mut net = Net::new();
    let exchange = Exchange { request: 200, response: 30_000 };
    let think = Duration::from_millis(50);
    let far = |port| SocketAddr::new(net.to.ip(), port);
    let servers = [far(5_001), far(5_002), far(5_003)];
    for at in servers {
        let server = ResponseServer::new(at, tcp(), exchange);
        net.world.add_app(net.b, Box::new(server), ms(0), None);
    }
    let ends = servers.map(|at| (net.from, at)).to_vec();
    let client = QueryClient::new(ends, tcp(), exchange, think, 10);
    let client = net.world.add_app(net.a, Box::new(client), ms(100), None);
    net.world.run_until(ms(60_000));
    let report = net.world.report(client);
    assert_eq!((report.sent, report.received), (10, 10));
    assert_eq!(report.received_bytes, 10 * 3 * 30_000);
    // 90 kB at 20 Mbit/s, and a round trip.
    let least = Duration::from_millis(36 + 20);
    assert!(report.round_trips.iter().all(|(_, took)| *took > least), "{report:?}");
    assert!(report.finished.is_some());
}

/// What goes to one of two servers is lost once it has connected; the other one's answer arrives.
#[test]
fn a_query_that_lost_a_server_is_not_answered() {
    let mut net = Topology::new();
    let (a, b, c) = (net.host("A"), net.host("B"), net.host("C"));
    let way = LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(10));
    let rules = vec!["f every 1 1 drop".parse().expect("a rule")];
    net.wire(a, b, way.clone());
    net.wire_with(a, c, LinkConfig { rules, ..way.clone() }, way);
    let exchange = Exchange { request: 100, response: 8_700_000 };
    let [near, far] = [b, c].map(|node| net.address(node).expect("wired"));
    let mut world = net.build(1).expect("possible");
    let mut ends = Vec::new();
    for (node, at) in [(b, near), (c, far)] {
        let at = SocketAddr::new(at, 5_001);
        world.add_app(node, Box::new(ResponseServer::new(at, tcp(), exchange)), ms(0), None);
        let from = world.host(a).source_address(at.ip()).expect("a route");
        ends.push((SocketAddr::new(from, 0), at));
    }
    let mut config = tcp();
    config.sysctl.tcp_retries2 = 3;
    let client = QueryClient::new(ends, config, exchange, Duration::ZERO, 10);
    let client = world.add_app(a, Box::new(client), ms(100), None);
    world.run_until(ms(60_000));
    let report = world.report(client);
    assert_eq!((report.sent, report.received, report.round_trips.len()), (1, 0, 0));
    assert_eq!(report.received_bytes, 8_700_000, "{report:?}");
    assert!(report.last_received > report.finished, "{report:?}");
}

/// Of ten first SYNs every third is lost; the second SYN, a second later, does not count.
#[test]
fn attempts_count_if_the_first_syn_is_answered() {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let way = LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(10));
    let rules = ["f syn 3 drop", "f syn 6 drop"].map(|rule| rule.parse().expect("a rule")).to_vec();
    net.wire_with(a, b, LinkConfig { rules, ..way.clone() }, way);
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    world.add_app(b, Box::new(TcpSink::new(to, tcp())), ms(0), None);
    let connect = Connect::new(from, to, tcp(), Duration::from_millis(1_500), 10);
    let connect = world.add_app(a, Box::new(connect), ms(100), None);
    world.run_until(ms(60_000));
    let report = world.report(connect);
    assert_eq!((report.sent, report.received), (10, 8));
    assert!(report.round_trips.iter().all(|(_, took)| took.as_millis() == 20), "{report:?}");
    assert!(report.finished.is_some());
}

/// Two busy ports of a switch with shared memory: each queue gets what alpha allows, and what does
/// not fit is dropped for that reason.
#[test]
fn ports_share_packet_memory() {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let (x, y, r) = (net.host("X"), net.host("Y"), net.router("R"));
    let fast = LinkConfig::new(Rate::from_mbit(1_000), Duration::from_micros(10));
    let slow = LinkConfig::new(Rate::from_mbit(10), Duration::from_micros(10));
    net.wire(a, r, fast.clone());
    net.wire(b, r, fast);
    let out = [net.wire(r, x, slow.clone()), net.wire(r, y, slow)];
    for wire in out {
        let sched = Sched::new(Handle::NONE, Fifo::new(FifoKind::Bytes(1_000_000)));
        net.wire_mut(wire).a.qdisc = Some(Box::new(sched));
    }
    let ends: Vec<SocketAddr> =
        [a, b, x, y].map(|node| SocketAddr::new(net.address(node).expect("wired"), 9)).to_vec();
    let mut world = net.build(1).expect("possible");
    world.with_host(r, |_, host| host.set_shared_buffer(Some(SharedBuffer::new(300_000, (1, 1)))));
    for (node, from, to) in [(a, ends[0], ends[2]), (b, ends[1], ends[3])] {
        let flood = Cbr::new(from, to, 1_000, Duration::from_micros(100));
        world.add_app(node, Box::new(flood), ms(0), None);
    }
    world.run_until(ms(500));
    let router = world.host(r);
    for port in [Port(2), Port(3)] {
        let bytes = router.port(port).backlog().bytes;
        assert!((98_000..=102_000).contains(&bytes), "a third of the memory each: {bytes}");
    }
    let drops = router.shared_buffer().expect("set").drops;
    assert!(drops > 1_000);
    let refused = [0, 1, 2, 3].map(|port| router.port(Port(port)).refused());
    assert_eq!((refused[0] + refused[1], refused[2] + refused[3]), (0, drops));
    assert!(refused[2].abs_diff(refused[3]) < drops / 10, "two equal ports: {refused:?}");
}

#[test]
fn a_server_that_pauses_gets_everything_later() {
    let mut net = Net::new();
    let sender = TcpSend::bulk(net.from, net.to, tcp()).limit(3_000_000);
    let sink = TcpSink::new(net.to, tcp()).pause(500_000, Duration::from_secs(5));
    let [_, received] = net.run(sender, sink);
    assert_eq!(received.received_bytes, 3_000_000);
    assert!(received.finished.expect("the end") > ms(5_300));
}

/// Runs a client that is stopped while its SYN is on the way, for longer than any timer lasts; gives
/// how many sockets are open at the client and at the server.
fn stopped_while_connecting(client: impl App + 'static, server: impl App + 'static) -> [usize; 2] {
    let mut net = Net::new();
    net.world.add_app(net.b, Box::new(server), ms(0), None);
    net.world.add_app(net.a, Box::new(client), ms(100), Some(ms(105)));
    net.world.run_until(ms(300_000));
    [net.a, net.b].map(|node| net.world.host(node).sockets.len())
}

#[test]
fn an_application_that_is_stopped_while_it_connects_leaves_no_connection_behind() {
    let Net { from, to, .. } = Net::new();
    let listener_only = [0, 1];
    let exchange = Exchange { request: 100, response: 1_000 };
    let think = Duration::from_millis(1);

    let sender = TcpSend::bulk(from, to, tcp());
    assert_eq!(stopped_while_connecting(sender, TcpSink::new(to, tcp())), listener_only);

    let client = RequestClient::new(from, to, tcp(), exchange, think, 10);
    let server = ResponseServer::new(to, tcp(), exchange);
    assert_eq!(stopped_while_connecting(client, server), listener_only);

    let client = QueryClient::new(vec![(from, to)], tcp(), exchange, think, 10);
    let server = ResponseServer::new(to, tcp(), exchange);
    assert_eq!(stopped_while_connecting(client, server), listener_only);

    let client = Connect::new(from, to, tcp(), think, 10);
    assert_eq!(stopped_while_connecting(client, TcpSink::new(to, tcp())), listener_only);
}

#[test]
fn a_query_client_closes_its_connections_in_the_end() {
    let mut net = Net::new();
    let exchange = Exchange { request: 100, response: 1_000 };
    let client = QueryClient::new(vec![(net.from, net.to)], tcp(), exchange, Duration::ZERO, 3);
    let server = ResponseServer::new(net.to, tcp(), exchange);
    let [asked, _] = net.run(client, server);
    net.world.run_until(ms(200_000));
    assert_eq!((asked.received, net.world.host(net.a).sockets.len()), (3, 0));
}

#[test]
fn an_attempt_that_is_refused_was_not_answered() {
    let mut net = Net::new();
    let elsewhere = SocketAddr::new(net.to.ip(), 1);
    let client = Connect::new(net.from, net.to, tcp(), Duration::from_secs(1), 3);
    let [tried, _] = net.run(client, TcpSink::new(elsewhere, tcp()));
    assert_eq!((tried.sent, tried.received), (3, 0));
}

#[test]
fn a_sink_that_is_stopped_in_its_pause_reads_what_has_come() {
    let mut net = Net::new();
    let sink = TcpSink::new(net.to, tcp()).pause(100_000, Duration::from_secs(30));
    let sink = net.world.add_app(net.b, Box::new(sink), ms(0), Some(ms(5_000)));
    let sender = TcpSend::bulk(net.from, net.to, tcp()).limit(3_000_000);
    net.world.add_app(net.a, Box::new(sender), ms(100), None);
    net.world.run_until(ms(20_000));
    let report = net.world.report(sink);
    assert!(report.received_bytes == 3_000_000 && report.finished.is_some(), "{report:?}");
}

#[test]
fn rrul_loads_both_ways_and_probes_meanwhile() {
    let mut net = Net::new();
    let (start, begin, end, stop) = (ms(0), ms(5_000), Some(ms(15_000)), Some(ms(20_000)));
    let mut both = |from: (NodeId, SocketAddr), to: (NodeId, SocketAddr), tos: u8| {
        let config = TcpConfig { tos, ..tcp() };
        let remote = SocketAddr::new(to.1.ip(), 12_865 + u16::from(tos));
        let sink = Box::new(TcpSink::new(remote, config.clone()));
        let sink = net.world.add_app(to.0, sink, start, None);
        let sender = Box::new(TcpSend::bulk(SocketAddr::new(from.1.ip(), 0), remote, config));
        net.world.add_app(from.0, sender, begin, end);
        sink
    };
    let (a, b) = ((net.a, net.from), (net.b, net.to));
    let classes = [0, 0x20, 0xa0, 0xb8];
    let sinks = [classes.map(|tos| both(a, b, tos)), classes.map(|tos| both(b, a, tos))];
    let every = Duration::from_millis(200);
    let probes = [0x20, 0, 0xb8].map(|tos: u8| {
        let at = |end: SocketAddr| SocketAddr::new(end.ip(), 13_000 + u16::from(tos));
        let echo = Box::new(UdpEcho::new(at(net.to)).tos(tos));
        net.world.add_app(net.b, echo, start, None);
        let ping = Box::new(Ping::udp(at(net.from), at(net.to), 56, every).tos(tos));
        net.world.add_app(net.a, ping, start, stop)
    });
    let ping = Box::new(Ping::icmp(net.to.ip(), 56, every));
    let ping = net.world.add_app(net.a, ping, start, stop);
    net.world.run_until(ms(30_000));
    let total = |apps: &[AppId]| -> u64 {
        apps.iter().map(|app| net.world.report(*app).received_bytes).sum()
    };
    let full = 10 * 20_000_000 / 8;
    for sinks in sinks {
        assert!(total(&sinks) > full / 2, "{} of {full}", total(&sinks));
    }
    for ping in probes.into_iter().chain([ping]) {
        let report = net.world.report(ping);
        assert!(report.received > 20, "{report:?}");
    }
}

/// TCP's own choices (initial sequence numbers among them) come from seeds as well.
#[test]
fn two_runs_are_the_same() {
    let run = || {
        let mut net = Net::new();
        let print = Rc::new(RefCell::new(Fingerprint::default()));
        net.world.observe(Box::new(Rc::clone(&print)));
        let sender = TcpSend::bulk(net.from, net.to, tcp()).limit(1_000_000);
        net.run(sender, TcpSink::new(net.to, tcp()));
        let print = print.borrow();
        (print.hash, print.arrivals)
    };
    assert_eq!(run(), run());
}
