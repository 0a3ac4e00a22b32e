mod objects;
mod rules;

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
        scope: Scope::UNIVERSE,
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

/// Routes that lead further than the key's scope are passed over, also where they are the longest (`fib_table_lookup`).
/// IPv6 has no scopes.
#[test]
fn a_scope_keeps_to_the_link() {
    let mut fib = Fib::new();
    for (prefix, gateway) in [("10.1.0.0/16", "10.9.0.1"), ("fd01::/64", "fd09::1")] {
        fib.append(Route::via(net(prefix), 2, ip(gateway))).unwrap();
    }
    let far = Route { scope: Scope::UNIVERSE, ..Route::on_link(net("10.2.0.0/16"), 3) };
    fib.append(far).unwrap();
    fib.append(Route::local(ip("10.1.0.9"), 1)).unwrap();
    let ask = |fib: &Fib, dst| fib.lookup(&RouteKey { scope: Scope::LINK, ..key(dst) });
    for dst in ["10.1.0.1", "10.2.0.1"] {
        assert_eq!(ask(&fib, dst), Decision::NoRoute, "{dst}");
    }
    assert_eq!(ask(&fib, "10.1.0.9"), Decision::Local);
    assert_eq!(ask(&fib, "fd01::1"), to(2, "fd09::1"));
    fib.append(Route::on_link(net("10.0.0.0/8"), 4)).unwrap();
    let on_link = Decision::Forward(Hop { port: 4, gateway: None });
    for dst in ["10.1.0.1", "10.2.0.1"] {
        assert_eq!(ask(&fib, dst), on_link, "{dst}");
        assert_ne!(fib.lookup(&key(dst)), on_link, "{dst}");
    }
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
fn a_hop_without_carrier_is_used_unless_linkdown_routes_are_ignored() {
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
    fib.set_settings(Settings { prefers_source: false, ..Settings::default() });
    assert!(some.contains(&on_one(&fib, 0xc612_0000, "10.0.1.1")), "before Linux 6.16");
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
