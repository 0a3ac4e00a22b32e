//! Any bytes through any CAKE. The fuzz targets `dissector` and `ack_filter` share the laws.

#[path = "wire/cake.rs"]
mod laws;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_frames_are_conserved(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        laws::check_cake(&bytes);
    }

    #[test]
    fn only_acks_are_filtered(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        laws::check_ack_filter(&bytes);
    }
}
