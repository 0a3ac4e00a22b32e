//! Flawed packets: what is counted, and what only the end of their way may judge.

use super::*;

/// What is wrong, the packet, why it is dropped, what is counted, what ICMP answers.
type Flawed<'a> = (&'a str, Packet, Reason, &'a [(&'a str, u64)], Option<(u8, u8)>);

#[test]
fn flawed_packets_are_counted_and_dropped() {
    let udp = udp_bytes(false, 5000);
    let frame = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        whole(false, 5000).emit(&[0; 100], &mut bytes);
        edit(&mut bytes);
        Packet::parse_ip(&bytes[..]).expect("is IP")
    };
    let tcp = |doff: u8| {
        let mut header = [0; 20];
        (header[12], header[13]) = (doff << 4, 2);
        header
    };
    let echo = [8, 0, 0, 0, 0, 1, 0, 1];
    let cases: Vec<Flawed<'_>> = vec![
        (
            "IPv4 checksum",
            frame(&|bytes| bytes[10] ^= 1),
            Reason::Checksum,
            &[("IpInHdrErrors", 1), ("IpExtInCsumErrors", 1)],
            None,
        ),
        (
            "IPv4 header length",
            frame(&|bytes| bytes[0] = 0x44),
            Reason::Malformed,
            &[("IpInHdrErrors", 1)],
            None,
        ),
        (
            "total length beyond the frame",
            with_payload(v4(protocol::UDP, 0, 0, false), &udp),
            Reason::PacketTooSmall,
            &[("IpExtInTruncatedPkts", 1)],
            None,
        ),
        (
            "UDP checksum",
            frame(&|bytes| bytes[26] ^= 1),
            Reason::UdpChecksum,
            &[("IpInDelivers", 1), ("UdpInErrors", 1), ("UdpInCsumErrors", 1)],
            None,
        ),
        (
            "UDP length",
            frame(&|bytes| bytes[24] = 1),
            Reason::PacketTooSmall,
            &[("IpInDelivers", 1), ("UdpInErrors", 1)],
            None,
        ),
        (
            "a piece of a UDP header",
            with_payload(v4(protocol::UDP, 0, 0, false), b"1234"),
            Reason::PacketTooSmall,
            &[("IpInDelivers", 1), ("UdpInErrors", 1)],
            None,
        ),
        (
            "ICMP checksum",
            with_payload(v4(protocol::ICMP, 0, 0, false), &echo),
            Reason::IcmpChecksum,
            &[("IpInDelivers", 1), ("IcmpInMsgs", 1), ("IcmpInErrors", 1), ("IcmpInCsumErrors", 1)],
            None,
        ),
        (
            "TCP checksum",
            with_payload(v4(protocol::TCP, 0, 0, false), &tcp(5)),
            Reason::TcpChecksum,
            &[("IpInDelivers", 1)],
            None,
        ),
        (
            "TCP data offset",
            with_payload(v4(protocol::TCP, 0, 0, false), &tcp(4)),
            Reason::PacketTooSmall,
            &[("IpInDelivers", 1)],
            None,
        ),
        (
            "a protocol that nobody takes",
            with_payload(v4(99, 0, 0, false), &[0; 8]),
            Reason::NoProtocol,
            &[("IpInUnknownProtos", 1)],
            Some((3, 2)),
        ),
        (
            "the same in IPv6",
            with_payload(v6(99), &[0; 8]),
            Reason::NoProtocol,
            &[("Ip6InUnknownProtos", 1)],
            Some((4, 1)),
        ),
    ];
    for (what, mut packet, reason, expected, answer) in cases {
        if what.starts_with("total") {
            packet.extra.get_or_insert_default().flaws |= Flaws::LENGTH;
        }
        let (mut host, ids) = host();
        receive(&mut host, ms(0), packet);
        let outputs = outputs(&mut host, ms(0));
        assert_eq!(drops(&outputs), [reason], "{what}");
        assert_eq!(&counted(&host), expected, "{what}");
        assert!(host.datagram_read(ids[0]).expect("open").is_none(), "{what}");
        let answers: Vec<_> = outputs
            .iter()
            .filter_map(|output| match output {
                (Poll::Send { .. }, Packet { transport: Transport::Icmp(icmp), .. }) => {
                    Some((icmp.kind, icmp.code))
                }
                _ => None,
            })
            .collect();
        assert_eq!(answers, Vec::from_iter(answer), "{what}");
        let mib = host.tcp_mib();
        let of_tcp = (mib.in_segs, mib.in_errs, mib.in_csum_errors);
        let tcp_expected = match what {
            "TCP checksum" => (1, 1, 1),
            "TCP data offset" => (1, 1, 0),
            _ => (0, 0, 0),
        };
        assert_eq!(of_tcp, tcp_expected, "{what}");
    }
}

/// A router looks at no transport checksum, but at that of the IPv4 header.
#[test]
fn a_router_passes_on_what_only_the_end_can_judge() {
    let mut packet = datagram("10.0.1.2:5", "10.0.2.2:6", 64, 100);
    packet.extra.get_or_insert_default().flaws |= Flaws::TRANSPORT_CHECKSUM;
    let mut host = router();
    host.grant(ms(0), Port(1), 1);
    receive(&mut host, ms(0), packet.clone());
    assert_eq!(sent(&mut host, ms(0)).len(), 1);
    packet.extra.get_or_insert_default().flaws |= Flaws::IP_CHECKSUM;
    receive(&mut host, ms(0), packet);
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::Checksum]);
}
