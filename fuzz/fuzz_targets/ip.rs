//! Any lines are run as `ip` commands; what they configure is saved and read back.

#![no_main]

#[path = "../../crates/iproute/tests/laws/mod.rs"]
#[allow(dead_code, reason = "another target checks the other law")]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = core::str::from_utf8(bytes) {
        laws::check_lines(text);
    }
});
