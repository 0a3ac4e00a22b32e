use super::*;
use crate::packet::seq::Seq;
use crate::packet::testing::{ipv4, ipv6, packet, tcp, with_raw_option};
use crate::packet::{Extra, FlowLabel, Tcp, Timestamps, Udp, protocol};
use proptest::prelude::*;

/// The `index`-th segment of 1000 bytes of one flow.
fn segment(index: u32) -> Packet {
    let mut packet = packet(ipv4(protocol::TCP), tcp(TcpFlags::ACK), 1000);
    packet.body.offset = 1000 * index;
    if let Network::Ipv4(ip) = &mut packet.network {
        ip.id += index as u16;
    }
    edit_tcp(&mut packet, |tcp| tcp.seq += 1000 * index);
    packet
}

fn edit_tcp(packet: &mut Packet, change: impl FnOnce(&mut Tcp)) {
    if let Transport::Tcp(tcp) = &mut packet.transport {
        change(tcp);
    }
}

/// Merges what lies side by side.
fn merge(held: &mut Packet, next: &Packet) -> bool {
    gro_merge(held, next, GRO_MAX_SIZE, &mut Frames::new(0, 0), &mut Joined::default())
}

fn merged(packets: &[Packet]) -> (Packet, usize) {
    let mut held = packets[0].clone();
    let count = packets[1..].iter().take_while(|next| merge(&mut held, next)).count();
    (held, count + 1)
}

#[test]
fn consecutive_segments_merge_until_the_limit() {
    let packets: Vec<_> = (0..100).map(segment).collect();
    let (held, count) = merged(&packets);
    // 52 bytes of IP and TCP headers, and below 65,536 in all.
    assert_eq!((count, held.body.len), (65, 65_000));
    assert_eq!((held.meta.gso_size, held.meta.gso_segs), (1000, 65));
    assert_eq!(held.len(), held.header_len() + held.body.len);
}

#[test]
fn what_ends_a_super_packet() {
    let flagged = |flag| {
        let mut last = segment(1);
        edit_tcp(&mut last, |tcp| tcp.flags |= flag);
        last
    };
    let mut short = segment(1);
    short.body.len = 400;
    for last in [flagged(TcpFlags::PSH), flagged(TcpFlags::FIN), short] {
        let mut next = segment(2);
        let behind = last.body.offset + last.body.len;
        next.body.offset = behind;
        edit_tcp(&mut next, |tcp| tcp.seq = Seq(0xffff_f000) + behind);
        let (held, count) = merged(&[segment(0), last.clone(), next]);
        assert_eq!(count, 2, "{last:?}");
        assert!(gro_ends(&held));
        let flags = last.tcp().expect("TCP").flags;
        assert!(held.tcp().expect("TCP").flags.contains(flags));
    }
}

#[test]
fn what_does_not_merge() {
    let change = |change: fn(&mut Packet)| {
        let mut next = segment(1);
        change(&mut next);
        next.finish()
    };
    let table: [(&str, Packet); 17] = [
        ("a gap", segment(2)),
        ("the same again", segment(0)),
        ("other ack", change(|p| edit_tcp(p, |tcp| tcp.ack += 1))),
        ("other window", change(|p| edit_tcp(p, |tcp| tcp.window += 1))),
        ("CWR", change(|p| edit_tcp(p, |tcp| tcp.flags |= TcpFlags::CWR))),
        ("ECE", change(|p| edit_tcp(p, |tcp| tcp.flags |= TcpFlags::ECE))),
        ("SYN", change(|p| edit_tcp(p, |tcp| tcp.flags |= TcpFlags::SYN))),
        ("other port", change(|p| edit_tcp(p, |tcp| tcp.src_port += 1))),
        (
            "other timestamps",
            change(|p| {
                edit_tcp(p, |tcp| {
                    tcp.options.timestamps = Some(Timestamps { value: 8, echo: 8 });
                });
            }),
        ),
        ("no options", change(|p| edit_tcp(p, |tcp| tcp.options.timestamps = None))),
        ("larger", change(|p| p.body.len = 1001)),
        ("empty", change(|p| p.body.len = 0)),
        ("CE mark", change(|p| assert!(p.mark_ce()))),
        ("other TTL", change(|p| assert!(p.dec_ttl()))),
        (
            "id out of order",
            change(|p| {
                if let Network::Ipv4(ip) = &mut p.network {
                    ip.id += 5;
                }
            }),
        ),
        ("payload elsewhere", change(|p| p.body.offset += 1)),
        ("padding", change(|p| p.extra = Some(Box::new(Extra { trailer: 6, ..Extra::default() })))),
    ];
    for (what, next) in table {
        let mut held = segment(0);
        assert!(!merge(&mut held, &next), "{what}");
        assert_eq!(held, segment(0), "{what}");
    }
}

#[test]
fn ids_count_up_or_stay_but_not_both() {
    let fixed = |index| {
        let mut packet = segment(index);
        packet.network = segment(0).network;
        packet
    };
    let (held, count) = merged(&[fixed(0), fixed(1), fixed(2), segment(3)]);
    assert_eq!((count, held.gso_type), (3, GsoType::FIXED_ID));
    assert_eq!(merged(&[segment(0), segment(1), fixed(2)]).1, 2);
    let may_fragment = |mut packet: Packet| {
        if let Network::Ipv4(ip) = &mut packet.network {
            ip.dont_fragment = false;
        }
        packet
    };
    assert_eq!(merged(&[fixed(0), fixed(1)].map(may_fragment)).1, 1);
    assert_eq!(merged(&[segment(0), segment(1)].map(may_fragment)).1, 2);
}

#[test]
fn flow_labels_count() {
    let mut packets = [0, 1].map(segment);
    for packet in &mut packets {
        packet.network = ipv6(protocol::TCP);
    }
    assert_eq!(merged(&packets).1, 2);
    if let Network::Ipv6(ip) = &mut packets[1].network {
        ip.flow_label = FlowLabel::NONE;
    }
    assert_eq!(merged(&packets).1, 1);
}

#[test]
fn raw_options_merge_if_equal() {
    let packets = [0, 1].map(|index| with_raw_option(&segment(index)));
    assert_eq!(merged(&packets).1, 2);
    let mut other = packets.clone();
    *other[1].extra.as_mut().unwrap().raw.last_mut().unwrap() ^= 1;
    assert_eq!(merged(&other).1, 1);
    assert_eq!(merged(&[packets[0].clone(), segment(1)]).1, 1);
}

#[test]
fn datagrams_merge_up_to_64() {
    let udp = Transport::Udp(Udp { src_port: 1, dst_port: 2 });
    let datagrams: Vec<_> = (0..100u32)
        .map(|index| {
            let mut datagram = packet(ipv4(protocol::UDP), udp, 100);
            datagram.body.offset = 100 * index;
            if let Network::Ipv4(ip) = &mut datagram.network {
                ip.id += index as u16;
            }
            datagram
        })
        .collect();
    assert_eq!(merged(&datagrams).1, 64);
}

proptest! {
    /// Cutting and merging are inverse.
    #[test]
    fn merged_segments_are_the_super_packet(
        len in 1u32..60_000,
        size in 500u16..2000,
        v6: bool,
        raw: bool,
        fixed: bool,
        fin: bool,
    ) {
        prop_assume!(len > u32::from(size));
        let network = if v6 { ipv6(protocol::TCP) } else { ipv4(protocol::TCP) };
        let flags = if fin { TcpFlags::ACK | TcpFlags::FIN } else { TcpFlags::ACK };
        let mut big = packet(network, tcp(flags), len);
        big.meta.gso_size = size;
        big.meta.gso_segs = len.div_ceil(u32::from(size)) as u16;
        big.gso_type = if fixed && !v6 { GsoType::FIXED_ID } else { GsoType::NONE };
        let big = if raw { with_raw_option(&big) } else { big };
        let segments: Vec<_> = big.segment().collect();
        let (mut held, count) = merged(&segments);
        prop_assert_eq!(count, segments.len());
        // Checksums and lengths in raw headers are only right at emission.
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        held.emit_headers(&mut ours);
        big.emit_headers(&mut theirs);
        prop_assert_eq!(ours, theirs);
        held.extra = None;
        prop_assert_eq!(held, Packet { extra: None, ..big });
    }
}

/// AE, CWR and ECE are a counter with Accurate ECN: the same merges, another does not, and the
/// super-packet keeps CWR on every segment when it is cut again.
#[test]
fn accurate_ecn_merges_while_the_field_stays() {
    for theirs in 0..8u16 {
        for ours in 0..8u16 {
            let field = |index, ace: u16| {
                let mut packet = segment(index);
                edit_tcp(&mut packet, |tcp| tcp.flags |= TcpFlags(ace * TcpFlags::ECE.0));
                packet
            };
            let (held, count) = merged(&[field(0, ours), field(1, theirs)]);
            assert_eq!(count == 2, ours == theirs, "{ours} {theirs}");
            if count == 2 {
                for segment in held.segment() {
                    let flags = segment.tcp().expect("TCP").flags;
                    assert_eq!(flags.0 / TcpFlags::ECE.0, ours);
                }
            }
        }
    }
}
