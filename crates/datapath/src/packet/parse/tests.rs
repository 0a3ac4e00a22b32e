use super::*;
use crate::packet::FrameRef;
use crate::packet::testing::{bytes, ipv4, ipv6, packet, payload, tcp};
use crate::packet::transport::{TcpFlags, Udp};

/// A TCP segment with 10 bytes of payload, as an Ethernet frame.
fn frame(network: Network) -> Vec<u8> {
    bytes(&packet(network, tcp(TcpFlags::ACK), 10), &payload(10))
}

/// An IPv6 extension header: its number and its bytes.
type Extension<'a> = (u8, &'a [u8]);

/// The frame with `headers` put between the IPv6 header and TCP. Each header's first byte, and the
/// IPv6 header's next header, are filled in to name what follows.
fn with_extensions(headers: &[Extension<'_>]) -> Vec<u8> {
    let mut frame = frame(ipv6(protocol::TCP));
    let tail = frame.split_off(54);
    let mut next_at = 20;
    for (kind, header) in headers {
        frame[next_at] = *kind;
        next_at = frame.len();
        frame.extend_from_slice(header);
    }
    frame[next_at] = protocol::TCP;
    frame.extend(tail);
    let len = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    frame
}

/// Replaces bytes of an IPv4 frame, and rights the header checksum.
fn patched(at: usize, new: &[u8]) -> Vec<u8> {
    let mut frame = frame(ipv4(protocol::TCP));
    frame[at..at + new.len()].copy_from_slice(new);
    frame[24..26].fill(0);
    let checksum = Sum::default().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn parsed(frame: &[u8]) -> Packet {
    let packet = Packet::parse_ethernet(frame).expect("has an Ethernet header");
    let mut again = Vec::new();
    packet.emit(&frame[packet.header_len() as usize..], &mut again);
    assert_eq!(again, frame);
    packet
}

const PADDED_OPTIONS: [u8; 8] = [0, 0, 1, 4, 0, 0, 0, 0];

#[test]
fn extension_headers_are_walked_through() {
    let fragment = |offset_and_more: [u8; 2]| {
        let [high, low] = offset_and_more;
        [0, 0, high, low, 0, 0, 0, 9]
    };
    let (atomic, first, later) = (fragment([0, 0]), fragment([0, 1]), fragment([1, 0]));
    let authentication = [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let hop = (protocol::HOP_BY_HOP, &PADDED_OPTIONS[..]);
    let destination = (protocol::DESTINATION_OPTIONS, &PADDED_OPTIONS[..]);
    // What it is, whether TCP was seen, the body. What could be the TCP header of a first fragment is
    // raw, and not in the body.
    let table: [(&str, &[Extension<'_>], bool, u32); 7] = [
        ("none", &[], true, 10),
        ("two kinds of options", &[hop, destination], true, 10),
        ("routing", &[(protocol::ROUTING, &PADDED_OPTIONS)], true, 10),
        ("authentication", &[hop, (protocol::AUTHENTICATION, &authentication)], true, 10),
        ("a fragment that is all", &[(protocol::FRAGMENT, &atomic)], true, 10),
        ("the first fragment", &[(protocol::FRAGMENT, &first)], false, 0),
        ("a later fragment", &[hop, (protocol::FRAGMENT, &later)], false, 42),
    ];
    for (what, headers, is_tcp, body) in table {
        let packet = parsed(&with_extensions(headers));
        assert_eq!(packet.tcp().is_some(), is_tcp, "{what}");
        assert_eq!(packet.network.protocol(), Some(protocol::TCP), "{what}");
        assert_eq!(packet.flaws(), Flaws::NONE, "{what}");
        assert_eq!(packet.extra.is_some(), !headers.is_empty(), "{what}");
        assert_eq!(packet.body.len, body, "{what}");
    }
}

/// What it is, flaws, whether TCP was seen, body and trailer.
/// What could be the TCP header of a fragment is raw, and not in the body.
type Verdict<'a> = (&'a str, Vec<u8>, Flaws, bool, u32, u32);

#[test]
fn ipv4_headers_right_and_wrong() {
    let bad_version = patched(14, &[0x55]);
    let bad_checksum = {
        let mut frame = frame(ipv4(protocol::TCP));
        frame[24] ^= 1;
        frame
    };
    let bad_tcp_checksum = {
        let mut frame = frame(ipv4(protocol::TCP));
        frame[50] ^= 1;
        frame
    };
    let padded = [frame(ipv4(protocol::TCP)), vec![0; 6]].concat();
    let table: [Verdict<'_>; 12] = [
        ("ordinary", frame(ipv4(protocol::TCP)), Flaws::NONE, true, 10, 0),
        ("padding", padded, Flaws::NONE, true, 10, 6),
        ("version", bad_version, Flaws::IP_HEADER, false, 62, 0),
        ("header too short", patched(14, &[0x44]), Flaws::IP_HEADER, false, 62, 0),
        ("header too long", patched(14, &[0x4f, 2, 0, 59]), Flaws::IP_HEADER, false, 62, 0),
        ("length below header", patched(16, &[0, 19]), Flaws::IP_HEADER, false, 62, 0),
        ("length zero", patched(16, &[0, 0]), Flaws::IP_HEADER, false, 62, 0),
        ("checksum", bad_checksum, Flaws::IP_CHECKSUM, true, 10, 0),
        ("TCP checksum", bad_tcp_checksum, Flaws::TRANSPORT_CHECKSUM, true, 10, 0),
        ("more fragments", patched(20, &[0x20, 0]), Flaws::NONE, false, 0, 0),
        ("fragment", patched(20, &[0, 1]), Flaws::NONE, false, 0, 0),
        ("unknown protocol", patched(23, &[200]), Flaws::NONE, false, 42, 0),
    ];
    for (what, frame, flaws, is_tcp, body, trailer) in table {
        let packet = parsed(&frame);
        assert_eq!((packet.flaws(), packet.tcp().is_some()), (flaws, is_tcp), "{what}");
        assert_eq!((packet.body.len, packet.len()), (body, frame.len() as u32), "{what}");
        assert_eq!(packet.extra.map_or(0, |extra| extra.trailer), trailer, "{what}");
    }
    // More claimed than there is: the length is wrong, and the checksum's pseudo header with it.
    let long = parsed(&patched(16, &[0, 100]));
    assert!(long.flaws().contains(Flaws::LENGTH) && long.tcp().is_some());
}

#[test]
fn a_cut_capture_keeps_the_lengths_of_the_wire() {
    let whole = frame(ipv4(protocol::TCP));
    for (captured, is_ip, is_tcp) in [(14, false, false), (34, true, false), (66, true, true)] {
        let buffer = FrameRef::from([&[0; 100], &whole[..captured]].concat());
        let cut = Frame::lying_in(&buffer, 100).captured_of(76);
        let packet = Packet::parse_ethernet(cut).expect("has an Ethernet header");
        assert_eq!(packet.network.src().is_some(), is_ip);
        assert_eq!(packet.tcp().is_some(), is_tcp);
        assert!(packet.flaws().contains(Flaws::TRUNCATED));
        assert_eq!((packet.len(), packet.header_len() + packet.body.len), (76, 76));
        let body_at = 100 + packet.header_len();
        assert_eq!((packet.body.frame, packet.body.offset), (Some(buffer), body_at));
    }
}

#[test]
fn what_cannot_be_a_packet() {
    let too_short = Packet::parse_ethernet(&[0; 13][..]);
    assert_eq!(too_short, Err(Malformed::LinkHeader { len: 13 }));
    let not_ip = Packet::parse_ip(&[0x50, 0][..]);
    assert_eq!(not_ip, Err(Malformed::IpVersion { first: Some(0x50) }));
    assert_eq!(Packet::parse_ip(&[][..]), Err(Malformed::IpVersion { first: None }));
    let shrunk = Packet::parse_ip(Frame::new(&[0x45; 20]).captured_of(19));
    assert_eq!(shrunk, Err(Malformed::OriginalLen { captured: 20, original: 19 }));
    assert_eq!(
        Malformed::IpVersion { first: Some(0x50) }.to_string(),
        "IP version 5 is neither 4 nor 6"
    );
}

#[test]
fn tags_lie_outside_the_hot_headers() {
    let mut frame = frame(ipv4(protocol::TCP));
    frame.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0x00, 0x20, 9]);
    let mut packet = parsed(&frame);
    assert_eq!((packet.header_len(), packet.tcp().is_some()), (74, true));
    let extra = packet.extra.as_mut().expect("has tags");
    assert_eq!(extra.vlan, [(0x88a8, 7), (0x8100, 0x2009)]);
    assert!(extra.raw.is_empty());
}

#[test]
fn a_datagram_without_checksum_is_not_wrong() {
    let udp = Transport::Udp(Udp { src_port: 4789, dst_port: 4789 });
    let mut frame = bytes(&packet(ipv4(protocol::UDP), udp, 10), &payload(10));
    frame[40..42].fill(0);
    let packet = parsed(&frame);
    assert_eq!((packet.flaws(), packet.transport), (Flaws::NONE, udp));
    // A length field beyond the datagram: not to be believed.
    frame[38..40].copy_from_slice(&[0, 100]);
    let packet = parsed(&frame);
    assert_eq!((packet.flaws(), packet.transport), (Flaws::TRANSPORT_HEADER, Transport::None));
    // One before its end: the rest is padding.
    frame[38..40].copy_from_slice(&[0, 12]);
    let packet = parsed(&frame);
    assert_eq!((packet.flaws(), packet.body.len), (Flaws::NONE, 4));
}

/// A super-packet of BIG TCP is too long for the length fields, which are then zero.
#[test]
fn longer_than_a_length_field_can_say() {
    for network in [ipv4(protocol::TCP), ipv6(protocol::TCP)] {
        let big = packet(network, tcp(TcpFlags::ACK), 100_000);
        let packet = parsed(&bytes(&big, &payload(100_000)));
        assert_eq!((packet.body.len, packet.flaws()), (100_000, Flaws::NONE));
        assert_eq!((packet.transport, packet.extra), (big.transport, None));
    }
}

#[test]
fn what_is_no_ip_stays_in_the_body() {
    // IEEE 802.3 with a length in the place of the EtherType, and an unknown EtherType.
    for ether_type in [[0, 50], [0x88, 0xcc]] {
        let mut frame = frame(ipv4(protocol::TCP));
        frame[12..14].copy_from_slice(&ether_type);
        let packet = parsed(&frame);
        assert_eq!(packet.network, Network::Other(EtherType(u16::from_be_bytes(ether_type))));
        assert_eq!((packet.body.len, packet.extra), (62, None));
    }
}
