//! Published experiments: their figures, the kernel's, and ours beside them.
//!
//! `experiments/published/NAME.toml` belongs to `experiments/NAME.toml` and names the point of its
//! sweep that is the headline, the published and the kernel's figures, and what must come out for
//! the result to count as reproduced. All of it was written down before the first run.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use crate::output::Output;
use crate::plot::{BarChart, Group, Line, LineChart};
use crate::published::{Bound, Expectation, Publication, Row};
use crate::report::{Table, interval, number};
use crate::results::{Metric, PointResult, RunResult};
use crate::stats::{Summary, quantile};
use crate::store;
use crate::sweep::Point;

/// A figure with ours beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The figure.
    pub row: Row,
    /// Ours: the mean over the repetitions.
    pub measured: Option<f64>,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
}

/// How a reproduction ended.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The publication.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The figures, in the order of the publication.
    pub rows: Vec<Compared>,
    /// Every expectation as a sentence, and whether it is met.
    pub expectations: Vec<(String, bool)>,
}

impl Publication {
    /// True for the points of the headline.
    pub fn is_headline(&self, point: &Point) -> bool {
        self.headline.iter().all(|label| point.labels.contains(label))
    }

    /// The same without the figures and expectations of other points than the headline's.
    pub fn only_headline(&self) -> Self {
        let mut only = self.clone();
        only.rows.retain(|row| row.at.is_empty());
        only.expect.retain(|one| one.at.is_empty());
        only
    }

    /// Sets ours beside the published figures, and judges the expectations.
    pub fn compare(&self, points: &[PointResult]) -> Comparison {
        let rows = self.rows.iter().map(|row| self.compared(row, points)).collect();
        let expectations = self
            .expect
            .iter()
            .map(|one| {
                let measured = |case: &str| {
                    let row = self.rows.iter().find(|row| row.metric == one.metric);
                    let from = row.and_then(|row| row.from.as_deref());
                    self.measured(case, &one.at, &one.metric, from, points).map(|(mean, _)| mean)
                };
                let base = match &one.of {
                    Some(other) => measured(other),
                    None => Some(1.0),
                };
                (one.sentence(), one.is_met(measured(&one.case), base))
            })
            .collect();
        Comparison { name: self.name.clone(), title: self.title.clone(), rows, expectations }
    }

    fn compared(&self, row: &Row, points: &[PointResult]) -> Compared {
        let from = row.from.as_deref();
        let ours = if row.median {
            let found = self.point(&row.case, &row.at, points);
            let mut values =
                found.map_or(Vec::new(), |own| values(own, from.unwrap_or(&row.metric)));
            quantile(&mut values, 0.5).map(|median| (median, None))
        } else {
            self.measured(&row.case, &row.at, &row.metric, from, points)
        };
        Compared {
            row: row.clone(),
            measured: ours.map(|(mean, _)| mean),
            ci95: ours.and_then(|(_, ci95)| ci95),
        }
    }

    /// Our mean and half the width of its 95 % confidence interval.
    fn measured(
        &self,
        case: &str,
        at: &[(String, String)],
        metric: &str,
        from: Option<&str>,
        points: &[PointResult],
    ) -> Option<(f64, Option<f64>)> {
        let own = self.point(case, at, points)?;
        let mean = |values: &[f64]| {
            let summary = Summary::of(values)?;
            Some((summary.mean, summary.ci95))
        };
        let Some((words, way)) = over_baseline(metric) else {
            let words = metric.strip_suffix(" mean").unwrap_or(metric);
            return mean(&values(own, from.unwrap_or(words)));
        };
        // All points meet the same draws, so that runs of equal seeds make pairs.
        let words = from.unwrap_or(words);
        let base = values(self.point(self.baseline.as_deref()?, at, points)?, words);
        let own = values(own, words);
        let paired: Vec<f64> = own.iter().zip(&base).map(|(own, base)| way(*own, *base)).collect();
        let (own, base) = (Summary::of(&own)?.mean, Summary::of(&base)?.mean);
        Some((way(own, base), Summary::of(&paired)?.ci95))
    }

    /// The point of a case: at the headline, but for the labels in `at`.
    fn point<'a>(
        &self,
        case: &str,
        at: &[(String, String)],
        points: &'a [PointResult],
    ) -> Option<&'a PointResult> {
        let elsewhere = |axis: &str| at.iter().any(|(other, _)| other == axis);
        let mut wanted: Vec<(&str, &str)> = vec![(&self.case_axis, case)];
        wanted.extend(at.iter().map(|(axis, label)| (axis.as_str(), label.as_str())));
        let rest = self.headline.iter().filter(|(axis, _)| !elsewhere(axis));
        wanted.extend(rest.map(|(axis, label)| (axis.as_str(), label.as_str())));
        points.iter().find(|point| {
            let has = |axis: &str, label: &str| {
                point.labels.iter().any(|(name, value)| name == axis && value == label)
            };
            wanted.iter().all(|(axis, label)| has(axis, label))
        })
    }
}

/// `goodput gain` is in percent of the baseline's goodput, `latency added` in the metric's unit.
fn over_baseline(metric: &str) -> Option<(&str, Over)> {
    let gain: Over = |own, base| (own / base - 1.0) * 100.0;
    let added: Over = |own, base| own - base;
    let found = metric.strip_suffix(" gain").map(|words| (words, gain));
    found.or_else(|| metric.strip_suffix(" added").map(|words| (words, added)))
}

/// A figure from ours and the baseline's.
type Over = fn(f64, f64) -> f64;

/// The values of `SCOPE METRIC`, or of a metric of the whole experiment, run by run.
fn values(point: &PointResult, words: &str) -> Vec<f64> {
    let scoped = |run: &RunResult| {
        let of_scope = |metric: &&Metric| {
            let rest = words.strip_prefix(metric.scope.as_str());
            rest.and_then(|rest| rest.strip_prefix(' ')) == Some(metric.name.as_str())
        };
        let of_total = |metric: &&Metric| metric.scope == "total" && metric.name == words;
        let metrics = &run.metrics;
        let found = metrics.iter().find(of_scope).or_else(|| metrics.iter().find(of_total));
        found.map(|metric| metric.value)
    };
    point.runs.iter().filter_map(scoped).collect()
}

/// ` (axis label, …)` behind what does not stand at the headline.
fn aside(at: &[(String, String)]) -> String {
    if at.is_empty() {
        return String::new();
    }
    let labels: Vec<&str> = at.iter().map(|(_, label)| label.as_str()).collect();
    format!(" ({})", labels.join(", "))
}

impl Expectation {
    fn is_met(&self, value: Option<f64>, base: Option<f64>) -> bool {
        match (value, base, self.bound) {
            (Some(value), Some(base), Bound::AtLeast(factor)) => value >= factor * base,
            (Some(value), Some(base), Bound::AtMost(factor)) => value <= factor * base,
            _ => false,
        }
    }

    fn sentence(&self) -> String {
        let (word, factor) = match self.bound {
            Bound::AtLeast(factor) => ("at least", factor),
            Bound::AtMost(factor) => ("at most", factor),
        };
        let what = format!("{} of {}{}", self.metric, self.case, aside(&self.at));
        match &self.of {
            Some(other) => format!("{what}: {word} {factor} times that of {other}"),
            None => format!("{what}: {word} {factor}"),
        }
    }
}

impl Comparison {
    /// True if every expectation is met.
    pub fn reproduced(&self) -> bool {
        self.expectations.iter().all(|(_, met)| *met)
    }

    /// How many points of the sweep the figures come from.
    pub fn points(&self) -> usize {
        let mut points: Vec<(&str, &[(String, String)])> = Vec::new();
        for Compared { row, .. } in &self.rows {
            if !points.contains(&(&row.case, &row.at)) {
                points.push((&row.case, &row.at));
            }
        }
        points.len()
    }

    /// Of the figures that a kernel's is known for with a tolerance: how many agree, and all.
    pub fn agreement(&self) -> (usize, usize) {
        let judged: Vec<bool> = self.rows.iter().filter_map(Compared::agrees).collect();
        (judged.iter().filter(|agrees| **agrees).count(), judged.len())
    }

    /// One word for it.
    pub fn verdict(&self) -> &'static str {
        if self.reproduced() { "reproduced" } else { "not reproduced" }
    }

    /// The figures as tables, one for the headline and one for each other point that has any:
    /// published, kernel, ours, ratio of ours to the published or, where nothing was published, to
    /// the kernel's. A ratio with `!` behind it is of a figure that does not agree with the kernel's.
    pub fn tables(&self) -> Vec<(String, Table)> {
        let mut places: Vec<&[(String, String)]> = Vec::new();
        for one in &self.rows {
            if !places.contains(&one.row.at.as_slice()) {
                places.push(&one.row.at);
            }
        }
        let title = |at: &[(String, String)]| {
            let labels: Vec<String> =
                at.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
            labels.join(", ")
        };
        places.into_iter().map(|at| (title(at), self.table_at(at))).collect()
    }

    fn table_at(&self, at: &[(String, String)]) -> Table {
        let head = ["case", "mean of", "published", "kernel", "ours", "ratio"];
        let maybe = |value: Option<f64>| value.map_or("-".into(), number);
        let cells = |one: &Compared| {
            let words = one.row.metric.strip_suffix(" mean").unwrap_or(&one.row.metric);
            let unit = if one.row.unit.is_empty() { "" } else { " " };
            let ratio = one.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let mark = if one.agrees() == Some(false) { " !" } else { "" };
            vec![
                one.row.case.clone(),
                format!("{words}{unit}{}", one.row.unit),
                maybe(one.row.published),
                maybe(one.row.kernel),
                one.shown(),
                format!("{ratio}{mark}"),
            ]
        };
        Table {
            head: head.map(String::from).to_vec(),
            rows: self.rows.iter().filter(|one| one.row.at == at).map(cells).collect(),
            numeric: vec![false, false, true, true, true, true],
        }
    }

    /// The comparison as JSON.
    pub fn to_json(&self) -> Json {
        let rows: Vec<Json> = self
            .rows
            .iter()
            .map(|one| {
                let at: Map<String, Json> =
                    one.row.at.iter().map(|(axis, label)| (axis.clone(), json!(label))).collect();
                json!({
                    "case": one.row.case, "at": at, "metric": one.row.metric,
                    "published": one.row.published, "kernel": one.row.kernel,
                    "measured": one.measured, "ci95": one.ci95, "unit": one.row.unit,
                    "agrees": one.agrees(),
                })
            })
            .collect();
        let expectations: Vec<Json> = self
            .expectations
            .iter()
            .map(|(text, met)| json!({ "expectation": text, "met": met }))
            .collect();
        let (agree, judged) = self.agreement();
        json!({
            "schema": 1, "name": self.name, "rows": rows,
            "expectations": expectations, "verdict": self.verdict(),
            "kernel": { "agree": agree, "judged": judged },
        })
    }

    /// A bar chart of one metric at the headline, case by case.
    pub fn chart(&self, metric: &str, y_label: &str, subtitle: &str) -> BarChart {
        let rows: Vec<&Compared> = self
            .rows
            .iter()
            .filter(|one| one.row.metric == metric && one.row.at.is_empty())
            .collect();
        let series = ["measured", "published", "real kernel"].map(String::from).to_vec();
        let exact = |value: Option<f64>| value.map(|value| (value, None));
        let groups = rows
            .iter()
            .map(|one| Group {
                label: one.row.case.clone(),
                values: vec![
                    one.measured.map(|value| (value, one.ci95)),
                    exact(one.row.published),
                    exact(one.row.kernel),
                ],
            })
            .collect();
        BarChart {
            title: self.title.clone(),
            subtitle: subtitle.into(),
            y_label: y_label.into(),
            series,
            groups,
        }
    }
}

/// Writes the comparison as `comparison.json` and its plots; returns the PNG files.
///
/// # Errors
/// When a file cannot be written.
pub fn draw(
    comparison: &Comparison,
    publication: &Publication,
    points: &[PointResult],
    output: &Output,
) -> Result<Vec<PathBuf>, store::Error> {
    let text = format!("{:#}\n", comparison.to_json());
    output.store().write("comparison.json", text.as_bytes())?;
    let headline: Vec<String> =
        publication.headline.iter().map(|(axis, label)| format!("{axis} {label}")).collect();
    let runs = points.first().map_or(0, |point| point.runs.len());
    let mut subtitle = headline.join(", ");
    if runs > 1 {
        let gap = if subtitle.is_empty() { "" } else { "; " };
        let _ = write!(subtitle, "{gap}means of {runs} runs, whiskers: 95 % confidence");
    }
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for row in publication.rows.iter().filter(|row| row.at.is_empty()) {
        if !metrics.iter().any(|(metric, _)| *metric == row.metric) {
            metrics.push((&row.metric, &row.unit));
        }
    }
    let mut pictures = Vec::new();
    if !publication.charts.is_empty() {
        metrics.retain(|(metric, _)| publication.charts.iter().any(|wanted| wanted == metric));
    }
    for (metric, unit) in metrics {
        let label = if unit.is_empty() { metric.into() } else { format!("{metric} [{unit}]") };
        let chart = comparison.chart(metric, &label, &subtitle);
        let name = format!("compare-{}", metric.replace(' ', "-"));
        pictures.push(output.picture(&name, &chart.draw())?);
    }
    for (file, title, column, y_label, steps) in OVERLAYS {
        let lines = overlay(publication, points, column, steps);
        if lines.len() > 1 {
            let chart = LineChart {
                title: format!("{title}: {}", comparison.title),
                subtitle: format!("{}, first run", headline.join(", ")),
                x_label: "time [s]".into(),
                y_label: y_label.into(),
                lines,
            };
            pictures.push(output.picture(file, &chart.draw())?);
        }
    }
    Ok(pictures)
}

/// File, title, column, axis, whether values hold until the next.
const OVERLAYS: [(&str, &str, &str, &str, bool); 2] = [
    ("compare-cwnd", "Congestion window", "cwnd_segments", "congestion window [segments]", true),
    ("compare-throughput", "Throughput", "throughput_bits_per_sec", "throughput [Mbit/s]", false),
];

/// The first flow of each case's first run, case by case.
fn overlay(
    publication: &Publication,
    points: &[PointResult],
    column: &str,
    steps: bool,
) -> Vec<Line> {
    let divisor = if column.ends_with("bits_per_sec") { 1e6 } else { 1.0 };
    points
        .iter()
        .filter(|point| {
            publication.is_headline(&Point { labels: point.labels.clone(), settings: Vec::new() })
        })
        .filter_map(|point| {
            let case = point.labels.iter().find(|(axis, _)| *axis == publication.case_axis)?;
            let series = point.runs.first()?.series.iter().find(|s| s.name.starts_with("flow-"))?;
            crate::output::line(series, &case.1, column, divisor, steps)
        })
        .collect()
}

impl Compared {
    /// Ours with its interval.
    fn shown(&self) -> String {
        match (self.measured, self.ci95) {
            (Some(mean), Some(ci)) => format!("{} ± {}", number(mean), interval(ci)),
            (Some(mean), None) => number(mean),
            (None, _) => "-".into(),
        }
    }

    /// Whether ours is near enough to the kernel's figure; `None` where that is not judged.
    pub fn agrees(&self) -> Option<bool> {
        let (kernel, tolerance) = self.row.kernel.zip(self.row.tolerance)?;
        Some(self.measured.is_some_and(|ours| (ours - kernel).abs() <= tolerance))
    }

    fn ratio(&self) -> Option<f64> {
        let reference = self.row.published.or(self.row.kernel)?;
        let measured = self.measured?;
        (reference != 0.0).then(|| measured / reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{experiment, publications};

    #[test]
    fn every_publication_has_a_valid_experiment_with_its_cases() {
        let publications = publications().unwrap_or_else(|faults| panic!("{faults}"));
        assert!(!publications.is_empty());
        for publication in publications {
            let experiment = experiment(&publication.name)
                .unwrap_or_else(|faults| panic!("{faults}"))
                .unwrap_or_else(|| panic!("{} has no file", publication.name));
            let headline: Vec<&Point> =
                experiment.points.iter().filter(|point| publication.is_headline(point)).collect();
            let further = crate::published::further_points(&publication.name);
            for row in &publication.rows {
                let mut results: Vec<PointResult> = experiment
                    .points
                    .iter()
                    .map(|point| PointResult { labels: point.labels.clone(), runs: vec![] })
                    .collect();
                results.extend(further.iter().cloned());
                let found = publication.point(&row.case, &row.at, &results);
                assert!(found.is_some(), "{}: no point for {}", publication.name, row.case);
            }
            assert!(!headline.is_empty(), "{} has no headline", publication.name);
        }
    }

    #[test]
    fn every_published_file_is_shipped() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/published");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .expect("the directory is there")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let names = crate::published::SHIPPED.iter().map(|one| format!("{}.toml", one.name));
        let mut shipped: Vec<String> = names.collect();
        shipped.sort();
        assert_eq!(files, shipped);
    }

    fn point(case: &str, goodput: f64, rto: f64) -> PointResult {
        let metric = |name: &str, value| Metric {
            scope: "total".into(),
            name: name.into(),
            unit: "",
            value,
        };
        let run = RunResult {
            metrics: vec![metric("goodput", goodput), metric("rto", rto)],
            ..RunResult::default()
        };
        let labels = [("burst", "1250000b"), ("congestion_control", "cubic"), ("detector", case)];
        PointResult {
            labels: labels.map(|(axis, label)| (axis.into(), label.into())).to_vec(),
            runs: vec![run],
        }
    }

    #[test]
    fn the_verdict_follows_the_expectations() {
        let publications = publications().unwrap();
        let publication = publications.iter().find(|one| one.name == "lost-retransmit").unwrap();
        let points = |vanilla_rto: f64| {
            vec![
                point("linux-2.6.22", 300.0, vanilla_rto),
                point("highest-sack", 400.0, 0.0),
                point("skip-reported", 400.0, 0.0),
                point("both", 400.0, 0.0),
                point("rack", 400.0, 0.0),
            ]
        };
        let good = publication.compare(&points(20.0));
        assert!(good.reproduced(), "{:?}", good.expectations);
        let json = good.to_json();
        assert_eq!(json["rows"][0]["case"], "linux-2.6.22");
        assert_eq!(json["rows"][0]["metric"], "goodput mean");
        assert_eq!(json["rows"][0]["published"], 376.0);
        assert_eq!(json["rows"][0]["measured"], 300.0);
        assert_eq!(json["verdict"], "reproduced");
        assert!(!publication.compare(&points(2.0)).reproduced());
        assert!(!publication.compare(&[]).reproduced(), "nothing measured proves nothing");
    }

    const FIGURES: &str = r#"
        title = "T"
        source = "S"
        case_axis = "detector"
        baseline = "a"
        headline = { burst = "1250000b" }
        rows = [
          { case = "a", metric = "goodput mean", kernel = 210, within_share = 0.05 },
          { case = "b", metric = "goodput mean", kernel = 320, within_share = 0.01, kernel_sd = 10 },
          { case = "b", metric = "goodput gain", published = 50 },
          { case = "b", metric = "later added", from = "total rto", kernel = 2, within = 1.5 },
          { case = "b", at = { burst = "64kb" }, metric = "goodput mean" },
        ]
        expect = [
          { case = "b", metric = "later added", at_least = 3 },
          { case = "b", at = { burst = "64kb" }, metric = "goodput mean", at_least = 1 },
        ]
    "#;

    #[test]
    fn gains_are_over_the_baseline_and_tolerances_are_the_widest() {
        let publication = crate::published::parse("x", FIGURES).unwrap_or_else(|f| panic!("{f}"));
        let done = publication.compare(&[point("a", 200.0, 1.0), point("b", 300.0, 5.0)]);
        let ours: Vec<Option<f64>> = done.rows.iter().map(|one| one.measured).collect();
        assert_eq!(ours[..4], [Some(200.0), Some(300.0), Some(50.0), Some(4.0)]);
        assert_eq!(ours[4], None, "the other burst was not run");
        let agrees: Vec<Option<bool>> = done.rows.iter().map(Compared::agrees).collect();
        assert_eq!(agrees, [Some(true), Some(true), None, Some(false), None]);
        assert_eq!(done.agreement(), (2, 3));
        assert_eq!(
            done.expectations.iter().map(|(_, met)| *met).collect::<Vec<_>>(),
            [true, false]
        );
        let headline = publication.only_headline();
        assert!(headline.compare(&[point("a", 200.0, 1.0), point("b", 300.0, 5.0)]).reproduced());
    }
}
