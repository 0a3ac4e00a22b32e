//! `[links]`, and the qdiscs and policers of their ports.

use datapath::units::Duration;
use sim::rules::Rule;

use super::diagnostic::suggest;
use super::doc::{Key, Kind, Node, Origin};
use super::names::{Index, NamedNodes, check_name, check_unique, numbered};
use super::network::{COST, Direction, LinkPlan, PortPlan, ports_called};
use super::read::{Faults, Reader, as_text, as_texts};
use super::varying::LossSetting;
use super::{ip, limit_checks, limits, tc, varying};

/// Links, and where each was written. An end with `*` makes a link for every node that fits,
/// called `NAME-1`, `NAME-2`, ….
pub fn read_links<'a>(
    entries: &'a [(Key, Node)],
    nodes: &NamedNodes<'_>,
    faults: &Faults<'_>,
) -> (Vec<LinkPlan>, Vec<&'a Origin>) {
    let mut links = Vec::new();
    let mut places = Vec::new();
    let mut texts = 0;
    for (key, node) in entries {
        check_name(key, "link", faults);
        for link in read_link(key, node, nodes, links.len(), faults).unwrap_or_default() {
            let rules = link.directions.iter().map(|one| one.rules.len()).sum::<usize>();
            texts += rules + link.events.len();
            links.push(link);
            places.push(&key.at);
            if !limit_checks::within_limit(
                "rules and events",
                0,
                Some(texts),
                limits::TEXTS_MAX,
                &key.at,
                faults,
            ) {
                return (links, places);
            }
        }
    }
    check_unique("link", links.iter().map(|link| link.name.as_str()), &places, faults);
    (links, places)
}

fn read_link(
    key: &Key,
    node: &Node,
    nodes: &NamedNodes<'_>,
    before: usize,
    faults: &Faults<'_>,
) -> Option<Vec<LinkPlan>> {
    let mut table = Reader::new(node, faults)?;
    table.demand("ends");
    let ends = table.texts("ends");
    let mtu = table.integer("mtu", 68..=65_535).unwrap_or(1500) as u32;
    let cost = read_cost(&mut table).unwrap_or(COST);
    let veth = table.boolean("veth").unwrap_or(false);
    let addresses = read_addresses(&mut table);
    let directions = read_directions(&mut table, <[Direction; 2]>::default());
    let events = ip::events(&mut table);
    let several = ends.iter().any(|(name, _)| name.contains('*'));
    let ends: Vec<Vec<usize>> =
        ends.iter().map(|(name, at)| nodes.matching(name, at, faults)).collect();
    let at = node.get("ends").map_or(&node.at, |node| &node.at);
    table.finish();
    let [from, to] = ends.as_slice() else {
        if !ends.is_empty() {
            faults.add(at, "a link has exactly two ends", None);
        }
        return None;
    };
    let count = from.len().checked_mul(to.len());
    if !limit_checks::within_limit("links", before, count, limits::LINKS_MAX, at, faults) {
        return None;
    }
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
        cost,
        veth,
        addresses,
        directions: directions.clone(),
        ports: [PortPlan::default(), PortPlan::default()],
        events: events.clone(),
    };
    Some(names.into_iter().zip(&pairs).map(link).collect())
}

/// A link of a topology with what `node` says in place of what it had.
pub fn amended(node: &Node, link: &LinkPlan, faults: &Faults<'_>) -> Option<LinkPlan> {
    let mut table = Reader::new(node, faults)?;
    let mtu = table.integer("mtu", 68..=65_535).map_or(link.mtu, |mtu| mtu as u32);
    let cost = read_cost(&mut table).unwrap_or(link.cost);
    let directions = read_directions(&mut table, link.directions.clone());
    let events = match ip::events(&mut table) {
        events if events.is_empty() => link.events.clone(),
        events => events,
    };
    table.finish();
    Some(LinkPlan { mtu, cost, directions, events, ..link.clone() })
}

/// `cost`: of a shortest path, in millionths.
fn read_cost(table: &mut Reader<'_, '_>) -> Option<u64> {
    let cost = table.number("cost", COST_LEAST, COST_MOST)?;
    Some((cost * COST as f64).round() as u64)
}

/// What a link may cost: something, so that a path never leads in circles.
const COST_LEAST: f64 = 0.000_001;
/// And so much that the longest path's sum is still a number.
const COST_MOST: f64 = 1e6;

/// A cost as a graph file has it.
pub fn cost(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(cost) if (COST_LEAST..=COST_MOST).contains(&cost) => {
            Ok((cost * COST as f64).round() as u64)
        }
        _ => Err(format!(
            "\"{text}\" is not a valid link cost; it must be a number from {COST_LEAST} to \
             {COST_MOST}"
        )),
    }
}

/// What is said of both directions, and then of one.
fn read_directions(table: &mut Reader<'_, '_>, base: [Direction; 2]) -> [Direction; 2] {
    let before = base.each_ref().map(|direction| direction.reorder > 0);
    let mut directions = if base[0] == base[1] {
        let both = read_direction(table, base[0].clone());
        [both.clone(), both]
    } else {
        base.map(|base| read_direction(table, base))
    };
    split_rtt(table, &mut directions);
    let reordered = table.node("reorder").is_some();
    let mut anywhere = reordered;
    for ((direction, key), before) in directions.iter_mut().zip(["forward", "backward"]).zip(before)
    {
        if let Some(mut inner) = table.node(key).and_then(|node| Reader::new(node, table.faults)) {
            *direction = read_direction(&mut inner, std::mem::take(direction));
            let here = reordered || inner.node("reorder").is_some();
            check_reorder_by(&mut inner, here || before);
            anywhere |= here;
            inner.finish();
        }
    }
    check_reorder_by(table, anywhere || before.contains(&true));
    directions
}

/// How much later packets come says nothing where none of them do; a share may be zero, in a sweep.
fn check_reorder_by(table: &mut Reader<'_, '_>, reordered: bool) {
    if table.node("reorder_by").is_some() && !reordered {
        let message = "\"reorder_by\" needs \"reorder\": the share of packets that it delays";
        table.faults.add(table.origin_of("reorder_by"), message, None);
    }
}

/// `rtt` is the round trip: half of it each way, the odd nanosecond on the way back.
fn split_rtt(table: &mut Reader<'_, '_>, directions: &mut [Direction; 2]) {
    let has_delay = table.node("delay").is_some();
    let Some(rtt) = table.time("rtt") else { return };
    if has_delay {
        table.faults.add(
            table.origin_of("delay"),
            "\"rtt\" and \"delay\" are mutually exclusive",
            None,
        );
    }
    let forward = Duration::from_nanos(rtt.as_nanos() / 2);
    directions[0].delay = forward;
    directions[1].delay = rtt - forward;
}

fn read_direction(table: &mut Reader<'_, '_>, base: Direction) -> Direction {
    let rules = read_rules(table);
    let (jitter, jitter_correlation) = read_words(table, "jitter", varying::jitter)
        .unwrap_or((base.jitter, base.jitter_correlation));
    let registry = &table.faults.document.registry;
    let loss = read_words(table, "loss", |text| varying::loss(text, registry));
    let LossSetting { share: loss, model: loss_model, guest: loss_guest } =
        loss.unwrap_or(LossSetting {
            share: base.loss,
            model: base.loss_model,
            guest: base.loss_guest,
        });
    let (rate, delay) = (table.rate("rate"), table.time("delay"));
    let mut direction = Direction {
        rate: rate.or(base.rate),
        delay: delay.unwrap_or(base.delay),
        // What says one anew of a direction says that it is the same all the time.
        schedule: if rate.is_some() || delay.is_some() { None } else { base.schedule },
        jitter,
        jitter_correlation,
        loss,
        loss_model,
        loss_guest,
        duplicate: table.share("duplicate").unwrap_or(base.duplicate),
        reorder: table.share("reorder").unwrap_or(base.reorder),
        reorder_by: table.time("reorder_by").unwrap_or(base.reorder_by),
        corrupt: table.share("corrupt").unwrap_or(base.corrupt),
        rules: if rules.is_empty() { base.rules } else { rules },
    };
    if direction.reorder > 0 && direction.reorder_by == Duration::ZERO {
        let message = "\"reorder\" needs \"reorder_by\": the extra delay of such packets";
        table.faults.add(table.origin_of("reorder"), message, None);
    }
    if rate.is_some() && table.node("trace").is_some() {
        let message = "a link has either a \"rate\" or a \"trace\"";
        table.faults.add(table.origin_of("trace"), message, None);
    }
    varying::read(table, &mut direction);
    direction
}

/// A text in words of its own.
fn read_words<T>(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let node = table.node(key)?;
    let text = match &node.kind {
        Kind::Text(text) => text.clone(),
        _ => node.plain(),
    };
    parse(&text).map_err(|why| table.faults.add(&node.at, why, None)).ok()
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
                table.origin_of("addresses"),
                "the two addresses are not in one subnet",
                None,
            );
            None
        }
        [a, b] if a.0 == b.0 => {
            table.faults.add(
                table.origin_of("addresses"),
                "the two ends have the same address",
                None,
            );
            None
        }
        [a, b] => Some([*a, *b]),
        _ => {
            if parsed.len() == texts.len() {
                table.faults.add(
                    table.origin_of("addresses"),
                    "a link has exactly two addresses",
                    None,
                );
            }
            None
        }
    }
}

fn parse_address(text: &str) -> Result<(std::net::IpAddr, u8), String> {
    let wrong =
        || format!("\"{text}\" is not an address with a prefix length, e.g. \"10.0.1.2/24\"");
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if length == 0 || length > longest { Err(wrong()) } else { Ok((address, length)) }
}

/// The ports of a plan, to be found by the names of their nodes and links.
pub struct NamedPorts<'a> {
    nodes: &'a NamedNodes<'a>,
    index: Index,
}

impl<'a> NamedPorts<'a> {
    /// Those of `links`.
    pub fn new(nodes: &'a NamedNodes<'a>, links: &[LinkPlan]) -> Self {
        Self { nodes, index: Index::new(links.len(), |link| &links[link].name) }
    }

    /// The ports that `node.link` means, as (link, end); each part may have a `*`.
    pub fn matching(
        &self,
        name: &str,
        at: &Origin,
        links: &[LinkPlan],
        faults: &Faults<'_>,
    ) -> Vec<(usize, usize)> {
        let node_of = |link: usize, end: usize| &*self.nodes.plans[links[link].ends[end]].name;
        let ends = |link: usize| [(link, 0), (link, 1)];
        let found: Vec<(usize, usize)> = if name.contains('*') {
            ports_called(name, links, self.nodes.plans)
        } else {
            // There may be very many links, and as many names to find.
            let (node, link) = name.split_once('.').unwrap_or((name, ""));
            let called = self.index.find(link, |link| &links[link].name).iter().copied();
            called.flat_map(ends).filter(|&(link, end)| node == node_of(link, end)).collect()
        };
        if found.is_empty() && faults.accepts_more() {
            let all: Vec<String> = (0..links.len())
                .flat_map(ends)
                .map(|(link, end)| format!("{}.{}", node_of(link, end), links[link].name))
                .collect();
            let help = suggest(name, all.iter().map(String::as_str));
            faults.add(at, format!("no port is called \"{name}\" (ports are \"NODE.LINK\")"), help);
        }
        found
    }
}

pub fn read_ports(
    qdiscs: &[(Key, Node)],
    policers: &[(Key, Node)],
    ports: &NamedPorts<'_>,
    links: &mut [LinkPlan],
    faults: &Faults<'_>,
) {
    for (key, node) in by_precedence(qdiscs) {
        let texts = as_texts(node, faults);
        if !tc::check_qdiscs(&texts, faults) {
            continue;
        }
        for (link, end) in ports.matching(&key.name, &key.at, links, faults) {
            let owned = texts.iter().map(|(text, _)| (*text).to_string()).collect();
            links[link].ports[end].qdiscs = owned;
            links[link].ports[end].guests = faults.document.registry.qdiscs().to_vec();
        }
    }
    for (key, node) in by_precedence(policers) {
        let Some(text) = as_text(node, faults) else { continue };
        tc::check_police(text, &node.at, faults);
        for (link, end) in ports.matching(&key.name, &key.at, links, faults) {
            links[link].ports[end].police = Some(text.to_string());
        }
    }
}

/// Patterns before names: of two that fit a port the later one counts, and a name comes before any pattern,
/// wherever it stands.
fn by_precedence(ports: &[(Key, Node)]) -> Vec<&(Key, Node)> {
    let mut ordered: Vec<_> = ports.iter().collect();
    ordered.sort_by_key(|(key, _)| !key.name.contains('*'));
    ordered
}
