use super::*;

/// Ports 1000 and 80, and enough behind them for a header.
const PORTS: [u8; 20] = [3, 232, 0, 80, 0, 12, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0];
const OUTER: FlowAddresses = FlowAddresses::V4(0x0a00_0001, 0x0a00_0002);
const INNER: FlowAddresses = FlowAddresses::V6([0xfd00 << 48, 1], [0xfd00 << 48, 2]);

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment(protocol, payload, 0)
}

fn fragment(protocol: u8, payload: &[u8], offset: u16) -> Vec<u8> {
    let [l0, l1] = (20 + payload.len() as u16).to_be_bytes();
    let [f0, f1] = offset.to_be_bytes();
    let mut bytes = vec![0x45, 0, l0, l1, 0, 0, f0, f1, 64, protocol, 0, 0];
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(payload);
    bytes
}

fn ipv6(next: u8, payload: &[u8], label: u8) -> Vec<u8> {
    let [l0, l1] = (payload.len() as u16).to_be_bytes();
    let mut bytes = vec![0x60, 0, 0, label, l0, l1, next, 64];
    for host in [1, 2] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    bytes.extend(payload);
    bytes
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn keys(ether_type: u16, payload: &[u8]) -> FlowKeys {
    let frame = ethernet(ether_type, payload);
    Packet::parse_ethernet(&frame[..]).expect("a frame").flow_keys()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Protocol, ports and addresses that an IPv4 packet is hashed by.
fn of_ipv4(protocol: u8, payload: &[u8]) -> (u8, (u16, u16), FlowAddresses) {
    let keys = keys(0x0800, &ipv4(protocol, payload));
    (keys.protocol, keys.ports, keys.addresses)
}

fn of_ipv6(next: u8, payload: &[u8]) -> (u8, (u16, u16), u32) {
    let keys = keys(0x86dd, &ipv6(next, payload, 0));
    assert_eq!((keys.addresses, keys.ether_type), (INNER, 0x86dd));
    (keys.protocol, keys.ports, keys.flow_label)
}

#[test]
fn ports_are_read_where_a_protocol_has_them_or_an_spi() {
    for protocol in [6, 17, 33, 50, 132, 136] {
        assert_eq!(of_ipv4(protocol, &PORTS), (protocol, (1000, 80), OUTER));
        assert_eq!(of_ipv6(protocol, &PORTS), (protocol, (1000, 80), 0));
    }
    let authenticated = joined(&[&[6, 4, 0, 0], &PORTS]);
    assert_eq!(of_ipv4(51, &authenticated), (51, (1000, 80), OUTER), "the SPI of AH");
    for protocol in [0, 1, 2, 89, 115, 255] {
        assert_eq!(of_ipv4(protocol, &PORTS), (protocol, (0, 0), OUTER));
    }
    assert_eq!(of_ipv4(17, &PORTS[..3]), (17, (0, 0), OUTER), "cut off");
}

#[test]
fn fragments_have_no_ports_not_even_the_first() {
    for offset in [0x2000, 0x2064, 50] {
        let keys = keys(0x0800, &fragment(17, &PORTS, offset));
        assert_eq!((keys.protocol, keys.ports, keys.addresses), (17, (0, 0), OUTER));
    }
    assert_eq!(keys(0x0800, &fragment(17, &PORTS, 0x4000)).ports, (1000, 80), "don't fragment");
    for offset in [0, 1, 8] {
        let header = [17, 0, 0, offset, 0, 0, 0, 9];
        assert_eq!(of_ipv6(44, &joined(&[&header, &PORTS])), (17, (0, 0), 0));
    }
}

#[test]
fn extension_headers_are_passed_but_not_authentication() {
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    for next in [0, 43, 60] {
        assert_eq!(of_ipv6(next, &joined(&[&options, &PORTS])), (17, (1000, 80), 0));
    }
    for next in [0, 43, 60] {
        let cut_off = joined(&[&[17, 234], &PORTS]);
        assert_eq!(of_ipv6(next, &cut_off), (17, (0, 0), 0), "its end lies beyond the packet");
    }
    let authenticated = joined(&[&[17, 4, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0], &PORTS]);
    assert_eq!(of_ipv6(51, &authenticated).1, (1, 2));
}

#[test]
fn a_flow_label_replaces_the_ports_and_ends_dissection() {
    let labelled = keys(0x86dd, &ipv6(17, &PORTS, 7));
    assert_eq!((labelled.flow_label, labelled.ports), (7, (0, 0)));
    let tunnel = keys(0x0800, &ipv4(41, &ipv6(6, &PORTS, 7)));
    assert_eq!((tunnel.flow_label, tunnel.addresses, tunnel.ports), (7, INNER, (0, 0)));
}

#[test]
fn tunnels_are_seen_through() {
    let inner = ipv6(6, &PORTS, 0);
    let gre = |flags: u8, optional: &[u8]| joined(&[&[flags, 0, 0x86, 0xdd], optional, &inner]);
    let bridged = joined(&[&[0, 0, 0x65, 0x58], &ethernet(0x86dd, &inner)]);
    for (protocol, payload) in [
        (41, inner.clone()),
        (47, gre(0, &[])),
        (47, gre(0xb0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        (47, bridged),
    ] {
        let keys = keys(0x0800, &ipv4(protocol, &payload));
        assert_eq!((keys.protocol, keys.ports, keys.addresses), (6, (1000, 80), INNER));
        assert_eq!(keys.ether_type, 0x86dd, "it is no other than the same flow without tunnel");
    }
    assert_eq!(keys(0x0800, &ipv4(47, &gre(0x20, &[0, 0, 0, 9]))).gre_key, 9);
    let routed = keys(0x0800, &ipv4(47, &gre(0x40, &[])));
    assert_eq!((routed.protocol, routed.addresses, routed.ether_type), (47, OUTER, 0x0800));
    let label = joined(&[&[0, 1, 1, 255], &inner]);
    let mpls = keys(0x0800, &ipv4(137, &label));
    assert_eq!((mpls.addresses, mpls.ether_type), (OUTER, 0x8847), "MPLS is not looked into");
}

/// Hosts are told apart by addresses and by what the dissector last read as an EtherType, so that
/// a tunnel's end is another host than the same address elsewhere.
#[test]
fn what_a_tunnel_carries_is_part_of_the_flow_even_if_it_is_not_ip() {
    let other = keys(0x0800, &ipv4(47, &joined(&[&[0x20, 0, 0x88, 0xb5, 0, 0, 0, 9], &PORTS])));
    assert_eq!((other.ether_type, other.gre_key, other.addresses), (0x88b5, 9, OUTER));
    let wrong = keys(0x0800, &ipv4(41, &ipv4(17, &PORTS)));
    assert_eq!((wrong.ether_type, wrong.addresses != OUTER), (0x86dd, true), "no version is read");
}

#[test]
fn pppoe_sessions_are_seen_through_if_they_carry_ip() {
    let session = |code, protocol: [u8; 2]| {
        joined(&[&[0x11, code, 0, 9, 0, 99], &protocol, &ipv6(17, &PORTS, 0)])
    };
    let keys = |session: &[u8]| {
        let keys = keys(0x8864, session);
        (keys.addresses, keys.ports, keys.ether_type)
    };
    assert_eq!(keys(&session(0, [0, 0x57])), (INNER, (1000, 80), 0x86dd));
    assert_eq!(keys(&session(1, [0, 0x57])), (FlowAddresses::None, (0, 0), 0x8864));
    assert_eq!(keys(&session(0, [0xc0, 0x21])), (FlowAddresses::None, (0, 0), 0x8864));
}

/// PPP's protocol may be compressed to one byte; the kernel doesn't go on there.
#[test]
fn a_compressed_ppp_protocol_ends_the_walk() {
    let session = joined(&[&[0x11, 0, 0, 9, 0, 99, 0x57], &ipv6(17, &PORTS, 0)]);
    assert_eq!(keys(0x8864, &session), FlowKeys { ether_type: 0x8864, ..FlowKeys::default() });
}

/// GRE's header with key, sequence and acknowledgment numbers, PPP's, IPv6's: 64 bytes.
#[test]
fn pptp_is_seen_through_however_long_its_headers_are() {
    let header = [0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8, 0xff, 3, 0, 0x57];
    for options in [&[][..], &[17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let next = if options.is_empty() { 17 } else { 60 };
        let inner = ipv6(next, &joined(&[options, &PORTS]), 0);
        let keys = keys(0x0800, &ipv4(47, &joined(&[&header, &inner])));
        assert_eq!((keys.protocol, keys.ports, keys.addresses), (17, (1000, 80), INNER));
        assert_eq!(keys.gre_key, 2, "the call");
    }
}

#[test]
fn redundant_rings_and_meshes_are_seen_through() {
    let inner = ipv6(17, &PORTS, 0);
    let tag = [0, 60, 0, 1];
    let ring = joined(&[&tag, &[0x86, 0xdd], &inner]);
    let rings = joined(&[&tag, &[0x89, 0x2f], &ring]);
    let mesh = |kind, version| {
        joined(&[&[kind, version, 50, 0, 2, 0, 0, 0, 0, 9], &ethernet(0x86dd, &inner)])
    };
    for (ether_type, payload) in [(0x892f, ring), (0x88fb, rings), (0x4305, mesh(0x40, 15))] {
        let keys = keys(ether_type, &payload);
        assert_eq!((keys.ports, keys.addresses, keys.ether_type), ((1000, 80), INNER, 0x86dd));
    }
    for other in [mesh(0x41, 15), mesh(0x40, 14)] {
        assert_eq!(keys(0x4305, &other).addresses, FlowAddresses::None);
    }
}

/// A frame of nothing but tags is walked through as far as the kernel goes, and no further.
#[test]
fn tags_without_end_end() {
    let tags = [0, 60, 0, 1, 0x89, 0x2f].repeat(9000);
    assert_eq!(keys(0x892f, &tags), FlowKeys { ether_type: 0x892f, ..FlowKeys::default() });
}

#[test]
fn tipc_is_distinguished_by_its_source_node() {
    let from = |start: [u8; 2], node: u8| {
        let rest = [0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, node];
        keys(0x88ca, &joined(&[&start, &rest]))
    };
    let expected =
        FlowKeys { addresses: FlowAddresses::Tipc(3), ether_type: 0x88ca, ..FlowKeys::default() };
    assert_eq!(from([0x5a, 0], 3), expected);
    let kept_alive = FlowKeys { addresses: FlowAddresses::Tipc(0), ..expected };
    assert_eq!(from([0x5e, 8], 3), kept_alive, "which the kernel spreads at random");
}

/// The kernel looks at no length, as long as the frame goes on. A host takes what is beyond away
/// (`pskb_trim_rcsum`).
#[test]
fn headers_beyond_the_end_of_their_datagram_are_read() {
    let told_shorter = |mut packet: Vec<u8>, at: usize, by: u8| {
        packet[at] -= by;
        packet
    };
    let inner = ipv6(17, &PORTS[..8], 0);
    for (ether_type, packet) in [
        (0x0800, told_shorter(ipv4(17, &PORTS[..8]), 3, 8)),
        (0x0800, told_shorter(ipv4(6, &PORTS), 3, 18)),
        (0x86dd, told_shorter(ipv6(17, &PORTS[..8], 0), 5, 8)),
        (0x0800, told_shorter(ipv4(41, &inner), 3, 8)),
        (0x0800, told_shorter(ipv4(41, &inner), 3, 20)),
    ] {
        let frame = ethernet(ether_type, &packet);
        let mut parsed = Packet::parse_ethernet(&frame[..]).expect("a frame");
        assert_eq!(parsed.flow_keys().ports, (1000, 80), "{packet:?}");
        parsed.set_link(parsed.link);
        assert_eq!(parsed.flow_keys().ports, (0, 0), "{packet:?}");
    }
}

#[test]
fn frames_other_than_ip_are_reported_by_ether_type() {
    for ether_type in [0x0806, 0x8847, 0x88b5, 60] {
        let expected = FlowKeys { ether_type, ..FlowKeys::default() };
        assert_eq!(keys(ether_type, &[1; 46]), expected);
    }
}

/// Of a frame that a device has taken in, the kernel holds the outermost tag beside it and reads the others in
/// their places (Linux 6.18, by `PACKET_FANOUT_HASH`: a flow is one, whatever its lengths).
#[test]
fn flows_are_distinguished_behind_vlan_tags() {
    let one: &[u8] = &[0x60, 100];
    let two = joined(&[&[0, 7, 0x81, 0], one]);
    let three = joined(&[&[0, 9, 0x88, 0xa8], &two]);
    for payload in [ipv4(17, &PORTS), ipv4(6, &PORTS), ipv6(17, &PORTS, 0), ipv6(43, &PORTS, 0)] {
        let (kind, inner) =
            if payload[0] == 0x45 { (0x0800_u16, [8, 0]) } else { (0x86dd, [0x86, 0xdd]) };
        let plain = keys(kind, &payload);
        for (tags, tag) in [
            (one, 0x8100_6064_0000 | u64::from(kind)),
            (&two, 0x8100_0007_8100),
            (&three, 0x8100_0009_88a8),
        ] {
            let tagged = keys(0x8100, &joined(&[tags, &inner, &payload]));
            assert_eq!(tagged, FlowKeys { tag, ..plain }, "{tags:x?}");
        }
    }
}

/// A frame with its tag in it, as packet sockets send them: the kernel takes the first bytes of
/// the IP header for the rest of the tag, and so TOS and length for what tells flows apart.
#[test]
fn behind_a_tag_that_was_sent_the_ip_header_is_misread() {
    let keys = |payload: &[u8]| {
        let frame = ethernet(0x8100, payload);
        let mut packet = Packet::parse_ethernet(&frame[..]).expect("a frame");
        packet.extra.as_mut().expect("a tag").tag_sent = true;
        packet.flow_keys()
    };
    let tagged = |payload: &[u8]| keys(&joined(&[&[0, 100, 8, 0], payload]));
    let datagram = ipv4(17, &PORTS);
    let expected = FlowKeys {
        ether_type: datagram.len() as u16,
        tag: 0x8100_4500_0000 | datagram.len() as u64 & !0x1000_0000,
        ..FlowKeys::default()
    };
    assert_eq!(tagged(&datagram), expected);
    let mut other = datagram;
    other[15] = 77;
    assert_eq!(tagged(&other), expected, "another source");
    other[1] = 4;
    assert_ne!(tagged(&other), expected, "another TOS");
    let unknown = |payload: &[u8]| keys(&joined(&[&[0, 100, 0x88, 0xb5], payload]));
    assert_ne!(unknown(&[1; 46]), unknown(&[2; 46]));
}

/// Ordinary packets are not walked through: what their fields say is what their bytes would.
#[test]
fn fields_say_what_bytes_say() {
    use crate::packet::testing::{self, packet};
    use crate::packet::{TcpFlags, Transport};
    let networks: [fn(u8) -> Network; 2] = [testing::ipv4, testing::ipv6];
    for network in networks {
        for (protocol, transport) in [(6, testing::tcp(TcpFlags::ACK)), (253, Transport::None)] {
            let packet = packet(network(protocol), transport, 9);
            let mut bytes = Vec::new();
            packet.emit_headers(&mut bytes);
            let at = packet.link.len() as usize;
            let walked = Dissector::walk(&bytes, at, packet.network.ether_type().0);
            assert_eq!(packet.flow_keys(), walked);
        }
    }
}

#[test]
fn what_begins_beyond_the_packet_is_not_read() {
    let longer_than_the_packet = [137, 255, 0, 0, 0, 0, 0, 0];
    let keys = keys(0x86dd, &ipv6(60, &longer_than_the_packet, 0));
    assert_eq!((keys.ether_type, keys.ports), (0x8847, (0, 0)));
}
