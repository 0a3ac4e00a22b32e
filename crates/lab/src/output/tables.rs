//! What a run leaves behind as tables: its flows, and all metrics, one value a row.

use crate::results::{
    Distribution, FlowRecord, Metric, MetricSummary, PointResult, RunResult, Series,
};
use crate::stats::Summary;
use crate::store::Label;
use crate::store::table::{Table, Values};

/// What stands in every row of a series: the point, its labels, the seed, and what the series is of.
pub fn labels(labels: &[(String, String)], seed: u64, series: &Series) -> Vec<(String, Label)> {
    let text = |name: String, text: &str| (name, Label::Text(text.into()));
    let mut out = vec![text("point".into(), &label(labels))];
    out.extend(labels.iter().map(|(axis, label)| text(format!("point.{axis}"), label)));
    out.push(("seed".into(), Label::Whole(seed as i64)));
    let (kind, name) = series.name.split_once('-').unwrap_or(("", &series.name));
    let of = if matches!(kind, "flow" | "latency") { "flow" } else { "port" };
    out.push(text(of.into(), name));
    out
}

/// The flows of a run. The labels of its point stand in columns called like the axes.
pub fn flows(labels: &[(String, String)], run: &RunResult) -> Table {
    let all = &run.flows;
    let mut table = Table::default();
    let mut same = |name: &str, text: &str| {
        table.push(name, Values::Text(vec![text.to_owned(); all.len()]));
    };
    same("point", &label(labels));
    for (axis, label) in labels {
        same(&format!("point.{axis}"), label);
    }
    table.push("seed", Values::Whole(vec![Some(run.seed as i64); all.len()]));
    let whole = |of: &dyn Fn(&FlowRecord) -> Option<u64>| {
        Values::Whole(all.iter().map(|flow| of(flow).map(|value| value as i64)).collect())
    };
    let text = |of: &dyn Fn(&FlowRecord) -> String| Values::Text(all.iter().map(of).collect());
    let name = |node: usize| run.nodes[node].clone();
    table.push("flow", text(&FlowRecord::label));
    table.push("workload", text(&|flow| flow.number.map_or(String::new(), |_| flow.name.clone())));
    table.push("request", whole(&|flow| flow.request));
    table.push("app", text(&|flow| flow.app.to_owned()));
    table.push("from", text(&|flow| name(flow.from)));
    table.push("to", text(&|flow| name(flow.to)));
    table.push("size_bytes", whole(&|flow| flow.bytes));
    table.push("received_bytes", whole(&|flow| Some(flow.received)));
    table.push("start_ns", whole(&|flow| Some(flow.start_ns)));
    table.push("end_ns", whole(&|flow| flow.end_ns));
    table.push("fct_ns", whole(&FlowRecord::fct_ns));
    table.push("ideal_ns", whole(&|flow| flow.ideal_ns));
    table.push("slowdown", Values::Decimal(all.iter().map(FlowRecord::slowdown).collect()));
    table.push("retransmits_segments", whole(&|flow| flow.retransmits.map(u64::from)));
    table.push("rtos", whole(&|flow| flow.rtos.map(u64::from)));
    let path = |flow: &FlowRecord| {
        let names = flow.path.iter().map(|node| run.nodes[*node as usize].as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    table.push("path", text(&path));
    table.push("status", text(&|flow| flow.status.name().to_owned()));
    table
}

/// Every metric of every run: point, seed, scope, metric, value, unit. The labels of a point stand in
/// columns of their own as well, called `point.AXIS`.
pub fn results(points: &[PointResult]) -> Table {
    let mut all: Vec<(&PointResult, u64, &Metric)> = Vec::new();
    for point in points {
        for run in &point.runs {
            all.extend(run.metrics.iter().map(|metric| (point, run.seed, metric)));
        }
    }
    let mut table = Table::default();
    push_points(&mut table, &all.iter().map(|(point, ..)| *point));
    table.push("seed", Values::Whole(all.iter().map(|(_, seed, _)| Some(*seed as i64)).collect()));
    table
        .push("scope", Values::Text(all.iter().map(|(.., metric)| metric.scope.clone()).collect()));
    table
        .push("metric", Values::Text(all.iter().map(|(.., metric)| metric.name.clone()).collect()));
    table.push(
        "value",
        Values::Decimal(all.iter().map(|(.., metric)| Some(metric.value)).collect()),
    );
    table.push(
        "unit",
        Values::Text(all.iter().map(|(.., metric)| metric.unit.to_owned()).collect()),
    );
    table
}

/// Every metric of every point over its repetitions: point, scope, metric, mean, half the 95 % interval,
/// least, most, how many, unit.
pub fn summaries(points: &[PointResult]) -> Table {
    let all: Vec<(&PointResult, MetricSummary)> = points
        .iter()
        .flat_map(|point| point.summaries().into_iter().map(move |summary| (point, summary)))
        .collect();
    let mut table = Table::default();
    push_points(&mut table, &all.iter().map(|(point, _)| *point));
    let text = |of: &dyn Fn(&MetricSummary) -> &str| {
        Values::Text(all.iter().map(|(_, summary)| of(summary).to_owned()).collect())
    };
    let decimal = |of: &dyn Fn(&Summary) -> Option<f64>| {
        Values::Decimal(all.iter().map(|(_, metric)| of(&metric.summary)).collect())
    };
    table.push("scope", text(&|metric| &metric.scope));
    table.push("metric", text(&|metric| &metric.name));
    table.push("mean", decimal(&|summary| Some(summary.mean)));
    table.push("ci95", decimal(&|summary| summary.ci95));
    table.push("min", decimal(&|summary| Some(summary.min)));
    table.push("max", decimal(&|summary| Some(summary.max)));
    let counts = all.iter().map(|(_, metric)| Some(metric.summary.n as i64));
    table.push("n", Values::Whole(counts.collect()));
    table.push("unit", text(&|metric| metric.unit));
    table
}

/// How completion times, slowdowns, latencies, delays and lengths of queues of each run are distributed: the
/// values (ms, factors, packets) that shares from 0 to 1 of them are not above.
pub fn distributions(points: &[PointResult]) -> Table {
    let mut all: Vec<(&PointResult, u64, &Distribution, usize)> = Vec::new();
    for point in points {
        for run in &point.runs {
            for one in &run.distributions {
                all.extend((0..one.quantiles.len()).map(|part| (point, run.seed, one, part)));
            }
        }
    }
    let mut table = Table::default();
    push_points(&mut table, &all.iter().map(|(point, ..)| *point));
    table.push("seed", Values::Whole(all.iter().map(|(_, seed, ..)| Some(*seed as i64)).collect()));
    let text = |of: &dyn Fn(&Distribution) -> &str| {
        Values::Text(all.iter().map(|(.., one, _)| of(one).to_owned()).collect())
    };
    let decimal = |of: &dyn Fn(&Distribution, usize) -> f64| {
        Values::Decimal(all.iter().map(|(.., one, part)| Some(of(one, *part))).collect())
    };
    table.push("what", text(&|one| one.what));
    table.push("scope", text(&|one| &one.scope));
    table.push("share", decimal(&|one, part| part as f64 / (one.quantiles.len() - 1) as f64));
    table.push("value", decimal(&|one, part| one.quantiles[part]));
    table
}

/// The columns that say the point of each row.
fn push_points<'a>(table: &mut Table, points: &(impl Iterator<Item = &'a PointResult> + Clone)) {
    table.push("point", Values::Text(points.clone().map(|point| label(&point.labels)).collect()));
    let axes = points.clone().next().map_or(&[][..], |point| &point.labels);
    for (place, (axis, _)) in axes.iter().enumerate() {
        let of_axis = points.clone().map(|point| point.labels[place].1.clone());
        table.push(&format!("point.{axis}"), Values::Text(of_axis.collect()));
    }
}

/// `label label …`, empty where nothing is swept.
fn label(labels: &[(String, String)]) -> String {
    labels.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_row() {
        let run = |seed, value| RunResult {
            seed,
            metrics: vec![Metric { scope: "total".into(), name: "rto".into(), unit: "", value }],
            ..RunResult::default()
        };
        let point = |label: &str, value| PointResult {
            labels: vec![("load".into(), label.into())],
            runs: vec![run(1, value), run(2, value + 1.0)],
        };
        let table = results(&[point("0.3", 5.0), point("0.6", 7.0)]);
        let text = String::from_utf8(table.csv().unwrap()).unwrap();
        assert_eq!(
            text,
            "point,point.load,seed,scope,metric,value,unit\n0.3,0.3,1,total,rto,5,\n\
             0.3,0.3,2,total,rto,6,\n0.6,0.6,1,total,rto,7,\n0.6,0.6,2,total,rto,8,\n"
        );
    }
}
