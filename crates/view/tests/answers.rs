//! Answers of the viewer against what lies in the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lab::output::Output;
use lab::plan::Experiment;
use lab::results::{Column, PointResult, Series};
use lab::run::{Options, run};
use lab::store::Store;
use lab::trace::TraceOutputs;
use serde_json::{Value as Json, json};
use view::api::{Query, answer};
use view::{Fault, Source, export};

const LOSSY: &str = r#"schema = 1
name = "lossy"
title = "A <lossy> wire"
duration = "3s"
nodes = { a = {}, r = { role = "router" }, b = {} }
[links.near]
ends = ["a", "r"]
rate = "100mbit"
[links.wire]
ends = ["r", "b"]
rate = "10mbit"
rtt = "20ms"
rules = ["f off 100000 1 drop", "f off 200000 1 drop"]
[flows.upload]
app = "bulk"
from = "a"
to = "b"
[measure]
queues = ["r.wire"]
"#;

/// A directory that is gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("ackwright-view-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn query(words: &[(&str, &str)]) -> Query {
    words.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// Runs the experiment into a directory.
fn results(place: &Path, view: bool) -> Vec<PointResult> {
    let experiment = Experiment::parse("lossy.toml", LOSSY, &[]).unwrap_or_else(|f| panic!("{f}"));
    let (store, _) = Store::results(place, "a test").unwrap();
    let output = Output::new(store);
    let stop = AtomicBool::new(false);
    let wanted = TraceOutputs { view, ..TraceOutputs::default() };
    let options = Options {
        repetitions: Some(2),
        store: Some(output.store()),
        wanted: Some(&wanted),
        ..Options::silent(&stop)
    };
    let keep = |point: &_, repetition, run: &mut _| output.keep(point, repetition, run);
    let points = run(&experiment, &options, &keep).unwrap_or_else(|error| panic!("{error}"));
    output.finish(&experiment, 1, &points, 0).unwrap();
    points
}

#[test]
fn answers_are_what_the_files_hold() {
    let place = Place::new("answers");
    let points = results(&place.0, true);
    let run = &points[0].runs[0];
    let source = Source::open(&place.0).unwrap();
    let ask = |question: &str, words: &[(&str, &str)]| {
        let mut words = words.to_vec();
        words.push(("run", &run.name));
        answer(&source, question, &query(&words)).unwrap_or_else(|fault| panic!("{fault}"))
    };

    let index = ask("index", &[]);
    assert_eq!(index["runs"].as_array().unwrap().len(), 2);
    let about = ask("run", &[]);
    assert_eq!(about["world"]["links"][1]["rate"][0], 10_000_000);
    assert_eq!(about["captures"], json!(["a.near"]));
    for (row, metric) in about["metrics"].as_array().unwrap().iter().zip(&run.metrics) {
        assert_eq!(row, &json!([metric.scope, metric.name, metric.unit, metric.value]));
    }

    // Every sample of every series.
    for series in &run.series {
        let part = ask("series", &[("name", &series.name), ("pixels", "4000")]);
        assert_eq!(part["exact"], true);
        assert_eq!(part["time"].as_array().unwrap().len(), series.time_ns.len());
        for column in &series.columns {
            assert_eq!(
                part["columns"][&column.name],
                json!(column.values.iter().collect::<Vec<_>>()),
                "{}",
                column.name
            );
        }
    }

    // What was lost was retransmitted, as the flow's own counter says; the graph shows it.
    let resent = run.series.iter().find(|series| series.name == "flow-upload").unwrap();
    let resent = resent.column("retransmits_segments").unwrap().values.iter().flatten().max();
    let capture = ask("capture", &[("port", "a.near")]);
    assert_eq!(capture["connections"][0]["forth"]["retransmitted"].as_i64(), resent);
    assert!(resent.is_some_and(|count| count >= 2));
    let graph = ask("graph", &[("port", "a.near"), ("connection", "0")]);
    for number in ["1", "4294967296"] {
        let words = [("run", run.name.as_str()), ("port", "a.near"), ("connection", number)];
        let fault = answer(&source, "graph", &query(&words)).unwrap_err().to_string();
        assert_eq!(fault, format!("no connection {number}"));
    }
    let kinds = graph["data"]["kind"].as_array().unwrap();
    let again = kinds.iter().position(|kind| *kind == 1).expect("a retransmission");
    let from = graph["data"]["from"][again].as_i64().unwrap();
    assert!((98_552..=100_000).contains(&from), "it holds byte 100000: {from}");
    let number = graph["data"]["packet"][again].to_string();
    let packet = ask("packet", &[("port", "a.near"), ("packet", &number)]);
    assert!(packet["summary"].as_str().unwrap().contains("retransmitted"), "{packet}");
    assert_eq!(packet["headers"][1]["name"], "IPv4");
    assert!(!graph["sacks"]["time"].as_array().unwrap().is_empty());

    // What the viewer alone reads says in each row what it is of, as all tables do.
    let file = place.0.join(format!("view/{}/link-r.wire.parquet", run.name));
    let columns = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    assert!(["point", "seed", "port"].iter().all(|name| columns.contains(name)));

    let story = ask("explain", &[("flow", "upload")]);
    let lost = |event: &&Json| event["kind"] == "lost";
    let first = story["events"].as_array().unwrap().iter().find(lost).unwrap().clone();
    assert!(first["text"].as_str().unwrap().starts_with(&format!("{from}..")), "{first}");

    let use_of = ask("utilisation", &[]);
    let link = &use_of["links"]["r.wire"]["ppm"];
    assert!(link.as_array().unwrap().iter().any(|share| share.as_i64() == Some(1_000_000)));
}

/// Results of the first version, which kept no records of runs, are shown as well.
#[test]
fn a_folder_of_an_earlier_version_is_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/schema-1/results");
    let source = Source::open(&folder).unwrap();
    let about = answer(&source, "run", &query(&[("run", "20-reno-seed-7")])).unwrap();
    let names: Vec<&str> =
        about["series"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    assert_eq!(names[..2], ["flow-file", "flow-load"], "{names:?}");
    let goodput = about["metrics"].as_array().unwrap().iter().find(|row| row[0] == "load");
    assert!(
        goodput.is_some_and(|row| row[2] == "Mbit/s" && row[3].as_f64() > Some(1.0)),
        "{goodput:?}"
    );
    assert_eq!(about["end"], 0.5);
    let page = export(&source).unwrap();
    assert!(page.contains("series?run=20-reno-seed-7&name=port-r.wan"));
}

#[test]
fn an_exported_page_holds_the_same_answers() {
    let place = Place::new("export");
    results(&place.0, true);
    let source = Source::open(&place.0).unwrap();
    let page = export(&source).unwrap();
    assert!(page.contains("<title>A &lt;lossy&gt; wire</title>"));
    let data = page.split("id=\"answers\"").nth(1).unwrap();
    let data = &data[data.find('>').unwrap() + 1..data.find("</script>").unwrap()];
    let known: BTreeMap<String, Json> = serde_json::from_str(data).unwrap();
    // Of two runs of one point one is there, and that is said.
    assert_eq!(known["index"]["left_out"], 1);
    let series = &known["series?run=seed-1&name=flow-upload"];
    let words = query(&[("run", "seed-1"), ("name", "flow-upload"), ("pixels", "1500")]);
    assert_eq!(series, &answer(&source, "series", &words).unwrap());
    assert!(known.contains_key("graph?run=seed-1&port=a.near&connection=0&way=forth"));
}

#[test]
fn results_without_view_data_say_what_is_missing() {
    let place = Place::new("plain");
    results(&place.0, false);
    let source = Source::open(&place.0).unwrap();
    let about = answer(&source, "run", &query(&[("run", "seed-1")])).unwrap();
    assert_eq!(about["world"]["viewed"], false);
    assert_eq!(about["captures"], json!([]));
    let use_of = answer(&source, "utilisation", &query(&[("run", "seed-1")])).unwrap();
    assert_eq!(use_of["links"], json!({}));
    let story = answer(&source, "explain", &query(&[("run", "seed-1"), ("flow", "upload")]));
    assert!(matches!(story, Err(Fault::Missing(_))));
}

/// The size of an answer depends on the screen, not on the run.
#[test]
fn a_million_samples_are_cut_to_the_screen() {
    let place = Place::new("million");
    let store = Store::create(&place.0).unwrap();
    let values = (0..1_000_000).map(|at| Some(if at == 654_321 { 9_999 } else { at % 100 }));
    let series = Series {
        name: "flow-f".into(),
        time_ns: (1..=1_000_000).map(|at| at * 1_000).collect(),
        columns: vec![Column { name: "cwnd_segments".into(), values: values.collect() }],
    };
    store.write_series("series/s/flow-f.parquet", &series, &[]).unwrap();
    let summary = json!({
        "schema": 1, "name": "m", "title": "M", "seed": 1,
        "points": [{"labels": {}, "runs": [{"name": "s", "seed": 1, "virtual_time_ns": 1_000_000_000}]}],
    });
    store.write("summary.json", summary.to_string().as_bytes()).unwrap();
    let source = Source::open(&place.0).unwrap();
    let words = query(&[("run", "s"), ("name", "flow-f"), ("pixels", "1200")]);
    let part = answer(&source, "series", &words).unwrap();
    let values = part["columns"]["cwnd_segments"].as_array().unwrap();
    assert!(values.len() <= 2 * 1_201 && part["samples"] == 1_000_000, "{}", values.len());
    assert!(values.contains(&json!(9_999)), "no peak is lost");
    // Near the peak, the samples themselves.
    let words = query(&[
        ("run", "s"),
        ("name", "flow-f"),
        ("from", "0.6543"),
        ("to", "0.6544"),
        ("pixels", "1200"),
    ]);
    let part = answer(&source, "series", &words).unwrap();
    assert_eq!(part["exact"], true);
    let values = part["columns"]["cwnd_segments"].as_array().unwrap();
    assert_eq!(values.iter().filter(|value| **value == 9_999).count(), 1);
}

#[test]
fn files_that_are_no_results_are_reported() {
    let place = Place::new("wrong");
    let told = |path: &Path| Source::open(path).unwrap_err().to_string();
    assert!(told(&place.0).contains("ackwright run FILE --out DIR"));
    assert!(told(&place.0.join("nowhere")).contains("No such file"));
    for (text, why) in [
        ("{", "EOF"),
        ("{\"schema\": 2, \"points\": []}", "schema 2 is not supported"),
        ("[1]", "not a summary"),
    ] {
        std::fs::write(place.0.join("summary.json"), text).unwrap();
        assert!(told(&place.0).contains(why), "{text}: {}", told(&place.0));
    }
    let other = place.0.join("some.pcap");
    std::fs::write(&other, "this is no capture at all").unwrap();
    assert!(told(&other).contains("neither pcap nor pcapng"), "{}", told(&other));
}

#[test]
fn names_lead_nowhere_else() {
    let place = Place::new("names");
    results(&place.0, false);
    let source = Source::open(&place.0).unwrap();
    for name in ["../seed-1/flow-upload", "..", "", "a/b", "a\\b", "a\0"] {
        let words = query(&[("run", "seed-1"), ("name", name), ("flow", name), ("port", name)]);
        for question in ["series", "explain", "acks", "capture"] {
            let answer = answer(&source, question, &words);
            assert!(matches!(answer, Err(Fault::Missing(_))), "{question} {name:?}: {answer:?}");
        }
    }
    for run in ["../runs", "seed-9", ""] {
        let words = query(&[("run", run), ("name", "flow-upload")]);
        assert!(
            answer(&source, "run", &words).is_err() && answer(&source, "series", &words).is_err()
        );
    }
    let words = query(&[("run", "seed-1"), ("name", "flow-upload"), ("from", "soon")]);
    assert!(answer(&source, "series", &words).is_err());
}
