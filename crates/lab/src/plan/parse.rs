//! From the tree to a [`Plan`]: names, quantities and references.

use std::collections::{BTreeMap, BTreeSet};
use std::{mem, slice};

use datapath::units::Duration;
use sim::topology::{WireId, default_addresses};

use super::app::{App, FlowPlan};
use super::diagnostic::Diagnostics;
use super::doc::{Document, Key, Kind, Node, Origin};
use super::links::{NamedPorts, read_links, read_ports};
use super::measure::{FlentTest, Measure};
use super::model::Plan;
use super::names::NamedNodes;
use super::network::{LinkPlan, NodePlan, Role, Stack};
use super::nodes::{Nodes, read_node, read_nodes};
use super::read::{Faults, Reader};
use super::{flent, flows, ip, limit_checks, limits, plots, routes, topology, walk, workload};

/// The `schema` that this program reads.
const SCHEMA: i64 = 1;

/// Reads a document whose parameters have been put in.
pub fn plan(document: &Document) -> Result<Plan, Diagnostics> {
    let faults = Faults::new(document);
    let plan = read_plan(&document.root, &faults);
    let list = faults.into_sorted();
    match plan {
        Some(plan) if list.is_empty() => Ok(plan),
        _ => Err(Diagnostics(list)),
    }
}

/// Positions of nodes, links and flows in the file, for checks that need all of them.
struct SourcePositions<'a> {
    nodes: Vec<&'a Origin>,
    links: Vec<&'a Origin>,
    flows: Vec<&'a Origin>,
}

fn read_plan(root: &Node, faults: &Faults<'_>) -> Option<Plan> {
    let mut top = Reader::new(root, faults)?;
    read_schema(&mut top);
    let (name, title) = read_names(&mut top);
    top.text("description");
    top.node("parameters");
    top.node("sweep");
    top.node("draw");

    let (duration, warmup) = read_times(&mut top, root);
    let bytes = top.boolean("bytes").unwrap_or(false);
    let seed = top.integer("seed", 0..=i64::MAX).unwrap_or(1) as u64;
    let repetitions = top.integer("repetitions", 1..=100_000).unwrap_or(1) as u32;
    if let Err(problem) = limits::seeds(seed, repetitions) {
        faults.add(top.origin_of("seed"), format!("a seed of {problem}"), None);
    }

    let defaults = read_node(&mut top, NodePlan::default());
    let mut all_nodes = read_nodes(top.tables("nodes"), &defaults, faults)?;
    let generated = match top.node("topology") {
        None => None,
        Some(node) => Some(topology::read(node, &defaults, &mut all_nodes, faults)?),
    };
    let Nodes { plans: nodes, places: node_places, lines } = all_nodes;
    let named = NamedNodes::new(&nodes);
    let (mut links, mut link_places) = read_links(top.tables("links"), &named, faults);
    let fabric = match &generated {
        None => {
            check_no_costs(top.tables("links"), faults);
            None
        }
        Some(made) => Some(made.add_links(&mut links, &mut link_places, &nodes, faults)?),
    };
    let qdiscs = top.tables("qdisc");
    let policers = top.tables("police");
    let ports = NamedPorts::new(&named, &links);
    read_ports(qdiscs, policers, &ports, &mut links, faults);
    let flow_entries = top.tables("flows");
    let (flows, flow_places) = flows::read_flows(flow_entries, &named, duration, faults);
    let routes = top.tables("routes");
    let workload_entries = top.tables("workload");
    let axes = sweep_axes(root);
    let plots = plots::read(top.node("plot"), &axes, faults);
    let measure = read_measure(top.node("measure"), &ports, &links, faults);
    let length_at = root.get("measure").and_then(|measure| measure.get("sample"));
    let length_at = length_at.or(root.get("duration")).map_or(&root.at, |node| &node.at);
    limit_checks::check_length(duration, &flows, &flow_places, &measure, length_at, faults);
    check_flent(&measure, &flows, root, faults);
    if nodes.is_empty() {
        faults.add(&root.at, "there are no [nodes]", None);
    }
    if flow_entries.is_empty() && workload_entries.is_empty() {
        faults.add(&root.at, "there are no [flows]: nothing would happen", None);
    }
    top.finish();

    let places = SourcePositions { nodes: node_places, links: link_places, flows: flow_places };
    check_links(&nodes, &links, &places, faults);
    let written = routes::read(routes, &named, &links, faults);
    limit_checks::check_routes(&nodes, &links, &written, fabric.is_some(), &places.nodes, faults)?;
    let ways = match &fabric {
        None => routes::ShortestPaths::resolve(&nodes, &links, &written),
        Some(_) => routes::ShortestPaths::shortest(&nodes, &links, &written, &[]),
    };
    let families = families(named.plans.len(), &links);
    let net = workload::Net { nodes: &named, links: &links, ways: &ways, families: &families };
    let workloads = workload::read(workload_entries, &net, &flows, duration, faults);
    check_flows(&flows, &nodes, &links, &ways, &places, faults);
    ip::check((&nodes, &lines), &ip::Lines::of("", root), &links, faults);
    if faults.is_empty() {
        check_nodes(&nodes, &links, &places, faults);
    }
    Some(Plan {
        name: name.to_string(),
        title,
        seed,
        repetitions,
        duration,
        warmup,
        bytes,
        nodes,
        links,
        flows,
        workloads,
        measure,
        plots,
        paths: ways,
        fabric,
        route_features: written.features,
        versions: faults.document.registry.versions().clone(),
    })
}

/// The name of files, and the title.
fn read_names<'a>(top: &mut Reader<'a, '_>) -> (&'a str, String) {
    let faults = top.faults;
    let name = top.required("name").map_or("", |(text, at)| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.starts_with('.') || !text.chars().all(fits) {
            let message =
                "the name may contain only letters, digits, \"-\", \"_\" and, except at the \
                 start, \".\"";
            faults.add(at, message, None);
        }
        text
    });
    let title = top.text("title").unwrap_or(name).to_string();
    if title.chars().any(char::is_control) {
        faults.add(
            top.origin_of("title"),
            "a title must be one line, without control characters",
            None,
        );
    }
    (name, title)
}

/// How long a run is, and how much of it at its beginning does not count.
fn read_times(top: &mut Reader<'_, '_>, root: &Node) -> (Duration, Duration) {
    let faults = top.faults;
    let duration = top.time("duration").unwrap_or(Duration::from_secs(60));
    let warmup = top.time("warmup").unwrap_or(Duration::ZERO);
    if duration == Duration::ZERO {
        faults.add(
            top.origin_of("duration"),
            "a duration must be longer than 0s, e.g. \"10s\"",
            None,
        );
    } else if warmup >= duration {
        let at = root.get("warmup").or(root.get("duration")).map_or(&root.at, |node| &node.at);
        faults.add(at, "the warm-up must be shorter than the duration", None);
    }
    (duration, warmup)
}

/// Whether flent would know the flows of its test.
fn check_flent(measure: &Measure, flows: &[FlowPlan], root: &Node, faults: &Faults<'_>) {
    if let Some(test) = measure.flent
        && let Err(why) = flent::series_names(test, flows)
    {
        let at = root.get("measure").map_or(&root.at, |node| &node.at);
        faults.add(at, format!("the flows are not those of flent's {}: {why}", test.name()), None);
    }
}

/// What the axes of the sweep are called.
fn sweep_axes(root: &Node) -> Vec<&str> {
    match root.get("sweep").map(|sweep| &sweep.kind) {
        Some(Kind::Table(entries)) => entries.iter().map(|(key, _)| key.name.as_str()).collect(),
        _ => Vec::new(),
    }
}

fn read_schema(top: &mut Reader<'_, '_>) {
    match top.node("schema") {
        None => {
            let message = "\"schema\" is missing";
            top.faults.add(
                top.at,
                message,
                Some(format!("write schema = {SCHEMA} in the first line")),
            );
        }
        Some(Node { kind: Kind::Int(SCHEMA), .. }) => {}
        Some(Node { kind: Kind::Int(other), at }) => {
            top.faults.add(at, format!("this program reads schema {SCHEMA}, not {other}"), None);
        }
        Some(node) => {
            let message = format!("\"schema\" must be a whole number, not {}", node.type_name());
            top.faults.add(&node.at, message, None);
        }
    }
}

fn read_measure(
    node: Option<&Node>,
    known: &NamedPorts<'_>,
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> Measure {
    let with_qdisc = |(link, plan): (usize, &LinkPlan)| {
        [0, 1]
            .into_iter()
            .filter_map(move |end| (!plan.ports[end].qdiscs.is_empty()).then_some((link, end)))
            .collect::<Vec<_>>()
    };
    let mut measure = Measure {
        sample: Duration::from_millis(10),
        queues: links.iter().enumerate().flat_map(with_qdisc).collect(),
        utilisation: Vec::new(),
        pcap: Vec::new(),
        snaplen: 128,
        early: None,
        steps: None,
        flent: None,
        table: Vec::new(),
    };
    let Some(mut table) = node.and_then(|node| Reader::new(node, faults)) else { return measure };
    if let Some(sample) = table.time("sample") {
        if sample.as_nanos() < 1_000 {
            faults.add(table.origin_of("sample"), "\"sample\" must be 1us or more", None);
        } else {
            measure.sample = sample;
        }
    }
    // A port that several patterns name is watched once.
    let ports = |names: Vec<(&str, &Origin)>| -> Vec<(usize, usize)> {
        let mut seen = BTreeSet::new();
        let all = names.iter().flat_map(|(name, at)| known.matching(name, at, links, faults));
        all.filter(|port| seen.insert(*port)).collect()
    };
    if table.node("queues").is_some() {
        measure.queues = ports(table.texts("queues"));
    }
    measure.utilisation = ports(table.texts("utilisation"));
    measure.pcap = ports(table.texts("pcap"));
    measure.early = table.time("early");
    if measure.early == Some(Duration::ZERO) {
        faults.add(table.origin_of("early"), "\"early\" must not be zero", None);
    }
    measure.steps = table.time("steps");
    if measure.steps.is_some_and(|steps| {
        steps.as_nanos() == 0 || steps.as_nanos() % measure.sample.as_nanos() != 0
    }) {
        faults.add(table.origin_of("steps"), "\"steps\" must be a multiple of \"sample\"", None);
    }
    measure.flent = table.word("flent", &FLENT_TESTS);
    measure.table = table.texts("table").iter().map(|(text, _)| (*text).to_string()).collect();
    if let Some(snaplen) = table.integer("snaplen", 54..=65_535) {
        measure.snaplen = snaplen as u32;
    }
    table.finish();
    measure
}

const FLENT_TESTS: [(&str, FlentTest); 3] =
    [("rrul", FlentTest::Rrul), ("rrul_be", FlentTest::RrulBe), ("tcp_nup", FlentTest::TcpNup)];

/// A node that no link reaches would have no address. Asked last: a faulty link leads nowhere.
fn check_nodes(
    nodes: &[NodePlan],
    links: &[LinkPlan],
    places: &SourcePositions<'_>,
    faults: &Faults<'_>,
) {
    let linked: BTreeSet<usize> = links.iter().flat_map(|link| link.ends).collect();
    for (index, (node, at)) in nodes.iter().zip(&places.nodes).enumerate() {
        if !linked.contains(&index) {
            faults.add(at, format!("no link leads to \"{}\"", node.name), None);
        }
    }
}

/// Without a topology there are no shortest paths: `[routes]` says where several ways lead.
fn check_no_costs(entries: &[(Key, Node)], faults: &Faults<'_>) {
    for cost in entries.iter().filter_map(|(_, link)| link.get("cost")) {
        let help = Some("choose one of several paths with [routes]".into());
        faults.add(
            &cost.at,
            "a \"cost\" needs a [topology], whose routes are shortest paths",
            help,
        );
    }
}

fn check_links(
    nodes: &[NodePlan],
    links: &[LinkPlan],
    places: &SourcePositions<'_>,
    faults: &Faults<'_>,
) {
    let mut known = BTreeSet::new();
    for (link, at) in links.iter().zip(&places.links) {
        if link.addresses.is_some_and(|addresses| !known.insert(addresses)) {
            faults.add(at, "another link has the same addresses", None);
            return;
        }
    }
    check_first_addresses(nodes, links, places, faults);
}

/// Routes lead to a node by the address of its first link, so no other node may have that, neither as written nor
/// as links get them by themselves.
fn check_first_addresses(
    nodes: &[NodePlan],
    links: &[LinkPlan],
    places: &SourcePositions<'_>,
    faults: &Faults<'_>,
) {
    let ends = || {
        links.iter().enumerate().flat_map(|(index, link)| {
            let usual = || default_addresses(WireId(index as u32));
            let addresses = link.addresses.unwrap_or_else(usual);
            [0, 1].map(|end| (index, link.ends[end], addresses[end].0))
        })
    };
    let mut has_first = vec![false; nodes.len()];
    let mut owners = BTreeMap::new();
    for (link, node, address) in ends() {
        if has_first.get_mut(node).is_some_and(|known| !mem::replace(known, true)) {
            owners.entry(address).or_insert((link, node));
        }
    }
    for (link, node, address) in ends() {
        let Some(&(first, owner)) = owners.get(&address) else { continue };
        if owner == node {
            continue;
        }
        let written = if links[link].addresses.is_some() { link } else { first };
        let names = [owner, node].map(|node| nodes.get(node).map(|node| &node.name));
        if let (Some(at), [Some(one), Some(other)]) = (places.links.get(written), names) {
            let message = format!("\"{one}\" and \"{other}\" would both have {address}");
            let help = "links without \"addresses\" get theirs from 10.0.0.0 on";
            faults.add(at, message, Some(help.into()));
        }
    }
}

/// Of each node, whether its first address is of IPv4; `None` of one without links.
fn families(nodes: usize, links: &[LinkPlan]) -> Vec<Option<bool>> {
    let mut families = vec![None; nodes];
    for link in links {
        for (end, &node) in link.ends.iter().enumerate() {
            let is_ipv4 = link.addresses.is_none_or(|addresses| addresses[end].0.is_ipv4());
            if let Some(family) = families.get_mut(node) {
                family.get_or_insert(is_ipv4);
            }
        }
    }
    families
}

/// A flow runs from the first address of a host to that of another one, over IPv4 or IPv6.
fn check_families(
    flow: &FlowPlan,
    nodes: &[NodePlan],
    families: &[Option<bool>],
    at: &Origin,
    faults: &Faults<'_>,
) {
    let Some(ipv4) = families[flow.from] else { return };
    let others = flow.anycast_hosts.iter().chain(match &flow.app {
        App::Query { servers, .. } => servers.as_slice(),
        _ => &[],
    });
    let target = flow.address.map(|address| (address.to_string(), address.is_ipv4()));
    let to = if target.is_some() { None } else { Some(&flow.to) };
    let named = |node: &usize| Some((format!("\"{}\"", nodes[*node].name), families[*node]?));
    let targets = target.into_iter().chain(to.into_iter().chain(others).filter_map(named));
    let family = |ipv4: bool| if ipv4 { "IPv4" } else { "IPv6" };
    if let Some((name, other)) = { targets }.find(|(_, other)| *other != ipv4) {
        let from = &nodes[flow.from].name;
        let (from_family, to_family) = (family(ipv4), family(other));
        let message =
            format!("the first address of \"{from}\" is {from_family}, but {name} is {to_family}");
        let help = "give their first links \"addresses\" of one family";
        faults.add(at, message, Some(help.into()));
    }
}

/// Real programs know their kernel's sockets.
fn check_program(flow: &FlowPlan, nodes: &[NodePlan], at: &Origin, faults: &Faults<'_>) {
    let App::Program { server, .. } = &flow.app else { return };
    let ends = [Some(flow.from), (!server.is_empty()).then_some(flow.to)];
    for node in ends.into_iter().flatten().map(|end| &nodes[end]) {
        if node.stack != Stack::Kernel {
            let message =
                format!("a program needs a kernel's stack, but \"{}\" has ours", node.name);
            let help = "give the host `stack = \"kernel\"`, and run it with --live";
            faults.add(at, message, Some(help.into()));
        }
    }
}

fn check_flows(
    flows: &[FlowPlan],
    nodes: &[NodePlan],
    links: &[LinkPlan],
    ways: &routes::ShortestPaths,
    places: &SourcePositions<'_>,
    faults: &Faults<'_>,
) {
    if links.iter().any(|link| link.ends.iter().any(|end| *end >= nodes.len())) {
        return;
    }
    let mut complained: BTreeSet<(usize, usize)> = BTreeSet::new();
    let families = families(nodes.len(), links);
    for (flow, at) in flows.iter().zip(&places.flows) {
        let servers = match &flow.app {
            App::Query { servers, .. } => servers.as_slice(),
            _ => slice::from_ref(&flow.to),
        };
        check_hosts(flow, servers, nodes, at, faults);
        if servers.contains(&flow.from) {
            let help = "for flows between all hosts use a [workload]".to_owned();
            faults.add(at, "a flow needs two different hosts", Some(help));
            continue;
        }
        check_families(flow, nodes, &families, at, faults);
        check_program(flow, nodes, at, faults);
        for &server in servers {
            let both = [(flow.from, server), (server, flow.from)];
            if flow.app.is_tcp() && both.iter().all(|&(a, b)| walk::is_instant(a, b, links, ways)) {
                let (from, to) = (&nodes[flow.from].name, &nodes[server].name);
                let message = format!(
                    "the path from \"{from}\" to \"{to}\" and back takes no time, so simulated \
                     time would stand still"
                );
                let help = "give a link between them a \"rate\" or a \"delay\"";
                faults.add(at, message, Some(help.into()));
            }
            for (from, to) in both {
                let problem = walk::walk(from, to, nodes, links, ways);
                if let Err(problem) = problem
                    && complained.insert((from, to))
                {
                    let place = problem.node.and_then(|node| places.nodes.get(node).copied());
                    faults.add(place.unwrap_or(at), problem.message, problem.help);
                }
            }
        }
    }
}

/// Who takes part in a flow is a host; and who answers does so once, because two programs cannot have one port.
fn check_hosts(
    flow: &FlowPlan,
    servers: &[usize],
    nodes: &[NodePlan],
    at: &Origin,
    faults: &Faults<'_>,
) {
    let mut answering = BTreeSet::new();
    for &end in [flow.from].iter().chain(servers).chain(&flow.anycast_hosts) {
        let name = &nodes[end].name;
        if nodes[end].role == Role::Router {
            faults.add(at, format!("\"{name}\" is a router and runs no applications"), None);
        }
    }
    for &end in servers.iter().chain(&flow.anycast_hosts) {
        if !answering.insert(end) {
            let name = &nodes[end].name;
            faults.add(at, format!("\"{name}\" is named twice: it answers once"), None);
        }
    }
}
