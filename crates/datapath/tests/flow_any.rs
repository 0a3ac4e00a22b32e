//! Flows of packets in packets in packets, cut off anywhere.

#[path = "wire/dissect.rs"]
mod dissect;

use proptest::prelude::*;

/// One header, by the protocol number that announces it.
fn header() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let noise = |len: usize| prop::collection::vec(any::<u8>(), len);
    let next = prop::sample::select(&[0u8, 1, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 60, 132][..]);
    prop_oneof![
        (noise(20), next.clone(), 5u8..8).prop_map(|(mut bytes, next, words)| {
            bytes[0] = 0x40 | words;
            bytes[9] = next;
            bytes.resize(usize::from(words) * 4, 0);
            (4, bytes)
        }),
        (noise(40), next.clone()).prop_map(|(mut bytes, next)| {
            bytes[0] = 0x60;
            bytes[6] = next;
            (41, bytes)
        }),
        // ICMP and ICMPv6 errors, which quote what comes next.
        (noise(8), 0u8..20, any::<bool>()).prop_map(|(mut bytes, kind, v6)| {
            bytes[0] = kind;
            (if v6 { 58 } else { 1 }, bytes)
        }),
        (noise(8), 0u8..8).prop_map(|(mut bytes, flags)| {
            bytes[..4].copy_from_slice(&[flags << 4, 0, 8, 0]);
            (47, bytes)
        }),
        (noise(8), next).prop_map(|(mut bytes, next)| {
            (bytes[0], bytes[1]) = (next, 0);
            (60, bytes)
        }),
    ]
}

proptest! {
    #[test]
    fn packets_in_packets_have_a_flow_or_none(
        headers in prop::collection::vec(header(), 1..8),
        linked in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes: Vec<u8> = Vec::new();
        let mut starts = Vec::new();
        for (_, header) in &headers {
            starts.push(bytes.len());
            bytes.extend(header);
        }
        // Half of them announce each other truly.
        for pair in 0..headers.len() - 1 {
            let next = headers[pair + 1].0;
            match headers[pair].0 {
                4 if linked => bytes[starts[pair] + 9] = next,
                41 if linked => bytes[starts[pair] + 6] = next,
                _ => {}
            }
        }
        dissect::check_flow(&bytes);
        dissect::check_flow(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn any_bytes_have_a_flow_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        dissect::check_flow(&bytes);
    }
}
