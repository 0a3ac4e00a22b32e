//! A comparison as tables, JSON and plots.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::{ComparedFigure, Comparison};
use crate::output::Output;
use crate::plan::plots::BINS;
use crate::plot::{BarChart, Group, Line, LineChart};
use crate::published::Publication;
use crate::report::{Table, interval, number};
use crate::results::PointResult;
use crate::stems::metric_stem;
use crate::store;
use crate::sweep::Point;

impl Comparison {
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
        let mut head =
            ["case", "mean of", "published", "kernel", "ours", "ratio"].map(String::from).to_vec();
        head.extend(self.live.iter().cloned());
        let mut numeric = vec![false, false, true, true, true, true];
        numeric.resize(head.len(), true);
        let maybe = |value: Option<f64>| value.map_or("-".into(), number);
        let cells = |one: &ComparedFigure| {
            let words = one.row.metric.strip_suffix(" mean").unwrap_or(&one.row.metric);
            let unit = if one.row.unit.is_empty() { "" } else { " " };
            let ratio = one.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let mark = if one.agrees() == Some(false) { " !" } else { "" };
            let mut cells = vec![
                one.row.case.clone(),
                format!("{words}{unit}{}", one.row.unit),
                maybe(one.row.published),
                maybe(one.row.kernel),
                one.shown(),
                format!("{ratio}{mark}"),
            ];
            cells.extend(one.live.iter().enumerate().map(|(at, live)| {
                let mark = if one.is_near(at) == Some(false) { " !" } else { "" };
                format!("{}{mark}", maybe(*live))
            }));
            cells
        };
        Table {
            head,
            rows: self.rows.iter().filter(|one| one.row.at == at).map(cells).collect(),
            numeric,
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
                let live: Map<String, Json> = self
                    .live
                    .iter()
                    .zip(&one.live)
                    .enumerate()
                    .map(|(at, (what, value))| {
                        (what.clone(), json!({ "measured": value, "near": one.is_near(at) }))
                    })
                    .collect();
                let mut row = json!({
                    "case": one.row.case, "at": at, "metric": one.row.metric,
                    "published": one.row.published, "kernel": one.row.kernel,
                    "measured": one.measured, "ci95": one.ci95, "unit": one.row.unit,
                    "agrees": one.agrees(),
                });
                if !live.is_empty() {
                    row["live"] = live.into();
                }
                row
            })
            .collect();
        let expectations: Vec<Json> = self
            .expectations
            .iter()
            .map(|(text, met)| json!({ "expectation": text, "met": met }))
            .collect();
        let (agree, judged) = self.agreement();
        let mut all = json!({
            "schema": 1, "name": self.name, "rows": rows,
            "expectations": expectations, "verdict": self.verdict(),
            "kernel": { "agree": agree, "judged": judged },
        });
        if !self.live.is_empty() {
            let (near, judged) = self.nearness();
            all["live"] = json!({ "near": near, "judged": judged, "lateness": self.lateness });
        }
        all
    }

    /// A bar chart of one metric at the headline, case by case.
    pub fn chart(&self, metric: &str, y_label: &str, subtitle: &str) -> BarChart {
        let rows: Vec<&ComparedFigure> = self
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
            stacked: false,
            series,
            groups,
            size: [0.0; 2],
        }
    }
}

impl ComparedFigure {
    /// Ours with its interval.
    fn shown(&self) -> String {
        match (self.measured, self.ci95) {
            (Some(mean), Some(ci)) => format!("{} ± {}", number(mean), interval(ci)),
            (Some(mean), None) => number(mean),
            (None, _) => "-".into(),
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
        let name = format!("compare-{}", metric_stem(metric));
        pictures.push(output.chart(&name, &chart.into(), &[])?);
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
                ..LineChart::default()
            };
            pictures.push(output.chart(file, &chart.into(), &[])?);
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
            publication.is_headline(&Point { labels: point.labels.clone(), ..Point::default() })
        })
        .filter_map(|point| {
            let case = point.labels.iter().find(|(axis, _)| *axis == publication.case_axis)?;
            let series = point.runs.first()?.series.iter().find(|s| s.name.starts_with("flow-"))?;
            let bins = if steps { usize::MAX } else { BINS };
            crate::output::line(series, &case.1, column, divisor, steps, bins)
        })
        .collect()
}
