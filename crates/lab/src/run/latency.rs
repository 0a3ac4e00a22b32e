//! Metrics of what measures round trips or response times: pings, probes, requests, queries.

use apps::AppReport;
use datapath::units::Instant;

use super::metric::push;
use crate::plan::{App, FlowPlan, Plan};
use crate::results::Metric;
use crate::stats::quantile;

/// True for flows that measure latency.
pub fn has_round_trips(flow: &FlowPlan) -> bool {
    matches!(
        flow.app,
        App::Ping { .. }
            | App::Probe { .. }
            | App::Request { .. }
            | App::Query { .. }
            | App::Connect { .. }
            | App::Guest(_)
    )
}

/// Round trips or response times that ended after the warm-up, in ms.
pub fn round_trips(plan: &Plan, sender: &AppReport) -> Vec<f64> {
    let warmup_end = Instant::ZERO + plan.warmup;
    let counted = sender.round_trips.iter().filter(|(ended, _)| *ended >= warmup_end);
    counted.map(|(_, took)| took.as_nanos() as f64 / 1e6).collect()
}

/// Mean, deviation and quantiles of latencies in ms, which are sorted here.
pub fn latency_metrics(out: &mut Vec<Metric>, scope: &str, millis: &mut [f64]) {
    if millis.is_empty() {
        return;
    }
    let mean = millis.iter().sum::<f64>() / millis.len() as f64;
    push(out, scope, "latency mean", "ms", mean);
    let squares: f64 = millis.iter().map(|value| (value - mean).powi(2)).sum();
    push(out, scope, "latency stddev", "ms", (squares / millis.len() as f64).sqrt());
    for (name, share) in [
        ("latency min", 0.0),
        ("latency median", 0.5),
        ("latency 95 %", 0.95),
        ("latency 99 %", 0.99),
        ("latency 99.9 %", 0.999),
        ("latency max", 1.0),
    ] {
        let value = quantile(millis, share).unwrap_or(0.0);
        push(out, scope, name, "ms", value);
    }
}
