use super::hash::{HashFields, HashKey, Policy};
use super::nexthop::ObjectConfig;
use super::*;
use crate::units::Instant;
use core::net::{IpAddr, Ipv4Addr};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn net(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn key(dst: &str) -> RouteKey {
    let dst = ip(dst);
    RouteKey {
        src: if dst.is_ipv4() { ip("10.9.0.7") } else { ip("fd09::7") },
        dst,
        iif: None,
        oif: None,
        tos: 0,
        mark: 0,
        protocol: 17,
        src_port: 1024,
        dst_port: 53,
        flow_label: 0,
    }
}

fn to(port: u16, gateway: &str) -> Decision {
    Decision::Forward(Hop { port, gateway: Some(ip(gateway)) })
}

fn two_hops() -> Vec<NextHop> {
    vec![NextHop::new(1, Some(ip("10.0.1.2"))), NextHop::new(2, Some(ip("10.0.2.2")))]
}

#[test]
fn the_longest_prefix_decides() {
    let mut fib = Fib::new();
    fib.add(Route::via(Prefix::DEFAULT_V4, 1, ip("10.0.1.1"))).unwrap();
    fib.add(Route::via(net("198.18.0.0/15"), 2, ip("10.0.2.1"))).unwrap();
    fib.add(Route::refusal(net("198.18.9.0/24"), RouteType::Blackhole)).unwrap();
    fib.add(Route::refusal(net("198.18.8.0/24"), RouteType::Prohibit)).unwrap();
    fib.add(Route::refusal(net("198.18.7.0/24"), RouteType::Throw)).unwrap();
    fib.add(Route::refusal(net("198.18.6.0/24"), RouteType::Unreachable)).unwrap();
    fib.add(Route::local(ip("10.0.1.7"), 1)).unwrap();
    fib.add(Route::on_link(net("10.0.1.0/24"), 1)).unwrap();
    for (dst, expected) in [
        ("1.1.1.1", to(1, "10.0.1.1")),
        ("198.19.255.255", to(2, "10.0.2.1")),
        ("198.18.9.1", Decision::Blackhole),
        ("198.18.8.1", Decision::Prohibit),
        ("198.18.7.1", Decision::NoRoute),
        ("198.18.6.1", Decision::Unreachable),
        ("10.0.1.7", Decision::Local),
        ("10.0.1.8", Decision::Forward(Hop { port: 1, gateway: None })),
        ("fd00::1", Decision::NoRoute),
    ] {
        assert_eq!(fib.lookup(&key(dst)), expected, "{dst}");
    }
}

#[test]
fn tos_and_metric_order_routes_of_one_prefix() {
    let mut fib = Fib::new();
    let prefix = net("198.18.0.0/15");
    fib.add(Route::via(prefix, 1, ip("10.0.1.1")).metric(20)).unwrap();
    fib.add(Route::via(prefix, 2, ip("10.0.2.1")).metric(10)).unwrap();
    fib.add(Route::via(prefix, 3, ip("10.0.3.1")).metric(30).tos(0x10)).unwrap();
    assert_eq!(fib.add(Route::via(prefix, 4, ip("10.0.4.1")).metric(10)), Err(FibError::Exists));
    assert_eq!(fib.lookup(&key("198.18.0.1")), to(2, "10.0.2.1"));
    assert_eq!(fib.lookup(&RouteKey { tos: 0x13, ..key("198.18.0.1") }), to(3, "10.0.3.1"));
    fib.set_link(Instant::ZERO, 2, LinkState { up: false, ..LinkState::default() });
    assert_eq!(fib.lookup(&key("198.18.0.1")), to(1, "10.0.1.1"), "dead routes are passed over");
}

#[test]
fn replace_append_and_delete() {
    let mut fib = Fib::new();
    let prefix = net("198.18.0.0/15");
    fib.replace(Route::via(prefix, 1, ip("10.0.1.1"))).unwrap();
    fib.replace(Route::via(prefix, 2, ip("10.0.2.1"))).unwrap();
    assert_eq!((fib.len(), fib.lookup(&key("198.18.0.1"))), (1, to(2, "10.0.2.1")));
    fib.append(Route::via(prefix, 3, ip("10.0.3.1"))).unwrap();
    assert_eq!(fib.append(Route::via(prefix, 3, ip("10.0.3.1"))), Err(FibError::Exists));
    fib.prepend(Route::via(prefix, 4, ip("10.0.4.1"))).unwrap();
    assert_eq!(fib.lookup(&key("198.18.0.1")), to(4, "10.0.4.1"));
    for (port, gateway) in [(4, "10.0.4.1"), (2, "10.0.2.1"), (3, "10.0.3.1")] {
        assert_eq!(fib.lookup(&key("198.18.0.1")), to(port, gateway));
        fib.delete(&RouteFilter::any(prefix)).unwrap();
    }
    assert_eq!(fib.delete(&RouteFilter::any(prefix)), Err(FibError::NoSuchRoute));
    assert_eq!((fib.len(), fib.shared_len()), (0, 0));
    assert_eq!(fib.change(Route::via(prefix, 1, ip("10.0.1.1"))), Err(FibError::NoSuchEntry));
}

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

#[test]
fn golden_hashes() {
    for (seed, src, dst, protocol, sport, dport, expected) in [
        (12345, "192.0.2.1", "198.18.0.9", 6, 1024, 80, 0x4015_bdc5),
        (12345, "192.0.2.1", "198.18.0.9", 6, 1025, 80, 0x6663_d747),
        (12345, "10.9.0.7", "198.18.1.1", 0, 0, 0, 0x3b39_e4d0),
        (1, "10.0.0.1", "10.0.0.2", 17, 53, 5353, 0x6586_3415),
    ] {
        let outer = Fields {
            src: ip(src),
            dst: ip(dst),
            protocol,
            src_port: sport,
            dst_port: dport,
            flow_label: 0,
        };
        let key = HashKey::from_seed(seed);
        for fields in [outer, outer.reversed()] {
            let flow = HashInput {
                outer: fields,
                l3_protocol: protocol,
                inner: None,
                quoted: None,
                dont_fragment: true,
                from_packet: false,
            };
            let hash = hash::hash(Policy::L4, HashFields::default(), key, &flow);
            assert_eq!(hash, expected, "{src} {dst} {protocol}");
        }
    }
}

#[test]
fn ipv6_has_a_policy_of_its_own() {
    let mut fib = Fib::new();
    fib.add(Route::new(net("198.18.0.0/15"), two_hops())).unwrap();
    let hops = vec![NextHop::new(1, Some(ip("fd00:1::2"))), NextHop::new(2, Some(ip("fd00:2::2")))];
    fib.add(Route::new(net("fd45::/64"), hops)).unwrap();
    // How many of the next hops serve flows that differ in their ports alone.
    let used = |fib: &Fib, src: &str, dst: &str| {
        let ask = |src_port| fib.lookup(&RouteKey { src: ip(src), src_port, ..key(dst) });
        let first = ask(1000);
        if (1000..1064).all(|port| ask(port) == first) { 1 } else { 2 }
    };
    let both = |fib: &Fib| (used(fib, "10.9.0.7", "198.18.0.1"), used(fib, "fd09::7", "fd45::1"));
    assert_eq!(both(&fib), (1, 1), "policy 0 is the default of both");
    let by_ports = Hashed::by(Policy::L4);
    fib.set_settings(Settings { v4: by_ports, ..Settings::default() });
    assert_eq!(both(&fib), (2, 1));
    fib.set_settings(Settings { v6: by_ports, ..Settings::default() });
    assert_eq!(both(&fib), (1, 2));
}

#[test]
fn per_packet_alternates_and_l3_does_not() {
    let mut fib = Fib::new();
    let prefix = net("198.18.0.0/15");
    fib.add(Route::new(prefix, two_hops()).algorithm(Algorithm::PerPacket)).unwrap();
    let seen: Vec<_> = (0..4).map(|_| fib.lookup(&key("198.18.0.1"))).collect();
    assert_eq!(seen, [(1, "10.0.1.2"), (2, "10.0.2.2")].map(|(p, g)| to(p, g)).repeat(2));
    fib.replace(Route::new(prefix, two_hops()).algorithm(Algorithm::L3)).unwrap();
    let first = fib.lookup(&key("198.18.0.1"));
    for port in 0..100 {
        assert_eq!(fib.lookup(&RouteKey { src_port: port, ..key("198.18.0.1") }), first);
    }
}

#[test]
fn a_hop_without_carrier_serves_unless_told_to_ignore_it() {
    let mut fib = Fib::new();
    fib.add(Route::new(net("198.18.0.0/15"), two_hops())).unwrap();
    let share = |fib: &Fib| {
        let on_one = |host: &u32| {
            let dst = IpAddr::V4(Ipv4Addr::from_bits(0xc612_0000 + host));
            fib.lookup(&RouteKey { dst, ..key("0.0.0.0") }) == to(1, "10.0.1.2")
        };
        (0..1000).filter(on_one).count()
    };
    let both = share(&fib);
    assert!((400..600).contains(&both));
    let no_carrier = LinkState { carrier: false, ..LinkState::default() };
    fib.set_link(Instant::ZERO, 1, no_carrier);
    assert_eq!(share(&fib), both);
    fib.set_link(Instant::ZERO, 1, LinkState { ignore_linkdown: true, ..no_carrier });
    assert_eq!(share(&fib), 0);
    fib.set_link(Instant::ZERO, 1, LinkState { up: false, ..LinkState::default() });
    assert_eq!(share(&fib), 0);
    fib.set_link(Instant::ZERO, 1, LinkState::default());
    assert_eq!(share(&fib), both, "the old shares come back");
}

#[test]
fn objects_and_groups_carry_routes() {
    let now = Instant::ZERO;
    let mut fib = Fib::new();
    let [one, two] = two_hops().try_into().unwrap();
    fib.add_object(now, 1, ObjectConfig::Hop(one)).unwrap();
    fib.add_object(now, 2, ObjectConfig::Hop(two)).unwrap();
    fib.add_object(now, 4, ObjectConfig::Blackhole).unwrap();
    let member = |id| resilient::Member { id, weight: 1 };
    let group = |ids: &[u32]| ObjectConfig::Group(ids.iter().map(|&id| member(id)).collect());
    for (ids, error) in [
        (&[1, 9][..], FibError::NoSuchMember),
        (&[1, 1], FibError::RepeatedMember),
        (&[1, 4], FibError::BlackholeInGroup),
        (&[], FibError::InvalidNextHops),
    ] {
        assert_eq!(fib.add_object(now, 10, group(ids)), Err(error));
    }
    fib.add_object(now, 10, group(&[1, 2])).unwrap();
    assert_eq!(fib.add_object(now, 11, group(&[10])), Err(FibError::NestedGroup));
    let prefix = net("198.18.0.0/15");
    let mut legacy = Fib::new();
    legacy.add(Route::new(prefix, two_hops())).unwrap();
    fib.add(Route::object(prefix, 10)).unwrap();
    fib.add(Route::object(net("9.0.0.0/8"), 4)).unwrap();
    let host = |host: u32| IpAddr::V4(Ipv4Addr::from_bits(0xc612_0000 + host));
    for index in 0..200 {
        let asked = RouteKey { dst: host(index), ..key("0.0.0.0") };
        assert_eq!(fib.lookup(&asked), legacy.lookup(&asked), "a group decides like its route");
    }
    assert_eq!(fib.lookup(&key("9.1.1.1")), Decision::Blackhole);
    fib.delete_object(now, 1).unwrap();
    assert_eq!(fib.lookup(&key("198.18.0.1")), to(2, "10.0.2.2"));
    fib.delete_object(now, 2).unwrap();
    assert_eq!(fib.lookup(&key("198.18.0.1")), Decision::NoRoute);
    assert_eq!((fib.len(), fib.objects().iter().count()), (1, 1));
}

/// As `ip route get … from …` of Linux 6.18 was seen to answer: a hop is preferred for the one address that
/// it gives as a source, not for others of its interface (`nh_saddr` in `fib_select_multipath`).
#[test]
fn a_source_prefers_the_hops_that_give_it() {
    let mut fib = Fib::new();
    let hops = |first: &str, second: &str| {
        vec![NextHop::new(1, first.parse().ok()), NextHop::new(2, second.parse().ok())]
    };
    fib.add(Route::new(net("198.18.0.0/16"), hops("10.0.1.2", "10.0.2.2"))).unwrap();
    fib.add(Route::new(net("198.19.0.0/16"), hops("", ""))).unwrap();
    fib.add(Route::new(net("198.20.0.0/16"), hops("10.77.0.7", "10.0.2.2"))).unwrap();
    let own = |port, addr, len| Own { port, addr: ip(addr), len };
    let addresses = [
        own(0, "10.9.9.9", 32),
        own(1, "10.0.1.1", 24),
        own(1, "10.0.1.5", 24),
        own(1, "10.77.0.1", 24),
        own(2, "10.0.2.1", 24),
    ];
    fib.set_addresses(addresses.into_iter());
    let on_one = |fib: &Fib, net: u32, src: &str| {
        let made_here = |host| RouteKey {
            dst: IpAddr::V4(Ipv4Addr::from_bits(net + host)),
            src: ip(src),
            ..key("0.0.0.0")
        };
        let port = |host| match fib.lookup(&made_here(host)) {
            Decision::Forward(hop) => hop.port,
            other => panic!("{other:?}"),
        };
        (0..100).filter(|host| port(*host) == 1).count()
    };
    let some = 30..=70;
    for (net, src, expected) in [
        (0xc612_0000, "10.0.1.1", 100..=100),
        (0xc612_0000, "10.0.1.5", some.clone()),
        (0xc612_0000, "10.77.0.1", some.clone()),
        (0xc612_0000, "10.0.2.1", 0..=0),
        (0xc612_0000, "10.9.9.9", some.clone()),
        (0xc613_0000, "10.0.1.1", 100..=100),
        (0xc613_0000, "10.77.0.1", some.clone()),
        (0xc613_0000, "10.0.2.1", 0..=0),
        (0xc614_0000, "10.0.1.1", some.clone()),
        (0xc614_0000, "10.77.0.1", 100..=100),
        (0xc614_0000, "10.0.2.1", 0..=0),
    ] {
        let there = on_one(&fib, net, src);
        assert!(expected.contains(&there), "{net:x} {src}: {there}");
    }
    fib.set_addresses([addresses[2], addresses[4]].into_iter());
    assert_eq!(on_one(&fib, 0xc612_0000, "10.0.1.5"), 100, "it follows the addresses");
    fib.set_addresses(addresses.into_iter());
    fib.set_settings(Settings { heeds_source: false, ..Settings::default() });
    assert!(some.contains(&on_one(&fib, 0xc612_0000, "10.0.1.1")), "before Linux 6.16");
}

/// `nh_netdev_event`: what Linux 6.18 was seen to do when a carrier is lost, whatever
/// `ignore_routes_with_linkdown` says. The carrier brings nothing back.
#[test]
fn objects_go_with_the_carrier_of_their_interface() {
    let now = Instant::ZERO;
    let mut fib = Fib::new();
    let [one, two] = two_hops().try_into().unwrap();
    let v6 = NextHop::new(1, Some(ip("fe80::2")));
    for (id, hop) in [(1, one), (2, two), (3, NextHop::new(1, None)), (5, v6)] {
        fib.add_object(now, id, ObjectConfig::Hop(hop)).unwrap();
    }
    fib.add_object(now, 4, ObjectConfig::Blackhole).unwrap();
    let members = |ids: &[u32]| ids.iter().map(|&id| resilient::Member { id, weight: 1 }).collect();
    fib.add_object(now, 10, ObjectConfig::Group(members(&[1, 2]))).unwrap();
    fib.add_object(now, 11, ObjectConfig::Group(members(&[1, 3]))).unwrap();
    let config = resilient::ResilientConfig { buckets: 4, ..Default::default() };
    fib.add_object(now, 12, ObjectConfig::Resilient(members(&[1, 2]), config)).unwrap();
    for (prefix, id) in [
        ("30.0.0.0/8", 1),
        ("31.0.0.0/8", 10),
        ("32.0.0.0/8", 11),
        ("33.0.0.0/8", 12),
        ("fd77::/64", 5),
    ] {
        fib.add(Route::object(net(prefix), id)).unwrap();
    }
    fib.add(Route::via(net("40.0.0.0/8"), 1, ip("10.0.1.2"))).unwrap();
    let state = |fib: &Fib| {
        let ids: Vec<u32> = fib.objects().iter().map(|(id, _)| id).collect();
        let prefixes: Vec<String> =
            fib.routes().iter().map(|route| route.prefix.to_string()).collect();
        (ids, prefixes.join(" "))
    };
    fib.set_link(now, 1, LinkState { up: false, carrier: false, ..LinkState::default() });
    fib.set_link(now, 1, LinkState { carrier: false, ..LinkState::default() });
    assert_eq!(fib.lookup(&key("30.0.0.1")), Decision::NoRoute, "not without a carrier");
    fib.set_link(now, 1, LinkState::default());
    assert_eq!(state(&fib).0, [1, 2, 3, 4, 5, 10, 11, 12], "a link that is down keeps them");
    assert_eq!(fib.lookup(&key("30.0.0.1")), to(1, "10.0.1.2"));
    let left = (vec![2, 4, 10, 12], "31.0.0.0/8 33.0.0.0/8 40.0.0.0/8".to_owned());
    fib.set_link(now, 1, LinkState { carrier: false, ..LinkState::default() });
    assert_eq!(state(&fib), left);
    assert!(fib.buckets(now, 12).unwrap().all(|bucket| bucket.id == 2));
    fib.set_link(now, 1, LinkState::default());
    assert_eq!(state(&fib), left);
    assert_eq!(fib.lookup(&key("40.0.0.1")), to(1, "10.0.1.2"));
}

/// `goto miss` in `fib_table_lookup`, seen on Linux 6.18 by `ip route get … oif …`: where an object has no
/// next hop that serves, neither other routes of the prefix are asked nor those that begin at its address.
#[test]
fn an_ipv4_object_that_cannot_serve_ends_its_leaf() {
    let mut fib = Fib::new();
    fib.add_object(Instant::ZERO, 1, ObjectConfig::Hop(two_hops()[0])).unwrap();
    fib.add_object(Instant::ZERO, 2, ObjectConfig::Hop(NextHop::new(1, Some(ip("fd00:1::2")))))
        .unwrap();
    let over_2 = |prefix: &str| Route::via(net(prefix), 2, ip("10.0.2.9"));
    fib.add(Route::via(Prefix::DEFAULT_V4, 2, ip("10.0.2.8"))).unwrap();
    fib.add(Route::object(net("8.0.0.0/8"), 1).metric(100)).unwrap();
    fib.add(over_2("8.0.0.0/8").metric(200)).unwrap();
    fib.add(Route::object(net("11.0.0.0/8"), 1).tos(0x10)).unwrap();
    fib.add(over_2("11.0.0.0/8")).unwrap();
    fib.add(Route::object(net("12.0.0.0/8"), 1).metric(100)).unwrap();
    fib.add(Route::refusal(net("12.0.0.0/8"), RouteType::Prohibit).metric(200)).unwrap();
    fib.add(Route::object(net("20.0.0.0/16"), 1)).unwrap();
    fib.add(over_2("20.0.0.0/8")).unwrap();
    fib.add(Route::object(net("21.1.0.0/16"), 1)).unwrap();
    fib.add(over_2("21.0.0.0/8")).unwrap();
    fib.add(Route::object(net("fd99::/64"), 2).metric(100)).unwrap();
    fib.add(Route::via(net("fd99::/64"), 2, ip("fd00:2::2")).metric(200)).unwrap();
    let ask = |fib: &Fib, dst: &str, tos| {
        fib.lookup(&RouteKey { oif: Some(2), tos, ..RouteKey::to(ip(dst)) })
    };
    for (dst, tos, expected) in [
        ("8.0.0.1", 0, "10.0.2.8"),
        ("11.0.0.1", 0x10, "10.0.2.8"),
        ("11.0.0.1", 0, "10.0.2.9"),
        ("12.0.0.1", 0, "10.0.2.8"),
        ("20.0.0.5", 0, "10.0.2.8"),
        ("20.1.0.5", 0, "10.0.2.9"),
        ("21.1.0.5", 0, "10.0.2.9"),
        ("fd99::1", 0, "fd00:2::2"),
    ] {
        assert_eq!(ask(&fib, dst, tos), to(2, expected), "{dst} {tos}");
    }
    fib.add(Route::object(net("0.0.0.0/1"), 1)).unwrap();
    assert_eq!(ask(&fib, "22.0.0.5", 0), Decision::NoRoute, "a leaf with the default route");
    assert_eq!(ask(&fib, "130.0.0.5", 0), to(2, "10.0.2.8"));
}

/// Linux 6.18, `ip -6 route get … from … oif …`: an interface binds as long as the source is open.
#[test]
fn ipv6_demands_an_interface_only_without_a_source() {
    fn port(fib: &Fib, src: &str, dst: &str, oif: u16) -> u16 {
        let asked = RouteKey { src: ip(src), oif: Some(oif), ..RouteKey::to(ip(dst)) };
        match fib.lookup(&asked) {
            Decision::Forward(hop) => hop.port,
            other => panic!("{other:?}"),
        }
    }
    let mut fib = Fib::new();
    let via = |port: u16, host: u16| NextHop::new(port, Some(ip(&format!("fd00:{port}::{host}"))));
    fib.add(Route::new(net("fd45::/64"), vec![via(1, 2), via(2, 2), via(2, 3)])).unwrap();
    fib.add(Route::on_link(net("fd48::/64"), 1)).unwrap();
    fib.append(Route::on_link(net("fd48::/64"), 2)).unwrap();
    let ports = |fib: &Fib, src: &str, prefix: &str, oif: u16| {
        let found = (1..100).map(|host| port(fib, src, &format!("{prefix}::{host:x}"), oif));
        found.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ports(&fib, "::", "fd45", 1), [1].into());
    assert_eq!(ports(&fib, "::", "fd45", 2), [2].into());
    assert_eq!(ports(&fib, "fd09::7", "fd45", 2), [1, 2].into(), "the hash decides");
    // Routes that are no siblings are told apart by the interface, demanded or not.
    assert_eq!([1, 2].map(|oif| port(&fib, "::", "fd48::1", oif)), [1, 2]);
    assert_eq!([1, 2, 3].map(|oif| port(&fib, "fd09::7", "fd48::1", oif)), [1, 2, 1]);
    // A group must have the interface, and need not take it.
    for id in [1, 2] {
        fib.add_object(Instant::ZERO, id.into(), ObjectConfig::Hop(via(id, 2))).unwrap();
    }
    let members = [1, 2].map(|id| resilient::Member { id, weight: 1 }).to_vec();
    fib.add_object(Instant::ZERO, 10, ObjectConfig::Group(members)).unwrap();
    fib.add(Route::object(net("fd46::/64"), 10)).unwrap();
    assert_eq!(ports(&fib, "::", "fd46", 2), [1, 2].into());
    assert_eq!(
        fib.lookup(&RouteKey { oif: Some(3), ..RouteKey::to(ip("fd46::1")) }),
        Decision::NoRoute
    );
    let nowhere = RouteKey { oif: Some(3), ..RouteKey::to(ip("fd48::1")) };
    assert_eq!(fib.lookup(&nowhere), Decision::NoRoute);
}

#[test]
fn mp_algo_numbers_are_those_of_the_series() {
    for (algorithm, number) in [(Algorithm::L3, 0), (Algorithm::PerPacket, 1), (Algorithm::L4, 5)] {
        assert_eq!(algorithm.encode(), Some([number, 0, 0, 0]));
        assert_eq!(Algorithm::decode(&[number, 0, 0, 0]), Ok(algorithm));
    }
    for (number, name) in [(2, "drr"), (3, "random"), (4, "wrandom")] {
        assert_eq!(Algorithm::from_number(number), Err(FibError::ReservedAlgorithm(name)));
    }
    assert_eq!(Algorithm::from_number(6), Err(FibError::UnknownAlgorithm(6)));
    assert!(Algorithm::decode(&[0, 0]).is_err());
    assert_eq!(Algorithm::System.encode(), None);
}

/// The 2015 series: an error that quotes the other direction takes the path of its flow under
/// L3, and is not looked into under L4, which hashes ports only where DF is set.
#[test]
fn icmp_errors_follow_their_flow_under_l3_only() {
    let key = HashKey::from_seed(77);
    let fields = |src: &str, dst: &str, protocol, src_port| Fields {
        src: ip(src),
        dst: ip(dst),
        protocol,
        src_port,
        dst_port: 80,
        flow_label: 0,
    };
    let flow = |outer: Fields, quoted, dont_fragment| HashInput {
        outer,
        l3_protocol: outer.protocol,
        inner: None,
        quoted,
        dont_fragment,
        from_packet: true,
    };
    let tcp = fields("10.9.0.7", "198.18.0.1", 6, 1024);
    let error = flow(fields("10.9.0.99", "198.18.0.1", 1, 0), Some(tcp.reversed()), false);
    let [df, no_df] = [true, false].map(|df| flow(tcp, None, df));
    assert_eq!(hash::seed_l3(key, &error), hash::seed_l3(key, &df));
    assert_ne!(hash::seed_l4(key, &error), hash::seed_l4(key, &df));
    assert_eq!(hash::seed_l4(key, &no_df), hash::seed_l3(key, &df), "no DF, no ports");
    assert_ne!(hash::seed_l4(key, &df), hash::seed_l3(key, &df));
    let other_port = flow(fields("10.9.0.7", "198.18.0.1", 6, 1025), None, true);
    assert_ne!(hash::seed_l4(key, &other_port), hash::seed_l4(key, &df));
    let echo = flow(fields("10.9.0.7", "198.18.0.1", 1, 0), None, true);
    assert_eq!(hash::seed_l4(key, &echo), hash::seed_l3(key, &echo));
}

#[test]
fn a_small_fib_is_small() {
    let mut fib = Fib::new();
    for (prefix, port) in [("0.0.0.0/0", 1), ("10.0.1.0/24", 1), ("10.0.2.0/24", 2)] {
        fib.add(Route::on_link(net(prefix), port)).unwrap();
    }
    let bytes = size_of::<Fib>() + fib.memory();
    assert!(bytes < 1024, "{bytes} bytes for three routes");
}

/// A table large enough for spans passes over what does not fit as a small one does.
#[test]
fn a_large_table_passes_over_dead_hops_and_other_tos() {
    let now = Instant::ZERO;
    let mut fib = Fib::new();
    fib.add(Route::via(Prefix::DEFAULT_V4, 1, ip("10.0.1.1"))).unwrap();
    for index in 0..40_000u32 {
        let prefix = Prefix::containing(Ipv4Addr::from_bits(0x1400_0000 + (index << 8)).into(), 24);
        fib.add(Route::via(prefix.unwrap(), 2, ip("10.0.2.1"))).unwrap();
    }
    fib.add(Route::via(net("20.0.7.0/25"), 3, ip("10.0.3.1")).tos(0x10)).unwrap();
    fib.add(Route::refusal(net("20.0.8.0/25"), RouteType::Throw)).unwrap();
    assert_eq!(fib.lookup(&key("20.0.7.1")), to(2, "10.0.2.1"));
    assert_eq!(fib.lookup(&RouteKey { tos: 0x10, ..key("20.0.7.1") }), to(3, "10.0.3.1"));
    assert_eq!(fib.lookup(&key("20.0.8.1")), Decision::NoRoute, "throw ends the table");
    assert_eq!(fib.lookup(&key("20.0.8.200")), to(2, "10.0.2.1"));
    fib.set_link(now, 2, LinkState { up: false, ..LinkState::default() });
    assert_eq!(fib.lookup(&key("20.0.7.1")), to(1, "10.0.1.1"), "the next shorter prefix");
    fib.set_link(now, 2, LinkState::default());
    let explained = fib.explain(&key("20.0.9.1")).unwrap();
    assert_eq!((explained.route.prefix, explained.rule.priority), (net("20.0.9.0/24"), 32766));
    fib.delete(&RouteFilter::any(net("20.0.9.0/24"))).unwrap();
    assert_eq!(fib.lookup(&key("20.0.9.1")), to(1, "10.0.1.1"));
    fib.add_rule(
        false,
        Rule { suppress_prefix_len: Some(0), ..Rule::all(9, Action::Table(TableId::MAIN)) },
    )
    .unwrap();
    fib.add(Route::on_link(Prefix::DEFAULT_V4, 4).table(TableId(7))).unwrap();
    fib.add_rule(false, Rule::all(10, Action::Table(TableId(7)))).unwrap();
    assert_eq!(fib.lookup(&key("20.0.9.1")), Decision::Forward(Hop { port: 4, gateway: None }));
    assert_eq!(fib.lookup(&key("20.0.10.1")), to(2, "10.0.2.1"), "24 bits are not suppressed");
}

/// Of a route with several next hops IPv4 looks at the first one, whether or not it serves; IPv6 at the one that is
/// chosen, which here is the choice by what the key says, whatever else is hashed.
#[test]
fn a_group_of_interfaces_is_ignored_by_the_hop_that_stands_for_the_route() {
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

/// Equal lists of routes are stored once: prefixes cost no more than their place in the trie.
#[test]
fn lists_are_shared_and_go_with_their_last_prefix() {
    let mut fib = Fib::new();
    let prefixes: Vec<Prefix> = (1..=200).map(|n| net(&format!("{n}.0.0.0/8"))).collect();
    for (index, &prefix) in prefixes.iter().enumerate() {
        fib.add(Route::via(prefix, (index % 2) as u16, ip("10.0.1.1"))).unwrap();
    }
    let before = fib.memory();
    for &prefix in &prefixes {
        fib.append(Route::via(prefix, 9, ip("10.0.9.1")).metric(5)).unwrap();
    }
    assert!(fib.memory() < before + 1000, "{before} {}", fib.memory());
    for &prefix in &prefixes {
        for _ in 0..2 {
            fib.delete(&RouteFilter::any(prefix)).unwrap();
        }
    }
    assert_eq!((fib.len(), fib.shared_len()), (0, 0));
}

#[test]
fn wrong_routes_are_refused() {
    let mut fib = Fib::new();
    let prefix = net("198.18.0.0/15");
    assert_eq!("198.18.0.1/15".parse::<Prefix>(), Err(FibError::InvalidPrefix));
    assert_eq!("198.18.0.0/33".parse::<Prefix>(), Err(FibError::InvalidPrefix));
    for weight in [0, 257] {
        let hops = vec![NextHop::new(1, None).weight(weight)];
        assert_eq!(fib.add(Route::new(prefix, hops)), Err(FibError::InvalidWeight));
    }
    assert_eq!(fib.add(Route::new(prefix, vec![])), Err(FibError::InvalidNextHops));
    assert_eq!(fib.add(Route::object(prefix, 7)), Err(FibError::NoSuchObject));
}

/// `ip6_ignore_linkdown` for IPv6 routes, `ip_ignore_linkdown` for IPv4 ones, also where they lead over
/// a router of the other family, or over none.
#[test]
fn whether_a_missing_carrier_counts_is_for_the_family_of_the_route() {
    let mut fib = Fib::new();
    fib.add(Route::on_link(net("10.0.1.0/24"), 1)).unwrap();
    fib.add(Route::via(net("10.0.2.0/24"), 1, ip("fe80::1"))).unwrap();
    fib.add(Route { scope: Scope::UNIVERSE, ..Route::on_link(net("fd00::/64"), 1) }).unwrap();
    let no_carrier = LinkState { carrier: false, ..LinkState::default() };
    let answers = |fib: &Fib| {
        ["10.0.1.9", "10.0.2.9", "fd00::9"].map(|dst| fib.lookup(&key(dst)) != Decision::NoRoute)
    };
    fib.set_link(Instant::ZERO, 1, LinkState { ignore_linkdown: true, ..no_carrier });
    assert_eq!(answers(&fib), [false, false, true]);
    fib.set_link(Instant::ZERO, 1, LinkState { ignore_linkdown_v6: true, ..no_carrier });
    assert_eq!(answers(&fib), [true, true, false]);
}

/// `fib_table_insert()`: the route exists, though it is not the one that would be replaced.
#[test]
fn a_route_that_exists_further_back_replaces_no_other() {
    let mut fib = Fib::new();
    let route = |port| Route::on_link(net("10.0.0.0/8"), port);
    fib.add(route(1)).unwrap();
    fib.append(route(2)).unwrap();
    assert_eq!(fib.replace(route(2)), Err(FibError::Exists));
    assert_eq!(fib.change(route(2)), Err(FibError::Exists));
    assert_eq!(fib.replace(route(1)), Ok(()), "the first one by itself");
    assert_eq!(fib.replace(route(3)), Ok(()));
    assert_eq!(fib.routes(), [route(3), route(2)]);
}

/// `nexthop_is_blackhole()`.
#[test]
fn a_group_of_one_blackhole_is_a_blackhole() {
    let mut fib = Fib::new();
    let member = resilient::Member { id: 1, weight: 1 };
    fib.add_object(Instant::ZERO, 1, ObjectConfig::Blackhole).unwrap();
    fib.add_object(Instant::ZERO, 2, ObjectConfig::Group(vec![member])).unwrap();
    fib.add(Route::object(net("10.0.0.0/8"), 2)).unwrap();
    fib.add(Route::via(Prefix::DEFAULT_V4, 1, ip("10.0.1.1"))).unwrap();
    assert_eq!(fib.lookup(&key("10.0.0.1")), Decision::Blackhole);
}

/// As the kernel dumps them, whichever was used first.
#[test]
fn routes_are_listed_in_the_order_of_their_tables() {
    let mut fib = Fib::new();
    for table in [300, 254, 100, 255] {
        fib.add(Route::on_link(net("10.0.0.0/8"), 1).table(TableId(table))).unwrap();
    }
    let tables: Vec<u32> = fib.routes().iter().map(|route| route.table.0).collect();
    assert_eq!(tables, [300, 100, 254, 255], "300 is 44 modulo 256");
}

#[test]
fn an_ipv6_route_that_is_prepended_joins_its_equals_as_an_appended_one() {
    let mut fib = Fib::new();
    let route = |port| Route::via(net("fd00::/64"), port, ip("fe80::1"));
    fib.add(route(1)).unwrap();
    fib.prepend(route(2)).unwrap();
    let hops = [1, 2].map(|port| NextHop::new(port, Some(ip("fe80::1"))));
    let targets: Vec<Target> = fib.routes().into_iter().map(|route| route.target).collect();
    assert_eq!(targets, [Target::Hops(hops.to_vec())]);
}

/// `fib6_add_rt2node()`: routes with gateways and routes without are two groups.
#[test]
fn ipv6_routes_with_gateways_are_replaced_and_joined_past_one_without() {
    let mut fib = Fib::new();
    let via = |gateway| Route::via(net("fd00::/64"), 1, ip(gateway));
    let on_link = Route { metric: DEFAULT_METRIC_V6, ..Route::on_link(net("fd00::/64"), 1) };
    let targets = |fib: &Fib| fib.routes().into_iter().map(|it| it.target).collect::<Vec<_>>();
    fib.append(on_link.clone()).unwrap();
    fib.append(via("fe80::1")).unwrap();
    fib.replace(via("fe80::2")).unwrap();
    assert_eq!(targets(&fib), [on_link.target.clone(), via("fe80::2").target]);
    fib.append(via("fe80::3")).unwrap();
    let both = ["fe80::2", "fe80::3"].map(|gateway| NextHop::new(1, Some(ip(gateway))));
    assert_eq!(targets(&fib), [on_link.target.clone(), Target::Hops(both.to_vec())]);
}
