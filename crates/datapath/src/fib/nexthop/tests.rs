//! Objects that change, go and come while groups and routes use them.

use super::*;
use crate::fib::{Fib, HashInput, Prefix, Route, RouteFilter, RouteKey};
use crate::units::Duration;
use core::net::IpAddr;

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn resilient(members: &[(u32, u16)], idle: u64, unbalanced: u64) -> ObjectConfig {
    let member = |&(id, weight)| Member { id, weight };
    let config = ResilientConfig {
        buckets: 4,
        idle_timer: Duration::from_secs(idle),
        unbalanced_timer: Duration::from_secs(unbalanced),
    };
    ObjectConfig::Resilient(members.iter().map(member).collect(), config)
}

/// Hops 1 to 3 over ports of these numbers.
fn hops() -> Fib {
    let mut fib = Fib::new();
    for id in 1..=3 {
        let hop = ObjectConfig::Hop(NextHop::new(id as u16, None));
        fib.add_object(at(0), id, hop).unwrap();
    }
    fib
}

fn owners(fib: &Fib, now: Instant, id: u32) -> Vec<u32> {
    fib.buckets(now, id).unwrap().map(|bucket| bucket.id).collect()
}

/// `fib_select_path()` asks whether there are several, `fib6_select_path()` whether it is a group; seen
/// on a 6.18 kernel.
#[test]
fn ipv6_uses_the_bucket_of_a_group_of_one_and_ipv4_does_not() {
    for (prefix, dst, idle) in [("10.0.0.0/8", "10.0.0.1", 5), ("fd00::/8", "fd00::1", 1)] {
        let mut fib = hops();
        fib.add_object(at(0), 9, resilient(&[(1, 1)], 3, 0)).unwrap();
        fib.add(Route::object(prefix.parse::<Prefix>().unwrap(), 9)).unwrap();
        let key = RouteKey::to(dst.parse().unwrap());
        fib.forward(at(4), &key, || HashInput::from(&key));
        let used = fib.buckets(at(5), 9).unwrap().map(|bucket| bucket.idle_time).min();
        assert_eq!(used, Some(Duration::from_secs(idle)), "{prefix}");
    }
}

/// `replace_nexthop_grp()`: nothing moves by the old shares with the new timers.
#[test]
fn timers_and_members_change_together() {
    let mut fib = hops();
    fib.add_object(at(0), 9, resilient(&[(1, 1), (2, 1)], 60, 0)).unwrap();
    let before = owners(&fib, at(0), 9);
    fib.add(Route::object("10.0.0.0/8".parse().unwrap(), 9)).unwrap();
    for host in 0..200 {
        let src = core::net::Ipv4Addr::from_bits(0x0a01_0000 + host).into();
        let key = RouteKey { src, ..RouteKey::to("10.0.0.1".parse().unwrap()) };
        fib.forward(at(1), &key, || HashInput::from(&key));
    }
    fib.replace_object(at(2), 9, resilient(&[(1, 3), (2, 1)], 60, 0)).unwrap();
    fib.replace_object(at(9), 9, resilient(&[(1, 1), (2, 1)], 60, 3)).unwrap();
    assert_eq!(owners(&fib, at(9), 9), before, "in balance again before it was forced");
}

/// `nh_group_remove()`, where no member that is left serves.
#[test]
fn buckets_of_a_deleted_hop_lead_nowhere_until_another_serves() {
    let mut fib = hops();
    fib.add_object(at(0), 9, resilient(&[(1, 9), (2, 1)], 60, 0)).unwrap();
    fib.set_link(at(1), 2, crate::fib::LinkState { up: false, ..Default::default() });
    fib.delete_object(at(2), 1).unwrap();
    assert_eq!(owners(&fib, at(2), 9), [0; 4]);
    fib.set_link(at(3), 2, crate::fib::LinkState::default());
    assert_eq!(owners(&fib, at(3), 9), [2; 4]);
}

/// As a 6.18 kernel was seen to do: IPv4 routes may use objects of either family, those of IPv6 only
/// their own; an object that was given no family serves both.
#[test]
fn ipv6_routes_use_no_object_of_ipv4() {
    let mut fib = Fib::new();
    let hop = |gateway: &str| ObjectConfig::Hop(NextHop::new(1, gateway.parse().ok()));
    let group = |members: [u32; 2]| {
        ObjectConfig::Group(members.map(|id| Member { id, weight: 1 }).to_vec())
    };
    for (id, config, v6) in [
        (1, hop("10.0.0.2"), None),
        (2, hop("fd00::2"), None),
        (3, hop(""), Some(false)),
        (4, hop(""), Some(true)),
        (5, ObjectConfig::Blackhole, Some(false)),
        (6, ObjectConfig::Blackhole, Some(true)),
        (7, group([1, 2]), None),
        (8, group([2, 4]), None),
        (9, ObjectConfig::Blackhole, None),
    ] {
        fib.add_object_of(at(0), id, config, v6).unwrap();
    }
    let refused = Err(FibError::Ipv4ObjectInIpv6);
    for id in 1..=9 {
        let v4 = Prefix::host(IpAddr::from([10, 0, 0, id as u8]));
        fib.add(Route::object(v4, id)).unwrap();
        let v6 = Prefix::host(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, id as u16]));
        let expected = if [1, 3, 5, 7].contains(&id) { refused } else { Ok(()) };
        assert_eq!(fib.add(Route::object(v6, id)), expected, "{id}");
    }
    for (id, config, v6) in [
        (2, hop("10.0.0.2"), None),
        (4, hop(""), Some(false)),
        (6, ObjectConfig::Blackhole, Some(false)),
        (8, group([1, 2]), None),
    ] {
        assert_eq!(fib.replace_object_of(at(1), id, config, v6), refused, "{id}");
    }
    fib.delete(&RouteFilter::any(Prefix::host("fd00::2".parse().unwrap()))).unwrap();
    assert_eq!(fib.replace_object(at(1), 2, hop("10.0.0.2")), refused, "used by group 8");
    fib.replace_object_of(at(1), 4, hop(""), Some(true)).unwrap();
}

#[test]
fn a_member_of_several_does_not_become_a_blackhole() {
    let mut fib = hops();
    fib.add_object(at(0), 9, resilient(&[(1, 1), (2, 1)], 60, 0)).unwrap();
    let refused = fib.replace_object(at(1), 1, ObjectConfig::Blackhole);
    assert_eq!(refused, Err(FibError::BlackholeReplacesMember));
    fib.delete_object(at(1), 2).unwrap();
    fib.replace_object(at(1), 1, ObjectConfig::Blackhole).unwrap();
}
