//! A page that holds its answers: one file, to be sent and opened anywhere.

use serde_json::{Map, Value as Json, json};

use crate::api::{Query, answer};
use crate::fault::Fault;
use crate::page;
use crate::source::Source;

/// Runs that are exported at most: the first one of each point.
pub const RUNS_MAX: usize = 8;
/// Columns at which series and graphs are exported.
const PIXELS: usize = 1_500;
/// Connections of a capture with their graphs, those with the most bytes.
const GRAPHS_MAX: usize = 6;
/// Flows of a run whose series are exported.
const FLOWS_MAX: usize = 32;
/// Packets that are exported decoded, in all.
const PACKETS_MAX: usize = 3_000;

/// Writes everything that there is to see into one page.
///
/// # Errors
/// What is there cannot be read, or is a running program.
pub fn export(source: &Source) -> Result<String, Fault> {
    let mut answers = Answers { source, known: Map::new(), packets: PACKETS_MAX };
    let mut index = answer(source, "index", &Query::new())?;
    match index["kind"].as_str() {
        Some("live") => {
            return Err(Fault::Missing("a running program cannot be exported".into()));
        }
        Some("capture") => answers.capture("", "")?,
        _ => {
            let runs = index["runs"].as_array().cloned().unwrap_or_default();
            let kept = chosen(&runs);
            for run in &kept {
                answers.run(run["name"].as_str().unwrap_or(""))?;
            }
            index["left_out"] = json!(runs.len() - kept.len());
            index["runs"] = Json::Array(kept);
        }
    }
    let title = index["title"].as_str().unwrap_or("Ackwright").to_owned();
    answers.known.insert("index".into(), index);
    // The policy wants a mark on what the page itself brings. It need not be secret: what could guess it
    // would have to be in the page, where all text of others is escaped.
    Ok(page::for_export(&title, &Json::Object(answers.known), "ackwright"))
}

/// The first run of each point.
fn chosen(runs: &[Json]) -> Vec<Json> {
    let mut kept: Vec<Json> = Vec::new();
    for run in runs {
        if kept.len() < RUNS_MAX && kept.iter().all(|known| known["labels"] != run["labels"]) {
            kept.push(run.clone());
        }
    }
    kept
}

/// Of the series of flows those with the highest goodput, and all others.
fn series(about: &Json, names: Vec<String>) -> Vec<String> {
    let metrics = about["metrics"].as_array().into_iter().flatten();
    let goodput: Map<String, Json> = metrics
        .filter(|row| row[1] == "goodput")
        .filter_map(|row| Some((format!("flow-{}", row[0].as_str()?), row[3].clone())))
        .collect();
    let of = |name: &String| goodput.get(name).and_then(Json::as_f64).unwrap_or(0.0);
    let (mut flows, mut names): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| name.starts_with("flow-"));
    flows.sort_by(|a, b| of(b).total_cmp(&of(a)));
    names.extend(flows.into_iter().take(FLOWS_MAX));
    names
}

/// Answers by their questions.
struct Answers<'a> {
    source: &'a Source,
    known: Map<String, Json>,
    packets: usize,
}

impl Answers<'_> {
    /// Asks, and keeps the answer by the question without what only chooses how much of it.
    fn record_answer(&mut self, question: &str, named: &[(&str, &str)]) -> Result<Json, Fault> {
        let mut query: Query =
            named.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        query.insert("pixels".into(), PIXELS.to_string());
        let answer = answer(self.source, question, &query)?;
        let words: Vec<String> =
            named.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.known.insert(format!("{question}?{}", words.join("&")), answer.clone());
        Ok(answer)
    }

    fn run(&mut self, run: &str) -> Result<(), Fault> {
        let about = self.record_answer("run", &[("run", run)])?;
        let texts = |list: &Json| -> Vec<String> {
            list.as_array()
                .into_iter()
                .flatten()
                .filter_map(Json::as_str)
                .map(String::from)
                .collect()
        };
        for name in series(&about, texts(&about["series"])) {
            self.record_answer("series", &[("run", run), ("name", &name)])?;
        }
        self.record_answer("utilisation", &[("run", run)])?;
        for port in texts(&about["captures"]) {
            self.capture(run, &port)?;
        }
        for flow in texts(&about["explained"]) {
            self.record_answer("explain", &[("run", run), ("flow", &flow)])?;
        }
        for port in texts(&about["acks"]) {
            self.record_answer("acks", &[("run", run), ("port", &port)])?;
        }
        if about["rings"] == true {
            self.record_answer("rings", &[("run", run)])?;
        }
        Ok(())
    }

    fn capture(&mut self, run: &str, port: &str) -> Result<(), Fault> {
        let about = self.record_answer("capture", &[("run", run), ("port", port)])?;
        let mut all: Vec<(u64, u64, String)> = Vec::new();
        for one in about["connections"].as_array().into_iter().flatten() {
            let main = one["main"].as_str().unwrap_or("forth");
            let bytes = one[main]["bytes"].as_u64().unwrap_or(0);
            all.push((bytes, one["id"].as_u64().unwrap_or(0), main.to_owned()));
        }
        all.sort_by_key(|(bytes, id, _)| (std::cmp::Reverse(*bytes), *id));
        for (_, id, main) in all.into_iter().take(GRAPHS_MAX) {
            let id = id.to_string();
            let named =
                [("run", run), ("port", port), ("connection", id.as_str()), ("way", main.as_str())];
            let graph = self.record_answer("graph", &named)?;
            self.packets_of(run, port, &graph)?;
        }
        Ok(())
    }

    /// Packets that marks of a graph stand for, as many as there is room for.
    fn packets_of(&mut self, run: &str, port: &str, graph: &Json) -> Result<(), Fault> {
        for marks in ["flags", "sacks", "data", "acks"] {
            let numbers = graph[marks]["packet"].as_array().into_iter().flatten();
            for number in numbers.filter_map(Json::as_u64) {
                let number = number.to_string();
                let named = [("run", run), ("port", port), ("packet", number.as_str())];
                if self.packets == 0 {
                    return Ok(());
                }
                if !self
                    .known
                    .contains_key(&format!("packet?run={run}&port={port}&packet={number}"))
                {
                    self.packets -= 1;
                    self.record_answer("packet", &named)?;
                }
            }
        }
        Ok(())
    }
}
