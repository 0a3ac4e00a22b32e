//! Shortest paths by what links cost, all of the equal ones, for networks with loops.
//!
//! A switch knows one way to all hosts behind another switch, and not one to each host: its table
//! grows with the switches that have hosts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::network::{LinkPlan, NodePlan, Role};

/// Destinations that all other nodes reach in the same way: the hosts with one link of a switch, or
/// a host of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Of each node; [`NONE`] of routers, which are no destinations.
    of: Vec<u32>,
    /// The switch, or the host itself.
    roots: Vec<usize>,
    /// The hosts of each class.
    members: Vec<Vec<u32>>,
    /// Of each node its only link, if it has one.
    only_link: Vec<u32>,
}

/// There is none.
pub const NONE: u32 = u32::MAX;

impl Classes {
    /// Those of a network whose links are `adjacent`: for each node (link, far end).
    pub fn new(nodes: &[NodePlan], adjacent: &[Vec<(usize, usize)>]) -> Self {
        let mut of_root = vec![NONE; nodes.len()];
        let mut classes = Self { of: vec![NONE; nodes.len()], ..Self::default() };
        for (node, plan) in nodes.iter().enumerate() {
            let only = match adjacent[node].as_slice() {
                &[(link, far)] => Some((link, far)),
                _ => None,
            };
            classes.only_link.push(only.map_or(NONE, |(link, _)| link as u32));
            if plan.role == Role::Router {
                continue;
            }
            let root = match only {
                Some((_, far)) if nodes[far].role == Role::Router => far,
                _ => node,
            };
            if of_root[root] == NONE {
                of_root[root] = classes.roots.len() as u32;
                classes.roots.push(root);
                classes.members.push(Vec::new());
            }
            classes.of[node] = of_root[root];
            classes.members[of_root[root] as usize].push(node as u32);
        }
        classes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// The switch, or the host itself.
    pub fn root(&self, class: usize) -> usize {
        self.roots[class]
    }

    /// The hosts of a class, in their order.
    pub fn members(&self, class: usize) -> &[u32] {
        &self.members[class]
    }

    /// That of a host.
    pub fn of(&self, node: usize) -> Option<usize> {
        Some(self.of[node]).filter(|class| *class != NONE).map(|class| class as usize)
    }

    /// The only link of a node that has one.
    pub fn only_link(&self, node: usize) -> u32 {
        self.only_link[node]
    }
}

/// For each node the set of links to each class, as an index of `sets`, whose first ones are the
/// links, each alone. `down` links lead nowhere; an empty list is none. Nodes that are not `wanted`
/// get no row.
pub fn rows(
    nodes: &[NodePlan],
    links: &[LinkPlan],
    adjacent: &[Vec<(usize, usize)>],
    classes: &Classes,
    down: &[bool],
    wanted: impl Fn(usize) -> bool,
    sets: &mut Vec<Vec<usize>>,
) -> Vec<Vec<u32>> {
    let is_down = |link: usize| down.get(link).is_some_and(|down| *down);
    let mut known: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
    let mut rows: Vec<Vec<u32>> = (0..nodes.len())
        .map(|node| if wanted(node) { vec![NONE; classes.len()] } else { Vec::new() })
        .collect();
    let mut distance = vec![u64::MAX; nodes.len()];
    let mut order: Vec<usize> = Vec::new();
    for (class, &root) in classes.roots.iter().enumerate() {
        order.drain(..).for_each(|node| distance[node] = u64::MAX);
        let steps = |node: usize| {
            // Hosts do not forward.
            let forwards = node == root || nodes[node].role == Role::Router;
            let open = adjacent[node].iter().filter(move |(link, _)| forwards && !is_down(*link));
            open.map(|&(link, far)| (links[link].cost, far))
        };
        measure(root, steps, &mut distance, &mut order);
        for &node in order.iter().filter(|&&node| node != root && wanted(node)) {
            let leads = |&&(link, far): &&(usize, usize)| {
                !is_down(link)
                    && distance[far] != u64::MAX
                    && distance[far] + links[link].cost == distance[node]
                    && (far == root || nodes[far].role == Role::Router)
            };
            let ways: Vec<usize> =
                adjacent[node].iter().filter(leads).map(|(link, _)| *link).collect();
            rows[node][class] = match ways.as_slice() {
                [] => NONE,
                [link] => *link as u32,
                _ => *known.entry(ways).or_insert_with_key(|ways| {
                    sets.push(ways.clone());
                    sets.len() as u32 - 1
                }),
            };
        }
    }
    rows
}

/// How far everything is from `root`, and what was reached, nearest first (Dijkstra). `steps` tells what
/// a node leads to, and for how much.
fn measure<S: Iterator<Item = (u64, usize)>>(
    root: usize,
    steps: impl Fn(usize) -> S,
    distance: &mut [u64],
    order: &mut Vec<usize>,
) {
    distance[root] = 0;
    // Of equals what was found first comes first.
    let mut found = 0_u64;
    let mut next = BinaryHeap::from([Reverse((0, found, root))]);
    while let Some(Reverse((so_far, _, node))) = next.pop() {
        if so_far > distance[node] {
            continue;
        }
        order.push(node);
        for (cost, far) in steps(node) {
            if so_far + cost < distance[far] {
                distance[far] = so_far + cost;
                found += 1;
                next.push(Reverse((distance[far], found, far)));
            }
        }
    }
}
