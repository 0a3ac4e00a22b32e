//! What a router says of packets that its routes and rules refuse.

use super::*;
use crate::fib::{Action, Prefix, RouteType, Rule};

/// A refusal by a route of this type, by a rule with this action, or because there is no route at all.
enum Refuses {
    Route(RouteType),
    Rule(Action),
    Nothing,
}

/// The type and code of what the sender hears.
fn heard(sender: &str, dst: &str, refuses: &Refuses) -> Option<(u8, u8)> {
    let mut host = router();
    let own = vec![(ip("10.0.1.1"), 24), (ip("fd01::1"), 64)];
    host.add_port(PortConfig { addresses: own, ..PortConfig::default() });
    let prefix = Prefix::host(ip(dst));
    match *refuses {
        Refuses::Route(kind) => {
            host.fib_mut().add(Route::refusal(prefix, kind)).expect("a new route");
        }
        Refuses::Rule(action) => {
            let rule = Rule { to: Some(prefix), ..Rule::all(9, action) };
            host.fib_mut().add_rule(ip(dst).is_ipv6(), rule).expect("a new rule");
        }
        Refuses::Nothing => {}
    }
    for port in 0..3 {
        host.grant(ms(0), Port(port), 10_000);
    }
    let bracketed = |addr: &str| SocketAddr::new(ip(addr), 9).to_string();
    let mut packet = datagram(&bracketed(sender), &bracketed(dst), 64, 1);
    assert!(matches!(host.receive(ms(1), Port(2), &mut packet), Rx::Taken));
    sent(&mut host, ms(1)).first().map(|(_, packet)| match &packet.transport {
        Transport::Icmp(icmp) => (icmp.kind, icmp.code),
        other => panic!("{other:?}"),
    })
}

/// As a router of Linux 6.18 was seen to answer.
#[test]
fn a_route_says_that_the_host_is_unreachable_and_a_rule_that_the_network_is() {
    for (refuses, v4, v6) in [
        (Refuses::Route(RouteType::Unreachable), Some((3, 1)), Some((1, 0))),
        (Refuses::Rule(Action::Unreachable), Some((3, 0)), Some((1, 0))),
        (Refuses::Nothing, Some((3, 0)), Some((1, 0))),
        (Refuses::Route(RouteType::Prohibit), Some((3, 13)), Some((1, 1))),
        (Refuses::Rule(Action::Prohibit), Some((3, 13)), Some((1, 1))),
        (Refuses::Route(RouteType::Blackhole), None, None),
        (Refuses::Rule(Action::Blackhole), None, None),
    ] {
        assert_eq!(heard("10.0.1.2", "20.0.0.1", &refuses), v4);
        assert_eq!(heard("fd01::2", "2001:db8::1", &refuses), v6);
    }
}
