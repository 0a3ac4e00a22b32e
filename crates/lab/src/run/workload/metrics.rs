//! Numbers of a workload: completion times and slowdowns, of all flows and by size.

use crate::plan::Plan;
use crate::plan::metrics::{COMPLETION, SIZES};
use crate::results::{Distribution, FlowRecord, FlowStatus, Metric};
use crate::stats::quantile;

/// Of every workload, from its flows that began after the warm-up.
pub fn metrics(plan: &Plan, records: &[FlowRecord]) -> Vec<Metric> {
    let mut out = Vec::new();
    for workload in &plan.workloads {
        let warm = plan.warmup.as_nanos();
        let own = |record: &&FlowRecord| record.name == workload.name && record.start_ns >= warm;
        let records: Vec<&FlowRecord> = records.iter().filter(own).collect();
        of_workload(&mut out, &workload.name, &records);
    }
    out
}

/// Completion times in ms and slowdowns of the same flows.
pub fn distributions(plan: &Plan, records: &[FlowRecord]) -> Vec<Distribution> {
    let mut out = Vec::new();
    let warm = plan.warmup.as_nanos();
    for workload in &plan.workloads {
        let own = || {
            let finished = records.iter().filter(|it| it.status == FlowStatus::Finished);
            finished.filter(|it| it.name == workload.name && it.start_ns >= warm)
        };
        let mut times: Vec<f64> =
            own().filter_map(FlowRecord::fct_ns).map(|nanos| nanos as f64 / 1e6).collect();
        let mut slow: Vec<f64> = own().filter_map(FlowRecord::slowdown).collect();
        out.extend(Distribution::of("fct", &workload.name, &mut times));
        out.extend(Distribution::of("slowdown", &workload.name, &mut slow));
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
    let finished: Vec<&FlowRecord> =
        records.iter().copied().filter(|it| it.status == FlowStatus::Finished).collect();
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
