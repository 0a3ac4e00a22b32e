//! `[workload.NAME]`: many flows by rule: how large, when, and from whom to whom.

mod arrivals;
mod files;
pub mod matrix;
mod rules;
pub mod sizes;

use std::collections::BTreeMap;

use datapath::tcp::cc::Algorithm;
use datapath::units::Duration;

use super::app::{App, FlowPlan};
use super::doc::{Key, Node, Origin};
use super::limits;
use super::names::{NamedNodes, check_name};
use super::network::{NodePlan, Role};
use super::quantity;
use super::read::{Faults, Reader};
use super::suggest;
pub(super) use arrivals::Net;
use arrivals::WorkloadHosts;
use matrix::Matrix;
pub use rules::{Arrivals, RequestPattern, TraceFlow, WorkloadPlan};
use sizes::Sizes;

/// Reads all of `[workload]`.
pub(super) fn read(
    entries: &[(Key, Node)],
    net: &Net<'_>,
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
        plans.extend(read_one(key, node, net, duration, faults));
    }
    plans
}

/// Workloads: each has a port of its own at every host.
const WORKLOADS_MAX: usize = 500;

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
        faults.add(table.origin_of("start"), "the workload would stop before it starts", None);
        return None;
    }
    let congestion_control = table
        .text_at("congestion_control")
        .and_then(|(word, at)| super::tc::congestion_control(word, at, faults));
    let like = like(&key.name, congestion_control, &mut table);
    if hosts.len() < 2 {
        faults.add(table.origin_of("hosts"), "a workload needs two hosts or more", None);
        return None;
    }
    let racks = racks(&hosts, net);
    let (sizes, matrix, clients, arrivals) = if table.node("trace").is_some() {
        let flows = read_trace(&mut table, &hosts, net.nodes.plans, stop - start)?;
        (Sizes::Fixed(1), Matrix::AllToAll, Vec::new(), Arrivals::Trace(flows))
    } else {
        let sizes = read_sizes(&mut table)?;
        let matrix = read_matrix(&mut table, hosts.len(), &racks)?;
        let clients = match matrix {
            Matrix::Incast(_) => read_clients(&mut table, &hosts, net.nodes)?,
            _ => Vec::new(),
        };
        let who = WorkloadHosts { hosts: &hosts, racks: &racks, clients: &clients };
        let arrivals = arrivals::read(&mut table, &who, &sizes, &matrix, net)?;
        (sizes, matrix, clients, arrivals)
    };
    let hosts_at = table.origin_of("hosts");
    table.finish();
    check_families(&hosts, net, hosts_at, faults)?;
    check_paths(&hosts, net, &node.at, faults)?;
    let plan = WorkloadPlan {
        name: key.name.clone(),
        hosts,
        racks,
        sizes,
        matrix,
        clients,
        arrivals,
        start,
        stop,
        template: like,
    };
    check_count(&plan, node, faults)?;
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
        anycast_hosts: Vec::new(),
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
fn read_hosts(table: &mut Reader<'_, '_>, named: &NamedNodes<'_>) -> Vec<usize> {
    let nodes = named.plans;
    if table.node("hosts").is_none() {
        return (0..nodes.len()).filter(|node| nodes[*node].role == Role::Host).collect();
    }
    let mut known = vec![false; nodes.len()];
    let mut hosts = Vec::new();
    for (name, at) in table.texts("hosts") {
        for node in named.matching(name, at, table.faults) {
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

/// Those of the hosts that ask in an incast: the ones that are named, or all.
fn read_clients(
    table: &mut Reader<'_, '_>,
    hosts: &[usize],
    nodes: &NamedNodes<'_>,
) -> Option<Vec<usize>> {
    if table.node("clients").is_none() {
        return Some((0..hosts.len()).collect());
    }
    let mut places = vec![None; nodes.plans.len()];
    for (place, host) in hosts.iter().enumerate() {
        places[*host] = Some(place);
    }
    let mut asks = vec![false; hosts.len()];
    for (name, at) in table.texts("clients") {
        for node in nodes.matching(name, at, table.faults) {
            let Some(place) = places[node] else {
                let name = &nodes.plans[node].name;
                let message = format!("\"{name}\" is none of the workload's hosts");
                table.faults.add(at, message, None);
                return None;
            };
            asks[place] = true;
        }
    }
    let clients: Vec<usize> = (0..hosts.len()).filter(|host| asks[*host]).collect();
    if clients.is_empty() {
        table.faults.add(table.origin_of("clients"), "an incast needs a host that asks", None);
        return None;
    }
    Some(clients)
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
        0 => Err("a flow must have at least one byte".to_string()),
        bytes => Ok(bytes),
    };
    let shape = |text: &str| match text.parse::<f64>() {
        Ok(shape) if shape > 1.0 && shape < 1e3 => Ok(shape),
        _ => Err(format!("the shape of a Pareto distribution must be above 1, not {text}")),
    };
    let read = match words.as_slice() {
        ["fixed", size] => bytes(size).map(Sizes::Fixed),
        ["exponential", mean] => bytes(mean).map(|mean| Sizes::Exponential(mean as f64)),
        ["pareto", mean, by] => {
            bytes(mean).and_then(|mean| Ok(Sizes::Pareto(mean as f64, shape(by)?)))
        }
        ["file", file] => files::cdf(&table.path_beside(file)).map(Sizes::Cdf),
        [name] if sizes::KNOWN.iter().any(|known| known.0 == *name) => {
            let points = sizes::KNOWN.iter().find(|known| known.0 == *name).map(|known| known.1);
            Ok(Sizes::Cdf(points.unwrap_or_default().to_vec()))
        }
        _ => {
            let names = sizes::KNOWN.iter().map(|known| known.0);
            let forms = ["fixed SIZE", "exponential MEAN", "pareto MEAN SHAPE", "file NAME"];
            let help = suggest(&words.join(" "), names.chain(forms));
            table.faults.add(at, "this is not a distribution of sizes", help);
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
        _ => Err(format!("with {hosts} hosts this must be a number from 1 to {most}, not {text}")),
    };
    let read = match words.as_slice() {
        ["all-to-all"] => Ok(Matrix::AllToAll),
        ["permutation"] => Ok(Matrix::Permutation),
        ["stride", step] => number(step, hosts - 1).map(Matrix::Stride),
        ["incast", senders] => number(senders, hosts - 1).map(Matrix::Incast),
        ["rack-local", share] => quantity::share(share).and_then(|share| rack_local(share, racks)),
        ["file", file] => files::matrix(&table.path_beside(file), hosts).map(Matrix::Weights),
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
            table.faults.add(at, "this is not a traffic matrix", help);
            return None;
        }
    };
    read.map_err(|why| table.faults.add(at, why, None)).ok()
}

/// Checks that each host has another one to send to inside its rack, and outside.
fn rack_local(share: u64, racks: &[u32]) -> Result<Matrix, String> {
    let mut sizes = BTreeMap::new();
    for rack in racks {
        *sizes.entry(rack).or_insert(0) += 1;
    }
    if share > 0 && sizes.values().any(|size| *size < 2) {
        return Err("a rack of one host has no other host to send to".into());
    }
    if share < 1_000_000 && sizes.len() < 2 {
        return Err("there is only one rack, so no host is outside it".into());
    }
    Ok(Matrix::RackLocal(share))
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
    let read = files::trace(&table.path_beside(file), &names, span);
    read.map_err(|why| table.faults.add(at, why, None)).ok()
}

/// All hosts have their first address over IPv4, or all over IPv6.
fn check_families(hosts: &[usize], net: &Net<'_>, at: &Origin, faults: &Faults<'_>) -> Option<()> {
    let family = |host: usize| net.families.get(host).copied().flatten();
    let differs = |host: &usize| family(*host).is_some_and(|one| family(hosts[0]) == Some(!one));
    let Some(&other) = hosts.iter().find(|host| differs(host)) else { return Some(()) };
    let [one, other] = [hosts[0], other].map(|host| {
        let version = if family(host) == Some(true) { "IPv4" } else { "IPv6" };
        format!("\"{}\" is {version}", net.nodes.plans[host].name)
    });
    let message = format!("the first address of {one}, but that of {other}");
    let help =
        "give their first links \"addresses\" of one family, or the workload other \"hosts\"";
    faults.add(at, message, Some(help.into()));
    None
}

/// From the first host to each other one and back.
fn check_paths(hosts: &[usize], net: &Net<'_>, at: &Origin, faults: &Faults<'_>) -> Option<()> {
    for &host in &hosts[1..] {
        for (from, to) in [(hosts[0], host), (host, hosts[0])] {
            if let Err(problem) = super::walk::walk(from, to, net.nodes.plans, net.links, net.ways)
            {
                faults.add(at, problem.message, problem.help);
                return None;
            }
        }
    }
    Some(())
}

/// How many flows there will be, about, and how fast they begin.
fn check_count(plan: &WorkloadPlan, node: &Node, faults: &Faults<'_>) -> Option<()> {
    let (key, help) = match plan.arrivals {
        Arrivals::Poisson(_) => ("load", "use less \"load\", larger flows or a shorter time"),
        Arrivals::OnOff(..) => (
            "off",
            "use a longer \"on\" or a shorter \"off\", less \"load\", larger flows or a shorter time",
        ),
        Arrivals::Requests(_) => ("requests", "use fewer \"requests\" or \"clients\""),
        // Those of a list are counted where it is read, and of a closed workload while it runs.
        Arrivals::Trace(_) | Arrivals::Closed(..) => return Some(()),
    };
    let Some(message) = too_many(plan).or_else(|| too_fast(plan)) else { return Some(()) };
    let at = node.get(key).map_or(&node.at, |value| &value.at);
    faults.add(at, message, Some(help.into()));
    None
}

/// What is said of a workload that makes more flows than are possible.
fn too_many(plan: &WorkloadPlan) -> Option<String> {
    let (most, most_of_host) = (limits::WORKLOAD_FLOWS_MAX, limits::HOST_FLOWS_MAX);
    // Of what is drawn a host may have more than its share.
    let (events, share, room) = match plan.arrivals {
        Arrivals::Poisson(rate) | Arrivals::OnOff(rate, ..) => {
            (rate * plan.even_span(), plan.busiest_share(), 0.9)
        }
        Arrivals::Requests(asking) => {
            let each = asking.count.unwrap_or(0) as f64 * f64::from(asking.concurrency);
            (each * plan.clients.len() as f64, 1.0 / plan.clients.len() as f64, 1.0)
        }
        Arrivals::Trace(_) | Arrivals::Closed(..) => return None,
    };
    let count = events * plan.flows_of_event() as f64;
    let busiest = count * share;
    (count > most as f64 || busiest.floor() > most_of_host as f64 * room).then(|| {
        format!(
            "this makes about {count:.0} flows, {busiest:.0} of one host; at most {most} and about {most_of_host} \
             are possible"
        )
    })
}

/// What is said of a workload whose events follow each other faster than times can tell.
fn too_fast(plan: &WorkloadPlan) -> Option<String> {
    let rates = (0..plan.hosts.len()).filter_map(|host| plan.event_rate(host));
    let (fastest, most) = (rates.fold(0.0, f64::max), limits::HOST_RATE_MAX);
    let who = if let Arrivals::OnOff(..) = plan.arrivals { "a host that is on" } else { "a host" };
    let what = if let Matrix::Incast(_) = plan.matrix { "requests" } else { "flows" };
    (fastest > most).then(|| {
        format!("{who} would start {fastest:.0} {what} a second; at most {most} are possible")
    })
}
