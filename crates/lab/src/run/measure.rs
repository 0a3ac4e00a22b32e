//! The numbers of one run.

use datapath::qdisc::Qdisc as _;
use datapath::tcp::mib::Mib;
use datapath::units::{Duration, Instant};
use sim::app::AppReport;
use sim::link::NodeId;

use super::apps::Flow;
use super::build::{Built, WatchedPort};
use super::sample::Sampler;
use crate::plan::{App, FlowPlan, Plan};
use crate::results::Metric;
use crate::stats::{jain, quantile};

/// Every number, in an order that depends on the plan alone.
pub fn metrics(plan: &Plan, built: &Built, sampler: &Sampler) -> Vec<Metric> {
    let mut out = Vec::new();
    let mut goodputs = Vec::new();
    for (index, (flow, place)) in plan.flows.iter().zip(&built.flows).enumerate() {
        let sender = built.world.report(place.sender);
        match &flow.app {
            App::Ping { .. } | App::Probe { .. } | App::Request { .. } => {
                latencies(&mut out, plan, flow, &sender);
            }
            _ => {
                let Some(receiver) = place.receiver else { continue };
                let receiver = built.world.report(receiver);
                let base = sampler.received_at_warmup(index);
                let end = built.world.now();
                let goodput = goodput(plan, flow, place, &receiver, base, end);
                push(&mut out, &flow.name, "goodput", "Mbit/s", goodput);
                if flow.app.is_tcp() {
                    goodputs.push(goodput);
                    if let Some(srtt) = sampler.mean_srtt(index) {
                        push(&mut out, &flow.name, "srtt mean", "ms", srtt);
                    }
                } else {
                    let lost = sender.sent.saturating_sub(receiver.received);
                    push(&mut out, &flow.name, "lost", "", lost as f64);
                }
                if let (true, Some(started), Some(last)) =
                    (place.finite, sender.started, receiver.last_received)
                {
                    let time = seconds(last.saturating_since(started));
                    push(&mut out, &flow.name, "transfer time", "s", time);
                }
            }
        }
    }
    for (place, (link, end)) in built.ports.iter().zip(&plan.measure.queues) {
        queue(&mut out, &plan.port_name(*link, *end), built, place);
    }
    policers(&mut out, plan, built);
    if !goodputs.is_empty() {
        push(&mut out, "total", "goodput", "Mbit/s", goodputs.iter().sum());
    }
    if plan.flows.iter().any(|flow| flow.app.is_tcp()) {
        tcp_counters(&mut out, built);
    }
    if let (true, Some(index)) = (goodputs.len() > 1, jain(&goodputs)) {
        push(&mut out, "total", "fairness", "", index);
    }
    out
}

fn push(out: &mut Vec<Metric>, scope: &str, name: &str, unit: &'static str, value: f64) {
    out.push(Metric { scope: scope.into(), name: name.into(), unit, value });
}

fn seconds(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// Payload bytes received after the warm-up, over the time from its end (or the flow's start) to
/// the last byte of a finite flow, or to the end.
fn goodput(
    plan: &Plan,
    flow: &FlowPlan,
    place: &Flow,
    receiver: &AppReport,
    received_at_warmup: u64,
    end: Instant,
) -> f64 {
    let from = place.start.max(Instant::ZERO + plan.warmup);
    let stop = flow.stop.map_or(end, |stop| (Instant::ZERO + stop).min(end));
    let to = match receiver.last_received {
        Some(last) if place.finite => last,
        _ => stop,
    };
    let time = seconds(to.saturating_since(from));
    let bytes = receiver.received_bytes - received_at_warmup;
    if time > 0.0 { bytes as f64 * 8.0 / time / 1e6 } else { 0.0 }
}

/// Round trips or response times after the warm-up.
fn latencies(out: &mut Vec<Metric>, plan: &Plan, flow: &FlowPlan, sender: &AppReport) {
    let warmup_end = Instant::ZERO + plan.warmup;
    let mut millis: Vec<f64> = sender
        .round_trips
        .iter()
        .filter(|(ended, _)| *ended >= warmup_end)
        .map(|(_, took)| took.as_nanos() as f64 / 1e6)
        .collect();
    if !millis.is_empty() {
        let mean = millis.iter().sum::<f64>() / millis.len() as f64;
        push(out, &flow.name, "latency mean", "ms", mean);
        for (name, share) in
            [("latency median", 0.5), ("latency 95 %", 0.95), ("latency 99 %", 0.99)]
        {
            let value = quantile(&mut millis, share).unwrap_or(0.0);
            push(out, &flow.name, name, "ms", value);
        }
    }
    let lost = sender.sent.saturating_sub(sender.received);
    push(out, &flow.name, "unanswered", "", lost as f64);
}

/// The hosts' TCP counters, summed. An RTO is an expiry of the retransmission timer.
fn tcp_counters(out: &mut Vec<Metric>, built: &Built) {
    type Read = fn(&Mib) -> u64;
    let counters: [(&str, Read); 6] = [
        ("rto", |mib| mib.timeouts),
        ("retransmits", |mib| mib.retrans_segs),
        ("lost retransmits", |mib| mib.lost_retransmit),
        ("fast recoveries", |mib| mib.sack_recovery + mib.reno_recovery),
        ("tail loss probes", |mib| mib.loss_probes),
        ("spurious recoveries", |mib| {
            mib.full_undo + mib.dsack_undo + mib.loss_undo + mib.partial_undo
        }),
    ];
    let nodes = 0..built.world.node_count() as u32;
    let mibs: Vec<Mib> = nodes.map(|node| built.world.host(NodeId(node)).tcp_mib()).collect();
    for (name, read) in counters {
        let unit = if name == "retransmits" { "segments" } else { "" };
        push(out, "total", name, unit, mibs.iter().map(read).sum::<u64>() as f64);
    }
}

/// What each policer let pass and dropped, in the order of the plan.
fn policers(out: &mut Vec<Metric>, plan: &Plan, built: &Built) {
    for (link, ends) in built.ends.iter().enumerate() {
        for (end, &(node, port)) in ends.iter().enumerate() {
            for (_, police) in built.world.host(node).policers().iter().filter(|(p, _)| *p == port)
            {
                let stats = police.stats();
                let name = plan.port_name(link, end);
                push(out, &name, "policed", "packets", stats.packets as f64);
                push(out, &name, "police drops", "packets", stats.drops as f64);
            }
        }
    }
}

fn queue(out: &mut Vec<Metric>, name: &str, built: &Built, place: &WatchedPort) {
    let watch = place.watch.borrow();
    let millis = |nanos: f64| nanos / 1e6;
    push(out, name, "queue delay mean", "ms", millis(watch.delays.mean()));
    let high = watch.delays.value_at_quantile(0.99) as f64;
    push(out, name, "queue delay 99 %", "ms", millis(high));
    let stats = built.world.host(place.node).port(place.port).qdisc().stats();
    push(out, name, "sent", "packets", stats.packets as f64);
    push(out, name, "drops", "packets", stats.drops as f64);
    push(out, name, "marks", "packets", watch.marks as f64);
}
