//! What is taken and what is refused, as Linux 6.18 and iproute2 6.1 were seen to answer.

use super::*;

#[test]
fn gateways_and_prefixes_that_linux_takes() {
    let mut ip = router();
    for (command, question, shown) in [
        ("route add default via 10.0.1.1", "route show default", "default via 10.0.1.1 dev a1"),
        ("nexthop add id 1 via 10.0.2.1 dev a2", "nexthop show", "id 1 via 10.0.2.1 dev a2"),
        ("-6 route add fd44::5/32 via fd00:1::2", "-6 route show fd44::/32", "fd44::/32 via"),
        ("rule add from 10.0.0.5/8 table 7 pref 9", "rule show", "from 10.0.0.0/8 lookup 7"),
        ("rule add to 1.2.3.4 type blackhole pref 8", "rule show", "to 1.2.3.4 blackhole"),
    ] {
        assert_eq!(ip.run(command), Ok(String::new()), "{command}");
        let listing = ip.run(question).unwrap();
        assert!(listing.contains(shown), "{command}: {listing}");
    }
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());
}
