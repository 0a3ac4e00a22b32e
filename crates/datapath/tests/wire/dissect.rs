//! What must hold for the flow of any bytes that begin with a network header.

use datapath::fib::dissect::flow;
use datapath::fib::hash::{self, HashFields, HashKey, Policy};

/// Every policy has a hash for it, and both directions of the same fields agree where the kernel's
/// do.
pub fn check_flow(bytes: &[u8]) {
    let Some(flow) = flow(bytes) else { return };
    let key = HashKey::from_seed(7);
    for number in 0..4 {
        let policy = Policy::from_number(number).expect("there are four");
        for fields in [1, 7, 0x37, 0xfff] {
            let fields = HashFields::from_number(fields).expect("valid bits");
            assert_eq!(
                hash::hash(policy, fields, key, &flow),
                hash::hash(policy, fields, key, &flow),
            );
        }
    }
    let mut back = flow;
    back.outer = back.outer.reversed();
    let l4 = |flow| hash::hash(Policy::L4, HashFields::default(), key, flow);
    assert_eq!(l4(&flow), l4(&back), "both directions of {flow:?}");
    for quoted in flow.quoted.iter().chain(&flow.inner) {
        assert_eq!(quoted.src.is_ipv4(), quoted.dst.is_ipv4());
    }
    let _ = (hash::seed_l3(key, &flow), hash::seed_l4(key, &flow));
}
