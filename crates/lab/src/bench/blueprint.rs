//! What a case is made of, as a world and as an experiment file.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use apps::{TcpSend, TcpSink};
use datapath::fib::hash::{HashKey, Policy};
use datapath::fib::{NextHop, Prefix, Route};
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::qdisc::{Handle, Sched};
use datapath::tcp::config::TcpConfig;
use datapath::units::{Duration, Instant, Rate};
use sim::link::{LinkConfig, NodeId};
use sim::topology::{Topology, TopologyError};
use sim::world::{AppId, World};

/// Nodes, wires and flows of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Blueprint {
    pub nodes: Vec<Node>,
    pub wires: Vec<Wire>,
    pub flows: Vec<Transfer>,
}

/// A host or a router.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub name: String,
    pub router: bool,
    /// Its routes, if they are not found by themselves: which wires lead to a prefix.
    pub routes: Vec<(Prefix, Vec<usize>)>,
}

/// Two directions between two nodes.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub ends: [usize; 2],
    pub rate_mbit: u64,
    pub delay: Duration,
    /// The queue at each end, if not the default one.
    pub queues: [Option<FifoKind>; 2],
    pub addresses: Option<[(IpAddr, u8); 2]>,
}

/// A bulk transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub from: usize,
    pub to: usize,
    pub start: Duration,
}

impl Blueprint {
    /// Adds a node; its index.
    pub fn node(&mut self, name: String, router: bool) -> usize {
        self.nodes.push(Node { name, router, routes: Vec::new() });
        self.nodes.len() - 1
    }

    /// Adds a wire with default queues; its index.
    pub fn wire(&mut self, ends: [usize; 2], rate_mbit: u64, delay: Duration) -> usize {
        self.wires.push(Wire { ends, rate_mbit, delay, queues: [None; 2], addresses: None });
        self.wires.len() - 1
    }

    /// The world, and who receives.
    pub fn world(&self) -> Result<(World, Vec<AppId>), TopologyError> {
        let mut net = Topology::new();
        let ids: Vec<NodeId> = self
            .nodes
            .iter()
            .map(|node| if node.router { net.router(&node.name) } else { net.host(&node.name) })
            .collect();
        let mut ports = vec![Vec::new(); self.nodes.len()];
        for (index, wire) in self.wires.iter().enumerate() {
            let link = LinkConfig::new(Rate::from_mbit(wire.rate_mbit), wire.delay);
            let id = net.wire(ids[wire.ends[0]], ids[wire.ends[1]], link);
            let both = net.wire_mut(id);
            for (end, queue) in [&mut both.a, &mut both.b].into_iter().zip(wire.queues) {
                end.qdisc =
                    queue.map(|kind| Box::new(Sched::new(Handle::new(1, 0), Fifo::new(kind))));
            }
            if let Some([a, b]) = wire.addresses {
                net.addresses(id, a, b);
            }
            for end in wire.ends {
                ports[end].push(index);
            }
        }
        for (node, id) in ids.iter().enumerate() {
            self.install_routes(&mut net, node, *id, &ports[node]);
        }
        let mut world = net.build(1)?;
        self.choose_hashes(&mut world, &ids);
        let sinks = self.add_flows(&net, &ids, &mut world)?;
        Ok((world, sinks))
    }

    fn install_routes(&self, net: &mut Topology, node: usize, id: NodeId, ports: &[usize]) {
        let routes = &self.nodes[node].routes;
        if !routes.is_empty() {
            net.own_routes(id);
        }
        for (prefix, wires) in routes {
            let port = |wire| ports.iter().position(|it| it == wire).expect("a wire of the node");
            let hops = wires.iter().map(|wire| NextHop::new(port(wire) as u16, None));
            net.route(id, Route::new(*prefix, hops.collect()));
        }
    }

    /// Where routes have several next hops, each node hashes ports with a key of its own.
    fn choose_hashes(&self, world: &mut World, ids: &[NodeId]) {
        for (node, id) in ids.iter().enumerate().filter(|(node, _)| self.is_multipath(*node)) {
            world.with_host(*id, |_, host| {
                let mut settings = *host.fib().settings();
                settings.v4.policy = Policy::L4;
                settings.key = HashKey::from_seed(hash_seed(node));
                host.fib_mut().set_settings(settings);
            });
        }
    }

    fn is_multipath(&self, node: usize) -> bool {
        self.nodes[node].routes.iter().any(|(_, wires)| wires.len() > 1)
    }

    fn add_flows(
        &self,
        net: &Topology,
        ids: &[NodeId],
        world: &mut World,
    ) -> Result<Vec<AppId>, TopologyError> {
        let tcp = TcpConfig::default();
        let mut sinks = Vec::new();
        for (port, flow) in (5_001..=u16::MAX).cycle().zip(&self.flows) {
            let to = SocketAddr::new(net.address(ids[flow.to])?, port);
            let from = SocketAddr::new(net.address(ids[flow.from])?, 40_001);
            let sink = TcpSink::new(to, tcp.clone());
            sinks.push(world.add_app(ids[flow.to], Box::new(sink), Instant::ZERO, None));
            let sender = TcpSend::bulk(from, to, tcp.clone());
            world.add_app(ids[flow.from], Box::new(sender), Instant::ZERO + flow.start, None);
        }
        Ok(sinks)
    }

    /// The same as an experiment file.
    pub fn toml(&self, name: &str, about: &str, duration: &str) -> String {
        let mut text = format!(
            "# {about}: `ackwright bench {name}` as an experiment.\n\
             schema = 1\nname = \"{name}\"\ntitle = \"{about}\"\nduration = \"{duration}\"\n"
        );
        for index in 0..self.nodes.len() {
            self.write_node(&mut text, index);
        }
        for (index, wire) in self.wires.iter().enumerate() {
            let [a, b] = wire.ends.map(|end| &self.nodes[end].name);
            let (rate, delay) = (wire.rate_mbit, wire.delay.as_nanos());
            let _ = write!(
                text,
                "\n[links.w{index}]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate}mbit\"\n\
                 delay = \"{delay}ns\"\n"
            );
            if let Some([a, b]) = wire.addresses {
                let _ = writeln!(text, "addresses = [\"{}/{}\", \"{}/{}\"]", a.0, a.1, b.0, b.1);
            }
        }
        text.push_str("\n[qdisc]\n");
        for (index, wire) in self.wires.iter().enumerate() {
            for (end, queue) in wire.ends.iter().zip(wire.queues) {
                if let Some(words) = queue.and_then(words) {
                    let node = &self.nodes[*end].name;
                    let _ = writeln!(text, "\"{node}.w{index}\" = \"{words}\"");
                }
            }
        }
        for (index, flow) in self.flows.iter().enumerate() {
            let [from, to] = [flow.from, flow.to].map(|node| &self.nodes[node].name);
            let start = flow.start.as_nanos();
            let _ = write!(
                text,
                "\n[flows.f{index}]\nfrom = \"{from}\"\nto = \"{to}\"\napp = \"bulk\"\n\
                 start = \"{start}ns\"\n"
            );
        }
        text
    }

    fn write_node(&self, text: &mut String, index: usize) {
        let node = &self.nodes[index];
        let _ = write!(text, "\n[nodes.{}]\n", node.name);
        if node.router {
            text.push_str("role = \"router\"\n");
        }
        if !node.routes.is_empty() {
            text.push_str("ip = [\n");
            for (prefix, wires) in &node.routes {
                let _ = write!(text, "  \"route add {prefix}");
                for wire in wires {
                    let word = if wires.len() > 1 { " nexthop dev" } else { " dev" };
                    let _ = write!(text, "{word} w{wire}");
                }
                text.push_str("\",\n");
            }
            text.push_str("]\n");
        }
        if self.is_multipath(index) {
            let _ = writeln!(text, "\n[nodes.{}.sysctl]", node.name);
            let _ = writeln!(text, "\"net.ipv4.fib_multipath_hash_policy\" = 1");
            let _ = writeln!(text, "\"net.ipv4.fib_multipath_hash_seed\" = {}", hash_seed(index));
        }
    }
}

/// The key of a node's hash, which differs from node to node.
fn hash_seed(node: usize) -> u32 {
    node as u32 + 1
}

/// A queue as `tc` says it.
fn words(kind: FifoKind) -> Option<String> {
    match kind {
        FifoKind::Packets(limit) => Some(format!("pfifo limit {limit}")),
        FifoKind::Bytes(limit) => Some(format!("bfifo limit {limit}")),
        FifoKind::HeadDrop(limit) => Some(format!("pfifo_head_drop limit {limit}")),
        FifoKind::NoQueue => None,
    }
}
