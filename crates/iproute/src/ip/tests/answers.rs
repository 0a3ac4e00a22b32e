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
fn a_packet_for_many_goes_by_no_gateway() {
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
fn an_answer_tells_its_table_and_mark() {
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

/// Each with the kernel's answer.
#[test]
fn what_linux_refuses() {
    let mut ip = router();
    ip.run("nexthop add id 1 via 10.0.1.2 dev a1").unwrap();
    let own = "nexthop add id 2 group 1 type resilient buckets 4";
    ip.run(own).unwrap();
    for (command, answer) in [
        ("route add 1.0.0.0/8 nexthop via 9.9.9.9 onlink", "Nexthop device required for onlink."),
        ("-6 route add fd44::/32 via fd00:1::2 onlink", "Nexthop device required for onlink."),
        (
            "route add 1.0.0.0/8 dev a2 onlink",
            "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set.",
        ),
        (
            "route add 1.0.0.0/8 via 10.0.1.2 scope host",
            "Route with host scope can not have a gateway.",
        ),
        ("route add local 1.0.0.0/8 via 10.0.1.2", "Route with host scope can not have a gateway."),
        (
            "route add 1.0.0.0/8 scope host nexthop dev a1 nexthop dev a2",
            "Route with host scope can not have multiple nexthops.",
        ),
        ("route add 1.0.0.0/8 via 10.0.1.2 scope link", "Nexthop has invalid gateway."),
        ("route add broadcast 1.0.0.0/8 via 10.0.1.2", "Nexthop has invalid gateway."),
        ("route add local 1.0.0.0/8 dev a1 scope nowhere", "Invalid scope."),
        ("route add local 1.0.0.0/8 dev a1 scope link", "Invalid scope."),
        ("route add 1.0.0.0/8 dev a1 scope nowhere", "Invalid scope."),
        ("route add 1.0.0.0/8 via 10.0.1.2 src 1.2.3.4", "Invalid prefsrc address."),
        ("route add 1.0.0.0/8 nhid 1 src 10.0.1.255", "Invalid prefsrc address."),
        ("-6 route add fd44::/32 via fd00:1::2 src fd09::1", "Invalid source address."),
        ("-6 route add blackhole fd44::/32 src fd09::1", "Invalid source address."),
        ("route add 1.0.0.0/8 via 10.0.1.2 tos 0x11", "Invalid dsfield (tos): ECN bits must be 0."),
        ("route del 1.0.0.0/8 tos 0x3", "Invalid dsfield (tos): ECN bits must be 0."),
        ("rule add tos 0x11 table 7", "Invalid dsfield (tos): ECN bits must be 0."),
        ("rule add goto 100 pref 100", "Backward goto not supported."),
        ("rule add pref 100 goto 99", "Backward goto not supported."),
        ("rule add sport 0 table 7", "Invalid sport range."),
        ("rule add dport 1-65535 table 7", "Invalid dport range."),
        (
            "nexthop add id 3 group 1 type resilient",
            "Number of buckets not specified for nexthop group insertion.",
        ),
        ("nexthop replace id 0 via 10.0.1.2 dev a1", "Replace requires nexthop id."),
        ("nexthop replace via 10.0.1.2 dev a1", "Replace requires nexthop id."),
    ] {
        let refused = ip.run(command).map_err(|error| error.to_string());
        assert_eq!(refused, Err(format!("Error: {answer}")), "{command}");
    }
    let nothing = ip.run("rule add").unwrap_err().to_string();
    assert_eq!(nothing, "\"ip rule add\" requires arguments.");
    let scope = ip.run("nexthop add id 3 via 10.0.1.2 dev a1 scope link");
    assert!(matches!(scope, Err(IpError::Grammar(_))));
}

#[test]
fn what_linux_takes_for_something_else() {
    let mut ip = router();
    for (command, question, shown) in [
        ("nexthop add id 0 via 10.0.1.2 dev a1", "nexthop show", "id 1 via 10.0.1.2"),
        ("nexthop add id 2 group 1 type resilient buckets 4", "nexthop show", "buckets 4 "),
        (
            "nexthop replace id 2 group 1 type resilient unbalanced_timer 9",
            "nexthop show",
            "buckets 4 idle_timer 120 unbalanced_timer 9 ",
        ),
        (
            "nexthop replace id 2 group 1 type resilient",
            "nexthop show",
            "buckets 4 idle_timer 120 unbalanced_timer 9 ",
        ),
        ("route add 1.0.0.0/8 via 10.0.1.2 mtu 100000", "route show", "mtu 65520 "),
        ("route add 2.0.0.0/8 via 10.0.1.2 advmss 100000", "route show", "advmss 65495 "),
        ("route add blackhole 3.0.0.0/8 scope nowhere src 1.2.3.4", "route show", "3.0.0.0/8"),
        ("route add local 4.0.0.1 dev a1 src 4.0.0.1", "route show table local", "4.0.0.1"),
        ("-6 route add fd44::/32 dev a1 onlink", "-6 route show", "fd44::/32 dev a1"),
    ] {
        assert_eq!(ip.run(command), Ok(String::new()), "{command}");
        let listing = ip.run(question).unwrap();
        assert!(listing.contains(shown), "{command}: {listing}");
    }
}
