//! How the nodes of a case are joined.

use std::net::{IpAddr, Ipv4Addr};

use datapath::fib::Prefix;
use datapath::qdisc::fifo::FifoKind;
use datapath::rng::Rng;
use datapath::units::Duration;

use super::blueprint::{Blueprint, Transfer};
use crate::draw::circle;

/// Rate of every link but the bottleneck, Mbit/s.
const ACCESS_MBIT: u64 = 10_000;
/// So many hosts of a side are at one router: it has 65,535 ports at most.
const HOSTS_MOST: u32 = 50_000;
/// Delay of each link of a fat tree.
const FAT_TREE_DELAY: Duration = Duration::from_micros(1);
/// Queue of each port of its switches, bytes.
const FAT_TREE_QUEUE: u32 = 1_000_000;
/// Who sends to whom in it is drawn from this.
const FAT_TREE_SEED: u64 = 1;

/// The bottleneck of a case, and how many share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    pub flows: u32,
    pub mbit: u64,
    pub rtt_us: u64,
    /// Packets.
    pub queue: u32,
    /// Time between the starts of two flows.
    pub stagger: Duration,
}

/// Pairs of hosts on both sides of two routers.
pub(super) fn dumbbell(case: &Bottleneck) -> Blueprint {
    let mut net = Blueprint::default();
    let near = net.node("near".to_string(), true);
    let far = net.node("far".to_string(), true);
    let middle = net.wire([near, far], case.mbit, Duration::from_micros(case.rtt_us * 2 / 5));
    net.wires[middle].queues[0] = Some(FifoKind::Packets(case.queue));
    let (mut from_side, mut to_side) = (Side::new("n", near, case), Side::new("f", far, case));
    for flow in 0..case.flows {
        let from = from_side.host(&mut net, format!("s{flow}"), true);
        let to = to_side.host(&mut net, format!("r{flow}"), false);
        net.flows.push(Transfer { from, to, start: case.stagger * u64::from(flow) });
    }
    net
}

/// One side of a dumbbell: its hosts are at the router, or at switches there where it has not got ports for them all.
struct Side<'a> {
    name: &'a str,
    router: usize,
    case: &'a Bottleneck,
    /// Where the next host goes: the router, or the latest switch.
    at: usize,
    /// How many hosts there are on this side.
    hosts: u32,
}

impl<'a> Side<'a> {
    fn new(name: &'a str, router: usize, case: &'a Bottleneck) -> Self {
        Self { name, router, case, at: router, hosts: 0 }
    }

    /// A host more, whose wire begins at it or ends there.
    fn host(&mut self, net: &mut Blueprint, name: String, sends: bool) -> usize {
        let tiers = if self.case.flows > HOSTS_MOST { 2 } else { 1 };
        let delay = Duration::from_micros(self.case.rtt_us / 20 / tiers);
        let ends = |inner: usize, outer: usize| if sends { [outer, inner] } else { [inner, outer] };
        if tiers == 2 && self.hosts.is_multiple_of(HOSTS_MOST) {
            self.at = net.node(format!("{}{}", self.name, self.hosts / HOSTS_MOST), true);
            net.wire(ends(self.router, self.at), self.case.mbit, delay);
        }
        self.hosts += 1;
        let host = net.node(name, false);
        net.wire(ends(self.at, host), ACCESS_MBIT, delay);
        host
    }
}

/// Many hosts, one router, one receiver.
pub(super) fn incast(case: &Bottleneck) -> Blueprint {
    let mut net = Blueprint::default();
    let near = net.node("near".to_string(), true);
    let to = net.node("receiver".to_string(), false);
    let delay = Duration::from_micros(case.rtt_us / 4);
    let middle = net.wire([near, to], case.mbit, delay);
    net.wires[middle].queues[0] = Some(FifoKind::Packets(case.queue));
    for flow in 0..case.flows {
        let from = net.node(format!("s{flow}"), false);
        net.wire([from, near], ACCESS_MBIT, delay);
        net.flows.push(Transfer { from, to, start: case.stagger * u64::from(flow) });
    }
    net
}

/// A three-level fat tree of switches with `k` ports: `k³/4` hosts in `k` pods, each of which sends
/// to another one and receives from one ("A scalable, commodity data center network architecture",
/// SIGCOMM 2008). Each switch spreads what goes up over all its uplinks.
pub(super) fn fat_tree(k: u32, stagger: Duration) -> Blueprint {
    let mut net = Blueprint::default();
    let half = k / 2;
    let cores: Vec<usize> =
        (0..half * half).map(|core| net.node(format!("core{core}"), true)).collect();
    let mut hosts = Vec::new();
    for pod in 0..k {
        let up: Vec<usize> = (0..half).map(|it| net.node(format!("p{pod}a{it}"), true)).collect();
        for (agg, group) in up.iter().zip(cores.chunks(half as usize)) {
            for core in group {
                let wire = link(&mut net, [*agg, *core]);
                net.nodes[*core].routes.push((pod_prefix(pod), vec![wire]));
                way_up(&mut net, *agg, wire);
            }
        }
        for edge in 0..half {
            let switch = net.node(format!("p{pod}e{edge}"), true);
            for agg in &up {
                let wire = link(&mut net, [switch, *agg]);
                net.nodes[*agg].routes.push((edge_prefix(pod, edge), vec![wire]));
                way_up(&mut net, switch, wire);
            }
            for host in 0..half {
                let node = net.node(format!("h{}", hosts.len()), false);
                let wire = net.wire([node, switch], ACCESS_MBIT, FAT_TREE_DELAY);
                net.wires[wire].addresses = Some(host_addresses(pod, edge, host));
                net.wires[wire].queues[1] = Some(FifoKind::Bytes(FAT_TREE_QUEUE));
                hosts.push(node);
            }
        }
    }
    for (flow, (&from, partner)) in (0..).zip(hosts.iter().zip(partners(hosts.len()))) {
        net.flows.push(Transfer { from, to: hosts[partner], start: stagger * flow });
    }
    net
}

/// A link between two switches, with addresses that no route names.
fn link(net: &mut Blueprint, ends: [usize; 2]) -> usize {
    let wire = net.wire(ends, ACCESS_MBIT, FAT_TREE_DELAY);
    net.wires[wire].queues = [Some(FifoKind::Bytes(FAT_TREE_QUEUE)); 2];
    let network = u32::from(Ipv4Addr::new(172, 16, 0, 0)) + 2 * wire as u32;
    net.wires[wire].addresses =
        Some([network, network + 1].map(|it| (IpAddr::V4(Ipv4Addr::from_bits(it)), 31)));
    wire
}

/// One more wire of a switch's default route.
fn way_up(net: &mut Blueprint, switch: usize, wire: usize) {
    let routes = &mut net.nodes[switch].routes;
    match routes.iter_mut().find(|(prefix, _)| *prefix == Prefix::DEFAULT_V4) {
        Some((_, wires)) => wires.push(wire),
        None => routes.push((Prefix::DEFAULT_V4, vec![wire])),
    }
}

fn prefix(address: Ipv4Addr, len: u8) -> Prefix {
    Prefix::new(address.into(), len).expect("no bits behind its length")
}

fn pod_prefix(pod: u32) -> Prefix {
    prefix(Ipv4Addr::new(10, pod as u8, 0, 0), 16)
}

fn edge_prefix(pod: u32, edge: u32) -> Prefix {
    prefix(Ipv4Addr::new(10, pod as u8, edge as u8, 0), 24)
}

fn host_addresses(pod: u32, edge: u32, host: u32) -> [(IpAddr, u8); 2] {
    let address = |it| Ipv4Addr::new(10, pod as u8, edge as u8, it as u8).into();
    [(address(2 * host), 31), (address(2 * host + 1), 31)]
}

/// To whom each of so many sends: one circle through all of them, in an order that is drawn.
fn partners(count: usize) -> Vec<usize> {
    circle(count, &mut Rng::stream(FAT_TREE_SEED, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fat_tree_has_its_numbers() {
        let net = fat_tree(4, Duration::ZERO);
        let routers = net.nodes.iter().filter(|node| node.router).count();
        assert_eq!((net.nodes.len() - routers, routers), (16, 20));
        assert_eq!(net.wires.len(), 3 * 16);
        let ups = |node: &&super::super::blueprint::Node| {
            node.routes.iter().any(|(_, wires)| wires.len() == 2)
        };
        assert_eq!(net.nodes.iter().filter(ups).count(), 16, "edges and aggregations spread");
    }

    #[test]
    fn every_host_sends_to_another_and_receives_from_one() {
        let mut heard = partners(128);
        assert!(heard.iter().enumerate().all(|(from, to)| from != *to));
        heard.sort_unstable();
        assert_eq!(heard, (0..128).collect::<Vec<_>>());
    }

    fn dumbbell_of(flows: u32) -> Blueprint {
        dumbbell(&Bottleneck {
            flows,
            mbit: 100,
            rtt_us: 20_000,
            queue: 9,
            stagger: Duration::ZERO,
        })
    }

    #[test]
    fn no_router_of_a_large_dumbbell_has_more_ports_than_there_can_be() {
        let net = dumbbell_of(2 * HOSTS_MOST);
        let mut ports = vec![0_usize; net.nodes.len()];
        net.wires.iter().flat_map(|wire| wire.ends).for_each(|end| ports[end] += 1);
        assert_eq!(ports.iter().max(), Some(&(HOSTS_MOST as usize + 1)));
        assert!(HOSTS_MOST < u32::from(u16::MAX));
        assert_eq!(net.nodes.iter().filter(|node| node.router).count(), 2 + 2 * 2);
    }

    #[test]
    fn a_path_through_a_dumbbell_takes_as_long_with_switches_as_without() {
        for (flows, wires) in [(1, 3), (HOSTS_MOST + 1, 5)] {
            let net = dumbbell_of(flows);
            let (mut at, mut way) = (net.flows[0].to, Vec::new());
            while let Some(wire) = net.wires.iter().find(|wire| wire.ends[1] == at) {
                way.push(wire.delay.as_nanos());
                at = wire.ends[0];
            }
            assert_eq!((way.len(), way.iter().sum::<u64>()), (wires, 10_000_000), "{flows} flows");
        }
    }
}
