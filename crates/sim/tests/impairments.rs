//! Links with impairments: what is lost, late, doubled and damaged, and that nothing else gets lost.

mod drops;

use apps::{AppReport, Cbr, UdpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::reason::Reason;
use datapath::rng::Ratio;
use datapath::units::{Duration, Instant, Rate};
use drops::DropLog;
use proptest::prelude::*;
use sim::link::{Chances, LinkConfig, LinkId, NodeId};
use sim::record::{DropPlace, Fingerprint, Observer};
use sim::rules::Rule;
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn percent(percent: u64) -> Ratio {
    Ratio::from_millionths(percent * 10_000)
}

/// A sender and a sink with one troubled link between them.
struct Pair {
    world: World,
    sender: AppId,
    sink: AppId,
    drops: Rc<RefCell<DropLog>>,
    print: Rc<RefCell<Fingerprint>>,
}

impl Pair {
    /// 100 datagrams, one every 10 ms, over a link with `forward` as its way there.
    fn new(forward: LinkConfig, seed: u64) -> Self {
        let mut net = Topology::new();
        let (a, b) = (net.host("A"), net.host("B"));
        net.wire_with(a, b, forward, LinkConfig::default());
        let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
        let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
        let mut world = net.build(seed).expect("possible");
        let cbr = Cbr::new(local, remote, 958, Duration::from_millis(10));
        let sender = world.add_app(a, Box::new(cbr), ms(0), Some(ms(1000)));
        let sink = world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
        let drops = Rc::new(RefCell::new(DropLog::default()));
        let print = Rc::new(RefCell::new(Fingerprint::default()));
        world.observe(Box::new(Rc::clone(&drops)));
        world.observe(Box::new(Rc::clone(&print)));
        Self { world, sender, sink, drops, print }
    }

    fn run(&mut self) -> AppReport {
        self.world.run_until(ms(3000));
        assert_eq!(self.world.report(self.sender).sent, 100);
        self.world.report(self.sink)
    }

    fn reasons(&self) -> Vec<Reason> {
        self.drops.borrow().drops.iter().map(|(_, _, reason)| *reason).collect()
    }
}

fn link(chances: Chances) -> LinkConfig {
    LinkConfig { chances, ..LinkConfig::delay(Duration::from_millis(5)) }
}

/// Applications hear of what has come a nanosecond later.
const APP: Duration = Duration::from_nanos(1);

#[test]
fn rules_pick_exactly_their_packets() {
    let rules = |texts: &[&str]| LinkConfig {
        rules: texts.iter().map(|text| text.parse::<Rule>().expect("a rule")).collect(),
        ..LinkConfig::delay(Duration::from_millis(5))
    };
    let mut dropped = Pair::new(rules(&["f data 3 drop", "f every 20 20 drop"]), 1);
    assert_eq!(dropped.run().received, 100 - 1 - 5);
    assert_eq!(dropped.reasons(), [Reason::LinkLoss; 6]);
    let hits: Vec<u64> =
        dropped.world.link(LinkId(0)).rule_hits().into_iter().map(|(_, hits)| hits).collect();
    assert_eq!(hits, [1, 5]);

    let mut doubled = Pair::new(rules(&["f every 10 10 dup 1000000"]), 1);
    assert_eq!(doubled.run().received, 110);

    let mut late = Pair::new(rules(&["f data 100 delay 500000000"]), 1);
    assert_eq!(late.run().last_received, Some(ms(990 + 5 + 500) + APP));

    let mut held = Pair::new(rules(&["f time 980000000 1500000000 hold"]), 1);
    assert_eq!(held.run().last_received, Some(ms(1500 + 5) + APP));
}

#[test]
fn a_damaged_packet_travels_and_is_dropped_where_it_arrives() {
    let mut pair = Pair::new(link(Chances { corruption: Ratio::ALWAYS, ..Chances::default() }), 1);
    assert_eq!(pair.run().received, 0);
    let first = pair.drops.borrow().drops[0];
    assert_eq!(first, (ms(5), DropPlace::Link(LinkId(0)), Reason::Checksum));
    assert_eq!(pair.reasons(), [Reason::Checksum; 100]);
}

#[test]
fn chances_hit_about_as_often_as_they_say() {
    let chances = Chances { loss: percent(20), duplication: percent(10), ..Chances::default() };
    let received: u64 = (0..20).map(|seed| Pair::new(link(chances), seed).run().received).sum();
    assert!((1650..1870).contains(&received), "{received} of 2000 with 20 % lost, 10 % doubled");
}

#[test]
fn jitter_keeps_the_order_unless_reordering_is_allowed() {
    let chances = Chances { jitter: Duration::from_millis(50), ..Chances::default() };
    let keeps = Pair::new(link(chances), 1).run();
    let mixes = Pair::new(link(Chances { jitter_reorders: true, ..chances }), 1).run();
    assert_eq!((keeps.received, mixes.received), (100, 100));
    assert!(keeps.last_received.expect("some") <= ms(990 + 5 + 50));
    let reordered = |chances| {
        let mut pair = Pair::new(link(chances), 1);
        pair.run();
        pair.print.borrow().hash
    };
    assert_ne!(reordered(chances), reordered(Chances { jitter_reorders: true, ..chances }));
}

/// When what has come was sent, in the order in which it came.
#[derive(Default)]
struct SentAt(Vec<Instant>);

impl Observer for SentAt {
    fn delivered(&mut self, _: Instant, _: LinkId, packet: &Packet) {
        self.0.push(packet.meta.enqueued_at);
    }
}

#[test]
fn late_packets_are_not_overtaken_when_impairments_end() {
    let chances = Chances { jitter: Duration::from_millis(50), ..Chances::default() };
    let mut pair = Pair::new(link(chances), 1);
    let sent_at = Rc::new(RefCell::new(SentAt::default()));
    pair.world.observe(Box::new(Rc::clone(&sent_at)));
    pair.world.run_until(ms(501));
    pair.world.link_mut(LinkId(0)).end_impairments();
    assert_eq!(pair.run().received, 100);
    assert!(sent_at.borrow().0.is_sorted());
}

#[test]
fn packets_held_by_a_slow_rate_are_not_overtaken() {
    let slow = LinkConfig::new(Rate::from_bits_per_sec(100_000), Duration::from_millis(5));
    let mut pair = Pair::new(slow, 1);
    let sent_at = Rc::new(RefCell::new(SentAt::default()));
    pair.world.observe(Box::new(Rc::clone(&sent_at)));
    pair.world.run_until(ms(501));
    pair.world.link_mut(LinkId(0)).set_rate(None);
    assert_eq!(pair.run().received, 100);
    assert!(sent_at.borrow().0.is_sorted());
}

/// What follows on a link that has no rate any more leaves behind what is still being serialised, and
/// gives its room back then.
#[test]
fn credit_returns_in_order_when_a_rate_ends() {
    let slow = LinkConfig::new(Rate::from_bits_per_sec(100_000), Duration::from_millis(5));
    let mut pair = Pair::new(LinkConfig { ring: 3, ..slow }, 1);
    pair.world.run_until(ms(501));
    pair.world.link_mut(LinkId(0)).set_rate(None);
    assert_eq!(pair.run().received, 100);
    assert_eq!(pair.world.host(NodeId(0)).port(Port(0)).room(), 3);
}

#[test]
fn a_link_that_goes_down_loses_what_is_on_it_and_comes_back() {
    let mut pair = Pair::new(LinkConfig::delay(Duration::from_millis(25)), 1);
    pair.world.set_link_up_at(ms(101), LinkId(0), false);
    pair.world.set_link_up_at(ms(205), LinkId(0), true);
    let received = pair.run().received;
    // Sent at 80, 90, 100 and cut off on the way; sent at 110 to 200 and refused.
    assert_eq!(received, 100 - 3 - 10);
    assert_eq!(pair.reasons(), [Reason::LinkDown; 13]);
}

/// Packets are known by numbers that are used again: damage goes with the packet, not with its number.
#[test]
fn what_was_damaged_and_cut_off_damages_nothing_that_follows() {
    let damaged = Chances { corruption: Ratio::ALWAYS, ..Chances::default() };
    let mut pair = Pair::new(
        LinkConfig { chances: damaged, ..LinkConfig::delay(Duration::from_millis(25)) },
        1,
    );
    pair.world.set_link_up_at(ms(101), LinkId(0), false);
    pair.world.set_link_up_at(ms(105), LinkId(0), true);
    pair.world.run_until(ms(104));
    pair.world.link_mut(LinkId(0)).end_impairments();
    assert_eq!(pair.run().received, 100 - 11, "those of 0 to 100 ms are damaged or cut off");
}

/// The golden value pins the random streams and the order of events of a link under every impairment.
#[test]
fn trouble_is_the_same_on_every_machine() {
    let chances = Chances {
        loss: percent(5),
        corruption: percent(5),
        duplication: percent(5),
        reordering: percent(5),
        reorder_by: Duration::from_millis(30),
        jitter: Duration::from_millis(3),
        jitter_reorders: true,
        ..Chances::default()
    };
    let run = |seed| {
        let mut pair = Pair::new(link(chances), seed);
        pair.run();
        let print = pair.print.borrow();
        (print.hash, print.arrivals)
    };
    assert_ne!(run(1), run(2));
    assert_eq!(run(1), GOLDEN, "the random impairments changed: every result changes");
}

const GOLDEN: (u64, u64) = (2864953960526619308, 89);

/// What a world holds at a moment: in queues and on links.
fn held(world: &World) -> u64 {
    let queued = |node: u32| {
        let host = world.host(NodeId(node));
        (0..host.port_count() as u16)
            .map(|port| host.port(Port(port)).backlog().packets)
            .sum::<u32>()
    };
    let queued: u32 = (0..world.node_count() as u32).map(queued).sum();
    let flying: usize = world.links().map(|(id, _)| world.in_flight(id)).sum();
    u64::from(queued) + flying as u64
}

fn any_link() -> impl Strategy<Value = LinkConfig> {
    let ratio = || prop_oneof![Just(0u64), 1u64..30].prop_map(percent);
    let chances = (ratio(), ratio(), ratio(), ratio(), 0u64..20, any::<bool>());
    (prop::option::of(1u64..20), 0u64..30, 1u32..4, chances).prop_map(
        |(mbit, delay, ring, (loss, corruption, duplication, reordering, jitter, mixed))| {
            LinkConfig {
                rate: mbit.map(Rate::from_mbit),
                delay: Duration::from_millis(delay),
                ring,
                chances: Chances {
                    loss,
                    corruption,
                    duplication,
                    reordering,
                    reorder_by: Duration::from_millis(7),
                    jitter: Duration::from_millis(jitter),
                    jitter_reorders: mixed,
                    ..Chances::default()
                },
                ..LinkConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Everything that was sent or doubled has arrived, was dropped with a reason, or is still
    /// there, at any time, on any chain of links.
    #[test]
    fn nothing_gets_lost_without_a_reason(
        links in prop::collection::vec(any_link(), 1..5),
        interval in 200u64..5000,
        limit in 1u32..50,
        seed: u64,
        cut in prop::option::of((0u64..400, 0u64..400)),
    ) {
        let mut net = Topology::new();
        let mut at = net.host("A");
        let a = at;
        for (index, link) in links.iter().enumerate() {
            let last = index + 1 == links.len();
            let next = if last { net.host("B") } else { net.router(&format!("R{index}")) };
            let wire = net.wire_with(at, next, link.clone(), LinkConfig::default());
            net.wire_mut(wire).a.interface.queue_limit = limit;
            at = next;
        }
        let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
        let remote = SocketAddr::new(net.address(at).expect("wired"), 5000);
        let mut world = net.build(seed).expect("possible");
        let drops = Rc::new(RefCell::new(DropLog::default()));
        world.observe(Box::new(Rc::clone(&drops)));
        let cbr = Cbr::new(local, remote, 1200, Duration::from_micros(interval));
        // The sink first: over a link without delay the first packet comes at once.
        let sink = world.add_app(at, Box::new(UdpSink::new(remote)), ms(0), None);
        let sender = world.add_app(a, Box::new(cbr), ms(0), Some(ms(500)));
        if let Some((down, span)) = cut {
            world.set_link_up_at(ms(down), LinkId(0), false);
            world.set_link_up_at(ms(down + span), LinkId(0), true);
        }
        for step in 1..60 {
            world.run_until(ms(step * 13));
            while !world.all_notified() {
                world.run_until(world.now() + APP);
            }
            let doubled: u64 = world.links().map(|(_, link)| link.stats.duplicated).sum();
            let (sent, received) = (world.report(sender).sent, world.report(sink).received);
            let dropped = drops.borrow().drops.len() as u64;
            // ICMP errors travel too: they are put on the links of the way back.
            let errors: u64 = (0..world.node_count() as u32)
                .map(|node| world.host(NodeId(node)).stats.icmp_errors)
                .sum();
            prop_assert_eq!(errors, 0);
            prop_assert_eq!(sent + doubled, received + dropped + held(&world));
        }
    }
}
