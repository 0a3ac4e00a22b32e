//! Any frame comes back byte by byte; the first two bytes say how much of it the capture cut off.

#![no_main]

#[path = "../../crates/datapath/tests/wire/frame.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&[high, low], frame)) = bytes.split_first_chunk() {
        laws::check_frame(frame, u32::from(u16::from_be_bytes([high, low])));
    }
});
