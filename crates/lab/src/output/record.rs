//! What is kept of a finished run, so that a sweep that was interrupted goes on where it stopped.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use serde_json::{Value as Json, json};

use crate::input;
use crate::plan::Plan;
use crate::plan::plots::DISTRIBUTIONS;
use crate::results::{Distribution, Metric, RunResult, TcState};
use crate::store::Store;
use crate::trace::TraceOutputs;

/// The name of the record of a run.
pub fn name(run: &str) -> String {
    format!("runs/{run}.json")
}

/// A number for all of a plan that decides what comes out, and for what is recorded besides: runs of equal
/// identity leave equal files.
pub fn identity(plan: &Plan, seen: &TraceOutputs) -> String {
    let mut plan = plan.clone();
    // What is shown, and how often it is run, changes no run.
    plan.title.clear();
    plan.measure.table.clear();
    plan.repetitions = 0;
    plan.plots.clear();
    let mut hash = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    write!(hash, "{plan:?}").expect("a hash takes everything");
    let TraceOutputs { view, explain, pcap, .. } = seen;
    if *view || !explain.is_empty() {
        write!(hash, "{view} {explain:?}").expect("a hash takes everything");
    }
    if !pcap.is_empty() {
        write!(hash, "pcap {pcap:?}").expect("a hash takes everything");
    }
    format!("{:032x}", hash.0)
}

/// FNV-1a of 128 bits.
struct Fnv(u128);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
        }
        Ok(())
    }
}

/// The record of a run whose files have been written to the store; of the `first` of a point there are more.
pub fn of(store: &Store, run: &RunResult, first: bool) -> Json {
    let lengths: Vec<Option<u64>> = run.files.iter().map(|file| length(store, file)).collect();
    let metrics: Vec<Json> = run
        .metrics
        .iter()
        .map(|metric| json!([metric.scope, metric.name, metric.unit, metric.value]))
        .collect();
    let distributions: Vec<Json> =
        run.distributions.iter().map(|it| json!([it.what, it.scope, it.quantiles])).collect();
    let tc: Vec<Json> = run
        .tc
        .iter()
        .map(|tc| json!({"port": tc.port, "text": tc.text, "classes": tc.classes, "json": tc.json}))
        .collect();
    json!({
        "schema": 1,
        "plan": run.identity,
        "name": run.name,
        "seed": run.seed,
        "first": first,
        "fingerprint": format!("{:016x}", run.fingerprint),
        "virtual_time_ns": run.virtual_ns,
        "drawn": run.drawn,
        "files": run.files,
        "file_bytes": lengths,
        "series": run.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(),
        "metrics": metrics,
        "distributions": distributions,
        "tc": tc,
    })
}

/// The record called `run` in the store, if it is whole and all its files are there, as long as they were:
/// a machine that has lost its power may keep a name and lose what was in the file.
pub fn read(store: &Store, run: &str) -> Option<Json> {
    let text = input::read_result(&store.root().join(name(run))).ok()?;
    let record: Json = serde_json::from_str(&text).ok()?;
    let mut names = record["files"].as_array()?.iter();
    let mut lengths = record["file_bytes"].as_array()?.iter();
    let is_whole = |file: &Json| {
        let known = file.as_str().and_then(|file| length(store, file));
        known.is_some() && known == lengths.next().and_then(Json::as_u64)
    };
    (record["schema"] == 1 && names.all(is_whole)).then_some(record)
}

/// How long a file of the store is, if it is one.
fn length(store: &Store, file: &str) -> Option<u64> {
    let known = std::fs::metadata(store.root().join(file)).ok()?;
    known.is_file().then_some(known.len())
}

/// The files of a run.
pub fn files(record: &Json) -> BTreeSet<String> {
    let names = record["files"].as_array().into_iter().flatten();
    names.filter_map(Json::as_str).map(String::from).collect()
}

/// The run of a record; its series come back too if plots need them.
pub fn to_run(store: &Store, record: &Json, with_series: bool) -> Option<RunResult> {
    let text = |value: &Json| value.as_str().map(String::from);
    let name = text(&record["name"])?;
    let metric = |row: &Json| {
        Some(Metric {
            scope: text(&row[0])?,
            name: text(&row[1])?,
            unit: unit(row[2].as_str()?)?,
            // What is not finite has no form of its own in JSON.
            value: row[3].as_f64().unwrap_or(f64::NAN),
        })
    };
    let tc = |port: &Json| {
        Some(TcState {
            port: text(&port["port"])?,
            text: text(&port["text"])?,
            classes: text(&port["classes"])?,
            json: port["json"].clone(),
        })
    };
    let distribution = |of: &Json| {
        Some(Distribution {
            what: DISTRIBUTIONS.into_iter().find(|what| of[0] == *what)?,
            scope: text(&of[1])?,
            quantiles: all(&of[2], Json::as_f64)?,
        })
    };
    let drawn = |pair: &Json| Some((text(&pair[0])?, text(&pair[1])?));
    let series = |of: &Json| {
        let of = of.as_str()?;
        store.read_series(&series_file(&name, of), of)
    };
    let series = if with_series { all(&record["series"], series)? } else { Vec::new() };
    Some(RunResult {
        seed: record["seed"].as_u64()?,
        identity: text(&record["plan"])?,
        drawn: all(&record["drawn"], drawn)?,
        metrics: all(&record["metrics"], metric)?,
        series,
        distributions: all(&record["distributions"], distribution)?,
        files: files(record).into_iter().collect(),
        tc: all(&record["tc"], tc)?,
        fingerprint: u64::from_str_radix(record["fingerprint"].as_str()?, 16).ok()?,
        virtual_ns: record["virtual_time_ns"].as_u64()?,
        name,
        ..RunResult::default()
    })
}

/// Where a series of a run lies.
pub fn series_file(run: &str, series: &str) -> String {
    format!("series/{run}/{series}.parquet")
}

fn all<T>(list: &Json, each: impl Fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    list.as_array()?.iter().map(each).collect()
}

/// The units of metrics.
fn unit(text: &str) -> Option<&'static str> {
    const UNITS: [&str; 7] = ["", "Mbit/s", "ms", "s", "%", "packets", "segments"];
    UNITS.into_iter().find(|unit| *unit == text)
}
