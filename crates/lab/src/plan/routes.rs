//! Which links lead where: found by itself where there is only one way, by `[routes]` otherwise.

use std::collections::BTreeMap;

use datapath::fib::Features;

use super::diagnostic::suggest;
use super::doc::{Key, Node, Origin};
use super::names::{Index, NamedNodes};
use super::network::{LinkPlan, NodePlan, Role};
use super::read::{Faults, Reader, as_texts};
use super::shortest::{self, Classes};

/// What a node knows about the way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop<'a> {
    /// There is no way.
    None,
    /// By this link, or by one of several that share the load.
    Links(&'a [usize]),
    /// Several links lead there and no route says which.
    Ambiguous,
}

/// The routes that are written for one node.
#[derive(Clone, Debug, Default)]
struct OwnRoutes {
    /// The links for all destinations that have none of their own.
    default: Option<Vec<usize>>,
    /// The links for each destination.
    to: BTreeMap<usize, Vec<usize>>,
}

/// The routes of the table `[routes]`.
#[derive(Debug, Default)]
pub struct RouteTable {
    /// By node.
    of_node: BTreeMap<usize, OwnRoutes>,
    /// Node, destination, and the features of that route.
    pub features: BTreeMap<(usize, usize), Features>,
}

/// Reads `[routes.NODE]` tables: `DESTINATION = "LINK [features ecn]"`, or a list of links,
/// where the destination is a node or `default`.
pub fn read(
    entries: &[(Key, Node)],
    named: &NamedNodes<'_>,
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> RouteTable {
    let nodes = named.plans;
    let mut written = RouteTable::default();
    let index = Index::new(links.len(), |link| &links[link].name);
    for (key, table) in entries {
        let Some(node) = named.find(&key.name) else {
            if faults.accepts_more() {
                let help = suggest(&key.name, named.names());
                faults.add(&key.at, format!("no node is called \"{}\"", key.name), help);
            }
            continue;
        };
        let super::doc::Kind::Table(rows) = &table.kind else {
            Reader::new(table, faults);
            continue;
        };
        let mut own = OwnRoutes::default();
        for (to, value) in rows {
            let ways = as_texts(value, faults);
            let found: Vec<(usize, Features)> = ways
                .iter()
                .filter_map(|way| own_link(*way, node, (links, &index), faults))
                .collect();
            if found.len() < ways.len() || found.is_empty() {
                continue;
            }
            let of_route = Features(found.iter().fold(0, |all, (_, features)| all | features.0));
            let found: Vec<usize> = found.into_iter().map(|(link, _)| link).collect();
            let mut note = |target: usize| {
                if of_route != Features::default() {
                    written.features.entry((node, target)).or_insert(of_route);
                }
            };
            if to.name == "default" {
                own.default = Some(found);
                (0..nodes.len()).for_each(note);
            } else if let Some(target) = named.find(&to.name) {
                own.to.insert(target, found);
                note(target);
            } else if faults.accepts_more() {
                let help = suggest(&to.name, named.names().chain(["default"]));
                faults.add(&to.at, format!("no node is called \"{}\"", to.name), help);
            }
        }
        if own.default.is_some() || !own.to.is_empty() {
            written.of_node.insert(node, own);
        }
    }
    written
}

/// The link of `node` that a text names, and the features behind it.
fn own_link(
    (text, at): (&str, &Origin),
    node: usize,
    (links, index): (&[LinkPlan], &Index),
    faults: &Faults<'_>,
) -> Option<(usize, Features)> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let features = match words.collect::<Vec<_>>().as_slice() {
        [] => Features::default(),
        ["features", "ecn"] => Features::ECN,
        _ => {
            let help = Some("only \"features ecn\" may follow the link".into());
            faults.add(at, "this route cannot be parsed", help);
            Features::default()
        }
    };
    let own = |link: &LinkPlan| link.ends.contains(&node);
    let called = index.find(name, |link| &links[link].name);
    let found = called.iter().copied().find(|link| own(&links[*link]));
    if found.is_none() && faults.accepts_more() {
        let names = links.iter().filter(|link| own(link)).map(|link| link.name.as_str());
        let help = suggest(name, names);
        faults.add(at, format!("this node has no link \"{name}\""), help);
    }
    found.map(|link| (link, features))
}

/// The shortest paths from every node to every other one.
///
/// Of a node with one link nothing is kept but that link: everything that its neighbour reaches is
/// reached by it. So a star of n hosts takes n entries, and not n times n; nodes whose links are faulty take none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortestPaths {
    rows: Vec<Row>,
    /// The sets of links that share a load; the first ones are the links, each alone.
    sets: Vec<Vec<usize>>,
    /// Of each node the areas of routers in which it is known: a router's own, a host's neighbours'.
    areas: Vec<Vec<u32>>,
    /// What [`Row::Shared`] is about; empty without such rows.
    classes: Classes,
}

/// The ways from one node.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Row {
    /// No link, and no way.
    Alone,
    /// One link and the node at its far end, with the area of that one if it forwards.
    Stub { link: usize, far: usize, area: Option<u32> },
    /// By destination, an index of [`ShortestPaths::sets`], or one of the two below.
    Table(Vec<u32>),
    /// The same by class of destinations: shortest paths of a network with loops.
    Shared(Vec<u32>),
}

/// There is no way.
const NO_WAY: u32 = u32::MAX;
/// Several links lead there.
const AMBIGUOUS: u32 = u32::MAX - 1;

impl ShortestPaths {
    /// A link leads to a destination if the destination can be reached from its far end without
    /// coming back through the node. With exactly one such link the route is plain; with several
    /// the plan must say which.
    pub fn resolve(nodes: &[NodePlan], links: &[LinkPlan], written: &RouteTable) -> Self {
        let adjacent = adjacency(nodes.len(), links);
        let mut sets: Vec<Vec<usize>> = (0..links.len()).map(|link| vec![link]).collect();
        let mut search = Search::new(nodes, &adjacent);
        let area_of = router_areas(nodes, &adjacent);
        let rows = (0..nodes.len())
            .map(|node| match (adjacent[node].as_slice(), written.of_node.get(&node)) {
                (&[], None) => Row::Alone,
                (&[(link, far)], None) => Row::Stub { link, far, area: area_of[far] },
                (_, own) => Row::Table(table(node, &mut search, own, &mut sets)),
            })
            .collect();
        let areas = areas(&adjacent, &area_of);
        Self { rows, sets, areas, classes: Classes::default() }
    }

    /// Shortest paths by what links cost, over all of the equal ones, but where the plan says
    /// something else. `down` links lead nowhere; an empty list is none.
    pub fn shortest(
        nodes: &[NodePlan],
        links: &[LinkPlan],
        written: &RouteTable,
        down: &[bool],
    ) -> Self {
        let adjacent = adjacency(nodes.len(), links);
        let mut sets: Vec<Vec<usize>> = (0..links.len()).map(|link| vec![link]).collect();
        let area_of = router_areas(nodes, &adjacent);
        let classes = Classes::new(nodes, &adjacent);
        let own = |node: usize| written.of_node.get(&node);
        let is_stub = |node: usize| adjacent[node].len() == 1 && own(node).is_none();
        let wanted = |node: usize| !is_stub(node);
        let shared = shortest::rows(nodes, links, &adjacent, &classes, down, wanted, &mut sets);
        let mut ways = Self { areas: areas(&adjacent, &area_of), classes, ..Self::default() };
        ways.rows = shared
            .into_iter()
            .enumerate()
            .map(|(node, row)| match adjacent[node].as_slice() {
                &[(link, far)] if is_stub(node) => Row::Stub { link, far, area: area_of[far] },
                _ => Row::Shared(row),
            })
            .collect();
        for (&node, own) in &written.of_node {
            let mut row: Vec<u32> = (0..nodes.len()).map(|to| ways.set(node, to)).collect();
            overrule(&mut row, own, &mut sets);
            ways.rows[node] = Row::Table(row);
        }
        ways.sets = sets;
        ways
    }

    /// The same of a network in which `down` links lead nowhere, with nothing said of its routes.
    pub fn without(nodes: &[NodePlan], links: &[LinkPlan], down: &[bool]) -> Self {
        Self::shortest(nodes, links, &RouteTable::default(), down)
    }

    /// Of a node whose table is shared: each class of destinations elsewhere and the links there.
    pub fn shared(&self, node: usize) -> Option<impl Iterator<Item = (usize, &[usize])>> {
        let Row::Shared(row) = &self.rows[node] else { return None };
        let ways = row.iter().enumerate().filter(|(_, set)| **set < AMBIGUOUS);
        Some(ways.map(|(class, set)| (class, self.sets[*set as usize].as_slice())))
    }

    /// How many destinations a shared table has.
    pub fn class_count(nodes: &[NodePlan], links: &[LinkPlan]) -> usize {
        Classes::new(nodes, &adjacency(nodes.len(), links)).len()
    }

    /// Which destinations are reached alike.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// How many nodes need a table of routes.
    pub fn tables(nodes: &[NodePlan], links: &[LinkPlan], written: &RouteTable) -> Vec<usize> {
        let adjacent = adjacency(nodes.len(), links);
        let several = |&node: &usize| {
            adjacent[node].len() > 1
                || written.of_node.contains_key(&node)
                || nodes[node].has_own_routes()
        };
        (0..nodes.len()).filter(several).collect()
    }

    /// The way from `node` to `to`.
    pub fn hop(&self, node: usize, to: usize) -> Hop<'_> {
        match self.set(node, to) {
            NO_WAY => Hop::None,
            AMBIGUOUS => Hop::Ambiguous,
            set => Hop::Links(&self.sets[set as usize]),
        }
    }

    /// The index of the links from `node` to `to`.
    fn set(&self, node: usize, to: usize) -> u32 {
        match &self.rows[node] {
            Row::Alone => NO_WAY,
            Row::Table(row) => row[to],
            Row::Shared(row) => match self.classes.of(to) {
                Some(class) if self.classes.root(class) == node && to != node => {
                    self.classes.only_link(to)
                }
                Some(class) => row[class],
                None => NO_WAY,
            },
            Row::Stub { link, far, area } => {
                let known = area.is_some_and(|area| self.areas[to].contains(&area));
                if node != to && (to == *far || known) { *link as u32 } else { NO_WAY }
            }
        }
    }

    /// The links from `node` to `to` alone, where they are known.
    pub fn links(&self, node: usize, to: usize) -> &[usize] {
        match self.hop(node, to) {
            Hop::Links(links) => links,
            Hop::None | Hop::Ambiguous => &[],
        }
    }

    /// True if the node has one link, and a route by it to everything says all.
    pub fn is_stub(&self, node: usize) -> bool {
        matches!(self.rows[node], Row::Stub { .. })
    }
}

/// The ways from a node with several links, or with routes that are written.
fn table(
    node: usize,
    search: &mut Search<'_>,
    own: Option<&OwnRoutes>,
    sets: &mut Vec<Vec<usize>>,
) -> Vec<u32> {
    let mut row = vec![NO_WAY; search.nodes.len()];
    for &(link, neighbour) in &search.adjacent[node] {
        for &reached in search.reachable(neighbour, node) {
            row[reached] = if row[reached] == NO_WAY { link as u32 } else { AMBIGUOUS };
        }
    }
    if let Some(own) = own {
        overrule(&mut row, own, sets);
    }
    row
}

/// Puts what is written in place of what was found.
fn overrule(row: &mut [u32], own: &OwnRoutes, sets: &mut Vec<Vec<usize>>) {
    let mut set = |links: &[usize]| {
        if let [link] = links {
            return *link as u32;
        }
        sets.push(links.to_vec());
        sets.len() as u32 - 1
    };
    if let Some(links) = &own.default {
        row.fill(set(links));
    }
    for (to, links) in &own.to {
        row[*to] = set(links);
    }
}

/// In which areas each node is known.
fn areas(adjacent: &[Vec<(usize, usize)>], area_of: &[Option<u32>]) -> Vec<Vec<u32>> {
    let of = |(node, neighbours): (usize, &Vec<(usize, usize)>)| match area_of[node] {
        Some(area) => vec![area],
        None => known_areas(neighbours, area_of),
    };
    adjacent.iter().enumerate().map(of).collect()
}

/// The routers that reach each other over routers have an area together. Hosts have none.
fn router_areas(nodes: &[NodePlan], adjacent: &[Vec<(usize, usize)>]) -> Vec<Option<u32>> {
    let mut areas = vec![None; nodes.len()];
    let mut next = 0;
    let routers = (0..nodes.len()).filter(|&node| nodes[node].role == Role::Router);
    for start in routers {
        if areas[start].is_some() {
            continue;
        }
        areas[start] = Some(next);
        let mut list = vec![start];
        while let Some(node) = list.pop() {
            for &(_, neighbour) in &adjacent[node] {
                if nodes[neighbour].role == Role::Router && areas[neighbour].is_none() {
                    areas[neighbour] = Some(next);
                    list.push(neighbour);
                }
            }
        }
        next += 1;
    }
    areas
}

/// The areas of a host's neighbours, each once.
fn known_areas(neighbours: &[(usize, usize)], area_of: &[Option<u32>]) -> Vec<u32> {
    let mut areas: Vec<u32> = neighbours.iter().filter_map(|(_, far)| area_of[*far]).collect();
    areas.sort_unstable();
    areas.dedup();
    areas
}

/// For each node its links and the node at their far end.
fn adjacency(nodes: usize, links: &[LinkPlan]) -> Vec<Vec<(usize, usize)>> {
    let mut adjacent = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate() {
        let [a, b] = link.ends;
        adjacent[a].push((index, b));
        adjacent[b].push((index, a));
    }
    adjacent
}

/// Finds what can be reached, many times over, without new memory each time.
struct Search<'a> {
    nodes: &'a [NodePlan],
    adjacent: &'a [Vec<(usize, usize)>],
    /// The search that has met a node last.
    seen: Vec<u32>,
    number: u32,
    list: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(nodes: &'a [NodePlan], adjacent: &'a [Vec<(usize, usize)>]) -> Self {
        Self { nodes, adjacent, seen: vec![0; nodes.len()], number: 0, list: Vec::new() }
    }

    /// Every node that can be reached from `start` without passing `without`; hosts end a way.
    fn reachable(&mut self, start: usize, without: usize) -> &[usize] {
        self.number += 1;
        self.seen[without] = self.number;
        self.seen[start] = self.number;
        self.list.clear();
        self.list.push(start);
        let mut next = 0;
        while next < self.list.len() {
            let node = self.list[next];
            next += 1;
            if self.nodes[node].role == Role::Host {
                continue;
            }
            for &(_, neighbour) in &self.adjacent[node] {
                if std::mem::replace(&mut self.seen[neighbour], self.number) != self.number {
                    self.list.push(neighbour);
                }
            }
        }
        &self.list
    }
}
