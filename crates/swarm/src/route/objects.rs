//! The next hops and objects behind a route's target.

use datapath::fib::nexthop::ObjectConfig;
use datapath::fib::{Fib, NextHop, Target};

/// The next hops that a target leads to; those of a group with their weights in it.
pub fn hops(fib: &Fib, target: &Target) -> Vec<NextHop> {
    let single = |id: u32| match fib.objects().get(id).map(|object| object.config().clone()) {
        Some(ObjectConfig::Hop(hop)) => Some(hop),
        _ => None,
    };
    match target {
        Target::Hops(hops) => hops.clone(),
        Target::Object(id) => match fib.objects().get(*id).map(|object| object.config().clone()) {
            Some(ObjectConfig::Hop(hop)) => vec![hop],
            Some(ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _)) => members
                .iter()
                .filter_map(|member| Some(single(member.id)?.weight(member.weight)))
                .collect(),
            _ => Vec::new(),
        },
    }
}

/// `nexthop_is_blackhole`: a blackhole, or a group of nothing else.
pub fn blackhole(fib: &Fib, target: &Target) -> bool {
    let Target::Object(id) = target else { return false };
    match fib.objects().get(*id).map(|object| object.config().clone()) {
        Some(ObjectConfig::Blackhole) => true,
        Some(ObjectConfig::Group(members) | ObjectConfig::Resilient(members, _)) => {
            members.len() == 1 && blackhole(fib, &Target::Object(members[0].id))
        }
        _ => false,
    }
}

/// Whether it is a group with buckets.
pub fn is_resilient(fib: &Fib, target: &Target) -> bool {
    let Target::Object(id) = target else { return false };
    let object = fib.objects().get(*id);
    object.is_some_and(|object| matches!(object.config(), ObjectConfig::Resilient(..)))
}
