//! What a packet pays for an enqueue and a dequeue, in an empty queue and with 100 flows waiting.

use core::net::Ipv4Addr;
use datapath::packet::{Body, Ipv4, LinkHeader, MacAddr, Meta, Network, Packet, Transport, Udp};
use datapath::qdisc::codel::{Codel, CodelConfig};
use datapath::qdisc::dualpi2::{DualPi2, DualPi2Config};
use datapath::qdisc::fifo::{Fifo, PfifoFast};
use datapath::qdisc::fq_codel::{FqCodel, FqCodelConfig};
use datapath::qdisc::htb::{ClassConfig, Htb, HtbConfig};
use datapath::qdisc::netem::{Netem, NetemConfig};
use datapath::qdisc::rate::RateConfig;
use datapath::qdisc::{Cx, Handle, Qdisc, Sched};
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

fn packet(port: u16) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    Packet {
        link: LinkHeader::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(Ipv4::new(
            Ipv4Addr::new(10, 0, 0, 1),
            Ipv4Addr::new(10, 0, 0, 2),
            17,
        )),
        transport: Transport::Udp(Udp { src_port: port, dst_port: 2000 }),
        body: Body::of_len(18),
        meta: Meta::default(),
        ..Packet::default()
    }
    .finish()
}

fn named(kind: &str) -> Sched {
    let rng = Rng::stream(1, 1);
    let handle = Handle::new(1, 0);
    match kind {
        "pfifo" => Fifo::pfifo_default().into(),
        "pfifo_fast" => PfifoFast::default().into(),
        "codel" => Codel::new(CodelConfig::new(1514)).into(),
        "netem" => Netem::new(NetemConfig::default(), rng).into(),
        "htb" => htb(handle).into(),
        "dualpi2" => DualPi2::new(DualPi2Config::new(1514), handle, rng).into(),
        _ => FqCodel::new(FqCodelConfig::new(1514), handle, rng).into(),
    }
}

/// A class below another one, which is the default.
fn htb(handle: Handle) -> Htb {
    let config = HtbConfig { default: 2, rate2quantum: 10, direct_qlen: 1000, tx_queue_len: 1000 };
    let mut htb = Htb::new(config, handle);
    let cx = &mut Cx { now: Instant::ZERO, dropped: &mut Vec::new() };
    let rate = RateConfig::new(Rate::from_mbit(100_000));
    let depth = rate.time_of(100_000);
    let class =
        ClassConfig { rate, ceil: rate, buffer: depth, cbuffer: depth, prio: 0, quantum: 1514 };
    for (minor, parent) in [(1, 0), (2, 1)] {
        let added = htb.add_class(Handle::new(1, minor), Handle::new(1, parent), &class, cx);
        assert_eq!(added, Ok(None));
    }
    htb
}

const KINDS: [&str; 7] = ["pfifo", "pfifo_fast", "codel", "netem", "htb", "dualpi2", "fq_codel"];

/// One packet in and one out, with `waiting` packets of as many flows in between.
fn in_and_out(bencher: Bencher<'_, '_>, kind: &str, waiting: u16) {
    let mut qdisc = named(kind);
    let mut dropped = Vec::new();
    let mut now = 0;
    for port in 0..waiting {
        let cx = &mut Cx { now: Instant::ZERO, dropped: &mut dropped };
        qdisc.enqueue(packet(port), cx);
    }
    let mut port = 0;
    bencher.with_inputs(|| packet(0)).bench_local_values(|mut packet| {
        port = if port < waiting { port + 1 } else { 0 };
        now += 100;
        if let Transport::Udp(udp) = &mut packet.transport {
            udp.src_port = port;
        }
        let cx = &mut Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        qdisc.enqueue(packet, cx);
        black_box(qdisc.dequeue(cx))
    });
}

#[divan::bench(args = KINDS)]
fn empty(bencher: Bencher<'_, '_>, kind: &str) {
    in_and_out(bencher, kind, 0);
}

#[divan::bench(args = KINDS)]
fn hundred_waiting(bencher: Bencher<'_, '_>, kind: &str) {
    in_and_out(bencher, kind, 100);
}
