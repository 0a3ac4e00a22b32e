//! Metrics as they come up.

use datapath::units::Duration;

use crate::results::Metric;

/// Appends a metric.
pub fn push(out: &mut Vec<Metric>, scope: &str, name: &str, unit: &'static str, value: f64) {
    out.push(Metric { scope: scope.into(), name: name.into(), unit, value });
}

/// A span in seconds.
pub fn seconds(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e9
}
