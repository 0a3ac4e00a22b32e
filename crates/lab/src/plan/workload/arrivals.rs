//! When flows of a workload begin: `arrivals`, `load`, and what they need.

use std::collections::BTreeMap;

use super::matrix::Matrix;
use super::rules::{Arrivals, RequestPattern};
use super::sizes::Sizes;
use crate::plan::flows::{REQUEST_BYTES, positive_size};
use crate::plan::limits;
use crate::plan::names::NamedNodes;
use crate::plan::network::{LinkPlan, Role};
use crate::plan::read::Reader;
use crate::plan::routes::ShortestPaths;

/// What a workload runs on.
pub struct Net<'a> {
    /// Hosts and routers.
    pub nodes: &'a NamedNodes<'a>,
    /// Its links.
    pub links: &'a [LinkPlan],
    /// The ways through it.
    pub ways: &'a ShortestPaths,
    /// Of each node, whether its first address is of IPv4; `None` of one without links.
    pub families: &'a [Option<bool>],
}

/// The hosts of a workload, the rack of each, and which of them are clients.
pub struct WorkloadHosts<'a> {
    /// Nodes of the plan.
    pub hosts: &'a [usize],
    /// The rack of each.
    pub racks: &'a [u32],
    /// Of an incast: those that ask, as indices of `hosts`.
    pub clients: &'a [usize],
}

/// `arrivals`, and what belongs to it.
pub fn read(
    table: &mut Reader<'_, '_>,
    who: &WorkloadHosts<'_>,
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
        return read_closed(table, matrix);
    }
    let rate = read_load(table, who, sizes, matrix, net)?;
    if word != Some(1) {
        return Some(Arrivals::Poisson(rate));
    }
    if matches!(matrix, Matrix::Incast(_)) {
        let message = "an incast has \"poisson\" or \"closed\" arrivals";
        table.faults.add(table.origin_of("arrivals"), message, None);
    }
    let mut span = |key| {
        table.demand(key);
        let time = table.time(key)?;
        if time.as_nanos() < 1_000 {
            table.faults.add(table.origin_of(key), format!("\"{key}\" must be 1us or more"), None);
            return None;
        }
        Some(time)
    };
    let (on, off) = (span("on"), span("off"));
    Some(Arrivals::OnOff(rate, on?, off?))
}

/// What is left when arrivals are closed: how many at a time, and the pause behind each.
fn read_closed(table: &mut Reader<'_, '_>, matrix: &Matrix) -> Option<Arrivals> {
    let concurrency = table.integer("concurrency", 1..=1000).unwrap_or(1) as u32;
    let think = table.time("think").unwrap_or_default();
    let Matrix::Incast(servers) = matrix else {
        return Some(Arrivals::Closed(concurrency, think));
    };
    let bytes = positive_size(table, "request").unwrap_or(REQUEST_BYTES);
    let most = limits::HOST_FLOWS_MAX as u64 / (*servers as u64 * u64::from(concurrency)).max(1);
    if most == 0 {
        let message = format!(
            "{concurrency} requests at a time to {servers} servers each are more than {} parts",
            limits::HOST_FLOWS_MAX
        );
        table.faults.add(table.origin_of("concurrency"), message, None);
        return None;
    }
    let count = table.integer("requests", 1..=most as i64).map(|count| count as u64);
    Some(Arrivals::Requests(RequestPattern { concurrency, think, bytes, count }))
}

/// Events a second that make up `load`, of the hosts' own links (in an incast of those that ask) or of
/// those between racks.
fn read_load(
    table: &mut Reader<'_, '_>,
    who: &WorkloadHosts<'_>,
    sizes: &Sizes,
    matrix: &Matrix,
    net: &Net<'_>,
) -> Option<f64> {
    const OF: [(&str, bool); 2] = [("access", false), ("bisection", true)];
    table.demand("load");
    let place = table.origin_of("load");
    let load = table.number("load", f64::MIN, f64::MAX)?;
    if load <= 0.0 || load > 1.0 {
        let message = format!("a \"load\" must be above 0 and at most 1, not {load}");
        table.faults.add(place, message, None);
        return None;
    }
    let between = table.word("of", &OF).unwrap_or(false);
    let ends: Vec<usize> = match matrix {
        Matrix::Incast(_) => who.clients.iter().map(|client| who.hosts[*client]).collect(),
        _ => who.hosts.to_vec(),
    };
    let capacity = if between { uplinks(who.racks, net) } else { access(&ends, net) };
    let Some(bits) = capacity.filter(|bits| *bits > 0.0) else {
        let what = if between { "a link between racks is missing or" } else { "a host's link" };
        table.faults.add(
            place,
            format!("{what} has no \"rate\", so a load of it is undefined"),
            None,
        );
        return None;
    };
    let crossing = if between { crossing(matrix, who) } else { 1.0 };
    if crossing <= 0.0 {
        table.faults.add(
            place,
            "no flow goes from rack to rack, so a load of \"bisection\" is undefined",
            None,
        );
        return None;
    }
    Some(load * bits / (8.0 * sizes.mean() * crossing))
}

/// The share of what is sent that goes from rack to rack: in an incast, to those that ask.
fn crossing(matrix: &Matrix, who: &WorkloadHosts<'_>) -> f64 {
    if who.clients.is_empty() {
        return matrix.crossing(who.racks);
    }
    let outside =
        |client: &usize| who.racks.iter().filter(|rack| **rack != who.racks[*client]).count();
    let pairs: usize = who.clients.iter().map(outside).sum();
    pairs as f64 / (who.clients.len() * (who.racks.len() - 1)) as f64
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
            let routers = link.ends.iter().all(|end| net.nodes.plans[*end].role == Role::Router);
            if routers && switches.contains(end) {
                let rate = direction.rate.map(|rate| rate.bits_per_sec() as f64);
                sum = sum.zip(rate).map(|(sum, rate)| sum + rate);
            }
        }
    }
    sum
}
