//! Any bytes are choices: a small world of hosts, routers, applications and impairments, under all laws of the
//! swarm tester's kind `world`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::world::Case::small));
