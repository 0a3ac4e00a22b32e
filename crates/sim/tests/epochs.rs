//! A world that is worked off group by group, by several threads, shows the same as one that goes
//! event by event.

use apps::{Cbr, Exchange, Ping, RequestClient, ResponseServer, TcpSend, TcpSink, UdpSink};
use core::fmt::Write as _;
use core::net::SocketAddr;
use datapath::host::{Offloads, SharedBuffer};
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::{Handle, Qdisc as _, Sched};
use datapath::reason::Reason;
use datapath::rng::Ratio;
use datapath::tcp::config::TcpConfig;
use datapath::trace::Event;
use datapath::units::{Duration, Instant, Rate};
use pcap::{Snap, Writer};
use proptest::prelude::*;
use sim::capture::{Capture, LinkEnd};
use sim::epoch::Grouping;
use sim::link::{Chances, LinkConfig, LinkId, NodeId};
use sim::record::{DropPlace, Fingerprint, Observer, Watcher};
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::hash::{Hash as _, Hasher as _};
use std::rc::Rc;

fn us(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// What is drawn.
#[derive(Clone, Debug)]
struct Plan {
    pairs: u32,
    /// All that happens is a nanosecond before an epoch ends, or at its end.
    aligned: bool,
    access_us: u64,
    middle_us: u64,
    middle_mbit: Option<u64>,
    queue: u32,
    gso: bool,
    gro: bool,
    loss: u32,
    jitter_us: u64,
    /// Another router stands before the middle, behind a link without delay.
    joined: bool,
    /// Applications of some hosts run late.
    slow_us: Option<u64>,
    /// When the middle goes down and comes up again, µs.
    down: Option<(u64, u64)>,
    /// Where one run ends and the next begins, µs.
    stops: Vec<u64>,
    /// Both routers have one buffer for all their ports, bytes.
    buffer: Option<u32>,
    threads: usize,
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let shape =
        (1u32..9, any::<bool>(), 20u64..900, 20u64..3_000, prop::option::of(5u64..200), 3u32..100);
    let late = prop::option::of(1u64..2_000);
    let impairments = (any::<bool>(), any::<bool>(), 0u32..3, 0u64..300, any::<bool>(), late);
    let down = prop::option::of((0u64..80_000, 0u64..40_000));
    let stops = prop::collection::vec(1u64..120_000, 0..6);
    let buffer = prop::option::of(20_000u32..400_000);
    let threads = prop::sample::select(vec![2, 3, 8]);
    let more = (stops, buffer, threads);
    (shape, impairments, down, more).prop_map(|(shape, impairments, down, more)| {
        let (mut stops, buffer, threads) = more;
        let (pairs, aligned, access_us, middle_us, middle_mbit, queue) = shape;
        let (gso, gro, loss, jitter_us, joined, slow_us) = impairments;
        let (middle_us, middle_mbit, jitter_us) = if aligned {
            (access_us * (1 + middle_us % 6), None, 0)
        } else {
            (middle_us, middle_mbit, jitter_us)
        };
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
            joined,
            slow_us,
            down,
            stops,
            buffer,
            threads,
        }
    })
}

impl Plan {
    /// Connections open, so that there is something to see: no SYN is lost, and the middle is up for two round trips.
    fn surely_connects(&self) -> bool {
        self.loss == 0 && self.down.is_none_or(|(from, _)| from > 30_000)
    }

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
        let mut before = near;
        if self.joined {
            before = net.router("step");
            net.wire(near, before, LinkConfig::default());
        }
        let wire = net.wire(before, far, middle);
        let queue = Fifo::new(FifoKind::Packets(self.queue));
        net.wire_mut(wire).a.qdisc = Some(Box::new(Sched::new(Handle::new(1, 0), queue)));
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
        for router in [near, far] {
            let buffer = self.buffer.map(|bytes| SharedBuffer::new(bytes, (1, 1)));
            world.with_host(router, |_, host| host.set_shared_buffer(buffer));
        }
        let mut apps = Vec::new();
        for (pair, (s, r)) in (0u16..).zip(ends) {
            world.with_host(s, |_, host| host.set_tracing(true));
            if let Some(late) = self.slow_us {
                world.slow_apps(s, Duration::from_micros(late));
                world.slow_apps(r, Duration::from_micros(late * u64::from(pair % 2)));
            }
            let to = |port| SocketAddr::new(net.address(r).expect("wired"), port);
            let from = |port| SocketAddr::new(net.address(s).expect("wired"), port);
            let start = if self.aligned {
                let epochs = us((u64::from(pair) + 1) * self.access_us);
                Instant::from_nanos(epochs.as_nanos() - u64::from(pair) % 2)
            } else {
                us(u64::from(pair) * 777)
            };
            let tcp = TcpConfig::default;
            let mut add = |node, app, stop| apps.push(world.add_app(node, app, start, stop));
            add(r, Box::new(TcpSink::new(to(5_001), tcp())) as Box<dyn apps::App>, None);
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
                    add(s, Box::new(cbr), Some(us(60_000)));
                }
                _ => {
                    let ping = Ping::icmp(to(0).ip(), 64, Duration::from_millis(3));
                    add(s, Box::new(ping), None);
                }
            }
        }
        if let Some((from, to)) = self.down {
            let link = world
                .link_of(NodeId(if self.joined { 2 } else { 0 }), Port(u16::from(self.joined)));
            world.set_link_up_at(us(from), link, false);
            world.set_link_up_at(us(to), link, true);
        }
        (world, apps)
    }

    /// Runs the world from stop to stop, with observers of every kind.
    fn run(&self, (grouping, threads): RunMode, eyes: ObserverKind) -> Seen {
        let (mut world, apps) = self.build();
        world.set_grouping(grouping);
        world.set_threads(threads);
        let all = Rc::new(RefCell::new(All::default()));
        let print = Rc::new(RefCell::new(Fingerprint::default()));
        let capture = Rc::new(RefCell::new(capture_of(&world)));
        let links: Vec<LinkId> = world.links().map(|(id, _)| id).collect();
        if eyes != ObserverKind::None {
            world.observe(Box::new(Rc::clone(&print)));
        }
        if eyes == ObserverKind::All {
            world.observe(Box::new(Rc::clone(&all)));
            world.observe(Box::new(Rc::clone(&capture)));
            for link in &links {
                world.watch(*link, Box::new(Watched::default()));
            }
        }
        let mut at_stops = Vec::new();
        for stop in self.stops.iter().copied().chain([120_000]) {
            world.run_until(us(stop));
            at_stops.push(look_at(&world, &apps));
            // Nothing is left of that moment, and nothing comes before its time.
            world.run_until(us(stop));
            at_stops.push(look_at(&world, &apps));
        }
        let hash = print.borrow().hash;
        let shown = core::mem::take(&mut all.borrow_mut().0);
        let watched = links.iter().filter_map(|link| world.watcher(*link).copied()).collect();
        drop(world);
        let capture = Rc::into_inner(capture).expect("the world is gone").into_inner();
        Seen { at_stops, hash, shown, watched, file: capture.finish().expect("memory") }
    }
}

/// Some links and what is lost there.
fn capture_of(world: &World) -> Capture<Vec<u8>> {
    let mut taps = Capture::new(Writer::new(Vec::new()).expect("memory"), Snap::Headers);
    for (link, _) in world.links().filter(|(link, _)| link.0 % 3 != 0) {
        taps.tap(link, LinkEnd::Sent, &format!("to link {}", link.0));
        taps.tap(link, LinkEnd::Delivered, &format!("from link {}", link.0));
        taps.tap_drops(DropPlace::Link(link), &format!("link {}", link.0));
    }
    taps
}

/// What can be seen of a run.
struct Seen {
    /// Everything that a world tells at each stop.
    at_stops: Vec<String>,
    /// The fingerprint, if anybody wants it.
    hash: u64,
    /// Everything that is shown to an observer that sees all, ...
    shown: Vec<Shown>,
    /// ... to those who watch a link, by link, ...
    watched: Vec<Watched>,
    /// ... and what is written to a file.
    file: Vec<u8>,
}

/// A hash of what is put on one link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Watched(u64);

impl Watcher for Watched {
    fn sent(&mut self, now: Instant, packet: &Packet) {
        self.0 = (self.0.rotate_left(7) ^ now.as_nanos() ^ essence(packet))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// How a world is worked off, and with how many threads.
type RunMode = (Grouping, usize);

/// Who looks on: what is only hashed passes other questions on its way than what is shown.
#[derive(Clone, Copy, PartialEq)]
enum ObserverKind {
    None,
    Fingerprint,
    All,
}

/// One thing that was shown: when, where, what.
type Shown = (Instant, &'static str, u32, u64);

/// Sees everything.
#[derive(Default)]
struct All(Vec<Shown>);

fn essence(packet: &Packet) -> u64 {
    let numbers = packet.tcp().map_or(0, |tcp| u64::from(tcp.seq.0) << 32 | u64::from(tcp.ack.0));
    numbers ^ u64::from(packet.len()) ^ packet.meta.enqueued_at.as_nanos().rotate_left(20)
}

impl Observer for All {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.0.push((now, "sent", link.0, essence(packet)));
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.0.push((now, "delivered", link.0, essence(packet)));
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        let (what, index) = match place {
            DropPlace::Node(node) => ("dropped in", node.0),
            DropPlace::Link(link) => ("lost on", link.0),
        };
        self.0.push((now, what, index, essence(packet) ^ (reason as u64) << 56));
    }

    fn event(&mut self, now: Instant, node: NodeId, event: &Event) {
        let mut hasher = std::hash::DefaultHasher::new();
        format!("{event:?}").hash(&mut hasher);
        self.0.push((now, "told by", node.0, hasher.finish()));
    }
}

/// Everything that can be seen of a world.
fn look_at(world: &World, apps: &[AppId]) -> String {
    let mut seen =
        format!("{:?} {:?} heard {}\n", world.now(), world.stats(), world.all_notified());
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
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn neither_epochs_nor_threads_change_what_can_be_seen(plan in any_plan()) {
        let one_by_one = plan.run((Grouping::One, 1), ObserverKind::All);
        let threads = plan.threads;
        let in_epochs = plan.run((Grouping::Finest, threads), ObserverKind::All);
        for (one, other) in one_by_one.shown.iter().zip(&in_epochs.shown) {
            prop_assert_eq!(one, other);
        }
        prop_assert_eq!(one_by_one.shown.len(), in_epochs.shown.len());
        prop_assert_eq!(&one_by_one.watched, &in_epochs.watched);
        prop_assert!(one_by_one.watched.iter().any(|link| *link != Watched::default()));
        prop_assert!(one_by_one.file == in_epochs.file, "captures differ");
        prop_assert!(one_by_one.file.len() > 1_000 || !plan.surely_connects());
        prop_assert_eq!(one_by_one.hash, in_epochs.hash);
        prop_assert_eq!(&one_by_one.at_stops, &in_epochs.at_stops);
        let ways = [
            ((Grouping::Finest, 1), ObserverKind::Fingerprint),
            ((Grouping::Finest, threads), ObserverKind::None),
            ((Grouping::Adaptive, threads), ObserverKind::Fingerprint),
            ((Grouping::One, 1), ObserverKind::Fingerprint),
        ];
        for (way, eyes) in ways {
            let in_epochs = plan.run(way, eyes);
            if eyes == ObserverKind::Fingerprint {
                prop_assert_eq!(one_by_one.hash, in_epochs.hash, "{:?}", way);
            }
            for (one, other) in one_by_one.at_stops.iter().zip(&in_epochs.at_stops) {
                for (one, other) in one.lines().zip(other.lines()) {
                    prop_assert_eq!(one, other, "{:?}", way);
                }
            }
            prop_assert_eq!(&one_by_one.at_stops, &in_epochs.at_stops);
        }
    }
}

/// One half of the world has nothing to do for long, and then hears of the other over a link of several epochs.
#[test]
fn a_long_idle_group_catches_up_with_the_others() {
    let run = |grouping, threads| {
        let mut net = Topology::new();
        let (near, far) = (net.router("near"), net.router("far"));
        net.wire(near, far, LinkConfig::delay(Duration::from_millis(4)));
        let mut host = |name, router| {
            let host = net.host(name);
            net.wire(host, router, LinkConfig::delay(Duration::from_millis(1)));
            host
        };
        let [a, b, c, _] =
            [("a", near), ("b", near), ("c", far), ("d", far)].map(|it| host(it.0, it.1));
        let mut world = net.build(3).expect("possible");
        world.set_grouping(grouping);
        world.set_threads(threads);
        let end = |node, port| SocketAddr::new(net.address(node).expect("wired"), port);
        let cbr = Cbr::new(end(a, 9), end(b, 7), 160, Duration::from_micros(900));
        let ping = Ping::icmp(end(c, 0).ip(), 64, Duration::from_millis(30));
        let apps = [
            world.add_app(b, Box::new(UdpSink::new(end(b, 7))), us(0), None),
            world.add_app(a, Box::new(cbr), us(0), None),
            world.add_app(a, Box::new(ping), us(300_000), None),
        ];
        // The first packet is on its way between the halves, and an epoch is over.
        world.run_until(Instant::from_nanos(303_000_000 - 1));
        world.run_until(us(600_000));
        look_at(&world, &apps)
    };
    assert_eq!(run(Grouping::Finest, 2), run(Grouping::One, 1));
}
