//! Plans as they are written.

mod devices;
mod faults;
mod flows;
mod plots;
mod routes;
mod topology;
mod varying;
mod workload;

use super::*;
use datapath::fib::Features;
use datapath::profile::{DctcpAck, LostRetransmit};
use datapath::units::{Duration, Rate};

/// A small valid experiment.
const GOOD: &str = r#"schema = 1
name = "demo"
duration = "10s"
repetitions = 3

[parameters]
burst = "64kb"
rtt = "20ms"

[sysctl]
"net.ipv4.tcp_sack" = 1

[nodes.a]
[nodes.r]
role = "router"
[nodes.b]
profile = "linux-6.1"

[links.access]
ends = ["a", "r"]
rate = "1gbit"
[links.wire]
ends = ["r", "b"]
rate = "1gbit"
rtt = "${rtt}"

[police]
"r.access" = "rate 500mbit burst ${burst} mtu 2kb drop"

[qdisc]
"r.wire" = "pfifo limit 1000"

[flows.bulk]
app = "fixed"
from = "a"
to = "b"
bytes = "1gb"

[measure]
pcap = ["a.access"]

[sweep]
burst = ["64kb", "1mb"]

[sweep.kernel]
"old" = { profile = "linux-2.6.22", lost_retransmit = "highest-sack", sack_fast_path = true, forward_retransmits = true, initial_ssthresh = 140 }
"new" = { profile = "linux-7.x" }

[draw]
rtt = { uniform = ["19ms", "21ms"] }
"#;

/// What is replaced by what, where the fault is, what it says, which word it suggests.
type FaultRow = (&'static str, &'static str, (usize, usize), &'static str, Option<&'static str>);

fn good() -> Experiment {
    Experiment::parse("demo.toml", GOOD, &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

/// The one fault that arises when `from` is replaced by `to` in the good file.
fn fault(from: &str, to: &str) -> Diagnostic {
    assert!(GOOD.contains(from), "{from} is not in the file");
    let text = GOOD.replacen(from, to, 1);
    let faults = Experiment::parse("demo.toml", &text, &[]).expect_err("it was accepted");
    faults.0[0].clone()
}

#[test]
fn a_good_file_becomes_a_plan() {
    let plan = good().base;
    assert_eq!(plan.nodes.len(), 3);
    assert_eq!(plan.nodes[0].profile.name, "linux-7.x");
    assert_eq!(plan.nodes[2].profile.name, "linux-6.1");
    assert_eq!(plan.nodes[0].sysctls[0].value, "1");
    assert_eq!(plan.links[1].directions[0].delay.as_millis(), 10);
    assert_eq!(plan.links[1].directions[1].delay.as_millis(), 10);
    let police = plan.links[0].ports[1].police.as_deref();
    assert_eq!(police, Some("rate 500mbit burst 64kb mtu 2kb drop"));
    assert_eq!(plan.flows[0].app, App::Fixed { bytes: 1 << 30 });
    assert_eq!(plan.measure.queues, [(1, 0)]);
    assert_eq!(plan.port_name(1, 0), "r.wire");
    assert_eq!(plan.paths.links(0, 2), [0]);
    assert_eq!(plan.paths.links(1, 2), [1]);
}

#[test]
fn a_sweep_is_a_grid_and_its_points_differ() {
    let experiment = good();
    let slugs: Vec<String> =
        experiment.points.iter().map(|point| point.slug().to_owned()).collect();
    assert_eq!(slugs, ["64kb-old", "64kb-new", "1mb-old", "1mb-new"]);
    let (plan, _) = experiment.plan(&experiment.points[2], 0, 1).unwrap();
    assert_eq!(plan.nodes[0].profile.name, "linux-2.6.22");
    assert_eq!(plan.nodes[2].profile.name, "linux-6.1", "a node's own word wins");
    assert_eq!(plan.nodes[0].lost_retransmit, Some(LostRetransmit::HighestSack));
    assert!(plan.nodes[0].sack_fast_path && plan.nodes[0].forward_retransmits);
    assert_eq!(plan.nodes[0].initial_ssthresh.map(u32::from), Some(140));
    assert!(plan.links[0].ports[1].police.as_ref().unwrap().contains("burst 1mb"));
}

#[test]
fn repetitions_draw_their_own_values_and_points_share_them() {
    let experiment = good();
    let rtt = |point: usize, repetition: u32| {
        let (_, drawn) = experiment.plan(&experiment.points[point], repetition, 7).unwrap();
        quantity::time(&drawn[0].plain()).unwrap().as_nanos()
    };
    assert_ne!(rtt(0, 0), rtt(0, 1));
    assert_eq!(rtt(0, 1), rtt(3, 1));
    assert!((0..100).all(|repetition| (19_000_000..=21_000_000).contains(&rtt(0, repetition))));
}

#[test]
fn settings_replace_parameters_and_keys() {
    let settings = ["rtt=30ms", "flows.bulk.bytes=1000", "net.ipv4.tcp_sack=0"].map(String::from);
    let set = |settings: &[String]| Experiment::parse("demo.toml", GOOD, settings);
    let plan = set(&settings[..2]).unwrap().base;
    assert_eq!(plan.links[1].directions[0].delay.as_millis(), 15);
    assert_eq!(plan.flows[0].app, App::Fixed { bytes: 1000 });
    let plan = set(&["sysctl.net.ipv4.tcp_sack=0".into()]).unwrap().base;
    assert_eq!(plan.nodes[0].sysctls[0].value, "0");
    let wrong = set(&["flows.bulk.byte=1".into()]).unwrap_err();
    assert_eq!(
        wrong.0[0].to_string(),
        "--set flows.bulk.byte=1: unknown key \"byte\"; did you mean \"bytes\"?"
    );
    assert!(set(&["nonsense".into()]).unwrap_err().to_string().contains("KEY=VALUE"));
}

#[test]
fn a_setting_pins_an_axis_of_the_sweep() {
    let set = |setting: &str| Experiment::parse("demo.toml", GOOD, &[setting.into()]);
    let slugs = |experiment: Experiment| -> Vec<String> {
        experiment.points.iter().map(|point| point.slug().to_owned()).collect()
    };
    assert_eq!(slugs(set("burst=1mb").unwrap()), ["1mb-old", "1mb-new"]);
    assert_eq!(slugs(set("kernel=new").unwrap()), ["64kb-new", "1mb-new"]);
    let pinned = set("burst=2mb").unwrap();
    let (plan, _) = pinned.plan(&pinned.points[0], 0, 1).unwrap();
    assert!(plan.links[0].ports[1].police.as_ref().unwrap().contains("burst 2mb"));
    let wrong = set("kernel=nwe").unwrap_err();
    assert_eq!(wrong.0[0].help.as_deref(), Some("did you mean \"new\"?"));
}

/// A key of an axis may have quotes around parts with a dot, as in a file and with `--set`; they are no part of what is set.
#[test]
fn swept_keys_may_have_quotes_inside() {
    let key = r#""qdisc.\"r.wire\"""#;
    let steps = |exclude: &str, settings: &[String]| {
        let axis = format!("{exclude}{key} = [\"fq\", \"cake\"]");
        let text = GOOD
            .replace("burst = [\"64kb\", \"1mb\"]", &axis)
            .replace("\"new\" = {", &format!("\"new\" = {{ {key} = \"codel\","));
        let experiment = Experiment::parse("demo.toml", &text, settings);
        let experiment = experiment.unwrap_or_else(|faults| panic!("{faults}"));
        let qdisc = |point| {
            let (plan, _) = experiment.plan(point, 0, 1).unwrap();
            plan.links[1].ports[0].qdiscs.concat()
        };
        experiment.points.iter().map(qdisc).collect::<Vec<_>>()
    };
    assert_eq!(steps("", &[]), ["fq", "codel", "cake", "codel"]);
    for setting in ["qdisc.\"r.wire\"=pfifo", "qdisc.r.wire=pfifo"] {
        assert_eq!(steps("", &[setting.into(), "kernel=old".into()]), ["pfifo"], "{setting}");
    }
    for excluded in [key, "\"qdisc.r.wire\""] {
        let exclude = format!("exclude = [{{ {excluded} = \"fq\" }}]\n");
        assert_eq!(steps(&exclude, &["kernel=old".into()]), ["cake"], "{excluded}");
    }
}

#[test]
fn the_readme_shows_a_valid_experiment() {
    let readme = include_str!("../../../../README.md");
    let text = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let experiment = Experiment::parse("README.md", text.expect("an experiment"), &[]);
    assert_eq!(experiment.unwrap_or_else(|faults| panic!("{faults}")).base.flows.len(), 1);
}

/// Points that are left out, by the labels of one axis or of several.
#[test]
fn a_sweep_leaves_out_what_is_excluded() {
    let sweep = |exclude: &str| {
        let text = GOOD.replace("[sweep]\n", &format!("[sweep]\nexclude = [{exclude}]\n"));
        let labels = |experiment: Experiment| -> Vec<String> {
            let all = experiment.points.iter().map(|point| point.slug().to_owned());
            all.collect()
        };
        Experiment::parse("demo.toml", &text, &[]).map(labels)
    };
    assert_eq!(
        sweep("{ burst = \"1mb\", kernel = \"old\" }").unwrap(),
        ["64kb-old", "64kb-new", "1mb-new"]
    );
    assert_eq!(sweep("{ burst = \"1mb\" }").unwrap(), ["64kb-old", "64kb-new"]);
    for (exclude, what) in [
        ("{ burst = \"2mb\" }", "the axis \"burst\" has no \"2mb\""),
        ("{ brst = \"1mb\" }", "did you mean \"burst\"?"),
        ("{ }", "leave out all points"),
        ("{ burst = \"1mb\" }, { burst = \"64kb\" }", "excludes every point"),
    ] {
        let fault = sweep(exclude).unwrap_err().to_string();
        assert!(fault.contains(what), "{exclude}: {fault}");
    }
}
