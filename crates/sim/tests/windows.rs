//! A world that is worked off in windows ends as one that goes event by event.

use core::fmt::Write as _;
use core::net::SocketAddr;
use datapath::host::Offloads;
use datapath::node::Port;
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::{Handle, Qdisc as _, Sched};
use datapath::rng::Ratio;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use sim::app::{Cbr, Exchange, Ping, RequestClient, ResponseServer, TcpSend, TcpSink, UdpSink};
use sim::link::{Chances, LinkConfig, NodeId};
use sim::topology::Topology;
use sim::windows::WindowUse;
use sim::world::{AppId, World};

fn us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// What is drawn.
#[derive(Clone, Debug)]
struct Plan {
    pairs: u32,
    /// All that happens is a nanosecond before a window ends, or at its end.
    aligned: bool,
    access_us: u64,
    middle_us: u64,
    middle_mbit: Option<u64>,
    queue: u32,
    gso: bool,
    gro: bool,
    loss: u32,
    jitter_us: u64,
    /// When the middle goes down and comes up again, µs.
    down: Option<(u64, u64)>,
    /// Where one run ends and the next begins, µs.
    stops: Vec<u64>,
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let shape =
        (1u32..9, any::<bool>(), 20u64..900, 20u64..3_000, prop::option::of(5u64..200), 3u32..100);
    let trouble = (any::<bool>(), any::<bool>(), 0u32..3, 0u64..300);
    let down = prop::option::of((0u64..200_000, 0u64..100_000));
    let stops = prop::collection::vec(1u64..300_000, 0..6);
    (shape, trouble, down, stops).prop_map(|(shape, trouble, down, mut stops)| {
        let (pairs, aligned, access_us, middle_us, middle_mbit, queue) = shape;
        let (gso, gro, loss, jitter_us) = trouble;
        let (middle_us, middle_mbit, jitter_us) =
            if aligned { (access_us, None, 0) } else { (middle_us, middle_mbit, jitter_us) };
        let grid = if aligned { access_us } else { 1 };
        for stop in &mut stops {
            *stop = stop.next_multiple_of(grid);
        }
        stops.sort_unstable();
        let down = down.map(|(from, span)| {
            let from = from.next_multiple_of(grid);
            (from, (from + span).next_multiple_of(grid))
        });
        Plan {
            pairs,
            aligned,
            access_us,
            middle_us,
            middle_mbit,
            queue,
            gso,
            gro,
            loss,
            jitter_us,
            down,
            stops,
        }
    })
}

impl Plan {
    fn build(&self) -> (World, Vec<AppId>) {
        let mut net = Topology::new();
        let (near, far) = (net.router("near"), net.router("far"));
        let mut access =
            LinkConfig::new(Rate::from_mbit(1_000), Duration::from_micros(self.access_us));
        if self.aligned {
            access.rate = None;
        }
        let middle = LinkConfig {
            rate: self.middle_mbit.map(Rate::from_mbit),
            chances: Chances {
                loss: Ratio::from_millionths(u64::from(self.loss) * 10_000),
                jitter: Duration::from_micros(self.jitter_us),
                jitter_reorders: true,
                ..Chances::default()
            },
            ..LinkConfig::delay(Duration::from_micros(self.middle_us))
        };
        let wire = net.wire(near, far, middle);
        let queue = Fifo::new(FifoKind::Packets(self.queue));
        net.wire_mut(wire).a.qdisc = Some(Sched::new(Handle::new(1, 0), queue));
        let offloads = Offloads { gso: self.gso, tso: false, gro: self.gro };
        let mut ends = Vec::new();
        for pair in 0..self.pairs {
            let (s, r) = (net.host(&format!("s{pair}")), net.host(&format!("r{pair}")));
            for wire in [net.wire(s, near, access.clone()), net.wire(r, far, access.clone())] {
                net.wire_mut(wire).a.interface.offloads = offloads;
            }
            ends.push((s, r));
        }
        let mut world = net.build(3).expect("possible");
        let mut apps = Vec::new();
        for (pair, (s, r)) in (0u16..).zip(ends) {
            let to = |port| SocketAddr::new(net.address(r).expect("wired"), port);
            let from = |port| SocketAddr::new(net.address(s).expect("wired"), port);
            let start = if self.aligned {
                let windows = us((u64::from(pair) + 1) * self.access_us);
                Instant::from_nanos(windows.as_nanos() - u64::from(pair) % 2)
            } else {
                us(u64::from(pair) * 777)
            };
            let tcp = TcpConfig::default;
            let mut add = |node, app, stop| apps.push(world.add_app(node, app, start, stop));
            add(r, Box::new(TcpSink::new(to(5_001), tcp())) as Box<dyn sim::app::App>, None);
            add(s, Box::new(TcpSend::bulk(from(0), to(5_001), tcp())), None);
            match pair % 3 {
                0 => {
                    let exchange = Exchange { request: 200, response: 20_000 };
                    add(r, Box::new(ResponseServer::new(to(80), tcp(), exchange)), None);
                    let think = Duration::from_millis(2);
                    let client = RequestClient::new(from(0), to(80), tcp(), exchange, think, 40);
                    add(s, Box::new(client), None);
                }
                1 => {
                    add(r, Box::new(UdpSink::new(to(7))), None);
                    let cbr = Cbr::new(from(9), to(7), 160, Duration::from_micros(900));
                    add(s, Box::new(cbr), Some(us(150_000)));
                }
                _ => {
                    let ping = Ping::icmp(to(0).ip(), 64, Duration::from_millis(3));
                    add(s, Box::new(ping), None);
                }
            }
        }
        if let Some((from, to)) = self.down {
            let link = world.link_of(NodeId(0), Port(0));
            world.set_link_up_at(us(from), link, false);
            world.set_link_up_at(us(to), link, true);
        }
        (world, apps)
    }

    /// Everything that can be seen of the world at each stop.
    fn run(&self, windows: WindowUse) -> Vec<String> {
        let (mut world, apps) = self.build();
        world.set_window_use(windows);
        let mut seen = Vec::new();
        for stop in self.stops.iter().copied().chain([300_000]) {
            world.run_until(us(stop));
            seen.push(look_at(&world, &apps));
            // Nothing is left of that moment, and nothing comes before its time.
            world.run_until(us(stop));
            seen.push(look_at(&world, &apps));
        }
        seen
    }
}

/// Everything that can be seen of a world.
fn look_at(world: &World, apps: &[AppId]) -> String {
    let mut seen = format!("{:?} {:?} heard {}\n", world.now(), world.stats(), world.all_heard());
    for (id, link) in world.links() {
        writeln!(seen, "{:?} in flight {}", link.stats, world.in_flight(id)).expect("memory");
    }
    for node in 0..world.node_count() as u32 {
        let host = world.host(NodeId(node));
        writeln!(seen, "node {node}: {:?} {:?}", host.stats, host.tcp_mib()).expect("memory");
        for port in 0..host.port_count() as u16 {
            let port = host.port(Port(port));
            writeln!(seen, "{:?} {:?} {:?}", port.stats, port.backlog(), port.qdisc().stats())
                .expect("memory");
        }
        for tcp in host.tcp_connections() {
            writeln!(seen, "{:?}", tcp.info(world.now())).expect("memory");
        }
    }
    for app in apps {
        writeln!(seen, "{:?}", world.report(*app)).expect("memory");
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn windows_change_nothing_that_can_be_seen(plan in any_plan()) {
        let one_by_one = plan.run(WindowUse::Never);
        let in_windows = plan.run(WindowUse::Always);
        for (one, other) in one_by_one.iter().zip(&in_windows) {
            for (one, other) in one.lines().zip(other.lines()) {
                prop_assert_eq!(one, other);
            }
        }
        prop_assert_eq!(one_by_one, in_windows);
    }
}

/// Bursts of eight senders meet on links of one kind: half of the packets overtake others.
fn incast() -> (World, Vec<AppId>) {
    let mut net = Topology::new();
    let kind = LinkConfig::new(Rate::from_mbit(10_000), Duration::from_micros(25));
    let near = net.router("near");
    let receiver = net.host("receiver");
    let middle = net.wire(near, receiver, kind.clone());
    let queue = Fifo::new(FifoKind::Packets(100));
    net.wire_mut(middle).a.qdisc = Some(Sched::new(Handle::new(1, 0), queue));
    let senders: Vec<_> = (0..8).map(|flow| net.host(&format!("s{flow}"))).collect();
    for sender in &senders {
        net.wire(*sender, near, kind.clone());
    }
    let mut world = net.build(1).expect("a sound topology");
    let address = |node, port| SocketAddr::new(net.address(node).expect("it has one"), port);
    let tcp = TcpConfig::default();
    let mut apps = Vec::new();
    for (flow, sender) in (0..).zip(&senders) {
        let to = address(receiver, 5_001 + flow);
        let sink = Box::new(TcpSink::new(to, tcp.clone()));
        apps.push(world.add_app(receiver, sink, Instant::ZERO, None));
        let send = Box::new(TcpSend::bulk(address(*sender, 40_001), to, tcp.clone()));
        apps.push(world.add_app(*sender, send, us(10 * u64::from(flow)), None));
    }
    (world, apps)
}

#[test]
fn windows_begin_where_packets_overtake_each_other() {
    let run = |windows| {
        let (mut world, apps) = incast();
        world.set_window_use(windows);
        world.run_until(us(20_000));
        (world.is_in_windows(), look_at(&world, &apps))
    };
    let (_, one_by_one) = run(WindowUse::Never);
    let (are, seen) = run(WindowUse::WhenUseful);
    assert!(are, "half of the packets overtake others");
    for (one, other) in one_by_one.lines().zip(seen.lines()) {
        assert_eq!(one, other);
    }
}
