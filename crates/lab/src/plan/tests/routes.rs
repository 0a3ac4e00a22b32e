//! Ways through the network.

use super::*;

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
    assert_eq!(plan.paths.links(2, 1), [1]);

    let circle = format!(
        "{LOOP}[routes.r1]\nb = \"l4\"\n[routes.r3]\nb = \"l4\"\n[routes.r2]\na = \"l2\"\n"
    );
    let fault = &Experiment::parse("l.toml", &circle, &[]).unwrap_err().0[0];
    assert!(fault.message.contains("would loop"), "{fault}");
}

#[test]
fn a_host_without_a_way_is_told() {
    let text = LOOP.replace("l5 = { ends = [\"r2\", \"b\"] }\n", "");
    let fault = &Experiment::parse("l.toml", &text, &[]).unwrap_err().0[0];
    assert!(fault.message.contains("no path from"), "{fault}");
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
ip_at = ["3s link set way1 down", "2s route replace 10.0.0.12/30 dev way1"]
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
    assert_eq!(plan.paths.links(3, 0), [1, 2]);
    assert!(plan.nodes[2].has_own_routes() && !plan.nodes[3].has_own_routes());
    let route = "route replace 10.0.0.12/30 dev way1".to_owned();
    assert_eq!(plan.nodes[2].at[0], (Duration::from_secs(2), route));
    let sysctls = ["ipv4.fib_multipath_hash_policy=1", "ipv6.fib_multipath_hash_policy=3"];
    assert_eq!(plan.nodes[3].ip, sysctls.map(|line| format!("sysctl net.{line}")));
    let events = [(Duration::from_secs(4), false), (Duration::from_secs(5), true)];
    assert_eq!(plan.links[1].events, events);
    assert_eq!(
        (plan.flows[0].anycast_hosts.as_slice(), plan.flows[0].address.is_some()),
        (&[0][..], true)
    );
}

#[test]
fn words_of_ip_are_checked_where_they_stand() {
    let table: [FaultRow; 12] = [
        ("weight 3", "weight 0", (9, 72), "\"weight\" is invalid", None),
        ("dev way2 weight", "dev wya2 weight", (9, 60), "Cannot find device", Some("way2")),
        ("2s route", "2 route", (10, 35), "2", Some("begin with a time")),
        ("replace 10.0.0.12/30 dev", "replace 10.0.0.12/30 vai", (10, 66), "garbage", Some("via")),
        ("3s link", "1s link", (10, 35), "Device for nexthop is not up", None),
        ("_policy\" = 1", "_policy\" = 9", (14, 40), "the policy must be 0, 1, 2 or 3", None),
        ("_hash_policy", "_hash_polcy", (14, 1), "cannot stat", Some("policy")),
        (
            "v6.fib_multipath_hash_policy",
            "v6.fib_multipath_hash_seed",
            (15, 10),
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
fn every_path_of_a_shared_load_must_arrive() {
    let circle = MULTIPATH.replace("a = [\"way1\", \"way2\"]", "a = [\"way1\", \"b\"]");
    let faults = Experiment::parse("w.toml", &circle, &[]).expect_err("it leads to b");
    assert!(faults.to_string().contains("would loop"), "{faults}");
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
    let links = |from, to| plan.paths.links(node(from), node(to)).to_vec();
    assert_eq!((links("h-1", "h-2"), links("hub", "h-3")), (vec![0], vec![2]));
    assert_eq!((links("h-2", "hub"), links("lone", "other")), (vec![1], vec![3]));
    for (from, to) in [("h-1", "h-1"), ("h-1", "lone"), ("lone", "hub"), ("hub", "other")] {
        assert_eq!(links(from, to), [0; 0], "{from} to {to}");
    }
    assert!(plan.paths.is_stub(node("h-1")) && !plan.paths.is_stub(node("hub")));
}

/// Hosts by a count before a router that is told a line.
const COUNTED: &str = r#"schema = 1
name = "t"
duration = "1s"
[sysctl]
"net.ipv4.fib_multipath_hash_policy" = 1
[nodes]
h = { count = 2 }
r = { role = "router", ip = ["route add 10.50.0.0/16 dev w-1"] }
[links]
w = { ends = ["h-*", "r"], rate = "10mbit" }
[flows.f]
app = "ping"
from = "h-1"
to = "h-2"
"#;

/// Hosts of a topology alone.
const STAR: &str = r#"schema = 1
name = "t"
duration = "1s"
ip = ["route add 10.50.0.0/16 dev nosuch"]
ip_at = ["10ms nonsense"]
[sysctl]
"net.ipv4.fib_multipath_hash_policy" = 99
"net.ipv4.fib_multipath_hash_polcy" = 1
[topology]
kind = "star"
hosts = 3
rate = "10mbit"
[topology.nodes]
"host-*" = { ip_at = ["2ms link set host-1 down"] }
switch = { ip = ["route add 10.51.0.0/16 dev host-4"], ip_at = ["  1s  link set hots-3 up "] }
[flows.f]
app = "ping"
from = "host-1"
to = "host-2"
"#;

/// The faults of a file.
fn told(text: &str) -> Vec<String> {
    let faults = Experiment::parse("i.toml", text, &[]).expect_err(text);
    faults.0.iter().map(ToString::to_string).collect()
}

/// A node is told its lines where it is, whatever count stands before it.
#[test]
fn ip_commands_are_checked_on_the_node_they_are_for() {
    if let Err(faults) = Experiment::parse("i.toml", COUNTED, &[]) {
        panic!("{faults}");
    }
    let plain = COUNTED.replace("[sysctl]\n\"net.ipv4.fib_multipath_hash_policy\" = 1\n", "");
    for (text, line) in [(COUNTED, 8), (&plain, 6)] {
        for (from, to) in [("dev w-1", "dev nosuch"), ("dev w-1", "dev w-3")] {
            let faults = told(&text.replace(from, to));
            assert_eq!(faults.len(), 1, "{faults:?}");
            let expected = format!("i.toml:{line}:58: Cannot find device");
            assert!(faults[0].starts_with(&expected), "{faults:?}");
        }
    }
    // Of two that are told the same, the one that it goes wrong with is named, once.
    let both = |device: &str| {
        let lines = format!("count = 2, ip = [\"route add 10.60.0.0/16 dev {device}\"]");
        COUNTED.replace("count = 2", &lines)
    };
    for (device, name) in [("w-1", "h-2"), ("w-2", "h-1"), ("nosuch", "h-1")] {
        let faults = told(&both(device));
        assert_eq!(faults.len(), 1, "{faults:?}");
        let expected = format!("i.toml:7:52: on \"{name}\": Cannot find device \"{device}\"");
        assert!(faults[0].starts_with(&expected), "{faults:?}");
    }
}

#[test]
fn words_of_ip_for_all_nodes_or_those_of_a_topology_are_checked() {
    let expected = [
        "i.toml:4:35: on \"switch\": Cannot find device \"nosuch\"",
        "i.toml:5:16: on \"switch\": Object \"nonsense\" is unknown",
        "i.toml:7:40: on \"switch\": argument \"net.ipv4.fib_multipath_hash_policy=99\" is \
         wrong: the policy must be 0, 1, 2 or 3",
        "i.toml:8:1: on \"switch\": cannot stat",
        "i.toml:14:37: on \"host-2\": Cannot find device \"host-1\"",
        "i.toml:15:46: Cannot find device \"host-4\"",
        "i.toml:15:81: Cannot find device \"hots-3\"",
    ];
    let faults = told(STAR);
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{expected}: {faults:#?}");
    }
}

#[test]
fn a_time_needs_words_behind_it() {
    for time in ["1s", " 1s "] {
        let text =
            COUNTED.replace("ip = [\"route", &format!("ip_at = [\"{time}\"], ip = [\"route"));
        let faults = told(&text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with("i.toml:8:33: \"1s\" has a time, but no command"),
            "{faults:?}"
        );
        assert!(faults[0].contains("2s link set left down"), "{faults:?}");
    }
}
