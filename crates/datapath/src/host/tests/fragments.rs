//! Fragments and flaws at a host: what a 6.18 kernel counts, delivers and answers for the same
//! packets.

mod cutting;
mod flaws;

use super::*;
use crate::packet::{Flaws, FlowLabel, Ipv4, Ipv6, Network, protocol};
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 1, 2), Ipv4Addr::new(10, 0, 1, 1)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)];

/// A host with both addresses, a socket bound to port 5000 of each, and room on the wire.
fn host() -> (Host, [SocketId; 2]) {
    let mut host = Host::new();
    let addresses = vec![(IpAddr::V4(V4[1]), 24), (IpAddr::V6(V6[1]), 64)];
    host.add_port(PortConfig { addresses, ..PortConfig::default() });
    host.grant(ms(0), Port(0), 100);
    let ids =
        [at("0.0.0.0:5000"), at("[::]:5000")].map(|it| host.udp_bind(ms(0), it).expect("free"));
    assert!(outputs(&mut host, ms(0)).is_empty());
    (host, ids)
}

/// A datagram of 100 bytes for `port`, from its UDP header on.
fn udp_bytes(ipv6: bool, port: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    whole(ipv6, port).emit(&[0; 100], &mut bytes);
    bytes.split_off(if ipv6 { 40 } else { 20 })
}

fn whole(ipv6: bool, port: u16) -> Packet {
    let network = if ipv6 { v6(protocol::UDP) } else { v4(protocol::UDP, 0, 0, false) };
    Packet {
        network,
        transport: Transport::Udp(Udp { src_port: 4000, dst_port: port }),
        body: Body::of_len(100),
        ..Packet::default()
    }
    .finish()
}

fn v4(protocol: u8, id: u16, offset: u16, more_fragments: bool) -> Network {
    Network::Ipv4(Ipv4 {
        src: V4[0],
        dst: V4[1],
        tos: 0,
        ttl: 64,
        protocol,
        id,
        dont_fragment: false,
        more_fragments,
        fragment_offset: offset / 8,
    })
}

fn v6(next_header: u8) -> Network {
    Network::Ipv6(Ipv6 {
        src: V6[0],
        dst: V6[1],
        traffic_class: 0,
        hop_limit: 64,
        next_header,
        flow_label: FlowLabel::NONE,
    })
}

/// A packet that came in as these bytes behind an IP header.
fn with_payload(network: Network, payload: &[u8]) -> Packet {
    let empty = Packet { network, ..Packet::default() };
    let mut bytes = Vec::new();
    empty.emit(&[], &mut bytes);
    if let Network::Ipv6(ip) = network {
        bytes[6] = ip.next_header;
        bytes[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    } else {
        bytes[2..4].copy_from_slice(&(payload.len() as u16 + 20).to_be_bytes());
        bytes[10..12].fill(0);
        let sum = crate::packet::checksum::Sum::default().bytes(&bytes).checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.extend_from_slice(payload);
    Packet::parse_ip(&bytes[..]).expect("is IP")
}

/// Bytes `from..to` of a datagram, cut or padded with zeroes to fit.
fn slice(bytes: &[u8], from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| bytes.get(at).copied().unwrap_or(0)).collect()
}

/// A fragment: identification, from, to, whether more follow, TOS.
type Fragment = (u32, u16, u16, bool, u8);

fn fragment(ipv6: bool, (id, from, to, more, tos): Fragment) -> Packet {
    let payload = slice(&udp_bytes(ipv6, 5000), usize::from(from), usize::from(to));
    let mut packet = if ipv6 {
        let field = (from | u16::from(more)).to_be_bytes();
        let mut header = vec![protocol::UDP, 0, field[0], field[1]];
        header.extend(id.to_be_bytes());
        with_payload(v6(protocol::FRAGMENT), &[header, payload].concat())
    } else {
        with_payload(v4(protocol::UDP, id as u16, from, more), &payload)
    };
    packet.set_tos(tos);
    packet
}

/// What has been counted, by the names of `nstat`, zeroes left out.
fn counted(host: &Host) -> Vec<(&'static str, u64)> {
    let hot = ["IpInReceives", "IpOutRequests", "UdpInDatagrams", "Udp6InDatagrams"];
    host.ip_counters().filter(|(name, value)| *value > 0 && !hot.contains(name)).collect()
}

struct Case<'a> {
    what: &'a str,
    fragments: &'a [Fragment],
    /// Lengths of the datagrams that the application reads.
    read: &'a [u32],
    counted: &'a [(&'a str, u64)],
}

fn check(ipv6: bool, cases: &[Case<'_>]) {
    for Case { what, fragments, read, counted: expected } in cases {
        let (mut host, ids) = host();
        for one in *fragments {
            receive(&mut host, ms(0), fragment(ipv6, *one));
        }
        let outputs = outputs(&mut host, ms(0));
        let lens: Vec<u32> =
            std::iter::from_fn(|| host.datagram_read(ids[usize::from(ipv6)]).expect("open"))
                .map(|datagram| datagram.body.len)
                .collect();
        assert_eq!(&lens, read, "{what}");
        assert_eq!(&counted(&host), expected, "{what}");
        // What came in is read, dropped with a reason, or waits.
        if read.is_empty() {
            let waiting = host.waiting_fragments().count();
            assert_eq!(drops(&outputs).len() + waiting, fragments.len(), "{what}");
        }
    }
}

#[test]
fn ipv4_pieces_make_a_packet_or_do_not() {
    check(
        false,
        &[
            Case {
                what: "in order",
                fragments: &[(2, 0, 56, true, 0), (2, 56, 108, false, 0)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 2), ("IpReasmOKs", 1)],
            },
            Case {
                what: "the last first",
                fragments: &[(3, 56, 108, false, 0), (3, 0, 56, true, 0)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 2), ("IpReasmOKs", 1)],
            },
            Case {
                what: "a duplicate",
                fragments: &[(4, 0, 56, true, 0), (4, 0, 56, true, 0), (4, 56, 108, false, 0)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 3), ("IpReasmOKs", 1)],
            },
            Case {
                what: "an overlap",
                fragments: &[(5, 0, 56, true, 0), (5, 48, 108, false, 0), (5, 56, 108, false, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 3), ("IpReasmFails", 1), ("IpExtReasmOverlaps", 1)],
            },
            Case {
                what: "within one run",
                fragments: &[
                    (6, 0, 24, true, 0),
                    (6, 24, 56, true, 0),
                    (6, 8, 40, true, 0),
                    (6, 56, 108, false, 0),
                ],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 4), ("IpReasmOKs", 1)],
            },
            Case {
                what: "across two runs",
                fragments: &[(7, 24, 56, true, 0), (7, 0, 24, true, 0), (7, 8, 40, true, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 3), ("IpReasmFails", 1), ("IpExtReasmOverlaps", 1)],
            },
            Case {
                what: "a last one that ends too early",
                fragments: &[(8, 0, 56, true, 0), (8, 40, 50, false, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 2), ("IpReasmFails", 1)],
            },
            Case {
                what: "two last ones",
                fragments: &[(9, 56, 108, false, 0), (9, 56, 90, false, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 2), ("IpReasmFails", 1)],
            },
            Case {
                what: "nothing in it",
                fragments: &[(10, 56, 56, true, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 1), ("IpReasmFails", 1)],
            },
            Case {
                what: "no multiple of eight",
                fragments: &[(11, 0, 53, true, 0), (11, 48, 108, false, 0)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 2), ("IpReasmOKs", 1)],
            },
            Case {
                what: "ECT and CE",
                fragments: &[(12, 0, 56, true, 2), (12, 56, 108, false, 3)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("IpReasmReqds", 2), ("IpReasmOKs", 1)],
            },
            Case {
                what: "ECT and not",
                fragments: &[(13, 0, 56, true, 2), (13, 56, 108, false, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 2), ("IpReasmFails", 1)],
            },
            Case {
                what: "longer than a packet may be",
                fragments: &[(14, 0, 32_768, true, 0), (14, 32_768, 65_528, false, 0)],
                read: &[],
                counted: &[("IpReasmReqds", 2), ("IpReasmFails", 1)],
            },
        ],
    );
}

#[test]
fn ipv6_pieces_make_a_packet_or_do_not() {
    let whole: &[(&str, u64)] = &[("IpInDelivers", 1), ("Ip6ReasmReqds", 2), ("Ip6ReasmOKs", 1)];
    check(
        true,
        &[
            Case {
                what: "in order",
                fragments: &[(2, 0, 56, true, 0), (2, 56, 108, false, 0)],
                read: &[100],
                counted: whole,
            },
            Case {
                what: "all at once",
                fragments: &[(3, 0, 108, false, 0)],
                read: &[100],
                counted: &[("IpInDelivers", 1), ("Ip6ReasmReqds", 1), ("Ip6ReasmOKs", 1)],
            },
            Case {
                what: "an overlap",
                fragments: &[(5, 0, 56, true, 0), (5, 48, 108, false, 0), (5, 56, 108, false, 0)],
                read: &[],
                counted: &[("Ip6ReasmReqds", 3), ("Ip6ReasmFails", 1)],
            },
        ],
    );
}

/// What RFC 8200 forbids is told: code and pointer of the parameter problem.
#[test]
fn wrong_ipv6_fragments_are_answered() {
    for (what, one, code, pointer) in [
        ("no multiple of eight", (5, 0, 53, true, 0), 0, 4),
        ("beyond the largest packet", (6, 0, 0, false, 0), 0, 42),
        ("no transport header", (7, 0, 0, true, 0), 3, 0),
    ] {
        let (mut host, _) = host();
        let one: Fragment = one;
        let packet = if what.starts_with("beyond") {
            let header = [protocol::UDP, 0, 0xff, 0xf8, 0, 0, 0, 6];
            with_payload(v6(protocol::FRAGMENT), &[&header[..], &[0; 1_000]].concat())
        } else {
            fragment(true, one)
        };
        receive(&mut host, ms(0), packet);
        let answers: Vec<_> =
            sent(&mut host, ms(0)).into_iter().map(|(_, it)| it.transport).collect();
        let expected = Transport::Icmp(Icmp { kind: 4, code, rest: pointer });
        assert_eq!(answers, [expected], "{what}");
        assert_eq!(counted(&host)[..], [("Ip6InHdrErrors", 1), ("Ip6ReasmReqds", 1)], "{what}");
    }
}

/// The pointer of a parameter problem counts the extension headers before what is wrong: as Linux 6.18 was seen to answer.
#[test]
fn pointers_pass_over_extension_headers() {
    let (hop, options, fragment) =
        (protocol::HOP_BY_HOP, protocol::DESTINATION_OPTIONS, protocol::FRAGMENT);
    let padding = |next: u8| vec![next, 0, 1, 4, 0, 0, 0, 0];
    let piece = |next: u8, offset: u16, more: bool| {
        let field = (offset | u16::from(more)).to_be_bytes();
        vec![next, 0, field[0], field[1], 0, 0, 0, 5]
    };
    // The first next header, what follows, bytes after it; code and pointer.
    for (first, headers, len, code, pointer) in [
        (253, vec![], 20, 1, 6),
        (hop, vec![padding(253)], 20, 1, 40),
        (hop, vec![padding(options), padding(253)], 20, 1, 48),
        (fragment, vec![piece(253, 0, false)], 20, 1, 40),
        (hop, vec![padding(fragment), piece(253, 0, false)], 20, 1, 48),
        (fragment, vec![piece(options, 0, false), padding(253)], 20, 1, 48),
        (hop, vec![padding(fragment), piece(protocol::UDP, 0, true)], 53, 0, 4),
        (hop, vec![padding(fragment), piece(protocol::UDP, 0xfff8, false)], 1_000, 0, 50),
        (hop, vec![padding(fragment), piece(protocol::UDP, 0, true)], 0, 3, 0),
    ] {
        let (mut host, _) = host();
        let what = format!("{first} {headers:?} {len}");
        let payload = [headers.concat(), vec![0; len]].concat();
        receive(&mut host, ms(0), with_payload(v6(first), &payload));
        let answers: Vec<_> =
            sent(&mut host, ms(0)).into_iter().map(|(_, it)| it.transport).collect();
        let expected = Transport::Icmp(Icmp { kind: 4, code, rest: pointer });
        assert_eq!(answers, [expected], "{what}");
    }
}

/// The packet's time counts from its first fragment; ICMP tells of it if the first piece is there.
#[test]
fn what_is_not_whole_in_time_is_given_up() {
    for (ipv6, seconds, kind) in [(false, 30, 11), (true, 60, 3)] {
        for (one, told) in [((1, 0, 56, true, 0), true), ((2, 56, 108, false, 0), false)] {
            let (mut host, _) = host();
            receive(&mut host, ms(5), fragment(ipv6, one));
            assert!(outputs(&mut host, ms(5)).is_empty());
            let due = ms(5) + Duration::from_secs(seconds);
            assert_eq!(host.wake_at(), Some(due));
            let outputs = outputs(&mut host, due);
            assert_eq!(drops(&outputs), [Reason::FragmentTimeout]);
            let answers: Vec<_> = outputs
                .iter()
                .filter_map(|output| match output {
                    (Poll::Send { .. }, packet) => Some(packet.transport),
                    _ => None,
                })
                .collect();
            let expected = Transport::Icmp(Icmp { kind, code: 1, rest: 0 });
            assert_eq!(answers, if told { vec![expected] } else { vec![] });
            let counts = host.snmp(ipv6);
            assert_eq!((counts.reasm_timeout, counts.reasm_fails), (1, 1));
            assert_eq!(host.wake_at(), None);
        }
    }
}

#[test]
fn nothing_new_is_begun_beyond_the_limit_and_nothing_is_evicted() {
    let (mut host, ids) = host();
    for (name, value) in [("low", "3000"), ("high", "4000")] {
        let name = format!("net.ipv4.ipfrag_{name}_thresh");
        host.set_tcp_sysctl(&name, value).expect("there is one");
    }
    for id in 0..8 {
        receive(&mut host, ms(0), fragment(false, (id, 0, 56, true, 0)));
    }
    // 1,480 bytes each: the third goes beyond.
    assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::Reassembly; 5]);
    assert_eq!(host.snmp(false).reasm_fails, 5);
    receive(&mut host, ms(0), fragment(false, (0, 56, 108, false, 0)));
    assert!(host.datagram_read(ids[0]).expect("open").is_some(), "what was begun may be finished");
}

/// More than `ipfrag_max_dist` fragments from one source between two of one packet: what there is
/// of it is thrown away, and it begins anew with the later one.
#[test]
fn fragments_too_far_apart_begin_a_new_datagram() {
    for (others, read) in [(1, true), (2, false)] {
        let (mut host, ids) = host();
        host.set_tcp_sysctl("net.ipv4.ipfrag_max_dist", "2").expect("there is one");
        receive(&mut host, ms(0), fragment(false, (1, 0, 24, true, 0)));
        for other in 0..others {
            receive(&mut host, ms(0), fragment(false, (10 + other, 0, 24, true, 0)));
        }
        receive(&mut host, ms(0), fragment(false, (1, 24, 108, false, 0)));
        assert_eq!(host.datagram_read(ids[0]).expect("open").is_some(), read, "{others} others");
        assert_eq!(host.snmp(false).reasm_fails, u64::from(!read));
        if !read {
            assert_eq!(drops(&outputs(&mut host, ms(0))), [Reason::FragmentTooFar]);
            receive(&mut host, ms(0), fragment(false, (1, 0, 24, true, 0)));
            assert!(host.datagram_read(ids[0]).expect("open").is_some());
        }
    }
}

proptest! {
    /// Fragments in any order, some of them twice, one perhaps lost: the datagram arrives exactly
    /// once if all have come, and each fragment comes out once, waits, or is part of the datagram.
    #[test]
    fn any_order_gives_the_datagram_or_nothing(
        len in 100u32..6_000,
        mtu in 68u32..1_500,
        ipv6: bool,
        keys in proptest::collection::vec(any::<u16>(), 200),
        twice in proptest::collection::vec(any::<bool>(), 200),
        lost in proptest::option::of(0usize..200),
    ) {
        let mut datagram = whole(ipv6, 5000);
        datagram.body.len = len;
        let datagram = datagram.finish();
        let cut = if ipv6 {
            datagram.fragment_ipv6(mtu, 9)
        } else {
            datagram.fragment(mtu)
        };
        let fragments: Vec<Packet> = cut.expect("may be cut").collect();
        prop_assume!(fragments.len() > 1 && fragments.len() < 60);
        let mut order: Vec<(u16, usize)> = Vec::new();
        for index in 0..fragments.len() {
            if lost.is_some_and(|lost| lost % fragments.len() == index) {
                continue;
            }
            order.push((keys[index], index));
            // The first comes once, so that nothing is whole twice.
            if twice[index] && index > 0 {
                order.push((keys[index + 100], index));
            }
        }
        order.sort_unstable();
        let (mut host, ids) = host();
        for (_, index) in &order {
            receive(&mut host, ms(0), fragments[*index].clone());
        }
        let dropped = drops(&outputs(&mut host, ms(0))).len();
        let read: Vec<u32> = std::iter::from_fn(|| host.datagram_read(ids[usize::from(ipv6)]).expect("open"))
            .map(|datagram| datagram.body.len)
            .collect();
        let waiting = host.waiting_fragments().count();
        let joined = if lost.is_none() { fragments.len() } else { 0 };
        prop_assert_eq!(read, if lost.is_none() { vec![len] } else { vec![] });
        prop_assert_eq!(dropped + waiting + joined, order.len());
    }
}
