//! Any bytes are choices: a tree of qdiscs, packets, and what is done to it, under all laws of the swarm
//! tester's kind `qdisc`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| swarm::fuzzer::bytes(bytes, swarm::qdisc::Case::any));
