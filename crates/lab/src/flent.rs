//! Results for flent: its data file (`.flent.gz`, version 4), with the series of its own tests.
//!
//! The format is JSON: `x_values` are times in steps of 0.2 s, `results` one list of values for each
//! series (null where there is none), `raw_values` every single value with its time, `metadata` what
//! the test was (<https://flent.org/data-format.html>).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json, json};

pub use crate::plan::flent::series_names;
use crate::plan::{FlentTest, Plan};
use crate::results::Series;

/// Seconds between the values of a series: flent's default.
const STEP: f64 = 0.2;
/// The moment at which every run begins, as flent wants one: 1 January 2000.
const EPOCH: f64 = 946_684_800.0;
const EPOCH_TEXT: &str = "2000-01-01T00:00:00.000000Z";

/// The data file of one run, compressed. `title` says which point of which experiment it is.
///
/// # Panics
/// Never for a plan whose names [`series_names`] gives, as every checked plan's are.
pub fn data_file(test: FlentTest, plan: &Plan, title: &str, series: &[Series]) -> Vec<u8> {
    let names = series_names(test, &plan.flows).expect("the plan was checked");
    let total = plan.duration.as_nanos() as f64 / 1e9;
    let steps = (total / STEP).round() as usize;
    let mut lines: Vec<Values> = Vec::new();
    for (flow, name) in plan.flows.iter().zip(names) {
        let Some(name) = name else { continue };
        let found = |prefix: &str| {
            let wanted = format!("{prefix}-{}", flow.name);
            series.iter().find(|series| series.name == wanted)
        };
        let start = flow.start.as_nanos() as f64 / 1e9;
        let stop = flow.stop.map_or(total, |stop| stop.as_nanos() as f64 / 1e9);
        let samples = if flow.app.is_tcp() {
            let all =
                found("flow").map_or(Vec::new(), |s| samples(s, "throughput_bits_per_sec", 1e6));
            all.into_iter().filter(|(time, _)| *time > start && *time <= stop).collect()
        } else {
            found("latency").map_or(Vec::new(), |series| samples(series, "round_trip_us", 1e3))
        };
        lines.push(Values::of(
            name,
            if flow.app.is_tcp() { "Mbits/s" } else { "ms" },
            samples,
            steps,
        ));
    }
    let mut results = Map::new();
    let mut meta = Map::new();
    let mut raw = Map::new();
    for line in &lines {
        results.insert(line.name.clone(), json!(line.stepped));
        meta.insert(line.name.clone(), line.meta());
        raw.insert(line.name.clone(), line.raw());
    }
    for (name, values) in sums(test, &lines, steps) {
        results.insert(name, json!(values));
    }
    let flows = plan.flows.iter().filter(|flow| flow.app.is_tcp());
    let first = flows.map(|flow| flow.start.as_nanos()).min().unwrap_or(0) as f64 / 1e9;
    let mut parameters = Map::new();
    if test == FlentTest::TcpNup {
        let uploads = lines.iter().filter(|line| line.name.starts_with("TCP upload")).count();
        parameters.insert("upload_streams".into(), json!(uploads.to_string()));
    }
    let file = json!({
        "version": 4,
        "metadata": {
            "NAME": test.name(), "TITLE": title, "TIME": EPOCH_TEXT, "T0": EPOCH_TEXT,
            "LENGTH": (total - 2.0 * first).max(0.0).round(), "TOTAL_LENGTH": total.round(),
            "STEP_SIZE": STEP, "IP_VERSION": 4, "HOST": "simulated", "HOSTS": ["simulated"],
            "LOCAL_HOST": "ackwright", "NOTE": format!("seed {}", plan.seed),
            "FLENT_VERSION": "2.1.1", "BATCH_NAME": null, "BATCH_UUID": null, "BATCH_TIME": null,
            "BATCH_TITLE": null, "DATA_FILENAME": null, "TEST_PARAMETERS": parameters,
            "SERIES_META": meta, "REMOTE_METADATA": {}, "KERNEL_NAME": null, "KERNEL_RELEASE": null,
            "SYSCTLS": {}, "EGRESS_INFO": null, "FAILED_RUNNERS": 0,
        },
        "x_values": (0..=steps).map(|step| step as f64 * STEP).collect::<Vec<_>>(),
        "results": results,
        "raw_values": raw,
    });
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(file.to_string().as_bytes()).expect("memory takes all");
    gzip.finish().expect("memory takes all")
}

/// One series.
struct Values {
    name: String,
    unit: &'static str,
    /// (seconds, value).
    samples: Vec<(f64, f64)>,
    /// The mean of the samples in the step before each x value.
    stepped: Vec<Option<f64>>,
}

impl Values {
    fn of(name: String, unit: &'static str, samples: Vec<(f64, f64)>, steps: usize) -> Self {
        let mut sums = vec![(0.0, 0u32); steps + 1];
        for (time, value) in &samples {
            let step = ((time / STEP).ceil() as usize).min(steps);
            sums[step].0 += value;
            sums[step].1 += 1;
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let stepped = sums.into_iter().map(mean).collect();
        Self { name, unit, samples, stepped }
    }

    fn meta(&self) -> Json {
        let values = || self.samples.iter().map(|(_, value)| *value);
        let count = values().count();
        if count == 0 {
            return json!({ "UNITS": self.unit });
        }
        json!({
            "UNITS": self.unit,
            "MEAN_VALUE": values().sum::<f64>() / count as f64,
            "MIN_VALUE": values().fold(f64::INFINITY, f64::min),
            "MAX_VALUE": values().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    fn raw(&self) -> Json {
        let value = |(time, value): &(f64, f64)| json!({ "t": EPOCH + time, "val": value });
        self.samples.iter().map(value).collect()
    }
}

fn samples(series: &Series, column: &str, divisor: f64) -> Vec<(f64, f64)> {
    let Some(column) = series.column(column) else { return Vec::new() };
    let known = series.time_ns.iter().zip(column.values.iter());
    known.filter_map(|(time, value)| Some((*time as f64 / 1e9, value? as f64 / divisor))).collect()
}

/// The series that flent's tests compute from others: means and sums.
fn sums(test: FlentTest, lines: &[Values], steps: usize) -> Vec<(String, Vec<Option<f64>>)> {
    let over = |prefix: &str, mean: bool| -> Vec<Option<f64>> {
        (0..=steps)
            .map(|step| {
                let members = lines.iter().filter(|line| line.name.starts_with(prefix));
                let values: Vec<f64> = members.filter_map(|line| line.stepped[step]).collect();
                let sum: f64 = values.iter().sum();
                let divisor = if mean { values.len() as f64 } else { 1.0 };
                (!values.is_empty()).then(|| sum / divisor)
            })
            .collect()
    };
    let mut made = vec![
        ("TCP upload avg".to_owned(), over("TCP upload", true)),
        ("TCP upload sum".to_owned(), over("TCP upload", false)),
    ];
    if test != FlentTest::TcpNup {
        made.extend([
            ("TCP download avg".to_owned(), over("TCP download", true)),
            ("TCP download sum".to_owned(), over("TCP download", false)),
            ("TCP totals".to_owned(), over("TCP ", false)),
            ("Ping (ms) avg".to_owned(), over("Ping", true)),
        ]);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_means_of_the_step_before() {
        let samples = vec![(0.1, 2.0), (0.2, 4.0), (0.25, 10.0), (0.7, 1.0)];
        let line = Values::of("x".into(), "ms", samples, 4);
        assert_eq!(line.stepped, [None, Some(3.0), Some(10.0), None, Some(1.0)]);
        assert_eq!(line.meta()["MEAN_VALUE"], 4.25);
    }
}
