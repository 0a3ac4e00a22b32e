//! Whatever comes by the wire, a host whose sockets carry bytes goes on, and holds nothing at the end.

#[path = "wire/hostile.rs"]
mod hostile;

use proptest::prelude::*;

/// An order, a time to wait, a length and so many bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..80);
    (any::<u8>(), any::<u8>(), bytes)
        .prop_map(|(order, wait, bytes)| [&[order, wait, bytes.len() as u8][..], &bytes].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_host_survives_its_wire(gro in 0u8..2, pieces in prop::collection::vec(piece(), 0..60)) {
        hostile::check_host(&[&[gro], &pieces.concat()[..]].concat());
    }
}
