//! Installs the routes that a plan computed at each node.

use std::net::IpAddr;

use datapath::fib::hash::Policy;
use datapath::fib::{Hashed, LinkState, NextHop, Prefix, Route};
use datapath::host::Host;
use datapath::node::Port;
use datapath::units::Instant;
use sim::link::NodeId;
use sim::topology::Topology;

use crate::plan::{LinkPlan, Plan, Role, ShortestPaths, Weights};

/// A node's port, per end of a wire.
pub type LinkEnds = [(NodeId, Port); 2];

/// The routes that the plan found: one per destination, or per switch that has hosts where tables are
/// shared. A node with one link has a route to all by it anyway.
pub fn add(
    topology: &mut Topology,
    plan: &Plan,
    nodes: &[NodeId],
    ends: &[LinkEnds],
    addresses: &[IpAddr],
) {
    let hosts: Vec<usize> =
        (0..nodes.len()).filter(|&node| plan.nodes[node].role == Role::Host).collect();
    for (node, &id) in nodes.iter().enumerate() {
        if plan.paths.is_stub(node) && !plan.nodes[node].has_own_routes() {
            continue;
        }
        if plan.paths.shared(node).is_some() {
            topology.own_routes(id);
            for route in shared(plan, &plan.paths, node, id, ends, addresses) {
                topology.route(id, route);
            }
            continue;
        }
        for &target in &hosts {
            let links = plan.paths.links(node, target);
            if links.is_empty() {
                continue;
            }
            let ports = links.iter().filter_map(|&link| port_of(id, &ends[link]));
            let hops = ports.map(|port| NextHop::new(port.0, None)).collect();
            let features = plan.route_features.get(&(node, target)).copied().unwrap_or_default();
            let route = Route::new(Prefix::host(addresses[target]), hops)
                .algorithm(plan.nodes[node].mp_algo);
            topology.route(id, Route { features, ..route });
        }
    }
}

/// The routes of a node whose table is shared, in the order of their destinations.
pub fn shared(
    plan: &Plan,
    ways: &ShortestPaths,
    node: usize,
    id: NodeId,
    ends: &[LinkEnds],
    addresses: &[IpAddr],
) -> Vec<Route> {
    let weights = plan.fabric.as_ref().map_or(Weights::Equal, |fabric| fabric.weights);
    let mut routes = Vec::new();
    for (class, links) in ways.shared(node).into_iter().flatten() {
        let weights = hop_weights(plan, node, links, weights);
        let hops = links.iter().zip(weights).filter_map(|(&link, weight)| {
            port_of(id, &ends[link]).map(|port| NextHop::new(port.0, None).weight(weight))
        });
        let hops: Vec<NextHop> = hops.collect();
        routes
            .extend(prefixes(plan, ways, class, addresses).map(|prefix| {
                Route::new(prefix, hops.clone()).algorithm(plan.nodes[node].mp_algo)
            }));
    }
    routes
}

/// The port of a node at one of the ends of a link.
fn port_of(id: NodeId, ends: &LinkEnds) -> Option<Port> {
    ends.iter().find(|(owner, _)| *owner == id).map(|(_, port)| *port)
}

/// The prefixes of the hosts of a class: the block of their switch, or one for each host.
fn prefixes<'a>(
    plan: &'a Plan,
    ways: &'a ShortestPaths,
    class: usize,
    addresses: &'a [IpAddr],
) -> impl Iterator<Item = Prefix> + 'a {
    let root = ways.classes().root(class);
    let block = plan.fabric.as_ref().and_then(|fabric| fabric.blocks.get(&root)).copied();
    let outside = ways.classes().members(class).iter().map(|&host| addresses[host as usize]);
    let outside =
        outside.filter(move |address| block.is_none_or(|block| !block.contains(*address)));
    block.into_iter().chain(outside.map(Prefix::host))
}

/// How much each of several links gets. Linux keeps a weight in 8 bits.
fn hop_weights(plan: &Plan, node: usize, links: &[usize], weights: Weights) -> Vec<u16> {
    const MOST: u64 = 256;
    let rate = |link: &usize| {
        let LinkPlan { ends, directions, .. } = &plan.links[*link];
        let direction = &directions[usize::from(ends[1] == node)];
        direction.rate.map_or(1, |rate| rate.bits_per_sec().max(1))
    };
    if weights == Weights::Equal || links.len() < 2 {
        return vec![1; links.len()];
    }
    let rates: Vec<u64> = links.iter().map(rate).collect();
    let divisor = rates.iter().copied().fold(0, gcd);
    let most = rates.iter().copied().max().unwrap_or(1) / divisor;
    let weight = |rate: u64| {
        let exact = rate / divisor;
        let scaled =
            if most <= MOST { exact } else { (exact as u128 * MOST as u128 / most as u128) as u64 };
        scaled.max(1) as u16
    };
    rates.into_iter().map(weight).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A switch of a topology: it hashes as configured, and ignores links without a carrier.
pub fn make_switch(host: &mut Host, policy: Policy) {
    let fib = host.fib();
    let settings = fib.settings().both(Hashed::by(policy));
    let links: Vec<LinkState> = (0..host.port_count()).map(|port| fib.link(port as u16)).collect();
    host.fib_mut().set_settings(settings);
    for (port, link) in (0..).zip(links) {
        let link = LinkState { ignore_linkdown: true, ignore_linkdown_v6: true, ..link };
        host.fib_mut().set_link(Instant::ZERO, port, link);
    }
}
