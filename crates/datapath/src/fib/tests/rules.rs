//! What rules lead to, and what they ignore.

use super::*;

#[test]
fn rules_choose_the_table() {
    let mut fib = Fib::new();
    fib.add(Route::via(Prefix::DEFAULT_V4, 1, ip("10.0.1.1"))).unwrap();
    for (table, port) in [(100, 2), (101, 3), (102, 4), (103, 5), (104, 6)] {
        let route = Route::on_link(Prefix::DEFAULT_V4, port).table(TableId(table));
        fib.add(route).unwrap();
    }
    let rule = |priority, table| Rule::all(priority, Action::Table(TableId(table)));
    let ports = Some(8000..=8999);
    fib.add_rule(false, Rule { from: Some(net("10.8.0.0/16")), ..rule(100, 100) }).unwrap();
    fib.add_rule(false, Rule { mark: Some((0x10, 0xf0)), ..rule(101, 101) }).unwrap();
    fib.add_rule(false, Rule { dst_ports: ports, protocol: Some(6), ..rule(102, 102) }).unwrap();
    fib.add_rule(false, Rule { iif: Some(InputPort::Port(9)), ..rule(103, 103) }).unwrap();
    fib.add_rule(
        false,
        Rule { to: Some(net("203.0.113.0/24")), ..Rule::all(104, Action::Prohibit) },
    )
    .unwrap();
    let base = key("1.1.1.1");
    let on = |port| Decision::Forward(Hop { port, gateway: None });
    for (asked, expected) in [
        (base, to(1, "10.0.1.1")),
        (RouteKey { src: ip("10.8.1.1"), ..base }, on(2)),
        (RouteKey { mark: 0x1f, ..base }, on(3)),
        (RouteKey { protocol: 6, dst_port: 8080, ..base }, on(4)),
        (RouteKey { protocol: 17, dst_port: 8080, ..base }, to(1, "10.0.1.1")),
        (RouteKey { iif: Some(9), ..base }, on(5)),
        (key("203.0.113.9"), Decision::Prohibit),
    ] {
        assert_eq!(fib.lookup(&asked), expected, "{asked:?}");
    }
    let last = Rule { suppress_prefix_len: Some(0), ..rule(99, 254) };
    fib.add_rule(false, last).unwrap();
    assert_eq!(fib.lookup(&RouteKey { src: ip("10.8.1.1"), ..base }), on(2), "suppressed default");
    fib.add_rule(
        false,
        Rule { invert: true, mark: Some((7, 7)), ..Rule::all(1, Action::Goto(102)) },
    )
    .unwrap();
    assert_eq!(fib.lookup(&RouteKey { src: ip("10.8.1.1"), ..base }), to(1, "10.0.1.1"));
}

/// Of a route with several next hops IPv4 looks at the first one, whether or not it serves; IPv6 at the one that is
/// chosen, which here is the choice by what the key says, whatever else is hashed.
#[test]
fn suppress_ifgroup_tests_the_hop_that_represents_the_route() {
    let mut fib = Fib::new();
    let now = Instant::ZERO;
    fib.set_link(now, 1, LinkState { group: 7, ..LinkState::default() });
    let rule = |group| Rule { suppress_group: group, ..Rule::all(9, Action::Table(TableId::MAIN)) };
    fib.add(Route { target: Target::Hops(two_hops()), ..Route::on_link(net("20.0.0.0/8"), 1) })
        .unwrap();
    let last = |prefix| Route::on_link(prefix, 5).table(TableId::DEFAULT);
    fib.add(last(Prefix::DEFAULT_V4)).unwrap();
    fib.delete_rule(false, |rule| rule.priority == 32766).unwrap();
    fib.add_rule(false, rule(Some(7))).unwrap();
    let on = |port| Decision::Forward(Hop { port, gateway: None });
    assert_eq!(fib.lookup(&key("20.0.0.1")), on(5));
    assert!(!fib.decides_by_destination());
    fib.set_link(now, 1, LinkState { up: false, ..fib.link(1) });
    assert_eq!(fib.lookup(&key("20.0.0.1")), on(5), "though the other one would serve");
    fib.set_link(now, 1, LinkState { group: 6, ..LinkState::default() });
    assert_ne!(fib.lookup(&key("20.0.0.1")), on(5));

    fib.set_link(now, 1, LinkState { group: 7, ..LinkState::default() });
    let hops = [1, 2].map(|port| NextHop::new(port, Some(ip(&format!("fd00:{port}::1"))))).to_vec();
    fib.add(Route { target: Target::Hops(hops), ..Route::on_link(net("fd20::/16"), 1) }).unwrap();
    fib.add(last(net("::/0"))).unwrap();
    fib.delete_rule(true, |rule| rule.priority == 32766).unwrap();
    fib.add_rule(true, rule(Some(7))).unwrap();
    fib.add_rule(true, Rule::all(10, Action::Table(TableId::DEFAULT))).unwrap();
    let (mut ignored, mut served) = (0, 0);
    for host in 1..=64u16 {
        let key = key(&format!("fd20::{host:x}"));
        let other = RouteKey { dst: ip(&format!("fd20::{:x}", host + 64)), ..key };
        let by_itself = fib.forward(now, &key, || HashInput::from(&key));
        let by_another = fib.forward(now, &key, || HashInput::from(&other));
        assert_ne!(by_itself, to(1, "fd00:1::1"));
        if by_itself == on(5) {
            assert_eq!(by_another, on(5));
            ignored += 1;
        } else {
            served += 1;
        }
    }
    assert!(ignored > 10 && served > 10, "{ignored} {served}");
}

/// They are counted as lists come and go: it is asked for after each change, of many routes.
#[test]
fn one_route_for_a_tos_and_the_destination_does_not_decide() {
    let mut fib = Fib::new();
    let route = |net, port, tos| Route::on_link(net, port).tos(tos);
    let nets = ["20.0.0.0/8", "21.0.0.0/8", "22.0.0.0/8"].map(net);
    let agrees = |fib: &Fib, step: &str| {
        let none = fib.routes().iter().all(|route| route.tos == 0);
        assert_eq!(fib.decides_by_destination(), none, "{step}: {:?}", fib.routes());
    };
    for (port, tos) in [(1, 0), (2, 4), (3, 8), (4, 8)] {
        for net in nets {
            fib.append(route(net, port, tos)).unwrap();
            agrees(&fib, "append");
        }
    }
    assert!(!fib.decides_by_destination());
    fib.replace(route(nets[0], 9, 4)).unwrap();
    agrees(&fib, "replace");
    for tos in [0, 8, 4] {
        for net in nets {
            while fib.delete(&RouteFilter { tos, ..RouteFilter::any(net) }).is_ok() {
                agrees(&fib, "delete");
            }
        }
    }
    assert!(fib.is_empty() && fib.decides_by_destination());
    for port in 1..40 {
        fib.append(route(nets[0], port, 0)).unwrap();
        fib.append(route(nets[1], port, 4 * (port as u8 % 8))).unwrap();
        agrees(&fib, "many lists");
    }
}
