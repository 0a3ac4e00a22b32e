//! `[topology]` as it is written.

use super::*;
use crate::plan::network::Role;

fn experiment(topology: &str) -> String {
    format!(
        "schema = 1\nname = \"net\"\nduration = \"1s\"\n[topology]\nrate = \"1gbit\"\n\
         delay = \"5us\"\n{topology}\n"
    )
}

fn plan_of(topology: &str, from: &str, to: &str) -> Plan {
    let flow = format!("[flows.one]\napp = \"bulk\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
    let text = experiment(&format!("{topology}\n{flow}"));
    Experiment::parse("net.toml", &text, &[]).unwrap_or_else(|faults| panic!("{faults}")).base
}

fn node(plan: &Plan, name: &str) -> usize {
    plan.nodes.iter().position(|node| node.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The names of the links from one node towards another.
fn ways(plan: &Plan, from: &str, to: &str) -> Vec<String> {
    let links = plan.paths.links(node(plan, from), node(plan, to));
    links.iter().map(|link| plan.links[*link].name.clone()).collect()
}

/// Kind, two hosts; then hosts, switches, links, and how many ways of how many links join the two.
#[test]
fn each_kind_has_its_numbers() {
    let table = [
        ("kind = \"dumbbell\"\nhosts = 3", "left-1", "right-3", (6, 2, 7), (1, 3)),
        ("kind = \"parking-lot\"\nhops = 3", "host-1-1", "host-4-2", (8, 4, 11), (1, 5)),
        ("kind = \"star\"\nhosts = 9", "host-1", "host-9", (9, 1, 9), (1, 2)),
        (
            "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts = 4",
            "host-1-1",
            "host-3-4",
            (12, 5, 18),
            (2, 4),
        ),
        ("kind = \"fat-tree\"\nk = 4", "host-1-1-1", "host-4-2-2", (16, 20, 48), (4, 6)),
        ("kind = \"fat-tree\"\nk = 4", "host-1-1-1", "host-1-2-2", (16, 20, 48), (2, 4)),
        (
            "kind = \"random-regular\"\nswitches = 6\ndegree = 5\nhosts = 2",
            "host-1-1",
            "host-6-2",
            (12, 6, 27),
            (1, 3),
        ),
    ];
    for (topology, from, to, numbers, expected) in table {
        let plan = plan_of(topology, from, to);
        let hosts = plan.nodes.iter().filter(|node| node.role == Role::Host).count();
        let found = (hosts, plan.nodes.len() - hosts, plan.links.len());
        assert_eq!(found, numbers, "{topology}");
        assert_eq!(paths(&plan, node(&plan, from), node(&plan, to)), expected, "{topology}");
    }
}

/// How many ways lead from one node to another, all of so many links.
fn paths(plan: &Plan, from: usize, to: usize) -> (usize, usize) {
    if from == to {
        return (1, 0);
    }
    let behind = plan.paths.links(from, to).iter().map(|link| {
        let [a, b] = plan.links[*link].ends;
        paths(plan, if a == from { b } else { a }, to)
    });
    behind.fold((0, 0), |(count, _), (more, length)| (count + more, length + 1))
}

/// What the ways from one node to another cost: one sum for all of them.
fn cost(plan: &Plan, from: usize, to: usize) -> u64 {
    if from == to {
        return 0;
    }
    let behind = plan.paths.links(from, to).iter().map(|link| {
        let [a, b] = plan.links[*link].ends;
        plan.links[*link].cost + cost(plan, if a == from { b } else { a }, to)
    });
    let sums: Vec<u64> = behind.collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    sums[0]
}

/// Of every pair of hosts: what its ways cost is what Floyd and Warshall say.
#[test]
fn ways_are_shortest() {
    const COSTS: &str = "[topology.links]\n\"switch-1-switch-*\" = { cost = 0.5 }\n\
                         \"switch-2-switch-*\" = { cost = 2.5 }\n\"switch-*-switch-12\" = { cost = 3 }";
    for (seed, costs) in (1..6).flat_map(|seed| [(seed, ""), (seed, COSTS)]) {
        let topology = format!(
            "kind = \"random-regular\"\nswitches = 12\ndegree = 3\nhosts = 2\nseed = {seed}\n{costs}"
        );
        let plan = plan_of(&topology, "host-1-1", "host-2-1");
        let count = plan.nodes.len();
        let mut distance = vec![vec![u64::MAX / 4; count]; count];
        for (node, row) in distance.iter_mut().enumerate() {
            row[node] = 0;
        }
        for link in &plan.links {
            let [a, b] = link.ends;
            distance[a][b] = link.cost;
            distance[b][a] = link.cost;
        }
        for by in 0..count {
            for a in 0..count {
                for b in 0..count {
                    distance[a][b] = distance[a][b].min(distance[a][by] + distance[by][b]);
                }
            }
        }
        let hosts = || (0..count).filter(|it| plan.nodes[*it].role == Role::Host);
        for (from, to) in hosts().flat_map(|from| hosts().map(move |to| (from, to))) {
            assert_eq!(cost(&plan, from, to), distance[from][to], "{from} {to}");
        }
    }
}

/// All a person would write: names, patterns with several `*`, and what single ones differ in.
#[test]
fn nodes_and_links_are_addressed_by_name() {
    let plan = plan_of(
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nhosts = 6\noversubscription = 4\n\
         weights = \"rate\"\n[topology.nodes]\n\"leaf-*\" = { buffer = \"1mb\" }\n\
         [topology.links]\n\"leaf-*-spine-3\" = { rate = \"2gbit\", events = [\"1ms down\"] }\n\
         [qdisc]\n\"leaf-*.leaf-*-spine-*\" = \"pfifo limit 9\"",
        "host-1-1",
        "host-2-6",
    );
    assert_eq!(
        ways(&plan, "leaf-1", "host-2-3"),
        ["leaf-1-spine-1", "leaf-1-spine-2", "leaf-1-spine-3"]
    );
    assert_eq!(ways(&plan, "spine-2", "host-1-3"), ["leaf-1-spine-2"]);
    assert_eq!(ways(&plan, "leaf-2", "host-2-3"), ["host-2-3"]);
    let link = |name: &str| plan.links.iter().find(|link| link.name == name).unwrap();
    let rate = |name| link(name).directions[0].rate.unwrap().bits_per_sec();
    assert_eq!((rate("leaf-1-spine-1"), rate("leaf-1-spine-3")), (500_000_000, 2_000_000_000));
    assert_eq!(link("leaf-2-spine-3").events.len(), 1);
    assert_eq!(plan.measure.queues.len(), 6, "the uplinks of both leaves");
    assert!(plan.nodes[node(&plan, "leaf-2")].buffer.is_some());
    assert!(plan.nodes[node(&plan, "spine-2")].buffer.is_none());
}

/// Tables grow with the switches that have hosts, and not with the hosts.
#[test]
fn a_switch_has_one_route_to_all_hosts_behind_another() {
    let plan = plan_of("kind = \"fat-tree\"\nk = 8", "host-1-1-1", "host-8-4-4");
    assert_eq!(plan.paths.classes().len(), 32);
    let edge = node(&plan, "edge-1-1");
    assert_eq!(plan.paths.shared(edge).unwrap().count(), 31);
    let fabric = plan.fabric.as_ref().unwrap();
    assert_eq!(fabric.blocks.len(), 32);
    assert_eq!(fabric.blocks[&edge].to_string(), "10.64.0.0/29");
    let plan = plan_of("kind = \"fat-tree\"\nk = 8\nip_version = 6", "host-1-1-1", "host-8-4-4");
    let blocks = &plan.fabric.as_ref().unwrap().blocks;
    assert_eq!(blocks[&edge].to_string(), "fd00:40::/125");
    assert_eq!(blocks[&node(&plan, "edge-8-4")].to_string(), "fd00:40::f8/125");
}

#[test]
fn impossible_values_are_reported_with_their_position() {
    let table = [
        ("hosts = 2", "\"kind\" is missing", (4, 1)),
        ("kind = \"fat-treee\"\nk = 4", "not a valid kind; did you mean \"fat-tree\"?", (7, 8)),
        ("kind = \"fat-tree\"\nk = 5", "\"k\" must be even", (8, 5)),
        ("kind = \"fat-tree\"\nk = 400", "at most 65535 nodes", (4, 1)),
        ("kind = \"star\"\nhosts = 65535", "at most 65535 nodes", (4, 1)),
        ("kind = \"star\"", "\"hosts\" is missing", (4, 1)),
        ("kind = \"star\"\nhosts = 2\nspines = 3", "unknown key \"spines\"", (9, 1)),
        ("kind = \"random-regular\"\nswitches = 5\ndegree = 3\nhosts = 1", "half a link", (9, 10)),
        (
            "kind = \"random-regular\"\nswitches = 5\ndegree = 5\nhosts = 1",
            "at most 4 others",
            (9, 10),
        ),
        (
            "kind = \"random-regular\"\nswitches = 4\ndegree = 1\nhosts = 1",
            "a connected graph",
            (9, 10),
        ),
        (
            "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts = 2\nfabric_rate = \"1gbit\"\noversubscription = 2",
            "mutually exclusive",
            (12, 20),
        ),
        (
            "kind = \"star\"\nhosts = 2\n[topology.links]\nleaf = {}",
            "no link of the topology",
            (10, 1),
        ),
        (
            "kind = \"star\"\nhosts = 2\n[topology.nodes]\nswich = {}",
            "did you mean \"switch\"?",
            (10, 1),
        ),
        ("kind = \"star\"\nhosts = 2\n[nodes.switch]", "another node is called \"switch\"", (4, 1)),
        ("kind = \"graph\"\nfile = \"no-such-file\"", "no-such-file", (8, 8)),
        ("kind = \"star\"\nhosts = 2\nip_version = 5", "\"ip_version\" is 4 or 6", (9, 14)),
        (
            "kind = \"star\"\nhosts = 2\n[topology.links]\n\"host-*\" = { cost = 0 }",
            "\"cost\" must be a number from 0.000001 to 1000000",
            (10, 21),
        ),
    ];
    for (topology, what, position) in table {
        let faults = Experiment::parse("net.toml", &experiment(topology), &[]).unwrap_err();
        let found = faults.0.iter().find(|fault| fault.to_string().contains(what));
        let found = found.unwrap_or_else(|| panic!("{topology}: {faults}"));
        assert_eq!(found.position, Some(position), "{topology}: {faults}");
    }
}
