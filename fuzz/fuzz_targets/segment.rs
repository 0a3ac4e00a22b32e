//! Any bytes are choices: a living host, hostile segments, ICMP, fragments and calls, under all laws of
//! the swarm tester's kind `wire`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::wire::Case::any));
