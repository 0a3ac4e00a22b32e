//! From a plan to a world: nodes, wires, queues, routes.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use datapath::fib::Settings;
use datapath::fib::hash::HashKey;
use datapath::host::{Host, Offloads};
use datapath::node::Port;
use datapath::qdisc::police::Police;
use datapath::rng::{Ratio, Rng};
use iproute::tc::Device;
use sim::link::{Chances, LinkConfig, NodeId};
use sim::record::Fingerprint;
use sim::rules::Direction as RuleDirection;
use sim::topology::{End, Topology, WireId};

use sim::world::World;

use super::apps::{self, FlowEnds};
use super::changes::Changes;
use super::outside::ExternalEnd;
use super::queue_watch::QueueWatch;
use super::routes::{self, LinkEnds};
use super::workload::{self, Workload};
use crate::plan::{self, LinkPlan, NodePlan, Offload, Plan, Role};

/// A world, with handles to what is measured.
pub struct BuiltWorld {
    /// The world.
    pub world: World,
    /// The two applications of each flow, in the order of the plan.
    pub flows: Vec<FlowEnds>,
    /// Ends of flows that run outside of the world.
    pub outside: Vec<ExternalEnd>,
    /// The workloads, in the order of the plan.
    pub workloads: Vec<Workload>,
    /// The watched ports in the order of `plan.measure.queues`.
    pub ports: Vec<WatchedPort>,
    /// The port at each end of each link of the plan.
    pub ends: Vec<LinkEnds>,
    /// The first address of each node.
    pub addresses: Vec<IpAddr>,
    /// Scheduled changes of wires and routes.
    pub changes: Changes,
    /// The hash of everything that arrived anywhere.
    pub fingerprint: Rc<RefCell<Fingerprint>>,
}

/// A port whose queue is watched.
pub struct WatchedPort {
    /// Whose port it is.
    pub node: NodeId,
    /// Which.
    pub port: Port,
}

impl WatchedPort {
    /// What was seen of its queue.
    pub fn watch<'a>(&self, world: &'a World) -> &'a QueueWatch {
        world.watcher(world.link_of(self.node, self.port)).expect("it is watched")
    }
}

impl BuiltWorld {
    /// True if every flow ends by itself and has ended.
    pub fn all_finished(&self) -> bool {
        self.flows
            .iter()
            .all(|flow| flow.finite && self.world.report(flow.sender).finished.is_some())
            && self.workloads.iter().all(|workload| workload.is_finished(&self.world))
    }
}

/// Builds the world of a plan. If it is `live`, applications on hosts with a kernel's stack run outside of it.
pub fn build(plan: &Plan, live: bool) -> Result<BuiltWorld, String> {
    let mut topology = Topology::new();
    let nodes: Vec<NodeId> = plan
        .nodes
        .iter()
        .map(|node| match node.role {
            Role::Host => topology.host(&node.name),
            Role::Router => topology.router(&node.name),
        })
        .collect();
    let mut ends = Vec::new();
    for link in &plan.links {
        ends.push(add_wire(&mut topology, &nodes, plan, link)?);
    }
    let addresses: Vec<IpAddr> = nodes
        .iter()
        .map(|node| topology.address(*node).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    routes::add(&mut topology, plan, &nodes, &ends, &addresses);

    for (_, node) in plan.nodes.iter().zip(&nodes).filter(|(plan, _)| plan.has_own_routes()) {
        topology.own_routes(*node);
    }

    let mut world = topology.build(plan.seed).map_err(|error| error.to_string())?;
    let mut changes = Changes::new(plan, &ends, &addresses);
    configure_routing(&mut world, plan, &nodes, &mut changes)?;
    add_policers(&mut world, plan, &ends)?;
    for (node, id) in plan.nodes.iter().zip(&nodes) {
        world.with_host(*id, |_, host| host.set_shared_buffer(node.buffer));
    }
    let fingerprint = Rc::new(RefCell::new(Fingerprint::default()));
    world.observe(Box::new(Rc::clone(&fingerprint)));
    let ports = watch_queues(&mut world, plan, &ends);
    let (mut flows, mut outside) = (Vec::new(), Vec::new());
    for index in 0..plan.flows.len() {
        let place = (&*nodes, &*addresses);
        flows.push(apps::add(&mut world, plan, index, place, live.then_some(&mut outside))?);
    }
    let mut workloads = Vec::new();
    for index in 0..plan.workloads.len() {
        workloads.push(workload::add(&mut world, plan, index, &nodes, &addresses)?);
    }
    if plan.bytes {
        world.carry_bytes();
    }
    Ok(BuiltWorld {
        world,
        flows,
        outside,
        workloads,
        ports,
        ends,
        addresses,
        changes,
        fingerprint,
    })
}

/// One link with its interfaces and queues.
fn add_wire(
    topology: &mut Topology,
    nodes: &[NodeId],
    plan: &Plan,
    link: &LinkPlan,
) -> Result<LinkEnds, String> {
    let [a, b] = link.ends.map(|end| nodes[end]);
    let segments_super_packets = |end: usize| plan.nodes[link.ends[end]].offload == Offload::Nic;
    let forward = LinkConfig {
        segments_super_packets: segments_super_packets(0),
        ..link_config(link, 0, RuleDirection::Forward)
    };
    let backward = LinkConfig {
        segments_super_packets: segments_super_packets(1),
        ..link_config(link, 1, RuleDirection::Reverse)
    };
    let wire: WireId = topology.wire_with(a, b, forward, backward);
    if let Some([a, b]) = link.addresses {
        topology.addresses(wire, a, b);
    }
    let built = topology.wire_mut(wire);
    for (index, end) in [&mut built.a, &mut built.b].into_iter().enumerate() {
        end.interface.mtu = link.mtu;
        let node = &plan.nodes[link.ends[index]];
        end.interface.offloads = offloads(node);
        end.interface.rx_usecs = node.rx_usecs;
        set_queue(end, plan.seed, (node, link), index)?;
    }
    Ok([(built.a.node, built.a.port), (built.b.node, built.b.port)])
}

/// The queue at one end of a link, as the kernel of its node makes it.
fn set_queue(
    end: &mut End,
    seed: u64,
    (node, link): (&NodePlan, &LinkPlan),
    index: usize,
) -> Result<(), String> {
    let port = &link.ports[index];
    if !port.qdiscs.is_empty() {
        let device = Device { psched_mtu: link.mtu + ETHERNET, ..Device::of(&node.profile) };
        let entity = QDISC_STREAMS + (u64::from(end.node.0) << 16) + u64::from(end.port.0);
        let tree =
            plan::tc::qdisc_tree(&port.qdiscs, &port.guests, device, &Rng::stream(seed, entity));
        end.qdisc = Some(Box::new(tree.map_err(|(_, why)| why)?));
    }
    Ok(())
}

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// Random streams of qdiscs, apart from those of links, applications and draws.
const QDISC_STREAMS: u64 = 1 << 45;
/// Random streams of the hash keys of nodes.
const FIB_STREAMS: u64 = 1 << 46;

fn link_config(link: &LinkPlan, index: usize, direction: RuleDirection) -> LinkConfig {
    let plan = &link.directions[index];
    let ratio = Ratio::from_millionths;
    let chances = Chances {
        loss: ratio(plan.loss),
        model: plan.loss_model,
        guest: plan.loss_guest,
        jitter_correlation: plan.jitter_correlation,
        corruption: ratio(plan.corrupt),
        duplication: ratio(plan.duplicate),
        reordering: ratio(plan.reorder),
        reorder_by: plan.reorder_by,
        jitter: plan.jitter,
        jitter_reorders: false,
    };
    LinkConfig {
        rate: plan.rate,
        delay: plan.delay,
        schedule: plan.schedule.clone(),
        chances,
        rules: plan.rules.clone(),
        direction,
        veth: link.veth,
        ..LinkConfig::default()
    }
}

fn offloads(node: &NodePlan) -> Offloads {
    let gso = node.offload != Offload::Off;
    let tso = matches!(node.offload, Offload::Tso | Offload::Nic);
    Offloads { gso, tso, gro: node.gro }
}

/// Gives each node a hash key of its own, as a kernel draws one at boot, and runs its lines of
/// `ip`.
fn configure_routing(
    world: &mut World,
    plan: &Plan,
    nodes: &[NodeId],
    changes: &mut Changes,
) -> Result<(), String> {
    for (index, (node, &id)) in plan.nodes.iter().zip(nodes).enumerate() {
        let mut rng = Rng::stream(plan.seed, FIB_STREAMS + index as u64);
        world.with_host(id, |_, host| {
            let settings = *host.fib().settings();
            let key = HashKey::random(rng.next_u64(), rng.next_u64());
            let prefers_source = node.profile.multipath_prefers_source;
            host.fib_mut().set_settings(Settings { key, prefers_source, ..settings });
            if let Some(policy) = node.hash_policy {
                routes::make_switch(host, policy);
            }
        });
        for setting in node.sysctls.iter().filter(|it| Host::IP_SYSCTLS.contains(&&*it.name)) {
            world
                .with_host(id, |_, host| host.set_ip_sysctl(&setting.name, &setting.value))
                .map_err(|error| format!("{}: {}: {error:?}", node.name, setting.name))?;
        }
        for line in &node.ip {
            changes
                .run_ip_line(world, id, line)
                .map_err(|error| format!("{}: \"{line}\": {error}", node.name))?;
        }
    }
    Ok(())
}

/// Adds the policers for arrivals at ports.
fn add_policers(world: &mut World, plan: &Plan, ends: &[LinkEnds]) -> Result<(), String> {
    for (link, ends) in plan.links.iter().zip(ends) {
        for (port, &(node, index)) in link.ports.iter().zip(ends) {
            let Some(text) = &port.police else { continue };
            let config = plan::tc::police(text).map_err(|error| error.to_string())?;
            let police = Police::of(&plan.nodes[node.0 as usize].profile, config);
            world.with_host(node, |_, host| host.add_policer(index, police));
        }
    }
    Ok(())
}

fn watch_queues(world: &mut World, plan: &Plan, ends: &[LinkEnds]) -> Vec<WatchedPort> {
    plan.measure
        .queues
        .iter()
        .map(|&(link, end)| {
            let (node, port) = ends[link][end];
            let id = world.link_of(node, port);
            world.watch(id, Box::new(QueueWatch::new(plan.warmup)));
            WatchedPort { node, port }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Experiment;
    use datapath::qdisc::AnyQdisc;
    use datapath::qdisc::cake::Roots;

    /// Two hosts with CAKE, and what goes into the file before and into one of the hosts.
    fn cakes(head: &str, far: &str) -> [(Roots, bool); 2] {
        let text = format!(
            "schema = 1\nname = \"t\"\nduration = \"1s\"\n{head}\n[nodes]\nnear = {{}}\nfar = {{ {far} }}\n\
             [links.wire]\nends = [\"near\", \"far\"]\nrate = \"10mbit\"\n\
             [qdisc]\n\"near.wire\" = \"cake\"\n\"far.wire\" = [\"root handle 1: prio\", \"parent 1:1 cake\"]\n\
             [flows.f]\napp = \"bulk\"\nfrom = \"near\"\nto = \"far\"\n"
        );
        let experiment = Experiment::parse("t.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        let built = build(&experiment.base, false).expect("it can be built");
        built.ends[0].map(|(node, port)| {
            let root = built.world.host(node).port(port).qdisc();
            let mut all = root.tree().into_iter();
            let cake = all.find_map(|(_, sched)| match sched.qdisc() {
                AnyQdisc::Cake(cake) => {
                    Some((cake.config().roots, cake.config().autorate_every_250_ms))
                }
                _ => None,
            });
            cake.expect("there is one")
        })
    }

    #[test]
    fn a_qdisc_is_that_of_its_nodes_kernel() {
        let (newest, older) = ((Roots::Rounded, true), (Roots::Newton, false));
        assert_eq!(cakes("", ""), [newest, newest]);
        assert_eq!(cakes("profile = \"linux-6.1\"", ""), [older, older]);
        assert_eq!(cakes("", "profile = \"linux-6.18\"")[1], (Roots::Rounded, false));
        assert_eq!(cakes("", "profile = \"linux-2.6.22\""), [newest, older]);
        let near = cakes("profile = \"linux-6.1\"", "profile = \"linux-7.x\"");
        assert_eq!(near, [older, newest]);
    }
}
