//! What `reproduce multipath` measures besides its experiment: disruption, balance, cost.

pub mod cost;
mod spread;

use crate::results::{Metric, PointResult, RunResult};

/// A case and its figures: name, unit, value.
pub type Case = (String, Vec<(&'static str, &'static str, f64)>);

/// Every case, as points of the axis `case`.
pub fn points() -> Vec<PointResult> {
    let mut cases = spread::cases();
    cases.extend(cost::cases());
    cases.into_iter().map(point).collect()
}

fn point((case, figures): Case) -> PointResult {
    let metric = |(name, unit, value): (&str, &'static str, f64)| Metric {
        scope: "total".into(),
        name: name.into(),
        unit,
        value,
    };
    let run =
        RunResult { metrics: figures.into_iter().map(metric).collect(), ..RunResult::default() };
    PointResult { labels: vec![("case".into(), case)], runs: vec![run] }
}
