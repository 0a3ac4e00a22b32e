//! Scheduled changes of wires and routes while an experiment runs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use datapath::fib::LinkState;
use datapath::host::Host;
use datapath::node::Port;
use datapath::units::Instant;
use iproute::ip::{Devices, Ip, IpError};
use sim::link::NodeId;
use sim::world::World;

use super::reroute::Reroute;
use super::routes::LinkEnds;
use crate::plan::{self, NodePlan, Plan};

/// Changes still to come, and the state of wires.
pub struct Changes {
    /// In order of time; simultaneous ones with wires before commands, and by index.
    list: Vec<(Instant, Change)>,
    next: usize,
    /// None if there are no commands.
    targets: Option<CommandTargets>,
    /// Recomputes the routes of a topology's switches.
    reroute: Option<Reroute>,
    wires: Vec<Wire>,
}

/// The devices and wires that commands for nodes refer to.
struct CommandTargets {
    /// The devices by name of each node that has commands.
    devices: Vec<Devices>,
    /// Wires by their ends.
    wires: BTreeMap<(NodeId, Port), usize>,
}

/// One change.
enum Change {
    /// A wire is cut or mended.
    Wire(usize, bool),
    /// A node runs a line of `ip`.
    IpLine(NodeId, String),
    /// The switches of a topology learn which links have failed.
    Reroute,
}

/// A wire has a carrier while it is whole and both of its ends are up.
struct Wire {
    ends: LinkEnds,
    whole: bool,
    works: bool,
}

impl Changes {
    /// Those of a plan.
    pub fn new(plan: &Plan, ends: &[LinkEnds], addresses: &[IpAddr]) -> Self {
        let mut list: Vec<(Instant, Change)> = Vec::new();
        for (index, link) in plan.links.iter().enumerate() {
            let wire = |&(time, up): &(_, bool)| (Instant::ZERO + time, Change::Wire(index, up));
            list.extend(link.events.iter().map(wire));
        }
        for (index, node) in plan.nodes.iter().enumerate() {
            let words = |(time, line): &(_, String)| {
                (Instant::ZERO + *time, Change::IpLine(NodeId(index as u32), line.clone()))
            };
            list.extend(node.at.iter().map(words));
        }
        let reroute = Reroute::new(plan, ends, addresses);
        if let Some(converge) = plan.fabric.as_ref().and_then(|fabric| fabric.converge) {
            let events = plan.links.iter().flat_map(|link| &link.events);
            let mut times: Vec<Instant> =
                events.map(|(time, _)| Instant::ZERO + *time + converge).collect();
            times.sort_unstable();
            times.dedup();
            list.extend(times.into_iter().map(|at| (at, Change::Reroute)));
        }
        list.sort_by_key(|(at, _)| *at);
        Self {
            list,
            next: 0,
            targets: CommandTargets::new(plan, ends),
            reroute,
            wires: ends.iter().map(|&ends| Wire { ends, whole: true, works: true }).collect(),
        }
    }

    /// When the next change is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.list.get(self.next).map(|(at, _)| *at)
    }

    /// Does everything that is due by now.
    ///
    /// # Errors
    /// A line that was right when the plan was checked is not: the time, the line, and why.
    pub fn apply_due(&mut self, world: &mut World) -> Result<(), String> {
        while let Some((at, change)) = self.list.get(self.next) {
            let at = *at;
            if at > world.now() {
                break;
            }
            match change {
                Change::Reroute => {
                    let down: Vec<bool> = self.wires.iter().map(|wire| !wire.works).collect();
                    if let Some(reroute) = &mut self.reroute {
                        reroute.run(world, &down)?;
                    }
                }
                &Change::Wire(wire, whole) => {
                    self.wires[wire].whole = whole;
                    self.wires[wire].update_carrier(world);
                }
                Change::IpLine(node, line) => {
                    let (node, line) = (*node, line.clone());
                    self.run_ip_line(world, node, &line)
                        .map_err(|error| format!("\"{line}\" at {} ns: {error}", at.as_nanos()))?;
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Runs one line of `ip` at a node.
    pub fn run_ip_line(
        &mut self,
        world: &mut World,
        node: NodeId,
        line: &str,
    ) -> Result<(), IpError> {
        let targets = self.targets.as_mut().expect("a node that is told something was told of");
        let devices = &mut targets.devices[node.0 as usize];
        let (result, before, after) = world.with_host(node, |now, host| {
            let before = links(host);
            let fib = std::mem::take(host.fib_mut());
            let mut ip = Ip { fib, devices: std::mem::take(devices), now, explain: false };
            let result = ip.run(line);
            *host.fib_mut() = ip.fib;
            *devices = ip.devices;
            (result, before, links(host))
        });
        let ports = (0..).map(Port).zip(before.iter().zip(&after));
        let mut touched = Vec::new();
        for (port, (before, after)) in ports.filter(|(_, (before, after))| before != after) {
            let Some(&wire) = targets.wires.get(&(node, port)) else { continue };
            // `carrier on` and `off` are about the wire itself.
            if before.carrier != after.carrier {
                self.wires[wire].whole = after.carrier;
            }
            touched.push(wire);
        }
        touched.sort_unstable();
        for wire in touched {
            self.wires[wire].update_carrier(world);
        }
        result.map(drop)
    }
}

impl CommandTargets {
    /// The targets of the plan's commands, if there are any.
    fn new(plan: &Plan, ends: &[LinkEnds]) -> Option<Self> {
        if !plan.nodes.iter().any(NodePlan::has_lines) {
            return None;
        }
        let of_nodes = plan::links_of_nodes(plan.nodes.len(), &plan.links);
        let of_node = |(node, (plan, links)): (usize, (&NodePlan, &Vec<_>))| {
            let told = plan.has_lines().then(|| plan::interfaces(node, links).devices);
            told.unwrap_or_default()
        };
        let devices = plan.nodes.iter().zip(&of_nodes).enumerate().map(of_node);
        let wires = (0..).zip(ends).flat_map(|(wire, ends)| ends.map(|end| (end, wire)));
        Some(Self { devices: devices.collect(), wires: wires.collect() })
    }
}

impl Wire {
    /// Gives the wire its carrier or takes it away.
    fn update_carrier(&mut self, world: &mut World) {
        let up = |&(node, port): &(NodeId, Port)| world.host(node).fib().link(port.0).up;
        let works = self.whole && self.ends.iter().all(up);
        if works != std::mem::replace(&mut self.works, works) {
            for (node, port) in self.ends {
                world.set_link_up_at(world.now(), world.link_of(node, port), works);
            }
        }
    }
}

fn links(host: &Host) -> Vec<LinkState> {
    (0..host.port_count()).map(|port| host.fib().link(port as u16)).collect()
}
