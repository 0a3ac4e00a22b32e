//! Numbers of a workload, and of a group of flows with an end: completion times and slowdowns, of all flows and by size.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::plan::metrics::{COMPLETION, SIZES};
use crate::results::{Distribution, FlowRecord, FlowStatus, Metric};
use crate::run::measure::members_of_groups;
use crate::stats::quantile;

/// Of every workload and every group, from its flows that began after the warm-up.
pub fn metrics(plan: &Plan, records: &[FlowRecord]) -> Vec<Metric> {
    let mut out = Vec::new();
    for workload in &plan.workloads {
        let records = of_scope(plan, records, &workload.name);
        of_workload(&mut out, &workload.name, &records);
        completion(&mut out, &workload.name, &finished(&records));
        if !workload.clients.is_empty() {
            of_requests(&mut out, &workload.name, &records);
        }
    }
    for (group, records) in of_groups(plan, records) {
        completion(&mut out, group, &finished(&records));
    }
    out
}

/// The flows of a workload that began after the warm-up.
fn of_scope<'a>(plan: &Plan, records: &'a [FlowRecord], workload: &str) -> Vec<&'a FlowRecord> {
    let warm = plan.warmup.as_nanos();
    let own = |record: &&FlowRecord| {
        record.number.is_some() && record.name == workload && record.start_ns >= warm
    };
    records.iter().filter(own).collect()
}

/// Of each group the flows that have bytes to transfer and began after the warm-up.
fn of_groups<'a>(plan: &'a Plan, records: &'a [FlowRecord]) -> Vec<(&'a str, Vec<&'a FlowRecord>)> {
    let warm = plan.warmup.as_nanos();
    let fits = |it: &&FlowRecord| it.number.is_none() && it.bytes.is_some() && it.start_ns >= warm;
    let known: BTreeMap<&str, &FlowRecord> =
        records.iter().filter(fits).map(|record| (record.name.as_str(), record)).collect();
    let records_of = |members: Vec<usize>| {
        let names = members.into_iter().map(|flow| plan.flows[flow].name.as_str());
        names.filter_map(|name| known.get(name).copied()).collect()
    };
    let groups = members_of_groups(plan).into_iter();
    groups.map(|(group, members)| (group, records_of(members))).collect()
}

fn finished<'a>(records: &[&'a FlowRecord]) -> Vec<&'a FlowRecord> {
    records.iter().copied().filter(|it| it.status == FlowStatus::Finished).collect()
}

/// Of an incast: how long whole answers took, from the request to the last byte of the last part.
fn of_requests(out: &mut Vec<Metric>, scope: &str, records: &[&FlowRecord]) {
    let mut push = |name: String, unit: &'static str, value: f64| {
        out.push(Metric { scope: scope.into(), name, unit, value });
    };
    let mut ends: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    for record in records {
        let Some(request) = record.request else { continue };
        let whole = ends.entry(request).or_insert((record.start_ns, Some(0)));
        whole.1 = whole.1.zip(record.end_ns).map(|(last, end)| last.max(end));
    }
    push("requests".into(), "", ends.len() as f64);
    let mut times: Vec<f64> = ends
        .values()
        .filter_map(|(start, end)| end.map(|end| (end - start) as f64 / 1e6))
        .collect();
    push("requests answered".into(), "", times.len() as f64);
    if times.is_empty() {
        return;
    }
    push("request time mean".into(), "ms", times.iter().sum::<f64>() / times.len() as f64);
    for (word, share) in COMPLETION {
        if let Some(value) = quantile(&mut times, share) {
            push(format!("request time {word}"), "ms", value);
        }
    }
}

/// Completion times in ms and slowdowns of the same flows.
pub fn distributions(plan: &Plan, records: &[FlowRecord]) -> Vec<Distribution> {
    let mut out = Vec::new();
    let workloads = plan.workloads.iter().map(|workload| workload.name.as_str());
    let workloads = workloads.map(|name| (name, of_scope(plan, records, name)));
    for (scope, records) in workloads.chain(of_groups(plan, records)) {
        let own = finished(&records);
        let times = own.iter().filter_map(|it| it.fct_ns());
        let mut times: Vec<f64> = times.map(|nanos| nanos as f64 / 1e6).collect();
        let mut slow: Vec<f64> = own.iter().filter_map(|it| it.slowdown()).collect();
        out.extend(Distribution::of("fct", scope, &mut times));
        out.extend(Distribution::of("slowdown", scope, &mut slow));
    }
    out
}

/// Whether a flow is in a bin of sizes.
fn fits(record: &FlowRecord, above: u64, most: u64) -> bool {
    record.bytes.is_some_and(|bytes| bytes > above && bytes <= most)
}

fn of_workload(out: &mut Vec<Metric>, scope: &str, records: &[&FlowRecord]) {
    let mut push = |name: String, unit: &'static str, value: f64| {
        out.push(Metric { scope: scope.into(), name, unit, value });
    };
    let finished = finished(records);
    push("flows".into(), "", records.len() as f64);
    push("flows finished".into(), "", finished.len() as f64);
    let sum = |of: fn(&FlowRecord) -> Option<u32>| {
        records.iter().filter_map(|it| of(it)).map(f64::from).sum::<f64>()
    };
    push("retransmits".into(), "segments", sum(|record| record.retransmits));
    push("timeouts total".into(), "", sum(|record| record.rtos));
    let first = records.iter().map(|record| record.start_ns).min();
    let last = finished.iter().filter_map(|record| record.end_ns).max();
    if let (Some(first), Some(last)) = (first, last)
        && last > first
    {
        let bytes: u64 = finished.iter().filter_map(|record| record.bytes).sum();
        push("goodput".into(), "Mbit/s", bytes as f64 * 8e3 / (last - first) as f64);
    }
}

/// Completion times and slowdowns of flows that are finished.
fn completion(out: &mut Vec<Metric>, scope: &str, finished: &[&FlowRecord]) {
    let mut push = |name: String, unit: &'static str, value: f64| {
        out.push(Metric { scope: scope.into(), name, unit, value });
    };
    for (above, most, behind) in SIZES {
        let of_bin: Vec<&FlowRecord> =
            finished.iter().copied().filter(|it| fits(it, above, most)).collect();
        let times = of_bin.iter().filter_map(|it| it.fct_ns()).map(|nanos| nanos as f64 / 1e6);
        let slow = of_bin.iter().filter_map(|it| it.slowdown());
        for (what, unit, mut values) in
            [("fct", "ms", times.collect::<Vec<f64>>()), ("slowdown", "", slow.collect())]
        {
            if values.is_empty() {
                continue;
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            push(format!("{what} mean{behind}"), unit, mean);
            for (word, share) in COMPLETION {
                if let Some(value) = quantile(&mut values, share) {
                    push(format!("{what} {word}{behind}"), unit, value);
                }
            }
        }
    }
}
