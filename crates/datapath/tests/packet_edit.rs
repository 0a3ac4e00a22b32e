//! Edits in place: a packet edited and emitted is the frame edited byte by byte, and that frame is
//! right.

mod shape;

use datapath::packet::{Ecn, EtherType, Flaws, LinkHeader, MacAddr, Network, Packet, edit};
use proptest::prelude::*;
use proptest::sample::Index;
use shape::{any_shape, build};

#[derive(Clone, Copy, Debug)]
enum Edit {
    MarkCe,
    Tos(u8),
    DecTtl,
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![Just(Edit::MarkCe), any::<u8>().prop_map(Edit::Tos), Just(Edit::DecTtl)]
}

fn edit_packet(packet: &mut Packet, edit: Edit) -> bool {
    match edit {
        Edit::MarkCe => packet.mark_ce(),
        Edit::Tos(tos) => {
            packet.set_tos(tos);
            true
        }
        Edit::DecTtl => packet.dec_ttl(),
    }
}

fn edit_bytes(header: &mut [u8], edit: Edit) -> bool {
    match edit {
        Edit::MarkCe => edit::mark_ce(header),
        Edit::Tos(tos) => edit::set_tos(header, tos),
        Edit::DecTtl => edit::dec_ttl(header),
    }
}

fn emitted(packet: &Packet, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet.emit(&bytes[packet.header_len() as usize..], &mut out);
    out
}

proptest! {
    #[test]
    fn packet_and_bytes_are_edited_alike(
        shape in any_shape(),
        change in prop::option::of((any::<Index>(), any::<u8>())),
        edits in prop::collection::vec(any_edit(), 1..6),
    ) {
        let Some(mut bytes) = build(&shape) else { return Ok(()) };
        if let Some((at, value)) = change {
            let at = 14 + at.index(bytes.len() - 14);
            bytes[at] = value;
        }
        let mut packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        let flaws = packet.flaws();
        prop_assume!(!matches!(packet.network, Network::Other(_)));
        let original = bytes.clone();
        for edit in edits {
            let header = edit::network_header(&mut bytes).unwrap();
            prop_assert_eq!(edit_packet(&mut packet, edit), edit_bytes(header, edit));
            prop_assert_eq!(edit::tos(header), Some(packet.network.tos()));
        }
        prop_assert_eq!(&emitted(&packet, &original), &bytes);
        // What was right stays right, what was wrong stays wrong.
        prop_assert_eq!(Packet::parse_ethernet(&bytes[..]).unwrap().flaws(), flaws);
    }

    #[test]
    fn ecn_and_dscp_leave_each_other_alone(shape in any_shape(), dscp in 0u8..64, tos: u8) {
        let Some(bytes) = build(&shape) else { return Ok(()) };
        let mut packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        packet.set_tos(tos);
        packet.set_dscp(dscp);
        prop_assert_eq!(packet.network.tos(), dscp << 2 | tos & 3);
        let capable = packet.network.ecn() != Ecn::NotEct;
        prop_assert_eq!(packet.mark_ce(), capable);
        prop_assert_eq!(packet.network.ecn() == Ecn::Ce, capable);
        packet.set_ecn(Ecn::Ect1);
        prop_assert_eq!(packet.network.tos(), dscp << 2 | 1);
        let sent = emitted(&packet, &bytes);
        prop_assert_eq!(Packet::parse_ethernet(&sent[..]).unwrap().flaws(), Flaws::NONE);
    }

    /// A router takes the frame apart and sends the packet on, or a tunnel device without frames.
    #[test]
    fn the_link_header_is_changed(shape in any_shape(), ethernet: bool, padded: bool) {
        let Some(mut bytes) = build(&shape) else { return Ok(()) };
        let len = bytes.len();
        if padded {
            bytes.extend([0; 9]);
        }
        let mut packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        let body_at = packet.header_len() as usize;
        let ip_at = 14 + if shape.vlan.is_some() { 4 } else { 0 };
        let (dst, src) = (MacAddr([6; 6]), MacAddr([8; 6]));
        packet.set_link(if ethernet { LinkHeader::Ethernet { dst, src } } else { LinkHeader::None });
        let mut expected = Vec::new();
        if ethernet {
            expected.extend([[6; 6], [8; 6]].concat());
            let ether_type = if shape.v6 { EtherType::IPV6 } else { EtherType::IPV4 };
            expected.extend(ether_type.0.to_be_bytes());
        }
        expected.extend(&bytes[ip_at..len]);
        let mut out = Vec::new();
        packet.emit(&bytes[body_at..len], &mut out);
        prop_assert_eq!(packet.len() as usize, out.len());
        prop_assert_eq!(out, expected);
    }
}

#[test]
fn the_last_hop_is_not_taken() {
    let mut header = [0u8; 20];
    header[0] = 0x45;
    header[8] = 1;
    assert!(!edit::dec_ttl(&mut header));
    assert_eq!(header[8], 1);
    assert!(!edit::dec_ttl(&mut [0x45, 0]));
    assert!(!edit::mark_ce(&mut []));
    assert_eq!(edit::network_header(&mut [0; 14]), None);
}
