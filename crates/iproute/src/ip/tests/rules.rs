//! Rules: marks, and which are listed.

use super::*;

/// A mark of zero alone is no condition, as in the kernel.
#[test]
fn a_mark_of_zero_needs_a_mask() {
    for (said, shown) in [
        ("0", ""),
        ("0/0", ""),
        ("0/0xff", "fwmark 0/0xff "),
        ("0x10/0", "fwmark 0x10/0 "),
        ("7", "fwmark 0x7 "),
    ] {
        let mut ip = router();
        ip.run(&format!("rule add fwmark {said} table 100 pref 5")).unwrap();
        let line = format!("5:\tfrom all {shown}lookup 100\n");
        assert!(ip.run("rule show").unwrap().contains(&line), "{said}");
        let mut again = Ip::new();
        again.run_all(&ip.save()).unwrap();
        assert_eq!(again.save(), ip.save(), "{said}");
    }
    let mut ip = router();
    ip.run_all("route add default via 10.0.2.2 table 100\nrule add fwmark 0 table 100").unwrap();
    assert!(ip.run("route get 77.0.0.1 mark 5").unwrap().contains("dev a2"));
    ip.run_all("rule del table 100\nrule add fwmark 0/0xff table 100").unwrap();
    assert!(ip.run("route get 77.0.0.1 mark 5").is_err());
    assert!(ip.run("route get 77.0.0.1 mark 0x100").is_ok());
    let json = ip.run("-j rule show table 100").unwrap();
    assert!(json.contains(r#""fwmark":"0","fwmask":"0xff""#), "{json}");
}

/// As iproute2 6.1 lists them of Linux 6.18.
#[test]
fn rules_are_listed_by_what_they_have() {
    let mut ip = router();
    ip.run_all(
        "rule add from 10.8.0.0/16 table 100 pref 100
        rule add from 10.8.1.0/24 to 1.0.0.0/8 table 101 pref 101
        rule add from 10.8.0.0/16 iif lo prohibit pref 102
        rule add fwmark 1/3 ipproto tcp sport 5-9 dport 7 tos 0x10 pref 103
        rule add oif lo goto 110 pref 104
        rule add not from 10.8.0.0/16 blackhole pref 110
        rule add table 100 suppress_prefixlength 0 pref 111",
    )
    .unwrap();
    for (selector, expected) in [
        ("from 10.8.0.0/16", &[100, 101, 102, 110][..]),
        ("from 10.0.0.0/8", &[100, 101, 102, 110]),
        ("from 10.8.0.5/16", &[100, 101, 102, 110]),
        ("from 10.8.1.1", &[]),
        ("to 1.0.0.0/8", &[101]),
        ("1.0.0.0/8", &[101]),
        ("to 1.2.3.4", &[]),
        ("iif lo", &[102]),
        ("dev lo", &[102]),
        ("iif absent", &[]),
        ("oif absent", &[]),
        ("oif lo", &[104]),
        ("pref 100", &[100]),
        ("priority 0", &[0]),
        ("order 110", &[110]),
        ("table 100", &[100, 111]),
        ("lookup main", &[103, 32766]),
        ("fwmark 1", &[103]),
        ("fwmark 1/3", &[103]),
        ("fwmark 1/7", &[]),
        ("ipproto 6", &[103]),
        ("sport 5-9", &[103]),
        ("sport 6", &[]),
        ("dport 7", &[103]),
        ("tos 0x10", &[103]),
        ("not", &[110]),
        ("not from 10.8.0.0/16 table 100", &[]),
        ("from 10.8.0.0/16 iif lo", &[102]),
    ] {
        let shown = ip.run(&format!("rule show {selector}")).expect(selector);
        let priorities: Vec<u32> =
            shown.lines().map(|line| line.split(':').next().unwrap().parse().unwrap()).collect();
        assert_eq!(priorities, expected, "{selector}");
        let json = ip.run(&format!("-j rule show {selector}")).expect(selector);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.as_array().unwrap().len(), expected.len(), "{selector}");
    }
    let all = ip.run("rule show").unwrap();
    for same in ["rule", "rule show from all", "rule show fwmark 0", "rule list proto boot"] {
        assert_eq!(ip.run(same).unwrap(), all, "{same}");
    }
    for (wrong, column, message) in [
        ("rule show junk", 10, "inet prefix is expected rather than \"junk\"."),
        ("rule show form 10.0.0.0/8", 10, "inet prefix is expected rather than \"form\"."),
        ("rule show from fd00::/64", 15, "inet prefix is expected rather than \"fd00::/64\"."),
        ("-6 rule show 10.0.0.0/8", 13, "inet6 prefix is expected rather than \"10.0.0.0/8\"."),
        ("rule show priority x", 19, "argument \"x\" is wrong: preference value is invalid"),
        ("rule show from", 14, "\"from\" needs a value"),
    ] {
        let Err(IpError::Grammar(error)) = ip.run(wrong) else { panic!("{wrong}") };
        assert_eq!((error.column, &error.message[..]), (column, message), "{wrong}");
    }
}

/// As iproute2 6.1 and Linux 6.18 have it: a rule names an interface that is not there, and is for nobody until it is.
#[test]
fn a_rule_waits_for_its_device() {
    let mut ip = router();
    ip.run_all(
        "route add 77.0.0.0/8 via 10.0.2.2 table 100
        rule add iif nope table 100 pref 5
        rule add not iif nope table 101 pref 6
        rule add oif gone prohibit pref 7
        -6 rule add iif nope blackhole pref 8",
    )
    .unwrap();
    let shown = ip.run("rule show").unwrap();
    for line in [
        "5:\tfrom all iif nope [detached] lookup 100\n",
        "6:\tnot from all iif nope [detached] lookup 101\n",
        "7:\tfrom all oif gone [detached] prohibit\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(ip.run("-6 rule show iif nope").unwrap().contains("8:\tfrom all iif nope [detached]"));
    assert_eq!(ip.run("rule show oif nope").unwrap(), "");
    assert!(ip.run("-j rule show pref 5").unwrap().contains(r#""iif":"nope","iif_detached":null"#));
    assert!(ip.run("-j rule show pref 7").unwrap().contains(r#""oif":"gone","oif_detached":null"#));
    let asked = "route get 77.0.0.1 from 10.5.5.5 iif";
    assert!(ip.run(&format!("{asked} in0")).is_err());
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());

    // It comes: its rules are for its packets, and stay where they were.
    ip.run_all("link add nope type dummy\nlink set nope up").unwrap();
    let shown = ip.run("rule show").unwrap();
    assert!(
        shown.contains("5:\tfrom all iif nope lookup 100\n6:\tnot from all iif nope lookup 101\n")
    );
    assert!(ip.run(&format!("{asked} nope")).unwrap().contains("dev a2 table 100"));
    assert!(ip.run("-6 rule show").unwrap().contains("8:\tfrom all iif nope blackhole\n"));
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());

    for (words, message) in [
        ("rule del iif nobody", "RTNETLINK answers: No such file or directory"),
        ("rule add iif a/b", "argument \"a/b\" is wrong: \"iif\"/\"dev\" not a valid ifname"),
        (
            "rule add oif 1234567890123456",
            "argument \"1234567890123456\" is wrong: \"oif\" not a valid ifname",
        ),
    ] {
        assert!(ip.run(words).unwrap_err().to_string().contains(message), "{words}");
    }
    ip.run("rule del oif gone").unwrap();
    assert!(!ip.run("rule show").unwrap().contains("gone"));
    // Names that no rule has any more take no place.
    for number in 0..5_000 {
        ip.run_all(&format!("rule add iif x{number} pref 9\nrule del iif x{number}")).unwrap();
    }
}

/// Where no interface comes any more, a rule for one that is not there is a mistake.
#[test]
fn rules_for_missing_devices_are_refused_once_devices_are_complete() {
    let mut ip = router();
    ip.devices.complete();
    for word in ["iif", "oif"] {
        let error = ip.run(&format!("rule add {word} a9 table 5")).unwrap_err().to_string();
        assert!(error.contains("Cannot find device \"a9\""), "{error}");
    }
}

/// As Linux 6.18: what is found by an interface of the group is as if it had not been found.
#[test]
fn a_rule_ignores_routes_over_a_group_of_devices() {
    let mut ip = router();
    ip.run_all(
        "route add 77.0.0.0/8 via 10.0.1.2
        route add default via 10.0.2.2 table 9
        rule add table main suppress_ifgroup 7 pref 100
        rule add table 9 pref 101
        link set dev a1 group 7",
    )
    .unwrap();
    assert!(
        ip.run("rule show").unwrap().contains("100:\tfrom all lookup main suppress_ifgroup 7\n")
    );
    assert!(ip.run("-j rule show").unwrap().contains(r#""table":"main","suppress_ifgroup":"7""#));
    assert!(ip.run("link show a1").unwrap().contains("state UP group 7"));
    assert!(ip.run("-j link show a1").unwrap().contains(r#""group":"7""#));
    for dst in ["77.0.0.1", "10.0.1.9"] {
        assert!(ip.run(&format!("route get {dst}")).unwrap().contains("dev a2 table 9"), "{dst}");
    }
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());
    ip.run("link set dev a1 group default").unwrap();
    assert!(ip.run("route get 77.0.0.1").unwrap().contains("via 10.0.1.2 dev a1"));
    ip.run("rule add table 9 suppress_ifgroup default suppress_prefixlength 3 pref 50").unwrap();
    let both = "50:\tfrom all lookup 9 suppress_prefixlength 3 suppress_ifgroup default\n";
    assert!(ip.run("rule show").unwrap().contains(both));
    assert!(
        ip.run("route get 77.0.0.1").unwrap().contains("dev a1"),
        "the one that it has is of it"
    );
    ip.run("rule del suppress_ifgroup default").unwrap();
    for (words, message) in [
        ("rule add table 9 suppress_ifgroup bah", "Invalid \"suppress_ifgroup\" value"),
        ("rule add table 9 sup_group 4294967295", "Invalid \"suppress_ifgroup\" value"),
        ("link set dev a1 group foo", "Invalid \"group\" value"),
    ] {
        assert!(ip.run(words).unwrap_err().to_string().contains(message), "{words}");
    }
}
