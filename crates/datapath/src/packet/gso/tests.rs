use super::*;
use crate::packet::testing::{bytes, ipv4, ipv6, packet, payload, tcp, with_raw_option};
use crate::packet::{Udp, protocol};
use proptest::prelude::*;

fn super_packet(network: Network, flags: TcpFlags, len: u32, size: u16) -> Packet {
    let mut packet = packet(network, tcp(flags), len);
    packet.meta.gso_size = size;
    packet.meta.gso_segs = len.div_ceil(u32::from(size)) as u16;
    packet
}

#[test]
fn tcp_segments_differ_as_the_kernel_has_it() {
    let (ack, psh, fin, cwr) = (TcpFlags::ACK, TcpFlags::PSH, TcpFlags::FIN, TcpFlags::CWR);
    let big = super_packet(ipv4(protocol::TCP), ack | psh | fin | cwr, 2500, 1000);
    let table = [
        // id, sequence, flags, payload
        (100, 0xffff_f000u32, ack | cwr, 1000),
        (101, 0xffff_f3e8, ack, 1000),
        (102, 0xffff_f7d0, ack | psh | fin, 500),
    ];
    assert_eq!(big.segment().len(), table.len());
    for (segment, (id, seq, flags, len)) in big.segment().zip(table) {
        let Network::Ipv4(ip) = segment.network else { panic!("not IPv4") };
        let tcp = segment.tcp().expect("TCP");
        assert_eq!((ip.id, tcp.seq.0, tcp.flags, segment.body.len), (id, seq, flags, len));
        assert_eq!((segment.len(), segment.segments()), (66 + len, 1));
    }
}

/// 10,136 bytes of a program lie in two pages side by side and a third one, 65,160 in two pieces of eight.
#[test]
fn a_segment_of_what_a_program_wrote_has_shares_of_the_pieces_it_lies_in() {
    for (len, border) in [(10_136, 8_192), (65_160, 32_768)] {
        let mut big = super_packet(ipv4(protocol::TCP), TcpFlags::ACK, len, 1_448);
        big.memory = Memory::Written;
        for (index, segment) in big.segment().enumerate() {
            let at = index as u32 * 1_448;
            let crosses = at < border && at + segment.body.len > border;
            let memory = if crosses { Memory::TwoPieces } else { Memory::Piece };
            assert_eq!(segment.memory, memory, "{at} of {len}");
        }
    }
}

#[test]
fn types_keep_id_and_cwr() {
    let mut big = super_packet(ipv4(protocol::TCP), TcpFlags::ACK | TcpFlags::CWR, 3000, 1000);
    big.gso_type = GsoType::FIXED_ID | GsoType::ACC_ECN;
    for segment in big.segment() {
        assert!(matches!(segment.network, Network::Ipv4(ip) if ip.id == 100));
        assert!(segment.tcp().expect("TCP").flags.contains(TcpFlags::CWR));
    }
}

#[test]
fn a_packet_that_is_no_super_packet_is_one_segment() {
    let small = packet(ipv4(protocol::TCP), tcp(TcpFlags::ACK), 0);
    assert_eq!(small.segment().collect::<Vec<_>>(), [small]);
}

#[test]
fn udp_segments_carry_their_own_headers() {
    let udp = Transport::Udp(Udp { src_port: 1, dst_port: 2 });
    let mut big = packet(ipv4(protocol::UDP), udp, 2100);
    big.meta.gso_size = 1000;
    big.meta.gso_segs = 3;
    let store = payload(2100);
    let lens: Vec<_> = big
        .segment()
        .map(|segment| {
            let parsed = Packet::parse_ethernet(&bytes(&segment, &store)[..]).expect("parses");
            assert_eq!((parsed.flaws(), parsed.transport), (Flaws::NONE, udp));
            parsed.body.len
        })
        .collect();
    assert_eq!(lens, [1000, 1000, 100]);
}

proptest! {
    /// Nothing is lost: the payloads of the segments, read back from the wire, are the payload,
    /// bytes on the wire are what was announced, and memory is charged as before.
    #[test]
    fn segments_add_up(len in 1u32..20000, size in 100u16..2000, v6: bool, raw: bool) {
        let network = if v6 { ipv6(protocol::TCP) } else { ipv4(protocol::TCP) };
        let plain = super_packet(network, TcpFlags::ACK | TcpFlags::PSH, len, size);
        let big = if raw { with_raw_option(&plain) } else { plain };
        let store = payload(len);
        let (mut seen, mut wire, mut truesize) = (Vec::<u8>::new(), 0, 0);
        for segment in big.segment() {
            let bytes = bytes(&segment, &store);
            let parsed = Packet::parse_ethernet(&bytes[..]).unwrap();
            prop_assert_eq!(parsed.flaws(), Flaws::NONE);
            prop_assert_eq!(parsed.transport, segment.transport);
            prop_assert_eq!(parsed.network, segment.network);
            prop_assert_eq!(bytes.len() as u32, segment.len());
            let expected = big.tcp().unwrap().seq + seen.len() as u32;
            prop_assert_eq!(segment.tcp().unwrap().seq, expected);
            seen.extend(&bytes[parsed.header_len() as usize..]);
            wire += segment.wire_len();
            truesize += segment.meta.truesize;
        }
        prop_assert_eq!(seen, store);
        prop_assert_eq!(wire, big.wire_len());
        prop_assert_eq!(truesize, big.meta.truesize);
    }
}
