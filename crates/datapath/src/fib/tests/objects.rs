//! Routes over next-hop objects and groups.

use super::*;

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
