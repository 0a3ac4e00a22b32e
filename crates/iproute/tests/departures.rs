//! Where routes differ from Linux: one test for each number in docs/multipath.md.

use iproute::ip::{Ip, IpError};

/// A router with three interfaces and a route over two of them.
fn router() -> Ip {
    let mut ip = Ip::new();
    let setup = "link add a1\nlink add a2\nlink add in0
        address add 10.0.1.1/24 dev a1
        address add 10.0.2.1/24 dev a2
        address add 10.9.0.1/16 dev in0
        address add fd00:1::1/64 dev a1
        address add fd00:2::1/64 dev a2
        address add fd00:9::1/64 dev in0";
    assert_eq!(ip.run_all(setup), Ok(String::new()));
    ip
}

fn run(ip: &mut Ip, command: &str) -> String {
    ip.run(command).unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The interface that the packet of a question leaves by.
fn device(ip: &mut Ip, question: &str) -> String {
    let answer = run(ip, question);
    let words: Vec<&str> = answer.split_whitespace().collect();
    let dev = words.iter().position(|word| *word == "dev").unwrap_or_else(|| panic!("{answer}"));
    words[dev + 1].to_owned()
}

/// 1. A kernel would have deleted both.
#[test]
fn hops_return_to_service_with_their_interface() {
    let mut ip = router();
    run(&mut ip, "nexthop add id 1 via 10.0.1.2 dev a1");
    run(&mut ip, "route add 198.18.0.0/15 via 10.0.1.2");
    let before = (run(&mut ip, "nexthop show"), run(&mut ip, "route show 198.18.0.0/15"));
    run(&mut ip, "link set a1 down");
    assert!(run(&mut ip, "nexthop show").starts_with("id 1 via 10.0.1.2 dev a1 "));
    assert!(run(&mut ip, "route show 198.18.0.0/15").contains("dead linkdown"));
    assert!(ip.run("route get 198.18.0.1").is_err(), "out of service all the same");
    run(&mut ip, "link set a1 up");
    assert_eq!((run(&mut ip, "nexthop show"), run(&mut ip, "route show 198.18.0.0/15")), before);
    assert_eq!(device(&mut ip, "route get 198.18.0.1"), "a1");
}

/// 3. The series of 2015 had them for IPv4 only; no kernel had `modulo`.
#[test]
fn algorithms_that_no_kernel_has_choose_for_both_families() {
    let mut ip = router();
    for algorithm in ["l3", "l4", "modulo"] {
        run(
            &mut ip,
            &format!(
                "route replace 198.18.0.0/15 mp_algo {algorithm} nexthop via 10.0.1.2 nexthop via \
                 10.0.2.2"
            ),
        );
        run(
            &mut ip,
            &format!(
                "-6 route replace fd45::/64 mp_algo {algorithm} nexthop via fd00:1::2 nexthop via \
                 fd00:2::2"
            ),
        );
        for (to, from) in [("198.18.0.", "10.9.0.7"), ("fd45::", "fd00:9::7")] {
            let mut first = 0;
            for host in 1..=64 {
                let question =
                    format!("route get {to}{host} from {from} iif in0 ipproto udp sport 5 dport 7");
                let chosen = device(&mut ip, &question);
                assert_eq!(chosen, device(&mut ip, &question), "a flow keeps its way");
                first += usize::from(chosen == "a1");
            }
            assert!((10..=54).contains(&first), "{algorithm} to {to}: {first} of 64");
        }
    }
}

/// 5. Words of a route that is not kept as the kernel would are refused, or read and forgotten.
#[test]
fn what_a_route_does_not_keep() {
    let mut ip = router();
    for words in ["realms 5", "encap mpls 7"] {
        let command = format!("route add 9.0.0.0/8 via 10.0.1.2 {words}");
        assert!(matches!(ip.run(&command), Err(IpError::Grammar(_))), "{words}");
    }
    run(&mut ip, "-6 route add fd45::/64 via fd00:1::2 pref high");
    assert!(!run(&mut ip, "-6 route show fd45::/64").contains("high"));
    run(&mut ip, "route add 8.0.0.0/8 via 10.0.1.2 mtu 1400 initcwnd 4");
    assert!(run(&mut ip, "route show 8.0.0.0/8").contains("mtu 1400 initcwnd 4"));
}

/// 7. `ip -d` of a kernel would show `proto static`.
#[test]
fn the_protocol_of_objects_and_rules_is_not_kept() {
    let mut ip = router();
    run(&mut ip, "nexthop add id 1 via 10.0.1.2 dev a1 proto static");
    assert!(!run(&mut ip, "-d nexthop show id 1").contains("static"));
    run(&mut ip, "rule add from 10.8.0.0/16 table 100 proto static");
    assert!(!run(&mut ip, "-d rule show").contains("static"));
}

/// 9. Only what a packet says decides: two questions that differ in nothing else have one answer,
///    however many sockets there are.
#[test]
fn only_the_fields_of_a_packet_decide() {
    let mut ip = router();
    run(&mut ip, "sysctl net.ipv4.fib_multipath_hash_policy=1");
    run(&mut ip, "route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2");
    let chosen: Vec<String> = (0..64)
        .map(|port| {
            let flow = format!("from 10.9.0.7 iif in0 ipproto tcp sport {port} dport 80");
            let first = device(&mut ip, &format!("route get 198.18.0.1 {flow}"));
            assert_eq!(first, device(&mut ip, &format!("route get 198.18.0.1 {flow}")));
            first
        })
        .collect();
    assert!(chosen.iter().any(|dev| dev == "a1") && chosen.iter().any(|dev| dev == "a2"));
}

/// 11. A kernel lists the bits, `from 10.0.0.5/8`.
#[test]
fn rules_keep_no_bits_that_decide_nothing() {
    let mut ip = router();
    run(&mut ip, "rule add from 10.0.0.5/8 table 100 priority 7");
    assert!(run(&mut ip, "rule show").contains("7:\tfrom 10.0.0.0/8 lookup 100"));
    run(&mut ip, "rule del from 10.0.0.6/8");
}
