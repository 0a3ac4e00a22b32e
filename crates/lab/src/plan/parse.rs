//! From the tree to a [`Plan`]: names, quantities and references.

use std::collections::BTreeSet;

use datapath::host::SharedBuffer;
use datapath::profile::{DctcpAck, LostRetransmit, Profile};
use datapath::units::Duration;

use sim::rules::Rule;

use super::diagnostic::{Diagnostics, suggest};
use super::doc::{Document, Key, Kind, Node, Origin};
use super::model::{
    Direction, FlentTest, FlowPlan, LinkPlan, Measure, NodePlan, Offload, Plan, PortPlan, Role,
};
use super::read::{Faults, Reader, as_text, as_texts};
use super::{flows, ip, routes, sysctl, tc};
use datapath::tcp::cc::dctcp;

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
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.starts_with('.') || !text.chars().all(fits) {
            let message =
                "the name may hold letters, digits, \"-\", \"_\" and, but not first, \".\"";
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
    let (nodes, node_places) = read_nodes(node_entries, &defaults, faults);
    let (mut links, link_places) = read_links(top.tables("links"), &nodes, faults);
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

    let places = Places { nodes: node_places, links: link_places, flows: flow_places };
    check_links(&links, &places, faults);
    let written = routes::read(routes, &nodes, &links, faults);
    let next_links = routes::resolve(&nodes, &links, &written.links);
    check_flows(&flows, &nodes, &links, &next_links, &places, faults);
    ip::check(node_entries, &nodes, &links, faults);
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
        nodes,
        links,
        flows,
        measure,
        next_links: next_links.into_iter().map(routes::known_links).collect(),
        route_features: written.features,
    })
}

fn read_schema(top: &mut Reader<'_, '_>) {
    match top.node("schema") {
        None => top.missing("schema"),
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

const OFFLOADS: [(&str, Offload); 4] =
    [("off", Offload::Off), ("gso", Offload::Gso), ("tso", Offload::Tso), ("nic", Offload::Nic)];

/// The longest time that an interrupt may wait, in µs.
const MAX_RX_USECS: i64 = 1_000_000;

/// Nodes, or `count` equal ones called `NAME-1`, `NAME-2`, …, and where each was written.
fn read_nodes<'a>(
    entries: &'a [(Key, Node)],
    defaults: &NodePlan,
    faults: &Faults<'_>,
) -> (Vec<NodePlan>, Vec<&'a Origin>) {
    let mut nodes = Vec::new();
    let mut places = Vec::new();
    for (key, node) in entries {
        check_name(key, "node", faults);
        let Some(mut table) = Reader::new(node, faults) else { continue };
        let role = table.word("role", &[("host", Role::Host), ("router", Role::Router)]);
        let count = table.integer("count", 1..=10_000);
        let base = NodePlan {
            name: key.name.clone(),
            role: role.unwrap_or(Role::Host),
            ..defaults.clone()
        };
        let plan = read_node(&mut table, base);
        table.finish();
        for name in numbered(&key.name, count) {
            nodes.push(NodePlan { name, ..plan.clone() });
            places.push(&key.at);
        }
    }
    check_unique("node", nodes.iter().map(|node| node.name.as_str()), &places, faults);
    (nodes, places)
}

/// `NAME`, or `NAME-1` to `NAME-count`.
fn numbered(name: &str, count: Option<i64>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(count) => (1..=count).map(|number| format!("{name}-{number}")).collect(),
    }
}

/// What a node says about its stack, or the whole experiment about all nodes.
fn read_node(table: &mut Reader<'_, '_>, base: NodePlan) -> NodePlan {
    let profiles = Profile::NAMES.map(|name| (name, name));
    let detectors = LostRetransmit::ALL.map(|detector| (detector.name(), detector));
    let rules = DctcpAck::ALL.map(|rule| (rule.name(), rule));
    let profile = table.word("profile", &profiles).and_then(Profile::by_name);
    let settings = sysctl::read(table.tables("sysctl"), table.faults);
    NodePlan {
        profile: profile.unwrap_or(base.profile),
        lost_retransmit: table.word("lost_retransmit", &detectors).or(base.lost_retransmit),
        dctcp_ack: table.word("dctcp_ack", &rules).or(base.dctcp_ack),
        dctcp: dctcp::Params {
            shift_g: table
                .integer("dctcp_shift_g", 0..=10)
                .map_or(base.dctcp.shift_g, |shift| shift as u8),
            alpha_on_init: table
                .integer("dctcp_alpha_on_init", 0..=dctcp::MAX_ALPHA.into())
                .map_or(base.dctcp.alpha_on_init, |alpha| alpha as u32),
        },
        dctcp_syn_ect: table.boolean("dctcp_syn_ect").unwrap_or(base.dctcp_syn_ect),
        sysctls: base.sysctls.into_iter().chain(settings.sysctls).collect(),
        congestion_control: settings.congestion_control.or(base.congestion_control),
        offload: table.word("offload", &OFFLOADS).unwrap_or(base.offload),
        gro: table.switch("gro").unwrap_or(base.gro),
        rx_usecs: table
            .integer("rx_usecs", 0..=MAX_RX_USECS)
            .map_or(base.rx_usecs, |delay| delay as u32),
        ip: base.ip.into_iter().chain(settings.routing).chain(ip::lines(table)).collect(),
        at: base.at.into_iter().chain(ip::timed_lines(table)).collect(),
        mp_algo: table.word("mp_algo", &ip::ALGORITHMS).unwrap_or(base.mp_algo),
        buffer: read_buffer(table).or(base.buffer),
        ..base
    }
}

/// `buffer = SIZE` and `buffer_alpha = "1/4"`, which may also be a number.
fn read_buffer(table: &mut Reader<'_, '_>) -> Option<SharedBuffer> {
    let size = table.size("buffer");
    let alpha = match table.node("buffer_alpha") {
        None => (1, 1),
        Some(node) => match (positive_fraction(&node.kind), size) {
            (Some(alpha), Some(_)) => alpha,
            (Some(_), None) => {
                table.faults.add(&node.at, "\"buffer_alpha\" needs \"buffer\"", None);
                return None;
            }
            (None, _) => {
                let message =
                    "\"buffer_alpha\" must be a positive number, or a fraction such as \"1/4\"";
                table.faults.add(&node.at, message, None);
                return None;
            }
        },
    };
    let bytes = u32::try_from(size?).unwrap_or(u32::MAX);
    Some(SharedBuffer::new(bytes, alpha))
}

/// Numerator and denominator of `2`, `0.25`, `"0.25"` or `"7/33"`.
fn positive_fraction(kind: &Kind) -> Option<(u32, u32)> {
    let text = match kind {
        Kind::Int(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Text(text) => text.clone(),
        _ => return None,
    };
    let (over, under) = text.split_once('/').unwrap_or((&text, "1"));
    let (whole, places) = over.trim().split_once('.').unwrap_or((over.trim(), ""));
    let over: u32 = format!("{whole}{places}").parse().ok()?;
    let under: u32 = under.trim().parse().ok()?;
    let under = under.checked_mul(10_u32.checked_pow(u32::try_from(places.len()).ok()?)?)?;
    (over > 0 && under > 0).then_some((over, under))
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

/// What is called alike would share files and ports: `a-1` beside `a` with a count.
pub fn check_unique<'a>(
    what: &str,
    names: impl Iterator<Item = &'a str>,
    places: &[&Origin],
    faults: &Faults<'_>,
) {
    let mut known = BTreeSet::new();
    for (name, at) in names.zip(places) {
        if !known.insert(name) {
            faults.add(at, format!("another {what} is called \"{name}\" too"), None);
        }
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

/// The nodes that `name` means: one, or with `*` every node whose name fits.
pub fn node_indices(
    name: &str,
    at: &Origin,
    nodes: &[NodePlan],
    faults: &Faults<'_>,
) -> Vec<usize> {
    if !name.contains('*') {
        return node_index(name, at, nodes, faults).into_iter().collect();
    }
    let fits = |(_, node): &(usize, &NodePlan)| matches(name, &node.name);
    let found: Vec<usize> = nodes.iter().enumerate().filter(fits).map(|(index, _)| index).collect();
    if found.is_empty() {
        faults.add(at, format!("no node is called like \"{name}\""), None);
    }
    found
}

/// True if `name` is like `pattern`, in which one `*` stands for anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

/// Links, and where each was written. An end with `*` makes a link for every node that fits,
/// called `NAME-1`, `NAME-2`, ….
fn read_links<'a>(
    entries: &'a [(Key, Node)],
    nodes: &[NodePlan],
    faults: &Faults<'_>,
) -> (Vec<LinkPlan>, Vec<&'a Origin>) {
    let mut links = Vec::new();
    let mut places = Vec::new();
    for (key, node) in entries {
        check_name(key, "link", faults);
        for link in read_link(key, node, nodes, faults).unwrap_or_default() {
            links.push(link);
            places.push(&key.at);
        }
    }
    check_unique("link", links.iter().map(|link| link.name.as_str()), &places, faults);
    (links, places)
}

fn read_link(
    key: &Key,
    node: &Node,
    nodes: &[NodePlan],
    faults: &Faults<'_>,
) -> Option<Vec<LinkPlan>> {
    let mut table = Reader::new(node, faults)?;
    if table.node("ends").is_none() {
        table.missing("ends");
    }
    let ends = table.texts("ends");
    let mtu = table.integer("mtu", 68..=65_535).unwrap_or(1500) as u32;
    let veth = table.boolean("veth").unwrap_or(false);
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
    let several = ends.iter().any(|(name, _)| name.contains('*'));
    let ends: Vec<Vec<usize>> =
        ends.iter().map(|(name, at)| node_indices(name, at, nodes, faults)).collect();
    let at = node.get("ends").map_or(&node.at, |node| &node.at);
    table.finish();
    let [from, to] = ends.as_slice() else {
        if !ends.is_empty() {
            faults.add(at, "a link has exactly two ends", None);
        }
        return None;
    };
    let pairs: Vec<[usize; 2]> =
        from.iter().flat_map(|a| to.iter().map(move |b| [*a, *b])).collect();
    if pairs.iter().any(|[a, b]| a == b) {
        faults.add(at, "a link must join two different nodes", None);
        return None;
    }
    if several && addresses.is_some() {
        faults.add(at, "several links cannot have the same addresses", None);
    }
    let names = numbered(&key.name, several.then_some(pairs.len() as i64));
    let link = |(name, ends): (String, &[usize; 2])| LinkPlan {
        name,
        ends: *ends,
        mtu,
        veth,
        addresses,
        directions: directions.clone(),
        ports: [PortPlan::default(), PortPlan::default()],
        events: events.clone(),
    };
    Some(names.into_iter().zip(&pairs).map(link).collect())
}

/// `rtt` is the round trip: half of it each way, the odd nanosecond on the way back.
fn split_rtt(table: &mut Reader<'_, '_>, both: Direction) -> [Direction; 2] {
    let has_delay = table.node("delay").is_some();
    let Some(rtt) = table.time("rtt") else { return [both.clone(), both] };
    if has_delay {
        table.faults.add(table.place("delay"), "\"rtt\" and \"delay\" exclude each other", None);
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
        table.faults.add(table.place("reorder"), message, None);
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
            table.faults.add(
                table.place("addresses"),
                "the two addresses are not of one subnet",
                None,
            );
            None
        }
        [a, b] if a.0 == b.0 => {
            table.faults.add(table.place("addresses"), "the two ends have the same address", None);
            None
        }
        [a, b] => Some([*a, *b]),
        _ => {
            if parsed.len() == texts.len() {
                table.faults.add(
                    table.place("addresses"),
                    "a link has exactly two addresses",
                    None,
                );
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

/// The ports that `node.link` means, as (link, end); each part may have a `*`.
fn port_indices(
    name: &str,
    at: &Origin,
    nodes: &[NodePlan],
    links: &[LinkPlan],
    faults: &Faults<'_>,
) -> Vec<(usize, usize)> {
    let names = || {
        links.iter().enumerate().flat_map(move |(link, plan)| {
            [0, 1].map(|end| (format!("{}.{}", nodes[plan.ends[end]].name, plan.name), link, end))
        })
    };
    let (node, link) = name.split_once('.').unwrap_or((name, ""));
    let fits = |known: &str| {
        let (known_node, known_link) = known.split_once('.').unwrap_or((known, ""));
        matches(node, known_node) && matches(link, known_link)
    };
    let found: Vec<(usize, usize)> =
        names().filter(|(known, _, _)| fits(known)).map(|(_, link, end)| (link, end)).collect();
    if !found.is_empty() {
        return found;
    }
    let all: Vec<String> = names().map(|(known, _, _)| known).collect();
    let help = suggest(name, all.iter().map(String::as_str));
    faults.add(at, format!("no port is called \"{name}\" (ports are \"NODE.LINK\")"), help);
    Vec::new()
}

fn read_ports(
    qdiscs: &[(Key, Node)],
    policers: &[(Key, Node)],
    nodes: &[NodePlan],
    links: &mut [LinkPlan],
    faults: &Faults<'_>,
) {
    for (key, node) in qdiscs {
        let texts = as_texts(node, faults);
        if !tc::check_qdiscs(&texts, faults) {
            continue;
        }
        for (link, end) in port_indices(&key.name, &key.at, nodes, links, faults) {
            let owned = texts.iter().map(|(text, _)| (*text).to_string()).collect();
            links[link].ports[end].qdiscs = owned;
        }
    }
    for (key, node) in policers {
        let Some(text) = as_text(node, faults) else { continue };
        tc::check_police(text, &node.at, faults);
        for (link, end) in port_indices(&key.name, &key.at, nodes, links, faults) {
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
        steps: None,
        flent: None,
        table: Vec::new(),
    };
    let Some(mut table) = node.and_then(|node| Reader::new(node, faults)) else { return measure };
    if let Some(sample) = table.time("sample") {
        if sample.as_nanos() < 1_000 {
            faults.add(table.place("sample"), "\"sample\" must be 1us or more", None);
        }
        measure.sample = sample;
    }
    let ports = |names: Vec<(&str, &Origin)>| -> Vec<(usize, usize)> {
        names.iter().flat_map(|(name, at)| port_indices(name, at, nodes, links, faults)).collect()
    };
    if table.node("queues").is_some() {
        measure.queues = ports(table.texts("queues"));
    }
    measure.pcap = ports(table.texts("pcap"));
    measure.early = table.time("early");
    if measure.early == Some(Duration::ZERO) {
        faults.add(table.place("early"), "\"early\" must not be zero", None);
    }
    measure.steps = table.time("steps");
    if measure.steps.is_some_and(|steps| {
        steps.as_nanos() == 0 || steps.as_nanos() % measure.sample.as_nanos() != 0
    }) {
        faults.add(table.place("steps"), "\"steps\" must be a multiple of \"sample\"", None);
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
fn check_nodes(nodes: &[NodePlan], links: &[LinkPlan], places: &Places<'_>, faults: &Faults<'_>) {
    let linked: BTreeSet<usize> = links.iter().flat_map(|link| link.ends).collect();
    for (index, (node, at)) in nodes.iter().zip(&places.nodes).enumerate() {
        if !linked.contains(&index) {
            faults.add(at, format!("no link leads to \"{}\"", node.name), None);
        }
    }
}

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
