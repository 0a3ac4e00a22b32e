//! Worlds whose packets carry bytes: what is read is what was written, whatever links do, and all that
//! happens is what happens with lengths alone.

use apps::{
    App, AppReport, Cbr, Compared, Exchange, Ping, QueryClient, RequestClient, ResponseServer,
    Streams, TcpSend, TcpSink, UdpEcho, UdpSink,
};
use core::net::SocketAddr;
use datapath::host::Offloads;
use datapath::rng::Ratio;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use sim::link::{Chances, LinkConfig, NodeId};
use sim::record::Fingerprint;
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::rc::Rc;

/// What links do to packets, and how hosts send.
#[derive(Clone, Copy, Debug)]
struct Setting {
    seed: u64,
    there: Chances,
    back: Chances,
    mtu: u32,
    offloads: Offloads,
    threads: usize,
    file: u64,
    ecn: bool,
}

/// What came of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    reports: Vec<AppReport>,
    arrivals: (u64, u64),
    compared: Option<Compared>,
}

/// Long enough for everything to come through, or to be given up.
const END: Instant = Instant::from_nanos(600_000_000_000);

struct Net {
    world: World,
    ends: [(NodeId, SocketAddr); 2],
    apps: Vec<AppId>,
    next_port: u16,
}

impl Net {
    fn new(setting: &Setting) -> Self {
        let mut net = Topology::new();
        let (a, r, b) = (net.host("A"), net.router("R"), net.host("B"));
        net.wire(a, r, LinkConfig::new(Rate::from_mbit(1_000), Duration::from_micros(100)));
        let link = |chances| LinkConfig {
            chances,
            ..LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(5))
        };
        let wire = net.wire_with(r, b, link(setting.there), link(setting.back));
        let wire = net.wire_mut(wire);
        for end in [&mut wire.a, &mut wire.b] {
            end.interface.mtu = setting.mtu;
            end.interface.offloads = setting.offloads;
        }
        let ends = [a, b].map(|node| (node, SocketAddr::new(net.address(node).expect("wired"), 0)));
        let mut world = net.build(setting.seed).expect("possible");
        world.set_threads(setting.threads);
        Self { world, ends, apps: Vec::new(), next_port: 1_000 }
    }

    /// An address of an end that nobody has yet.
    fn place(&mut self, end: usize) -> SocketAddr {
        self.next_port += 1;
        SocketAddr::new(self.ends[end].1.ip(), self.next_port)
    }

    fn add(&mut self, end: usize, app: impl App + 'static, start: u64, stop: Option<u64>) {
        let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
        let node = self.ends[end].0;
        self.apps.push(self.world.add_app(node, Box::new(app), ms(start), stop.map(ms)));
    }

    /// One application of each kind.
    fn add_all(&mut self, setting: &Setting) {
        let mut tcp = TcpConfig::default();
        tcp.sysctl.tcp_ecn = setting.ecn.into();
        let exchange = Exchange { request: 700, response: 9_000 };
        let [a, b] = [self.place(0), self.place(1)];
        self.add(1, TcpSink::new(b, tcp.clone()), 0, None);
        self.add(0, TcpSend::bulk(a, b, tcp.clone()).limit(setting.file), 10, None);
        let [a, b] = [self.place(0), self.place(1)];
        self.add(0, TcpSink::new(a, tcp.clone()).pause(5_000, Duration::from_millis(300)), 0, None);
        let chunks = TcpSend::bulk(b, a, tcp.clone()).chunks(1_777, Duration::from_millis(7));
        self.add(1, chunks.limit(40_000), 10, None);
        let [a, b] = [self.place(0), self.place(1)];
        self.add(1, ResponseServer::new(b, tcp.clone(), exchange), 0, None);
        let think = Duration::from_millis(3);
        self.add(0, RequestClient::new(a, b, tcp.clone(), exchange, think, 9), 10, None);
        let [a, b] = [self.place(0), self.place(1)];
        self.add(0, ResponseServer::new(a, tcp.clone(), exchange), 0, None);
        self.add(1, QueryClient::new(vec![(b, a)], tcp, exchange, think, 5), 10, None);
        let [a, b] = [self.place(0), self.place(1)];
        self.add(1, UdpSink::new(b), 0, None);
        // The third in fragments, and one without room for its label.
        self.add(0, Cbr::new(a, b, 1_200, Duration::from_millis(9)), 10, Some(900));
        let a = self.place(0);
        self.add(0, Cbr::new(a, b, 4_000, Duration::from_millis(31)), 10, Some(900));
        let [a, b] = [self.place(0), self.place(1)];
        self.add(1, UdpEcho::new(b), 0, None);
        self.add(0, Ping::udp(a, b, 64, Duration::from_millis(20)), 10, Some(900));
        self.add(0, Ping::icmp(b.ip(), 64, Duration::from_millis(20)), 10, Some(900));
    }
}

fn run(setting: &Setting, bytes: bool) -> Outcome {
    let mut net = Net::new(setting);
    net.add_all(setting);
    let print = Rc::new(RefCell::new(Fingerprint::default()));
    net.world.observe(Box::new(Rc::clone(&print)));
    if bytes {
        net.world.carry_bytes();
    }
    net.world.run_until(END);
    let streams = net.world.streams().map(|(_, streams)| streams);
    let compared = Streams::compare(streams).expect("what is read is what was written");
    let hosts = (0..net.world.node_count()).map(|node| net.world.host(NodeId(node as u32)));
    let held: usize = hosts.map(|host| host.frames().1).sum();
    assert_eq!(held, 0, "frames are held by nobody at the end");
    let arrivals = (print.borrow().arrivals, print.borrow().hash);
    let reports = net.apps.iter().map(|app| net.world.report(*app)).collect();
    Outcome { reports, arrivals, compared: bytes.then_some(compared) }
}

fn chances() -> impl Strategy<Value = Chances> {
    let rate = || prop_oneof![2 => Just(0u64), 1 => 1u64..60_000].prop_map(Ratio::from_millionths);
    let times = (0u64..20, 0u64..20, any::<bool>());
    (rate(), rate(), rate(), rate(), times).prop_map(
        |(loss, corruption, duplication, reordering, (by, jitter, jitter_reorders))| Chances {
            loss,
            corruption,
            duplication,
            reordering,
            reorder_by: Duration::from_millis(by),
            jitter: Duration::from_millis(jitter),
            jitter_reorders,
            ..Chances::default()
        },
    )
}

fn settings() -> impl Strategy<Value = Setting> {
    let offloads = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(gso, tso, gro)| Offloads { gso, tso, gro });
    let host = (576u32..2_000, offloads, any::<bool>());
    (any::<u64>(), chances(), chances(), host, 1usize..3, 0u64..400_000).prop_map(
        |(seed, there, back, (mtu, offloads, ecn), threads, file)| Setting {
            seed,
            there,
            back,
            mtu,
            offloads,
            threads,
            file,
            ecn,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Applications of every kind, under every impairment: the file that was sent is the one that is read,
    /// and the run is the run with lengths alone.
    #[test]
    fn what_is_read_is_what_was_written(setting in settings()) {
        let with = run(&setting, true);
        let without = run(&setting, false);
        prop_assert_eq!(&with.reports, &without.reports);
        prop_assert_eq!(with.arrivals, without.arrivals);
        let [sink, sender] = [&with.reports[0], &with.reports[1]];
        prop_assert_eq!((sender.sent_bytes, sink.received_bytes), (setting.file, setting.file));
        // The file, what comes in chunks, two dialogues of which each end reads.
        let compared = with.compared.expect("it carried bytes");
        let streams = 5 + u64::from(setting.file > 0);
        prop_assert_eq!((compared.streams, compared.whole), (streams, streams));
        let read: u64 = with.reports[..8].iter().map(|report| report.received_bytes).sum();
        prop_assert_eq!(compared.bytes, read);
        // A probe that comes back twice counts once.
        let datagrams = [8, 11, 12].map(|app: usize| with.reports[app].received);
        prop_assert!(compared.datagrams >= datagrams.iter().sum::<u64>() && datagrams[0] > 0);
    }
}
