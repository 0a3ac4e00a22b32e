//! Any bytes are walked over as TCP options.

#![no_main]

#[path = "../../crates/datapath/tests/wire/options.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_options(bytes));
