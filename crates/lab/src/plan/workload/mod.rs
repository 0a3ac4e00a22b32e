//! `[workload.NAME]`: many flows by rule: how large, when, and from whom to whom.

mod files;
pub mod matrix;
pub mod sizes;

use std::collections::BTreeMap;

use datapath::tcp::cc::Algorithm;
use datapath::units::Duration;

use super::doc::{Key, Node, Origin};
use super::limits;
use super::model::{App, FlowPlan, LinkPlan, NodePlan, Role};
use super::names::{check_name, node_indices};
use super::quantity;
use super::read::{Faults, Reader};
use super::routes::Ways;
use super::suggest;
use matrix::Matrix;
use sizes::Sizes;

/// Many flows by rule.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadPlan {
    /// Name, unique among workloads, flows and groups.
    pub name: String,
    /// The hosts that take part.
    pub hosts: Vec<usize>,
    /// The rack of each of them.
    pub racks: Vec<u32>,
    /// How large flows are.
    pub sizes: Sizes,
    /// Who sends to whom.
    pub matrix: Matrix,
    /// When flows begin.
    pub arrivals: Arrivals,
    /// No flow begins before.
    pub start: Duration,
    /// No flow begins at or after.
    pub stop: Duration,
    /// Settings of its connections, as of a flow.
    pub like: FlowPlan,
}

/// When flows begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At random: so many events a second, of all hosts together.
    Poisson(f64),
    /// The same on average, but each host is on and off for exponentially distributed times of these
    /// means.
    OnOff(f64, Duration, Duration),
    /// Each host has so many at a time, and pauses so long behind each.
    Closed(u32, Duration),
    /// As listed.
    Trace(Vec<TraceFlow>),
}

/// A flow of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// When it begins, after the workload's start.
    pub at: Duration,
    /// Who sends, as an index of the workload's hosts.
    pub from: usize,
    /// Who receives.
    pub to: usize,
    /// Bytes.
    pub bytes: u64,
}

/// Reads all of `[workload]`.
pub fn read(
    entries: &[(Key, Node)],
    nodes: &[NodePlan],
    links: &[LinkPlan],
    ways: &Ways,
    flows: &[FlowPlan],
    duration: Duration,
    faults: &Faults<'_>,
) -> Vec<WorkloadPlan> {
    let mut plans: Vec<WorkloadPlan> = Vec::new();
    for (key, node) in entries {
        check_name(key, "workload", faults);
        let taken =
            |flow: &FlowPlan| flow.name == key.name || flow.group.as_deref() == Some(&key.name);
        if flows.iter().any(taken) || key.name == "total" {
            faults.add(&key.at, format!("a flow or a group is called \"{}\" too", key.name), None);
        }
        if plans.len() == WORKLOADS_MAX {
            let message = format!("an experiment has at most {WORKLOADS_MAX} workloads");
            faults.add(&key.at, message, None);
            break;
        }
        let net = Net { nodes, links, ways };
        plans.extend(read_one(key, node, &net, duration, faults));
    }
    plans
}

/// Workloads: each has a port of its own at every host.
const WORKLOADS_MAX: usize = 500;

/// What a workload runs on.
struct Net<'a> {
    nodes: &'a [NodePlan],
    links: &'a [LinkPlan],
    ways: &'a Ways,
}

fn read_one(
    key: &Key,
    node: &Node,
    net: &Net<'_>,
    duration: Duration,
    faults: &Faults<'_>,
) -> Option<WorkloadPlan> {
    let mut table = Reader::new(node, faults)?;
    let hosts = read_hosts(&mut table, net.nodes);
    let start = table.time("start").unwrap_or(Duration::ZERO);
    let stop = table.time("stop").unwrap_or(duration).min(duration);
    if start >= stop {
        faults.add(table.place("start"), "the workload would stop before it starts", None);
        return None;
    }
    let congestion_control = table
        .text_at("congestion_control")
        .and_then(|(word, at)| super::tc::congestion_control(word, at, faults));
    let like = like(&key.name, congestion_control, &mut table);
    if hosts.len() < 2 {
        faults.add(table.place("hosts"), "a workload needs two hosts or more", None);
        return None;
    }
    let racks = racks(&hosts, net);
    let (sizes, matrix, arrivals) = if table.node("trace").is_some() {
        let flows = read_trace(&mut table, &hosts, net.nodes, stop - start)?;
        (Sizes::Fixed(1), Matrix::AllToAll, Arrivals::Trace(flows))
    } else {
        let sizes = read_sizes(&mut table)?;
        let matrix = read_matrix(&mut table, hosts.len(), &racks)?;
        let arrivals = read_arrivals(&mut table, &hosts, &racks, &sizes, &matrix, net)?;
        (sizes, matrix, arrivals)
    };
    table.finish();
    check_ways(&hosts, net, &node.at, faults)?;
    let plan = WorkloadPlan {
        name: key.name.clone(),
        hosts,
        racks,
        sizes,
        matrix,
        arrivals,
        start,
        stop,
        like,
    };
    check_count(&plan, &node.at, faults)?;
    Some(plan)
}

/// What its connections are configured by.
fn like(name: &str, congestion_control: Option<Algorithm>, table: &mut Reader<'_, '_>) -> FlowPlan {
    FlowPlan {
        name: name.into(),
        group: None,
        app: App::Bulk,
        from: 0,
        to: 0,
        also: Vec::new(),
        address: None,
        start: Duration::ZERO,
        spread: Duration::ZERO,
        stop: None,
        congestion_control,
        tos: table.integer("tos", 0..=255).unwrap_or(0) as u8,
        reply_tos: table.integer("reply_tos", 0..=255).unwrap_or(0) as u8,
    }
}

/// The hosts that are named, each once; all if none is.
fn read_hosts(table: &mut Reader<'_, '_>, nodes: &[NodePlan]) -> Vec<usize> {
    if table.node("hosts").is_none() {
        return (0..nodes.len()).filter(|node| nodes[*node].role == Role::Host).collect();
    }
    let mut known = vec![false; nodes.len()];
    let mut hosts = Vec::new();
    for (name, at) in table.texts("hosts") {
        for node in node_indices(name, at, nodes, table.faults) {
            if nodes[node].role == Role::Router {
                let message =
                    format!("\"{}\" is a router and runs no applications", nodes[node].name);
                table.faults.add(at, message, None);
            } else if !std::mem::replace(&mut known[node], true) {
                hosts.push(node);
            }
        }
    }
    hosts
}

/// Hosts behind the same router are in one rack; a host with several links is in one of its own.
fn racks(hosts: &[usize], net: &Net<'_>) -> Vec<u32> {
    let mut far: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for link in net.links {
        for (end, other) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
            far.entry(end).or_default().push(other);
        }
    }
    let rack = |host: &usize| match far.get(host).map(Vec::as_slice) {
        Some([switch]) => *switch as u32,
        _ => *host as u32,
    };
    hosts.iter().map(rack).collect()
}

/// The words of a text, and where it is.
fn words<'a>(table: &mut Reader<'a, '_>, key: &'static str) -> Option<(Vec<&'a str>, &'a Origin)> {
    let (text, at) = table.text_at(key)?;
    Some((text.split_whitespace().collect(), at))
}

/// `size = "web-search"`, `"fixed 64kb"`, `"pareto 100kb 1.2"`, `"exponential 100kb"`, `"file NAME"`.
fn read_sizes(table: &mut Reader<'_, '_>) -> Option<Sizes> {
    table.demand("size");
    let (words, at) = words(table, "size")?;
    let bytes = |text: &str| match quantity::size(text)? {
        0 => Err("a size of 0 is no flow".to_string()),
        bytes => Ok(bytes),
    };
    let shape = |text: &str| match text.parse::<f64>() {
        Ok(shape) if shape > 1.0 && shape < 1e3 => Ok(shape),
        _ => Err(format!("the shape of a Pareto distribution is above 1, not {text}")),
    };
    let read = match words.as_slice() {
        ["fixed", size] => bytes(size).map(Sizes::Fixed),
        ["exponential", mean] => bytes(mean).map(|mean| Sizes::Exponential(mean as f64)),
        ["pareto", mean, by] => {
            bytes(mean).and_then(|mean| Ok(Sizes::Pareto(mean as f64, shape(by)?)))
        }
        ["file", file] => files::cdf(&table.beside(file)).map(Sizes::Cdf),
        [name] if sizes::KNOWN.iter().any(|known| known.0 == *name) => {
            let points = sizes::KNOWN.iter().find(|known| known.0 == *name).map(|known| known.1);
            Ok(Sizes::Cdf(points.unwrap_or_default().to_vec()))
        }
        _ => {
            let names = sizes::KNOWN.iter().map(|known| known.0);
            let forms = ["fixed SIZE", "exponential MEAN", "pareto MEAN SHAPE", "file NAME"];
            let help = suggest(&words.join(" "), names.chain(forms));
            table.faults.add(at, "this is no distribution of sizes", help);
            return None;
        }
    };
    read.map_err(|why| table.faults.add(at, why, None)).ok()
}

/// `matrix = "all-to-all"`, `"permutation"`, `"stride 8"`, `"incast 20"`, `"rack-local 50%"`, `"file NAME"`.
fn read_matrix(table: &mut Reader<'_, '_>, hosts: usize, racks: &[u32]) -> Option<Matrix> {
    let Some((words, at)) = words(table, "matrix") else { return Some(Matrix::AllToAll) };
    let number = |text: &str, most: usize| match text.parse::<usize>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("of {hosts} hosts this is a number from 1 to {most}, not {text}")),
    };
    let read = match words.as_slice() {
        ["all-to-all"] => Ok(Matrix::AllToAll),
        ["permutation"] => Ok(Matrix::Permutation),
        ["stride", step] => number(step, hosts - 1).map(Matrix::Stride),
        ["incast", senders] => number(senders, hosts - 1).map(Matrix::Incast),
        ["rack-local", share] => quantity::share(share).and_then(|share| rack_local(share, racks)),
        ["file", file] => files::matrix(&table.beside(file), hosts).map(Matrix::Weights),
        _ => {
            let forms = [
                "all-to-all",
                "permutation",
                "stride N",
                "incast N",
                "rack-local SHARE",
                "file NAME",
            ];
            let help = suggest(&words.join(" "), forms);
            table.faults.add(at, "this is no traffic matrix", help);
            return None;
        }
    };
    read.map_err(|why| table.faults.add(at, why, None)).ok()
}

/// Each host has somebody to send to inside its rack, and outside.
fn rack_local(share: u64, racks: &[u32]) -> Result<Matrix, String> {
    let mut sizes = BTreeMap::new();
    for rack in racks {
        *sizes.entry(rack).or_insert(0) += 1;
    }
    if share > 0 && sizes.values().any(|size| *size < 2) {
        return Err("a rack of one host has nobody to send to inside".into());
    }
    if share < 1_000_000 && sizes.len() < 2 {
        return Err("there is one rack only: nobody is outside".into());
    }
    Ok(Matrix::RackLocal(share))
}

fn read_arrivals(
    table: &mut Reader<'_, '_>,
    hosts: &[usize],
    racks: &[u32],
    sizes: &Sizes,
    matrix: &Matrix,
    net: &Net<'_>,
) -> Option<Arrivals> {
    const WORDS: [(&str, u8); 3] = [("poisson", 0), ("on-off", 1), ("closed", 2)];
    let word = table.word("arrivals", &WORDS);
    if table.node("arrivals").is_some() && word.is_none() {
        return None;
    }
    if word == Some(2) {
        if matches!(matrix, Matrix::Incast(_)) {
            let message =
                "an incast has open arrivals; for a closed one use flows with app = \"query\"";
            table.faults.add(table.place("arrivals"), message, None);
        }
        let concurrency = table.integer("concurrency", 1..=1000).unwrap_or(1) as u32;
        return Some(Arrivals::Closed(concurrency, table.time("think").unwrap_or_default()));
    }
    let rate = read_load(table, hosts, racks, sizes, matrix, net)?;
    if word != Some(1) {
        return Some(Arrivals::Poisson(rate));
    }
    if matches!(matrix, Matrix::Incast(_)) {
        let message = "an incast has \"poisson\" arrivals";
        table.faults.add(table.place("arrivals"), message, None);
    }
    let mut span = |key| {
        table.demand(key);
        let time = table.time(key)?;
        if time.as_nanos() < 1_000 {
            table.faults.add(table.place(key), format!("\"{key}\" must be 1us or more"), None);
            return None;
        }
        Some(time)
    };
    let (on, off) = (span("on"), span("off"));
    Some(Arrivals::OnOff(rate, on?, off?))
}

/// Events a second that make up `load`, of the hosts' own links or of those between racks.
fn read_load(
    table: &mut Reader<'_, '_>,
    hosts: &[usize],
    racks: &[u32],
    sizes: &Sizes,
    matrix: &Matrix,
    net: &Net<'_>,
) -> Option<f64> {
    const OF: [(&str, bool); 2] = [("access", false), ("bisection", true)];
    table.demand("load");
    let place = table.place("load");
    let load = table.number("load", f64::MIN, f64::MAX)?;
    if load <= 0.0 || load > 1.0 {
        let message = format!("a \"load\" is above 0 and at most 1, not {load}");
        table.faults.add(place, message, None);
        return None;
    }
    let between = table.word("of", &OF).unwrap_or(false);
    let capacity = if between { uplinks(racks, net) } else { access(hosts, net) };
    let Some(bits) = capacity.filter(|bits| *bits > 0.0) else {
        let what = if between {
            "there are no links between racks, or one of them"
        } else {
            "a host's link"
        };
        table.faults.add(place, format!("{what} has no \"rate\": a load of it says nothing"), None);
        return None;
    };
    let crossing = if between { matrix.crossing(racks) } else { 1.0 };
    if crossing <= 0.0 {
        table.faults.add(
            place,
            "no flow goes from rack to rack: a load of \"bisection\" says nothing",
            None,
        );
        return None;
    }
    Some(load * bits / (8.0 * sizes.mean() * crossing))
}

/// Bit/s that the hosts can send.
fn access(hosts: &[usize], net: &Net<'_>) -> Option<f64> {
    let mut of_host = BTreeMap::new();
    for link in net.links {
        for (end, direction) in link.ends.iter().zip(&link.directions) {
            let rate = direction.rate.map(|rate| rate.bits_per_sec() as f64);
            let sum: &mut Option<f64> = of_host.entry(*end).or_insert(Some(0.0));
            *sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
        }
    }
    hosts.iter().map(|host| of_host.get(host).copied().flatten()).sum()
}

/// Bit/s of the links that lead up from the switches of these racks to other routers.
fn uplinks(racks: &[u32], net: &Net<'_>) -> Option<f64> {
    let switches: std::collections::BTreeSet<usize> =
        racks.iter().map(|rack| *rack as usize).collect();
    let mut sum = Some(0.0);
    for link in net.links {
        for (end, direction) in link.ends.iter().zip(&link.directions) {
            let routers = link.ends.iter().all(|end| net.nodes[*end].role == Role::Router);
            if routers && switches.contains(end) {
                let rate = direction.rate.map(|rate| rate.bits_per_sec() as f64);
                sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
            }
        }
    }
    sum
}

/// `trace = "flows.csv"`.
fn read_trace(
    table: &mut Reader<'_, '_>,
    hosts: &[usize],
    nodes: &[NodePlan],
    span: Duration,
) -> Option<Vec<TraceFlow>> {
    let (file, at) = table.text_at("trace")?;
    let names: BTreeMap<&str, usize> =
        hosts.iter().enumerate().map(|(place, host)| (nodes[*host].name.as_str(), place)).collect();
    let read = files::trace(&table.beside(file), &names, span);
    read.map_err(|why| table.faults.add(at, why, None)).ok()
}

/// From the first host to each other one and back.
fn check_ways(hosts: &[usize], net: &Net<'_>, at: &Origin, faults: &Faults<'_>) -> Option<()> {
    for &host in &hosts[1..] {
        for (from, to) in [(hosts[0], host), (host, hosts[0])] {
            if let Err(problem) = super::walk::walk(from, to, net.nodes, net.links, net.ways) {
                faults.add(at, problem.message, problem.help);
                return None;
            }
        }
    }
    Some(())
}

/// How many flows there will be, about.
fn check_count(plan: &WorkloadPlan, at: &Origin, faults: &Faults<'_>) -> Option<()> {
    let span = (plan.stop - plan.start).as_nanos() as f64 / 1e9;
    let per_event = if let Matrix::Incast(senders) = plan.matrix { senders as f64 } else { 1.0 };
    let count = match &plan.arrivals {
        Arrivals::Poisson(rate) | Arrivals::OnOff(rate, ..) => rate * span * per_event,
        Arrivals::Trace(flows) => flows.len() as f64,
        Arrivals::Closed(..) => 0.0,
    };
    let most = limits::WORKLOAD_FLOWS_MAX;
    let busiest = (0..plan.hosts.len())
        .map(|host| count * plan.matrix.source_share(host, plan.hosts.len()))
        .fold(0.0, f64::max);
    if count <= most as f64 && busiest <= limits::HOST_FLOWS_MAX as f64 * 0.9 {
        return Some(());
    }
    let message = format!(
        "this makes about {count:.0} flows, {busiest:.0} of one host; at most {most} and about {} are possible",
        limits::HOST_FLOWS_MAX
    );
    faults.add(at, message, Some("use less \"load\", larger flows or a shorter time".into()));
    None
}
