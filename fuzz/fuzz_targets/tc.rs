//! Any text is a command of tc or an error that points into it; what a command makes can be changed
//! and shown, and one that is refused changes nothing.

#![no_main]

#[path = "../../crates/iproute/tests/laws/tc.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| laws::check_tc(text));
