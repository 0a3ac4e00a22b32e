//! `-4` and `-6`.

use super::*;

/// As iproute2 refuses them.
#[test]
fn an_address_is_of_the_family_that_was_said() {
    let mut ip = router();
    for (command, expected) in [
        ("-6 rule add from 10.0.0.0/8 table 7", "inet6 prefix"),
        ("-4 rule add from fd00::/8 table 7", "inet prefix"),
        ("rule add from 10.0.0.0/8 to fd00::/8 table 7", "inet prefix"),
        ("-6 route add 60.0.0.0/8 via 10.0.1.2", "inet6 prefix"),
        ("-4 route add fd60::/64 via fd00:1::2", "inet prefix"),
        ("-6 route add default via 10.0.1.2", "inet6 address"),
        ("-6 route add fd60::/64 nexthop via 10.0.1.2", "inet6 address"),
        ("-4 route add 60.0.0.0/8 via 10.0.1.2 src fd00:1::1", "inet address"),
        ("-6 route show 10.0.0.0/8", "inet6 prefix"),
        ("-6 route get 1.2.3.4", "inet6 prefix"),
        ("-4 route get fd00:1::5", "inet prefix"),
        ("route get 1.2.3.4 from fd00:1::1", "inet prefix"),
        ("-6 nexthop add id 9 via 10.0.1.9 dev a1", "inet6 address"),
        ("-4 nexthop add id 9 via fd00:1::9 dev a1", "inet address"),
        ("-4 address add fd05::1/64 dev a1", "inet prefix"),
        ("-6 address del 10.0.1.1/24 dev a1", "inet6 prefix"),
    ] {
        let before = ip.save();
        let Err(IpError::Grammar(error)) = ip.run(command) else { panic!("{command}") };
        let message = format!("{expected} is expected rather than \"{}\".", error.word);
        assert_eq!(error.message, message, "{command}");
        assert_eq!(ip.save(), before, "{command}");
    }
    ip.run("-4 route add 60.0.0.0/8 via inet6 fd00:1::2 dev a1").expect("a family of its own");
}

/// A group has no family, nor has what is deleted by its number.
#[test]
fn next_hops_are_shown_and_flushed_by_family() {
    let mut ip = router();
    ip.run_all(
        "nexthop add id 1 via 10.0.1.2 dev a1\nnexthop add id 2 via fd00:1::2 dev a1\n\
         nexthop add id 3 blackhole\nnexthop add id 4 group 1/2",
    )
    .unwrap();
    let mut ids = |question: &str| -> Vec<String> {
        let shown = ip.run(question).unwrap();
        shown.lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(ids("-4 nexthop show"), ["1", "3"]);
    assert_eq!(ids("-6 nexthop show"), ["2"]);
    assert_eq!(ids("-6 nexthop show id 1"), ["1"]);
    ip.run("-6 nexthop flush").unwrap();
    assert_eq!(ip.run("nexthop show").unwrap().matches("id ").count(), 3);
}
