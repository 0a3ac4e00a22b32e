//! Additional files for `ackwright view`: the network of a run, the utilisation of all of its links,
//! captures at its senders, explanations of its flows.

mod rings;
mod tins;

use std::collections::BTreeSet;

use datapath::units::Rate;
use serde_json::{Value as Json, json};

use super::apps;
use super::build::BuiltWorld;
use crate::plan::{Direction, FlowPlan, LinkPlan, Plan, Role, names};
use crate::results::Series;
use crate::trace::TraceOutputs;
use rings::Rings;
use tins::Tins;

/// Directions of links whose use is sampled at most.
const LINKS_MAX: usize = 1_024;
/// Hosts that packets are captured at, at most.
const CAPTURES_MAX: usize = 8;
/// Flows that are explained at most.
const EXPLAINED_MAX: usize = 64;

/// The name of a file for the viewer.
pub fn file(run: &str, name: &str) -> String {
    format!("view/{run}/{name}")
}

/// The plan with everything that the viewer shows added to its measurements. What is run stays the
/// same.
pub fn widened(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let both = (0..plan.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
    let mut known: BTreeSet<_> = plan.measure.utilisation.iter().copied().collect();
    let more: Vec<_> = both.filter(|port| known.insert(*port)).take(LINKS_MAX).collect();
    plan.measure.utilisation.extend(more);
    let mut known: BTreeSet<_> = plan.measure.pcap.iter().copied().collect();
    let tcp = plan.flows.iter().filter(|flow| flow.app.is_tcp());
    let of_workloads = plan.workloads.iter().flat_map(|workload| workload.hosts.iter().copied());
    let senders: Vec<usize> = tcp.map(sender).chain(of_workloads).collect();
    let ports = senders.iter().flat_map(|node| ports_of(&plan.links, *node));
    let more: Vec<_> = ports.filter(|port| known.insert(*port)).take(CAPTURES_MAX).collect();
    plan.measure.pcap.extend(more);
    plan
}

/// The node that sends most of a flow.
fn sender(flow: &FlowPlan) -> usize {
    if flow.app.is_stream() { flow.from } else { flow.to }
}

fn ports_of(links: &[LinkPlan], node: usize) -> impl Iterator<Item = (usize, usize)> {
    let ends = links.iter().enumerate().flat_map(|(link, it)| [(link, 0, it), (link, 1, it)]);
    ends.filter(move |(_, end, it)| it.ends[*end] == node).map(|(link, end, _)| (link, end))
}

/// The user's requests, and the flows that the viewer explains.
pub fn with_explained_flows(wanted: &TraceOutputs, plan: &Plan) -> TraceOutputs {
    let mut wanted = wanted.clone();
    let tcp = plan.flows.iter().filter(|flow| flow.app.is_tcp());
    wanted.explain.extend(tcp.take(EXPLAINED_MAX).map(|flow| flow.name.clone()));
    wanted
}

/// Whether the user wants this flow explained.
pub fn is_explained(wanted: &TraceOutputs, flow: &str) -> bool {
    wanted.explain.iter().any(|pattern| names::matches(pattern, flow))
}

/// The network of a plan, as it is drawn. `seen` says what is recorded of it, `viewed`
/// whether that is all that there is to see.
pub fn world(plan: &Plan, seen: &Plan, viewed: bool) -> Json {
    let node = |index: usize| plan.nodes[index].name.as_str();
    let ports = |list: &[(usize, usize)]| -> Vec<String> {
        list.iter().map(|&(link, end)| plan.port_name(link, end)).collect()
    };
    let nodes = plan.nodes.iter().map(|it| {
        let role = if it.role == Role::Router { "router" } else { "host" };
        json!({"name": it.name, "role": role})
    });
    let links = plan.links.iter().enumerate().map(|(index, it)| {
        let of = |read: &dyn Fn(&Direction) -> Json| it.directions.each_ref().map(read);
        json!({
            "name": it.name,
            "ends": it.ends.map(node),
            "ports": [plan.port_name(index, 0), plan.port_name(index, 1)],
            "rate": of(&|way| json!(way.rate.map(Rate::bits_per_sec))),
            "delay_ns": of(&|way| json!(way.delay.as_nanos())),
            "loss_ppm": of(&|way| json!(way.loss)),
            "mtu": it.mtu,
            "qdisc": it.ports.each_ref().map(|port| port.qdiscs.clone()),
            "events": it.events.iter().map(|(at, up)| json!([at.as_nanos() as f64 / 1e9, up])).collect::<Vec<_>>(),
        })
    });
    let flows = plan.flows.iter().enumerate().map(|(index, it)| {
        json!({
            "name": it.name, "group": it.group, "app": it.app.word(),
            "from": node(it.from), "to": node(it.to),
            "tcp": it.app.is_tcp(), "port": apps::server_port(index as u16),
        })
    });
    json!({
        "schema": 1,
        "duration": plan.duration.as_nanos() as f64 / 1e9,
        "warmup": plan.warmup.as_nanos() as f64 / 1e9,
        "sample": plan.measure.sample.as_nanos() as f64 / 1e9,
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "flows": flows.collect::<Vec<_>>(),
        "workloads": plan.workloads.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        "queues": ports(&plan.measure.queues),
        "captures": ports(&seen.measure.pcap),
        "utilisation": ports(&seen.measure.utilisation),
        "viewed": viewed,
    })
}

/// Records a run for the viewer while it lasts.
pub struct ViewRecorder {
    tins: Tins,
    rings: Rings,
}

impl ViewRecorder {
    /// Begins to record.
    pub fn new(plan: &Plan, built: &mut BuiltWorld) -> Self {
        let tins = Tins::new(plan, built);
        Self { tins, rings: Rings::new(built) }
    }

    /// A sample is due.
    pub fn take(&mut self, built: &BuiltWorld) {
        self.tins.take(built);
    }

    /// Something changes, if it is time.
    pub fn before(&mut self, plan: &Plan, built: &BuiltWorld) {
        self.rings.before(plan, built);
    }

    /// It has changed.
    pub fn after(&mut self, plan: &Plan, built: &BuiltWorld) {
        self.rings.after(plan, built);
    }

    /// Series, and what is no series, by the names of files.
    pub fn finish(self, plan: &Plan, built: &BuiltWorld) -> (Vec<Series>, Option<Json>) {
        let mut series = self.tins.into_series();
        series.extend(tins::filtered(plan, built));
        (series, self.rings.finish(plan, built))
    }
}
