//! What devices cut and merge: TSO at a network card, GRO behind an interrupt; and queues that are
//! replaced.

mod drops;

use apps::{AppReport, Cbr, TcpSend, TcpSink, UdpSink};
use core::net::SocketAddr;
use datapath::host::Offloads;
use datapath::node::Port;
use datapath::packet::Packet;
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::rate::RateConfig;
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{Handle, Sched};
use datapath::reason::Reason;
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use drops::DropLog;
use sim::link::{LinkConfig, LinkId, NodeId};
use sim::record::Observer;
use sim::topology::Topology;
use sim::world::World;
use std::cell::RefCell;
use std::rc::Rc;

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// What the sender put on its wire: when, how long, how many segments.
#[derive(Default)]
struct Wire {
    data: Vec<(Instant, u32, u32)>,
}

impl Observer for Wire {
    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        if link == LinkId(0) && packet.body.len > 0 {
            self.data.push((now, packet.wire_len(), packet.segments()));
        }
    }
}

struct Setup {
    tso: bool,
    segments_super_packets: bool,
    gro: bool,
    rx_usecs: u32,
}

const PLAIN: Setup = Setup { tso: false, segments_super_packets: false, gro: false, rx_usecs: 0 };
const TOTAL: u64 = 3_000_000;

/// 3 MB from A to B over 100 Mbit/s and 5 ms each way.
fn transfer(setup: &Setup) -> (World, [NodeId; 2], AppReport, Rc<RefCell<Wire>>) {
    let mut net = Topology::new();
    let (a, b) = (net.host("A"), net.host("B"));
    let link = LinkConfig::new(Rate::from_mbit(100), Duration::from_millis(5));
    let forward =
        LinkConfig { segments_super_packets: setup.segments_super_packets, ..link.clone() };
    let wire = net.wire_with(a, b, forward, link);
    let wire = net.wire_mut(wire);
    let offloads = Offloads { gso: true, tso: setup.tso, gro: setup.gro };
    for end in [&mut wire.a, &mut wire.b] {
        end.interface.offloads = offloads;
        end.interface.rx_usecs = setup.rx_usecs;
    }
    let from = SocketAddr::new(net.address(a).expect("wired"), 0);
    let to = SocketAddr::new(net.address(b).expect("wired"), 5001);
    let mut world = net.build(1).expect("possible");
    let seen = Rc::new(RefCell::new(Wire::default()));
    world.observe(Box::new(Rc::clone(&seen)));
    let config = TcpConfig::default();
    let sink = world.add_app(b, Box::new(TcpSink::new(to, config.clone())), ms(0), None);
    let sender = TcpSend::bulk(from, to, config).limit(TOTAL);
    world.add_app(a, Box::new(sender), ms(100), None);
    world.run_until(ms(20_000));
    let report = world.report(sink);
    assert_eq!(report.received_bytes, TOTAL);
    (world, [a, b], report, seen)
}

/// Super-packets cross a wire whole, unless the card segments_super_packets them: then the wire sees what a receiver
/// of ordinary frames expects, back to back, and the card has room for the next super-packet when
/// the last bit of this one has left.
#[test]
fn a_network_card_cuts_super_packets_on_the_wire() {
    let (_, _, whole, seen) = transfer(&Setup { tso: true, ..PLAIN });
    assert!(seen.borrow().data.iter().any(|(_, _, segments)| *segments > 1));
    let (world, [a, _], cut, seen) =
        transfer(&Setup { tso: true, segments_super_packets: true, ..PLAIN });
    let seen = seen.borrow();
    assert!(seen.data.iter().all(|(_, len, segments)| *len <= 1514 && *segments == 1));
    assert_eq!(seen.data.len() as u64, TOTAL.div_ceil(1448));
    // Several are handed over at once, and none of them is lost or delayed for it.
    let at_once = seen.data.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    assert!(at_once > seen.data.len() / 3, "{at_once}");
    assert_eq!(world.host(a).tcp_mib().retrans_segs, 0);
    assert_eq!(world.host(a).port(Port(0)).backlog().packets, 0);
    let [whole, cut] = [whole, cut].map(|it| it.finished.expect("ended"));
    let apart = whole.saturating_since(cut).max(cut.saturating_since(whole));
    assert!(apart < Duration::from_millis(20), "{apart:?}");
}

/// At 100 Mbit/s a segment takes 121 µs: what arrives within half a millisecond is merged, so that
/// fewer ACKs are sent, and nothing else changes.
#[test]
fn an_interrupt_takes_in_what_has_arrived_as_one() {
    let counts = |setup: &Setup| {
        let (world, [a, b], report, _) = transfer(setup);
        let (sender, receiver) = (world.host(a).tcp_mib(), world.host(b).tcp_mib());
        assert_eq!(sender.retrans_segs, 0);
        assert_eq!(receiver.in_segs, sender.out_segs, "segments are counted, not merged packets");
        assert_eq!(world.host(b).port(Port(0)).rx_waiting(), 0);
        (receiver.out_segs, world.host(b).stats.in_receives, report.finished.expect("ended"))
    };
    let (acks_off, packets_off, end_off) = counts(&PLAIN);
    let (acks_alone, packets_alone, _) = counts(&Setup { gro: true, ..PLAIN });
    let (acks_on, packets_on, end_on) = counts(&Setup { gro: true, rx_usecs: 500, ..PLAIN });
    assert_eq!(packets_off, packets_alone, "one by one there is nothing to merge");
    assert_eq!(acks_off, acks_alone);
    assert!(packets_on * 3 < packets_off, "{packets_on} of {packets_off}");
    assert!(acks_on * 3 < acks_off * 2, "{acks_on} of {acks_off}");
    assert!(end_on < end_off + Duration::from_millis(60), "{end_on:?}, {end_off:?}");
}

/// What waits in a shaper that is replaced is dropped and told, none of it vanishes.
#[test]
fn packets_of_a_replaced_queue_are_dropped_with_a_reason() {
    let mut net = Topology::new();
    let (a, r, b) = (net.host("A"), net.router("R"), net.host("B"));
    net.wire(a, r, LinkConfig::delay(Duration::from_millis(1)));
    net.wire(r, b, LinkConfig::delay(Duration::from_millis(1)));
    let local = SocketAddr::new(net.address(a).expect("wired"), 4000);
    let remote = SocketAddr::new(net.address(b).expect("wired"), 5000);
    let mut world = net.build(1).expect("possible");
    let drops = Rc::new(RefCell::new(DropLog::default()));
    world.observe(Box::new(Rc::clone(&drops)));
    let config = TbfConfig {
        rate: RateConfig::new(Rate::from_mbit(8)),
        burst: 2000,
        peak: None,
        limit: 100_000,
    };
    let child = Sched::new(Handle::NONE, Fifo::new(FifoKind::Bytes(100_000)));
    let shaper = Sched::new(Handle::new(1, 0), Tbf::new(config, child));
    world.with_host(r, |now, host| host.set_qdisc(now, Port(1), shaper));
    let cbr = Cbr::new(local, remote, 958, Duration::from_micros(500));
    let sender = world.add_app(a, Box::new(cbr), ms(0), Some(ms(100)));
    let sink = world.add_app(b, Box::new(UdpSink::new(remote)), ms(0), None);
    world.run_until(ms(60));
    let waiting = world.host(r).port(Port(1)).backlog().packets;
    assert!(waiting > 40, "{waiting}");
    let plain = Sched::new(Handle::new(2, 0), Fifo::new(FifoKind::Packets(1000)));
    world.with_host(r, |now, host| host.set_qdisc(now, Port(1), plain));
    let purged = drops.borrow().drops.clone();
    assert_eq!(purged.len() as u32, waiting);
    assert!(purged.iter().all(|(_, _, reason)| *reason == Reason::QueuePurge));
    world.run_until(ms(200));
    let (sent, received) = (world.report(sender).sent, world.report(sink).received);
    assert_eq!(sent, received + u64::from(waiting));
}
