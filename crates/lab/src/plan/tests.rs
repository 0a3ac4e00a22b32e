//! Plans as they are written, and every kind of fault with its place.

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
"old" = { profile = "linux-2.6.22", lost_retransmit = "highest-sack" }
"new" = { profile = "linux-7.x" }

[draw]
rtt = { uniform = ["19ms", "21ms"] }
"#;

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
    assert_eq!(plan.ways.links(0, 2), [0]);
    assert_eq!(plan.ways.links(1, 2), [1]);
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

/// What is replaced by what, where the fault is, what it says, which word it suggests.
type FaultRow = (&'static str, &'static str, (usize, usize), &'static str, Option<&'static str>);

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

#[test]
fn faults_name_line_column_and_the_nearest_word() {
    let table: [FaultRow; 21] = [
        ("schema = 1", "schema = 2", (1, 10), "schema 1", None),
        ("duration", "durration", (3, 1), "unknown key", Some("duration")),
        ("[nodes.b]", "[node.b]", (16, 2), "unknown key", Some("nodes")),
        ("linux-6.1\"", "linux-6.2\"", (17, 11), "not a valid profile", Some("linux-6.1")),
        ("tcp_sack", "tcp_sak", (11, 1), "no sysctl", Some("net.ipv4.tcp_sack")),
        ("tcp_sack\" = 1", "tcp_sack\" = 7", (11, 23), "from 0 to 1", None),
        ("\"router\"", "\"ruter\"", (15, 8), "not a valid role", Some("router")),
        ("[\"a\", \"r\"]", "[\"a\", \"x\"]", (20, 14), "no node is called \"x\"", None),
        ("[\"a\", \"r\"]", "[\"a\", \"a\"]", (20, 8), "two different", None),
        ("[\"a\", \"r\"]", "[\"a\"]", (20, 8), "two ends", None),
        ("rate = \"1gbit\"", "rate = \"-1gbit\"", (21, 8), "negative", None),
        ("rate = \"1gbit\"", "rate = \"1gbitt\"", (21, 8), "not a unit", None),
        ("rate = \"1gbit\"", "rate = 5", (21, 8), "no unit", None),
        ("rate = \"1gbit\"", "mtu = 0", (21, 7), "68 or more", None),
        ("${rtt}", "${rrt}", (25, 10), "no parameter", Some("rtt")),
        ("\"r.access\"", "\"r.acess\"", (28, 1), "no port", Some("r.access")),
        ("pfifo limit", "pffo limit", (31, 13), "", Some("pfifo")),
        ("\"fixed\"", "\"fixd\"", (34, 7), "not a valid app", Some("fixed")),
        ("to = \"b\"", "to = \"c\"", (36, 6), "no node is called \"c\"", None),
        ("bytes = \"1gb\"", "start = \"10s\"", (33, 2), "", None),
        ("uniform", "normal", (50, 7), "a draw is", None),
    ];
    for (from, to, position, message, word) in table {
        let fault = fault(from, to);
        let context = format!("{from} -> {to}: {fault}");
        assert_eq!(fault.position.map(|(line, _)| line), Some(position.0), "{context}");
        if !message.is_empty() {
            assert_eq!(fault.position, Some(position), "{context}");
        }
        assert!(fault.message.contains(message), "{context}");
        if let Some(word) = word {
            assert!(fault.help.as_deref().unwrap_or("").contains(word), "{context}");
        }
    }
}

#[test]
fn devices_cut_and_merge_as_their_nodes_say() {
    let with = |words: &str| {
        let text = GOOD.replacen("[nodes.b]", &format!("[nodes.b]\n{words}"), 1);
        Experiment::parse("demo.toml", &text, &[])
    };
    let words = "offload = \"nic\"\ngro = \"on\"\nrx_usecs = 50\nsysctl.net.ipv4.ipfrag_time = 5";
    let plan = with(words).unwrap_or_else(|faults| panic!("{faults}")).base;
    let of = |node: usize| {
        let node = &plan.nodes[node];
        (node.offload, node.gro, node.rx_usecs)
    };
    assert_eq!((of(0), of(2)), ((Offload::Off, false, 0), (Offload::Nic, true, 50)));
    assert_eq!(plan.nodes[2].sysctls.last().expect("one").name, "net.ipv4.ipfrag_time");
    for (words, message) in [
        ("gro = \"of\"", "\"on\" or \"off\""),
        ("rx_usecs = -1", "\"rx_usecs\" must be 0 or more"),
        ("rx_usecs = 2000000", "\"rx_usecs\" must be"),
        ("offload = \"card\"", "not a valid offload"),
        ("sysctl.net.ipv4.ipfrag_time = \"soon\"", "whole number"),
        ("sysctl.net.ipv4.ipfrag_tim = 3", "no sysctl"),
    ] {
        let faults = with(words).unwrap_err();
        assert!(faults.0[0].message.contains(message), "{words}: {}", faults.0[0]);
    }
}

#[test]
fn qdiscs_can_be_trees() {
    let tree = |second: &str| {
        let list = format!("[\"root handle 1: prio bands 3\", \"{second}\"]");
        let text = GOOD.replacen("\"pfifo limit 1000\"", &list, 1);
        Experiment::parse("demo.toml", &text, &[])
    };
    let good = tree("parent 1:1 fq_codel").unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(good.base.links[1].ports[0].qdiscs.len(), 2);
    let fault = &tree("parent 1:9 fq_codel").unwrap_err().0[0];
    assert_eq!(fault.position, Some((31, 44)), "{fault}");
    let fault = &tree("parent 1:1 fq_codle").unwrap_err().0[0];
    assert_eq!(fault.position, Some((31, 56)), "{fault}");
}

#[test]
fn trouble_on_links_is_read_per_direction() {
    let trouble = "rtt = \"${rtt}\"\nloss = \"0.1%\"\nrules = [\"f data 100 drop\"]\n\
                   [links.wire.backward]\nloss = \"50%\"\nrate = \"1mbit\"";
    let text = GOOD.replacen("rtt = \"${rtt}\"", trouble, 1);
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap().base;
    let [forward, backward] = &plan.links[1].directions;
    assert_eq!((forward.loss, backward.loss), (1_000, 500_000));
    assert_eq!(backward.rate.unwrap().bits_per_sec(), 1_000_000);
    assert_eq!(backward.delay.as_millis(), 10);
    assert_eq!((forward.rules.len(), backward.rules.len()), (1, 1));
    let bad = text.replace("f data 100 drop", "f data 100 dorp");
    let fault = &Experiment::parse("demo.toml", &bad, &[]).unwrap_err().0[0];
    assert_eq!(fault.position, Some((27, 10)));
}

#[test]
fn an_invalid_point_of_a_sweep_is_found_before_anything_runs() {
    let fault = fault("{ profile = \"linux-7.x\" }", "{ profile = \"linux-7.y\" }");
    assert_eq!(fault.position, Some((47, 21)));
    assert_eq!(fault.help.as_deref(), Some("did you mean \"linux-7.x\"?"));
}

#[test]
fn all_faults_are_told_at_once() {
    let text = GOOD.replace("duration", "duratoin").replace("\"fixed\"", "\"fixd\"");
    let faults = Experiment::parse("demo.toml", &text, &[]).unwrap_err();
    assert_eq!(faults.0.len(), 2, "{faults}");
}

#[test]
fn the_readme_shows_a_valid_experiment() {
    let readme = include_str!("../../../../README.md");
    let text = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let experiment = Experiment::parse("README.md", text.expect("an experiment"), &[]);
    assert_eq!(experiment.unwrap_or_else(|faults| panic!("{faults}")).base.flows.len(), 1);
}

/// A triangle of routers between two hosts.
const LOOP: &str = r#"schema = 1
name = "loop"
nodes = { a = {}, b = {}, r1 = { role = "router" }, r2 = { role = "router" }, r3 = { role = "router" } }
[links]
l1 = { ends = ["a", "r1"], delay = "1ms" }
l2 = { ends = ["r1", "r2"] }
l3 = { ends = ["r2", "r3"] }
l4 = { ends = ["r3", "r1"] }
l5 = { ends = ["r2", "b"] }
[flows.f]
app = "bulk"
from = "a"
to = "b"
"#;

#[test]
fn a_loop_needs_routes() {
    let fault = &Experiment::parse("l.toml", LOOP, &[]).unwrap_err().0[0];
    assert!(fault.message.contains("form a loop"), "{fault}");
    assert!(fault.message.contains("\"r1\" has no route to \"b\""), "{fault}");

    let routed = format!("{LOOP}[routes.r1]\nb = \"l2\"\n[routes.r2]\na = \"l2\"\n");
    let plan = Experiment::parse("l.toml", &routed, &[]).unwrap().base;
    assert_eq!(plan.ways.links(2, 1), [1]);

    let circle = format!(
        "{LOOP}[routes.r1]\nb = \"l4\"\n[routes.r3]\nb = \"l4\"\n[routes.r2]\na = \"l2\"\n"
    );
    let fault = &Experiment::parse("l.toml", &circle, &[]).unwrap_err().0[0];
    assert!(fault.message.contains("run in a circle"), "{fault}");
}

#[test]
fn a_host_without_a_way_is_told() {
    let text = LOOP.replace("l5 = { ends = [\"r2\", \"b\"] }\n", "");
    let fault = &Experiment::parse("l.toml", &text, &[]).unwrap_err().0[0];
    assert!(fault.message.contains("no way from"), "{fault}");
}

#[test]
fn every_application_is_read_and_misses_what_it_needs() {
    let table: [(&str, &str, App); 6] = [
        (
            "chunk",
            "chunk = \"1kb\"\ngap = \"1ms\"",
            App::Chunk { chunk: 1024, gap: Duration::from_millis(1), bytes: None },
        ),
        (
            "request",
            "request = 1\nresponse = 2\nrequests = 3",
            App::Request { request: 1, response: 2, think: Duration::ZERO, count: Some(3) },
        ),
        (
            "on-off",
            "on = \"1s\"\noff = \"2s\"",
            App::OnOff { on: Duration::from_secs(1), off: Duration::from_secs(2) },
        ),
        ("cbr", "rate = \"1mbit\"", App::Cbr { rate: Rate::from_mbit(1), size: 1200 }),
        ("ping", "", App::Ping { interval: Duration::from_millis(200), size: 56 }),
        ("probe", "size = 1", App::Probe { interval: Duration::from_millis(20), size: 1 }),
    ];
    let with = |app: &str, keys: &str| {
        let text = GOOD.replacen("app = \"fixed\"", &format!("app = \"{app}\""), 1).replacen(
            "bytes = \"1gb\"",
            keys,
            1,
        );
        Experiment::parse("demo.toml", &text, &[])
    };
    for (name, keys, app) in table {
        let plan = with(name, keys).unwrap_or_else(|faults| panic!("{faults}")).base;
        assert_eq!(plan.flows[0].app, app);
        let first = keys.split(" = ").next().unwrap_or("");
        if !["", "size"].contains(&first) {
            let fault = &with(name, "").unwrap_err().0[0];
            assert_eq!(fault.message, format!("\"{first}\" is missing"), "{name}");
        }
    }
}

#[test]
fn rrul_is_eight_streams_and_four_probes() {
    let text = GOOD.replace("app = \"fixed\"", "app = \"rrul\"").replace("bytes = \"1gb\"", "");
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap().base;
    assert_eq!(plan.flows.len(), 12);
    assert_eq!(plan.flows.iter().filter(|flow| flow.app.is_tcp()).count(), 8);
    assert_eq!(plan.flows[3].tos, 0xb8);
    assert_eq!(plan.flows[4].from, plan.flows[0].to);
}

proptest::proptest! {
    /// Whatever stands in a file: a plan or faults, never a panic.
    #[test]
    fn garbage_never_panics(at in 0usize..2000, what in "[\\PC\n]{0,12}") {
        let mut text = GOOD.to_string();
        let mut at = at % text.len();
        while !text.is_char_boundary(at) { at -= 1; }
        text.insert_str(at, &what);
        let _ = Experiment::parse("demo.toml", &text, &[]);
    }
}

/// Two routers joined twice.
const MULTIPATH: &str = r#"schema = 1
name = "ways"
duration = "10s"
mp_algo = "l4"
[nodes.a]
[nodes.b]
[nodes.left]
role = "router"
ip = ["route add 10.0.0.12/30 nexthop dev way1 nexthop dev way2 weight 3"]
ip_at = ["3s route replace 10.0.0.12/30 dev way1", "2s link set way1 down"]
[nodes.right]
role = "router"
[nodes.right.sysctl]
"net.ipv4.fib_multipath_hash_policy" = 1
net.ipv6.fib_multipath_hash_policy = 3
[links.a]
ends = ["a", "left"]
[links.way1]
ends = ["left", "right"]
events = ["5s up", "4s down"]
[links.way2]
ends = ["left", "right"]
[links.b]
ends = ["right", "b"]
[routes.right]
a = ["way1", "way2"]
[flows.bulk]
app = "bulk"
from = "a"
to = "b"
also = ["a"]
address = "10.0.0.14"
"#;

#[test]
fn a_plan_says_which_links_share_a_load_and_what_happens_to_them() {
    let plan = Experiment::parse("w.toml", MULTIPATH, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    assert_eq!(plan.nodes[3].mp_algo, datapath::fib::Algorithm::L4);
    assert_eq!(plan.ways.links(3, 0), [1, 2]);
    assert!(plan.nodes[2].has_own_routes() && !plan.nodes[3].has_own_routes());
    assert_eq!(plan.nodes[2].at[0], (Duration::from_secs(2), "link set way1 down".to_owned()));
    let sysctls = ["ipv4.fib_multipath_hash_policy=1", "ipv6.fib_multipath_hash_policy=3"];
    assert_eq!(plan.nodes[3].ip, sysctls.map(|line| format!("sysctl net.{line}")));
    let events = [(Duration::from_secs(4), false), (Duration::from_secs(5), true)];
    assert_eq!(plan.links[1].events, events);
    assert_eq!((plan.flows[0].also.as_slice(), plan.flows[0].address.is_some()), (&[0][..], true));
}

#[test]
fn words_of_ip_are_checked_where_they_stand() {
    let table: [FaultRow; 11] = [
        ("weight 3", "weight 0", (9, 72), "\"weight\" is invalid", None),
        ("dev way2 weight", "dev wya2 weight", (9, 60), "Cannot find device", Some("way2")),
        ("3s route", "3 route", (10, 10), "3", Some("a time comes first")),
        ("replace 10.0.0.12/30 dev", "replace 10.0.0.12/30 vai", (10, 41), "garbage", Some("via")),
        ("_policy\" = 1", "_policy\" = 9", (11, 1), "the policy is 0, 1, 2 or 3", None),
        ("_hash_policy", "_hash_polcy", (11, 1), "cannot stat", Some("policy")),
        (
            "v6.fib_multipath_hash_policy",
            "v6.fib_multipath_hash_seed",
            (11, 1),
            "cannot stat",
            Some("net.ipv4.fib_multipath_hash_seed"),
        ),
        ("5s up", "5s on", (20, 11), "neither \"up\" nor \"down\"", None),
        (
            "\"way1\", \"way2\"]\n[flows",
            "\"way1\", \"b2\"]\n[flows",
            (26, 14),
            "no link \"b2\"",
            None,
        ),
        ("\"l4\"", "\"l5\"", (4, 11), "not a valid mp_algo", Some("l4")),
        ("10.0.0.14", "10.0.0.x", (32, 11), "is not an address", None),
    ];
    for (from, to, position, message, word) in table {
        assert!(MULTIPATH.contains(from), "{from}");
        let text = MULTIPATH.replacen(from, to, 1);
        let faults = Experiment::parse("w.toml", &text, &[]).expect_err(to);
        let shown: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        let found = shown.iter().find(|fault| fault.contains(message));
        let shown = found.unwrap_or_else(|| panic!("{to}: {shown:?}"));
        assert!(shown.contains(word.unwrap_or("")), "{to}: {shown}");
        assert!(
            shown.starts_with(&format!("w.toml:{}:{}", position.0, position.1)),
            "{to}: {shown}"
        );
    }
}

#[test]
fn every_way_of_a_shared_load_must_arrive() {
    let circle = MULTIPATH.replace("a = [\"way1\", \"way2\"]", "a = [\"way1\", \"b\"]");
    let faults = Experiment::parse("w.toml", &circle, &[]).expect_err("it leads to b");
    assert!(faults.to_string().contains("would run in a circle"), "{faults}");
}

/// One word stands for many nodes, links, ports and flows.
#[test]
fn counts_and_patterns_make_many() {
    let text = GOOD
        .replace("[nodes.a]", "[nodes.a]\ncount = 3")
        .replace("ends = [\"a\", \"r\"]", "ends = [\"a-*\", \"r\"]")
        .replace("from = \"a\"", "from = \"a-*\"")
        .replace("\"r.access\" =", "\"r.access-*\" =")
        .replace("pcap = [\"a.access\"]", "pcap = [\"a-*.access-*\"]");
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    let names = |list: Vec<&str>| list.into_iter().map(String::from).collect::<Vec<_>>();
    let nodes: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
    assert_eq!(nodes, names(vec!["a-1", "a-2", "a-3", "r", "b"]));
    let links: Vec<String> = plan.links.iter().map(|link| link.name.clone()).collect();
    assert_eq!(links, names(vec!["access-1", "access-2", "access-3", "wire"]));
    assert_eq!(plan.links[2].ends, [2, 3]);
    assert!(plan.links[..3].iter().all(|link| link.ports[1].police.is_some()));
    let flows: Vec<(String, usize)> =
        plan.flows.iter().map(|flow| (flow.name.clone(), flow.from)).collect();
    let named = |number: usize| (format!("bulk-{number}"), number - 1);
    assert_eq!(flows, [named(1), named(2), named(3)]);
    assert!(plan.flows.iter().all(|flow| flow.group.as_deref() == Some("bulk")));
    assert_eq!(plan.measure.pcap.len(), 3);
}

/// What a run could not do is said of the file, where it is written.
#[test]
fn impossible_values_are_found_before_a_run() {
    let app =
        |words: &str| GOOD.replacen("app = \"fixed\"", words, 1).replace("bytes = \"1gb\"\n", "");
    let also = |words: &str| format!("{GOOD}{words}");
    for (text, position, message) in [
        (app("app = \"cbr\"\nrate = \"1mbit\"\nsize = 0"), (36, 8), "holds 1 to 65507 bytes"),
        (app("app = \"cbr\"\nrate = \"1mbit\"\nsize = 65508"), (36, 8), "holds 1 to 65507 bytes"),
        (app("app = \"ping\"\nsize = 65508"), (35, 8), "holds 0 to 65507 bytes"),
        (app("app = \"ping\"\ninterval = \"0ms\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"probe\"\ninterval = \"0s\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"connect\"\ninterval = \"0s\""), (35, 12), "\"interval\" must not be zero"),
        (app("app = \"on-off\"\non = \"0s\"\noff = \"1s\""), (35, 6), "\"on\" must not be zero"),
        (app("app = \"chunk\"\nchunk = 0"), (35, 9), "\"chunk\" must not be zero"),
        (app("app = \"query\"\nresponse = 9\nrequest = 0"), (36, 11), "\"request\" must not"),
        (app("app = \"bulk\"\ncount = 35001"), (33, 8), "at most 35000 flows"),
        (app("app = \"bulk\"\nstart = \"2s\"\nstop = \"1s\""), (36, 8), "before it starts"),
        (also("[nodes.island]\n"), (51, 8), "no link leads to \"island\""),
        (
            GOOD.replace("[nodes.a]", "[nodes.a-1]\n[nodes.a]\ncount = 2"),
            (14, 8),
            "another node is called \"a-1\" too",
        ),
        (
            also(
                "[flows.x-1]\napp=\"bulk\"\nfrom=\"a\"\nto=\"b\"\n[flows.x]\napp=\"bulk\"\nfrom=\"a\"\nto=\"b\"\ncount=2",
            ),
            (55, 8),
            "another flow is called \"x-1\" too",
        ),
        (GOOD.replace("\"demo\"", "\"..\""), (2, 8), "not first"),
        (GOOD.replace("schema = 1", "schema = \"1\""), (1, 10), "a whole number, not a text"),
        (
            also("\"links.wire.rt\" = { uniform = [\"1ms\", \"2ms\"] }\n"),
            (51, 19),
            "unknown key \"rt\"",
        ),
    ] {
        let faults = Experiment::parse("demo.toml", &text, &[]).expect_err(&text);
        let found = faults.0.iter().find(|fault| fault.message.contains(message));
        let found = found.unwrap_or_else(|| panic!("{message}: {faults}"));
        assert_eq!(found.position, Some(position), "{found}");
    }
}

#[test]
fn a_file_that_is_no_text_says_where() {
    let path = std::env::temp_dir().join(format!("ackwright-latin1-{}.toml", std::process::id()));
    std::fs::write(&path, b"schema = 1\nname = \"m\xe4h\"\n").expect("a temporary file");
    let error = Experiment::load(&path, &[]).expect_err("it is no text").to_string();
    std::fs::remove_file(&path).expect("it was there");
    assert!(error.contains(".toml:2:10: from here on this is not UTF-8"), "{error}");
}

#[test]
fn dctcp_and_switches_have_their_words() {
    let text = GOOD
        .replace("role = \"router\"", "role = \"router\"\nbuffer = 4_000_000\nbuffer_alpha = \"1/4\"")
        .replace(
            "[nodes.a]",
            "[nodes.a]\ndctcp_ack = \"b0c05d0e99\"\ndctcp_shift_g = 6\ndctcp_alpha_on_init = 0\n\
             dctcp_syn_ect = false",
        )
        .replace(
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\", \
             \"parent 1:1 handle 10: red limit 400000 min 75000 max 75000 avpkt 1500 burst 51 \
             probability 1 ecn\", \"filter parent 1: protocol ip prio 1 u32 match ip dsfield 0x04 0xfc \
             flowid 1:1\"]",
        )
        + "\n[routes.a]\nb = \"access features ecn\"\n";
    let plan = Experiment::parse("demo.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}")).base;
    let buffer = plan.nodes[1].buffer.expect("a shared buffer");
    assert_eq!((buffer.bytes, buffer.alpha), (4_000_000, (1, 4)));
    assert_eq!(plan.nodes[0].dctcp_ack, Some(DctcpAck::DelayNew));
    assert_eq!((plan.nodes[0].dctcp.shift_g, plan.nodes[0].dctcp.alpha_on_init), (6, 0));
    assert!(!plan.nodes[0].dctcp_syn_ect && plan.nodes[2].dctcp_syn_ect);
    assert_eq!(plan.route_features, [((0, 2), Features::ECN)].into());
    assert_eq!(plan.links[1].ports[0].qdiscs.len(), 3);
}

/// A number without quotes is what a file, and `--set`, give for it first of all.
#[test]
fn a_share_of_the_buffer_is_a_number_or_a_fraction() {
    let alpha = |value: &str| {
        let line = format!("role = \"router\"\nbuffer = 1000\nbuffer_alpha = {value}");
        let text = GOOD.replace("role = \"router\"", &line);
        let plan =
            Experiment::parse("demo.toml", &text, &[]).map_err(|faults| faults.to_string())?;
        Ok::<_, String>(plan.base.nodes[1].buffer.expect("a shared buffer").alpha)
    };
    for (value, expected) in [
        ("2", (2, 1)),
        ("0.25", (25, 100)),
        ("\"0.5\"", (5, 10)),
        ("\"8\"", (8, 1)),
        ("\"7/33\"", (7, 33)),
    ] {
        assert_eq!(alpha(value), Ok(expected), "{value}");
    }
    for value in ["0", "0.0", "-1", "-0.5", "\"1/0\"", "\"x\"", "\"\"", "true", "\"1/-2\""] {
        let fault = alpha(value).expect_err(value);
        assert!(fault.contains("must be a positive number"), "{value}: {fault}");
    }
}

#[test]
fn the_new_words_are_checked() {
    for (from, to, message) in [
        ("[nodes.a]", "[nodes.a]\nbuffer_alpha = \"1/4\"", "\"buffer_alpha\" needs \"buffer\""),
        (
            "[nodes.a]",
            "[nodes.a]\nbuffer = 1000\nbuffer_alpha = \"0\"",
            "\"buffer_alpha\" must be a positive number, or a fraction such as \"1/4\"",
        ),
        ("from = \"a\"", "from = \"c*\"", "no node is called like \"c*\""),
        (
            "\"r.wire\" = \"pfifo limit 1000\"",
            "\"r.wire\" = [\"pfifo\", \"filter parent 1: matchall flowid 1:1\"]",
            "no qdisc above asks this filter for a class",
        ),
    ] {
        assert_eq!(fault(from, to).message, message);
    }
}

/// What would fill the memory of the machine is refused by arithmetic, before it is built.
#[test]
fn what_is_too_large_is_told_with_its_place_and_what_to_do() {
    let star = |nodes: &str, links: &str, flows: &str, more: &str| {
        format!(
            "schema = 1\nname = \"large\"\n{more}\n[nodes]\nhub = {{ role = \"router\" }}\n{nodes}\n\
             [links]\n{links}\n[flows]\n{flows}\n"
        )
    };
    let pairs = "a = { count = 10000 }\nb = { count = 9000 }";
    let few = "a = { count = 2 }\nb = { count = 2 }";
    let up = "l = { ends = [\"a-*\", \"hub\"], delay = \"1ms\" }\n\
              m = { ends = [\"b-*\", \"hub\"] }";
    let flow = "f = { app = \"bulk\", from = \"a-1\", to = \"b-1\" }";
    let ten = |value: &str| (0..10).map(|axis| format!("p{axis} = {value}\n")).collect::<Vec<_>>();
    let axes = ten("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]").concat();
    let parameters = ten("0").concat();
    let sweep = format!("[parameters]\n{parameters}[sweep]\n{axes}");
    let two_hubs = "x = { ends = [\"a-*\", \"hub\"] }\ny = { ends = [\"a-*\", \"b-1\"] }";
    let table = [
        (
            star("a = { count = 20001 }", up, flow, ""),
            ":6:15: \"count\" must be 20000 or less, not 20001",
        ),
        (
            star(&format!("{pairs}\nc = {{ count = 1000 }}"), up, flow, ""),
            ":8:1: an experiment has at most 20000 nodes, not 20001; ask for fewer",
        ),
        (
            star(pairs, "l = { ends = [\"a-*\", \"b-*\"] }", flow, ""),
            "an experiment has at most 65535 links, not 90000000; ask for fewer",
        ),
        (
            star(pairs, up, "f = { app = \"bulk\", from = \"a-*\", to = \"b-*\", count = 10 }", ""),
            ":12:1: an experiment has at most 35000 flows, not 900000000; ask for fewer",
        ),
        (
            star(
                pairs,
                up,
                "f = { app = \"query\", from = \"a-*\", to = \"b-*\", response = \"1mb\" }",
                "",
            ),
            "an experiment has at most 200000 servers in its flows, not 90000000",
        ),
        (star(few, up, flow, &sweep), "the axes make 10 x 10 x 10 x 10 x 10"),
        (
            star(
                "a = { count = 9000, role = \"router\" }\nb = { count = 9000 }",
                two_hubs,
                flow,
                "",
            ),
            "9002 nodes with several links, or with routes of their own, would need 45000 routes",
        ),
        (
            star(few, up, flow, "repetitions = 50000\n[parameters]\np = 1\n[sweep]\np = [1, 2, 3]"),
            "3 points with 50000 repetitions are 150000 runs; at most 100000 are possible",
        ),
        (
            star(few, up, flow, "duration = \"60s\"\n[measure]\nsample = \"1us\""),
            ":5:10: 60000000 samples of 1 flows and 0 queues take more than 2048 MB; let \"sample\" \
             in [measure] be 4us or more",
        ),
        (
            star(few, up, flow, "[measure]\nsample = \"0s\"\nsteps = \"1s\""),
            "\"sample\" must be 1us or more",
        ),
        (
            star(
                few,
                up,
                "f = { app = \"ping\", from = \"a-1\", to = \"b-1\", interval = \"1ns\" }",
                "",
            ),
            "this makes 60000000000 probes; at most 20000000 are kept",
        ),
        (
            star(few, up, flow, "duration = \"20000000000s\""),
            ":3:12: \"20000000000s\" is too large",
        ),
        (star(few, up, flow, "duration = \"2000000000s\""), "a time may be at most 1000000000s"),
        (
            star(few, up, flow, &format!("[parameters]\np = \"{}\"", "x".repeat(1 << 20)))
                + &format!("t = [\"{}\"]", "${p}".repeat(100)),
            "the parameters put in are more than 32 MB",
        ),
        (
            star(&format!("{} = {{}}", "n".repeat(61)), up, flow, ""),
            "the name of a node may have at most 60 characters",
        ),
    ];
    for (text, message) in table {
        let faults = Experiment::parse("x.toml", &text, &[]).unwrap_err().to_string();
        assert!(faults.contains(message), "{message}\nis not in\n{faults}");
        assert!(faults.len() < 2_000, "{} bytes: {faults}", faults.len());
    }
}

/// The table of a node with one link is that link, however many hosts there are.
#[test]
fn ways_of_a_star_lead_over_its_hub() {
    let text = "schema = 1\nname = \"star\"\n[nodes]\nhub = { role = \"router\" }\n\
                h = { count = 3 }\nlone = {}\nother = {}\n\
                [links]\nl = { ends = [\"h-*\", \"hub\"], delay = \"1ms\" }\nm = { ends = [\"lone\", \"other\"] }\n\
                [flows.f]\napp = \"bulk\"\nfrom = \"h-1\"\nto = \"h-2\"\n";
    let plan = Experiment::parse("x.toml", text, &[]).unwrap().base;
    let node = |name: &str| plan.nodes.iter().position(|node| node.name == name).unwrap();
    let links = |from, to| plan.ways.links(node(from), node(to)).to_vec();
    assert_eq!((links("h-1", "h-2"), links("hub", "h-3")), (vec![0], vec![2]));
    assert_eq!((links("h-2", "hub"), links("lone", "other")), (vec![1], vec![3]));
    for (from, to) in [("h-1", "h-1"), ("h-1", "lone"), ("lone", "hub"), ("hub", "other")] {
        assert_eq!(links(from, to), [0; 0], "{from} to {to}");
    }
    assert!(plan.ways.is_stub(node("h-1")) && !plan.ways.is_stub(node("hub")));
}

/// Nothing would come of it but a connection between two kinds of addresses.
#[test]
fn a_flow_stays_within_one_family_of_addresses() {
    let text = |address: &str| {
        format!(
            "schema = 1\nname = \"families\"\nnodes = {{ a = {{}}, r = {{ role = \"router\" }}, b = {{}} }}\n\
             [links]\nl = {{ ends = [\"a\", \"r\"], delay = \"1ms\" }}\n\
             m = {{ ends = [\"r\", \"b\"], addresses = [\"2001:db8::1/64\", \"2001:db8::2/64\"] }}\n\
             [flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n{address}\n"
        )
    };
    let faults = Experiment::parse("x.toml", &text(""), &[]).unwrap_err().to_string();
    let message =
        "7:8: \"a\" has its first address of IPv4, and \"b\" is IPv6; give their first links";
    assert!(faults.contains(message), "{faults}");
    assert!(Experiment::parse("x.toml", &text("address = \"10.9.0.1\""), &[]).is_ok());
}

/// Questions and answers over wires that take no time would go on for ever within one moment.
#[test]
fn a_way_on_which_no_time_passes_is_refused() {
    let text = |app: &str, link: &str| {
        format!(
            "schema = 1\nname = \"instant\"\nnodes = {{ a = {{}}, b = {{}} }}\n\
             [links.wire]\nends = [\"a\", \"b\"]\n{link}\n\
             [flows.f]\napp = \"{app}\"\nfrom = \"a\"\nto = \"b\"\n"
        )
    };
    let faults = Experiment::parse("x.toml", &text("bulk", ""), &[]).unwrap_err().to_string();
    assert!(faults.contains(":7:8: from \"a\" to \"b\" and back no time passes"), "{faults}");
    for good in
        [text("ping", ""), text("bulk", "rate = \"1gbit\""), text("bulk", "delay = \"1ns\"")]
    {
        assert!(Experiment::parse("x.toml", &good, &[]).is_ok(), "{good}");
    }
}
