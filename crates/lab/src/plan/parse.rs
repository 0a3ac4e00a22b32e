//! From the tree to a [`Plan`]: names, quantities and references.

use datapath::profile::{LostRetransmit, Profile};
use datapath::units::Duration;

use sim::rules::Rule;

use super::diagnostic::{Diagnostics, suggest};
use super::doc::{Document, Key, Kind, Node, Origin};
use super::model::{
    Direction, FlentTest, FlowPlan, LinkPlan, Measure, NodePlan, Offload, Plan, PortPlan, Role,
};
use super::read::{Faults, Reader, as_text, as_texts};
use super::{flows, ip, routes, sysctl, tc};

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

/// Where nodes, links and flows were written, for the checks that need all of them.
struct Places<'a> {
    nodes: Vec<&'a Origin>,
    links: Vec<&'a Origin>,
    flows: Vec<&'a Origin>,
}

fn read_plan(root: &Node, faults: &Faults<'_>) -> Option<Plan> {
    let mut top = Reader::new(root, faults)?;
    read_schema(&mut top);
    let name = top.required("name").map_or("", |(text, at)| {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            let message = "the name may hold letters, digits, \"-\", \"_\" and \".\" only";
            faults.add(at, message, None);
        }
        text
    });
    let title = top.text("title").unwrap_or(name).to_string();
    top.text("description");
    top.node("parameters");
    top.node("sweep");
    top.node("draw");

    let duration = top.time("duration").unwrap_or(Duration::from_secs(60));
    let warmup = top.time("warmup").unwrap_or(Duration::ZERO);
    if warmup >= duration {
        let at = root.get("warmup").or(root.get("duration")).map_or(&root.at, |node| &node.at);
        faults.add(at, "the warm-up must end before the duration does", None);
    }
    let seed = top.integer("seed", 0..=i64::MAX).unwrap_or(1) as u64;
    let repetitions = top.integer("repetitions", 1..=100_000).unwrap_or(1) as u32;

    let defaults = read_node(&mut top, NodePlan::default());
    let node_entries = top.tables("nodes");
    let nodes = read_nodes(node_entries, &defaults, faults);
    let link_entries = top.tables("links");
    let mut links = read_links(link_entries, &nodes, faults);
    let qdiscs = top.tables("qdisc");
    let policers = top.tables("police");
    read_ports(qdiscs, policers, &nodes, &mut links, faults);
    let flow_entries = top.tables("flows");
    let (flows, flow_places) = flows::read_flows(flow_entries, &nodes, duration, faults);
    let routes = top.tables("routes");
    let measure = read_measure(top.node("measure"), &nodes, &links, faults);
    if let Some(test) = measure.flent
        && let Err(why) = crate::flent::series_names(test, &flows)
    {
        let at = root.get("measure").map_or(&root.at, |node| &node.at);
        faults.add(at, format!("these are not the flows of flent's {}: {why}", test.name()), None);
    }
    if node_entries.is_empty() {
        faults.add(&root.at, "there are no [nodes]", None);
    }
    if flow_entries.is_empty() {
        faults.add(&root.at, "there are no [flows]: nothing would happen", None);
    }
    top.finish();

    let places = Places {
        nodes: node_entries.iter().map(|(key, _)| &key.at).collect(),
        links: link_entries.iter().map(|(key, _)| &key.at).collect(),
        flows: flow_places,
    };
    check_links(&links, &places, faults);
    let explicit = routes::read(routes, &nodes, &links, faults);
    let next_links = routes::resolve(&nodes, &links, &explicit);
    check_flows(&flows, &nodes, &links, &next_links, &places, faults);
    ip::check(node_entries, &nodes, &links, faults);
    Some(Plan {
        name: name.to_string(),
        title,
        seed,
        repetitions,
        duration,
        warmup,
        nodes,
        links,
        flows,
        measure,
        next_links: next_links.into_iter().map(routes::known_links).collect(),
    })
}

fn read_schema(top: &mut Reader<'_, '_>) {
    match top.node("schema") {
        None => top.missing("schema"),
        Some(Node { kind: Kind::Int(SCHEMA), .. }) => {}
        Some(node) => top.faults.add(
            &node.at,
            format!("this program reads schema {SCHEMA}, not {}", node.plain()),
            None,
        ),
    }
}

const OFFLOADS: [(&str, Offload); 3] =
    [("off", Offload::Off), ("gso", Offload::Gso), ("tso", Offload::Tso)];

fn read_nodes(entries: &[(Key, Node)], defaults: &NodePlan, faults: &Faults<'_>) -> Vec<NodePlan> {
    entries
        .iter()
        .filter_map(|(key, node)| {
            check_name(key, "node", faults);
            let mut table = Reader::new(node, faults)?;
            let role = table.word("role", &[("host", Role::Host), ("router", Role::Router)]);
            let base = NodePlan {
                name: key.name.clone(),
                role: role.unwrap_or(Role::Host),
                ..defaults.clone()
            };
            let plan = read_node(&mut table, base);
            table.finish();
            Some(plan)
        })
        .collect()
}

/// What a node says about its stack, or the whole experiment about all nodes.
fn read_node(table: &mut Reader<'_, '_>, base: NodePlan) -> NodePlan {
    let profiles = Profile::NAMES.map(|name| (name, name));
    let detectors = LostRetransmit::ALL.map(|detector| (detector.name(), detector));
    let profile = table.word("profile", &profiles).and_then(Profile::by_name);
    let settings = sysctl::read(table.tables("sysctl"), table.faults);
    NodePlan {
        profile: profile.unwrap_or(base.profile),
        lost_retransmit: table.word("lost_retransmit", &detectors).or(base.lost_retransmit),
        sysctls: base.sysctls.into_iter().chain(settings.sysctls).collect(),
        congestion_control: settings.congestion_control.or(base.congestion_control),
        offload: table.word("offload", &OFFLOADS).unwrap_or(base.offload),
        ip: base.ip.into_iter().chain(settings.routing).chain(ip::lines(table)).collect(),
        at: base.at.into_iter().chain(ip::timed_lines(table)).collect(),
        mp_algo: table.word("mp_algo", &ip::ALGORITHMS).unwrap_or(base.mp_algo),
        ..base
    }
}

/// Names go into file names and port names.
pub fn check_name(key: &Key, what: &str, faults: &Faults<'_>) {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.name.is_empty() || !key.name.chars().all(valid) {
        let message =
            format!("the name of a {what} may hold letters, digits, \"-\" and \"_\" only");
        faults.add(&key.at, message, None);
    }
}

/// The index of the node called `name`; a fault that names the nearest one if there is none.
pub fn node_index(
    name: &str,
    at: &Origin,
    nodes: &[NodePlan],
    faults: &Faults<'_>,
) -> Option<usize> {
    let found = nodes.iter().position(|node| node.name == name);
    if found.is_none() {
        let help = suggest(name, nodes.iter().map(|node| node.name.as_str()));
        faults.add(at, format!("no node is called \"{name}\""), help);
    }
    found
}

fn read_links(entries: &[(Key, Node)], nodes: &[NodePlan], faults: &Faults<'_>) -> Vec<LinkPlan> {
    entries
        .iter()
        .filter_map(|(key, node)| {
            check_name(key, "link", faults);
            read_link(key, node, nodes, faults)
        })
        .collect()
}

fn read_link(key: &Key, node: &Node, nodes: &[NodePlan], faults: &Faults<'_>) -> Option<LinkPlan> {
    let mut table = Reader::new(node, faults)?;
    if table.node("ends").is_none() {
        table.missing("ends");
    }
    let ends = table.texts("ends");
    let mtu = table.integer("mtu", 68..=65_535).unwrap_or(1500) as u32;
    let addresses = read_addresses(&mut table);
    let both = read_direction(&mut table, Direction::default());
    let mut directions = split_rtt(&mut table, both);
    for (direction, key) in directions.iter_mut().zip(["forward", "backward"]) {
        if let Some(mut inner) = table.node(key).and_then(|node| Reader::new(node, faults)) {
            *direction = read_direction(&mut inner, std::mem::take(direction));
            inner.finish();
        }
    }
    let events = ip::events(&mut table);
    let ends: Vec<Option<usize>> =
        ends.iter().map(|(name, at)| node_index(name, at, nodes, faults)).collect();
    let at = node.get("ends").map_or(&node.at, |node| &node.at);
    table.finish();
    match ends.as_slice() {
        [Some(a), Some(b)] if a == b => {
            faults.add(at, "a link must join two different nodes", None);
            None
        }
        [Some(a), Some(b)] => Some(LinkPlan {
            name: key.name.clone(),
            ends: [*a, *b],
            mtu,
            addresses,
            directions,
            ports: [PortPlan::default(), PortPlan::default()],
            events,
        }),
        [_, _] | [] => None,
        _ => {
            faults.add(at, "a link has exactly two ends", None);
            None
        }
    }
}

/// `rtt` is the round trip: half of it each way, the odd nanosecond on the way back.
fn split_rtt(table: &mut Reader<'_, '_>, both: Direction) -> [Direction; 2] {
    let has_delay = table.node("delay").is_some();
    let Some(rtt) = table.time("rtt") else { return [both.clone(), both] };
    if has_delay {
        table.faults.add(table.at, "\"rtt\" and \"delay\" exclude each other", None);
    }
    let forward = Duration::from_nanos(rtt.as_nanos() / 2);
    let backward = rtt - forward;
    [Direction { delay: forward, ..both.clone() }, Direction { delay: backward, ..both }]
}

fn read_direction(table: &mut Reader<'_, '_>, base: Direction) -> Direction {
    let rules = read_rules(table);
    let direction = Direction {
        rate: table.rate("rate").or(base.rate),
        delay: table.time("delay").unwrap_or(base.delay),
        jitter: table.time("jitter").unwrap_or(base.jitter),
        loss: table.share("loss").unwrap_or(base.loss),
        duplicate: table.share("duplicate").unwrap_or(base.duplicate),
        reorder: table.share("reorder").unwrap_or(base.reorder),
        reorder_by: table.time("reorder_by").unwrap_or(base.reorder_by),
        corrupt: table.share("corrupt").unwrap_or(base.corrupt),
        rules: if rules.is_empty() { base.rules } else { rules },
    };
    if direction.reorder > 0 && direction.reorder_by == Duration::ZERO {
        let message = "\"reorder\" needs \"reorder_by\": how much later such packets come";
        table.faults.add(table.at, message, None);
    }
    direction
}

fn read_rules(table: &mut Reader<'_, '_>) -> Vec<Rule> {
    let texts = table.texts("rules");
    let parse = |(text, at): &(&str, &Origin)| match text.parse::<Rule>() {
        Ok(rule) => Some(rule),
        Err(error) => {
            let help = Some("e.g. \"f data 100 drop\"; see docs/experiments.md".into());
            table.faults.add(at, format!("{}: \"{text}\"", error.what), help);
            None
        }
    };
    texts.iter().filter_map(parse).collect()
}

fn read_addresses(table: &mut Reader<'_, '_>) -> Option<[(std::net::IpAddr, u8); 2]> {
    table.node("addresses")?;
    let texts = table.texts("addresses");
    let parsed: Vec<_> = texts
        .iter()
        .filter_map(|(text, at)| match parse_address(text) {
            Ok(address) => Some(address),
            Err(problem) => {
                table.faults.add(at, problem, None);
                None
            }
        })
        .collect();
    match parsed.as_slice() {
        [a, b] if a.0.is_ipv4() != b.0.is_ipv4() || a.1 != b.1 => {
            table.faults.add(table.at, "the two addresses are not of one subnet", None);
            None
        }
        [a, b] if a.0 == b.0 => {
            table.faults.add(table.at, "the two ends have the same address", None);
            None
        }
        [a, b] => Some([*a, *b]),
        _ => {
            if parsed.len() == texts.len() {
                table.faults.add(table.at, "a link has exactly two addresses", None);
            }
            None
        }
    }
}

fn parse_address(text: &str) -> Result<(std::net::IpAddr, u8), String> {
    let wrong = || format!("\"{text}\" is not an address with a prefix, e.g. \"10.0.1.2/24\"");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if length == 0 || length > longest { Err(wrong()) } else { Ok((address, length)) }
}

/// `node.link` as (link, end).
fn port_index(
    name: &str,
    at: &Origin,
    nodes: &[NodePlan],
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> Option<(usize, usize)> {
    let names = || {
        links.iter().enumerate().flat_map(move |(link, plan)| {
            [0, 1].map(|end| (format!("{}.{}", nodes[plan.ends[end]].name, plan.name), link, end))
        })
    };
    if let Some((_, link, end)) = names().find(|(known, _, _)| known == name) {
        return Some((link, end));
    }
    let all: Vec<String> = names().map(|(known, _, _)| known).collect();
    let help = suggest(name, all.iter().map(String::as_str));
    faults.add(at, format!("no port is called \"{name}\" (ports are \"NODE.LINK\")"), help);
    None
}

fn read_ports(
    qdiscs: &[(Key, Node)],
    policers: &[(Key, Node)],
    nodes: &[NodePlan],
    links: &mut [LinkPlan],
    faults: &Faults<'_>,
) {
    for (key, node) in qdiscs {
        let port = port_index(&key.name, &key.at, nodes, links, faults);
        let texts = as_texts(node, faults);
        if let (Some((link, end)), true) = (port, tc::check_qdiscs(&texts, faults)) {
            let owned = texts.iter().map(|(text, _)| (*text).to_string()).collect();
            links[link].ports[end].qdiscs = owned;
        }
    }
    for (key, node) in policers {
        let port = port_index(&key.name, &key.at, nodes, links, faults);
        if let (Some((link, end)), Some(text)) = (port, as_text(node, faults)) {
            tc::check_police(text, &node.at, faults);
            links[link].ports[end].police = Some(text.to_string());
        }
    }
}

fn read_measure(
    node: Option<&Node>,
    nodes: &[NodePlan],
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
        pcap: Vec::new(),
        snaplen: 128,
        early: None,
        flent: None,
        table: Vec::new(),
    };
    let Some(mut table) = node.and_then(|node| Reader::new(node, faults)) else { return measure };
    if let Some(sample) = table.time("sample") {
        if sample.as_nanos() < 1_000 {
            faults.add(table.at, "\"sample\" must be 1us or more", None);
        }
        measure.sample = sample;
    }
    let ports = |names: Vec<(&str, &Origin)>| -> Vec<(usize, usize)> {
        names.iter().filter_map(|(name, at)| port_index(name, at, nodes, links, faults)).collect()
    };
    if table.node("queues").is_some() {
        measure.queues = ports(table.texts("queues"));
    }
    measure.pcap = ports(table.texts("pcap"));
    measure.early = table.time("early");
    if measure.early == Some(Duration::ZERO) {
        faults.add(table.at, "\"early\" must not be zero", None);
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

fn check_links(links: &[LinkPlan], places: &Places<'_>, faults: &Faults<'_>) {
    for (index, link) in links.iter().enumerate() {
        let twin = links[..index]
            .iter()
            .position(|other| other.addresses.is_some() && other.addresses == link.addresses);
        if let (Some(_), Some(at)) = (twin, places.links.get(index)) {
            faults.add(at, "another link has the same addresses", None);
        }
    }
}

fn check_flows(
    flows: &[FlowPlan],
    nodes: &[NodePlan],
    links: &[LinkPlan],
    next_links: &[Vec<routes::Hop>],
    places: &Places<'_>,
    faults: &Faults<'_>,
) {
    if links.iter().any(|link| link.ends.iter().any(|end| *end >= nodes.len())) {
        return;
    }
    let mut complained: Vec<(usize, usize)> = Vec::new();
    for (flow, at) in flows.iter().zip(&places.flows) {
        for end in [flow.from, flow.to] {
            if nodes[end].role == Role::Router {
                let name = &nodes[end].name;
                faults.add(at, format!("\"{name}\" is a router and runs no applications"), None);
            }
        }
        if flow.from == flow.to {
            faults.add(at, "a flow needs two different hosts", None);
            continue;
        }
        for (from, to) in [(flow.from, flow.to), (flow.to, flow.from)] {
            let problem = routes::walk(from, to, nodes, links, next_links);
            if let (Err(problem), false) = (problem, complained.contains(&(from, to))) {
                complained.push((from, to));
                let place = problem.node.and_then(|node| places.nodes.get(node).copied());
                faults.add(place.unwrap_or(at), problem.message, problem.help);
            }
        }
    }
}
