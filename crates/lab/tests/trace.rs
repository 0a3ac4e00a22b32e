//! Traces of a run: what is observed does the same as what is not, and what is written is what the
//! readers of the formats expect. Perfetto's own schema is asked where PyPI's `perfetto` is there
//! (`PERFETTO` names a Python that has it); where not, that part says so.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use lab::plan::Experiment;
use lab::results::RunResult;
use lab::run::{Options, run_plan};
use lab::trace::TraceOutputs;
use serde_json::Value;

/// A download through a short queue with a CAKE beside it, so that there is everything: losses,
/// recovery, marks, filtered ACKs, and a ping.
const TEXT: &str = r#"schema = 1
name = "t"
duration = "4s"
[nodes]
server = {}
router = { role = "router" }
client = {}
[links.lan]
ends = ["server", "router"]
rate = "100mbit"
rtt = "2ms"
[links.dsl]
ends = ["router", "client"]
rate = "10mbit"
rtt = "20ms"
rules = ["f off 300000 1 drop"]
[qdisc]
"router.dsl" = "${queue}"
"client.dsl" = "cake bandwidth 1mbit ack-filter"
[parameters]
pages = 1
queue = "pfifo limit 30"
ecn = 0
rmem = "4096 131072 33554432"
wmem = "4096 16384 4194304"
[sysctl]
"net.ipv4.tcp_ecn" = "${ecn}"
"net.ipv4.tcp_rmem" = "${rmem}"
"net.ipv4.tcp_wmem" = "${wmem}"
[flows.download]
app = "bulk"
from = "server"
to = "client"
[flows.pages]
app = "request"
count = "${pages}"
request = "500b"
response = "30kb"
think = "300ms"
from = "client"
to = "server"
[flows.ping]
app = "ping"
from = "client"
to = "server"
"#;

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trace").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

fn run(settings: &[&str], wanted: Option<&TraceOutputs>) -> RunResult {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let experiment =
        Experiment::parse("t.toml", TEXT, &settings).unwrap_or_else(|fault| panic!("{fault}"));
    let stop = AtomicBool::new(false);
    let options = Options { wanted, ..Options::silent(&stop) };
    run_plan(&experiment.base, "t", &options).unwrap_or_else(|error| panic!("{error}"))
}

fn all(directory: &Path) -> TraceOutputs {
    TraceOutputs {
        perfetto: Some(directory.join("t.pftrace")),
        qlog: Some(directory.join("qlog")),
        explain: vec!["*".into()],
        packets: true,
        view: false,
        pcap: Vec::new(),
    }
}

#[test]
fn what_is_observed_does_the_same() {
    let directory = scratch("same");
    for settings in [&[][..], &["queue=cake bandwidth 9mbit", "ecn=1"]] {
        let (plain, observed) = (run(settings, None), run(settings, Some(&all(&directory))));
        assert_eq!(plain.fingerprint, observed.fingerprint);
        assert_eq!(plain.metrics, observed.metrics);
        assert_eq!(plain.series, observed.series);
        assert_eq!(observed.explained.len(), 2, "the two TCP flows");
    }
}

/// Whatever was observed before, and in whatever order this process keeps its maps.
#[test]
fn the_same_run_leaves_the_same_files() {
    let [one, other] = ["one", "other"].map(|name| {
        let directory = scratch(name);
        run(&["pages=9"], Some(&all(&directory)));
        let trace = fs::read(directory.join("t.pftrace")).expect("a trace");
        let qlogs = fs::read_dir(directory.join("qlog")).expect("a directory");
        let mut qlogs: Vec<_> = qlogs.map(|entry| entry.expect("a file").path()).collect();
        qlogs.sort();
        assert_eq!(qlogs.len(), 10);
        (trace, qlogs.iter().map(|path| fs::read(path).expect("a file")).collect::<Vec<_>>())
    });
    assert!(one == other);
}

/// Each share is told, and all together are the whole time.
#[test]
fn a_flow_is_limited_by_what_limits_it() {
    let largest = |settings: &[&str], flow: &str| {
        let wanted = TraceOutputs { explain: vec![flow.into()], ..TraceOutputs::default() };
        let told = run(settings, Some(&wanted)).explained.remove(0).why.replace('\n', " ");
        let shares = told.split("by time: ").nth(1).unwrap_or_else(|| panic!("{told}"));
        let shares = shares.split(';').next().expect("a part").to_owned();
        let percent = |part: &str| -> f64 {
            let number = part.trim_end_matches(" %").rsplit(' ').next().expect("a number");
            number.parse().unwrap_or_else(|_| panic!("{part}"))
        };
        let sum: f64 = shares.split(", ").map(percent).sum();
        assert!((98.0..=100.5).contains(&sum), "{sum}: {told}");
        let first = shares.split(", ").next().expect("one").to_owned();
        first.rsplitn(3, ' ').nth(2).expect("a name").to_owned()
    };
    assert_eq!(largest(&["queue=pfifo limit 1000"], "download"), "cwnd");
    let application = "flows.download={ app = \"chunk\", chunk = \"20kb\", gap = \"100ms\", from = \"server\", to = \"client\" }";
    assert_eq!(largest(&[application], "download"), "application");
    assert_eq!(largest(&["rmem=4096 32768 32768"], "download"), "receive window");
    let small = ["wmem=4096 16384 16384", "queue=pfifo limit 1000", "links.dsl.rtt=300ms"];
    assert_eq!(largest(&small, "download"), "send buffer");
}

/// What a flow did is told of the time that it lasted, however long the run goes on and its connection lingers.
#[test]
fn a_finished_flow_is_explained_until_its_end() {
    let short =
        "flows.download={ app = \"fixed\", bytes = \"40kb\", from = \"server\", to = \"client\" }";
    let wanted = TraceOutputs { explain: vec!["download".into()], ..TraceOutputs::default() };
    let told = run(&[short], Some(&wanted)).explained.remove(0).why.replace('\n', " ");
    let between = |before: &str, behind: &str| -> f64 {
        let rest = told.split(before).nth(1).and_then(|rest| rest.split(behind).next());
        rest.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    let (from, to) = (between(" from ", " s to "), between(" s to ", " s ("));
    let sent_all = between("until it had sent all, at ", " s: ");
    assert!(from < sent_all && sent_all < to && to < 0.5, "{told}");
    let busy = between("busy ", " s, ");
    assert!((to - from - busy).abs() < 0.002, "{told}");
}

/// A flow whose SYNs nobody answers has sent no payload, but not nothing.
#[test]
fn who_is_not_answered_has_asked() {
    let wanted =
        TraceOutputs { explain: vec!["download".into()], packets: true, ..TraceOutputs::default() };
    let one = run(&["links.dsl.loss=\"100%\""], Some(&wanted)).explained.remove(0);
    let asked = one.story.lines().filter(|line| line.ends_with(" > SYN win 64240")).count();
    assert!(asked > 1, "{}", one.story);
    let why = format!("download tried to connect {asked} times; it got no answer.\n");
    assert_eq!(one.why, why);
}

#[test]
fn a_cut_by_marks_says_so() {
    let wanted = TraceOutputs { explain: vec!["download".into()], ..TraceOutputs::default() };
    let story =
        run(&["queue=cake bandwidth 9mbit", "ecn=1"], Some(&wanted)).explained.remove(0).story;
    let cuts: Vec<&str> = story.lines().filter(|line| line.contains(" -> CWR")).collect();
    let marked = |line: &&str| line.ends_with(": a mark was echoed (ECN)");
    assert!(!cuts.is_empty() && cuts.iter().all(marked), "{cuts:#?}");
}

#[test]
fn stories_have_the_window_between_the_packets() {
    let directory = scratch("stories");
    let run = run(&[], Some(&all(&directory)));
    let one = &run.explained[0];
    assert_eq!(one.flow, "download");
    for part in
        [" > SYN", " < SYN ack 0", " > 0..1448", "lost        ", "retransmit  ", "state       "]
    {
        assert!(one.story.contains(part), "{part} is not in\n{}", &one.story[..2000]);
    }
    // All on one clock.
    let times = one.story.lines().filter_map(|line| line.split(" s ").next()?.trim().parse().ok());
    let times: Vec<f64> = times.collect();
    assert!(times.len() > 1000 && times.is_sorted(), "{}", times.len());
    assert!(one.why.contains("TCP_INFO: busy "), "{}", one.why);
}

/// What qvis's loader of draft-02 and its congestion graph ask for.
#[test]
fn qlog_is_what_qvis_reads() {
    let directory = scratch("qlog");
    let wanted = TraceOutputs { qlog: Some(directory.clone()), ..TraceOutputs::default() };
    run(&[], Some(&wanted));
    let text = fs::read_to_string(directory.join("download.qlog")).expect("it was written");
    assert!(directory.join("pages.qlog").is_file() && !directory.join("ping.qlog").exists());
    let file: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&file["qlog_version"], &file["qlog_format"]), (&"draft-02".into(), &"JSON".into()));
    let traces = file["traces"].as_array().expect("traces");
    assert_eq!(traces.len(), 2, "both ends");
    for trace in traces {
        assert_eq!(trace["common_fields"]["time_format"], "relative");
        let mut before = 0.0;
        let (mut sent, mut acked, mut lost) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut names: HashMap<&str, u64> = HashMap::new();
        for event in trace["events"].as_array().expect("events") {
            let time = event["time"].as_f64().expect("a time");
            assert!(time >= before, "qvis wants events in order");
            before = time;
            let (name, data) = (event["name"].as_str().expect("a name"), &event["data"]);
            *names.entry(name).or_default() += 1;
            let number = data["header"]["packet_number"].as_u64();
            match name {
                "transport:packet_sent" => {
                    assert!(data["raw"]["length"].as_u64() > Some(0));
                    assert!(sent.insert(number.expect("a number")), "each is sent once");
                }
                "transport:packet_received" => {
                    for frame in data["frames"].as_array().expect("frames") {
                        for range in frame["acked_ranges"].as_array().into_iter().flatten() {
                            let [from, to] = [0, 1].map(|end| range[end].as_u64().expect("ends"));
                            for number in from..=to {
                                assert!(sent.contains(&number), "what was never sent is acked");
                                assert!(acked.insert(number), "twice");
                            }
                        }
                    }
                }
                "recovery:packet_lost" => drop(lost.insert(number.expect("a number"))),
                _ => {}
            }
        }
        assert!(lost.is_subset(&sent));
        if trace["vantage_point"]["type"] == "client" {
            assert!(!lost.is_empty() && acked.len() > 1000, "{} acked", acked.len());
            assert!(names["recovery:metrics_updated"] > 1000);
            assert!(names["recovery:congestion_state_updated"] >= 2);
        }
    }
}

/// Perfetto's own schema knows every field, every name was told before it was used, every slice ends.
#[test]
fn traces_are_what_perfettos_schema_says() {
    let directory = scratch("perfetto");
    let path = directory.join("t.pftrace");
    let wanted = TraceOutputs { perfetto: Some(path.clone()), ..TraceOutputs::default() };
    let observed = run(&["queue=cake bandwidth 9mbit", "ecn=1"], Some(&wanted));
    assert!(fs::metadata(&path).expect("it was written").len() > 100_000);
    let Some(told) = perfetto(&path) else { return };
    assert_eq!(told["processes"], serde_json::json!(["server", "router", "client"]));
    for name in ["cwnd", "in flight", "srtt", "backlog", "delay", "pacing rate"] {
        assert!(told["counters"].get(name).is_some(), "{name}: {told}");
    }
    assert!(
        told["counters"]["Best Effort: backlog"].is_array()
            || told["counters"]
                .as_object()
                .is_some_and(|all| all.keys().any(|name| name.ends_with(": backlog"))),
        "{told}"
    );
    assert!(
        told["slices"]["slow start"].as_u64() >= Some(1) && told["arrows"].as_u64() > Some(1000)
    );
    let marks = observed.metrics.iter().find(|it| it.scope == "router.dsl" && it.name == "marks");
    assert_eq!(told["instants"]["mark CE"].as_f64(), marks.map(|it| it.value), "{told}");
    let filtered = observed.metrics.iter().find(|it| it.scope == "total" && it.name == "ack_drops");
    let drawn = told["instants"].get("drop ACK_FILTER").and_then(Value::as_u64).unwrap_or(0);
    assert_eq!(drawn, filtered.expect("CAKE has a filter").value as u64);
}

fn perfetto(path: &Path) -> Option<Value> {
    let python = std::env::var_os("PERFETTO").unwrap_or_else(|| "python3".into());
    let there = Command::new(&python).args(["-c", "import perfetto.trace_processor"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(
            stderr(),
            "SKIPPED: traces were not checked with Perfetto's schema: no Python with `perfetto` (PERFETTO)"
        );
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/check_trace.py");
    let output = Command::new(&python).args([Path::new(script), path, Path::new("--sql")]).output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines = text.lines();
    let told = lines.next().expect("a line");
    lines.for_each(|line| drop(writeln!(stderr(), "{line}")));
    Some(serde_json::from_str(told).expect("JSON"))
}
