//! The flows of a plan: what the hosts do.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use datapath::tcp::cc::Algorithm;
use datapath::units::Duration;

use super::app::{App, FlowPlan};
use super::doc::{Key, Kind, Node, Origin};
use super::names::{NamedNodes, check_name, check_unique};
use super::read::{Faults, Reader};
use super::{limit_checks, limits, tc};
use crate::application::GuestApp;

/// Reads `[flows]`, and tells where each flow was written.
pub fn read_flows<'a>(
    entries: &'a [(Key, Node)],
    nodes: &NamedNodes<'_>,
    duration: Duration,
    faults: &Faults<'_>,
) -> (Vec<FlowPlan>, Vec<&'a Origin>) {
    let mut flows = Vec::new();
    let mut places = Vec::new();
    let mut room = Room { flows: 0, further: 0 };
    for (key, node) in entries {
        check_name(key, "flow", faults);
        for flow in read_flow(key, node, nodes, duration, &mut room, faults) {
            flows.push(flow);
            places.push(&key.at);
        }
    }
    check_groups(&flows, &places, faults);
    check_unique("flow", flows.iter().map(|flow: &FlowPlan| flow.name.as_str()), &places, faults);
    (flows, places)
}

/// The figures of a group and of a flow of its name would be under one scope. A flow that is alone
/// in the group of its own name is both.
fn check_groups(flows: &[FlowPlan], places: &[&Origin], faults: &Faults<'_>) {
    let names: BTreeSet<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    for (flow, at) in flows.iter().zip(places) {
        let Some(group) = flow.group.as_deref().filter(|group| *group != flow.name) else {
            continue;
        };
        if names.contains(group) {
            faults.add(at, format!("the group \"{group}\" has the same name as a flow"), None);
        }
    }
}

/// What the flows so far have taken of what there is room for.
struct Room {
    flows: usize,
    /// Hosts that are named beyond the two ends of each flow.
    further: usize,
}

impl Room {
    /// Takes room for `count` flows that name so many further hosts each; false, and a fault, if
    /// there is not enough.
    fn reserve(
        &mut self,
        count: Option<usize>,
        further: usize,
        at: &Origin,
        faults: &Faults<'_>,
    ) -> bool {
        let hosts = count.and_then(|count| count.checked_mul(further));
        let most = limits::FURTHER_HOSTS_MAX;
        let fits =
            limit_checks::within_limit("flows", self.flows, count, limits::FLOWS_MAX, at, faults)
                && limit_checks::within_limit(
                    "servers in its flows",
                    self.further,
                    hosts,
                    most,
                    at,
                    faults,
                );
        self.flows = self.flows.saturating_add(count.unwrap_or(0)).min(limits::FLOWS_MAX);
        self.further = self.further.saturating_add(hosts.unwrap_or(0)).min(most);
        fits
    }
}

/// One entry of `[flows]`: `count` flows (or none), or all those of an RRUL test.
fn read_flow(
    key: &Key,
    node: &Node,
    nodes: &NamedNodes<'_>,
    duration: Duration,
    room: &mut Room,
    faults: &Faults<'_>,
) -> Vec<FlowPlan> {
    if key.name == "total" {
        faults.add(
            &key.at,
            "\"total\" cannot be the name of a flow: it stands for all flows together",
            None,
        );
    }
    let Some(mut table) = Reader::new(node, faults) else { return Vec::new() };
    let (from, from_many) = read_ends(&mut table, "from", nodes);
    let (to, to_many) = read_ends(&mut table, "to", nodes);
    let pairing = table.word("pair", &PAIRINGS).unwrap_or(Pairing::Product);
    let also: Vec<usize> = table
        .texts("also")
        .iter()
        .flat_map(|(name, at)| nodes.matching(name, at, faults))
        .collect();
    let (start, stop) = read_times(&mut table, duration);
    let count = table.integer("count", 0..=100_000).unwrap_or(1);
    let group = read_group(&mut table);
    let base = FlowPlan {
        name: key.name.clone(),
        group: group.or_else(|| (count > 1 || from_many || to_many).then(|| key.name.clone())),
        app: App::Bulk,
        from: from.first().copied().unwrap_or(0),
        to: to.first().copied().unwrap_or(0),
        anycast_hosts: also,
        address: read_address(&mut table),
        start,
        spread: table.time("spread").unwrap_or(Duration::ZERO),
        stop,
        congestion_control: read_congestion_control(&mut table),
        tos: table.integer("tos", 0..=255).unwrap_or(0) as u8,
        reply_tos: table.integer("reply_tos", 0..=255).unwrap_or(0) as u8,
    };
    let one = match read_app(&mut table, &to) {
        Some(AppWord::One(app)) => vec![FlowPlan { app, ..base }],
        Some(AppWord::Rrul) => {
            check_rrul(&base, duration, &mut table);
            rrul(&base, table.boolean("marking").unwrap_or(true), duration)
        }
        // Which keys belong here is unknown, so none of them is called unknown.
        None => return Vec::new(),
    };
    check_also(&one, &mut table);
    table.finish();
    // A query goes to all servers at once.
    let asks_all = one.iter().any(|flow| matches!(flow.app, App::Query { .. }));
    let servers = if asks_all { to.len() } else { 0 };
    let further = one.first().map_or(0, |flow| flow.anycast_hosts.len()) + servers;
    let to = if asks_all { &to[..to.len().min(1)] } else { &to[..] };
    if pairing == Pairing::OneToOne && (asks_all || from.len() != to.len()) {
        let message = if asks_all {
            "a query asks all servers at once: it has no pairs".into()
        } else {
            format!(
                "pairs need as many \"from\" as \"to\": these are {} and {}",
                from.len(),
                to.len()
            )
        };
        faults.add(node.get("pair").map_or(&node.at, |node| &node.at), message, None);
        return Vec::new();
    }
    let each = if pairing == Pairing::OneToOne { 1 } else { to.len() };
    let all = [from.len(), each, count as usize, one.len()];
    let all = all.into_iter().try_fold(1, |product: usize, factor| product.checked_mul(factor));
    if !room.reserve(all, further, &key.at, faults) {
        return Vec::new();
    }
    let several = from_many || (to_many && !asks_all);
    repeated(&one, &pairing.pairs(&from, to), count, several)
}

/// When a flow starts, and when it stops if that is said.
fn read_times(table: &mut Reader<'_, '_>, duration: Duration) -> (Duration, Option<Duration>) {
    let start = table.time("start").unwrap_or(Duration::ZERO);
    let stop = table.time("stop");
    if start >= duration {
        let at = table.origin_of("start");
        table.faults.add(at, "the flow would start after the end of the experiment", None);
    }
    if stop.is_some_and(|stop| stop <= start) {
        let at = table.origin_of("stop");
        table.faults.add(at, "the flow would stop before it starts", None);
    }
    (start, stop)
}

/// The name of the group that a flow is counted in.
fn read_group(table: &mut Reader<'_, '_>) -> Option<String> {
    let (_, at) = table.text_at("group")?;
    let group = table.text("group")?;
    if group.is_empty() || group == "total" {
        table.faults.add(at, format!("\"{group}\" cannot be the name of a group"), None);
    }
    Some(group.to_owned())
}

/// More hosts with the same address are of use only to flows that a program on one of them answers.
fn check_also(flows: &[FlowPlan], table: &mut Reader<'_, '_>) {
    let why = match flows {
        [FlowPlan { app: App::Ping { .. }, .. }] => "a ping is answered without a program",
        [FlowPlan { app: App::Query { .. }, .. }] => "a query asks all hosts of \"to\"",
        _ => return,
    };
    if table.node("also").is_some() {
        let message = format!("\"also\" has no effect: {why}");
        table.faults.add(table.origin_of("also"), message, None);
    }
}

/// Which of the hosts of `from` and `to` a flow joins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairing {
    /// Each of one with each of the other.
    Product,
    /// The first with the first, the second with the second, ….
    OneToOne,
}

impl Pairing {
    fn pairs(self, from: &[usize], to: &[usize]) -> Vec<(usize, usize)> {
        match self {
            Self::Product => {
                from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))).collect()
            }
            Self::OneToOne => from.iter().copied().zip(to.iter().copied()).collect(),
        }
    }
}

const PAIRINGS: [(&str, Pairing); 2] =
    [("product", Pairing::Product), ("one-to-one", Pairing::OneToOne)];

/// The hosts that a name, a pattern or a list of such means, and whether they may be several.
fn read_ends(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    nodes: &NamedNodes<'_>,
) -> (Vec<usize>, bool) {
    table.demand(key);
    let names = table.texts(key);
    let is_empty = |node: &Node| matches!(&node.kind, Kind::List(items) if items.is_empty());
    if table.node(key).is_some_and(is_empty) {
        table.faults.add(
            table.origin_of(key),
            format!("\"{key}\" must name at least one host"),
            None,
        );
    }
    let several = names.len() > 1 || names.iter().any(|(name, _)| name.contains('*'));
    let found = names.iter().flat_map(|(name, at)| nodes.matching(name, at, table.faults));
    (found.collect(), several)
}

/// The flows between all pairs, `count` times: `name` once, or `name-1`, `name-2`, … if there may be
/// `several`.
fn repeated(
    flows: &[FlowPlan],
    pairs: &[(usize, usize)],
    count: i64,
    several: bool,
) -> Vec<FlowPlan> {
    let mut all = Vec::new();
    for (number, (from, to)) in (1..).zip((0..count).flat_map(|_| pairs)) {
        all.extend(flows.iter().map(|flow| {
            // What runs the other way does so between these two as well.
            let turned = flow.from != flows[0].from;
            let (from, to) = if turned { (*to, *from) } else { (*from, *to) };
            let name = &flow.name;
            let name =
                if count == 1 && !several { name.clone() } else { format!("{name}-{number}") };
            FlowPlan { name, from, to, ..flow.clone() }
        }));
    }
    all
}

/// An address that is sent to in place of the host's first one.
fn read_address(table: &mut Reader<'_, '_>) -> Option<IpAddr> {
    let (text, at) = table.text_at("address")?;
    let address = text.parse().ok();
    if address.is_none() {
        table.faults.add(at, format!("\"{text}\" is not an address"), None);
    }
    address
}

fn read_congestion_control(table: &mut Reader<'_, '_>) -> Option<Algorithm> {
    let (word, at) = table.text_at("congestion_control")?;
    tc::congestion_control(word, at, table.faults)
}

/// The word after `app =`.
enum AppWord {
    One(App),
    Rrul,
}

fn read_app(table: &mut Reader<'_, '_>, to: &[usize]) -> Option<AppWord> {
    const WORDS: [(&str, u8); 12] = [
        ("bulk", 0),
        ("fixed", 1),
        ("chunk", 2),
        ("request", 3),
        ("on-off", 4),
        ("cbr", 5),
        ("ping", 6),
        ("probe", 7),
        ("query", 8),
        ("connect", 9),
        ("rrul", 10),
        ("program", 11),
    ];
    table.demand("app");
    if let Some((app, at)) = guest_app(table) {
        let app = app.map_err(|why| table.faults.add(at, why, None));
        return app.ok().map(|app| AppWord::One(App::Guest(app)));
    }
    let app = match table.word("app", &WORDS)? {
        0 => App::Bulk,
        1 => App::Fixed { bytes: required_size(table, "bytes")? },
        2 => App::Chunk {
            chunk: required_size(table, "chunk")?,
            gap: table.time("gap").unwrap_or(Duration::ZERO),
            bytes: table.size("bytes"),
        },
        3 => App::Request {
            request: required_size(table, "request")?,
            response: required_size(table, "response")?,
            think: table.time("think").unwrap_or(Duration::ZERO),
            count: table.integer("requests", 1..=i64::MAX).map(|count| count as u64),
        },
        4 => {
            let on = required_time(table, "on");
            if on == Some(Duration::ZERO) {
                let at = table.origin_of("on");
                table.faults.add(at, "\"on\" must not be zero: nothing would be sent", None);
            }
            App::OnOff { on: on?, off: required_time(table, "off")? }
        }
        5 => {
            table.demand("rate");
            let size = datagram_size(table, 1..=DATAGRAM_MAX).unwrap_or(1200);
            App::Cbr { rate: table.rate("rate")?, size }
        }
        6 => App::Ping {
            interval: interval(table).unwrap_or(Duration::from_millis(200)),
            size: datagram_size(table, 0..=DATAGRAM_MAX).unwrap_or(56),
        },
        7 => App::Probe {
            interval: interval(table).unwrap_or(Duration::from_millis(20)),
            size: datagram_size(table, 0..=DATAGRAM_MAX).unwrap_or(64),
        },
        8 => App::Query {
            servers: to.to_vec(),
            request: positive_size(table, "request").unwrap_or(REQUEST_BYTES),
            response: required_size(table, "response")?,
            think: table.time("think").unwrap_or(Duration::ZERO),
            count: table.integer("queries", 1..=i64::MAX).map(|count| count as u64),
        },
        9 => App::Connect {
            interval: interval(table).unwrap_or(Duration::from_secs(1)),
            count: table.integer("attempts", 1..=i64::MAX).map(|count| count as u64),
        },
        11 => {
            table.demand("program");
            let program = command(table, "program");
            if program.is_empty() {
                return None;
            }
            App::Program { program, server: command(table, "server") }
        }
        _ => return Some(AppWord::Rrul),
    };
    Some(AppWord::One(app))
}

/// A program and its arguments.
fn command(table: &mut Reader<'_, '_>, key: &'static str) -> Vec<String> {
    let words: Vec<String> = table.texts(key).iter().map(|(word, _)| (*word).into()).collect();
    if words.is_empty() && table.node(key).is_some() {
        let message =
            format!("\"{key}\" must be a program with its arguments, such as [\"iperf3\", \"-s\"]");
        table.faults.add(table.origin_of(key), message, None);
    }
    words
}

/// An application of a library user, `NAME WORDS`, and where it stands; or what is wrong with its words.
fn guest_app<'a>(table: &mut Reader<'a, '_>) -> Option<(Result<GuestApp, String>, &'a Origin)> {
    let (text, at) = table.text_at("app")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, words) = words.split_first()?;
    let kind = table.faults.document.registry.application_called(name)?;
    Some((kind.read(words).map_err(|why| format!("{name}: {why}")), at))
}

fn required_size(table: &mut Reader<'_, '_>, key: &'static str) -> Option<u64> {
    table.demand(key);
    positive_size(table, key)
}

/// A size that is not 0.
pub fn positive_size(table: &mut Reader<'_, '_>, key: &'static str) -> Option<u64> {
    let size = table.size(key)?;
    if size == 0 {
        table.faults.add(table.origin_of(key), format!("\"{key}\" must not be zero"), None);
    }
    Some(size)
}

/// Bytes of a request to one of several servers, where nothing is said.
pub const REQUEST_BYTES: u64 = 1_600;

/// The most bytes that a datagram, or an echo request, holds behind its IPv4 headers.
const DATAGRAM_MAX: u64 = 65_535 - 20 - 8;

/// The payload of a datagram.
fn datagram_size(table: &mut Reader<'_, '_>, range: RangeInclusive<u64>) -> Option<u64> {
    let size = table.size("size")?;
    if range.contains(&size) {
        return Some(size);
    }
    let (least, most) = range.into_inner();
    let message = format!("a datagram holds {least} to {most} bytes, not {size}");
    table.faults.add(table.origin_of("size"), message, None);
    None
}

/// The time between two probes, or two connections.
fn interval(table: &mut Reader<'_, '_>) -> Option<Duration> {
    let interval = table.time("interval")?;
    if interval == Duration::ZERO {
        table.faults.add(table.origin_of("interval"), "\"interval\" must not be zero", None);
    }
    Some(interval)
}

fn required_time(table: &mut Reader<'_, '_>, key: &'static str) -> Option<Duration> {
    table.demand(key);
    table.time(key)
}

/// The probes of RRUL run so long before its streams start, and after they have stopped.
const RRUL_AROUND: Duration = Duration::from_secs(5);

/// The streams of RRUL begin before the flow stops, and before the experiment is over.
fn check_rrul(base: &FlowPlan, duration: Duration, table: &mut Reader<'_, '_>) {
    let begin = base.start + RRUL_AROUND;
    let (what, key) = match base.stop {
        Some(stop) if stop < duration => ("the flow stops", "stop"),
        _ => ("the experiment is over", "duration"),
    };
    if begin >= base.stop.unwrap_or(duration).min(duration) {
        let message = format!("the streams of rrul start 5 s after the flow, and {what} by then");
        let help = format!(
            "\"{key}\" must be more than {} s; flent's tests take 70 s",
            begin.as_nanos() as f64 / 1e9
        );
        table.faults.add(table.origin_of("app"), message, Some(help));
    }
}

/// RRUL: four TCP streams each way, one per marking, with ICMP and UDP probes from the start; the
/// streams start 5 s later and stop 5 s earlier, if there is time for that (flent's `rrul`, or `rrul_be` without marking).
fn rrul(base: &FlowPlan, marking: bool, duration: Duration) -> Vec<FlowPlan> {
    const MARKS: [(&str, u8); 4] = [("be", 0x00), ("bk", 0x20), ("cs5", 0xa0), ("ef", 0xb8)];
    let start = base.start + RRUL_AROUND;
    let end = base.stop.unwrap_or(duration).as_nanos();
    let stop = end.checked_sub(RRUL_AROUND.as_nanos()).map(Duration::from_nanos);
    let stop = stop.filter(|stop| *stop > start).or(base.stop);
    let mut flows = Vec::new();
    for (direction, from, to) in [("up", base.from, base.to), ("down", base.to, base.from)] {
        for (mark, tos) in MARKS {
            flows.push(FlowPlan {
                name: format!("{}-{direction}-{mark}", base.name),
                group: Some(format!("{}-{direction}", base.name)),
                app: App::Bulk,
                from,
                to,
                start,
                stop,
                tos: if marking { tos } else { 0 },
                reply_tos: if marking { tos } else { 0 },
                ..base.clone()
            });
        }
    }
    let probe = |name: &str, app: App, tos: u8| FlowPlan {
        name: format!("{}-{name}", base.name),
        group: Some(format!("{}-probes", base.name)),
        app,
        tos: if marking { tos } else { 0 },
        reply_tos: if marking { tos } else { 0 },
        ..base.clone()
    };
    let interval = Duration::from_millis(200);
    flows.push(probe("ping", App::Ping { interval, size: 56 }, 0));
    for (name, tos) in [("udp-be", 0x00), ("udp-bk", 0x20), ("udp-ef", 0xb8)] {
        let interval = Duration::from_millis(20);
        flows.push(probe(name, App::Probe { interval, size: 64 }, tos));
    }
    flows
}
