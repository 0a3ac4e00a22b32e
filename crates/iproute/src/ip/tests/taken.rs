//! What is taken and what is refused, as Linux 6.18 and iproute2 6.1 were seen to answer.

use super::*;

/// Takes commands, each with a question whose answer has something of it then.
fn each_is_shown(ip: &mut Ip, rows: &[(&str, &str, &str)]) {
    for (command, question, shown) in rows {
        assert_eq!(ip.run(command), Ok(String::new()), "{command}");
        let listing = ip.run(question).unwrap();
        assert!(listing.contains(shown), "{command}: {listing}");
    }
}

#[test]
fn gateways_and_prefixes_that_linux_takes() {
    let mut ip = router();
    each_is_shown(
        &mut ip,
        &[
            ("route add default via 10.0.1.1", "route show default", "default via 10.0.1.1 dev a1"),
            ("nexthop add id 1 via 10.0.2.1 dev a2", "nexthop show", "id 1 via 10.0.2.1 dev a2"),
            ("-6 route add fd44::5/32 via fd00:1::2", "-6 route show fd44::/32", "fd44::/32 via"),
            ("rule add from 10.0.0.5/8 table 7 pref 9", "rule show", "from 10.0.0.0/8 lookup 7"),
            ("rule add to 1.2.3.4 type blackhole pref 8", "rule show", "to 1.2.3.4 blackhole"),
        ],
    );
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());
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
    each_is_shown(
        &mut ip,
        &[
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
        ],
    );
}
