//! What runs leave behind: metrics, time series, captures; and their summary over repetitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datapath::units::Instant;
use iproute::ss::SocketView;
use serde_json::{Map, Value as Json, json};

pub use crate::samples::Samples;
use crate::stats::Summary;

/// One number that a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What it belongs to: a flow's name, a port's name, or `total`.
    pub scope: String,
    /// Plain words: `goodput`, `rto`, `latency median`.
    pub name: String,
    /// Unit as it is written behind the number, e.g. `Mbit/s`; empty for counts.
    pub unit: &'static str,
    /// The number.
    pub value: f64,
}

impl Metric {
    /// What files and tables call it: `SCOPE METRIC`, as in `total goodput`.
    pub fn full_name(&self) -> String {
        full_name(&self.scope, &self.name)
    }

    /// Whether that is its name.
    pub fn is_called(&self, full_name: &str) -> bool {
        let name = full_name.strip_prefix(self.scope.as_str());
        name.and_then(|name| name.strip_prefix(' ')) == Some(self.name.as_str())
    }
}

fn full_name(scope: &str, name: &str) -> String {
    format!("{scope} {name}")
}

/// One column of a time series: whole numbers, absent where nothing was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name with its unit, e.g. `srtt_us`.
    pub name: String,
    /// One value per sample.
    pub values: Samples,
}

/// The samples of one flow or one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// `flow-NAME` or `port-NAME`.
    pub name: String,
    /// Sample times in ns of virtual time.
    pub time_ns: Arc<[i64]>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// The TCP connections of one host at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketDump {
    /// When.
    pub at: Instant,
    /// The host's name.
    pub node: String,
    /// Its connections, in the order of their numbers.
    pub sockets: Vec<SocketView>,
}

/// The text that `--explain` gives for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowExplanation {
    /// The flow.
    pub flow: String,
    /// What happened, line by line.
    pub story: String,
    /// Why it was not faster.
    pub why: String,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStatus {
    /// All of its bytes have arrived.
    Finished,
    /// The run ended before.
    Unfinished,
    /// It was reset, or could not begin.
    Failed,
    /// It has no end of its own, and the run ended.
    Open,
}

impl FlowStatus {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Unfinished => "unfinished",
            Self::Failed => "failed",
            Self::Open => "open",
        }
    }
}

/// One of `[flows]`, or one flow of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Its name, or that of its workload.
    pub name: String,
    /// In its workload, from 1 on; of `[flows]`, none.
    pub number: Option<u64>,
    /// Of an incast: the request that it is a part of the answer to, from 1 on in its workload.
    pub request: Option<u64>,
    /// What it does, in the word of the file.
    pub app: &'static str,
    /// The node that sent.
    pub from: usize,
    /// The node that received.
    pub to: usize,
    /// Bytes that it is to transfer, if that is said.
    pub bytes: Option<u64>,
    /// Bytes that have arrived.
    pub received: u64,
    /// When it began: its SYN; of an answer over a connection that stood, when it was asked for.
    pub start_ns: u64,
    /// When the last byte had arrived, if it is finished.
    pub end_ns: Option<u64>,
    /// How long it would have taken at least in the empty network, if it only transfers its bytes.
    pub ideal_ns: Option<u64>,
    /// Segments retransmitted, over TCP; of `[flows]` as the last sample saw it.
    pub retransmits: Option<u32>,
    /// Expiries of the retransmission timer, likewise.
    pub rtos: Option<u32>,
    /// The nodes on its way, by the routes at the end of the run.
    pub path: Vec<u32>,
    /// What became of it.
    pub status: FlowStatus,
}

impl FlowRecord {
    /// `NAME`, or `WORKLOAD-NUMBER`.
    pub fn label(&self) -> String {
        self.number.map_or_else(|| self.name.clone(), |number| format!("{}-{number}", self.name))
    }

    /// How long it took.
    pub fn fct_ns(&self) -> Option<u64> {
        self.end_ns.map(|end| end - self.start_ns)
    }

    /// How many times as long as in the empty network.
    pub fn slowdown(&self) -> Option<f64> {
        let (fct, ideal) = self.fct_ns().zip(self.ideal_ns)?;
        Some(fct as f64 / ideal.max(1) as f64)
    }
}

/// How something is distributed.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// What: `fct`, `slowdown`, `latency`, `queue-delay`, `queue-length`.
    pub what: &'static str,
    /// Of which flow, group, workload or port.
    pub scope: String,
    /// The smallest value, and what ever larger shares are not above, the whole last; in ms, factors, or
    /// packets.
    pub quantiles: Vec<f64>,
}

impl Distribution {
    /// Parts that quantiles cut the whole into.
    pub const PARTS: usize = 200;

    /// Of these values; none if there are none.
    pub fn of(what: &'static str, scope: &str, values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |part: usize| {
            values[(part * values.len()).div_ceil(Self::PARTS).clamp(1, last + 1) - 1]
        };
        let quantiles = (0..=Self::PARTS).map(at).collect();
        Some(Self { what, scope: scope.into(), quantiles })
    }
}

/// Everything that one repetition gave.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// What its files are called.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// A number for its plan: what has the same is the same run. Empty where nothing is stored.
    pub identity: String,
    /// What it has written below the directory of results.
    pub files: Vec<String>,
    /// The values that it drew: (path, value).
    pub drawn: Vec<(String, String)>,
    /// Its numbers, always in the same order for the same plan.
    pub metrics: Vec<Metric>,
    /// Its samples.
    pub series: Vec<Series>,
    /// How completion times, latencies and queue delays are distributed.
    pub distributions: Vec<Distribution>,
    /// Its flows, those of `[flows]` first; taken away when they are stored.
    pub flows: Vec<FlowRecord>,
    /// What the nodes of the flows are called.
    pub nodes: Vec<String>,
    /// What `tc` shows at the end of each watched port that has a qdisc.
    pub tc: Vec<TcState>,
    /// The data file for flent, if the plan asks for one; taken away when it is stored.
    pub flent: Option<Vec<u8>>,
    /// Fingerprint of every packet that was sent.
    pub fingerprint: u64,
    /// How far virtual time went, in ns.
    pub virtual_ns: u64,
    /// What `ss` showed when it was asked for.
    pub sockets: Vec<SocketDump>,
    /// The stories of the flows that were to be explained.
    pub explained: Vec<FlowExplanation>,
}

/// What `tc` shows of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TcState {
    /// `NODE.LINK`.
    pub port: String,
    /// `tc -s qdisc show`.
    pub text: String,
    /// `tc -s class show`; empty where there are no classes.
    pub classes: String,
    /// The array of `tc -s -j qdisc show`.
    pub json: Json,
}

/// All repetitions of one point of a sweep.
#[derive(Clone, Debug, Default)]
pub struct PointResult {
    /// (axis, label).
    pub labels: Vec<(String, String)>,
    /// The repetitions in the order of their seeds.
    pub runs: Vec<RunResult>,
}

/// One metric over all repetitions of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSummary {
    /// As in [`Metric`].
    pub scope: String,
    /// As in [`Metric`].
    pub name: String,
    /// As in [`Metric`].
    pub unit: &'static str,
    /// Mean, interval, extremes.
    pub summary: Summary,
}

impl MetricSummary {
    /// As of [`Metric::full_name`].
    pub fn full_name(&self) -> String {
        full_name(&self.scope, &self.name)
    }
}

impl Series {
    /// The samples from a flow's first to its last: before and behind them nothing arrives and nothing is on the
    /// way. All samples of what is no flow.
    pub fn life(&self) -> std::ops::Range<usize> {
        const SIGNS: [&str; 2] = ["throughput_bits_per_sec", "unacked_segments"];
        // Where neither was sampled, nothing says when it ended.
        let is_told = SIGNS.iter().any(|name| self.column(name).is_some());
        if !self.name.starts_with("flow-") || !is_told {
            return 0..self.time_ns.len();
        }
        let is_busy = |value: Option<i64>| value.is_some_and(|value| value > 0);
        let busy = |name: &str| {
            let values = &self.column(name)?.values;
            Some((values.iter().position(is_busy)?, values.iter().rposition(is_busy)?))
        };
        let both = SIGNS.map(busy);
        let first = both.iter().flatten().map(|it| it.0).min();
        let last = both.iter().flatten().map(|it| it.1).max();
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// Every metric over the runs that have it, in the order of the first run.
pub(crate) fn summaries_of<'a>(runs: impl Iterator<Item = &'a [Metric]>) -> Vec<MetricSummary> {
    let mut places = BTreeMap::new();
    let mut known: Vec<(&Metric, Vec<f64>)> = Vec::new();
    for metrics in runs {
        let mut of_run = BTreeSet::new();
        for metric in metrics {
            let key = (metric.scope.as_str(), metric.name.as_str());
            let place = *places.entry(key).or_insert_with(|| {
                known.push((metric, Vec::new()));
                known.len() - 1
            });
            if of_run.insert(place) {
                known[place].1.push(metric.value);
            }
        }
    }
    known
        .into_iter()
        .filter_map(|(Metric { scope, name, unit, .. }, values)| {
            let summary = Summary::of(&values)?;
            Some(MetricSummary { scope: scope.clone(), name: name.clone(), unit, summary })
        })
        .collect()
}

impl PointResult {
    /// Every metric over the repetitions that have it, in the order of the first run.
    pub fn summaries(&self) -> Vec<MetricSummary> {
        summaries_of(self.runs.iter().map(|run| run.metrics.as_slice()))
    }

    /// The values of one metric, run by run.
    pub fn values(&self, scope: &str, name: &str) -> Vec<f64> {
        let wanted = |metric: &&Metric| metric.scope == scope && metric.name == name;
        self.runs
            .iter()
            .filter_map(|run| run.metrics.iter().find(wanted))
            .map(|m| m.value)
            .collect()
    }

    /// `label label …`, or the experiment's name where nothing is swept.
    pub fn title(&self, otherwise: &str) -> String {
        if self.labels.is_empty() {
            return otherwise.into();
        }
        self.labels.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn to_json(&self) -> Json {
        let metrics: Vec<Json> = self
            .summaries()
            .iter()
            .map(|one| {
                json!({
                    "scope": one.scope, "metric": one.name, "unit": one.unit,
                    "mean": one.summary.mean, "ci95": one.summary.ci95,
                    "min": one.summary.min, "max": one.summary.max, "n": one.summary.n,
                })
            })
            .collect();
        json!({
            "labels": object(&self.labels),
            "metrics": metrics,
            "runs": self.runs.iter().map(RunResult::to_json).collect::<Vec<_>>(),
        })
    }
}

impl RunResult {
    fn to_json(&self) -> Json {
        let metrics: Map<String, Json> =
            self.metrics.iter().map(|metric| (metric.full_name(), json!(metric.value))).collect();
        let mut run = json!({
            "name": self.name,
            "seed": self.seed,
            "drawn": object(&self.drawn),
            "fingerprint": format!("{:016x}", self.fingerprint),
            "virtual_time_ns": self.virtual_ns,
            "metrics": metrics,
            "tc": self.tc.iter().map(|port| (port.port.clone(), port.json.clone())).collect::<Map<String, Json>>(),
        });
        if !self.sockets.is_empty() {
            run["ss"] = self.sockets.iter().map(SocketDump::to_json).collect();
        }
        run
    }
}

impl SocketDump {
    /// As `ss -tino` prints it, below a line that says when and where.
    pub fn text(&self) -> String {
        let nanos = self.at.as_nanos();
        let mut out = format!(
            "# {} at {}.{:06} s\n",
            self.node,
            nanos / 1_000_000_000,
            nanos / 1_000 % 1_000_000
        );
        out.push_str(&iproute::ss::head());
        out.extend(self.sockets.iter().map(iproute::ss::text));
        out
    }

    /// As an object.
    pub fn to_json(&self) -> Json {
        json!({
            "time_ns": self.at.as_nanos(),
            "node": self.node,
            "sockets": self.sockets.iter().map(iproute::ss::json).collect::<Vec<_>>(),
        })
    }
}

/// The whole of `summary.json`, of the points that have runs. It holds nothing that depends on the machine or the hour.
/// `unfinished` says how many runs are missing.
pub fn summary_json(
    name: &str,
    title: &str,
    seed: u64,
    points: &[PointResult],
    unfinished: usize,
) -> Json {
    let finished = points.iter().filter(|point| !point.runs.is_empty());
    let mut summary = json!({
        "schema": 1,
        "name": name,
        "title": title,
        "seed": seed,
        "points": finished.map(PointResult::to_json).collect::<Vec<_>>(),
    });
    if unfinished > 0 {
        summary["unfinished_runs"] = json!(unfinished);
    }
    summary
}

fn object(pairs: &[(String, String)]) -> Json {
    Json::Object(pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, goodput: f64) -> RunResult {
        let metric =
            Metric { scope: "bulk".into(), name: "goodput".into(), unit: "Mbit/s", value: goodput };
        RunResult { seed, metrics: vec![metric], ..RunResult::default() }
    }

    #[test]
    fn a_summary_has_every_metric_once() {
        let point = PointResult { labels: vec![], runs: vec![run(1, 400.0), run(2, 420.0)] };
        let summaries = point.summaries();
        assert_eq!(summaries.len(), 1);
        assert!((summaries[0].summary.mean - 410.0).abs() < 1e-9);
        let json = summary_json("x", "X", 1, &[point], 0);
        assert_eq!(json["points"][0]["runs"][1]["metrics"]["bulk goodput"], 420.0);
        assert_eq!(json["points"][0]["metrics"][0]["n"], 2);
    }
}
