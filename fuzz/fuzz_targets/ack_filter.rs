//! TCP segments of all shapes meet the ACK filters, which drop nothing but ACKs.

#![no_main]

#[path = "../../crates/datapath/tests/wire/cake.rs"]
#[allow(dead_code, reason = "each target uses one of the laws")]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_ack_filter(bytes));
