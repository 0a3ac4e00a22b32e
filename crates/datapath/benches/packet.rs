//! What one packet costs: `cargo bench -p ackwright-datapath --bench packet`.

use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, FrameRef, Frames, GRO_MAX_SIZE, Ipv4, Joined, Link, MacAddr, Meta, Network, Packet, Tcp,
    TcpFlags, TcpOptions, Timestamps, Transport, edit, gro_merge, protocol,
};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// An ordinary TCP segment with timestamps.
fn segment(len: u32) -> Packet {
    Packet {
        link: Link::Ethernet { dst: MacAddr([2; 6]), src: MacAddr([4; 6]) },
        network: Network::Ipv4(Ipv4 {
            tos: 2,
            id: 1,
            ..Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP)
        }),
        transport: Transport::Tcp(Tcp {
            src_port: 40000,
            dst_port: 5201,
            seq: Seq(1),
            ack: Seq(1),
            flags: TcpFlags::ACK,
            window: 512,
            urgent: 0,
            options: TcpOptions {
                timestamps: Some(Timestamps { value: 1, echo: 2 }),
                ..TcpOptions::default()
            },
        }),
        body: Body::of_frame(FrameRef::from(vec![0x5a; len as usize])),
        meta: Meta::default(),
        ..Packet::default()
    }
    .finish()
}

fn frame(len: u32) -> Vec<u8> {
    let mut out = Vec::new();
    segment(len).emit(&vec![0x5a; len as usize], &mut out);
    out
}

#[divan::bench(args = [0, 1448])]
fn parse(bencher: Bencher<'_, '_>, len: u32) {
    let frame = frame(len);
    bencher.bench_local(|| Packet::parse_ethernet(black_box(&frame[..])));
}

#[divan::bench(args = [0, 1448])]
fn emit(bencher: Bencher<'_, '_>, len: u32) {
    let (packet, body) = (segment(len), vec![0x5a; len as usize]);
    let mut out = Vec::with_capacity(2048);
    bencher.bench_local(|| {
        out.clear();
        black_box(&packet).emit(black_box(&body), &mut out);
        out.len()
    });
}

#[divan::bench]
fn emit_headers(bencher: Bencher<'_, '_>) {
    let packet = segment(1448);
    let mut out = Vec::with_capacity(2048);
    bencher.bench_local(|| {
        out.clear();
        black_box(&packet).emit_headers(&mut out);
        out.len()
    });
}

/// A super-packet of 44 segments, all of them.
#[divan::bench]
fn segment_64k(bencher: Bencher<'_, '_>) {
    let mut packet = segment(44 * 1448);
    packet.meta.gso_size = 1448;
    packet.meta.gso_segs = 44;
    bencher.bench_local(|| black_box(&packet).segment().map(|one| one.len()).sum::<u32>());
}

#[divan::bench]
fn merge_64k(bencher: Bencher<'_, '_>) {
    let mut packet = segment(44 * 1448);
    packet.meta.gso_size = 1448;
    packet.meta.gso_segs = 44;
    let segments: Vec<_> = packet.segment().collect();
    let (mut pool, mut joined) = (Frames::new(0, 0), Joined::default());
    bencher.bench_local(|| {
        let mut held = segments[0].clone();
        for next in black_box(&segments[1..]) {
            assert!(gro_merge(&mut held, next, GRO_MAX_SIZE, &mut pool, &mut joined));
        }
        held
    });
}

#[divan::bench]
fn mark_ce_on_the_wire(bencher: Bencher<'_, '_>) {
    let mut frame = frame(0);
    bencher.bench_local(|| edit::network_header(black_box(&mut frame)).is_some_and(edit::mark_ce));
}
