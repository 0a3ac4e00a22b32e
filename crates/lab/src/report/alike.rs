//! Tables about many flows: of those that are measured alike, the distribution instead of each.

use super::MetricSummary;
use crate::results::{Metric, PointResult, summaries_of};
use crate::stats::quantile;
use std::collections::{BTreeMap, BTreeSet};

/// So many flows or ports are listed one by one, about as many as fit on a screen.
const LISTED: usize = 40;

/// What is shown of a metric of many flows or ports.
const SHOWN: [(&str, f64); 3] = [("min", 0.0), ("median", 0.5), ("max", 1.0)];

/// Flows or ports of which the same is measured: their names, and that of a row about all of them.
struct Alike<'a> {
    scopes: BTreeSet<&'a str>,
    label: String,
}

/// How many flows and ports of a point stand in rows about many.
pub fn summed_up(point: &PointResult) -> usize {
    alike(point).iter().map(|group| group.scopes.len()).sum()
}

/// Every metric of a point over its runs; of more than [`LISTED`] flows or ports that are measured alike, the least,
/// the median and the largest of each run.
pub(super) fn summaries(point: &PointResult) -> Vec<MetricSummary> {
    let groups = alike(point);
    if groups.is_empty() {
        return point.summaries();
    }
    let runs: Vec<Vec<Metric>> =
        point.runs.iter().map(|run| sum_up(&run.metrics, &groups)).collect();
    summaries_of(runs.iter().map(Vec::as_slice))
}

/// Those that are more than fit.
fn alike(point: &PointResult) -> Vec<Alike<'_>> {
    let mut metrics_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut in_order: Vec<&str> = Vec::new();
    for metric in point.runs.iter().flat_map(|run| &run.metrics) {
        let names = metrics_of.entry(&metric.scope).or_insert_with(|| {
            in_order.push(&metric.scope);
            BTreeSet::new()
        });
        names.insert(&metric.name);
    }
    let mut groups: BTreeMap<&BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for scope in in_order {
        groups.entry(&metrics_of[scope]).or_default().push(scope);
    }
    groups.into_values().filter(|scopes| scopes.len() > LISTED).map(Alike::new).collect()
}

/// The metrics of one run, those of a group in place of its first one.
fn sum_up(metrics: &[Metric], groups: &[Alike<'_>]) -> Vec<Metric> {
    let group_of = |metric: &Metric| {
        groups.iter().position(|group| group.scopes.contains(metric.scope.as_str()))
    };
    let mut values: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
    for metric in metrics {
        if let Some(group) = group_of(metric) {
            values.entry((group, &metric.name)).or_default().push(metric.value);
        }
    }
    let mut out = Vec::new();
    for metric in metrics {
        let Some(group) = group_of(metric) else {
            out.push(metric.clone());
            continue;
        };
        // None left: it is not the first.
        let Some(mut values) = values.remove(&(group, metric.name.as_str())) else { continue };
        out.extend(SHOWN.into_iter().filter_map(|(name, share)| {
            let (scope, name) = (groups[group].label.clone(), format!("{}, {name}", metric.name));
            Some(Metric { scope, name, unit: metric.unit, value: quantile(&mut values, share)? })
        }));
    }
    out
}

impl<'a> Alike<'a> {
    fn new(scopes: Vec<&'a str>) -> Self {
        let (first, last) = (scopes[0], scopes[scopes.len() - 1]);
        Self {
            label: format!("{first} … {last} ({})", scopes.len()),
            scopes: scopes.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results;
    use crate::results::RunResult;

    /// A run with so many flows, the goodput of flow n being n · `factor`.
    fn run(flows: u32, factor: f64) -> RunResult {
        let metric = |scope: String, name: &str, value| Metric {
            scope,
            name: name.into(),
            unit: "Mbit/s",
            value,
        };
        let mut metrics: Vec<Metric> = (1..=flows)
            .map(|flow| metric(format!("f{flow}"), "goodput", f64::from(flow) * factor))
            .collect();
        metrics.push(metric("r.lan".into(), "drops", 7.0));
        metrics.push(metric("total".into(), "fairness", 1.0));
        RunResult { metrics, ..RunResult::default() }
    }

    fn point(runs: Vec<RunResult>) -> PointResult {
        PointResult { labels: Vec::new(), runs }
    }
    fn rows(point: PointResult) -> Vec<String> {
        results(&[], &[point], &[]).rows.iter().map(|row| row.join("|")).collect()
    }

    #[test]
    fn flows_that_fit_are_listed() {
        let rows = rows(point(vec![run(40, 1.0)]));
        assert_eq!(rows.len(), 42);
        assert_eq!(rows[39], "f40|goodput|40|Mbit/s");
    }

    #[test]
    fn of_more_flows_the_distribution_is_shown() {
        assert_eq!(
            rows(point(vec![run(101, 1.0)])),
            [
                "f1 … f101 (101)|goodput, min|1|Mbit/s",
                "f1 … f101 (101)|goodput, median|51|Mbit/s",
                "f1 … f101 (101)|goodput, max|101|Mbit/s",
                "r.lan|drops|7|Mbit/s",
                "total|fairness|1|Mbit/s",
            ]
        );
    }

    #[test]
    fn the_distribution_is_that_of_each_run() {
        let rows = rows(point(vec![run(101, 1.0), run(101, 3.0)]));
        assert_eq!(rows[1], "f1 … f101 (101)|goodput, median|102|± 648|51|153|Mbit/s");
    }

    #[test]
    fn flows_of_which_something_else_is_measured_stand_for_themselves() {
        let mut run = run(60, 1.0);
        run.metrics[6].name = "fct".into();
        let point = point(vec![run]);
        assert_eq!(summed_up(&point), 59);
        let rows = rows(point);
        assert_eq!(rows[0], "f1 … f60 (59)|goodput, min|1|Mbit/s");
        assert_eq!(rows[3], "f7|fct|7|Mbit/s");
    }
}
