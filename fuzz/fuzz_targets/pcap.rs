//! Any file is read as a capture, and what it holds is parsed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcap::Reader;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        let _ = record.packet(&reader.interfaces()[record.interface]);
    }
});
