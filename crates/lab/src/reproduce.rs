//! Published experiments: their figures, the kernel's, and ours beside them.
//!
//! An entry of `experiments/published.toml` names an experiment file, the point of its sweep that
//! is the headline, the published and the kernel's figures, and what must come out for the
//! result to count as reproduced. All of it was written down before the first run.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::output::Output;
use crate::plot::{BarChart, Group, Line, LineChart};
use crate::published::{Bound, Expectation, Publication, Row};
use crate::report::{Table, interval, number};
use crate::results::PointResult;
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
    /// The figures of the headline point.
    pub rows: Vec<Compared>,
    /// Every expectation as a sentence, and whether it is met.
    pub expectations: Vec<(String, bool)>,
}

impl Publication {
    /// True for the points of the headline.
    pub fn is_headline(&self, point: &Point) -> bool {
        let is = |axis: &String, label: &String| {
            point.labels.iter().any(|(name, value)| name == axis && value == label)
        };
        self.headline.iter().all(|(axis, label)| is(axis, label))
    }

    /// Sets ours beside the published figures, and judges the expectations.
    pub fn compare(&self, points: &[PointResult]) -> Comparison {
        let rows: Vec<Compared> = self.rows.iter().map(|row| self.compared(row, points)).collect();
        let measured = |case: &str, metric: &str| {
            let found = rows.iter().find(|one| one.row.case == case && one.row.metric == metric);
            found.and_then(|one| one.measured)
        };
        let expectations = self
            .expect
            .iter()
            .map(|one| {
                let value = measured(&one.case, &one.metric);
                let base = match &one.of {
                    Some(other) => measured(other, &one.metric),
                    None => Some(1.0),
                };
                (one.sentence(), one.is_met(value, base))
            })
            .collect();
        Comparison { name: self.name.clone(), title: self.title.clone(), rows, expectations }
    }

    fn compared(&self, row: &Row, points: &[PointResult]) -> Compared {
        let point = points.iter().find(|point| {
            let of = Point { labels: point.labels.clone(), settings: Vec::new() };
            let case = point
                .labels
                .iter()
                .any(|(axis, label)| *axis == self.case_axis && *label == row.case);
            case && self.is_headline(&of)
        });
        let metric = row.metric.strip_suffix(" mean").unwrap_or(&row.metric);
        let values = point.map(|point| point.values("total", metric)).unwrap_or_default();
        let summary = crate::stats::Summary::of(&values);
        Compared {
            row: row.clone(),
            measured: summary.map(|summary| summary.mean),
            ci95: summary.and_then(|summary| summary.ci95),
        }
    }
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
        match &self.of {
            Some(other) => {
                format!("{} of {}: {word} {factor} times that of {other}", self.metric, self.case)
            }
            None => format!("{} of {}: {word} {factor}", self.metric, self.case),
        }
    }
}

impl Comparison {
    /// True if every expectation is met.
    pub fn reproduced(&self) -> bool {
        self.expectations.iter().all(|(_, met)| *met)
    }

    /// How many cases there are.
    pub fn cases(&self) -> usize {
        let mut cases: Vec<&str> = self.rows.iter().map(|one| one.row.case.as_str()).collect();
        cases.dedup();
        cases.len()
    }

    /// One word for it.
    pub fn verdict(&self) -> &'static str {
        if self.reproduced() { "reproduced" } else { "not reproduced" }
    }

    /// The figures as a table: published, kernel, ours, ratio of ours to the published or, where
    /// nothing was published, to the kernel's.
    pub fn table(&self) -> Table {
        let head = ["case", "metric", "published", "kernel", "measured", "ratio", "unit"];
        let maybe = |value: Option<f64>| value.map_or("-".into(), number);
        let rows = self
            .rows
            .iter()
            .map(|one| {
                vec![
                    one.row.case.clone(),
                    one.row.metric.clone(),
                    maybe(one.row.published),
                    maybe(one.row.kernel),
                    one.shown(),
                    one.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}")),
                    one.row.unit.clone(),
                ]
            })
            .collect();
        Table {
            head: head.map(String::from).to_vec(),
            rows,
            numeric: vec![false, false, true, true, true, true, false],
        }
    }

    /// The comparison as JSON.
    pub fn to_json(&self) -> Json {
        let rows: Vec<Json> = self
            .rows
            .iter()
            .map(|one| {
                json!({
                    "case": one.row.case, "metric": one.row.metric,
                    "published": one.row.published, "kernel": one.row.kernel,
                    "measured": one.measured, "ci95": one.ci95, "unit": one.row.unit,
                })
            })
            .collect();
        let expectations: Vec<Json> = self
            .expectations
            .iter()
            .map(|(text, met)| json!({ "expectation": text, "met": met }))
            .collect();
        json!({
            "schema": 1, "name": self.name, "rows": rows,
            "expectations": expectations, "verdict": self.verdict(),
        })
    }

    /// A bar chart of one metric, case by case.
    pub fn chart(&self, metric: &str, y_label: &str, subtitle: &str) -> BarChart {
        let rows: Vec<&Compared> =
            self.rows.iter().filter(|one| one.row.metric == metric).collect();
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
        let _ = write!(subtitle, "; means of {runs} runs, whiskers: 95 % confidence");
    }
    let mut metrics: Vec<(&str, &str)> = Vec::new();
    for row in &publication.rows {
        if !metrics.iter().any(|(metric, _)| *metric == row.metric) {
            metrics.push((&row.metric, &row.unit));
        }
    }
    let mut pictures = Vec::new();
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
    use crate::results::{Metric, RunResult};

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
            for row in &publication.rows {
                let is_case = |point: &&&Point| {
                    let wanted = (publication.case_axis.clone(), row.case.clone());
                    point.labels.contains(&wanted)
                };
                assert_eq!(headline.iter().filter(is_case).count(), 1, "{}", row.case);
            }
        }
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
        let publication = &publications().unwrap()[0];
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
}
