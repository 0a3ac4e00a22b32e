//! In steady state no qdisc touches the heap: every buffer has found its size.

use allocation_counter::measure;
use core::net::Ipv4Addr;
use datapath::packet::{Body, Ipv4, LinkHeader, MacAddr, Meta, Network, Packet, Transport, Udp};
use datapath::qdisc::codel::{Codel, CodelConfig};
use datapath::qdisc::dualpi2::{DualPi2, DualPi2Config};
use datapath::qdisc::fifo::{Fifo, FifoKind, PfifoFast};
use datapath::qdisc::filter::{Filter, Match};
use datapath::qdisc::fq_codel::{FqCodel, FqCodelConfig};
use datapath::qdisc::htb::{ClassConfig, Htb, HtbConfig};
use datapath::qdisc::netem::{Netem, NetemConfig};
use datapath::qdisc::pie::{Pie, PieConfig};
use datapath::qdisc::prio::{Prio, PrioConfig};
use datapath::qdisc::rate::RateConfig;
use datapath::qdisc::tbf::{Tbf, TbfConfig};
use datapath::qdisc::{AnyQdisc, Cx, Handle, Qdisc, Sched};
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};

const FLOWS: u16 = 8;

fn packet(port: u16) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    Packet {
        link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4 {
            tos: 2,
            ..Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 17)
        }),
        transport: Transport::Udp(Udp { src_port: port, dst_port: 2000 }),
        body: Body::of_len(1458),
        meta: Meta::default(),
        ..Packet::default()
    }
    .finish()
}

/// 400 rounds of a packet from each flow, then as many dequeues.
fn turn(qdisc: &mut Sched, now: &mut u64, dropped: &mut Vec<(datapath::reason::Reason, Packet)>) {
    for _ in 0..400 {
        for port in 0..FLOWS {
            let cx = &mut Cx { now: Instant::from_nanos(*now), dropped };
            qdisc.enqueue(packet(port), cx);
        }
        for _ in 0..FLOWS {
            *now += 100_000;
            let cx = &mut Cx { now: Instant::from_nanos(*now), dropped };
            qdisc.dequeue(cx);
        }
        dropped.clear();
    }
}

/// Two classes that borrow from a third; the filter gives each every other flow.
fn htb(handle: Handle) -> Htb {
    let config = HtbConfig { default: 2, rate2quantum: 10, direct_qlen: 100, tx_queue_len: 100 };
    let mut htb = Htb::new(config, handle);
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    for (minor, mbit) in [(9, 100), (1, 20), (2, 20)] {
        let rate = RateConfig::new(Rate::from_mbit(mbit));
        let ceil = RateConfig::new(Rate::from_mbit(100));
        let (buffer, cbuffer) = (rate.time_of(1600), ceil.time_of(1600));
        let class = ClassConfig { rate, ceil, buffer, cbuffer, prio: 0, quantum: 1500 };
        let class = htb.add_class(Handle::new(1, minor), Handle::new(1, 9), &class, cx);
        assert_eq!(class, Ok(None));
    }
    for port in (0..FLOWS).step_by(2) {
        let matches = vec![Match::SourcePort(port)];
        htb.add_filter(handle, Filter { preference: 1, matches, class: Handle::new(1, 1) });
    }
    htb
}

#[test]
fn steady_state_does_not_allocate() {
    let rng = || Rng::stream(1, 1);
    let handle = Handle::new(1, 0);
    let delay = NetemConfig { delay: 2_000_000, jitter: 500_000, ..NetemConfig::default() };
    let rate = RateConfig::new(Rate::from_mbit(100));
    let bucket = TbfConfig { rate, burst: 3100, peak: None, limit: 60_000 };
    let kinds: [(&str, AnyQdisc); 11] = [
        ("pfifo", Fifo::new(FifoKind::Packets(100)).into()),
        ("pfifo_head_drop", Fifo::new(FifoKind::HeadDrop(100)).into()),
        ("pfifo_fast", PfifoFast::default().into()),
        ("tbf", Tbf::new(bucket, Fifo::new(FifoKind::Bytes(60_000)).into()).into()),
        ("netem", Netem::new(delay, rng()).into()),
        ("codel", Codel::new(CodelConfig::new(1514)).into()),
        ("fq_codel", FqCodel::new(FqCodelConfig::new(1514), handle, rng()).into()),
        ("dualpi2", DualPi2::new(DualPi2Config::new(1514), handle, rng()).into()),
        ("pie", Pie::new(PieConfig::new(1514), rng()).into()),
        ("prio", Prio::new(PrioConfig::default(), handle).into()),
        ("htb", htb(handle).into()),
    ];
    for (name, kind) in kinds {
        let mut qdisc = Sched::new(handle, kind);
        let (mut now, mut dropped) = (0, Vec::with_capacity(4096));
        turn(&mut qdisc, &mut now, &mut dropped);
        let steady = measure(|| turn(&mut qdisc, &mut now, &mut dropped));
        assert_eq!(steady.count_total, 0, "{name}");
    }
}
