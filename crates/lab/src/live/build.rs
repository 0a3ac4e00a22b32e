//! Namespaces and devices of the hosts of a plan.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::fib::Decision;
use datapath::node::Port;
use live::gates::BorderDevices;
use live::netns::Namespace;
use sim::link::{LinkId, NodeId};
use sim::world::World;

use crate::plan::{NodePlan, Offload, Plan, Role, Stack};
use crate::run::build::BuiltWorld;

/// Where what a device has goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRole {
    /// It has come by this link, to a stack of ours.
    In(LinkId),
    /// A kernel sends it by this port.
    From(NodeId, Port),
    /// Nothing comes here.
    Nothing,
}

/// Where what has arrived by a link goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// To this device,
    pub device: usize,
    /// with its Ethernet header or without.
    pub ethernet: bool,
}

/// What there is of a plan on this machine.
pub struct LiveNetwork {
    /// The namespace of each host, by its index in the plan.
    pub namespaces: BTreeMap<usize, Namespace>,
    /// All devices.
    pub devices: BorderDevices,
    /// By device.
    pub roles: Vec<DeviceRole>,
    /// By link.
    pub targets: BTreeMap<LinkId, LinkTarget>,
}

/// Whether a node is in a namespace: hosts are, and routers that are a kernel.
fn is_elsewhere(node: &NodePlan) -> bool {
    node.role == Role::Host || node.stack == Stack::Kernel
}

/// Makes namespaces and devices, and has the world hand out what arrives at them.
pub fn make(plan: &Plan, built: &mut BuiltWorld) -> Result<LiveNetwork, String> {
    let mtu = plan.links.iter().map(|link| link.mtu).max().unwrap_or(1_500);
    let devices = BorderDevices::new(mtu).map_err(|error| format!("the live loop: {error}"))?;
    let (namespaces, roles, targets) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    let mut made = LiveNetwork { namespaces, devices, roles, targets };
    for (index, node) in plan.nodes.iter().enumerate().filter(|(_, node)| is_elsewhere(node)) {
        let namespace = Namespace::new()
            .map_err(|error| format!("{}: cannot create its namespace: {error}", node.name))?;
        made.namespaces.insert(index, namespace);
    }
    for (number, (link, ends)) in plan.links.iter().zip(&built.ends).enumerate() {
        for end in [0, 1] {
            let ((id, port), (far, far_port)) = (ends[end], ends[1 - end]);
            let node = &plan.nodes[link.ends[end]];
            if !is_elsewhere(node) {
                continue;
            }
            let name = device_name(&link.name, number, end);
            let incoming = built.world.link_of(far, far_port);
            let one = Join { index: link.ends[end], node, name: &name, mtu: link.mtu };
            one.make(&mut made, &built.world, (id, port), incoming).map_err(|error| {
                format!("{}: the device of link {}: {error}", node.name, link.name)
            })?;
            built.world.hand_out(incoming);
        }
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        if node.stack == Stack::Kernel {
            configure(plan, built, &made, index)?;
        }
    }
    Ok(made)
}

/// One end of a link at a host.
struct Join<'a> {
    index: usize,
    node: &'a NodePlan,
    name: &'a str,
    mtu: u32,
}

impl Join<'_> {
    fn make(
        &self,
        made: &mut LiveNetwork,
        world: &World,
        (id, port): (NodeId, Port),
        incoming: LinkId,
    ) -> io::Result<()> {
        let namespace = &made.namespaces[&self.index];
        match self.node.stack {
            Stack::Kernel => {
                let own = world.host(id).port(port).config.addresses.first().copied();
                let own = own.ok_or_else(|| io::Error::other("it has no address"))?;
                let offloads = self.node.offload != Offload::Off;
                let device = namespace.tun(self.name, own, self.mtu, offloads)?;
                let device = made.devices.add(device)?;
                made.roles.push(DeviceRole::From(id, port));
                made.targets.insert(incoming, LinkTarget { device, ethernet: false });
            }
            Stack::Ours => {
                let wire = format!("w-{}", self.name);
                let pair = [wire.as_str(), self.name];
                let [wire, own] = namespace.veth(pair, self.mtu, made.devices.pools())?;
                let device = made.devices.add(wire)?;
                made.roles.push(DeviceRole::Nothing);
                made.devices.add(own)?;
                made.roles.push(DeviceRole::In(incoming));
                made.targets.insert(incoming, LinkTarget { device, ethernet: true });
            }
        }
        Ok(())
    }
}

/// Names of interfaces have 15 characters, and `w-` is put before some. A dot would end one in the names of
/// settings.
fn device_name(link: &str, number: usize, end: usize) -> String {
    let is_short = link.len() <= 11 && link.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_short { format!("{link}-{end}") } else { format!("link{number}-{end}") }
}

/// Routes and settings of a kernel.
fn configure(
    plan: &Plan,
    built: &BuiltWorld,
    made: &LiveNetwork,
    index: usize,
) -> Result<(), String> {
    let node = &plan.nodes[index];
    let namespace = &made.namespaces[&index];
    let own: Vec<(String, Port)> = plan
        .links
        .iter()
        .zip(&built.ends)
        .enumerate()
        .flat_map(|(number, (link, ends))| {
            let of_node = move |end: &usize| link.ends[*end] == index;
            let device = move |end| (device_name(&link.name, number, end), ends[end].1);
            [0, 1].into_iter().filter(of_node).map(device)
        })
        .collect();
    let fails = |what: &str, error: &io::Error| {
        format!("{}: the kernel refuses {what}: {error}", node.name)
    };
    if let [(device, _)] = own.as_slice() {
        let everywhere: IpAddr = match built.addresses[index] {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        namespace.route(everywhere, 0, device).map_err(|error| fails("a route", &error))?;
    } else {
        let host = built.world.host(NodeId(index as u32));
        for (other, address) in built.addresses.iter().enumerate().filter(|it| it.0 != index) {
            let Decision::Forward(hop) = host.route_to(*address) else { continue };
            let device = own.iter().find(|(_, port)| port.0 == hop.port);
            let Some((device, _)) = device else { continue };
            let what = || format!("a route to {}", plan.nodes[other].name);
            namespace.route(*address, 32, device).map_err(|error| fails(&what(), &error))?;
        }
    }
    // Answers may come by another device than a kernel would send by.
    for name in ["conf/all/rp_filter", "conf/default/rp_filter"] {
        namespace.sysctl(name, "0").map_err(|error| fails(name, &error))?;
    }
    for (device, _) in &own {
        let name = format!("conf/{device}/rp_filter");
        namespace.sysctl(&name, "0").map_err(|error| fails(&name, &error))?;
    }
    if node.role == Role::Router {
        namespace.sysctl("ip_forward", "1").map_err(|error| fails("ip_forward", &error))?;
    }
    for setting in &node.sysctls {
        let set = namespace.sysctl(&setting.name, &setting.value);
        set.map_err(|error| {
            fails(&format!("net.ipv4.{}={}", setting.name, setting.value), &error)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_fit_the_kernel() {
        assert_eq!(device_name("bottleneck", 3, 1), "bottleneck-1");
        assert_eq!(device_name("a-very-long-name-of-a-link", 12_345, 0), "link12345-0");
        for name in [device_name("elevenchars", 0, 0), device_name("x.y", 65_535, 1)] {
            assert!(format!("w-{name}").len() <= 15, "{name}");
        }
    }
}
