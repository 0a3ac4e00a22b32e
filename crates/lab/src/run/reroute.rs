//! Rerouting: the switches of a topology learn of a failed link and use other paths, as with a routing
//! protocol: all at once, some time after the failure.

use std::net::IpAddr;

use datapath::fib::{Prefix, Route, RouteFilter};
use sim::link::NodeId;
use sim::world::World;
use std::collections::BTreeMap;

use super::routes;
use super::routes::LinkEnds;
use crate::plan::{Plan, ShortestPaths};

/// What is needed to compute the paths again.
pub struct Reroute {
    plan: Plan,
    ends: Vec<LinkEnds>,
    addresses: Vec<IpAddr>,
    /// The present paths.
    ways: ShortestPaths,
}

impl Reroute {
    /// For a plan whose links fail and whose switches are to reroute.
    pub fn new(plan: &Plan, ends: &[LinkEnds], addresses: &[IpAddr]) -> Option<Self> {
        plan.fabric.as_ref()?.converge?;
        let fails = plan.links.iter().any(|link| !link.events.is_empty());
        fails.then(|| Self {
            plan: plan.clone(),
            ends: ends.to_vec(),
            addresses: addresses.to_vec(),
            ways: plan.paths.clone(),
        })
    }

    /// Gives all switches the routes of a network in which these links lead nowhere.
    ///
    /// # Errors
    /// A node refuses a route.
    pub fn run(&mut self, world: &mut World, down: &[bool]) -> Result<(), String> {
        let ways = ShortestPaths::without(&self.plan.nodes, &self.plan.links, down);
        for node in 0..self.plan.nodes.len() {
            if self.plan.paths.shared(node).is_none() {
                continue;
            }
            let id = NodeId(node as u32);
            let of = |ways| -> BTreeMap<Prefix, Route> {
                let routes =
                    routes::shared(&self.plan, ways, node, id, &self.ends, &self.addresses);
                routes.into_iter().map(|route| (route.prefix, route)).collect()
            };
            let (old, new) = (of(&self.ways), of(&ways));
            if old == new {
                continue;
            }
            world
                .with_host(id, |_, host| {
                    for prefix in old.keys().filter(|prefix| !new.contains_key(prefix)) {
                        host.fib_mut().delete(&RouteFilter::any(*prefix))?;
                    }
                    for (prefix, route) in &new {
                        if old.get(prefix) != Some(route) {
                            host.fib_mut().replace(route.clone())?;
                        }
                    }
                    Ok(())
                })
                .map_err(|error: datapath::fib::FibError| {
                    format!("\"{}\" refuses a route: {error:?}", self.plan.nodes[node].name)
                })?;
        }
        self.ways = ways;
        Ok(())
    }
}
