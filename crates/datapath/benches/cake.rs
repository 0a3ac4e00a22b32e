//! What CAKE costs for one packet in and out: `cargo bench -p ackwright-datapath --bench cake`.
//!
//! The link is always just fast enough, so that every enqueue is followed by a dequeue, with a
//! standing backlog of up to 100 packets; flows take turns. Packets are made before the clock runs;
//! each is moved in from its place and out to another, as hosts do it.

use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Ipv4, Link, MacAddr, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Timestamps,
    Transport, protocol,
};
use datapath::qdisc::cake::{AckFilter, Cake, Config, FlowMode, TinMode};
use datapath::qdisc::fifo::Fifo;
use datapath::qdisc::{Cx, Qdisc};
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// The numbers of flows. With the last each packet is of another flow than the thousand before.
const FLOWS: [u32; 3] = [1, 100, 100_000];
/// Samples, and packets in each: few enough to stay in the nearest cache until their turn comes.
const SAMPLES: u32 = 1_000;
const PACKETS: u32 = 100;
/// Time between packets: a full frame takes a little less at 10 Gbit/s.
const STEP: u64 = 1_250;
/// Packets before the first that counts.
const WARM_UP: u32 = 10_000;

#[divan::bench(args = FLOWS, sample_count = SAMPLES, sample_size = PACKETS)]
fn triple_isolate(bencher: Bencher<'_, '_>, flows: u32) {
    in_and_out(bencher, Config::default(), flows, data);
}

/// All flows go to one host: it has a hundred bulk flows, each gets a hundredth of a quantum at a
/// time, and a packet waits for a hundred rounds of deficits.
#[divan::bench(sample_count = SAMPLES, sample_size = PACKETS)]
fn triple_isolate_100_flows_to_one_host(bencher: Bencher<'_, '_>) {
    let to_one = |flow, number| {
        let mut packet = data(flow, number);
        if let Network::Ipv4(ip) = &mut packet.network {
            ip.dst = [10, 1, 0, 2].into();
        }
        packet
    };
    in_and_out(bencher, Config::default(), 100, to_one);
}

#[divan::bench(args = FLOWS, sample_count = SAMPLES, sample_size = PACKETS)]
fn flows_besteffort(bencher: Bencher<'_, '_>, flows: u32) {
    let config = Config { tins: TinMode::Besteffort, flows: FlowMode::Flows, ..Config::default() };
    in_and_out(bencher, config, flows, data);
}

#[divan::bench(args = FLOWS, sample_count = SAMPLES, sample_size = PACKETS)]
fn ack_filter_on_data(bencher: Bencher<'_, '_>, flows: u32) {
    let config = Config { ack_filter: AckFilter::Conservative, ..Config::default() };
    in_and_out(bencher, config, flows, data);
}

#[divan::bench(args = FLOWS, sample_count = SAMPLES, sample_size = PACKETS)]
fn ack_filter_on_acks(bencher: Bencher<'_, '_>, flows: u32) {
    let config = Config { ack_filter: AckFilter::Conservative, ..Config::default() };
    in_and_out(bencher, config, flows, ack);
}

/// The filter's worst case: a thousand duplicate ACKs, none of which may be dropped, are looked
/// at for each new one.
#[divan::bench(sample_count = SAMPLES, sample_size = 10)]
fn ack_filter_behind_1000_duplicates(bencher: Bencher<'_, '_>) {
    let config =
        Config { ack_filter: AckFilter::Aggressive, flows: FlowMode::Flows, ..Config::default() };
    let duplicate = |_: u32, _: u32| ack(0, 0);
    run(bencher, cake(config), 1, 1_000, duplicate);
}

/// For comparison: a queue that only queues.
#[divan::bench(args = FLOWS, sample_count = SAMPLES, sample_size = PACKETS)]
fn pfifo(bencher: Bencher<'_, '_>, flows: u32) {
    run(bencher, Fifo::pfifo_default(), flows, flows.min(100), data);
}

fn in_and_out(
    bencher: Bencher<'_, '_>,
    config: Config,
    flows: u32,
    packet: impl Fn(u32, u32) -> Packet,
) {
    run(bencher, cake(config), flows, flows.min(100), packet);
}

fn cake(config: Config) -> Cake {
    let config = Config { bandwidth: Rate::from_mbit(10_000), ..config };
    Cake::new(config, 1514, Rng::stream(1, 1))
}

fn run(
    bencher: Bencher<'_, '_>,
    mut qdisc: impl Qdisc,
    flows: u32,
    backlog: u32,
    packet: impl Fn(u32, u32) -> Packet,
) {
    let mut count = 0;
    let mut next = || {
        count += 1;
        packet((count - 1) % flows, (count - 1) / flows)
    };
    let mut dropped = Vec::new();
    let mut now = 1_000_000_000;
    for _ in 0..backlog {
        let cx = &mut Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        qdisc.enqueue(next(), cx);
    }
    let mut sent = Packet::default();
    let mut in_and_out = |packet: &mut Packet| {
        now += STEP;
        let cx = &mut Cx { now: Instant::from_nanos(now), dropped: &mut dropped };
        qdisc.enqueue_from(packet, cx);
        cx.dropped.clear();
        qdisc.dequeue_into(black_box(&mut sent), cx)
    };
    for _ in 0..WARM_UP {
        in_and_out(&mut next());
    }
    bencher.with_inputs(next).bench_local_refs(in_and_out);
}

/// Full-sized segment number `number` of flow `flow`.
fn data(flow: u32, number: u32) -> Packet {
    segment(flow, Seq(number.wrapping_mul(1448)), Seq(1), 1448)
}

/// Pure ACK number `number` of flow `flow`, which acknowledges more than the one before.
fn ack(flow: u32, number: u32) -> Packet {
    segment(flow, Seq(1), Seq(number.wrapping_mul(1448)), 0)
}

fn segment(flow: u32, seq: Seq, ack: Seq, len: u32) -> Packet {
    Packet {
        link: Link::Ethernet { dst: MacAddr([2; 6]), src: MacAddr([4; 6]) },
        network: Network::Ipv4(Ipv4 {
            tos: 2,
            id: 1,
            ..Ipv4::new(
                [10, 0, (flow >> 8) as u8, flow as u8].into(),
                [10, 1, (flow >> 8) as u8, flow as u8].into(),
                protocol::TCP,
            )
        }),
        transport: Transport::Tcp(Tcp {
            src_port: 40_000 + (flow >> 16) as u16,
            dst_port: 5201,
            seq,
            ack,
            flags: TcpFlags::ACK,
            window: 512,
            urgent: 0,
            options: TcpOptions {
                timestamps: Some(Timestamps { value: 1, echo: 2 }),
                ..TcpOptions::default()
            },
        }),
        body: Body::of_len(len),
        meta: Meta { truesize: 2304, ..Meta::default() },
        ..Packet::default()
    }
    .finish()
}
