//! Bytes → packet → bytes is exact for any input, and agrees with etherparse on what both know.

mod shape;
mod wire;

use core::net::IpAddr;
use datapath::packet::{Flaws, Network, Packet, Transport};
use etherparse::{NetHeaders, PacketBuilder, PacketHeaders, TcpOptionElement, TransportHeader};
use proptest::prelude::*;
use proptest::sample::Index;
use shape::{Layer4, Shape, any_bytes, any_shape, build};
use wire::frame::check_frame;
use wire::options::check_options;

/// Compares what we read from a frame with what etherparse reads.
fn compare(packet: &Packet, theirs: &PacketHeaders<'_>) {
    match (&packet.network, theirs.net.as_ref().unwrap()) {
        (Network::Ipv4(ours), NetHeaders::Ipv4(ip, _)) => {
            assert_eq!(ours.src.octets(), ip.source);
            assert_eq!(ours.dst.octets(), ip.destination);
            assert_eq!(ours.tos, ip.dscp.value() << 2 | ip.ecn.value());
            assert_eq!((ours.ttl, ours.protocol), (ip.time_to_live, ip.protocol.0));
            assert_eq!((ours.id, ours.dont_fragment), (ip.identification, ip.dont_fragment));
            assert_eq!(ours.more_fragments, ip.more_fragments);
            assert_eq!(ours.fragment_offset, ip.fragment_offset.value());
        }
        (Network::Ipv6(ours), NetHeaders::Ipv6(ip, _)) => {
            assert_eq!(ours.src.octets(), ip.source);
            assert_eq!(ours.dst.octets(), ip.destination);
            assert_eq!(ours.traffic_class, ip.traffic_class);
            assert_eq!(ours.hop_limit, ip.hop_limit);
            assert_eq!(ours.flow_label.get(), ip.flow_label.value());
        }
        (ours, theirs) => panic!("{ours:?} where etherparse has {theirs:?}"),
    }
    match (&packet.transport, theirs.transport.as_ref()) {
        (Transport::Tcp(ours), Some(TransportHeader::Tcp(tcp))) => {
            assert_eq!((ours.src_port, ours.dst_port), (tcp.source_port, tcp.destination_port));
            assert_eq!((ours.seq.0, ours.ack.0), (tcp.sequence_number, tcp.acknowledgment_number));
            assert_eq!((ours.window, ours.urgent), (tcp.window_size, tcp.urgent_pointer));
            let flags =
                [tcp.fin, tcp.syn, tcp.rst, tcp.psh, tcp.ack, tcp.urg, tcp.ece, tcp.cwr, tcp.ns];
            let bits = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(*flag));
            assert_eq!(ours.flags.0, bits);
            // It ends at an option of a length that its kind cannot have; the kernel goes past it.
            let list: Result<Vec<_>, _> = tcp.options_iterator().collect();
            let list = list.unwrap_or_default();
            for element in &list {
                match element {
                    TcpOptionElement::MaximumSegmentSize(mss) if count(&list, element) == 1 => {
                        assert_eq!(ours.options.mss, *mss);
                    }
                    TcpOptionElement::Timestamp(value, echo) if count(&list, element) == 1 => {
                        let timestamps = ours.options.timestamps.unwrap();
                        assert_eq!((timestamps.value, timestamps.echo), (*value, *echo));
                    }
                    TcpOptionElement::SelectiveAcknowledgementPermitted => {
                        assert!(ours.options.sack_permitted);
                    }
                    _ => {}
                }
            }
        }
        (Transport::Udp(ours), Some(TransportHeader::Udp(udp))) => {
            assert_eq!((ours.src_port, ours.dst_port), (udp.source_port, udp.destination_port));
        }
        (Transport::Icmp(ours), Some(TransportHeader::Icmpv4(icmp))) => {
            let bytes = icmp.to_bytes();
            assert_eq!((ours.kind, ours.code), (bytes[0], bytes[1]));
            // It forgets what other messages have in unused fields.
            if matches!(ours.kind, 0 | 8) {
                assert_eq!(ours.rest.to_be_bytes(), bytes[4..8]);
            }
        }
        (Transport::Icmp(ours), Some(TransportHeader::Icmpv6(icmp))) => {
            let bytes = icmp.to_bytes();
            assert_eq!((ours.kind, ours.code), (bytes[0], bytes[1]));
            if matches!(ours.kind, 128 | 129) {
                assert_eq!(ours.rest.to_be_bytes(), bytes[4..8]);
            }
        }
        (Transport::None, None) => {}
        (ours, theirs) => panic!("{ours:?} where etherparse has {theirs:?}"),
    }
}

/// How many options of the same kind there are.
fn count(list: &[TcpOptionElement], like: &TcpOptionElement) -> usize {
    let kind = core::mem::discriminant(like);
    list.iter().filter(|element| core::mem::discriminant(*element) == kind).count()
}

/// From the EtherType to the first byte of what follows.
const PLAUSIBLE: &[&[u8]] = &[
    &[0x08, 0x00, 0x45],
    &[0x08, 0x00, 0x46],
    &[0x86, 0xdd, 0x60],
    &[0x81, 0x00, 0, 5, 0x08, 0x00, 0x45],
    &[0x08, 0x06, 0, 1, 8, 0, 6, 4],
];

proptest! {
    #[test]
    fn any_bytes_come_back(bytes in any_bytes(200), missing in 1u32..3000) {
        check_frame(&bytes, missing);
    }

    /// Random bytes hardly ever look like IP: help them a little.
    #[test]
    fn bytes_behind_a_plausible_header_come_back(
        mut bytes in any_bytes(200),
        start in prop::sample::select(PLAUSIBLE),
        protocol in prop::sample::select(&[0u8, 1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 60][..]),
        ip_len in 0u16..220,
    ) {
        let ip = 12 + start.len() - 1;
        if bytes.len() > ip + 20 {
            bytes[12..12 + start.len()].copy_from_slice(start);
            let (len_at, protocol_at) = if start[0] == 0x86 { (4, 6) } else { (2, 9) };
            bytes[ip + len_at..ip + len_at + 2].copy_from_slice(&ip_len.to_be_bytes());
            bytes[ip + protocol_at] = protocol;
        }
        check_frame(&bytes, 100);
        check_frame(&bytes[bytes.len().min(14)..], 100);
    }

    #[test]
    fn valid_frames_come_back_and_read_as_etherparse_reads_them(shape in any_shape()) {
        let Some(bytes) = build(&shape) else { return Ok(()) };
        check_frame(&bytes, 1);
        let packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        prop_assert_eq!(packet.flaws(), Flaws::NONE);
        prop_assert_eq!(packet.body.len as usize, shape.payload.len());
        let tags = packet.extra.as_ref().map_or(0, |extra| extra.vlan.len());
        prop_assert_eq!(tags, usize::from(shape.vlan.is_some()));
        compare(&packet, &PacketHeaders::from_ethernet_slice(&bytes).unwrap());
    }

    #[test]
    fn mutated_frames_come_back(
        shape in any_shape(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.3, any::<Index>()),
        padding in prop::option::weighted(0.3, any_bytes(30)),
    ) {
        let Some(mut bytes) = build(&shape) else { return Ok(()) };
        for (at, value) in changes {
            // Most changes hit the headers.
            let end = bytes.len().min(80);
            bytes[at.index(end)] = value;
        }
        bytes.extend(padding.unwrap_or_default());
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        check_frame(&bytes, 77);
        check_frame(&bytes[bytes.len().min(14)..], 77);
    }

    /// Where both find a header in a damaged frame, they find the same in it.
    #[test]
    fn damaged_frames_read_as_etherparse_reads_them(
        shape in any_shape(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let Some(mut bytes) = build(&shape) else { return Ok(()) };
        for (at, value) in changes {
            let end = bytes.len().min(80);
            bytes[at.index(end)] = value;
        }
        let packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        let Ok(theirs) = PacketHeaders::from_ethernet_slice(&bytes) else { return Ok(()) };
        let both_ip = packet.network.src().is_some() && theirs.net.is_some();
        let both = (packet.transport != Transport::None) == theirs.transport.is_some();
        if both_ip && both {
            compare(&packet, &theirs);
        }
    }

    #[test]
    fn a_damaged_byte_is_noticed(shape in any_shape(), at in any::<Index>(), flip in 1u8..) {
        let Some(mut bytes) = build(&Shape { vlan: None, ..shape.clone() }) else { return Ok(()) };
        prop_assume!(!shape.payload.is_empty());
        let payload_at = bytes.len() - shape.payload.len();
        let at = payload_at + at.index(shape.payload.len());
        bytes[at] ^= flip;
        let packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        prop_assert_eq!(packet.flaws(), Flaws::TRANSPORT_CHECKSUM);
    }

    #[test]
    fn any_options_are_walked(bytes in any_bytes(64)) {
        check_options(&bytes);
    }

    #[test]
    fn a_tunnel_shows_its_inner_flow(shape in any_shape(), gre in any::<bool>()) {
        let Some(frame) = build(&Shape { vlan: None, ..shape.clone() }) else { return Ok(()) };
        let inner = &frame[14..];
        let protocol = match (gre, shape.v6) { (true, _) => 47u8, (_, true) => 41, (_, false) => 4 };
        let ether_type: [u8; 2] = frame[12..14].try_into().unwrap();
        let mut outer = Vec::new();
        let carried = if gre {
            [&[0x20, 0][..], &ether_type, &[0, 0, 0, 9], inner].concat()
        } else {
            inner.to_vec()
        };
        PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
            .write(&mut outer, etherparse::IpNumber(protocol), &carried)
            .unwrap();
        check_frame(&outer, 9);
        let packet = Packet::parse_ip(&outer[..]).unwrap();
        let expected = Packet::parse_ethernet(&frame[..]).unwrap();
        prop_assert_eq!(packet.inner_flow(), expected.flow());
        prop_assert_eq!(packet.flow().unwrap().src, IpAddr::from([192, 0, 2, 1]));
    }

    #[test]
    fn an_icmp_error_tells_whose_packet_it_quotes(shape in any_shape(), cut in any::<Index>()) {
        let Some(frame) = build(&Shape { vlan: None, v6: false, ..shape }) else { return Ok(()) };
        let quoted = Packet::parse_ethernet(&frame[..]).unwrap();
        let inner = &frame[14..];
        // From the eight bytes that RFC 792 asks for up to all of it.
        let quote = &inner[..28 + cut.index(inner.len() - 27)];
        let mut outer = Vec::new();
        let exceeded = etherparse::Icmpv4Type::TimeExceeded(
            etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit,
        );
        PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
            .icmpv4(exceeded)
            .write(&mut outer, quote)
            .unwrap();
        check_frame(&outer, 9);
        let found = Packet::parse_ip(&outer[..]).unwrap().quoted().unwrap();
        prop_assert_eq!(Some(found.flow), quoted.flow());
        prop_assert_eq!(found.seq, quoted.tcp().map(|tcp| tcp.seq));
    }
}

/// Zero has two representations in a one's complement sum. Every value of the checksum of every
/// protocol is met here, and with it the two, and both with the wrong one in their place.
#[test]
fn right_and_wrong_checksums_are_distinguished() {
    for v6 in [false, true] {
        for (at, layer4) in [
            (16, Layer4::Tcp { seq: 1, ack: None, window: 1, flags: [false; 5], options: vec![] }),
            (6, Layer4::Udp),
            (2, Layer4::IcmpEcho),
        ] {
            let (vlan, ports, ttl) = (None, (0, 0), 64);
            let udp = matches!(layer4, Layer4::Udp);
            let shape = Shape { vlan, v6, ports, ttl, layer4, payload: vec![0, 0] };
            let mut frame = build(&shape).unwrap();
            let field = 14 + if v6 { 40 } else { 20 } + at;
            let payload = frame.len() - 2;
            let mut seen = 0;
            for word in 0..=u16::MAX {
                frame[payload..].copy_from_slice(&word.to_be_bytes());
                let mut packet = Packet::parse_ethernet(&frame[..]).unwrap();
                packet.extra = None;
                let mut sent = Vec::new();
                packet.emit(&word.to_be_bytes(), &mut sent);
                let parsed = Packet::parse_ethernet(&sent[..]).unwrap();
                assert_eq!((parsed.flaws(), parsed.extra), (Flaws::NONE, None), "{word:#x}");
                let checksum = [sent[field], sent[field + 1]];
                let other = match checksum {
                    [0, 0] => [0xff; 2],
                    [0xff, 0xff] => [0; 2],
                    _ => continue,
                };
                seen += 1;
                assert!(!udp || checksum == [0xff; 2]);
                sent[field..field + 2].copy_from_slice(&other);
                check_frame(&sent, 1);
            }
            assert_eq!(seen, 1, "{shape:?}");
        }
    }
}
