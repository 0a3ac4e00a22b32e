//! Any frames go through a CAKE of any mode: what goes in comes out or is dropped.

#![no_main]

#[path = "../../crates/datapath/tests/wire/cake.rs"]
#[allow(dead_code, reason = "each target uses one of the laws")]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_cake(bytes));
