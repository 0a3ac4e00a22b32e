//! Any bytes are dissected as a packet, with what it carries and quotes, and hashed.

#![no_main]

#[path = "../../crates/datapath/tests/wire/dissect.rs"]
#[allow(dead_code, reason = "another target checks the other law")]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_flow(bytes));
