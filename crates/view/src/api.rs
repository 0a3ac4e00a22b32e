//! Questions of the page, and their answers.
//!
//! | question | parameters | answer |
//! |---|---|---|
//! | `index` | | what there is: runs, their labels |
//! | `run` | `run` | its metrics, names of its series, what tc showed, its network |
//! | `series` | `run`, `name`, `columns`, `from`, `to`, `pixels` | a part of a series |
//! | `utilisation` | `run` | of all links whose use was sampled, over time |
//! | `capture` | `run`, `port` | the connections of a capture |
//! | `graph` | `run`, `port`, `connection`, `way`, `from`, `to`, `pixels` | a time/sequence graph |
//! | `packet` | `run`, `port`, `packet` | a packet, decoded |
//! | `explain` | `run`, `flow` | a flow's story |
//! | `acks` | `run`, `port` | which ACKs CAKE filtered, by which rule |
//! | `rings` | `run` | the next hops of routes with several, over time |
//!
//! Times are in seconds.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use crate::fault::Fault;
use crate::source::{Kind, Source, plain};
use crate::{decode, explain, graph, series};

/// Parameters of a question.
pub type Query = HashMap<String, String>;

/// Spans into which the use of links is cut.
const UTILISATION_PARTS: usize = 600;
/// Filtered ACKs that are listed one by one.
const ACKS_MAX: usize = 5_000;

/// Answers a question.
///
/// # Errors
/// What is asked for is not there, or cannot be read.
pub fn answer(source: &Source, question: &str, query: &Query) -> Result<Json, Fault> {
    let text = |name: &str| query.get(name).map_or("", String::as_str);
    match question {
        "index" => Ok(index(source)),
        "run" => run(source, text("run")),
        "series" => {
            let of = source.series(text("run"), text("name"))?;
            let columns: Vec<&str> =
                text("columns").split(',').filter(|name| !name.is_empty()).collect();
            let (from, to) = span(query)?;
            Ok(series::cut(&of, &columns, from, to, parse_number(query, "pixels", 1_000)?)
                .to_json())
        }
        "utilisation" => utilisation(source, text("run")),
        "capture" => Ok(source.capture_of(text("run"), text("port"))?.to_json()),
        "graph" => {
            let (from_ns, to_ns) = span(query)?;
            let capture = source.capture_of(text("run"), text("port"))?;
            let number = parse_number(query, "connection", 0)?;
            let none = |_| Fault::Missing(format!("no connection {number}"));
            let part = graph::GraphQuery {
                connection: u32::try_from(number).map_err(none)?,
                forth: text("way") != "back",
                from_ns,
                to_ns,
                pixels: parse_number(query, "pixels", 1_000)?,
            };
            graph::graph(&capture, &part)
        }
        "packet" => {
            let capture = source.capture_of(text("run"), text("port"))?;
            decode::decoded(&capture, parse_number(query, "packet", 0)?)
        }
        "explain" => {
            source.run(text("run"))?;
            let file = explain_file(text("run"), plain(text("flow"))?);
            let path = source.path.join(&file);
            let story = lab::input::read_result(&path)
                .map_err(|error| Fault::Missing(format!("{}: {error}", path.display())))?;
            Ok(explain::story(&story))
        }
        "acks" => acks(source, text("run"), text("port")),
        "rings" => {
            source.run(text("run"))?;
            source.json(&format!("view/{}/rings.json", plain(text("run"))?))
        }
        _ => Err(Fault::Missing(format!("unknown request \"{question}\""))),
    }
}

fn explain_file(run: &str, stem: &str) -> String {
    format!("explain/{run}-{stem}.txt")
}

fn span(query: &Query) -> Result<(i64, i64), Fault> {
    let at = |name: &str, otherwise: i64| match query.get(name) {
        None => Ok(otherwise),
        Some(text) => match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() => Ok((seconds * 1e9) as i64),
            _ => Err(Fault::Missing(format!("\"{name}\" is not a time: \"{text}\""))),
        },
    };
    Ok((at("from", i64::MIN)?, at("to", i64::MAX)?))
}

fn parse_number(query: &Query, name: &str, otherwise: usize) -> Result<usize, Fault> {
    query.get(name).map_or(Ok(otherwise), |text| {
        text.parse().map_err(|_| Fault::Missing(format!("\"{name}\" is not a number: \"{text}\"")))
    })
}

/// What there is.
fn index(source: &Source) -> Json {
    let path = source.path.display().to_string();
    let version = env!("CARGO_PKG_VERSION");
    match &source.kind {
        Kind::Capture => json!({"kind": "capture", "path": path, "version": version}),
        Kind::Live => json!({"kind": "live", "path": path, "version": version}),
        Kind::Results(summary) => {
            let runs = source.runs().into_iter().map(|(run, labels)| {
                let name = run["name"].as_str().unwrap_or("");
                json!({
                    "name": name, "seed": run["seed"], "labels": labels,
                    "end": run["virtual_time_ns"].as_f64().unwrap_or(0.0) / 1e9,
                    "drawn": run["drawn"],
                    "viewed": source.path.join(format!("view/{name}/world.json")).is_file(),
                })
            });
            json!({
                "kind": "results", "path": path, "version": version,
                "name": summary["name"], "title": summary["title"],
                "unfinished": summary["unfinished_runs"].as_u64().unwrap_or(0),
                "runs": runs.collect::<Vec<_>>(),
            })
        }
    }
}

fn run(source: &Source, name: &str) -> Result<Json, Fault> {
    let record = source.record(name)?;
    let files = |begin: &str, end: &str| -> Vec<String> {
        let files = record["files"].as_array().into_iter().flatten();
        let names = files.filter_map(Json::as_str);
        let stems = names.filter_map(|it| it.strip_prefix(begin)?.strip_suffix(end));
        stems.map(String::from).collect()
    };
    let series = |name: &&String| name.starts_with("link-") || name.starts_with("tin-");
    let viewed = files(&format!("view/{name}/"), ".parquet");
    let series: Vec<&String> = viewed.iter().filter(series).collect();
    let mut all = record["series"].as_array().cloned().unwrap_or_default();
    all.extend(series.into_iter().map(|name| json!(name)));
    let world = source.json(&format!("view/{}/world.json", plain(name)?)).unwrap_or(Json::Null);
    Ok(json!({
        "name": name,
        "end": record["virtual_time_ns"].as_f64().unwrap_or(0.0) / 1e9,
        "metrics": record["metrics"],
        "distributions": record["distributions"],
        "series": all,
        "tc": record["tc"],
        "captures": files(&format!("pcap/{name}-"), ".pcapng"),
        "explained": files(&format!("explain/{name}-"), ".txt"),
        "acks": files(&format!("view/{name}/acks-"), ".parquet"),
        "rings": !files(&format!("view/{name}/rings"), ".json").is_empty(),
        "world": world,
    }))
}

/// The use of all links: means over equal parts of the run.
fn utilisation(source: &Source, run: &str) -> Result<Json, Fault> {
    let about = self::run(source, run)?;
    let names = about["series"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let mut ends = Vec::new();
    let mut links = serde_json::Map::new();
    for name in names.filter(|name| name.starts_with("link-")) {
        let of = source.series(run, name)?;
        if ends.is_empty() {
            ends = series::ends(&of, UTILISATION_PARTS);
        }
        links.insert(
            name["link-".len()..].to_owned(),
            json!({
                "ppm": series::binned_means(&of, "utilisation_ppm", UTILISATION_PARTS),
                "bits_per_sec": series::binned_means(&of, "sent_bits_per_sec", UTILISATION_PARTS),
            }),
        );
    }
    let time: Vec<f64> = ends.iter().map(|at| *at as f64 / 1e9).collect();
    Ok(json!({"time": time, "links": links}))
}

/// Filtered ACKs: sums by rule, and the first ones each.
fn acks(source: &Source, run: &str, port: &str) -> Result<Json, Fault> {
    source.run(run)?;
    let file = format!("view/{}/acks-{}.parquet", plain(run)?, plain(port)?);
    let table = source.table(&file, "acks")?;
    let column = |name: &str| -> Result<Vec<Option<i64>>, Fault> {
        let found = table.column(name).map(|column| column.values.iter().collect());
        found.ok_or_else(|| Fault::Broken(format!("{file}: no column \"{name}\"")))
    };
    let (rule, ack, flow, newest) =
        (column("rule")?, column("ack")?, column("flow")?, column("newest_ack")?);
    let times = |it: &[i64]| it.iter().map(|at| *at as f64 / 1e9).collect::<Vec<_>>();
    let shown = table.time_ns.len().min(ACKS_MAX);
    let mut sums: std::collections::BTreeMap<i64, u64> = std::collections::BTreeMap::new();
    for rule in rule.iter().flatten() {
        *sums.entry(*rule).or_default() += 1;
    }
    let by_rule: Vec<Json> = sums.iter().map(|(rule, count)| json!([rule, count])).collect();
    Ok(json!({
        "count": table.time_ns.len(), "rules": by_rule,
        "time": times(&table.time_ns[..shown]), "rule": &rule[..shown], "ack": &ack[..shown],
        "flow": &flow[..shown], "newest": &newest[..shown],
    }))
}
