//! CAKE allocates nothing for a packet in and out, once its tables and its pool have grown.

use allocation_counter::measure;
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Ipv4, Link, MacAddr, Meta, Network, Packet, Tcp, TcpFlags, TcpOptions, Transport,
};
use datapath::qdisc::cake::{AckFilter, Cake, Config, TinMode};
use datapath::qdisc::{Cx, Qdisc};
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Instant, Rate};

/// Segment number `number`: ten flows in all tins, every third a pure ACK.
fn segment(number: u32) -> Packet {
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let tos = [0, 8, 34, 46][number as usize % 4] << 2;
    let tcp = Tcp {
        src_port: 1000 + (number % 10) as u16,
        dst_port: 443,
        seq: Seq(number),
        ack: Seq(number),
        flags: TcpFlags::ACK,
        window: 512,
        urgent: 0,
        options: TcpOptions::default(),
    };
    let ip = Ipv4 { tos, ..Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6) };
    Packet {
        link: Link::Ethernet { dst: mac(2), src: mac(1) },
        network: Network::Ipv4(ip),
        transport: Transport::Tcp(tcp),
        body: Body { len: if number.is_multiple_of(3) { 0 } else { 1000 }, ..Body::default() },
        meta: Meta { truesize: 2304, ..Meta::default() },
        ..Packet::default()
    }
    .finish()
}

/// Offers 8 Mbit/s to 4 Mbit/s, with AQM drops, ACKs filtered, and overflow.
fn offer(cake: &mut Cake, numbers: core::ops::Range<u32>, dropped: &mut Vec<(Reason, Packet)>) {
    for number in numbers {
        let now = Instant::from_nanos(1_000_000_000 + u64::from(number) * 700_000);
        let mut cx = Cx { now, dropped };
        cake.enqueue(segment(number), &mut cx);
        while cake.dequeue(&mut cx).is_some() {}
        dropped.clear();
    }
}

#[test]
fn nothing_is_allocated_for_a_packet() {
    let config = Config {
        bandwidth: Rate::from_mbit(4),
        tins: TinMode::Diffserv4,
        ack_filter: AckFilter::Conservative,
        memlimit: 400_000,
        ..Config::default()
    };
    let mut cake = Cake::new(config, 1514, Rng::stream(1, 1));
    let mut dropped = Vec::with_capacity(64);
    offer(&mut cake, 0..20_000, &mut dropped);
    let before = cake.stats();
    let counted = measure(|| offer(&mut cake, 20_000..40_000, &mut dropped));
    assert_eq!(counted.count_total, 0);
    let after = cake.stats();
    assert!(after.drops > before.drops + 1_000 && after.packets > before.packets + 1_000);
    assert!(cake.cake_stats().tins.iter().any(|tin| tin.ack_drops > 0), "ACKs are filtered too");
}
