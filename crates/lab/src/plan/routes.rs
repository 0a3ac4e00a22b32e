//! Which links lead where: found by itself where there is only one way, by `[routes]` otherwise.

use datapath::fib::Features;

use super::diagnostic::suggest;
use super::doc::{Key, Node, Origin};
use super::model::{LinkPlan, NodePlan, Role};
use super::read::{Faults, Reader, as_texts};

/// What a node knows about the way to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// There is no way.
    None,
    /// By this link, or by one of several that share the load.
    Links(Vec<usize>),
    /// Several links lead there and no route says which.
    Ambiguous,
}

/// Why packets would not arrive.
pub struct Problem {
    /// The node at fault, if one is.
    pub node: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// The routes that were written: `explicit[node][destination]`, the links that lead there.
pub type Explicit = Vec<Vec<Option<Vec<usize>>>>;

/// What `[routes]` says.
pub struct Written {
    /// The links.
    pub links: Explicit,
    /// Node, destination, and the features of that route.
    pub features: Vec<(usize, usize, Features)>,
}

/// Reads `[routes.NODE]` tables: `DESTINATION = "LINK [features ecn]"`, or a list of links,
/// where the destination is a node or `default`.
pub fn read(
    entries: &[(Key, Node)],
    nodes: &[NodePlan],
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> Written {
    let mut features = Vec::new();
    let mut explicit = vec![vec![None; nodes.len()]; nodes.len()];
    let node_names = || nodes.iter().map(|node| node.name.as_str());
    for (key, table) in entries {
        let Some(node) = node_names().position(|name| name == key.name) else {
            let help = suggest(&key.name, node_names());
            faults.add(&key.at, format!("no node is called \"{}\"", key.name), help);
            continue;
        };
        let super::doc::Kind::Table(rows) = &table.kind else {
            Reader::new(table, faults);
            continue;
        };
        let mut default = None;
        for (to, value) in rows {
            let ways = as_texts(value, faults);
            let found: Vec<(usize, Features)> =
                ways.iter().filter_map(|way| own_link(*way, node, links, faults)).collect();
            if found.len() < ways.len() || found.is_empty() {
                continue;
            }
            let of_route = Features(found.iter().fold(0, |all, (_, features)| all | features.0));
            let found: Vec<usize> = found.into_iter().map(|(link, _)| link).collect();
            let mut note = |target: usize| {
                if of_route != Features::default() {
                    features.push((node, target, of_route));
                }
            };
            if to.name == "default" {
                default = Some(found);
                (0..nodes.len()).for_each(note);
            } else if let Some(target) = node_names().position(|name| name == to.name) {
                explicit[node][target] = Some(found);
                note(target);
            } else {
                let help = suggest(&to.name, node_names().chain(["default"]));
                faults.add(&to.at, format!("no node is called \"{}\"", to.name), help);
            }
        }
        for hop in &mut explicit[node] {
            if hop.is_none() {
                hop.clone_from(&default);
            }
        }
    }
    Written { links: explicit, features }
}

/// The link of `node` that a text names, and the features behind it.
fn own_link(
    (text, at): (&str, &Origin),
    node: usize,
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> Option<(usize, Features)> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let features = match words.collect::<Vec<_>>().as_slice() {
        [] => Features::default(),
        ["features", "ecn"] => Features::ECN,
        _ => {
            let help = Some("after the link only \"features ecn\" may come".into());
            faults.add(at, "a route that is not understood", help);
            Features::default()
        }
    };
    let own = |link: &&LinkPlan| link.ends.contains(&node);
    let found = links.iter().position(|link| own(&link) && link.name == name);
    if found.is_none() {
        let names = links.iter().filter(own).map(|link| link.name.as_str());
        let help = suggest(name, names);
        faults.add(at, format!("this node has no link \"{name}\""), help);
    }
    found.map(|link| (link, features))
}

/// The way from every node to every other one.
///
/// A link leads to a destination if the destination can be reached from its far end without coming
/// back through the node. With exactly one such link the route is plain; with several the plan must
/// say which.
pub fn resolve(nodes: &[NodePlan], links: &[LinkPlan], explicit: &Explicit) -> Vec<Vec<Hop>> {
    let adjacent = adjacency(nodes.len(), links);
    (0..nodes.len())
        .map(|node| {
            let mut hops = vec![Hop::None; nodes.len()];
            for &(link, neighbour) in &adjacent[node] {
                for reached in reachable(neighbour, node, &adjacent, nodes) {
                    hops[reached] = match hops[reached] {
                        Hop::None => Hop::Links(vec![link]),
                        Hop::Links(_) | Hop::Ambiguous => Hop::Ambiguous,
                    };
                }
            }
            for (hop, written) in hops.iter_mut().zip(&explicit[node]) {
                if let Some(links) = written {
                    *hop = Hop::Links(links.clone());
                }
            }
            hops
        })
        .collect()
}

/// The links alone, where they are known.
pub fn known_links(hops: Vec<Hop>) -> Vec<Vec<usize>> {
    hops.into_iter()
        .map(|hop| match hop {
            Hop::Links(links) => links,
            Hop::None | Hop::Ambiguous => Vec::new(),
        })
        .collect()
}

/// Follows the routes from `from` to `to` on every way that packets may take. Where the words of
/// `ip` decide, nobody follows them.
pub fn walk(
    from: usize,
    to: usize,
    nodes: &[NodePlan],
    links: &[LinkPlan],
    hops: &[Vec<Hop>],
) -> Result<(), Problem> {
    let name = |node: usize| nodes[node].name.as_str();
    let mut states = vec![Visit::New; nodes.len()];
    // Nodes to enter, and nodes to leave (`false`) once all behind them is done.
    let mut stack = vec![(from, true)];
    while let Some((node, enter)) = stack.pop() {
        if !enter {
            states[node] = Visit::Done;
            continue;
        }
        if node == to || states[node] == Visit::Done || nodes[node].has_own_routes() {
            continue;
        }
        if states[node] == Visit::Open {
            let message = format!(
                "packets from \"{}\" to \"{}\" would run in a circle",
                name(from),
                name(to)
            );
            let help = Some(format!("see the routes of \"{}\"", name(node)));
            return Err(Problem { node: Some(node), message, help });
        }
        if node != from && nodes[node].role == Role::Host {
            let message = format!(
                "packets from \"{}\" to \"{}\" would have to cross the host \"{}\"",
                name(from),
                name(to),
                name(node)
            );
            let help = Some("make it a router: role = \"router\"".into());
            return Err(Problem { node: Some(node), message, help });
        }
        states[node] = Visit::Open;
        stack.push((node, false));
        match &hops[node][to] {
            Hop::Links(ways) => {
                for &link in ways {
                    let ends = links[link].ends;
                    stack.push((if ends[0] == node { ends[1] } else { ends[0] }, true));
                }
            }
            Hop::None => {
                let message = format!("no way from \"{}\" to \"{}\"", name(from), name(to));
                return Err(Problem { node: None, message, help: None });
            }
            Hop::Ambiguous => {
                let message = format!(
                    "the links form a loop, and \"{}\" has no route to \"{}\"",
                    name(node),
                    name(to)
                );
                let help = Some(format!("add [routes.{}] {} = \"LINK\"", name(node), name(to)));
                return Err(Problem { node: Some(node), message, help });
            }
        }
    }
    Ok(())
}

/// How far a walk has come with a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    /// It lies on the way that is being followed.
    Open,
    /// All ways from it arrive.
    Done,
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

/// Every node that can be reached from `start` without passing `without`; hosts end a way.
fn reachable(
    start: usize,
    without: usize,
    adjacent: &[Vec<(usize, usize)>],
    nodes: &[NodePlan],
) -> Vec<usize> {
    let mut seen = vec![false; adjacent.len()];
    seen[without] = true;
    seen[start] = true;
    let mut list = vec![start];
    let mut next = 0;
    while next < list.len() {
        let node = list[next];
        next += 1;
        if nodes[node].role == Role::Host {
            continue;
        }
        for &(_, neighbour) in &adjacent[node] {
            if !std::mem::replace(&mut seen[neighbour], true) {
                list.push(neighbour);
            }
        }
    }
    list
}
