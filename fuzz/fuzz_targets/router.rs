//! Any bytes are choices: packets, neighbours, links and frames around a router, under all laws of the swarm tester's
//! kind `router`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::router::Case::any));
