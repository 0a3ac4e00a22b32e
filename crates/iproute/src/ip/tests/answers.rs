//! What `ip route get` answers: as iproute2 6.1 of Linux 6.18 (`tests/kernel.rs` asks more of both).

use super::*;

/// The first line of an answer, or the error.
fn answer(ip: &mut Ip, question: &str) -> String {
    match ip.run(&format!("route get {question}")) {
        Ok(answer) => answer.lines().next().unwrap_or_default().trim_end().to_owned(),
        Err(error) => error.to_string(),
    }
}

fn with_default() -> Ip {
    let mut ip = router();
    ip.run_all(
        "route add default via 10.0.2.2\n-6 route add default via fd00:2::2\n\
         route add prohibit 9.0.0.0/8",
    )
    .unwrap();
    ip
}

const NO_NETWORK: &str = "RTNETLINK answers: Network is unreachable";
const INVALID: &str = "RTNETLINK answers: Invalid argument";

#[test]
fn broadcast_and_multicast_use_no_gateway() {
    let mut ip = with_default();
    for (question, expected) in [
        ("255.255.255.255", "broadcast 255.255.255.255 dev a2 src 10.0.2.1 uid 0"),
        ("255.255.255.255 oif a1", "broadcast 255.255.255.255 dev a1 src 10.0.1.1 uid 0"),
        ("255.255.255.255 from 10.9.0.7 iif in0", "broadcast 255.255.255.255 from 10.9.0.7 dev lo"),
        ("224.0.0.1", "multicast 224.0.0.1 dev a2 src 10.0.2.1 rt_offload_failed uid 0"),
        (
            "239.1.2.3 from 10.0.1.1",
            "multicast 239.1.2.3 from 10.0.1.1 dev a1 rt_offload_failed uid 0",
        ),
        (
            "ff02::1",
            "multicast ff02::1 from :: dev a1 table local proto kernel src fd00:1::1 metric 256 \
             pref medium",
        ),
        (
            "ff02::1 oif a2",
            "multicast ff02::1 from :: dev a2 table local proto kernel src fd00:2::1 metric 256 \
             pref medium",
        ),
    ] {
        assert_eq!(answer(&mut ip, question), expected);
    }
    ip.run("-6 route add multicast ff00::/8 dev a2 table local proto kernel metric 256").unwrap();
    let expected = "multicast ff02::1 from :: dev a2 table local proto kernel src fd00:2::1 \
                    metric 256 pref medium";
    assert_eq!(answer(&mut ip, "ff02::1"), expected, "as it comes from a kernel");
    assert!(ip.run("route get 224.0.0.1").unwrap().ends_with("cache <local,mc> \n"));
    assert!(ip.run("route get 239.1.2.3").unwrap().ends_with("cache <mc> \n"));
    assert!(ip.run("route get 255.255.255.255").unwrap().ends_with("cache <local,brd> \n"));
    let all_hosts = ip.run("-j route get 224.0.0.1").unwrap();
    assert!(all_hosts.contains(r#""cache":["local","mc"]"#), "{all_hosts}");
}

/// A host sends from its own addresses; what comes in may be from anywhere.
#[test]
fn a_source_must_be_of_this_host() {
    let mut ip = with_default();
    for (question, expected) in [
        ("77.0.0.1 from 10.5.5.5", NO_NETWORK),
        ("10.0.1.1 from 10.5.5.5", NO_NETWORK),
        ("77.0.0.1 from 10.0.1.255", NO_NETWORK),
        ("77.0.0.1 from 224.0.0.1", INVALID),
        ("77.0.0.1 from 127.0.0.1", INVALID),
        ("77.0.0.1 from 10.0.1.1", "77.0.0.1 from 10.0.1.1 via 10.0.2.2 dev a2 uid 0"),
        ("77.0.0.1 from 0.0.0.0", "77.0.0.1 via 10.0.2.2 dev a2 src 10.0.2.1 uid 0"),
        ("77.0.0.1 from 10.5.5.5 iif in0", "77.0.0.1 from 10.5.5.5 via 10.0.2.2 dev a2"),
    ] {
        assert_eq!(answer(&mut ip, question), expected, "{question}");
    }
}

/// "Apparently wrong" tables: an interface that is demanded is believed.
#[test]
fn what_no_route_leads_to_is_on_the_link_that_is_demanded() {
    let mut ip = with_default();
    for (question, expected) in [
        ("77.0.0.1 oif a1", "77.0.0.1 dev a1 src 10.0.1.1 uid 0"),
        ("9.0.0.1 oif a1", "9.0.0.1 dev a1 src 10.0.1.1 uid 0"),
        ("9.0.0.1", "RTNETLINK answers: Permission denied"),
        ("77.0.0.1 oif a1 from 10.0.2.1", "77.0.0.1 from 10.0.2.1 dev a1 uid 0"),
        ("0.0.0.0", "local 0.0.0.0 dev lo src 127.0.0.1 uid 0"),
        ("0.0.0.0 oif a1", "local 0.0.0.0 dev lo src 10.0.1.1 uid 0"),
        ("77.0.0.1 oif a2", "77.0.0.1 via 10.0.2.2 dev a2 src 10.0.2.1 uid 0"),
    ] {
        assert_eq!(answer(&mut ip, question), expected, "{question}");
    }
    ip.run("link set a1 down").unwrap();
    assert_eq!(answer(&mut ip, "77.0.0.1 oif a1"), NO_NETWORK);
}

#[test]
fn an_answer_shows_its_table_and_mark() {
    let mut ip = with_default();
    ip.run_all(
        "route add default via 10.0.1.2 table 100\nrule add fwmark 1/1 table 100\n\
         route add 60.0.0.0/8 via inet6 fd00:1::2 dev a1",
    )
    .unwrap();
    for (question, expected) in [
        ("77.0.0.1 mark 1", "77.0.0.1 via 10.0.1.2 dev a1 table 100 src 10.0.1.1 mark 1 uid 0"),
        ("77.0.0.1 mark 14", "77.0.0.1 via 10.0.2.2 dev a2 src 10.0.2.1 mark 14 uid 0"),
        ("77.0.0.1 mark 16", "77.0.0.1 via 10.0.2.2 dev a2 src 10.0.2.1 mark 0x10 uid 0"),
        ("77.0.0.1 mark 0", "77.0.0.1 via 10.0.2.2 dev a2 src 10.0.2.1 uid 0"),
        ("60.0.0.1", "60.0.0.1 via inet6 fd00:1::2 dev a1 src 10.0.1.1 uid 0"),
    ] {
        assert_eq!(answer(&mut ip, question), expected, "{question}");
    }
    let json = ip.run("-j route get 77.0.0.1 mark 0x11").unwrap();
    assert!(json.contains(r#""table":"100","#) && json.contains(r#""mark":17,"#), "{json}");
    let json = ip.run("-j route get 60.0.0.1").unwrap();
    assert!(json.contains(r#""via":{"family":"inet6","host":"fd00:1::2"},"dev":"a1""#), "{json}");
    let details = ip.run("-d route get 77.0.0.1").unwrap();
    let expected = "unicast 77.0.0.1 via 10.0.2.2 dev a2 table main src 10.0.2.1 uid 0 \n";
    assert!(details.starts_with(expected), "{details}");
    let details = ip.run("-d route get fd77::1").unwrap();
    let expected = "unicast fd77::1 from :: via fd00:2::2 dev a2 table main proto boot scope global \
                    src fd00:2::1 metric 1024 pref medium\n";
    assert!(details.starts_with(expected), "{details}");
}

/// As Linux 6.18 and iproute2 6.1 answer.
#[test]
fn one_bucket_of_a_resilient_group() {
    let mut ip = router();
    ip.run_all(
        "nexthop add id 1 via 10.0.1.2 dev a1
        nexthop add id 2 via 10.0.2.2 dev a2
        nexthop add id 10 group 1/2 type resilient buckets 4
        nexthop add id 11 group 1/2",
    )
    .unwrap();
    for index in 0..4 {
        let line = ip.run(&format!("nexthop bucket get id 10 index {index}")).unwrap();
        assert_eq!(
            ip.run("nexthop bucket show id 10").unwrap().lines().nth(index),
            line.lines().next()
        );
        let json = ip.run(&format!("-j nexthop bucket get index {index} id 10")).unwrap();
        assert!(json.starts_with(&format!(r#"[{{"id":10,"bucket":{{"index":{index},"#)), "{json}");
    }
    for (question, answer) in [
        ("id 10 index 4", "Error: Bucket index out of bounds."),
        ("id 11 index 0", "Error: Nexthop group not of type resilient."),
        ("id 1 index 0", "Error: Not a nexthop group."),
        ("id 99 index 0", "RTNETLINK answers: No such file or directory"),
        ("id 10 index x", "argument \"x\" is wrong: invalid bucket index value"),
        ("id 10 index 70000", "argument \"70000\" is wrong: invalid bucket index value"),
        ("id 10", "are required"),
        ("index 1", "are required"),
    ] {
        let error = ip.run(&format!("nexthop bucket get {question}")).unwrap_err().to_string();
        assert!(error.contains(answer), "{question}: {error}");
    }
}

/// A namespace without rules of its own answers from `main` (`fib_trie_unmerge`).
#[test]
fn the_table_local_is_told_where_there_are_rules() {
    let mut ip = router();
    assert_eq!(answer(&mut ip, "10.0.1.1"), "local 10.0.1.1 dev lo src 10.0.1.1 uid 0");
    ip.run("rule add to 9.0.0.0/8 table 9").unwrap();
    let told = "local 10.0.1.1 dev lo table local src 10.0.1.1 uid 0";
    assert_eq!(answer(&mut ip, "10.0.1.1"), told);
}

/// As a kernel 6.18 with `a1` without a carrier.
#[test]
fn what_leads_to_this_host_asks_for_no_carrier() {
    let mut ip = router();
    ip.run_all(
        "sysctl net.ipv4.conf.all.ignore_routes_with_linkdown=1\n\
         sysctl net.ipv6.conf.all.ignore_routes_with_linkdown=1\n\
         route add 9.0.0.0/8 dev a1 scope host\n\
         link set a1 carrier off\n\
         route add 8.0.0.0/8 via 10.0.1.2\n\
         -6 route add fd08::/32 via fd00:1::2",
    )
    .expect("a carrier is not asked for by a gateway");
    for (shown, expected) in [
        (
            "route show table local 10.0.1.1",
            "local 10.0.1.1 dev a1 proto kernel scope host src 10.0.1.1",
        ),
        ("route show 9.0.0.0/8", "9.0.0.0/8 dev a1 scope host"),
        ("route show 8.0.0.0/8", "8.0.0.0/8 via 10.0.1.2 dev a1 dead linkdown"),
        (
            "-6 route show fd00:1::/64",
            "fd00:1::/64 dev a1 proto kernel metric 256 dead linkdown pref medium",
        ),
        (
            "-6 route show table local fd00:1::1",
            "local fd00:1::1 dev a1 proto kernel metric 0 pref medium",
        ),
    ] {
        assert_eq!(ip.run(shown).unwrap().trim_end(), expected);
    }
    assert_eq!(answer(&mut ip, "9.0.0.1"), "9.0.0.1 dev a1 src 10.0.1.1 uid 0");
    assert_eq!(answer(&mut ip, "8.0.0.1"), NO_NETWORK);
}

/// Where no protocol is said, the kernel makes up a datagram of IPv4 and nothing of IPv6 (`inet_rtm_getroute`), which
/// decides the next hop where ports are hashed.
#[test]
fn a_packet_without_a_protocol_is_a_datagram() {
    let mut ip = router();
    ip.run_all(
        "sysctl net.ipv4.fib_multipath_hash_seed=1\n\
         sysctl net.ipv4.fib_multipath_hash_policy=1\n\
         route add 9.0.0.0/8 nexthop via 10.0.1.2 nexthop via 10.0.2.2",
    )
    .unwrap();
    // As 6.18 answered.
    let chosen: String = (1..=8)
        .map(|last| {
            let text = answer(&mut ip, &format!("9.0.0.{last} from 10.9.0.1 iif a1"));
            if text.contains("dev a1") { '1' } else { '2' }
        })
        .collect();
    assert_eq!(chosen, "12121122");
}
