//! Metrics against what a sweep changes: lines with confidence intervals, bars, heat maps.

use crate::plan::quantity;
use crate::plot::{BarChart, Group, HeatMap, Line, LineChart};
use crate::results::PointResult;
use crate::stats::Summary;

use super::over_time::MOST_LINES;

/// A picture of a metric over a sweep.
pub enum MetricPlot {
    /// One axis of numbers.
    Lines(LineChart),
    /// Named cases.
    Bars(BarChart),
}

/// The labels of an axis in their order.
fn steps(points: &[PointResult], axis: usize) -> Vec<&str> {
    let mut steps: Vec<&str> = Vec::new();
    for point in points {
        let label = point.labels[axis].1.as_str();
        if !steps.contains(&label) {
            steps.push(label);
        }
    }
    steps
}

/// The same in the order of their numbers, if all of them are numbers.
fn in_order(steps: Vec<&str>) -> Vec<&str> {
    let Some(numbers) = numbers(&steps) else { return steps };
    let mut both: Vec<(f64, &str)> = numbers.into_iter().zip(steps).collect();
    both.sort_by(|a, b| a.0.total_cmp(&b.0));
    both.into_iter().map(|(_, step)| step).collect()
}

/// Labels as numbers in a common unit, if all of them are.
fn numbers(steps: &[&str]) -> Option<Vec<f64>> {
    let all = |read: &dyn Fn(&str) -> Option<f64>| -> Option<Vec<f64>> {
        steps.iter().map(|step| read(step)).collect()
    };
    all(&|step| step.parse().ok())
        .or_else(|| all(&|step| Some(quantity::time(step).ok()?.as_nanos() as f64)))
        .or_else(|| all(&|step| Some(quantity::rate(step).ok()?.bits_per_sec() as f64)))
        .or_else(|| all(&|step| Some(quantity::size(step).ok()? as f64)))
        .or_else(|| all(&|step| Some(quantity::share(step).ok()? as f64)))
        .filter(|numbers| numbers.iter().all(|number| number.is_finite()))
}

/// The mean of a metric at a point, its interval, and its unit.
fn value(point: &PointResult, metric: &str) -> Option<(Summary, &'static str)> {
    let mut unit = "";
    let mut values = Vec::new();
    for run in &point.runs {
        if let Some(found) = run.metrics.iter().find(|it| it.is_called(metric)) {
            unit = found.unit;
            values.push(found.value);
        }
    }
    Summary::of(&values).map(|summary| (summary, unit))
}

/// A metric and its unit, as an axis says it.
fn label(metric: &str, points: &[PointResult]) -> Option<String> {
    let unit = points.iter().find_map(|point| value(point, metric)).map(|(_, unit)| unit)?;
    Some(if unit.is_empty() { metric.into() } else { format!("{metric} [{unit}]") })
}

/// Over how many runs the values of a metric are.
fn runs(points: &[PointResult], metric: &str) -> String {
    let counts = || points.iter().filter_map(|point| value(point, metric)).map(|(it, _)| it.n);
    match (counts().min(), counts().max()) {
        (Some(1), Some(1)) => "1 run each".into(),
        (Some(least), Some(most)) if least == most => {
            format!("mean and 95 % confidence interval of {most} runs")
        }
        (Some(least), Some(most)) => {
            format!("mean and 95 % confidence interval of {least} to {most} runs")
        }
        _ => String::new(),
    }
}

/// The metric against `axis`, or the first one of three steps or more that are numbers; else as bars.
/// Further axes tell lines apart. Where nothing is swept there is one bar, if `alone` wants it.
pub fn chart(
    title: &str,
    metric: &str,
    axis: Option<&str>,
    points: &[PointResult],
    alone: bool,
) -> Option<MetricPlot> {
    let names: Vec<&str> = points.first()?.labels.iter().map(|(axis, _)| axis.as_str()).collect();
    let y_label = label(metric, points)?;
    let all: Vec<Vec<&str>> = (0..names.len()).map(|axis| steps(points, axis)).collect();
    let suits = |axis: &usize| all[*axis].len() > 2 && numbers(&all[*axis]).is_some();
    let x = match axis {
        Some(axis) => names.iter().position(|name| *name == axis),
        None => (0..names.len()).find(suits),
    };
    let swept = (0..names.len()).find(|axis| all[*axis].len() > 1);
    if swept.is_none() && !alone {
        return None;
    }
    let place = x.or(swept).unwrap_or(0);
    let steps = all.get(place).map_or(vec![""], |steps| in_order(steps.clone()));
    let view = View { metric, points, place, series: Vec::new() };
    let mut series: Vec<String> = Vec::new();
    for name in points.iter().map(|point| view.others(point)) {
        if !series.contains(&name) {
            series.push(name);
        }
    }
    let rest: Vec<&str> =
        names.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, name)| *name).collect();
    let mut subtitle = runs(points, metric);
    if !rest.is_empty() {
        subtitle = format!("{subtitle}; by {}", rest.join(", "));
    }
    if series.len() > MOST_LINES {
        subtitle = format!("{subtitle}; the first {MOST_LINES} of {}", series.len());
        series.truncate(MOST_LINES);
    }
    let view = View { series, ..view };
    let title = format!("{}: {title}", metric.strip_prefix("total ").unwrap_or(metric));
    let places = numbers(&steps).filter(|places| x.is_some() && places.len() > 1);
    Some(match places {
        Some(places) => MetricPlot::Lines(LineChart {
            title,
            subtitle,
            y_label,
            ..view.lines(names[place], &steps, &places)
        }),
        None => MetricPlot::Bars(BarChart { title, subtitle, y_label, ..view.bars(&steps) }),
    })
}

/// A metric of points, seen along one axis of their sweep.
struct View<'a> {
    metric: &'a str,
    points: &'a [PointResult],
    /// Which axis.
    place: usize,
    /// The labels of the other axes.
    series: Vec<String>,
}

impl View<'_> {
    /// The labels of the other axes at a point.
    fn others(&self, point: &PointResult) -> String {
        let rest = point.labels.iter().enumerate().filter(|(at, _)| *at != self.place);
        rest.map(|(_, (_, label))| label.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn at(&self, series: &str, step: &str) -> Option<Summary> {
        let there = |point: &&PointResult| {
            point.labels.get(self.place).is_none_or(|(_, label)| label == step)
                && self.others(point) == series
        };
        let point = self.points.iter().find(there)?;
        value(point, self.metric).map(|(summary, _)| summary)
    }

    /// A group of bars for each step.
    fn bars(&self, steps: &[&str]) -> BarChart {
        let bar = |series: &String, step: &str| {
            self.at(series, step).map(|summary| (summary.mean, summary.ci95))
        };
        let groups = steps.iter().map(|step| Group {
            label: (*step).to_owned(),
            values: self.series.iter().map(|series| bar(series, step)).collect(),
        });
        BarChart { series: self.series.clone(), groups: groups.collect(), ..BarChart::default() }
    }

    /// A line for each of the others over the numbers of the steps. Those that grow by factors have the
    /// same distance from each other.
    fn lines(&self, axis: &str, steps: &[&str], places: &[f64]) -> LineChart {
        let low = places.iter().copied().fold(f64::INFINITY, f64::min);
        let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let by_factors = low > 0.0 && high / low > 30.0;
        let line = |name: &String| {
            let known: Vec<(f64, Summary)> = steps
                .iter()
                .zip(places)
                .filter_map(|(step, number)| Some((*number, self.at(name, step)?)))
                .collect();
            Line {
                label: if name.is_empty() { self.metric.into() } else { name.clone() },
                points: known.iter().map(|(x, summary)| (*x, summary.mean)).collect(),
                intervals: known.iter().map(|(_, summary)| summary.ci95).collect(),
                steps: false,
            }
        };
        let ticks = steps.iter().zip(places);
        LineChart {
            x_label: if by_factors { format!("{axis} (log)") } else { axis.into() },
            by_factors,
            lines: self.series.iter().map(line).collect(),
            ticks: ticks.map(|(step, number)| (*number, (*step).to_owned())).collect(),
            ..LineChart::default()
        }
    }
}

/// The metric over both axes of a sweep of two, each of three steps or more.
pub fn heat_map(title: &str, metric: &str, points: &[PointResult]) -> Option<HeatMap> {
    let [(x_axis, _), (y_axis, _)] = points.first()?.labels.as_slice() else { return None };
    let (columns, rows) = (in_order(steps(points, 0)), in_order(steps(points, 1)));
    if columns.len() < 3 || rows.len() < 3 {
        return None;
    }
    let y_label = label(metric, points)?;
    let at = |column: &str, row: &str| {
        let point = points.iter().find(|it| it.labels[0].1 == column && it.labels[1].1 == row)?;
        value(point, metric).map(|(summary, _)| summary.mean)
    };
    let values = rows.iter().map(|row| columns.iter().map(|column| at(column, row)).collect());
    Some(HeatMap {
        title: format!("{}: {title}", y_label.strip_prefix("total ").unwrap_or(&y_label)),
        subtitle: match points.iter().map(|point| point.runs.len()).max() {
            Some(1) | None => "1 run each".into(),
            Some(runs) => format!("mean of {runs} runs"),
        },
        x_label: x_axis.clone(),
        y_label: y_axis.clone(),
        values: values.collect(),
        columns: columns.into_iter().map(String::from).collect(),
        rows: rows.into_iter().map(String::from).collect(),
        size: [0.0; 2],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Metric, RunResult};

    fn point(labels: &[(&str, &str)], values: &[f64]) -> PointResult {
        let metric = |value: &f64| Metric {
            scope: "total".into(),
            name: "goodput".into(),
            unit: "Mbit/s",
            value: *value,
        };
        let run = |value| RunResult { metrics: vec![metric(value)], ..RunResult::default() };
        PointResult {
            labels: labels.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect(),
            runs: values.iter().map(run).collect(),
        }
    }

    #[test]
    fn steps_are_drawn_in_the_order_of_their_numbers() {
        let places = [("50mbit", 5.0), ("5mbit", 1.0), ("1gbit", 9.0)];
        let sweep = places.map(|(rate, value)| point(&[("rate", rate)], &[value]));
        let Some(MetricPlot::Lines(chart)) = chart("t", "total goodput", None, &sweep, false)
        else {
            panic!("lines")
        };
        assert_eq!(chart.lines[0].points, [(5e6, 1.0), (5e7, 5.0), (1e9, 9.0)]);
        assert!(chart.by_factors, "their data are what they are");
        let svg = crate::plot::svg(&chart.draw());
        for (rate, _) in places {
            assert!(svg.contains(&format!(">{rate}</text>")), "{rate} has no name");
        }
        let names = |value: f64| ["b", "a", "c"].map(|name| (name, value));
        let grid: Vec<PointResult> = places
            .iter()
            .flat_map(|(rate, value)| names(*value).map(|it| (*rate, it)))
            .map(|(rate, (name, value))| point(&[("rate", rate), ("name", name)], &[value]))
            .collect();
        let map = heat_map("t", "total goodput", &grid).unwrap();
        assert_eq!(map.columns, ["5mbit", "50mbit", "1gbit"]);
        assert_eq!(map.rows, ["b", "a", "c"]);
        assert_eq!(map.values[0], [Some(1.0), Some(5.0), Some(9.0)]);
    }

    #[test]
    fn what_one_step_is_left_of_is_seen_along_another_axis_or_alone() {
        let two = ["a", "b"].map(|name| point(&[("rate", "1mbit"), ("name", name)], &[1.0]));
        let one = |labels: &[(&str, &str)], alone| {
            chart("t", "total goodput", None, &[point(labels, &[1.0, 2.0])], alone)
        };
        let groups = |chart: Option<MetricPlot>| match chart {
            Some(MetricPlot::Bars(bars)) => {
                bars.groups.into_iter().map(|group| group.label).collect()
            }
            Some(MetricPlot::Lines(_)) => panic!("no line of one point"),
            None => Vec::new(),
        };
        assert_eq!(groups(chart("t", "total goodput", None, &two, false)), ["a", "b"]);
        assert_eq!(groups(one(&[("rate", "1mbit")], true)), ["1mbit"]);
        assert_eq!(groups(one(&[], true)), [""]);
        assert_eq!(groups(one(&[], false)), [""; 0]);
    }

    #[test]
    fn numbers_make_lines_and_names_make_bars() {
        let mut points = Vec::new();
        for (cc, plus) in [("reno", 0.0), ("cubic", 1.0)] {
            for (rate, value) in [("1mbit", 1.0), ("10mbit", 9.0), ("1gbit", 500.0)] {
                let values = [value + plus, value + plus + 1.0];
                points.push(point(&[("cc", cc), ("rate", rate)], &values));
            }
        }
        let Some(MetricPlot::Lines(chart)) = chart("t", "total goodput", None, &points, false)
        else {
            panic!("lines")
        };
        assert_eq!(chart.lines.len(), 2);
        assert_eq!(chart.lines[1].label, "cubic");
        assert_eq!(chart.lines[0].points[1], (1e7, 9.5));
        assert!(chart.lines[0].intervals[0].is_some());
        assert_eq!(chart.ticks[2], (1e9, "1gbit".into()));
        assert_eq!(chart.x_label, "rate (log)");
        let bars = super::chart("t", "total goodput", Some("cc"), &points, false);
        assert!(matches!(bars, Some(MetricPlot::Bars(bars)) if bars.groups.len() == 2));
        assert!(super::chart("t", "total godput", None, &points, false).is_none());
        assert!(heat_map("t", "total goodput", &points).is_none(), "two steps are no map");
    }
}
