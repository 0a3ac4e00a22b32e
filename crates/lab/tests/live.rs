//! Live runs: real packets by this machine's clock. As root, or where users may make namespaces; elsewhere
//! each says that it is skipped.
#![cfg(all(feature = "live", target_os = "linux"))]

use std::sync::atomic::AtomicBool;

use lab::plan::{Experiment, Stack};
use lab::results::RunResult;
use lab::run::{Live, Options, run_plan};

const PATH: &str = r#"
schema = 1
name = "live"
title = "live"
duration = "3s"
warmup = "1s"
[nodes.A]
[nodes.R]
role = "router"
[nodes.B]
[links.near]
ends = ["A", "R"]
rate = "100mbit"
[links.far]
ends = ["R", "B"]
rate = "10mbit"
rtt = "20ms"
[qdisc]
"R.far" = "fq_codel"
[flows.bulk]
app = "bulk"
from = "A"
to = "B"
[flows.probe]
app = "probe"
from = "B"
to = "A"
[flows.ping]
app = "ping"
from = "B"
to = "A"
"#;

/// The run, or nothing where this machine makes no namespaces.
fn run_on(stack: Stack, text: &str) -> Option<RunResult> {
    if live::netns::Namespace::new().is_err() {
        eprintln!("SKIPPED: no right to make namespaces");
        return None;
    }
    let experiment = Experiment::parse("live.toml", text, &[]).expect("a right file");
    let stop = AtomicBool::new(false);
    let live = Some(Live { stack: Some(stack) });
    let options = Options { live, ..Options::silent(&stop) };
    Some(run_plan(&experiment.base, "live", &options).expect("a run"))
}

fn metric(run: &RunResult, scope: &str, name: &str) -> f64 {
    let found = run.metrics.iter().find(|one| one.scope == scope && one.name == name);
    found.unwrap_or_else(|| panic!("no metric {scope} {name}: {:?}", run.metrics)).value
}

/// What both stacks owe: the rate of the link is used and never exceeded, and nothing comes sooner than its
/// delay lets it. How late things are is this machine's load.
fn check(run: &RunResult) {
    let goodput = metric(run, "bulk", "goodput");
    assert!(goodput > 5.0 && goodput < 9.8, "{goodput} Mbit/s of 10");
    for flow in ["probe", "ping"] {
        let least = metric(run, flow, "latency min");
        assert!((20.0..60.0).contains(&least), "{flow}: {least} ms over 20 ms");
    }
    assert!(metric(run, "live", "packets to devices") > 1_000.0);
    assert!(metric(run, "live", "packets from devices") > 1_000.0);
    assert!(run.series.iter().any(|series| series.name == "port-R.far"), "queues are sampled");
    assert!(run.tc.iter().any(|tc| tc.text.contains("fq_codel")));
}

#[test]
fn our_stack_at_both_ends() {
    if let Some(run) = run_on(Stack::Ours, PATH) {
        check(&run);
        let series = run.series.iter().find(|series| series.name == "flow-bulk").expect("there");
        let window = series.columns.iter().find(|column| column.name == "cwnd_segments");
        assert!(window.expect("there").values.iter().flatten().any(|cwnd| *cwnd > 10));
    }
}

#[test]
fn the_kernels_stack_at_both_ends() {
    if let Some(run) = run_on(Stack::Kernel, PATH) {
        check(&run);
    }
}

#[test]
fn real_programs_run_between_the_hosts() {
    let program = r#"
[flows.echo]
app = "program"
from = "A"
to = "B"
start = "200ms"
program = ["python3", "-c", "import socket;s=socket.create_connection(('{to}',{port}));s.sendall(b'hello');print(s.recv(9).decode())"]
server = ["python3", "-c", "import socket;l=socket.create_server(('{to}',{port}));c,_=l.accept();c.sendall(c.recv(9).upper());c.close()"]
"#;
    let text = format!("{PATH}{program}").replace("duration = \"3s\"", "duration = \"4s\"");
    let text = text
        .replace("[nodes.A]", "[nodes.A]\nstack = \"kernel\"")
        .replace("[nodes.B]", "[nodes.B]\nstack = \"kernel\"");
    if let Some(run) = run_on(Stack::Kernel, &text) {
        let flow = run.flows.iter().find(|flow| flow.name == "echo");
        assert!(flow.is_none_or(|flow| flow.end_ns.is_none_or(|end| end > 200_000_000)));
        check(&run);
    }
}
