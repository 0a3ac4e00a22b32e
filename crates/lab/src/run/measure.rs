//! The numbers of one run.

mod flows;

use apps::Compared;
use datapath::fib::Target;
use datapath::node::Port;
use datapath::qdisc::{AnyQdisc, Qdisc as _};
use datapath::units::{Duration, Instant};
use iproute::tc;
use sim::link::NodeId;

use super::apps::FlowEnds;
use super::build::{BuiltWorld, WatchedPort};
use super::counters;
use super::exchanges;
use super::latency::{has_round_trips, latency_metrics, round_trips};
use super::metric::{push, seconds};
use super::sample::RunSamples;
use super::transfer::{Transfer, Transfers};
use crate::plan::{FlowPlan, Plan};
use crate::results::{Column, Distribution, FlowRecord, Metric, Series, TcState};
use crate::stats::{Summary, jain, quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Every number, in an order that depends on the plan alone.
pub fn metrics(
    plan: &Plan,
    built: &BuiltWorld,
    sampled: &RunSamples,
    records: &[FlowRecord],
) -> Vec<Metric> {
    let mut out = Vec::new();
    let transfers = flows::each(&mut out, plan, built, sampled);
    groups(&mut out, plan, built, &transfers);
    queues(&mut out, plan, built, sampled);
    counters::policers(&mut out, plan, built);
    spread(&mut out, plan, built);
    if let Some(step) = plan.measure.steps {
        sharing(&mut out, plan, built, sampled, step);
    }
    exchanges::answered(&mut out, plan, built);
    totals(&mut out, plan, built, records, &transfers);
    out
}

/// Metrics of the run as a whole.
fn totals(
    out: &mut Vec<Metric>,
    plan: &Plan,
    built: &BuiltWorld,
    records: &[FlowRecord],
    transfers: &Transfers,
) {
    let of_flows = plan.flows.iter().zip(&transfers.all).filter(|(flow, _)| flow.app.is_tcp());
    let of_flows: Vec<Transfer> = of_flows.filter_map(|(_, transfer)| *transfer).collect();
    let all = of_flows.iter().copied().chain(of_workloads(plan, records));
    if let Some(total) = Transfer::together(all) {
        push(out, "total", "goodput", "Mbit/s", total.rate());
    }
    let acks: Vec<u64> = built.ports.iter().filter_map(|place| ack_drops(built, place)).collect();
    if !acks.is_empty() {
        push(out, "total", "ack_drops", "packets", acks.iter().sum::<u64>() as f64);
    }
    if !plan.workloads.is_empty() || plan.flows.iter().any(|flow| flow.app.is_tcp()) {
        counters::tcp(out, built);
    }
    let goodputs: Vec<f64> = of_flows.iter().map(Transfer::rate).collect();
    if let (true, Some(index)) = (goodputs.len() > 1, jain(&goodputs)) {
        push(out, "total", "fairness", "", index);
    }
}

/// What the flows of workloads that began after the warm-up have transferred.
fn of_workloads(plan: &Plan, records: &[FlowRecord]) -> impl Iterator<Item = Transfer> {
    let warm = plan.warmup.as_nanos();
    records.iter().filter(move |record| record.start_ns >= warm).filter_map(|record| {
        let [from, to] = [record.start_ns, record.end_ns?].map(Instant::from_nanos);
        Some(Transfer { from, to, bytes: record.bytes? })
    })
}

/// How evenly each node spread what it sent over the links that share a route's load: the most
/// over the mean.
fn spread(out: &mut Vec<Metric>, plan: &Plan, built: &BuiltWorld) {
    for (index, node) in plan.nodes.iter().enumerate() {
        let host = built.world.host(NodeId(index as u32));
        let mut ports: Vec<u16> = Vec::new();
        for route in host.fib().routes() {
            let hops = match &route.target {
                Target::Hops(hops) => hops.iter().map(|hop| hop.hop.port).collect(),
                Target::Object(id) => {
                    let object = host.fib().objects().get(*id);
                    let paths = object.map_or(&[][..], |object| object.paths().paths());
                    paths.iter().map(|path| path.hop.port).collect::<Vec<u16>>()
                }
            };
            if hops.len() > 1 {
                ports
                    .extend(hops.into_iter().filter(|&port| usize::from(port) < host.port_count()));
            }
        }
        ports.sort_unstable();
        ports.dedup();
        let sent: Vec<u64> =
            ports.iter().map(|&port| host.port(Port(port)).stats.tx_bytes).collect();
        let total: u64 = sent.iter().sum();
        if let (true, Some(most)) = (total > 0, sent.iter().max()) {
            let ratio = *most as f64 * sent.len() as f64 / total as f64;
            push(out, &node.name, "imbalance", "", ratio);
        }
    }
}

/// How many received bytes were verified, in a run whose packets carry bytes.
pub fn bytes(compared: &Compared) -> Vec<Metric> {
    let mut out = Vec::new();
    push(&mut out, "bytes", "streams", "", compared.streams as f64);
    push(&mut out, "bytes", "whole streams", "", compared.whole as f64);
    push(&mut out, "bytes", "compared", "bytes", compared.bytes as f64);
    push(&mut out, "bytes", "datagrams", "", compared.datagrams as f64);
    out
}

/// The groups in the order of their first flows, and the flows of each.
pub fn members_of_groups(plan: &Plan) -> Vec<(&str, Vec<usize>)> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, flow) in plan.flows.iter().enumerate() {
        let Some(name) = flow.group.as_deref() else { continue };
        let place = *places.entry(name).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(index);
    }
    groups
}

/// What the flows of a group have together: their bytes over their time, how evenly they shared, all
/// latencies.
fn groups(out: &mut Vec<Metric>, plan: &Plan, built: &BuiltWorld, transfers: &Transfers) {
    for (group, members) in members_of_groups(plan) {
        let first = out.len();
        for (metric, all) in [("goodput", &transfers.all), ("early goodput", &transfers.early)] {
            let of_members: Vec<Transfer> = members.iter().filter_map(|&at| all[at]).collect();
            let Some(sum) = Transfer::together(of_members.iter().copied()) else { continue };
            push(out, group, metric, "Mbit/s", sum.rate());
            if metric == "goodput" {
                let rates: Vec<f64> = of_members.iter().map(Transfer::rate).collect();
                statistics(out, group, "throughput", "Mbit/s", &rates);
                if let (true, Some(index)) = (rates.len() > 1, jain(&rates)) {
                    push(out, group, "fairness", "", index);
                }
            }
        }
        let mut millis: Vec<f64> = members
            .iter()
            .filter(|&&index| has_round_trips(&plan.flows[index]))
            .flat_map(|&index| round_trips(plan, &built.world.report(built.flows[index].sender)))
            .collect();
        latency_metrics(out, group, &mut millis);
        let senders: BTreeSet<u32> =
            members.iter().map(|&at| built.flows[at].sender_node.0).collect();
        if members.iter().any(|&at| plan.flows[at].app.is_tcp()) {
            let of_host = |node: &u32| built.world.host(NodeId(*node)).tcp_mib().timeouts as f64;
            let timeouts: Vec<f64> = senders.iter().map(of_host).collect();
            push(out, group, "timeouts total", "", timeouts.iter().sum());
            statistics(out, group, "timeouts", "", &timeouts);
        }
        if matches!(members[..], [only] if plan.flows[only].name == group) {
            leave_out_repeated(out, first);
        }
    }
}

/// A flow that is alone in the group of its name has told some of it already: it is not told twice.
fn leave_out_repeated(out: &mut Vec<Metric>, first: usize) {
    let of_group = out.split_off(first);
    let of_flows = out.len();
    for metric in of_group {
        let is_told = |told: &Metric| told.scope == metric.scope && told.name == metric.name;
        if !out[..of_flows].iter().any(is_told) {
            out.push(metric);
        }
    }
}

/// Mean, median, extremes and the standard deviation of the whole (not of a sample).
fn statistics(out: &mut Vec<Metric>, scope: &str, what: &str, unit: &'static str, values: &[f64]) {
    let mut values = values.to_vec();
    let Some(summary) = Summary::of(&values) else { return };
    let squares: f64 = values.iter().map(|value| (value - summary.mean).powi(2)).sum();
    let median = quantile(&mut values, 0.5).unwrap_or(summary.mean);
    for (name, value) in [
        ("mean", summary.mean),
        ("median", median),
        ("max", summary.max),
        ("min", summary.min),
        ("stddev", (squares / values.len() as f64).sqrt()),
    ] {
        push(out, scope, &format!("{what} {name}"), unit, value);
    }
}

/// Fairness in the steps in which every TCP stream runs from beginning to end.
fn sharing(
    out: &mut Vec<Metric>,
    plan: &Plan,
    built: &BuiltWorld,
    sampled: &RunSamples,
    step: Duration,
) {
    let streams: Vec<usize> =
        (0..plan.flows.len()).filter(|&at| plan.flows[at].app.is_stream()).collect();
    let end = built.world.now();
    let runs_in = |at: usize, from: Instant| {
        let stop = plan.flows[at].stop.map_or(end, |stop| (Instant::ZERO + stop).min(end));
        built.flows[at].start <= from && from + step <= stop
    };
    let rates: Vec<Vec<f64>> =
        streams.iter().map(|&at| sampled.throughput_in_steps(at, step)).collect();
    let steps = rates.iter().map(Vec::len).min().unwrap_or(0);
    let mut indices = Vec::new();
    for number in 0..steps {
        let from = Instant::ZERO + Duration::from_nanos(step.as_nanos() * number as u64);
        if streams.len() > 1 && streams.iter().all(|&at| runs_in(at, from)) {
            let shares: Vec<f64> = rates.iter().map(|rates| rates[number]).collect();
            indices.extend(jain(&shares));
        }
    }
    if let Some(Summary { mean, min, .. }) = Summary::of(&indices) {
        push(out, "total", "fairness while sharing", "", mean);
        push(out, "total", "lowest fairness while sharing", "", min);
    }
}

/// The numbers of each watched queue.
fn queues(out: &mut Vec<Metric>, plan: &Plan, built: &BuiltWorld, sampled: &RunSamples) {
    for (index, (place, (link, end))) in built.ports.iter().zip(&plan.measure.queues).enumerate() {
        let name = plan.port_name(*link, *end);
        queue(out, &name, plan, built, place);
        queue_lengths(out, &name, &mut sampled.queue_lengths(index));
    }
}

/// Of the samples.
fn queue_lengths(out: &mut Vec<Metric>, name: &str, packets: &mut [f64]) {
    for (metric, share) in
        [("queue length median", 0.5), ("queue length 95 %", 0.95), ("queue length max", 1.0)]
    {
        if let Some(value) = quantile(packets, share) {
            push(out, name, metric, "packets", value);
        }
    }
}

fn queue(out: &mut Vec<Metric>, name: &str, plan: &Plan, built: &BuiltWorld, place: &WatchedPort) {
    let watch = place.watch(&built.world);
    let delays = watch.delays();
    if !delays.is_empty() {
        push(out, name, "queue delay mean", "ms", delays.mean() / 1e6);
        let high = delays.value_at_quantile(0.99) as f64;
        push(out, name, "queue delay 99 %", "ms", high / 1e6);
    }
    let port = built.world.host(place.node).port(place.port);
    let stats = port.qdisc().stats();
    push(out, name, "sent", "packets", stats.packets as f64);
    push(out, name, "drops", "packets", (stats.drops + port.refused()) as f64);
    push(out, name, "marks", "packets", watch.marks as f64);
    let counted = built.world.now().saturating_since(Instant::ZERO + plan.warmup);
    if counted != Duration::ZERO {
        let rate = watch.marks_counted as f64 / seconds(counted);
        push(out, name, "marks per second", "packets", rate);
    }
    if let Some(acks) = ack_drops(built, place) {
        push(out, name, "ack_drops", "packets", acks as f64);
    }
}

/// Every round trip of the flows that measure latency, at the time when it ended.
pub fn latency_series(plan: &Plan, built: &BuiltWorld) -> Vec<Series> {
    let of_flow = |(flow, place): (&FlowPlan, &FlowEnds)| {
        let report = built.world.report(place.sender);
        let trips = &report.round_trips;
        let micros = trips.iter().map(|(_, took)| Some((took.as_nanos() / 1_000) as i64));
        Series {
            name: format!("latency-{}", flow.name),
            time_ns: trips.iter().map(|(ended, _)| ended.as_nanos() as i64).collect(),
            columns: vec![Column { name: "round_trip_us".into(), values: micros.collect() }],
        }
    };
    let measuring = plan.flows.iter().zip(&built.flows).filter(|(flow, _)| has_round_trips(flow));
    measuring.map(of_flow).collect()
}

/// Latencies of groups and of flows without one, and delays of queues, in ms; lengths of queues in packets: all
/// after the warm-up.
pub fn distributions(plan: &Plan, built: &BuiltWorld, sampled: &RunSamples) -> Vec<Distribution> {
    let mut out = Vec::new();
    let trips = |at: usize| round_trips(plan, &built.world.report(built.flows[at].sender));
    for (group, members) in members_of_groups(plan) {
        let measuring = members.iter().filter(|&&at| has_round_trips(&plan.flows[at]));
        let mut millis: Vec<f64> = measuring.flat_map(|&at| trips(at)).collect();
        out.extend(Distribution::of("latency", group, &mut millis));
    }
    for (at, flow) in plan.flows.iter().enumerate() {
        if flow.group.is_none() && has_round_trips(flow) {
            out.extend(Distribution::of("latency", &flow.name, &mut trips(at)));
        }
    }
    for (index, (place, (link, end))) in built.ports.iter().zip(&plan.measure.queues).enumerate() {
        let scope = plan.port_name(*link, *end);
        let lengths = &mut sampled.queue_lengths(index);
        out.extend(Distribution::of("queue-length", &scope, lengths));
        let delays = place.watch(&built.world).delays();
        if !delays.is_empty() {
            let parts = Distribution::PARTS;
            let at =
                |part: usize| delays.value_at_quantile(part as f64 / parts as f64) as f64 / 1e6;
            out.push(Distribution {
                what: "queue-delay",
                scope,
                quantiles: (0..=parts).map(at).collect(),
            });
        }
    }
    out
}

/// What `tc` shows of every watched port at the end.
pub fn tc_states(plan: &Plan, built: &BuiltWorld) -> Vec<TcState> {
    let now = built.world.now();
    let watched = built.ports.iter().zip(&plan.measure.queues);
    watched
        .map(|(place, &(link, end))| {
            let root = built.world.host(place.node).port(place.port).qdisc();
            let port = plan.port_name(link, end);
            TcState {
                text: tc::show_text(root, Some(&port), now),
                classes: tc::show_classes(root, now),
                json: tc::show_json(root, Some(&port), now),
                port,
            }
        })
        .collect()
}

/// Asserts that no CAKE of the plan, watched or not, has lost or invented a packet.
pub fn assert_conserved(plan: &Plan, built: &BuiltWorld) {
    let ports = plan.links.iter().zip(&built.ends).flat_map(|(_, ends)| ends);
    for &(node, port) in ports {
        for (_, sched) in built.world.host(node).port(port).qdisc().tree() {
            if let AnyQdisc::Cake(cake) = sched.qdisc() {
                cake.assert_conserved();
            }
        }
    }
}

/// ACKs that CAKE's filter has dropped; `None` where there is no CAKE.
fn ack_drops(built: &BuiltWorld, place: &WatchedPort) -> Option<u64> {
    let root = built.world.host(place.node).port(place.port).qdisc();
    let mut found = None;
    for (_, sched) in root.tree() {
        if let AnyQdisc::Cake(cake) = sched.qdisc() {
            let tins = cake.cake_stats().tins;
            let acks: u64 = tins.iter().map(|tin| u64::from(tin.ack_drops)).sum();
            found = Some(found.unwrap_or(0) + acks);
        }
    }
    found
}
