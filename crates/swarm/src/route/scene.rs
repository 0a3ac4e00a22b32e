//! A resilient group of several members that is used, changed and used again: random steps alone seldom produce one
//! whose members are all in service.

use super::steps::{Hop, LookupBatch, ObjectCase, RouteCase, Step, Verb};
use super::values::any_port;
use crate::draw::Draw;

const GROUP: u32 = 8;

/// Now and then what makes such a group and what happens to it; nothing else.
pub fn group_under_change(ports: u8, draw: &mut Draw) -> Vec<Step> {
    if !draw.percent(8) {
        return Vec::new();
    }
    let count = draw.range(3..=6) as u32;
    let mut steps: Vec<Step> = (1..=count).map(|id| single(id, ports, draw)).collect();
    let buckets = *draw.one_of(&[8, 31, 128]);
    steps.push(group(false, count, buckets, draw));
    steps.push(Step::Route(Verb::Add, route()));
    for _ in 0..draw.range(2..=12) {
        steps.push(match draw.range(0..=9) {
            0..=2 => group(true, count, buckets, draw),
            3 => Step::DeleteObject(draw.range(1..=u64::from(count)) as u32),
            4 => Step::Link {
                port: any_port(ports, draw),
                up: draw.percent(60),
                carrier: true,
                ignore: [false; 2],
            },
            5..=6 => Step::Wait(draw.log_range(1..=20_000) as u32),
            _ => Step::Ask(LookupBatch { seed: draw.bits(), count: draw.range(1..=60) as u32 }),
        });
    }
    steps
}

fn single(id: u32, ports: u8, draw: &mut Draw) -> Step {
    let hop = Hop { port: any_port(ports, draw), gateway: None, weight: 1 };
    Step::Object { replace: false, id, config: ObjectCase::Single(hop) }
}

/// Most of the members, with weights of their own.
fn group(replace: bool, count: u32, buckets: u16, draw: &mut Draw) -> Step {
    let mut members: Vec<(u32, u16)> = (1..=count)
        .filter_map(|id| draw.maybe(80, |draw| (id, *draw.one_of(&[1, 1, 2, 10]))))
        .collect();
    if members.is_empty() {
        members.push((1, 1));
    }
    let (idle, unbalanced) = (draw.range(0..=10) as u16, draw.range(0..=20) as u16);
    let resilient = Some((buckets, idle, unbalanced));
    Step::Object { replace, id: GROUP, config: ObjectCase::Group { members, resilient } }
}

fn route() -> RouteCase {
    RouteCase {
        addr: [10, 0, 0, 0].into(),
        len: 8,
        table: 254,
        tos: 0,
        metric: None,
        refusal: None,
        hops: Vec::new(),
        nexthop: false,
        object: Some(GROUP),
        algorithm: None,
        more: String::new(),
    }
}
