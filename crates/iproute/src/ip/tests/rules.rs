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
