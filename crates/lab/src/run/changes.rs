//! What happens to wires and routes while an experiment runs.

use std::net::IpAddr;

use datapath::fib::LinkState;
use datapath::host::Host;
use datapath::node::Port;
use datapath::units::Instant;
use iproute::ip::{Devices, Ip, IpError};
use sim::link::NodeId;
use sim::world::World;

use super::build::Ends;
use super::reroute::Reroute;
use crate::plan::{self, Plan};

/// What is still to happen, and what state wires are in.
pub struct Changes {
    /// In order of time; at one moment wires before words, and by index.
    list: Vec<(Instant, Change)>,
    next: usize,
    /// Each node's devices by name.
    devices: Vec<Devices>,
    /// Who tells the switches of a topology.
    reroute: Option<Reroute>,
    wires: Vec<Wire>,
}

/// One thing that happens.
enum Change {
    /// A wire is cut or mended.
    Wire(usize, bool),
    /// A node is told a line of `ip`.
    Words(NodeId, String),
    /// The switches of a topology hear what has become of its links.
    Reroute,
}

/// A wire has a carrier while it is whole and both of its ends are up.
struct Wire {
    ends: Ends,
    whole: bool,
    works: bool,
}

impl Changes {
    /// Those of a plan.
    pub fn new(plan: &Plan, ends: &[Ends], addresses: &[IpAddr]) -> Self {
        let mut list: Vec<(Instant, Change)> = Vec::new();
        for (index, link) in plan.links.iter().enumerate() {
            let wire = |&(time, up): &(_, bool)| (Instant::ZERO + time, Change::Wire(index, up));
            list.extend(link.events.iter().map(wire));
        }
        for (index, node) in plan.nodes.iter().enumerate() {
            let words = |(time, line): &(_, String)| {
                (Instant::ZERO + *time, Change::Words(NodeId(index as u32), line.clone()))
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
        let devices = |node| plan::interfaces(node, &plan.links).devices;
        Self {
            list,
            next: 0,
            devices: (0..plan.nodes.len()).map(devices).collect(),
            reroute,
            wires: ends.iter().map(|&ends| Wire { ends, whole: true, works: true }).collect(),
        }
    }

    /// When something happens next.
    pub fn next_at(&self) -> Option<Instant> {
        self.list.get(self.next).map(|(at, _)| *at)
    }

    /// Does everything that is due by now.
    ///
    /// # Errors
    /// A line that was right when the plan was checked is not: the time, the line, and why.
    pub fn run_due(&mut self, world: &mut World) -> Result<(), String> {
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
                    self.settle(world);
                }
                Change::Words(node, line) => {
                    let (node, line) = (*node, line.clone());
                    self.tell(world, node, &line)
                        .map_err(|error| format!("\"{line}\" at {} ns: {error}", at.as_nanos()))?;
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Tells a node one line of `ip`.
    pub fn tell(&mut self, world: &mut World, node: NodeId, line: &str) -> Result<(), IpError> {
        let devices = &mut self.devices[node.0 as usize];
        let (result, before, after) = world.with_host(node, |now, host| {
            let before = links(host);
            let fib = std::mem::take(host.fib_mut());
            let mut ip = Ip { fib, devices: std::mem::take(devices), now, explain: false };
            let result = ip.run(line);
            *host.fib_mut() = ip.fib;
            *devices = ip.devices;
            (result, before, links(host))
        });
        for (port, (before, after)) in before.iter().zip(&after).enumerate() {
            // `carrier on` and `off` are about the wire itself.
            if before.carrier != after.carrier {
                let end = (node, Port(port as u16));
                for wire in self.wires.iter_mut().filter(|wire| wire.ends.contains(&end)) {
                    wire.whole = after.carrier;
                }
            }
        }
        self.settle(world);
        result.map(drop)
    }

    /// Gives each wire its carrier or takes it away.
    fn settle(&mut self, world: &mut World) {
        for wire in &mut self.wires {
            let up = |&(node, port): &(NodeId, Port)| world.host(node).fib().link(port.0).up;
            let works = wire.whole && wire.ends.iter().all(up);
            if works != std::mem::replace(&mut wire.works, works) {
                for (node, port) in wire.ends {
                    world.set_link_up_at(world.now(), world.link_of(node, port), works);
                }
            }
        }
    }
}

fn links(host: &Host) -> Vec<LinkState> {
    (0..host.port_count()).map(|port| host.fib().link(port as u16)).collect()
}
