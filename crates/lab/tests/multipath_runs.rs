//! Routers of the simulated world forward by the FIB, and heed links that fail and come back.

use std::sync::atomic::AtomicBool;

use lab::plan::Experiment;
use lab::results::RunResult;
use lab::run::{Options, run_plan};

/// UDP from A to B over two ways, 1000 datagrams a second and flow.
const WAYS: &str = r#"schema = 1
name = "ways"
duration = "4s"
[sysctl]
"net.ipv4.fib_multipath_hash_policy" = 1
"net.ipv4.conf.all.ignore_routes_with_linkdown" = 1
[nodes]
A = {}
B = {}
left = { role = "router" }
right = { role = "router" }
[links]
a = { ends = ["A", "left"] }
way1 = { ends = ["left", "right"], delay = "1ms" }
way2 = { ends = ["left", "right"], delay = "1ms" }
b = { ends = ["right", "B"] }
[routes]
left = { B = ["way1", "way2"] }
right = { A = ["way1", "way2"] }
[flows]
udp = { app = "cbr", from = "A", to = "B", rate = "8mbit", size = 1000, count = 8, stop = "3900ms" }
[measure]
queues = ["left.way1", "left.way2"]
"#;

fn run(text: &str) -> RunResult {
    let experiment =
        Experiment::parse("w.toml", text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let stop = AtomicBool::new(false);
    let options = Options::silent(&stop);
    let (plan, _) = experiment.plan(&experiment.points[0], 0, 1).expect("a plan");
    run_plan(&plan, "test", &options).unwrap_or_else(|error| panic!("{error}"))
}

fn metric(result: &RunResult, scope: &str, name: &str) -> f64 {
    let found = result.metrics.iter().find(|one| one.scope == scope && one.name == name);
    found.unwrap_or_else(|| panic!("no {scope} {name}")).value
}

fn lost(result: &RunResult) -> f64 {
    (1..=8).map(|flow| metric(result, &format!("udp-{flow}"), "lost")).sum()
}

#[test]
fn flows_spread_over_both_ways_and_nothing_is_lost() {
    let result = run(WAYS);
    assert!(lost(&result).abs() < 1e-9);
    let imbalance = metric(&result, "left", "imbalance");
    assert!((1.0..2.0).contains(&imbalance), "eight flows take both ways: {imbalance}");
}

/// Whatever takes the link down, only what was on it is lost, and afterwards it is used again.
#[test]
fn a_link_that_fails_is_avoided_at_once_and_used_again() {
    let administrator = WAYS.replace(
        "left = { role = \"router\" }\nright = { role = \"router\" }",
        "left = { role = \"router\", ip_at = [\"1s link set way1 down\", \"2s link set way1 up\"] }\n\
         right = { role = \"router\" }",
    );
    let wire = WAYS.replace(
        "way1 = { ends = [\"left\", \"right\"], delay = \"1ms\" }",
        "way1 = { ends = [\"left\", \"right\"], delay = \"1ms\", events = [\"1s down\", \"2s up\"] }",
    );
    for text in [administrator, wire] {
        let result = run(&text);
        // At most a millisecond of eight flows was in the air.
        assert!((1.0..=9.0).contains(&lost(&result)), "{}", lost(&result));
        let sent = ["left.way1", "left.way2"].map(|port| metric(&result, port, "sent"));
        assert!(sent[0] > 0.0 && sent[1] > sent[0], "{sent:?}");
        let before = run(WAYS);
        let undisturbed = metric(&before, "left.way1", "sent");
        assert!(
            (sent[0] - 0.744 * undisturbed).abs() < 0.02 * undisturbed,
            "{sent:?} {undisturbed}"
        );
    }
}

/// Without `ignore_routes_with_linkdown` a lost carrier changes no route: flows on it are lost.
#[test]
fn a_lost_carrier_counts_only_where_the_sysctl_says_so() {
    let kept = WAYS.replace("linkdown\" = 1", "linkdown\" = 0").replace(
        "way1 = { ends = [\"left\", \"right\"],",
        "way1 = { events = [\"1s down\", \"2s up\"], ends = [\"left\", \"right\"],",
    );
    let lost = lost(&run(&kept));
    assert!(lost > 500.0, "{lost} of those on way1 in a second");
}

#[test]
fn a_route_replaced_while_it_runs_takes_the_packets_with_it() {
    let moved = WAYS.replace(
        "left = { role = \"router\" }\nright",
        "left = { role = \"router\", ip = [\"route add 10.0.0.12/30 dev way1\"], ip_at = [\"2s route replace 10.0.0.12/30 dev way2\"] }\nright",
    );
    let moved = moved.replace("left = { B = [\"way1\", \"way2\"] }\n", "");
    let result = run(&moved);
    assert!(lost(&result).abs() < 1e-9);
    let sent = ["left.way1", "left.way2"].map(|port| metric(&result, port, "sent"));
    assert!((sent[0] / sent[1] - 2.0 / 1.9).abs() < 0.01, "{sent:?}");
}

#[test]
fn a_line_that_would_fail_later_is_reported_before_anything_runs() {
    let wrong = WAYS.replace(
        "left = { role = \"router\" }\nright",
        "left = { role = \"router\", ip_at = [\"2s route del 9.0.0.0/8\"] }\nright",
    );
    let faults = Experiment::parse("w.toml", &wrong, &[]).expect_err("there is no such route");
    assert!(faults.to_string().contains("No such process"), "{faults}");
}
