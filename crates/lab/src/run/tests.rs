//! Runs of small experiments.

use super::*;
use datapath::units::Instant;
use std::collections::BTreeSet;

mod bytes;
mod lives;
mod workload;

const PROBES: &str = r#"schema = 1
name = "probes"
duration = "2s"
repetitions = 4
[nodes]
a = {}
r = { role = "router" }
b = {}
[links.access]
ends = ["a", "r"]
rate = "100mbit"
[links.wire]
ends = ["r", "b"]
rate = "10mbit"
rtt = "20ms"
[flows.ping]
app = "ping"
from = "a"
to = "b"
interval = "10ms"
[flows.cbr]
app = "cbr"
from = "a"
to = "b"
rate = "2mbit"
size = 1000
start = "100ms"
stop = "1s"
spread = "10ms"
[measure]
queues = ["r.wire"]
[draw]
"links.wire.rtt" = { uniform = ["18ms", "22ms"] }
"#;

fn run_with(jobs: usize) -> Vec<PointResult> {
    let experiment = Experiment::parse("p.toml", PROBES, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let options = Options { jobs, ..Options::silent(&stop) };
    run(&experiment, &options, &|_, _, _| Ok(())).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let describe = |points: &[PointResult]| {
        crate::results::summary_json("probes", "probes", 1, points, 0).to_string()
    };
    let (one, four) = (run_with(1), run_with(4));
    assert_eq!(describe(&one), describe(&four));
    assert_eq!(one[0].runs[2].series, four[0].runs[2].series);
}

#[test]
fn no_more_runs_go_on_at_a_time_than_there_are() {
    assert_eq!(share_out(3, (1_000_000, 2), 10), (3, 2));
    assert_eq!(share_out(3, (2, 5), 10), (2, 5));
    assert_eq!(share_out(0, (1_000_000, 1), 10), (1, 1));
}

#[test]
fn small_worlds_are_not_shared_unless_asked() {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(share_out(1, (0, 0), 22), (1, 1), "a dumbbell with ten flows");
    assert_eq!(share_out(1, (0, 2), 22), (1, 2));
    assert_eq!(share_out(1, (0, 0), 208), (1, processors.min(2)), "a fat tree with 128 hosts");
    assert_eq!(share_out(1, (0, 0), 100_000), (1, processors.min(1_000)));
}

/// What `make determinism` compares is worth comparing.
#[test]
fn the_world_of_make_determinism_is_worth_eight_threads() {
    let text = include_str!("../../../../experiments/determinism-threads.toml");
    let experiment = Experiment::parse("determinism-threads.toml", text, &[]).unwrap();
    let mut world = build::build(&experiment.base, false).unwrap().world;
    world.set_threads(8);
    world.run_until(Instant::ZERO + experiment.base.duration);
    assert_eq!(world.partitions(), 8);
}

#[test]
fn probes_measure_what_the_path_is() {
    let points = run_with(0);
    let median = points[0].values("ping", "latency median");
    assert!(median.iter().all(|ms| (18.0..24.0).contains(ms)), "{median:?}");
    assert!(median.windows(2).any(|pair| (pair[0] - pair[1]).abs() > 1e-6), "the RTT is drawn");
    let goodput = points[0].values("cbr", "goodput");
    assert!(goodput.iter().all(|mbit| (1.9..2.1).contains(mbit)), "{goodput:?}");
    assert_eq!(points[0].values("cbr", "lost"), [0.0; 4]);
}

/// Two hosts and a link of 10 Mbit/s with a long queue, and flows between them.
fn two_hosts(settings: &str, flows: &str) -> Vec<PointResult> {
    let text = format!(
        "schema = 1\nname = \"two\"\nnodes = {{ a = {{}}, b = {{}} }}\n{settings}\n[links.l]\n\
         ends = [\"a\", \"b\"]\nrate = \"10mbit\"\n[qdisc]\n\"a.l\" = \"pfifo limit 10000\"\n{flows}"
    );
    let experiment = Experiment::parse("two.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(())).unwrap()
}

/// What a queue held when a flow stopped arrives later, and counts with the time that it takes.
#[test]
fn goodput_is_no_more_than_the_line_carries() {
    let flow =
        "[flows.u]\napp = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20mbit\"\nstop = \"1s\"\n";
    for count in [1, 4] {
        let points = two_hosts("duration = \"10s\"", &format!("{flow}count = {count}\n"));
        let goodput = points[0].values("u", "goodput")[0];
        assert!((9.0..10.0).contains(&goodput), "{count}: {goodput}");
    }
}

/// A flow that is alone in the group of its name is asked for what a flow has and for what a group has: each once.
#[test]
fn no_metric_comes_twice() {
    let query = "app = \"query\"\nfrom = \"a\"\nto = [\"b\"]\nrequest = 100\nresponse = 30000\n";
    let bulk = "app = \"bulk\"\nfrom = \"a\"\nto = \"b\"\ngroup = \"u\"\n";
    let flows = format!("[flows.q]\n{query}group = \"q\"\n[flows.u]\n{bulk}");
    let points = two_hosts("duration = \"2s\"", &flows);
    let metrics = &points[0].runs[0].metrics;
    let names: BTreeSet<_> = metrics.iter().map(|it| (&it.scope, &it.name)).collect();
    assert_eq!(names.len(), metrics.len());
    for (scope, metric) in [
        ("q", "latency median"),
        ("q", "timeouts total"),
        ("u", "goodput"),
        ("u", "throughput mean"),
    ] {
        assert_eq!(points[0].values(scope, metric).len(), 1, "{scope} {metric}");
    }
}

/// Of a part that is shorter than asked for, there is only so much.
#[test]
fn a_part_of_a_run_is_measured_by_its_own_length() {
    let measure = "duration = \"2s\"\n[measure]\nearly = \"20s\"\nsteps = \"1500ms\"";
    let flow = "[flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";
    let points = two_hosts(measure, flow);
    for metric in ["goodput", "early goodput", "throughput at 0 s", "throughput at 1.5 s"] {
        let mbit = points[0].values("f", metric)[0];
        assert!((9.0..10.0).contains(&mbit), "{metric}: {mbit}");
    }
}

/// There are more flows than ports behind that of the first client.
#[test]
fn no_two_flows_want_the_same_port() {
    let ports = |number: u16| [apps::client_port(number), apps::server_port(number)];
    let last = crate::plan::limits::FLOWS_MAX as u16 - 1;
    for number in 0..=last {
        let [client, server] = ports(number);
        assert!(client >= 1_024 && server >= 1_024, "{number}");
        // On one host there is the one or the other of a flow.
        assert!(client > apps::server_port(last) || client == server, "{number}: {client}");
    }
    let clients: BTreeSet<u16> = (0..=last).map(|it| ports(it)[0]).collect();
    assert_eq!(clients.len(), usize::from(last) + 1);
}

#[test]
fn a_stop_from_outside_ends_the_run() {
    let experiment = Experiment::parse("p.toml", PROBES, &[]).unwrap();
    let stop = AtomicBool::new(true);
    let options = Options::silent(&stop);
    let stopped = run(&experiment, &options, &|_, _, _| Ok(())).unwrap_err();
    assert!(matches!(stopped.error, Error::Stopped));
    assert_eq!((stopped.finished, stopped.runs), (0, 4));
}

/// However much happens between two samples: here a hundred thousand packets in a millisecond.
#[test]
fn a_stop_takes_effect_between_samples() {
    let text = r#"schema = 1
name = "much"
duration = "20s"
[nodes]
a = {}
b = {}
[links.wire]
ends = ["a", "b"]
rate = "1000gbit"
[flows.cbr]
app = "cbr"
from = "a"
to = "b"
rate = "1000gbit"
size = 1000
[measure]
sample = "10s"
"#;
    let experiment = Experiment::parse("p.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let options = Options::silent(&stop);
    let begun = std::time::Instant::now();
    thread::scope(|scope| {
        let run = scope.spawn(|| run(&experiment, &options, &|_, _, _| Ok(())));
        thread::sleep(std::time::Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let stopped = run.join().expect("no panic").unwrap_err();
        assert!(matches!(stopped.error, Error::Stopped));
    });
    // On any machine the 100 ms of virtual time until the next look took longer than that.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// What a switch has no memory for counts as dropped at the port that it was for, in the figures and in the series.
#[test]
fn drops_of_shared_memory_are_drops_of_the_port() {
    let text = PROBES
        .replace("role = \"router\"", "role = \"router\", buffer = 3000")
        .replace("rate = \"2mbit\"", "rate = \"40mbit\"");
    let experiment = Experiment::parse("p.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let options = Options { repetitions: Some(1), ..Options::silent(&stop) };
    let points = run(&experiment, &options, &|_, _, _| Ok(())).unwrap();
    let (drops, lost) = (points[0].values("r.wire", "drops"), points[0].values("cbr", "lost"));
    assert!(lost[0] > 100.0 && drops[0] >= lost[0], "{drops:?} {lost:?}");
}

/// A flow is explained with numbers that count from its first byte, as the rules of links do.
#[test]
fn explanations_count_from_the_first_byte_of_a_flow() {
    let text = "schema = 1\nname = \"t\"\nduration = \"2s\"\nnodes = { a = {}, b = {} }\n\
                [links.wire]\nends = [\"a\", \"b\"]\nrate = \"10mbit\"\nrtt = \"30ms\"\n\
                rules = [\"f off 100000 1 drop\"]\n\
                [flows.first]\napp = \"ping\"\nfrom = \"b\"\nto = \"a\"\n\
                [flows.upload]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nstart = \"1s\"\n";
    let experiment = Experiment::parse("t.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let options = Options::silent(&stop);
    let explained = |flow: &str| {
        let wanted = TraceOutputs { explain: vec![flow.into()], ..TraceOutputs::default() };
        run_plan(&experiment.base, "t", &Options { wanted: Some(&wanted), ..options })
    };
    let run = explained("up*").expect("it runs");
    let told = &run.explained[0].story;
    assert!(told.contains("  lost        99912..101360: "), "{told}");
    assert!(told.contains("  retransmit  99912..101360: "), "{told}");
    let unknown = explained("uplaod");
    assert!(matches!(unknown, Err(Error::Invalid(_))), "a mistake of the user's");
}

/// All that the viewer shows is recorded, and what is recorded does the same as what is not.
#[test]
fn what_is_recorded_for_the_viewer_changes_nothing() {
    let text = "schema = 1\nname = \"t\"\nduration = \"3s\"\nprofile = \"linux-6.1\"\n\
                [nodes]\na = {}\nb = {}\nl = { role = \"router\" }\nr = { role = \"router\" }\n\
                [routes.l]\nb = [\"one\", \"two\"]\n[routes.r]\na = [\"one\", \"two\"]\n\
                [links]\nnear = { ends = [\"a\", \"l\"], rate = \"100mbit\" }\n\
                one = { ends = [\"l\", \"r\"], rate = \"30mbit\", rtt = \"20ms\" }\n\
                two = { ends = [\"l\", \"r\"], rate = \"30mbit\", rtt = \"20ms\", events = [\"1500ms down\"] }\n\
                far = { ends = [\"r\", \"b\"], rate = \"100mbit\" }\n\
                [sysctl]\n\"net.ipv4.fib_multipath_hash_policy\" = 1\n\
                \"net.ipv4.conf.all.ignore_routes_with_linkdown\" = 1\n\
                [qdisc]\n\"b.far\" = \"cake bandwidth 400kbit ack-filter\"\n\
                [flows]\ndown = { app = \"bulk\", from = \"a\", to = \"b\", count = 8, spread = \"50ms\" }\n";
    let experiment = Experiment::parse("t.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let plain = run_plan(&experiment.base, "t", &Options::silent(&stop)).expect("it runs");
    let place = std::env::temp_dir().join(format!("ackwright-shown-{}", std::process::id()));
    let store = Store::create(&place).expect("a directory");
    let wanted = TraceOutputs { view: true, ..TraceOutputs::default() };
    let (wanted, store) = (Some(&wanted), Some(&store));
    let options = Options { store, wanted, ..Options::silent(&stop) };
    let seen = run_plan(&experiment.base, "t", &options).expect("it runs");
    assert_eq!(seen.fingerprint, plain.fingerprint);
    assert_eq!(seen.metrics, plain.metrics);
    assert_eq!(seen.series, plain.series);
    assert_eq!(seen.tc, plain.tc);
    assert!(seen.explained.is_empty(), "nobody asked to be told");
    assert!(plain.files.is_empty());

    let there = |name: &str| seen.files.iter().any(|file| file == name);
    for file in
        ["world.json", "rings.json", "link-l.one.parquet", "tin-b.far-1-Best_Effort.parquet"]
    {
        assert!(there(&format!("view/t/{file}")), "{file} among {:?}", seen.files);
    }
    assert!(there("pcap/t-a.near.pcapng") && there("explain/t-down-1.txt"), "{:?}", seen.files);
    let read = |name: &str| {
        let file = std::fs::File::open(place.join(format!("view/t/{name}.parquet"))).unwrap();
        store::read_series_file(file, name).unwrap()
    };
    let sum = |series: &crate::results::Series, name: &str| -> i64 {
        series.column(name).unwrap().values.iter().flatten().sum()
    };
    let tins = ["0-Bulk", "1-Best_Effort", "2-Voice"].map(|tin| read(&format!("tin-b.far-{tin}")));
    let filtered = read("acks-b.far");
    let counted: i64 = tins.iter().map(|tin| sum(tin, "ack_drops")).sum();
    assert!(counted > 100, "{counted} ACKs were filtered");
    assert_eq!(filtered.time_ns.len() as i64, counted);
    let shown = &seen.tc[0].json[0]["tins"];
    let by_tc: i64 = (0..3).map(|tin| shown[tin]["ack_drops"].as_i64().unwrap()).sum();
    assert_eq!(counted, by_tc);
    std::fs::remove_dir_all(&place).expect("ours");
}

/// What a socket holds when its flow stops still arrives, at the rate of the link and no faster.
#[test]
fn a_stopped_flow_is_no_faster_than_its_link() {
    for stop in ["300ms", "500ms", "1900ms"] {
        let text = format!(
            "schema = 1\nname = \"t\"\nduration = \"3s\"\nnodes = {{ a = {{}}, b = {{}} }}\n\
             [links.wire]\nends = [\"a\", \"b\"]\nrate = \"10mbit\"\nrtt = \"30ms\"\n\
             [flows.upload]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nstart = \"100ms\"\n\
             stop = \"{stop}\"\n"
        );
        let experiment = Experiment::parse("t.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        let idle = AtomicBool::new(false);
        let options = Options::silent(&idle);
        let points = run(&experiment, &options, &|_, _, _| Ok(())).expect("it runs");
        let goodput = points[0].values("upload", "goodput")[0];
        assert!((5.0..9.6).contains(&goodput), "{goodput} Mbit/s until {stop}");
    }
}

/// Three transfers one after the other share no moment: together they are no faster than the link.
#[test]
fn goodput_of_many_flows_is_their_bytes_over_their_time() {
    let flow = |name: &str, start: u32| {
        format!(
            "[flows.{name}]\napp = \"fixed\"\nbytes = \"1mb\"\nfrom = \"a\"\nto = \"b\"\n\
             start = \"{start}s\"\ngroup = \"all\"\n"
        )
    };
    let text = format!(
        "schema = 1\nname = \"turns\"\nduration = \"20s\"\nnodes = {{ a = {{}}, b = {{}} }}\n\
         [links.wire]\nends = [\"a\", \"b\"]\nrate = \"10mbit\"\nrtt = \"10ms\"\n{}{}{}\
         [measure]\nearly = \"1s\"\n",
        flow("one", 0),
        flow("two", 2),
        flow("three", 4)
    );
    let experiment = Experiment::parse("t.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let points = run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(())).unwrap();
    let value = |scope: &str, name: &str| points[0].values(scope, name)[0];
    let end = 4.0 + value("three", "transfer time");
    let megabits = 3.0 * f64::from(8 << 20) / 1e6;
    for scope in ["total", "all"] {
        let goodput = value(scope, "goodput");
        assert!((goodput - megabits / end).abs() < 0.01, "{scope}: {goodput} in {end} s");
    }
    assert!(value("all", "early goodput") < 10.0, "{}", value("all", "early goodput"));
    assert!(value("one", "goodput") > 8.0 && value("all", "throughput mean") > 8.0);
}

/// A warm-up that ends between two samples ends when it says.
#[test]
fn a_warm_up_ends_between_samples() {
    let text = "schema = 1\nname = \"warm\"\nduration = \"3s\"\nwarmup = \"1990ms\"\n\
                nodes = { a = {}, b = {} }\n[links.wire]\nends = [\"a\", \"b\"]\n\
                rate = \"10mbit\"\nrtt = \"10ms\"\n[flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
                [measure]\nsample = \"1s\"\n";
    let experiment = Experiment::parse("w.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let points = run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(())).unwrap();
    let goodput = points[0].values("f", "goodput")[0];
    assert!((8.0..10.0).contains(&goodput), "{goodput} Mbit/s over 10 Mbit/s");
}

/// A rate is that of the time in which it is counted, as goodput is.
#[test]
fn marks_per_second_begin_after_the_warm_up() {
    let marks = |settings: &str, stop: &str| {
        let text = format!(
            "schema = 1\nname = \"marks\"\nnodes = {{ a = {{}}, b = {{}} }}\n{settings}\n\
             [sysctl]\n\"net.ipv4.tcp_congestion_control\" = \"dctcp\"\n[links.l]\nends = [\"a\", \"b\"]\n\
             rate = \"10mbit\"\nrtt = \"5ms\"\n[qdisc]\n\"a.l\" = \"codel ce_threshold 1ms\"\n\
             [flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nstop = \"{stop}\"\n\
             [measure]\nqueues = [\"a.l\"]\n"
        );
        let experiment = Experiment::parse("m.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
        let stop = AtomicBool::new(false);
        let points = run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(())).unwrap();
        ["marks", "marks per second"].map(|metric| points[0].values("a.l", metric)[0])
    };
    let [all, rate] = marks("duration = \"4s\"", "4s");
    assert!(all > 100.0 && (rate - all / 4.0).abs() < 1e-9, "{all} {rate}");
    let [all, rate] = marks("duration = \"4s\"\nwarmup = \"2s\"", "1s");
    assert!(all > 30.0 && rate == 0.0, "{all}, and none after the warm-up: {rate}");
    let [_, rate] = marks("duration = \"4s\"\nwarmup = \"2s\"", "3s");
    let [_, whole] = marks("duration = \"3s\"\nwarmup = \"2s\"", "3s");
    // What waited when the flow stopped leaves later.
    assert!(rate > 10.0 && (0.0..40.0).contains(&(rate * 2.0 - whole)), "{rate} {whole}");
}

/// Two leaves and two spines; one link of leaf 1 fails for good.
const FAILURE: &str = r#"schema = 1
name = "failure"
duration = "3s"
[parameters]
converge = "10ms"
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts = 8
rate = "10mbit"
delay = "100us"
fabric_rate = "100mbit"
converge = "${converge}"
[topology.links]
"leaf-1-spine-1" = { events = ["500ms down"] }
[flows.all]
app = "fixed"
bytes = "1mb"
pair = "one-to-one"
from = "host-1-*"
to = "host-2-*"
"#;

/// Whether all transfers came to their end.
fn all_finish(text: &str) -> bool {
    let experiment = Experiment::parse("f.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let points = run(&experiment, &Options::silent(&stop), &|_, _, _| Ok(())).unwrap();
    points[0].runs[0].virtual_ns < experiment.base.duration.as_nanos()
}

/// The near end of a failed link goes round it by itself; the far spine drops what comes back until
/// all switches have heard of it.
#[test]
fn a_failed_link_is_bypassed_once_routes_have_converged() {
    assert!(all_finish(FAILURE));
    assert!(!all_finish(&FAILURE.replace("converge = \"${converge}\"\n", "")));
}
