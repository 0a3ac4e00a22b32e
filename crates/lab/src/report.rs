//! Results as tables of text, before a terminal or a file gives them their lines.

mod alike;

pub use alike::summed_up;

use crate::plan::nearest;
use crate::results::{Metric, MetricSummary, PointResult};
use crate::stats::Summary;
use std::collections::BTreeSet;

/// A table of text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Table {
    /// Column heads.
    pub head: Vec<String>,
    /// Rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
    /// Which columns hold numbers and stand to the right.
    pub numeric: Vec<bool>,
}

/// The metrics of the whole that are shown for every point of a sweep unless the experiment names others.
const HEADLINES: [&str; 4] =
    ["total goodput", "total rto", "total retransmits", "total latency median"];

/// What is shown besides of what measures it: how long answers and flows take.
const TIMES: [&str; 4] = ["latency median", "latency 99 %", "fct median", "fct 99 %"];

/// Of so many flows, groups or workloads.
const TIMES_OF: usize = 2;

/// The metrics shown for every point of a sweep unless the experiment names others. Of more flows, groups and workloads
/// than there is room for the last ones: groups come behind their flows, and workloads behind all.
pub(crate) fn headlines(points: &[PointResult]) -> Vec<String> {
    let mut names = HEADLINES.map(String::from).to_vec();
    for run in points.iter().flat_map(|point| &point.runs) {
        let times = times_of(&run.metrics);
        for metric in times.into_iter().rev() {
            let name = metric.full_name();
            if !names.contains(&name) && names.len() < HEADLINES.len() + TIMES_OF * TIMES.len() {
                names.push(name);
            }
        }
    }
    names
}

/// Those of the last flows, groups and workloads that have any, from behind.
fn times_of(metrics: &[Metric]) -> Vec<&Metric> {
    let mut scopes: Vec<&str> = Vec::new();
    let mut times = Vec::new();
    for metric in metrics.iter().rev().filter(|metric| TIMES.contains(&metric.name.as_str())) {
        match metric.scope.as_str() {
            "total" => continue,
            known if scopes.contains(&known) => {}
            _ if scopes.len() == TIMES_OF => break,
            new => scopes.push(new),
        }
        times.push(metric);
    }
    times
}

/// Whether the runs of each point came out the same, to the last number: nothing in the experiment is drawn that
/// matters, and an interval over its runs says nothing.
pub fn repeats_itself(points: &[PointResult]) -> bool {
    let repeats = |point: &PointResult| match point.runs.as_slice() {
        [first, others @ ..] if !others.is_empty() && !first.metrics.is_empty() => {
            others.iter().all(|run| run.metrics == first.metrics)
        }
        _ => false,
    };
    !points.is_empty() && points.iter().all(repeats)
}

/// How many runs a row is over.
pub fn runs_of(points: &[PointResult]) -> String {
    let most = points.iter().map(|point| point.runs.len()).max().unwrap_or(0);
    let least = points.iter().map(|point| point.runs.len()).min().unwrap_or(0);
    match (least, most) {
        (1, 1) => "1 run per row".into(),
        (least, most) if least == most => format!("{most} runs per row"),
        (least, most) => format!("{least} to {most} runs per row"),
    }
}

/// All metrics of a single point, those of many flows summed up, or the headline metrics of every point of a sweep.
pub fn results(axes: &[&str], points: &[PointResult], wanted: &[String]) -> Table {
    match points {
        [point] if wanted.is_empty() => one_point(point),
        _ => sweep(axes, points, wanted),
    }
}

/// What of `wanted` no run has measured, each with the name that is nearest to it.
pub fn unmeasured(points: &[PointResult], wanted: &[String]) -> Vec<(String, Option<String>)> {
    let summaries = points.iter().flat_map(PointResult::summaries);
    let names: BTreeSet<String> = summaries.map(|one| one.full_name()).collect();
    let missing = wanted.iter().filter(|name| !names.contains(*name));
    missing
        .map(|name| {
            let near = nearest(name, names.iter().map(String::as_str));
            (name.clone(), near.map(String::from))
        })
        .collect()
}

fn one_point(point: &PointResult) -> Table {
    let summaries = alike::summaries(point);
    if summaries.iter().all(|one| one.summary.n == 1) {
        return one_run(summaries);
    }
    let runs = point.runs.len();
    let head = ["flow or port", "metric", "mean", "95 %", "min", "max", "unit"];
    let rows = summaries
        .into_iter()
        .map(|MetricSummary { scope, name, unit, summary }| {
            vec![
                scope,
                name,
                number(summary.mean),
                (spread(&summary) + &of_fewer(&summary, runs)).trim_start().into(),
                number(summary.min),
                number(summary.max),
                unit.to_string(),
            ]
        })
        .collect();
    Table {
        head: head.map(String::from).to_vec(),
        rows,
        numeric: vec![false, false, true, true, true, true, false],
    }
}

/// Of a single run there is one value of each metric.
fn one_run(summaries: Vec<MetricSummary>) -> Table {
    let rows = summaries
        .into_iter()
        .map(|one| vec![one.scope, one.name, number(one.summary.mean), one.unit.to_string()])
        .collect();
    let head = ["flow or port", "metric", "value", "unit"];
    Table { head: head.map(String::from).to_vec(), rows, numeric: vec![false, false, true, false] }
}

fn sweep(axes: &[&str], points: &[PointResult], wanted: &[String]) -> Table {
    let summaries: Vec<Vec<MetricSummary>> = points.iter().map(PointResult::summaries).collect();
    let columns: Vec<(String, &'static str)> = {
        let all = || summaries.iter().flatten();
        let unit_of = |name: &str| all().find(|one| one.full_name() == name).map(|one| one.unit);
        let names: Vec<String> =
            if wanted.is_empty() { headlines(points) } else { wanted.to_vec() };
        names.into_iter().filter_map(|name| unit_of(&name).map(|unit| (name, unit))).collect()
    };
    let mut head: Vec<String> = axes.iter().map(ToString::to_string).collect();
    head.extend(columns.iter().map(|(name, unit)| match *unit {
        "" => short(name).to_string(),
        unit => format!("{} [{unit}]", short(name)),
    }));
    let rows = points
        .iter()
        .zip(&summaries)
        .map(|(point, summaries)| {
            let mut row: Vec<String> =
                point.labels.iter().map(|(_, label)| label.clone()).collect();
            row.extend(columns.iter().map(|(name, _)| {
                summaries.iter().find(|one| one.full_name() == *name).map_or(String::new(), |one| {
                    with_interval(&one.summary) + &of_fewer(&one.summary, point.runs.len())
                })
            }));
            row
        })
        .collect();
    let mut numeric = vec![false; axes.len()];
    numeric.resize(head.len(), true);
    Table { head, rows, numeric }
}

fn spread(summary: &Summary) -> String {
    summary.ci95.map_or(String::new(), |ci| format!("± {}", interval(ci)))
}

/// Over how many of the `runs` a value is, if not over all.
fn of_fewer(summary: &Summary, runs: usize) -> String {
    if summary.n < runs { format!(" ({} of {runs})", summary.n) } else { String::new() }
}

/// A metric of the whole experiment needs no scope before its name.
fn short(name: &str) -> &str {
    name.strip_prefix("total ").unwrap_or(name)
}

/// `mean ± interval`.
pub fn with_interval(summary: &Summary) -> String {
    match summary.ci95 {
        Some(ci) => format!("{} ± {}", number(summary.mean), interval(ci)),
        None => number(summary.mean),
    }
}

/// An interval with two digits that carry meaning.
pub fn interval(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 10.0 || value.fract() == 0.0 => 0,
        x if x >= 1.0 => 1,
        x if x >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A number with as many digits as carry meaning: four, and no more than three decimals.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 1000.0 || value.fract() == 0.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::RunResult;

    fn point(label: &str, goodputs: &[f64]) -> PointResult {
        let runs = goodputs
            .iter()
            .map(|value| {
                let metric = |scope: &str| Metric {
                    scope: scope.into(),
                    name: "goodput".into(),
                    unit: "Mbit/s",
                    value: *value,
                };
                RunResult { metrics: vec![metric("bulk"), metric("total")], ..RunResult::default() }
            })
            .collect();
        PointResult { labels: vec![("cc".into(), label.into())], runs }
    }

    #[test]
    fn a_metric_that_was_not_measured_is_reported_with_the_nearest_name() {
        let points = [point("reno", &[400.0])];
        let wanted = ["bulk godput", "total goodput", "nothing of the kind"].map(String::from);
        let missing = unmeasured(&points, &wanted);
        let neighbour = Some("bulk goodput".to_string());
        assert_eq!(missing, [(wanted[0].clone(), neighbour), (wanted[2].clone(), None)]);
    }

    #[test]
    fn one_point_shows_all_and_a_sweep_the_headlines() {
        let points = [point("reno", &[400.0, 402.0]), point("cubic", &[430.0, 430.0])];
        let table = results(&["cc"], &points, &[]);
        assert_eq!(table.head, ["cc", "goodput [Mbit/s]"]);
        assert_eq!(table.rows[0], ["reno", "401 ± 13"]);
        assert_eq!(table.rows[1], ["cubic", "430 ± 0"]);
        let single = results(&[], &points[..1], &[]);
        assert_eq!(single.rows.len(), 2);
        assert_eq!(single.rows[0][..3], ["bulk", "goodput", "401"]);
        let once = results(&[], &[point("reno", &[400.0])], &[]);
        assert_eq!(once.head, ["flow or port", "metric", "value", "unit"]);
        assert_eq!(once.rows[0], ["bulk", "goodput", "400", "Mbit/s"]);
    }

    #[test]
    fn a_sweep_shows_how_long_answers_and_flows_take() {
        let mut points = [point("reno", &[400.0]), point("cubic", &[430.0])];
        for (scope, name) in [
            ("ask-1", "latency median"),
            ("ask-2", "latency median"),
            ("ask", "latency median"),
            ("ask", "latency 99 %"),
            ("web", "fct 99 %"),
            ("web", "fct 99 % to 100 kB"),
            ("total", "latency median"),
        ] {
            let (scope, name) = (scope.into(), name.into());
            points[1].runs[0].metrics.push(Metric { scope, name, unit: "ms", value: 1.0 });
        }
        let table = results(&["cc"], &points, &[]);
        let head = [
            "cc",
            "goodput [Mbit/s]",
            "latency median [ms]",
            "ask latency median [ms]",
            "ask latency 99 % [ms]",
            "web fct 99 % [ms]",
        ];
        assert_eq!(table.head, head);
        assert_eq!(table.rows[0][2..], ["", "", "", ""]);
    }

    #[test]
    fn identical_repetitions_are_detected() {
        assert!(repeats_itself(&[point("reno", &[4.0, 4.0]), point("cubic", &[5.0, 5.0, 5.0])]));
        assert!(!repeats_itself(&[point("reno", &[4.0, 4.0]), point("cubic", &[5.0, 5.1])]));
        assert!(!repeats_itself(&[point("reno", &[4.0])]));
        assert!(!repeats_itself(&[]));
    }

    #[test]
    fn what_only_some_runs_have_measured_says_so() {
        let mut points = [point("reno", &[400.0, 402.0])];
        points[0].runs[1].metrics.retain(|metric| metric.scope == "bulk");
        let table = results(&["cc"], &points, &["total goodput".into(), "bulk goodput".into()]);
        assert_eq!(table.rows[0], ["reno", "400 (1 of 2)", "401 ± 13"]);
        let single = results(&[], &points, &[]);
        let total = single.rows.iter().find(|row| row[0] == "total").expect("it is there");
        assert_eq!(total[2..4], ["400", "(1 of 2)"]);
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in
            [(1234.5, "1234"), (123.45, "123.5"), (12.345, "12.35"), (1.2345, "1.234"), (0.0, "0")]
        {
            assert_eq!(number(value), text);
        }
    }
}
