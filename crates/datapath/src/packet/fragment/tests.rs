use super::*;
use crate::packet::testing::{bytes, ipv4, packet, payload, tcp};
use crate::packet::{Flaws, TcpFlags, Udp, protocol};
use proptest::prelude::*;

fn may_fragment(mut network: Network) -> Network {
    if let Network::Ipv4(ip) = &mut network {
        ip.dont_fragment = false;
    }
    network
}

/// Puts fragments that come in order together again.
fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = Vec::new();
    for (index, bytes) in fragments.iter().enumerate() {
        let parsed = Packet::parse_ethernet(&bytes[..]).expect("parses");
        assert_eq!(parsed.flaws(), Flaws::NONE);
        let Network::Ipv4(ip) = parsed.network else { panic!("not IPv4") };
        assert_eq!(ip.more_fragments, index + 1 < fragments.len());
        assert_eq!(usize::from(ip.fragment_offset) * 8, whole.len());
        whole.extend(&bytes[34..]);
    }
    whole
}

#[test]
fn a_ping_of_three_fragments() {
    let udp = Transport::Udp(Udp { src_port: 1, dst_port: 2 });
    let whole = packet(may_fragment(ipv4(protocol::UDP)), udp, 3000);
    let lens: Vec<_> =
        whole.fragment(1500).expect("may be fragmented").map(|one| one.len() - 14).collect();
    // 1480 bytes each of 3008 behind a header of 20.
    assert_eq!(lens, [1500, 1500, 68]);
}

#[test]
fn what_is_not_fragmented() {
    let whole = packet(ipv4(protocol::TCP), tcp(TcpFlags::ACK), 3000);
    assert!(whole.fragment(1500).is_none());
    let whole = packet(may_fragment(ipv4(protocol::TCP)), tcp(TcpFlags::ACK), 3000);
    assert!(whole.fragment(27).is_none());
    assert_eq!(whole.fragment(3052).expect("fits").count(), 1);
    assert_eq!(whole.fragment(3051).expect("is cut").count(), 2);
}

#[test]
fn options_go_where_they_belong() {
    let udp = Transport::Udp(Udp { src_port: 1, dst_port: 2 });
    let plain = packet(may_fragment(ipv4(protocol::UDP)), udp, 100);
    let mut frame = bytes(&plain, &payload(100));
    // A timestamp option, which only the first fragment carries, and a router alert, which all do.
    let options = [68, 4, 5, 0, 148, 4, 0, 0];
    frame[14] = 0x47;
    frame.splice(34..34, options);
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    let whole = Packet::parse_ethernet(&frame[..]).expect("parses");
    let fragments: Vec<_> = whole.fragment(76).expect("may be fragmented").collect();
    let seen: Vec<_> = fragments
        .iter()
        .map(|one| one.extra.as_ref().expect("has options").raw[34..42].to_vec())
        .collect();
    let blanked = [1, 1, 1, 1, 148, 4, 0, 0];
    assert_eq!(seen, [options, blanked, blanked]);
}

proptest! {
    /// The fragments are small enough, count up, and hold the packet, whatever the MTU does to its
    /// transport header.
    #[test]
    fn fragments_reassemble(len in 0u32..5000, mtu in 28u32..1600, again in 28u32..1600) {
        let whole = packet(may_fragment(ipv4(protocol::TCP)), tcp(TcpFlags::ACK), len);
        let store = payload(len);
        let bytes_of_whole = bytes(&whole, &store);
        let fragments: Vec<_> = whole.fragment(mtu).unwrap().collect();
        let on_wire: Vec<_> = fragments.iter().map(|one| bytes(one, &store)).collect();
        prop_assert!(on_wire.iter().all(|one| one.len() <= mtu as usize + 14));
        prop_assert_eq!(&reassembled(&on_wire), &bytes_of_whole[34..]);
        let truesize: u32 = fragments.iter().map(|one| one.meta.truesize).sum();
        prop_assert_eq!(truesize, whole.meta.truesize);

        // A fragment of a fragment is one too.
        let smaller: Vec<_> = fragments
            .iter()
            .flat_map(|one| one.fragment(again).unwrap())
            .map(|one| bytes(&one, &store))
            .collect();
        prop_assert_eq!(&reassembled(&smaller), &bytes_of_whole[34..]);
    }
}
