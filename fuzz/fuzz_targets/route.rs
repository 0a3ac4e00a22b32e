//! Any bytes are choices: routes, rules, next hops and questions, under all laws of the swarm tester's
//! kind `route`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::route::Case::any));
