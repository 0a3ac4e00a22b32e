//! `[topology]`: networks that are generated, or read from a graph file.

mod address;
mod graph;
mod random;
mod shapes;

use std::rc::Rc;

use datapath::fib::hash::Policy;
use datapath::units::{Duration, Rate};

use super::doc::{Key, Node, Origin};
use super::ip::Lines;
use super::links::amended;
use super::model::{Fabric, Weights};
use super::names::{check_unique, matches};
use super::network::{COST, Direction, LinkPlan, NodePlan, PortPlan, Role};
use super::nodes::{Nodes, read_node};
use super::read::{Faults, Reader};
use super::{limit_checks, limits};
use address::IpVersion;
use shapes::{Kind, Shape, ShapeLink, Tier};

/// What `[topology]` makes: nodes and links that come behind the written ones.
pub struct Generated<'a> {
    /// Where it was written.
    at: &'a Origin,
    /// The first of its nodes in those of the plan.
    first: usize,
    shape: Shape,
    wires: Wires,
    /// `[topology.links]`.
    amend: &'a [(Key, Node)],
    weights: Weights,
    converge: Option<Duration>,
    version: IpVersion,
}

/// What the links of a tier are where nothing else is said.
struct Wires {
    access: Direction,
    fabric: Direction,
    mtu: u32,
}

/// The words after `kind =`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Dumbbell,
    ParkingLot,
    Star,
    LeafSpine,
    FatTree,
    RandomRegular,
    Graph,
}

const WORDS: [(&str, Word); 7] = [
    ("dumbbell", Word::Dumbbell),
    ("parking-lot", Word::ParkingLot),
    ("star", Word::Star),
    ("leaf-spine", Word::LeafSpine),
    ("fat-tree", Word::FatTree),
    ("random-regular", Word::RandomRegular),
    ("graph", Word::Graph),
];

const POLICIES: [(&str, Policy); 3] =
    [("l3", Policy::L3), ("l4", Policy::L4), ("inner", Policy::Inner)];

const WEIGHTS: [(&str, Weights); 2] = [("equal", Weights::Equal), ("rate", Weights::Rate)];

/// The most of anything that a number in `[topology]` may ask for; what that makes together is
/// reckoned besides.
const COUNT_MAX: i64 = limits::LINKS_MAX as i64;

/// Reads `[topology]` and puts its nodes behind the others.
pub fn read<'a>(
    node: &'a Node,
    defaults: &NodePlan,
    nodes: &mut Nodes<'a>,
    faults: &'a Faults<'_>,
) -> Option<Generated<'a>> {
    let mut table = Reader::new(node, faults)?;
    table.demand("kind");
    let word = table.word("kind", &WORDS)?;
    let (shape, hosts_per_uplink) = read_shape(word, &mut table)?;
    let counts = (shape.nodes.len(), shape.links.len());
    if !fits(counts, nodes.plans.len(), &node.at, faults) {
        return None;
    }
    let wires = read_wires(word, hosts_per_uplink, &mut table);
    let policy = table.word("hash_policy", &POLICIES).unwrap_or(Policy::L4);
    let weights = table.word("weights", &WEIGHTS).unwrap_or(Weights::Equal);
    let converge = table.time("converge");
    let version = match table.integer("ip_version", 4..=6) {
        None | Some(4) => IpVersion::V4,
        Some(6) => IpVersion::V6,
        Some(_) => {
            faults.add(table.origin_of("ip_version"), "\"ip_version\" is 4 or 6", None);
            IpVersion::V4
        }
    };
    let own = table.tables("nodes");
    let amend = table.tables("links");
    table.finish();
    check_rates(&shape, &wires, word, &node.at, faults);

    let first = nodes.plans.len();
    for (name, role) in &shape.nodes {
        let hash_policy = (*role == Role::Router).then_some(policy);
        let plan = NodePlan { name: name.clone(), role: *role, hash_policy, ..defaults.clone() };
        nodes.plans.push(plan);
        nodes.places.push(&node.at);
        nodes.lines.push(Vec::new());
    }
    amend_nodes(own, nodes, first, faults);
    nodes.check_names(faults);
    Some(Generated { at: &node.at, first, shape, wires, amend, weights, converge, version })
}

impl<'a> Generated<'a> {
    /// Puts its links behind the others. `None` if they are too many.
    pub fn add_links(
        &self,
        links: &mut Vec<LinkPlan>,
        places: &mut Vec<&'a Origin>,
        nodes: &[NodePlan],
        faults: &Faults<'_>,
    ) -> Option<Fabric> {
        let count = Some(self.shape.links.len());
        if !limit_checks::within_limit(
            "links",
            links.len(),
            count,
            limits::LINKS_MAX,
            self.at,
            faults,
        ) {
            return None;
        }
        let before = links.len();
        links.extend(self.shape.links.iter().map(|link| self.link(link)));
        places.extend(self.shape.links.iter().map(|_| self.at));
        self.amend_links(&mut links[before..], faults);
        check_unique("link", links.iter().map(|link| link.name.as_str()), places, faults);
        let blocks = address::assign(&mut links[before..], nodes, self.version);
        Some(Fabric { blocks, weights: self.weights, converge: self.converge })
    }

    fn link(&self, link: &ShapeLink) -> LinkPlan {
        let of_tier = match link.tier {
            Tier::Access => &self.wires.access,
            Tier::Fabric => &self.wires.fabric,
        };
        let direction = Direction {
            rate: link.rate.or(of_tier.rate),
            delay: link.delay.unwrap_or(of_tier.delay),
            ..Direction::default()
        };
        LinkPlan {
            name: link.name.clone(),
            ends: link.ends.map(|end| self.first + end),
            mtu: self.wires.mtu,
            cost: link.cost.unwrap_or(COST),
            veth: false,
            addresses: None,
            directions: [direction.clone(), direction],
            ports: [PortPlan::default(), PortPlan::default()],
            events: Vec::new(),
        }
    }

    /// `[topology.links]`: `"leaf-1-*" = { events = ["2s down"] }`.
    fn amend_links(&self, links: &mut [LinkPlan], faults: &Faults<'_>) {
        let mut texts = 0;
        for (key, node) in self.amend {
            let mut found = false;
            for link in links.iter_mut().filter(|link| matches(&key.name, &link.name)) {
                found = true;
                let Some(changed) = amended(node, link, faults) else { break };
                *link = changed;
                texts += link.events.len()
                    + link.directions.iter().map(|one| one.rules.len()).sum::<usize>();
                let most = limits::TEXTS_MAX;
                if !limit_checks::within_limit(
                    "rules and events",
                    0,
                    Some(texts),
                    most,
                    &key.at,
                    faults,
                ) {
                    return;
                }
            }
            if !found {
                let message = format!("no link of the topology is called \"{}\"", key.name);
                let help = super::suggest(&key.name, links.iter().map(|link| link.name.as_str()));
                faults.add(&key.at, message, help);
            }
        }
    }
}

/// `[topology.nodes]`: `"leaf-*" = { buffer = "4mb" }`. It is about the nodes from the `first` on.
fn amend_nodes<'a>(
    entries: &'a [(Key, Node)],
    nodes: &mut Nodes<'a>,
    first: usize,
    faults: &Faults<'_>,
) {
    let (plans, all_lines) = (&mut nodes.plans[first..], &mut nodes.lines[first..]);
    let mut texts = 0;
    for (key, node) in entries {
        let mut found = false;
        let lines = Rc::new(Lines::of(&key.name, node));
        let fitting = plans.iter_mut().zip(all_lines.iter_mut());
        for (plan, own) in fitting.filter(|(plan, _)| matches(&key.name, &plan.name)) {
            found = true;
            own.push(Rc::clone(&lines));
            let before = faults.is_empty();
            let Some(mut table) = Reader::new(node, faults) else { break };
            *plan = read_node(&mut table, std::mem::take(plan));
            table.finish();
            texts += plan.ip.len() + plan.at.len() + plan.sysctls.len();
            let most = limits::TEXTS_MAX;
            let fits = limit_checks::within_limit(
                "lines for nodes",
                0,
                Some(texts),
                most,
                &key.at,
                faults,
            );
            if !fits || (before && !faults.is_empty()) {
                return;
            }
        }
        if !found {
            let message = format!("no node of the topology is called \"{}\"", key.name);
            let help = super::suggest(&key.name, plans.iter().map(|node| node.name.as_str()));
            faults.add(&key.at, message, help);
        }
    }
}

/// The network, and how many hosts share an uplink where `oversubscription` is about that.
fn read_shape(word: Word, table: &mut Reader<'_, '_>) -> Option<(Shape, Option<(usize, usize)>)> {
    if word == Word::Graph {
        let hosts = table.integer("hosts", 0..=COUNT_MAX).unwrap_or(0) as usize;
        let cost = table.text("cost");
        let (file, at) = table.required("file")?;
        let read = graph::read(&table.path_beside(file), hosts, cost);
        return match read.and_then(in_one_piece) {
            Ok(shape) => Some((shape, None)),
            Err(why) => {
                table.faults.add(at, why, None);
                None
            }
        };
    }
    let kind = read_kind(word, table)?;
    let (nodes, links) = kind.counts().unwrap_or((usize::MAX, usize::MAX));
    if !fits((nodes, links), 0, table.at, table.faults) {
        return None;
    }
    let uplinks = match kind {
        Kind::LeafSpine { spines, hosts, .. } => Some((hosts, spines)),
        Kind::FatTree { k, hosts } => Some((hosts, k / 2)),
        _ => None,
    };
    Some((kind.shape(), uplinks))
}

/// The graph, if every node reaches every other one.
fn in_one_piece(shape: Shape) -> Result<Shape, String> {
    match random::unreached(shape.nodes.len(), shape.links.iter().map(|link| link.ends)) {
        None if shape.links.is_empty() => Err("the graph has no links".into()),
        None => Ok(shape),
        Some(lost) => {
            let (first, lost) = (&shape.nodes[0].0, &shape.nodes[lost].0);
            Err(format!(
                "the graph is not connected: no path leads from \"{first}\" to \"{lost}\"; \
                 connect it, or write one component \
                 (G.subgraph(networkx.node_connected_component(G, \"{first}\")))"
            ))
        }
    }
}

fn fits((nodes, links): (usize, usize), before: usize, at: &Origin, faults: &Faults<'_>) -> bool {
    limit_checks::within_limit("nodes", before, Some(nodes), limits::NODES_MAX, at, faults)
        && limit_checks::within_limit("links", 0, Some(links), limits::LINKS_MAX, at, faults)
}

fn read_kind(word: Word, table: &mut Reader<'_, '_>) -> Option<Kind> {
    Some(match word {
        Word::Dumbbell => Kind::Dumbbell { hosts: count(table, "hosts", 1)? },
        Word::ParkingLot => {
            let hosts = table.integer("hosts", 1..=COUNT_MAX).unwrap_or(2) as usize;
            Kind::ParkingLot { hops: count(table, "hops", 1)?, hosts }
        }
        Word::Star => Kind::Star { hosts: count(table, "hosts", 1)? },
        Word::LeafSpine => Kind::LeafSpine {
            leaves: count(table, "leaves", 1)?,
            spines: count(table, "spines", 1)?,
            hosts: count(table, "hosts", 1)?,
        },
        Word::FatTree => {
            let k = count(table, "k", 2)?;
            if k % 2 == 1 {
                table.faults.add(table.origin_of("k"), "\"k\" must be even", None);
                return None;
            }
            let hosts = table.integer("hosts", 1..=COUNT_MAX);
            Kind::FatTree { k, hosts: hosts.map_or(k / 2, |hosts| hosts as usize) }
        }
        Word::RandomRegular | Word::Graph => {
            let (switches, degree) = (count(table, "switches", 2)?, count(table, "degree", 1)?);
            check_degree(switches, degree, table)?;
            let seed = table.integer("seed", 0..=i64::MAX).unwrap_or(1) as u64;
            Kind::RandomRegular { switches, degree, hosts: count(table, "hosts", 1)?, seed }
        }
    })
}

/// There is a connected graph in which each of `switches` has `degree` neighbours.
fn check_degree(switches: usize, degree: usize, table: &Reader<'_, '_>) -> Option<()> {
    let message = if degree >= switches {
        format!("each of {switches} switches can be linked to at most {} others", switches - 1)
    } else if switches % 2 == 1 && degree % 2 == 1 {
        format!(
            "{switches} switches of degree {degree} would leave half a link; one of the two \
            numbers must be even"
        )
    } else if degree == 1 && switches > 2 {
        "switches with one link each would not form a connected graph".into()
    } else {
        return Some(());
    };
    table.faults.add(table.origin_of("degree"), message, None);
    None
}

/// A number that must be there.
fn count(table: &mut Reader<'_, '_>, key: &'static str, least: i64) -> Option<usize> {
    table.demand(key);
    table.integer(key, least..=COUNT_MAX).map(|count| count as usize)
}

fn read_wires(word: Word, uplinks: Option<(usize, usize)>, table: &mut Reader<'_, '_>) -> Wires {
    let mtu = table.integer("mtu", 68..=65_535).unwrap_or(1500) as u32;
    let access = Direction {
        rate: table.rate("rate"),
        delay: table.time("delay").unwrap_or_default(),
        ..Direction::default()
    };
    let (rate, delay) = match word {
        Word::Star => (None, None),
        Word::Dumbbell | Word::ParkingLot => {
            (table.rate("bottleneck_rate"), table.time("bottleneck_delay"))
        }
        _ => (table.rate("fabric_rate"), table.time("fabric_delay")),
    };
    let derived = uplinks.and_then(|uplinks| oversubscribed(uplinks, access.rate, rate, table));
    let fabric = Direction {
        rate: rate.or(derived).or(access.rate),
        delay: delay.unwrap_or(access.delay),
        ..Direction::default()
    };
    Wires { access, fabric, mtu }
}

/// `oversubscription`: the rate of all hosts of a switch over that of all its uplinks.
fn oversubscribed(
    (hosts, uplinks): (usize, usize),
    access: Option<Rate>,
    fabric: Option<Rate>,
    table: &mut Reader<'_, '_>,
) -> Option<Rate> {
    let ratio = table.number("oversubscription", 0.001, 1e6)?;
    let place = table.origin_of("oversubscription");
    if fabric.is_some() {
        table.faults.add(
            place,
            "\"oversubscription\" and \"fabric_rate\" are mutually exclusive",
            None,
        );
        return None;
    }
    let bits = access?.bits_per_sec() as f64 * hosts as f64 / uplinks as f64 / ratio;
    Some(Rate::from_bits_per_sec((bits.round() as u64).max(1)))
}

/// A link that takes no time needs to be asked for by a written link.
fn check_rates(shape: &Shape, wires: &Wires, word: Word, at: &Origin, faults: &Faults<'_>) {
    let of_tier = |tier| match tier {
        Tier::Access => wires.access.rate,
        Tier::Fabric => wires.fabric.rate,
    };
    if shape.links.iter().any(|link| link.rate.or(of_tier(link.tier)).is_none()) {
        let help =
            (word == Word::Graph).then(|| "or give every edge of the graph a \"rate\"".to_owned());
        faults.add(at, "\"rate\" is missing", help);
    }
}
