//! Which metrics a plan will measure, so that a wrong name is reported before a run.

use std::collections::BTreeSet;

use super::app::{App, FlowPlan};
use super::diagnostic::suggest;
use super::model::Plan;
use super::names::matches;
use super::network::Role;

const STATISTICS: [&str; 5] = ["mean", "median", "max", "min", "stddev"];

const STREAM: [&str; 3] = ["goodput", "srtt mean", "transfer time"];

const LATENCY: [&str; 10] = [
    "latency mean",
    "latency stddev",
    "latency min",
    "latency median",
    "latency 95 %",
    "latency 99 %",
    "latency 99.9 %",
    "latency max",
    "unanswered",
    "answered",
];

const PORT: [&str; 12] = [
    "queue delay mean",
    "queue delay 99 %",
    "sent",
    "drops",
    "marks",
    "marks per second",
    "ack_drops",
    "queue length median",
    "queue length 95 %",
    "queue length max",
    "policed",
    "police drops",
];

const TOTAL: [&str; 14] = [
    "goodput",
    "fairness",
    "answered",
    "ack_drops",
    "reordering",
    "out of order",
    "rto",
    "retransmits",
    "lost retransmits",
    "fast recoveries",
    "tail loss probes",
    "spurious recoveries",
    "fairness while sharing",
    "lowest fairness while sharing",
];

const WORKLOAD: [&str; 5] = ["flows", "flows finished", "goodput", "retransmits", "timeouts total"];

/// Behind `fct` and `slowdown` of a workload, beside `mean`: quantiles, and the share of flows below each.
pub const COMPLETION: [(&str, f64); 4] =
    [("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("99.9 %", 0.999)];

/// And behind these, of which flows: from above so many bytes up to so many, the bins of pFabric
/// (SIGCOMM 2013).
pub const SIZES: [(u64, u64, &str); 4] = [
    (0, u64::MAX, ""),
    (0, 100_000, " to 100 kB"),
    (100_000, 10_000_000, " 100 kB to 10 MB"),
    (10_000_000, u64::MAX, " above 10 MB"),
];

/// Whether `SCOPE METRIC` can be measured in a run of the plan.
///
/// # Errors
/// It cannot; with what was probably meant.
pub fn check_metric(name: &str, plan: &Plan) -> Result<(), Option<String>> {
    let ports = ports(plan);
    let mut scopes = plottable_scopes(plan, &ports);
    scopes.insert("total");
    scopes.extend(
        plan.nodes
            .iter()
            .filter(|node| node.role == Role::Router || !node.ip.is_empty())
            .map(|node| node.name.as_str()),
    );
    let Some((scope, metric)) = name.split_once(' ') else {
        return Err(Some("write \"SCOPE METRIC\", e.g. \"total goodput\"".into()));
    };
    // Names of groups may have blanks in them.
    let scope = scopes
        .iter()
        .copied()
        .filter(|it| name.strip_prefix(it).is_some_and(|rest| rest.starts_with(' ')))
        .max_by_key(|it| it.len())
        .ok_or_else(|| suggest(scope, scopes.iter().copied()))
        .map_err(|help| help.filter(|_| !metric.is_empty()))?;
    let metric = name[scope.len()..].trim_start();
    let metrics = of_scope(scope, plan, ports.iter().any(|port| port == scope));
    let in_steps = plan.measure.steps.is_some() && metric.starts_with("throughput at ");
    if in_steps || metrics.iter().any(|known| known == metric) {
        return Ok(());
    }
    Err(suggest(metric, metrics.iter().map(String::as_str)))
}

fn ports(plan: &Plan) -> Vec<String> {
    (0..plan.links.len()).flat_map(|link| [0, 1].map(|end| plan.port_name(link, end))).collect()
}

/// Flows, groups, workloads and ports.
fn plottable_scopes<'a>(plan: &'a Plan, ports: &'a [String]) -> BTreeSet<&'a str> {
    let flows = plan.flows.iter().map(|flow| flow.name.as_str());
    let groups = plan.flows.iter().filter_map(|flow| flow.group.as_deref());
    let workloads = plan.workloads.iter().map(|workload| workload.name.as_str());
    flows.chain(groups).chain(workloads).chain(ports.iter().map(String::as_str)).collect()
}

/// Whether a flow, group, workload or port of the plan fits a pattern.
///
/// # Errors
/// None does; with what was probably meant.
pub fn check_scope(pattern: &str, plan: &Plan) -> Result<(), Option<String>> {
    let ports = ports(plan);
    let scopes = plottable_scopes(plan, &ports);
    if scopes.iter().any(|scope| matches(pattern, scope)) {
        return Ok(());
    }
    Err(suggest(pattern, scopes))
}

fn of_scope(scope: &str, plan: &Plan, is_port: bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut add = |names: &[&str]| out.extend(names.iter().map(|name| (*name).to_owned()));
    if scope == "total" {
        add(&TOTAL);
    }
    if is_port {
        add(&PORT);
        add(&["utilisation"]);
    }
    if plan.nodes.iter().any(|node| node.name == scope) {
        add(&["imbalance"]);
    }
    for flow in plan.flows.iter().filter(|flow| flow.name == scope) {
        of_flow(flow, &mut add);
    }
    let is_group = plan.flows.iter().any(|flow| flow.group.as_deref() == Some(scope));
    if is_group {
        add(&LATENCY[..8]);
        add(&["goodput", "early goodput", "fairness", "timeouts total"]);
    }
    if let Some(workload) = plan.workloads.iter().find(|workload| workload.name == scope) {
        add(&WORKLOAD);
        if !workload.clients.is_empty() {
            add(&["requests", "requests answered", "request time mean"]);
            out.extend(COMPLETION.map(|(word, _)| format!("request time {word}")));
        }
        completion(&mut out);
    }
    let ends = |flow: &FlowPlan| match flow.app {
        App::Fixed { .. } => true,
        App::Chunk { bytes, .. } => bytes.is_some(),
        _ => false,
    };
    if plan.flows.iter().any(|flow| flow.group.as_deref() == Some(scope) && ends(flow)) {
        completion(&mut out);
    }
    if is_group {
        for what in ["throughput", "timeouts"] {
            out.extend(STATISTICS.iter().map(|statistic| format!("{what} {statistic}")));
        }
    }
    out
}

fn completion(out: &mut Vec<String>) {
    for what in ["fct", "slowdown"] {
        for statistic in ["mean"].into_iter().chain(COMPLETION.map(|(word, _)| word)) {
            out.extend(SIZES.iter().map(|(.., size)| format!("{what} {statistic}{size}")));
        }
    }
}

fn of_flow(flow: &FlowPlan, add: &mut impl FnMut(&[&str])) {
    match flow.app {
        App::Ping { .. } | App::Probe { .. } | App::Request { .. } => add(&LATENCY),
        App::Query { .. } => {
            add(&LATENCY);
            add(&["goodput"]);
        }
        App::Connect { .. } => {
            add(&LATENCY);
            add(&["connection probability"]);
        }
        App::Cbr { .. } | App::Program { .. } => add(&["goodput", "early goodput", "lost"]),
        App::Bulk | App::Fixed { .. } | App::Chunk { .. } | App::OnOff { .. } => {
            add(&STREAM);
            add(&["early goodput"]);
        }
        App::Guest(_) => {
            add(&STREAM);
            add(&["early goodput", "lost"]);
            add(&LATENCY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Experiment;

    const FILE: &str = r#"schema = 1
name = "m"
duration = "200ms"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts = 2
rate = "100mbit"
[qdisc]
"leaf-1.host-1-1" = "pfifo limit 20"
[flows]
some = { app = "fixed", bytes = "10kb", from = "host-1-*", to = "host-2-1" }
one = { app = "fixed", bytes = "10kb", from = "host-1-1", to = "host-2-1" }
many = { app = "bulk", from = "host-1-*", to = "host-2-2" }
ping = { app = "ping", from = "host-1-1", to = "host-2-1", interval = "10ms" }
asks = { app = "request", request = 100, response = 1000, requests = 3, from = "host-1-1", to = "host-2-1" }
udp = { app = "cbr", rate = "1mbit", from = "host-1-2", to = "host-2-2" }
[workload.w]
size = "fixed 20kb"
load = 0.1
[workload.read]
size = "fixed 20kb"
matrix = "incast 3"
arrivals = "closed"
[measure]
utilisation = ["leaf-*.leaf-*-spine-*"]
table = ["total goodput"]
"#;

    /// All that a run measures is known beforehand.
    #[test]
    fn what_a_run_measures_is_known() {
        let experiment = Experiment::parse("m.toml", FILE, &[]).unwrap_or_else(|f| panic!("{f}"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let options = crate::run::Options::silent(&stop);
        let result = crate::run::run_plan(&experiment.base, "m", &options).unwrap();
        assert!(result.metrics.len() > 60);
        for metric in &result.metrics {
            let name = metric.full_name();
            assert_eq!(check_metric(&name, &experiment.base), Ok(()), "{name}");
        }
        let utilisation = result.metrics.iter().filter(|metric| metric.name == "utilisation");
        let values: Vec<f64> = utilisation.map(|metric| metric.value).collect();
        assert_eq!(values.len(), 4);
        assert!(values.iter().all(|value| (0.0..=100.0).contains(value)), "{values:?}");
    }

    #[test]
    fn plots_of_unknown_names_are_reported_with_their_position() {
        for (plot, what) in [
            ("what = \"w fct 98 %\"", ":30:8: no metric is called \"w fct 98 %\""),
            ("what = \"one godput\"", "did you mean \"goodput\"?"),
            (
                "what = \"cwnd\"\nscopes = [\"one\", \"mani\"]",
                ":31:18: no flow, group, workload or port is called \"mani\"; did you mean \"many\"?",
            ),
        ] {
            let text = format!("{FILE}[[plot]]\n{plot}\n");
            let experiment = Experiment::parse("m.toml", &text, &[]).unwrap();
            let faults = experiment.check_names().unwrap_err().to_string();
            assert!(faults.contains(what), "{faults}");
        }
        let text =
            format!("{FILE}[[plot]]\nwhat = \"utilisation\"\nscopes = [\"leaf-*.*\", \"w\"]\n");
        assert!(Experiment::parse("m.toml", &text, &[]).unwrap().check_names().is_ok());
    }

    #[test]
    fn an_unknown_metric_is_reported_with_its_position() {
        for (name, what) in [
            (
                "total godput",
                "m.toml:28:10: no metric is called \"total godput\"; did you mean \"goodput\"?",
            ),
            ("totl goodput", "did you mean \"total\"?"),
            ("w fct 98 %", "no metric is called \"w fct 98 %\""),
            ("goodput", "write \"SCOPE METRIC\""),
        ] {
            let text = FILE.replace("total goodput", name);
            let experiment = Experiment::parse("m.toml", &text, &[]).unwrap();
            let faults = experiment.check_names().unwrap_err().to_string();
            assert!(faults.contains(what), "{faults}");
        }
        assert!(Experiment::parse("m.toml", FILE, &[]).unwrap().check_names().is_ok());
    }
}
