//! Any words of tc. The fuzz target `tc` shares the law.

#[path = "laws/tc.rs"]
mod laws;

use proptest::prelude::*;

/// Words that are likely to go on.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "cake",
        "fq_codel",
        "dualpi2",
        "pie",
        "dq_rate_estimator",
        "bytemode",
        "htb",
        "default",
        "r2q",
        "direct_qlen",
        "step_thresh",
        "coupling_factor",
        "max_rtt",
        "codel",
        "tbf",
        "netem",
        "red",
        "prio",
        "pfifo",
        "bfifo",
        "bandwidth",
        "rate",
        "limit",
        "burst",
        "delay",
        "rtt",
        "memlimit",
        "overhead",
        "mpu",
        "fwmark",
        "raw",
        "atm",
        "docsis",
        "ack-filter",
        "ack-filter-aggressive",
        "ack-filter-v8",
        "diffserv4",
        "triple-isolate",
        "nat",
        "wash",
        "ingress",
        "unlimited",
        "autorate-ingress",
        "ethernet",
        "ether-vlan",
        "conservative",
        "handle",
        "1:",
        "parent",
        "1:1",
        "root",
        "dev",
        "1mbit",
        "0",
        "-64",
        "256",
        "20ms",
        "4mb",
        "1%",
        "99999999999999999999",
        "1e400",
        "-1",
        "0x10",
        "0xffffffff",
    ]);
    prop_oneof![8 => known.prop_map(String::from), 1 => "\\PC{0,8}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_words_make_a_qdisc_or_an_error_with_its_place(
        words in prop::collection::vec(word(), 0..12),
    ) {
        laws::check_tc(&words.join(" "));
    }

    #[test]
    fn any_text_does(text in "\\PC{0,60}") {
        laws::check_tc(&text);
    }
}
