//! Any bytes are choices: system calls at two hosts, and the wire between them, under all laws of the
//! swarm tester's kind `calls`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::calls::Case::any));
