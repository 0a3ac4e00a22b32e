//! The command line as a user meets it: exit codes, messages, files.

use crate::common::{ackwright, scratch, stderr, write};
use std::fs;
use std::process::{Command, Output};

const PROBES: &str = r#"schema = 1
name = "probes"
duration = "1s"
repetitions = 2
nodes = { a = {}, b = {} }
[links.wire]
ends = ["a", "b"]
rate = "10mbit"
rtt = "20ms"
[flows.ping]
app = "ping"
from = "a"
to = "b"
interval = "10ms"
[qdisc]
"a.wire" = "pfifo limit 100"
[measure]
pcap = ["a.wire"]
"#;

#[test]
fn faulty_files_name_the_place_and_exit_with_two() {
    let directory = scratch("faulty");
    let table: [(&str, &str, &str); 5] = [
        (
            "rate = \"10mbit\"",
            "rat = \"10mbit\"",
            ":8:1: unknown key \"rat\"; did you mean \"rate\"?",
        ),
        ("to = \"b\"", "to = \"c\"", ":13:6: no node is called \"c\""),
        ("10mbit", "-10mbit", ":8:8: \"-10mbit\": a rate cannot be negative"),
        ("pfifo limit", "pfifo limt", ":16:19: "),
        ("schema = 1", "schema = ", ":1:"),
    ];
    for (from, to, message) in table {
        let file = write(&directory, "x.toml", &PROBES.replacen(from, to, 1));
        for command in ["check", "run"] {
            let output = ackwright(&[command, &file]);
            assert_eq!(output.status.code(), Some(2), "{command} {to}");
            assert!(stderr(&output).contains(message), "{to}: {}", stderr(&output));
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn absent_files_and_wrong_arguments_exit_with_two() {
    assert_eq!(ackwright(&["check", "/nowhere/x.toml"]).status.code(), Some(2));
    assert_eq!(ackwright(&["run"]).status.code(), Some(2));
    assert_eq!(ackwright(&["reproduce", "lost-retransmt"]).status.code(), Some(2));
    assert!(stderr(&ackwright(&["reproduce", "lost-retransmt"])).contains("lost-retransmit"));
    assert_eq!(ackwright(&["vectors", "/nowhere"]).status.code(), Some(2));
    let file = write(
        &scratch("arguments"),
        "x.toml",
        &PROBES.replacen("ping\"", "bulk\"", 1).replacen("interval = \"10ms\"\n", "", 1),
    );
    let output = ackwright(&["run", &file, "--explain", "pnig"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no TCP flow is called \"pnig\"; did you mean \"ping\"?"));
}

#[test]
fn what_can_be_reproduced_is_listed_for_programs_too() {
    let output = ackwright(&["reproduce", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = list["published"].as_array().expect("a list").iter().map(|one| &one["name"]);
    assert!(names.into_iter().any(|name| name == "lost-retransmit"), "{list}");
}

#[test]
fn sockets_can_be_looked_at_until_the_end() {
    let directory = scratch("looks");
    let file = write(&directory, "probes.toml", PROBES);
    let late = ackwright(&["run", &file, "--ss-at", "1001ms"]);
    assert_eq!(late.status.code(), Some(2));
    assert_eq!(stderr(&late), "error: --ss-at: the experiment ends at 1.000000 s\n");
    let longer = ackwright(&["run", &file, "--ss-at", "1001ms", "--set", "duration=2s"]);
    assert!(longer.status.success(), "{}", stderr(&longer));
    assert!(ackwright(&["run", &file, "--ss-at", "1s"]).status.success());
}

#[test]
fn a_run_prints_json_and_leaves_whole_files() {
    let directory = scratch("run");
    let file = write(&directory, "probes.toml", PROBES);
    let out = directory.join("out");
    let output = ackwright(&["run", &file, "--json", "--out", &out.to_string_lossy()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stored = fs::read_to_string(out.join("summary.json")).expect("a summary");
    let stored: serde_json::Value = serde_json::from_str(&stored).expect("JSON");
    assert_eq!(printed, stored);
    assert_eq!(printed["points"][0]["runs"].as_array().expect("runs").len(), 2);
    for name in ["pcap/seed-1-a.wire.pcapng", "series/seed-2/port-a.wire.parquet"] {
        assert!(out.join(name).is_file(), "{name} is missing");
    }
}

#[test]
fn an_unwritable_directory_is_a_clear_error() {
    let directory = scratch("unwritable");
    let file = write(&directory, "probes.toml", PROBES);
    // Nobody makes folders there.
    let output = ackwright(&["run", &file, "--out", "/proc/ackwright/below"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
    let below = ackwright(&["run", &file, "--out", &format!("{file}/below")]);
    assert_eq!(below.status.code(), Some(2));
    assert!(stderr(&below).contains("probes.toml is not a directory"), "{}", stderr(&below));
}

/// A device that is always full stands for a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_a_clear_error() {
    let directory = scratch("full");
    let file = write(&directory, "probes.toml", PROBES);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the device");
    let output = Command::new(env!("CARGO_BIN_EXE_ackwright"))
        .args(["run", &file, "--json"])
        .stdout(full)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write to standard output"));
}

#[test]
fn settings_reach_the_experiment() {
    let directory = scratch("set");
    let file = write(&directory, "probes.toml", PROBES);
    let run = |setting: &str| ackwright(&["run", &file, "--runs", "1", "--json", "--set", setting]);
    let median = |output: &Output| {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["points"][0]["runs"][0]["metrics"]["ping latency median"].as_f64().expect("a number")
    };
    let (short, long) = (run("links.wire.rtt=10ms"), run("links.wire.rtt=40ms"));
    assert!((10.0..11.0).contains(&median(&short)) && (40.0..41.0).contains(&median(&long)));
    let wrong = run("links.wier.rtt=10ms");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean"), "{}", stderr(&wrong));
}

/// The first Ctrl-C stops cleanly, and so do the signals of `kill`, of a supervisor and of a terminal
/// that has gone: nothing half-written is left, and the exit code tells which it was.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_leaves_no_broken_file() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        stop_by(signal, code);
    }
}

#[cfg(target_os = "linux")]
fn stop_by(signal: &str, code: i32) {
    let directory = scratch(&format!("stopped-by-{signal}"));
    let long = PROBES
        .replace("duration = \"1s\"", "duration = \"100000s\"")
        .replace("[measure]", "[measure]\nsample = \"100ms\"");
    let file = write(&directory, "long.toml", &long);
    let out = directory.join("out");
    // Whoever runs the tests may have had signals ignored, and what is ignored stays so.
    let mut child = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_ackwright"), "run", &file, "--out"])
        .arg(&out)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let parts = || fs::read_dir(out.join("pcap")).map_or(0, Iterator::count);
    while parts() == 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let killed =
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped"));
    assert_eq!(parts(), 0, "a part is left");
    assert!(!out.join("summary.json").exists());
}

/// A capture of the probes, taken by a run.
fn probes_capture(directory: &std::path::Path) -> String {
    let file = write(directory, "probes.toml", PROBES);
    let out = directory.join("out").to_string_lossy().into_owned();
    let ran = ackwright(&["run", &file, "--runs", "1", "--out", &out]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    format!("{out}/pcap/seed-1-a.wire.pcapng")
}

#[test]
fn captures_go_through_qdiscs() {
    let directory = scratch("replay");
    let capture = probes_capture(&directory);
    let plots = directory.join("plots").to_string_lossy().into_owned();
    let written = directory.join("written.pcapng").to_string_lossy().into_owned();
    let words = "cake bandwidth 1mbit ack-filter";
    let arguments = ["replay", &capture, "--qdisc", words, "--plots", &plots, "--out", &written];
    let done = ackwright(&[&arguments[..], &["--json"]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(json["total"]["in"], json["total"]["out"]);
    assert_eq!(json["tc"][0]["kind"], "cake");
    assert!(fs::read_dir(directory.join("plots/plots")).unwrap().count() >= 4);
    assert!(fs::metadata(&written).unwrap().len() > 1000);
    let text = ackwright(&arguments);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("qdisc cake") && text.contains("icmp"), "{text}");
    assert!(
        text.lines()
            .take_while(|line| !line.contains("qdisc cake 8001"))
            .all(|line| { line.chars().count() <= 80 || line.contains(".pcapng") }),
        "{text}"
    );
    // What cannot be read, or breaks off, leaves the plots of an earlier capture alone.
    let pictures = || {
        let entries = fs::read_dir(directory.join("plots/plots")).expect("plots");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = pictures();
    let half = directory.join("half.pcapng");
    let whole = fs::read(&capture).expect("a capture");
    fs::write(&half, &whole[..whole.len() - 7]).expect("a part of it");
    for unreadable in ["no-such-file", &half.to_string_lossy(), env!("CARGO_BIN_EXE_ackwright")] {
        let refused = ackwright(&["replay", unreadable, "--qdisc", words, "--plots", &plots]);
        assert_eq!(refused.status.code(), Some(2), "{unreadable}: {}", stderr(&refused));
        assert_eq!(pictures(), before, "{unreadable}");
    }
    // A file of somebody else in the way is told before anything is replayed.
    fs::write(directory.join("plots/plots/mine.png"), "mine").expect("a file of the user's");
    let late = directory.join("late.pcapng").to_string_lossy().into_owned();
    let foreign =
        ackwright(&["replay", &capture, "--qdisc", words, "--plots", &plots, "--out", &late]);
    assert_eq!(foreign.status.code(), Some(2), "{}", stderr(&foreign));
    assert!(stderr(&foreign).contains("mine.png") && fs::metadata(&late).is_err());
    let wrong = ackwright(&["replay", &capture, "--qdisc", "cake bandwith 1mbit"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean"), "{}", stderr(&wrong));
    let missing = ackwright(&["ackfilter", "no-such-file"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn ack_filters_are_explained() {
    let directory = scratch("ackfilter");
    let capture = probes_capture(&directory);
    let json = |arguments: &[&str]| -> serde_json::Value {
        let done = ackwright(&[&["ackfilter", &capture, "--json"], arguments].concat());
        assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
        serde_json::from_slice(&done.stdout).expect("JSON")
    };
    assert_eq!(json(&[])["filters"].as_array().map(Vec::len), Some(5));
    let one = json(&["--filter", "ack-filter", "--acks"]);
    assert_eq!(one["acks"].as_array().map(Vec::len), Some(0), "pings have no ACKs");
    assert_eq!(one["summary"]["filters"][0]["filter"], "ack-filter");
}

#[test]
fn tc_commands_are_checked_and_shown() {
    let good = "qdisc replace dev eth0 root handle 1: cake bandwidth 20mbit ack-filter";
    let shown = ackwright(&["tc", "--json", good]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(json[0]["options"]["ack-filter"], "enabled");
    assert_eq!(json[0]["handle"], "1:");
    let wrong = ackwright(&["tc", "qdisc add dev eth0 root cake ack-filterr"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("command 1:30: "), "{}", stderr(&wrong));
    assert_eq!(ackwright(&["tc"]).status.code(), Some(2));
}

#[test]
fn runs_show_what_tc_shows() {
    let directory = scratch("tc-stats");
    let file = write(
        &directory,
        "probes.toml",
        &PROBES.replace("pfifo limit 100", "cake bandwidth 5mbit"),
    );
    let done = ackwright(&["run", &file, "--runs", "1", "--tc-stats", "--tc-classes"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("qdisc cake 8001: dev a.wire root"), "{text}");
    let json = ackwright(&["run", &file, "--runs", "1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let qdisc = &json["points"][0]["runs"][0]["tc"]["a.wire"][0];
    assert_eq!(qdisc["kind"], "cake");
    assert!(qdisc["tins"][0]["sent_packets"].is_number(), "{qdisc}");
}

#[test]
fn vectors_are_found_below_a_directory_and_other_json_is_passed_over() {
    let directory = scratch("vectors");
    let inside = directory.join("inside");
    fs::create_dir_all(&inside).expect("a directory for the test");
    let notes = write(&directory, "notes.json", "{\n  \"no\": \"vector\"\n}\n");
    let directory = directory.to_string_lossy().into_owned();
    let output = ackwright(&["vectors", &directory, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("skipped"), "{}", stderr(&output));
    // A damaged vector below is not passed over.
    write(&inside, "case.jsonl", "{");
    let output = ackwright(&["vectors", &directory]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("case.jsonl: line 1: "), "{}", stderr(&output));
    // A folder without any is an error, and so is a capture without its transfer.
    let empty = scratch("no-vectors");
    let capture = write(&empty, "case.s.pcap", "");
    for path in [&*empty.to_string_lossy(), &*capture] {
        let output = ackwright(&["vectors", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(stderr(&output).contains(": no vectors"), "{}", stderr(&output));
    }
    // Named by its own name, it is an error.
    assert_eq!(ackwright(&["vectors", &notes]).status.code(), Some(2));
}

const TRANSFER: &str = "schema = 1\nname = \"t\"\nduration = \"1s\"\nrepetitions = 2\n\
    nodes = { a = {}, b = {} }\n[links.wire]\nends = [\"a\", \"b\"]\nrate = \"10mbit\"\nrtt = \"20ms\"\n\
    rules = [\"f off 300000 1 drop\"]\n\
    [flows.upload]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";

/// What a run did is told beside its results, and as files; what makes no sense is refused before.
#[test]
fn a_run_is_explained_and_traced() {
    let directory = scratch("traced");
    let file = write(&directory, "t.toml", TRANSFER);
    let place = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let (out, trace, qlog) = (place("out"), place("deep/t.pftrace"), place("qlog"));
    let alone = ackwright(&["run", &file, "--explain", "upload", "--explain-packets"]);
    let text = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.status.success(), "{}", stderr(&alone));
    assert!(text.contains("  > 0..1448") && text.contains("What limited it, by time: "), "{text}");
    let args = ["run", &file, "--explain", "*", "--out", &out, "--trace", &trace, "--qlog", &qlog];
    let all = ackwright(&args);
    assert!(all.status.success(), "{}", stderr(&all));
    let text = String::from_utf8_lossy(&all.stdout).into_owned();
    assert!(text.contains("2 runs") && text.contains("What limited it, by time: "), "{text}");
    let story =
        fs::read_to_string(directory.join("out/explain/seed-1-upload.txt")).expect("a story");
    assert!(story.contains("Disorder -> Recovery"), "{story}");
    assert!(fs::metadata(&trace).expect("a trace").len() > 10_000);
    assert!(directory.join("qlog/upload.qlog").is_file());
    let over = ackwright(&["run", &file, "--trace", &file]);
    assert_eq!(over.status.code(), Some(2));
    assert!(stderr(&over).contains("would overwrite"), "{}", stderr(&over));
    let lonely = ackwright(&["run", &file, "--explain-packets"]);
    assert_eq!(lonely.status.code(), Some(2), "packets of which flow?");
}

/// A script's connections are told packet by packet, and traced.
#[test]
fn a_script_is_explained_and_traced() {
    let directory = scratch("drill-traced");
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 32792 <mss 1000,nop,wscale 7>\n+0 > S. 0:0(0) ack 1 <...>\n\
        +.1 < . 1:1(0) ack 1 win 257\n+0 accept(3, ..., ...) = 4\n\
        +0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n+.1 < . 1:1(0) ack 1001 win 257\n";
    let file = write(&directory, "s.pkt", script);
    let folder = directory.join("traces");
    let output = ackwright(&["drill", &file, "--explain", "--trace", &folder.to_string_lossy()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(text.contains("  > 0..1000 ack 0") && text.contains("  < ack 1000"), "{text}");
    assert_eq!(fs::read_dir(&folder).expect("traces").count(), 1);
}
