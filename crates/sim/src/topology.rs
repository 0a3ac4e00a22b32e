//! Building a world: nodes and wires by name, with automatic addresses and routes.
//!
//! Unless said otherwise, wire number n gets the network 10.0.0.0 + 4n with a prefix of 30 bits,
//! its ends the first and second address in it. Routes are shortest paths by number of wires;
//! among equals the port that was made first wins. Hosts do not forward.

use crate::link::{LinkConfig, NodeId};
use crate::world::World;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use datapath::fib::{Decision, FibError, Prefix, Route};
use datapath::host::{Host, PortConfig};
use datapath::node::Port;
use datapath::packet::{LinkHeader, MacAddr};
use datapath::qdisc::Sched;
use datapath::units::Instant;
use std::collections::{BTreeMap, VecDeque};

/// Index of a wire (both directions) in its topology. Its directions become links 2n and 2n + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WireId(pub u32);

/// Why a topology cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// Two nodes have the same name.
    DuplicateName(String),
    /// A name that no node has.
    UnknownNode(String),
    /// A wire from a node to itself.
    SelfLink(String),
    /// A node without any wire.
    Unconnected(String),
    /// A route made by hand is refused.
    BadRoute(String, FibError),
    /// No path leads from one node to the other.
    NoRoute {
        /// Where packets would start.
        from: String,
        /// Where they should go.
        to: String,
    },
    /// The routes from one node to the other form a loop.
    RoutingLoop {
        /// Where packets would start.
        from: String,
        /// Where they should go.
        to: String,
    },
}

/// A world to be built.
///
/// ```
/// use apps::{TcpSend, TcpSink};
/// use core::net::SocketAddr;
/// use datapath::tcp::config::TcpConfig;
/// use datapath::units::{Duration, Instant, Rate};
/// use sim::link::LinkConfig;
/// use sim::topology::Topology;
///
/// let mut net = Topology::new();
/// let (client, server) = (net.host("client"), net.host("server"));
/// net.wire(client, server, LinkConfig::new(Rate::from_mbit(20), Duration::from_millis(10)));
/// let from = SocketAddr::new(net.address(client)?, 0);
/// let to = SocketAddr::new(net.address(server)?, 5001);
///
/// let (mut world, tcp, start) = (net.build(1)?, TcpConfig::default(), Instant::ZERO);
/// let sink = world.add_app(server, Box::new(TcpSink::new(to, tcp.clone())), start, None);
/// let sender = TcpSend::bulk(from, to, tcp).limit(100_000);
/// world.add_app(client, Box::new(sender), start, None);
/// world.run_until(start + Duration::from_secs(5));
/// assert_eq!(world.report(sink).received_bytes, 100_000);
/// # Ok::<(), sim::topology::TopologyError>(())
/// ```
#[derive(Debug, Default)]
pub struct Topology {
    nodes: Vec<NodePlan>,
    names: BTreeMap<String, NodeId>,
    wires: Vec<Wire>,
}

/// One wire, both directions.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The end that was named first.
    pub a: End,
    /// The other end.
    pub b: End,
}

/// One end of a wire.
#[derive(Clone, Debug)]
pub struct End {
    /// Whose end it is.
    pub node: NodeId,
    /// Its port number there.
    pub port: Port,
    /// The interface.
    pub interface: PortConfig,
    /// Its queueing discipline, if not the default `pfifo`.
    pub qdisc: Option<Box<Sched>>,
    /// The direction that begins here.
    pub link: LinkConfig,
}

#[derive(Debug, Default)]
struct NodePlan {
    name: String,
    router: bool,
    /// By port: the wire, and whether this node is its end `a`.
    ports: Vec<(WireId, bool)>,
    routes: Vec<Route>,
    /// No automatic routes are added.
    own_routes: bool,
}

impl Topology {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host: it sends and receives, and does not forward.
    pub fn host(&mut self, name: &str) -> NodeId {
        self.node(name, false)
    }

    /// Adds a router: a host that forwards.
    pub fn router(&mut self, name: &str) -> NodeId {
        self.node(name, true)
    }

    fn node(&mut self, name: &str, router: bool) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.names.entry(name.to_owned()).or_insert(id);
        self.nodes.push(NodePlan { name: name.to_owned(), router, ..NodePlan::default() });
        id
    }

    /// The node with that name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<NodeId, TopologyError> {
        let unknown = || TopologyError::UnknownNode(name.to_owned());
        self.names.get(name).copied().ok_or_else(unknown)
    }

    /// Joins two nodes by a wire that is the same in both directions.
    pub fn wire(&mut self, a: NodeId, b: NodeId, link: LinkConfig) -> WireId {
        self.wire_with(a, b, link.clone(), link)
    }

    /// Joins two nodes by a wire with a direction from `a` and one from `b`.
    pub fn wire_with(
        &mut self,
        a: NodeId,
        b: NodeId,
        from_a: LinkConfig,
        from_b: LinkConfig,
    ) -> WireId {
        let id = WireId(self.wires.len() as u32);
        let a = self.end(a, id, true, from_a);
        let b = self.end(b, id, false, from_b);
        self.wires.push(Wire { a, b });
        id
    }

    fn end(&mut self, node: NodeId, wire: WireId, is_a: bool, link: LinkConfig) -> End {
        let ports = &mut self.nodes[node.0 as usize].ports;
        let port = Port(u16::try_from(ports.len()).expect("a node has at most 65536 ports"));
        ports.push((wire, is_a));
        let (own, peer) = if is_a { (1, 2) } else { (2, 1) };
        let interface = PortConfig {
            addresses: vec![default_addresses(wire)[usize::from(!is_a)]],
            link: LinkHeader::Ethernet { dst: mac(wire, peer), src: mac(wire, own) },
            ..PortConfig::default()
        };
        End { node, port, interface, qdisc: None, link }
    }

    /// A wire, to change its interfaces, addresses and directions before the world is built.
    pub fn wire_mut(&mut self, wire: WireId) -> &mut Wire {
        &mut self.wires[wire.0 as usize]
    }

    /// Gives both ends of a wire an address, instead of the automatic ones.
    pub fn addresses(&mut self, wire: WireId, a: (IpAddr, u8), b: (IpAddr, u8)) {
        let wire = self.wire_mut(wire);
        wire.a.interface.addresses = vec![a];
        wire.b.interface.addresses = vec![b];
    }

    /// Adds a route by hand; it precedes automatic ones.
    pub fn route(&mut self, node: NodeId, route: Route) {
        self.nodes[node.0 as usize].routes.push(route);
    }

    /// The node has only the routes that it is given, and those of its addresses.
    pub fn own_routes(&mut self, node: NodeId) {
        self.nodes[node.0 as usize].own_routes = true;
    }

    /// The first address of a node.
    ///
    /// # Errors
    /// The node has no wire, or its first interface no address.
    pub fn address(&self, node: NodeId) -> Result<IpAddr, TopologyError> {
        self.addresses_of(node).next().ok_or_else(|| TopologyError::Unconnected(self.name(node)))
    }

    fn addresses_of(&self, node: NodeId) -> impl Iterator<Item = IpAddr> {
        let ports = self.nodes[node.0 as usize].ports.iter();
        ports.flat_map(|&(wire, is_a)| {
            self.near_end(wire, is_a).interface.addresses.iter().map(|(address, _)| *address)
        })
    }

    fn near_end(&self, wire: WireId, is_a: bool) -> &End {
        let wire = &self.wires[wire.0 as usize];
        if is_a { &wire.a } else { &wire.b }
    }

    fn name(&self, node: NodeId) -> String {
        self.nodes[node.0 as usize].name.clone()
    }

    /// Builds the world.
    ///
    /// # Errors
    /// Names that occur twice, wires from a node to itself, nodes without a wire.
    pub fn build(&self, seed: u64) -> Result<World, TopologyError> {
        self.check()?;
        let mut world = World::new(seed);
        world.reserve(self.nodes.len(), 2 * self.wires.len());
        let has_v6 = self.has_v6();
        for (index, plan) in self.nodes.iter().enumerate() {
            world.add_node(self.make_host(NodeId(index as u32), plan, has_v6)?);
        }
        for Wire { a, b } in &self.wires {
            world.add_link(&a.link, (a.node, a.port), (b.node, b.port));
            world.add_link(&b.link, (b.node, b.port), (a.node, a.port));
        }
        Ok(world)
    }

    fn check(&self) -> Result<(), TopologyError> {
        for (index, plan) in self.nodes.iter().enumerate() {
            if self.names[&plan.name] != NodeId(index as u32) {
                return Err(TopologyError::DuplicateName(plan.name.clone()));
            }
            if plan.ports.is_empty() {
                return Err(TopologyError::Unconnected(plan.name.clone()));
            }
        }
        match self.wires.iter().find(|wire| wire.a.node == wire.b.node) {
            Some(wire) => Err(TopologyError::SelfLink(self.name(wire.a.node))),
            None => Ok(()),
        }
    }

    /// Whether any node has an IPv6 address.
    fn has_v6(&self) -> bool {
        let ends = self.wires.iter().flat_map(|wire| [&wire.a, &wire.b]);
        ends.flat_map(|end| &end.interface.addresses).any(|(address, _)| address.is_ipv6())
    }

    fn make_host(&self, id: NodeId, plan: &NodePlan, has_v6: bool) -> Result<Host, TopologyError> {
        let mut host = Host::new();
        host.forwarding = plan.router;
        host.reserve_ports(plan.ports.len());
        for &(wire, is_a) in &plan.ports {
            let end = self.near_end(wire, is_a);
            let port = host.add_port(end.interface.clone());
            if let Some(qdisc) = &end.qdisc {
                host.set_qdisc(Instant::ZERO, port, Sched::clone(qdisc));
            }
        }
        for route in &plan.routes {
            let added = host.fib_mut().add(route.clone());
            added.map_err(|error| TopologyError::BadRoute(plan.name.clone(), error))?;
        }
        if plan.own_routes {
            return Ok(host);
        }
        if plan.ports.len() == 1 {
            add_unless_there(&mut host, Route::on_link(Prefix::DEFAULT_V4, 0));
            if has_v6 {
                add_unless_there(&mut host, Route::on_link(Prefix::DEFAULT_V6, 0));
            }
        } else {
            self.add_shortest_paths(id, &mut host);
        }
        Ok(host)
    }

    /// One breadth-first search gives the first port towards every other node.
    fn add_shortest_paths(&self, from: NodeId, host: &mut Host) {
        let mut first_port: Vec<Option<u16>> = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            let port = first_port[node.0 as usize];
            if let Some(port) = port {
                for address in self.addresses_of(node) {
                    add_unless_there(host, Route::on_link(Prefix::host(address), port));
                }
                if !self.nodes[node.0 as usize].router {
                    continue;
                }
            }
            for (own_port, &(wire, is_a)) in (0..).zip(&self.nodes[node.0 as usize].ports) {
                let next = self.near_end(wire, !is_a).node;
                if next != from && first_port[next.0 as usize].is_none() {
                    // A direct neighbour is behind a port of the first node.
                    first_port[next.0 as usize] = port.or(Some(own_port));
                    queue.push_back(next);
                }
            }
        }
    }

    /// Follows the routes of a built world from one node to another.
    ///
    /// # Errors
    /// They end before the destination, or form a loop.
    pub fn trace(
        &self,
        world: &World,
        from: NodeId,
        to: NodeId,
    ) -> Result<Vec<NodeId>, TopologyError> {
        let target = self.address(to)?;
        let mut path = vec![from];
        let mut at = from;
        while let Decision::Forward(hop) = world.host(at).route_to(target) {
            let (wire, is_a) = self.nodes[at.0 as usize].ports[usize::from(hop.port)];
            at = self.near_end(wire, !is_a).node;
            if path.contains(&at) {
                let (from, to) = (self.name(from), self.name(to));
                return Err(TopologyError::RoutingLoop { from, to });
            }
            path.push(at);
        }
        if at == to {
            return Ok(path);
        }
        Err(TopologyError::NoRoute { from: self.name(from), to: self.name(to) })
    }
}

/// The addresses that the two ends of a wire get unless they are given others.
pub fn default_addresses(wire: WireId) -> [(IpAddr, u8); 2] {
    let network = 0x0a00_0000 + 4 * wire.0;
    [1, 2].map(|end| (IpAddr::V4(Ipv4Addr::from_bits(network + end)), 30))
}

/// An automatic route gives way to one made by hand.
fn add_unless_there(host: &mut Host, route: Route) {
    match host.fib_mut().add(route) {
        Ok(()) | Err(FibError::Exists) => {}
        Err(error) => panic!("a shortest path is no route: {error:?}"),
    }
}

/// A locally administered address for one end of a wire.
fn mac(wire: WireId, end: u8) -> MacAddr {
    let [a, b, c, d] = wire.0.to_be_bytes();
    MacAddr([0x02, a, b, c, d, end])
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => write!(f, "two nodes are called \"{name}\""),
            Self::UnknownNode(name) => write!(f, "there is no node called \"{name}\""),
            Self::SelfLink(name) => write!(f, "a link leads from \"{name}\" to itself"),
            Self::Unconnected(name) => write!(f, "no link leads to \"{name}\""),
            Self::BadRoute(name, error) => write!(f, "a route of \"{name}\" is refused: {error}"),
            Self::NoRoute { from, to } => write!(f, "no route leads from \"{from}\" to \"{to}\""),
            Self::RoutingLoop { from, to } => {
                write!(f, "the routes from \"{from}\" to \"{to}\" form a loop")
            }
        }
    }
}

impl std::error::Error for TopologyError {}
