//! Any bytes are decoded as rtnetlink messages; what is one comes back the same.

#![no_main]

#[path = "../../crates/iproute/tests/laws/mod.rs"]
#[allow(dead_code, reason = "another target checks the other law")]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_netlink(bytes));
