//! Packets that carry bytes, which change nothing.

use super::*;

const EVERYTHING: &str = r#"schema = 1
name = "everything"
duration = "8s"
[sysctl]
"net.ipv4.tcp_ecn" = 1
[nodes]
a = {}
r = { role = "router" }
b = {}
c = {}
[links.access]
ends = ["a", "r"]
rate = "100mbit"
[links.wire]
ends = ["r", "b"]
rate = "10mbit"
rtt = "20ms"
mtu = 1300
loss = "0.5%"
corrupt = "0.5%"
duplicate = "0.5%"
reorder = "1%"
reorder_by = "5ms"
[links.other]
ends = ["r", "c"]
rate = "20mbit"
[qdisc]
"r.wire" = "cake bandwidth 9mbit"
[flows]
bulk = { app = "bulk", from = "a", to = "b", stop = "5s" }
fixed = { app = "fixed", from = "b", to = "a", bytes = "300kb" }
chunk = { app = "chunk", from = "a", to = "c", chunk = 3000, gap = "20ms" }
asks = { app = "request", from = "b", to = "c", request = 300, response = 20000 }
all = { app = "query", from = "a", to = ["b", "c"], request = 100, response = 30000 }
cbr = { app = "cbr", from = "a", to = "b", rate = "1mbit", size = 1400 }
probe = { app = "probe", from = "b", to = "a", interval = "10ms" }
ping = { app = "ping", from = "c", to = "b", interval = "10ms" }
[workload.web]
size = "exponential 30kb"
load = 0.05
stop = "3s"
"#;

/// Packets that carry bytes: all that is read is compared, and nothing else is other than without.
#[test]
fn bytes_are_compared_and_change_nothing() {
    let experiment = Experiment::parse("e.toml", EVERYTHING, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let run = |plan: &Plan| run_plan(plan, "e", &Options::silent(&stop)).expect("it runs");
    let without = run(&experiment.base);
    let with = run(&Plan { bytes: true, ..experiment.base.clone() });
    assert_eq!(with.fingerprint, without.fingerprint);
    assert_eq!(with.series, without.series);
    assert_eq!((&with.flows, &with.tc), (&without.flows, &without.tc));
    let (bytes, others): (Vec<_>, Vec<_>) =
        with.metrics.into_iter().partition(|metric| metric.scope == "bytes");
    assert_eq!(others, without.metrics);
    let of = |name: &str| bytes.iter().find(|metric| metric.name == name).expect("a metric").value;
    assert!(of("streams") >= 8.0 && of("whole streams") >= 2.0, "{bytes:?}");
    assert!(of("compared") > 5e6 && of("datagrams") > 1_000.0, "{bytes:?}");
}

/// Requests and answers of an incast in a closed loop carry bytes as well, and all of them are compared.
#[test]
fn an_incast_in_a_closed_loop_carries_bytes() {
    let text = "schema = 1\nname = \"w\"\nduration = \"5s\"\nbytes = true\n[topology]\nkind = \"star\"\nhosts = 4\n\
                rate = \"1gbit\"\ndelay = \"20us\"\n[workload.w]\narrivals = \"closed\"\nmatrix = \"incast 2\"\n\
                clients = \"host-1\"\nsize = \"fixed 40kb\"\nrequests = 20\nrequest = 700\n";
    let experiment = Experiment::parse("w.toml", text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let run = run_plan(&experiment.base, "w", &Options::silent(&stop)).unwrap();
    let compared = run.metrics.iter().find(|it| (&*it.scope, &*it.name) == ("bytes", "compared"));
    assert_eq!(compared.map(|it| it.value), Some(20.0 * (40.0 * 1_024.0 + 2.0 * 700.0)));
}
