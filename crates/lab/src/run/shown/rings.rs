//! The next hops of routes that have several, and the flows that choose among them: before and after each change, and at
//! the end.
//!
//! Connections are followed from node to node like their packets, by look-ups without side effects.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use datapath::fib::multipath::Path;
use datapath::fib::nexthop::{Object, ObjectConfig};
use datapath::fib::{Decision, Explanation, Fib, Hop, RouteKey, Target};
use datapath::node::Port;
use datapath::packet::protocol;
use datapath::units::Instant;
use serde_json::{Value as Json, json};
use sim::link::NodeId;
use sim::world::World;

use crate::plan::Plan;
use crate::run::apps;
use crate::run::build::BuiltWorld;

/// Changes that are shown at most.
const CHANGES_MAX: usize = 64;
/// Connections that are followed at most.
const CONNECTIONS_MAX: usize = 1_000;
/// Nodes on a way at most.
const WAY_MAX: usize = 64;

/// What was seen.
pub struct Rings {
    /// Where each port leads.
    far: HashMap<(NodeId, u16), (NodeId, u16)>,
    changes: Vec<(Instant, RingsByRoute, RingsByRoute)>,
    before: Option<RingsByRoute>,
}

/// Everything at one time: by node and route.
type RingsByRoute = BTreeMap<(u32, String), Ring>;

#[derive(Debug, Default)]
struct Ring {
    kind: &'static str,
    hops: Vec<Json>,
    buckets: Option<Vec<i64>>,
    flows: Vec<Json>,
}

impl Rings {
    /// Nothing seen yet.
    pub fn new(built: &BuiltWorld) -> Self {
        let mut far = HashMap::new();
        for &[a, b] in &built.ends {
            for ((node, port), (other, its)) in [(a, b), (b, a)] {
                far.insert((node, port.0), (other, its.0));
            }
        }
        Self { far, changes: Vec::new(), before: None }
    }

    /// Something is about to change, if it is time for it.
    pub fn before(&mut self, plan: &Plan, built: &BuiltWorld) {
        let due = built.changes.next_at().is_some_and(|at| at <= built.world.now());
        if due && self.changes.len() < CHANGES_MAX {
            self.before = Some(self.read_rings(plan, &built.world));
        }
    }

    /// It has changed.
    pub fn after(&mut self, plan: &Plan, built: &BuiltWorld) {
        if let Some(before) = self.before.take() {
            let after = self.read_rings(plan, &built.world);
            self.changes.push((built.world.now(), before, after));
        }
    }

    /// All of it, with how it stands at the end; `None` where no flow had a choice.
    pub fn finish(self, plan: &Plan, built: &BuiltWorld) -> Option<Json> {
        let end = self.read_rings(plan, &built.world);
        let mut names: Vec<&(u32, String)> = end.keys().collect();
        names.extend(
            self.changes.iter().flat_map(|(_, before, after)| before.keys().chain(after.keys())),
        );
        names.sort();
        names.dedup();
        let rings: Vec<Json> = names
            .into_iter()
            .map(|name| {
                let (node, route) = name;
                let node = NodeId(*node);
                let known = |seen: &RingsByRoute| seen.get(name).map_or(Json::Null, Ring::to_json);
                let all = self.changes.iter().flat_map(|(_, before, after)| [before, after]);
                let kind = all.chain([&end]).find_map(|seen| Some(seen.get(name)?.kind));
                let changes: Vec<Json> = self
                    .changes
                    .iter()
                    .filter(|(_, before, after)| before.contains_key(name) || after.contains_key(name))
                    .map(|(at, before, after)| {
                        json!({"time": seconds(*at), "before": known(before), "after": known(after)})
                    })
                    .collect();
                json!({
                    "node": plan.nodes[node.0 as usize].name, "route": route, "kind": kind,
                    "ports": ports(plan, built, node), "changes": changes, "end": known(&end),
                    "end_time": seconds(built.world.now()),
                })
            })
            .collect();
        (!rings.is_empty()).then(|| json!({"rings": rings}))
    }

    fn read_rings(&self, plan: &Plan, world: &World) -> RingsByRoute {
        let mut seen = RingsByRoute::new();
        let mut left = CONNECTIONS_MAX;
        for (index, node) in plan.nodes.iter().enumerate() {
            let id = NodeId(index as u32);
            if node.role != crate::plan::Role::Host {
                continue;
            }
            for tcp in world.host(id).tcp_connections() {
                let (local, remote) = (tcp.local(), tcp.remote());
                let Some(name) = flow_name(plan, local, remote) else { continue };
                if left == 0 {
                    return seen;
                }
                left -= 1;
                self.follow(world, id, [local, remote], &name, &mut seen);
            }
        }
        seen
    }

    /// Follows the path of a packet.
    fn follow(
        &self,
        world: &World,
        from: NodeId,
        [local, remote]: [SocketAddr; 2],
        name: &str,
        seen: &mut RingsByRoute,
    ) {
        let mut key = RouteKey {
            src: local.ip().to_canonical(),
            protocol: protocol::TCP,
            src_port: local.port(),
            dst_port: remote.port(),
            ..RouteKey::to(remote.ip().to_canonical())
        };
        let mut node = from;
        for _ in 0..WAY_MAX {
            let fib = world.host(node).fib();
            let Some(why) = fib.explain(&key) else { return };
            let choice = why.candidates.len() > 1;
            // A round-robin choice would count this as a packet.
            let hop = (!choice || why.hash.is_some()).then(|| fib.lookup(&key));
            let hop = match hop {
                Some(Decision::Forward(hop)) => Some(hop),
                _ => None,
            };
            if choice {
                let place = (node.0, why.route.prefix.to_string());
                let ring = seen.entry(place).or_insert_with(|| Ring::of(fib, world.now(), &why));
                let at = |hop: Hop| why.candidates.iter().position(|path| path.hop == hop);
                ring.flows.push(json!({
                    "flow": name, "hash": why.hash.map(|hash| hash >> 1), "hop": hop.and_then(at),
                }));
            }
            let Some(&(next, port)) = hop.and_then(|hop| self.far.get(&(node, hop.port))) else {
                return;
            };
            key.iif = Some(port);
            node = next;
        }
    }
}

impl Ring {
    fn of(fib: &Fib, now: Instant, why: &Explanation<'_>) -> Self {
        let hop = |path: &Path| {
            json!({
                "port": path.hop.port, "gateway": path.hop.gateway.map(|it| it.to_string()),
                "weight": path.weight, "bound": path.bound, "usable": path.usable,
            })
        };
        let buckets = match (why.bucket, &why.route.target) {
            (Some(_), Target::Object(id)) => fib.buckets(now, *id).map(|buckets| {
                let place = |id: u32| {
                    let object = fib.objects().get(id).map(Object::config);
                    let Some(ObjectConfig::Hop(hop)) = object else { return -1 };
                    let found = why.candidates.iter().position(|path| path.hop == hop.hop);
                    found.map_or(-1, |place| place as i64)
                };
                buckets.map(|bucket| place(bucket.id)).collect()
            }),
            _ => None,
        };
        let kind = match (&buckets, why.hash) {
            (Some(_), _) => "resilient",
            (None, Some(_)) => "hash-threshold",
            (None, None) => "by turns",
        };
        Self { kind, hops: why.candidates.iter().map(hop).collect(), buckets, flows: Vec::new() }
    }

    fn to_json(&self) -> Json {
        json!({"hops": self.hops, "buckets": self.buckets, "flows": self.flows})
    }
}

/// What the links at the ports of a node are called.
fn ports(plan: &Plan, built: &BuiltWorld, node: NodeId) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (link, ends) in plan.links.iter().zip(&built.ends) {
        for (at, port) in ends.iter().filter(|(at, _)| *at == node) {
            debug_assert_eq!(*at, node);
            let Port(port) = port;
            names.insert(port.to_string(), link.name.clone());
        }
    }
    names
}

/// The flow between these ends, and which direction this is.
fn flow_name(plan: &Plan, local: SocketAddr, remote: SocketAddr) -> Option<String> {
    let flow = |port: u16| {
        let index = usize::from(port.checked_sub(apps::server_port(0))?);
        plan.flows.get(index).filter(|flow| flow.app.is_tcp())
    };
    let forth = flow(remote.port()).map(|flow| flow.name.clone());
    forth.or_else(|| flow(local.port()).map(|flow| format!("{}, back", flow.name)))
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
