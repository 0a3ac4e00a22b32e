//! Links that change by a schedule: what comes out, and that epochs change nothing of it.

use apps::{Cbr, TcpSend, TcpSink, UdpSink};
use datapath::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use sim::epoch::Grouping;
use sim::link::{LinkConfig, LinkId};
use sim::record::Fingerprint;
use sim::schedule::Schedule;
use sim::topology::Topology;
use sim::world::World;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Two hosts; the way from the first to the second changes.
fn pair(schedule: Schedule) -> (World, SocketAddr, SocketAddr) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let there = LinkConfig { schedule: Some(Arc::new(schedule)), ..LinkConfig::default() };
    net.wire_with(a, b, there, LinkConfig::delay(Duration::from_millis(1)));
    let ends = [a, b].map(|node| SocketAddr::new(net.address(node).unwrap(), 9));
    (net.build(1).unwrap(), ends[0], ends[1])
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Bytes that a TCP flow brings through within 20 s, and the fingerprint.
fn bulk(schedule: Schedule, grouping: Grouping) -> (u64, u64, World) {
    let (mut world, from, to) = pair(schedule);
    world.set_grouping(grouping);
    let print = Rc::new(RefCell::new(Fingerprint::default()));
    world.observe(Box::new(Rc::clone(&print)));
    let nodes = [0, 1].map(sim::link::NodeId);
    let config = datapath::tcp::config::TcpConfig::default();
    let sink = TcpSink::new(to, config.clone());
    let sink = world.add_app(nodes[1], Box::new(sink), Instant::ZERO, None);
    let send = TcpSend::bulk(from, to, config);
    world.add_app(nodes[0], Box::new(send), Instant::ZERO, None);
    world.run_until(Instant::ZERO + Duration::from_secs(20));
    let hash = print.borrow().hash;
    (world.report(sink).received_bytes, hash, world)
}

#[test]
fn a_flow_follows_the_rate_of_its_link() {
    let rates = [(ms(0), Rate::from_mbit(10)), (ms(10_000), Rate::from_mbit(2))];
    let (bytes, _, world) = bulk(Schedule::new(&rates, &[], None), Grouping::One);
    // 100 Mbit and 20 Mbit.
    assert!((13_500_000..15_000_000).contains(&bytes), "{bytes}");
    let link = world.link(LinkId(0));
    assert_eq!(link.capacity_by(world.now()), Some(15_000_000));
    assert!(link.bytes_left_by(world.now()) <= 15_000_000);
}

#[test]
fn a_flow_takes_the_opportunities_of_a_trace() {
    let every_ms: Vec<Duration> = (1..=100).map(ms).collect();
    let (bytes, _, world) = bulk(Schedule::opportunities(&every_ms), Grouping::One);
    // 1500 bytes a ms, of which 14 + 52 of 1514 are headers: two opportunities share out three packets or so.
    assert!((26_000_000..30_000_000).contains(&bytes), "{bytes}");
    assert_eq!(world.link(LinkId(0)).capacity_by(world.now()), Some(30_000_000));
}

/// The trace comes again each 100 ms; a step of the delay comes once, at its time.
#[test]
fn delays_beside_a_trace_change_at_their_times() {
    let every_ms: Vec<Duration> = (1..=100).map(ms).collect();
    let delays = [(ms(0), ms(10)), (ms(450), ms(40)), (ms(730), ms(20))];
    let (mut world, from, to) = pair(Schedule::opportunities(&every_ms).with_delays(&delays));
    let arrivals = Rc::new(RefCell::new(Vec::<(Instant, u64)>::new()));
    world.observe(Box::new(Arrivals(Rc::clone(&arrivals))));
    world.add_app(sim::link::NodeId(1), Box::new(UdpSink::new(to)), Instant::ZERO, None);
    let cbr = Box::new(Cbr::new(from, to, 100, ms(10)));
    world.add_app(sim::link::NodeId(0), cbr, Instant::ZERO, Some(Instant::ZERO + ms(999)));
    world.run_until(Instant::ZERO + ms(2_000));
    let arrivals = arrivals.borrow();
    assert!(arrivals.len() > 90, "{}", arrivals.len());
    for &(at, sent) in arrivals.iter() {
        let expected = match sent {
            ..440_000_000 => 10,
            460_000_000..720_000_000 => 40,
            740_000_000.. => 20,
            _ => continue,
        };
        // It waits for an opportunity at most a ms.
        let took = (at - Instant::ZERO).as_nanos() - sent;
        let range = expected * 1_000_000..=(expected + 1) * 1_000_000;
        assert!(range.contains(&took), "sent at {sent} ns, {took} ns on its way");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Epochs are as long as the shortest delay that there will be, so groups hear of each other in
    /// time; the link carries no more than its rates allow.
    #[test]
    fn groups_change_nothing_and_rates_hold(
        steps in prop::collection::vec((1u64..3_000, 1u64..50, 0u64..40), 1..8),
        repeats: bool,
    ) {
        let (mut at, mut rates, mut delays) = (0, Vec::new(), Vec::new());
        for (span, mbit, delay) in steps {
            rates.push((ms(at), Rate::from_mbit(mbit)));
            delays.push((ms(at), ms(delay)));
            at += span;
        }
        let schedule = Schedule::new(&rates, &delays, repeats.then(|| ms(at)));
        let (bytes, one, world) = bulk(schedule.clone(), Grouping::One);
        let (_, finest, _) = bulk(schedule, Grouping::Finest);
        prop_assert_eq!(one, finest);
        let link = world.link(LinkId(0));
        let could = link.capacity_by(world.now()).unwrap();
        let changes = if repeats { 20_000 / at + 1 } else { 1 } * rates.len() as u64;
        prop_assert!(bytes <= could && link.bytes_left_by(world.now()) <= could + 1514 * changes);
    }
}

/// Datagrams keep their order while delays grow, and may lose it where one becomes shorter.
#[test]
fn a_later_packet_arrives_earlier_only_on_a_shorter_path() {
    let reordered = |first: u64, second: u64| {
        let schedule = Schedule::new(&[], &[(ms(0), ms(first)), (ms(500), ms(second))], None);
        let (mut world, from, to) = pair(schedule);
        let print = Rc::new(RefCell::new(Vec::<(Instant, u64)>::new()));
        world.observe(Box::new(Arrivals(Rc::clone(&print))));
        let sink = Box::new(UdpSink::new(to));
        world.add_app(sim::link::NodeId(1), sink, Instant::ZERO, None);
        let cbr = Box::new(Cbr::new(from, to, 100, ms(1)));
        let stop = Instant::ZERO + ms(999);
        world.add_app(sim::link::NodeId(0), cbr, Instant::ZERO, Some(stop));
        world.run_until(Instant::ZERO + ms(3_000));
        let sent: Vec<u64> = print.borrow().iter().map(|(_, sent)| *sent).collect();
        assert!(sent.len() > 990);
        !sent.is_sorted()
    };
    assert!(!reordered(10, 60));
    assert!(reordered(60, 10));
}

/// Notes of everything that arrives at the second host when it was sent.
struct Arrivals(Rc<RefCell<Vec<(Instant, u64)>>>);

impl sim::record::Observer for Arrivals {
    fn delivered(&mut self, now: Instant, link: LinkId, packet: &datapath::packet::Packet) {
        if link == LinkId(0) {
            let queued = packet.meta.enqueued_at - Instant::ZERO;
            self.0.borrow_mut().push((now, queued.as_nanos()));
        }
    }
}
