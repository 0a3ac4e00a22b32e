//! Queues at ports in virtual time: shapers wake by themselves, policers judge, super-packets
//! are cut.

mod drops;

use apps::{Cbr, UdpSink};
use core::net::SocketAddr;
use datapath::node::Port;
use datapath::qdisc::Handle;
use datapath::qdisc::police::{Action, Police, PoliceConfig};
use datapath::qdisc::rate::RateConfig;
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{Sched, fifo::Fifo, fifo::FifoKind};
use datapath::reason::Reason;
use datapath::units::{Duration, Instant, Rate};
use drops::DropLog;
use sim::link::{LinkConfig, NodeId};
use sim::topology::Topology;
use sim::world::{AppId, World};
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A - R - B without serialisation, 1000 byte frames every `interval` from A to B; `shape`
/// arranges the router's port towards B (port 1).
fn run(
    interval: Duration,
    until: Instant,
    shape: impl FnOnce(&mut World, NodeId),
) -> (World, AppId, AppId, Rc<RefCell<DropLog>>) {
    let mut net = Topology::new();
    let (a, r, b) = (net.host("A"), net.router("R"), net.host("B"));
    net.wire(a, r, LinkConfig::delay(Duration::from_millis(1)));
    net.wire(r, b, LinkConfig::delay(Duration::from_millis(1)));
    let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
    let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
    let mut world = net.build(1).expect("possible");
    let drops = Rc::new(RefCell::new(DropLog::default()));
    world.observe(Box::new(Rc::clone(&drops)));
    shape(&mut world, r);
    let cbr = Cbr::new(local, remote, 958, interval);
    let sender = world.add_app(a, Box::new(cbr), ms(0), Some(until));
    let sink = world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    // What arrives at the end is heard of a nanosecond later.
    world.run_until(until + Duration::from_nanos(1));
    (world, sender, sink, drops)
}

/// 8 Mbit/s are 1000 packets of 1000 bytes a second; twice as many come.
#[test]
fn a_shaper_lets_go_at_its_rate_and_wakes_the_router() {
    let config = TbfConfig {
        rate: RateConfig::new(Rate::from_mbit(8)),
        burst: 2000,
        peak: None,
        limit: 10_000,
    };
    let child = Sched::new(Handle::NONE, Fifo::new(FifoKind::Bytes(10_000)));
    let tbf = Sched::new(Handle::new(1, 0), Tbf::new(config, child));
    let (world, sender, sink, drops) =
        run(Duration::from_micros(500), ms(2000), |world, router| {
            world.with_host(router, |now, host| host.set_qdisc(now, Port(1), tbf));
        });
    let (sent, received) = (world.report(sender).sent, world.report(sink).received);
    assert!((1990..=2001).contains(&received), "{received} of {sent} at 8 Mbit/s");
    assert!(drops.borrow().drops.iter().all(|(_, _, reason)| *reason == Reason::QdiscOverlimit));
    let waiting = u64::from(world.host(NodeId(1)).port(Port(1)).backlog().packets);
    let flying: usize = world.links().map(|(id, _)| world.in_flight(id)).sum();
    assert_eq!(sent, received + waiting + flying as u64 + drops.borrow().drops.len() as u64);
}

#[test]
fn a_policer_at_ingress_drops_above_its_rate() {
    let config = PoliceConfig {
        rate: Some(RateConfig::new(Rate::from_mbit(8))),
        burst: Duration::from_millis(5),
        mtu: PoliceConfig::DEFAULT_MTU,
        peak: None,
        conform: Action::Ok,
        exceed: Action::Drop,
    };
    let (world, _, sink, drops) = run(Duration::from_micros(500), ms(2000), |world, router| {
        world.with_host(router, |_, host| host.add_policer(Port(0), Police::new(config)));
    });
    let received = world.report(sink).received;
    // A policer counts from the network header on: 986 of the 1000 bytes.
    assert!((2010..2050).contains(&received), "{received} at 8 Mbit/s");
    assert!(drops.borrow().drops.iter().all(|(_, _, reason)| *reason == Reason::Police));
    let judged = world.host(NodeId(1)).policers()[0].1.stats();
    assert_eq!(judged.drops, drops.borrow().drops.len() as u64);
}
