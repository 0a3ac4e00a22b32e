//! Published experiments: their figures, the kernel's, and ours beside them.
//!
//! `experiments/published/NAME.toml` belongs to `experiments/NAME.toml` and names the point of its
//! sweep that is the headline, the published and the kernel's figures, and what must come out for
//! the result to count as reproduced. All of it was written down before the first run.

mod live;
mod present;

pub use present::draw;

use crate::published::{Bound, Expectation, Publication, Row};
use crate::results::{Metric, PointResult, RunResult};
use crate::stats::{Summary, quantile};
use crate::sweep::Point;

/// A published figure compared with ours.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    /// The figure.
    pub row: Row,
    /// Ours: the mean over the repetitions.
    pub measured: Option<f64>,
    /// Half the width of its 95 % confidence interval.
    pub ci95: Option<f64>,
    /// With real packets by the clock: one for each of [`Comparison::live`].
    pub live: Vec<Option<f64>>,
}

/// How a reproduction ended.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The publication.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The figures, in the order of the publication.
    pub rows: Vec<ComparedFigure>,
    /// What was run live as well: `live` is our stack, `live, kernel` this machine's.
    pub live: Vec<String>,
    /// How late the live loops were, in a sentence each.
    pub lateness: Vec<String>,
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

    /// The same for what `--live` sets: what was published and expected of other rates or amounts is nothing to
    /// compare with. Where the runs are only shorter, that holds for counts: figures without a unit.
    pub fn at_live_scale(&self) -> Self {
        let mut scaled = self.clone();
        if self.live.is_empty() {
            return scaled;
        }
        let only_shorter = self.live.iter().all(|set| set.path == "duration");
        if !only_shorter {
            scaled.expect.clear();
        }
        for row in scaled.rows.iter_mut().filter(|row| !only_shorter || row.unit.is_empty()) {
            (row.published, row.kernel, row.tolerance) = (None, None, None);
        }
        scaled
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
        Comparison {
            name: self.name.clone(),
            title: self.title.clone(),
            rows,
            live: Vec::new(),
            lateness: Vec::new(),
            expectations,
        }
    }

    fn compared(&self, row: &Row, points: &[PointResult]) -> ComparedFigure {
        let from = row.from.as_deref();
        let ours = if row.median {
            let found = self.point(&row.case, &row.at, points);
            let mut values =
                found.map_or(Vec::new(), |own| values(own, from.unwrap_or(&row.metric)));
            quantile(&mut values, 0.5).map(|median| (median, None))
        } else {
            self.measured(&row.case, &row.at, &row.metric, from, points)
        };
        ComparedFigure {
            row: row.clone(),
            measured: ours.map(|(mean, _)| mean),
            ci95: ours.and_then(|(_, ci95)| ci95),
            live: Vec::new(),
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
fn over_baseline(metric: &str) -> Option<(&str, Ratio)> {
    let gain: Ratio = |own, base| (own / base - 1.0) * 100.0;
    let added: Ratio = |own, base| own - base;
    let found = metric.strip_suffix(" gain").map(|words| (words, gain));
    found.or_else(|| metric.strip_suffix(" added").map(|words| (words, added)))
}

/// A figure from ours and the baseline's.
type Ratio = fn(f64, f64) -> f64;

/// The values of `SCOPE METRIC`, or of a metric of the whole experiment, run by run.
fn values(point: &PointResult, words: &str) -> Vec<f64> {
    let scoped = |run: &RunResult| {
        let of_total = |metric: &&Metric| metric.scope == "total" && metric.name == words;
        let metrics = &run.metrics;
        let of_scope = metrics.iter().find(|metric| metric.is_called(words));
        let found = of_scope.or_else(|| metrics.iter().find(of_total));
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
        for ComparedFigure { row, .. } in &self.rows {
            if !points.contains(&(&row.case, &row.at)) {
                points.push((&row.case, &row.at));
            }
        }
        points.len()
    }

    /// Of the figures that a kernel's is known for with a tolerance: how many agree, and all.
    pub fn agreement(&self) -> (usize, usize) {
        let judged: Vec<bool> = self.rows.iter().filter_map(ComparedFigure::agrees).collect();
        (judged.iter().filter(|agrees| **agrees).count(), judged.len())
    }

    /// One word for it.
    pub fn verdict(&self) -> &'static str {
        if self.expectations.is_empty() {
            return "not judged";
        }
        if self.reproduced() { "reproduced" } else { "not reproduced" }
    }
}

impl ComparedFigure {
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
mod tests;
