//! An ordinary packet costs no heap allocation: not parsed, emitted, edited, cut or merged.

mod shape;

use allocation_counter::measure;
use datapath::packet::{Flaws, Frames, GRO_MAX_SIZE, Joined, Packet, gro_merge};
use proptest::prelude::*;
use shape::{Layer4, Shape, build};

/// What a Linux host sends most: TCP with aligned timestamps, or UDP, untagged.
fn ordinary() -> impl Strategy<Value = Shape> {
    shape::any_shape().prop_map(|mut shape| {
        shape.vlan = None;
        if let Layer4::Tcp { options, .. } = &mut shape.layer4 {
            use etherparse::TcpOptionElement::{Noop, Timestamp};
            *options = vec![Noop, Noop, Timestamp(1, 2)];
        }
        shape
    })
}

proptest! {
    #[test]
    fn parsing_editing_and_emitting_do_not_allocate(shape in ordinary()) {
        let bytes = build(&shape).unwrap();
        let mut out = Vec::with_capacity(2048);
        let count = measure(|| {
            let mut packet = Packet::parse_ethernet(&bytes[..]).unwrap();
            assert_eq!(packet.flaws(), Flaws::NONE);
            packet.mark_ce();
            packet.dec_ttl();
            packet.emit(&bytes[packet.header_len() as usize..], &mut out);
        });
        prop_assert_eq!(count.count_total, 0);
    }

    #[test]
    fn cutting_and_merging_do_not_allocate(shape in ordinary(), size in 1u16..100) {
        prop_assume!(matches!(shape.layer4, Layer4::Tcp { .. }));
        let bytes = build(&shape).unwrap();
        let mut packet = Packet::parse_ethernet(&bytes[..]).unwrap();
        packet.meta.gso_size = size;
        let (mut pool, mut joined) = (Frames::new(0, 0), Joined::default());
        let count = measure(|| {
            let mut segments = packet.segment();
            let mut held = segments.next().unwrap();
            for next in segments {
                gro_merge(&mut held, &next, GRO_MAX_SIZE, &mut pool, &mut joined);
            }
        });
        prop_assert_eq!(count.count_total, 0);
    }
}
