//! Frames of any kind, in any order, at any time, for a host whose sockets carry bytes: no panic, books that add up, and no
//! frame that is held once all is over.

#![no_main]

#[path = "../../crates/datapath/tests/wire/hostile.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| laws::check_host(bytes));
