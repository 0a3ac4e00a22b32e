//! Figures of real packets beside the simulated ones.

use super::{ComparedFigure, Comparison};
use crate::results::PointResult;
use crate::stats::quantile;

/// A live figure is near a simulated one within this share of it.
const SHARE: f64 = 0.1;
/// A latency also within so many ms, where it is more than [`SHORT_MS`].
const LATENCY_MS: f64 = 3.0;
/// Round trips below that are those of this machine's wake-ups.
const SHORT_MS: f64 = 10.0;

impl Comparison {
    /// Adds a column: the same publication compared with what came out live.
    pub fn add_live(&mut self, what: &str, live: &Comparison, points: &[PointResult]) {
        for (one, other) in self.rows.iter_mut().zip(&live.rows) {
            one.live.push(other.measured);
        }
        self.live.push(what.into());
        self.lateness.push(format!("{what}: {}", lateness(points)));
    }

    /// Of the live figures that are compared with a simulated one: how many are near, and all.
    pub fn nearness(&self) -> (usize, usize) {
        let all = self.rows.iter().flat_map(|one| (0..one.live.len()).map(|at| one.is_near(at)));
        let judged: Vec<bool> = all.flatten().collect();
        (judged.iter().filter(|near| **near).count(), judged.len())
    }
}

impl ComparedFigure {
    /// Whether live figure number `at` is near the simulated one; `None` where one is missing, or where
    /// it is a latency that this machine's wake-ups decide.
    pub fn is_near(&self, at: usize) -> Option<bool> {
        let (live, ours) = ((*self.live.get(at)?)?, self.measured?);
        let off = (live - ours).abs();
        if self.row.unit == "ms" {
            let added = self.row.metric.ends_with(" added");
            return (added || ours > SHORT_MS).then_some(off <= LATENCY_MS);
        }
        Some(off <= SHARE * ours.abs())
    }
}

/// How late the loop of live runs was: the median over the runs, and the worst.
fn lateness(points: &[PointResult]) -> String {
    let of = |name: &str| -> Vec<f64> {
        let metrics = points.iter().flat_map(|point| &point.runs).flat_map(|run| &run.metrics);
        let found = metrics.filter(|one| one.scope == "live" && one.name == name);
        found.map(|one| one.value / 1e3).collect()
    };
    let median = |name| quantile(&mut of(name), 0.5).unwrap_or(0.0);
    let worst = of("late max").into_iter().fold(0.0, f64::max);
    format!(
        "the loop woke up late by {:.2} ms (median), {:.2} ms (99 %), {worst:.1} ms (worst)",
        median("late p50"),
        median("late p99"),
    )
}
