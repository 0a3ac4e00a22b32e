//! Metrics of requests and queries.

use apps::AppReport;
use datapath::units::Instant;

use super::build::BuiltWorld;
use super::metric::push;
use crate::plan::{App, FlowPlan, Plan};
use crate::results::Metric;

/// Whole answers to the queries that began after the warm-up, over the time from the first of these queries to the last
/// of the answers.
pub fn query(out: &mut Vec<Metric>, plan: &Plan, flow: &FlowPlan, client: &AppReport) {
    let App::Query { response, .. } = flow.app else { return };
    let warmup_end = Instant::ZERO + plan.warmup;
    let spans = client.round_trips.iter().map(|(ended, took)| (*ended - *took, *ended));
    let spans: Vec<(Instant, Instant)> = spans.filter(|(began, _)| *began >= warmup_end).collect();
    let (Some((from, _)), Some((_, to))) = (spans.first(), spans.last()) else { return };
    let nanos = to.saturating_since(*from).as_nanos();
    if nanos > 0 {
        let bits = spans.len() as f64 * response as f64 * 8.0;
        push(out, &flow.name, "goodput", "Mbit/s", bits * 1e3 / nanos as f64);
    }
}

/// The share of all planned requests that have been answered.
pub fn answered(out: &mut Vec<Metric>, plan: &Plan, built: &BuiltWorld) {
    let (mut wanted, mut had) = (0.0, 0.0);
    for (flow, place) in plan.flows.iter().zip(&built.flows) {
        if let App::Request { count: Some(count), .. } = flow.app {
            wanted += count as f64;
            had += built.world.report(place.sender).received as f64;
        }
    }
    if wanted > 0.0 {
        push(out, "total", "answered", "%", 100.0 * had / wanted);
    }
}
