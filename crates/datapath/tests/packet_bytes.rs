//! Payloads keep their bytes: cut, merged, fragmented, joined, quoted, sent and parsed again.

use core::net::{Ipv4Addr, Ipv6Addr};

use datapath::packet::checksum::Sum;
use datapath::packet::seq::Seq;
use datapath::packet::{
    Body, Flaws, FlowLabel, Frame, FrameRef, Frames, GRO_MAX_SIZE, Icmp, Ipv4, Ipv6, Joined, Link,
    MacAddr, Network, Packet, Tcp, TcpFlags, TcpOptions, Timestamps, Transport, Udp, gro_merge,
    protocol,
};
use proptest::prelude::*;

fn network(v6: bool, protocol: u8) -> Network {
    if v6 {
        return Network::Ipv6(Ipv6 {
            src: Ipv6Addr::LOCALHOST,
            dst: Ipv6Addr::LOCALHOST,
            traffic_class: 0,
            hop_limit: 9,
            next_header: protocol,
            flow_label: FlowLabel::new(7),
        });
    }
    let ip = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), protocol);
    Network::Ipv4(Ipv4 { id: 7, dont_fragment: false, ..ip })
}

fn tcp() -> Transport {
    Transport::Tcp(Tcp {
        src_port: 1,
        dst_port: 2,
        seq: Seq(3),
        ack: Seq(4),
        flags: TcpFlags::ACK,
        window: 5,
        urgent: 0,
        options: TcpOptions {
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            ..TcpOptions::default()
        },
    })
}

/// A packet with `len` bytes that differ from place to place.
fn packet(v6: bool, is_tcp: bool, len: u32) -> Packet {
    let bytes: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let udp = Transport::Udp(Udp { src_port: 1, dst_port: 2 });
    let (protocol, transport) = if is_tcp { (protocol::TCP, tcp()) } else { (protocol::UDP, udp) };
    Packet {
        link: Link::Ethernet { dst: MacAddr([2; 6]), src: MacAddr([4; 6]) },
        network: network(v6, protocol),
        transport,
        body: Body::of_frame(FrameRef::from(bytes)),
        ..Packet::default()
    }
    .finish()
}

/// The packet sent over a wire, and parsed from a frame of the receiver's.
fn over_the_wire(packet: &Packet, pool: &mut Frames) -> Packet {
    let mut bytes = Vec::new();
    packet.emit_whole(&mut bytes);
    assert_eq!(bytes.len(), packet.len() as usize);
    let frame = pool.copy(&bytes).expect("there is room");
    let parsed = Packet::parse_ethernet(&frame).expect("a frame");
    assert_eq!(parsed.body.bytes(), packet.body.bytes());
    parsed
}

proptest! {
    /// A super-packet is cut, each segment lies in a frame of its own at the receiver, and GRO makes
    /// a super-packet of them again: each byte is copied once.
    #[test]
    fn a_super_packet_comes_over_the_wire(len in 2u32..60_000, size in 500u16..3_000, v6: bool) {
        prop_assume!(len > u32::from(size));
        let mut whole = packet(v6, true, len);
        whole.meta.gso_size = size;
        whole.meta.gso_segs = len.div_ceil(size.into()) as u16;
        let mut devices = Frames::new(4_000, 1_000);
        let mut pool = Frames::new(GRO_MAX_SIZE, 2);
        let mut joined = Joined::default();
        let mut segments = whole.segment().map(|one| over_the_wire(&one, &mut devices));
        let mut held = segments.next().expect("one at least");
        for next in segments {
            prop_assert_eq!(next.flaws(), Flaws::NONE);
            prop_assert!(gro_merge(&mut held, &next, GRO_MAX_SIZE, &mut pool, &mut joined));
        }
        prop_assert_eq!(held.body.bytes(), whole.body.bytes());
        prop_assert_eq!(joined.bytes, u64::from(len));
        prop_assert_eq!(held.len(), whole.len());
        // What was joined is copied from, and its frame is the pool's again when it is read.
        prop_assert_eq!((devices.held(), pool.held()), (0, 0));
        pool.adopt(&held.body);
        prop_assert_eq!(pool.held(), 1);
        drop(held);
        prop_assert_eq!((pool.held(), pool.made()), (0, 1));
    }

    /// A datagram in fragments comes over the wire, is put together, and its checksum is right.
    #[test]
    fn fragments_come_over_the_wire(len in 1_500u32..9_000, mtu in 600u32..1_500, v6: bool) {
        let whole = packet(v6, false, len);
        let mut devices = Frames::new(4_000, 1_000);
        let cut = if v6 { whole.fragment_ipv6(mtu, 9) } else { whole.fragment(mtu) };
        let pieces: Vec<_> = cut
            .expect("may be fragmented")
            .map(|one| {
                let mut bytes = Vec::new();
                one.emit_whole(&mut bytes);
                Packet::parse_ethernet(&devices.copy(&bytes).expect("room")).expect("a frame")
            })
            .collect();
        let mut joined = Joined::default();
        let again = Packet::join(&pieces, whole.network.ecn(), false, &mut joined).expect("joins");
        prop_assert_eq!(again.flaws(), Flaws::NONE);
        prop_assert_eq!(again.body.bytes(), whole.body.bytes());
        prop_assert_eq!(joined, Joined { times: 1, bytes: u64::from(len) + 8 });
        drop(pieces);
        prop_assert_eq!(devices.held(), 0);
    }

    /// A device that finishes a checksum that was left to it gets what is computed here.
    #[test]
    fn a_checksum_left_to_a_device_is_the_same(len in 0u32..3_000, v6: bool, is_tcp: bool) {
        let packet = packet(v6, is_tcp, len);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        packet.emit_whole(&mut ours);
        let partial = packet.emit_partial(&mut theirs).expect("there is a checksum");
        let start = usize::from(partial.start);
        let sum = Sum::default().bytes(&theirs[start..]);
        let at = start + usize::from(partial.offset);
        let field = if is_tcp { sum.checksum() } else { sum.field(protocol::UDP) };
        theirs[at..at + 2].copy_from_slice(&field.to_be_bytes());
        prop_assert_eq!(ours, theirs);
    }

    /// What is damaged on its way is wrong at its destination, in whatever form it goes there.
    #[test]
    fn damage_goes_over_the_wire(len in 0u32..3_000, v6: bool, is_tcp: bool, raw: bool) {
        let mut packet = packet(v6, is_tcp, len);
        if raw && is_tcp {
            packet.push_tcp_option(77, &[1, 2]);
        }
        packet.damage();
        let mut bytes = Vec::new();
        packet.emit_whole(&mut bytes);
        let parsed = Packet::parse_ethernet(&FrameRef::from(bytes.clone())).expect("a frame");
        prop_assert_eq!(parsed.flaws(), Flaws::TRANSPORT_CHECKSUM);
        // Who trusts the device does not look.
        let frame = FrameRef::from(bytes);
        let trusting = Packet::parse_ethernet(Frame::lying_in(&frame, 0).trusted());
        prop_assert_eq!(trusting.expect("a frame").flaws(), Flaws::NONE);
    }
}

/// An ICMP error carries the bytes of what it complains about, and shares its frame.
#[test]
fn an_error_quotes_bytes() {
    let about = packet(false, false, 1_000);
    let icmp = Icmp { kind: 3, code: 3, rest: 0 };
    let error = Packet::icmp_error(network(false, protocol::ICMP), icmp, &about, 548);
    assert_eq!(error.body.bytes(), &about.body.bytes()[..520]);
    let mut bytes = Vec::new();
    error.emit_whole(&mut bytes);
    let parsed = Packet::parse_ip(&bytes[..]).expect("a packet");
    assert_eq!(parsed.flaws(), Flaws::NONE);
    assert_eq!(&bytes[bytes.len() - 520..], &about.body.bytes()[..520]);
}

/// Of a simulated packet there are only zeroes.
#[test]
fn a_length_is_sent_as_zeroes() {
    let mut packet = packet(false, true, 0);
    packet.body = Body::of_len(100);
    let packet = packet.finish();
    let mut bytes = Vec::new();
    packet.emit_whole(&mut bytes);
    assert_eq!(bytes.len(), 166);
    assert!(bytes[66..].iter().all(|byte| *byte == 0));
    assert_eq!(Packet::parse_ethernet(&bytes[..]).expect("a frame").flaws(), Flaws::NONE);
}
