//! How a router and a host cut packets, fragment by fragment.

use super::*;

/// A router cuts what may be cut, fragments included; lengths and offsets as observed.
#[test]
fn a_router_fragments_what_may_be_fragmented() {
    let may = |len: u32, offset: u16, more: bool| {
        let mut packet = datagram("10.0.1.2:5", "10.0.2.2:6", 64, len);
        if let Network::Ipv4(ip) = &mut packet.network {
            ip.dont_fragment = false;
            ip.id = 1;
            ip.fragment_offset = offset / 8;
            ip.more_fragments = more;
        }
        if more {
            packet.transport = Transport::None;
            packet = packet.finish();
        }
        packet
    };
    for (packet, expected) in [
        (may(1_372, 0, false), [(1_276, 0, true), (144, 157, false)]),
        (may(1_376, 800, true), [(1_276, 100, true), (140, 257, true)]),
    ] {
        let mut host = router();
        host.port_config_mut(Port(1)).mtu = 1_280;
        for _ in 0..2 {
            host.grant(ms(0), Port(1), 1);
        }
        receive(&mut host, ms(0), packet);
        let seen: Vec<_> = sent(&mut host, ms(0))
            .iter()
            .map(|(_, packet)| match packet.network {
                Network::Ipv4(ip) => (packet.len() - 14, ip.fragment_offset, ip.more_fragments),
                _ => panic!("not IPv4"),
            })
            .collect();
        assert_eq!(seen, expected);
        let counts = host.snmp(false);
        assert_eq!((counts.frag_oks, counts.frag_creates, counts.frag_fails), (1, 2, 0));
    }
}

/// As observed, don't-fragment of small packets included: DF, fragment offset, more, length.
#[test]
fn a_datagram_larger_than_the_link_goes_in_fragments() {
    use crate::tcp::config::PmtuDiscovery;
    let send = |ipv6: bool, len: u32, discovery: PmtuDiscovery| {
        let (mut host, ids) = host();
        let id = ids[usize::from(ipv6)];
        host.udp_socket(id).expect("open").pmtu_discovery = discovery;
        let remote = SocketAddr::new(if ipv6 { V6[0].into() } else { V4[0].into() }, 6000);
        let body = Body::of_len(len);
        let result = host.udp_send(ms(0), id, remote, body).map(|_| ());
        let packets: Vec<Packet> = sent(&mut host, ms(0)).into_iter().map(|(_, it)| it).collect();
        (result, packets)
    };
    let fields = |packets: &[Packet]| -> Vec<(bool, u32, bool, u32)> {
        packets
            .iter()
            .map(|packet| {
                let df = matches!(packet.network, Network::Ipv4(ip) if ip.dont_fragment);
                let (offset, more) =
                    packet.piece().map_or((0, false), |piece| (piece.offset, piece.more));
                (df, offset, more, packet.len() - 14)
            })
            .collect()
    };
    let (_, one) = send(false, 1_472, PmtuDiscovery::Want);
    assert_eq!(fields(&one), [(true, 0, false, 1_500)]);
    let (_, two) = send(false, 1_473, PmtuDiscovery::Want);
    assert_eq!(fields(&two), [(false, 0, true, 1_500), (false, 1_480, false, 21)]);
    let (_, three) = send(false, 4_000, PmtuDiscovery::Dont);
    let lens: Vec<u32> = fields(&three).iter().map(|it| it.3).collect();
    assert_eq!(lens, [1_500, 1_500, 1_068]);
    assert_eq!(send(false, 4_000, PmtuDiscovery::Do), (Err(SocketError::MessageSize), vec![]));
    let (_, small) = send(false, 100, PmtuDiscovery::Dont);
    assert_eq!(fields(&small), [(false, 0, false, 128)]);
    let (_, three) = send(true, 4_000, PmtuDiscovery::Want);
    let lens: Vec<u32> = fields(&three).iter().map(|it| it.3).collect();
    assert_eq!(lens, [1_496, 1_496, 1_160]);
    let ids: Vec<u32> = three.iter().map(|it| it.piece().expect("a fragment").id).collect();
    assert_eq!(ids, [1, 1, 1]);
    // What one host cuts the other puts together.
    let (mut other, ids) = host();
    for mut packet in three {
        if let Network::Ipv6(ip) = &mut packet.network {
            (ip.src, ip.dst) = (V6[0], V6[1]);
        }
        packet.transport = Transport::None;
        packet.refresh_raw();
        receive(&mut other, ms(1), packet);
    }
    assert!(other.datagram_read(ids[1]) == Ok(None), "the checksum covers the addresses");
    assert_eq!(other.snmp(true).reasm_oks, 1);
}
