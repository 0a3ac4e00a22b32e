//! `ackwright ip` and `ackwright ecmp` as a user meets them.

use crate::common::{ackwright, scratch, stderr, stdout, write};
use std::fmt::Write as _;
use std::fs;
use std::process::Output;

const ROUTES: &str = "\
# a leaf with two ways up
link add in0
link add up1
link add up2
address add 10.9.0.1/24 dev in0
address add 10.0.1.1/24 dev up1
address add 10.0.2.1/24 dev up2
sysctl net.ipv4.fib_multipath_hash_policy=1 net.ipv4.fib_multipath_hash_seed=7
route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2
route add default via 10.9.0.2
";

fn ip(file: &str, words: &str) -> Output {
    let mut arguments = vec!["ip", "--config", file];
    arguments.extend(words.split(' '));
    ackwright(&arguments)
}

#[test]
fn commands_change_the_file_and_nothing_else_in_it() {
    let file = write(&scratch("ip-file"), "routes.ip", ROUTES);
    stdout(&ip(&file, "route add 203.0.113.0/24 via 10.0.1.2"));
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        format!("{ROUTES}route add 203.0.113.0/24 via 10.0.1.2\n")
    );
    assert_eq!(
        stdout(&ip(&file, "route show 203.0.113.0/24")),
        "203.0.113.0/24 via 10.0.1.2 dev up1 \n"
    );
    stdout(&ip(&file, "route del 203.0.113.0/24"));
    assert_eq!(fs::read_to_string(&file).unwrap(), ROUTES);
    stdout(&ip(&file, "route replace default via 10.0.2.2"));
    let expected =
        ROUTES.replace("route add default via 10.9.0.2", "route replace default via 10.0.2.2");
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn refused_commands_leave_the_file_and_say_what_ip_says() {
    let file = write(&scratch("ip-refused"), "routes.ip", ROUTES);
    for (words, message) in [
        ("route add default via 10.0.2.2", "RTNETLINK answers: File exists"),
        ("route add 9.0.0.0/8 via 99.0.0.1", "Nexthop has invalid gateway."),
        (
            "route add 9.0.0.0/8 nexthop via 10.0.1.2 weight 257",
            "column 49: argument \"257\" is wrong: \"weight\" is invalid",
        ),
        ("route add 9.0.0.0/8 nexthop via 10.0.1.2 weight 0", "\"weight\" is invalid"),
        ("route add 9.0.0.0/8 nhid 5", "Nexthop id does not exist."),
        ("nexthop add id 9 group 5/6", "Invalid nexthop id."),
        ("route add 9.0.0.1/8 via 10.0.1.2", "column 11: Invalid prefix for given prefix length."),
        ("route del 9.0.0.0/8", "RTNETLINK answers: No such process"),
        ("route ad 9.0.0.0/8 vai 10.0.1.2", "did you mean \"via\"?"),
        ("rule del priority 9", "RTNETLINK answers: No such file or directory"),
    ] {
        let output = ip(&file, words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(stderr(&output).contains(message), "{words}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), ROUTES);
    let broken = write(&scratch("ip-broken"), "routes.ip", &ROUTES.replace("dev up1", "dev up3"));
    let output = ip(&broken, "route show");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("routes.ip:6:29: Cannot find device \"up3\""),
        "{}",
        stderr(&output)
    );
}

#[test]
fn get_says_the_hop_and_why() {
    let file = write(&scratch("ip-get"), "routes.ip", ROUTES);
    let question = "route get 198.18.0.1 from 10.9.0.7 iif in0 ipproto tcp sport 5 dport 80";
    let bare = stdout(&ip(&file, &format!("{question} --bare")));
    assert_eq!(bare.lines().count(), 2, "{bare}");
    let told = stdout(&ip(&file, question));
    assert!(told.starts_with(&bare), "{told}");
    for part in [
        "rule 32766: from all lookup main",
        "table main",
        "hash 0x",
        "policy 1",
        "bounds 0x00000000..0x3fffffff",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&ip(&file, &format!("-j {question}")))).expect("JSON");
    let hash31 = json[0]["why"]["hash31"].as_u64().expect("a hash");
    let chosen = json[0]["why"]["nexthops"]
        .as_array()
        .expect("next hops")
        .iter()
        .find(|hop| hop["chosen"] == true)
        .expect("one is chosen");
    assert!(
        (chosen["lower_bound"].as_u64().unwrap()..=chosen["upper_bound"].as_u64().unwrap())
            .contains(&hash31)
    );
    assert_eq!(json[0]["dev"], chosen["dev"]);
}

#[test]
fn ecmp_reads_csv_and_captures_alike() {
    let directory = scratch("ecmp");
    let file = write(&directory, "routes.ip", ROUTES);
    let mut csv = String::from("src,dst,protocol,sport,dport,bytes\n");
    for flow in 0..2000 {
        let (host, net, port) = (flow % 200 + 2, flow % 250, 2000 + flow);
        let _ = writeln!(csv, "10.9.0.{host},198.18.{net}.9,udp,{port},53,100");
    }
    let flows = write(&directory, "flows.csv", &csv);
    let plot = directory.join("load.svg");
    let run = |arguments: &[&str]| {
        let output =
            ackwright(&[&["ecmp", &flows, "--routes", &file, "--json"], arguments].concat());
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).expect("JSON")
    };
    let json = run(&["--fail", "up1", "--stages", "2", "--plot", &plot.to_string_lossy()]);
    let moved = json["failures"][0]["moved"].as_f64().unwrap();
    assert!((moved - 0.5).abs() < 0.05 && json["failures"][0]["theory"] == 0.5, "{json}");
    assert_eq!(json["stages"][1]["unused"], 1, "two routers alike polarise");
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
    assert_ne!(run(&["--policy", "l3"])["load"], json["load"]);

    let plan = "schema = 1\nname = \"p\"\nduration = \"1s\"\nnodes = { a = {}, b = {} }\n\
        [links.wire]\nends = [\"a\", \"b\"]\naddresses = [\"10.9.0.7/24\", \"10.9.0.1/24\"]\nrtt = \"2ms\"\n\
        [flows.x]\napp = \"cbr\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1mbit\"\n[measure]\npcap = [\"a.wire\"]\n";
    let plan = write(&directory, "p.toml", plan);
    let out = directory.join("out");
    stdout(&ackwright(&["run", &plan, "--out", &out.to_string_lossy()]));
    let capture = out.join("pcap/seed-1-a.wire.pcapng");
    let routes = write(
        &directory,
        "r2.ip",
        "link add x\nlink add y\nroute add 10.9.0.0/24 nexthop dev x nexthop dev y\n",
    );
    let output = ackwright(&["ecmp", &capture.to_string_lossy(), "--routes", &routes, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((json["flows"].as_u64(), json["skipped"].as_u64()), (Some(1), Some(0)), "{json}");
    assert_eq!(json["load"]["elephants"][0]["flow"], 0);
}

#[test]
fn ecmp_says_what_is_wrong_and_where() {
    let directory = scratch("ecmp-wrong");
    let file = write(&directory, "routes.ip", ROUTES);
    let good = write(&directory, "good.csv", "10.9.0.2,198.18.0.1,udp,1,2,3\n");
    let bad = write(
        &directory,
        "bad.csv",
        "10.9.0.2,198.18.0.1,udp,1,2,3\n10.9.0.2,198.18.0.1,udp,1,99999,3\n",
    );
    let empty = write(&directory, "empty.csv", "# nothing\n");
    for (arguments, message) in [
        (vec![bad.as_str(), "--routes", &file], "bad.csv:2:27: \"99999\" is not a port"),
        (vec![empty.as_str(), "--routes", &file], "contains no flows"),
        (vec![good.as_str(), "--routes", &good], "good.csv:1:1: "),
        (vec![good.as_str(), "--routes", &file, "--fail", "up9"], "did you mean \"up1\"?"),
        (vec![good.as_str(), "--routes", &file, "--policy", "l5"], "--policy l5"),
        (vec![good.as_str(), "--routes", &file, "--plot", "x.gif"], ".svg, .png or .pdf"),
        (vec!["/nowhere.csv", "--routes", &file], "/nowhere.csv"),
    ] {
        let output = ackwright(&[vec!["ecmp"], arguments.clone()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
}
