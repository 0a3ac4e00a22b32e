//! Sweeps that do not come to their end, and go on later.

use crate::common::{ackwright, path, scratch, stderr, stdout, write};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const SWEEP: &str = r#"schema = 1
name = "sweep"
title = "Sweep"
duration = "1s"
repetitions = 2
nodes = { a = {}, b = {} }
[links.wire]
ends = ["a", "b"]
rate = "10mbit"
rtt = "20ms"
[flows]
ping = { app = "ping", from = "a", to = "b", interval = "10ms" }
load = { app = "bulk", from = "a", to = "b" }
[workload.short]
size = "fixed 20kb"
load = 0.2
[qdisc]
"a.wire" = "fq_codel limit 100"
[measure]
pcap = ["a.wire"]
utilisation = ["a.wire"]
table = ["total goodput"]
[sweep]
"links.wire.rate" = ["5mbit", "10mbit", "20mbit"]
[draw]
"links.wire.rtt" = { uniform = ["18ms", "22ms"] }
"#;

/// All files below a directory.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        assert!(other[name] == *bytes, "{name} differs");
    }
}

/// What a sweep leaves that was stopped and resumed is what it leaves in one go, byte by byte.
#[test]
fn a_sweep_resumes_where_it_stopped() {
    let directory = scratch("resume");
    let file = write(&directory, "sweep.toml", SWEEP);
    let [whole, part] = ["whole", "part"].map(|name| path(&directory, name));
    let table = stdout(&ackwright(&["run", &file, "--out", &whole]));
    // Two of six runs, and what a killed run leaves.
    stdout(&ackwright(&["run", &file, "--set", "links.wire.rate=10mbit", "--out", &part]));
    fs::write(format!("{part}/pcap/.5mbit-seed-1-a.wire.pcapng.part"), b"half").expect("a part");
    let resumed = ackwright(&["run", &file, "--resume", &part]);
    assert!(stderr(&resumed).contains("has 2 of 6 runs"), "{}", stderr(&resumed));
    assert_eq!(table.replace(&whole, &part), stdout(&resumed));
    assert_same(Path::new(&whole), Path::new(&part));
    // All runs are there: only tables and plots are written anew.
    let again = ackwright(&["run", &file, "--resume", &part, "--jobs", "1"]);
    assert!(stderr(&again).contains("has 6 of 6 runs"), "{}", stderr(&again));
    assert_same(Path::new(&whole), Path::new(&part));
}

/// A run whose plan has changed is run again, and so is one whose files are gone.
#[test]
fn what_has_changed_is_run_again() {
    let directory = scratch("resume-changed");
    let file = write(&directory, "sweep.toml", SWEEP);
    let [whole, part] = ["whole", "part"].map(|name| path(&directory, name));
    stdout(&ackwright(&["run", &file, "--out", &part]));
    fs::remove_file(format!("{part}/series/10mbit-seed-2/flow-load.parquet")).expect("a file");
    let changed = SWEEP
        .replace("interval = \"10ms\"", "interval = \"20ms\"")
        .replace("pcap = [\"a.wire\"]", "pcap = [\"b.wire\"]")
        .replace(", \"20mbit\"", "");
    let file = write(&directory, "sweep.toml", &changed);
    stdout(&ackwright(&["run", &file, "--out", &whole]));
    let resumed = ackwright(&["run", &file, "--resume", &part]);
    assert!(stderr(&resumed).contains("has 3 of 4 runs"), "{}", stderr(&resumed));
    stdout(&resumed);
    assert_same(Path::new(&whole), Path::new(&part));
    // More repetitions are only added.
    let more = ackwright(&["run", &file, "--runs", "3", "--resume", &part]);
    assert!(stderr(&more).contains("has 4 of 6 runs"), "{}", stderr(&more));
    stdout(&ackwright(&["run", &file, "--runs", "3", "--out", &whole]));
    assert_same(Path::new(&whole), Path::new(&part));
}

/// Of the first run of a point there are more files: one that was not the first is run again.
#[test]
fn another_seed_has_another_first_run() {
    let directory = scratch("resume-seed");
    let file = write(&directory, "sweep.toml", SWEEP);
    let part = path(&directory, "part");
    stdout(&ackwright(&["run", &file, "--seed", "4", "--out", &part]));
    for (seed, kept) in [("5", 3), ("4", 3)] {
        let whole = path(&directory, &format!("whole-{seed}"));
        stdout(&ackwright(&["run", &file, "--seed", seed, "--out", &whole]));
        let resumed = ackwright(&["run", &file, "--seed", seed, "--resume", &part]);
        assert!(stderr(&resumed).contains(&format!("has {kept} of 6")), "{}", stderr(&resumed));
        stdout(&resumed);
        assert_same(Path::new(&whole), Path::new(&part));
    }
}

/// What is recorded besides is so of all runs of the sweep, or of none.
#[test]
fn what_the_viewer_shows_is_resumed_too() {
    let directory = scratch("resume-view");
    let file = write(&directory, "sweep.toml", SWEEP);
    let [plain, viewed, part] = ["plain", "viewed", "part"].map(|name| path(&directory, name));
    stdout(&ackwright(&["run", &file, "--out", &plain]));
    stdout(&ackwright(&["run", &file, "--out", &viewed, "--view"]));
    let one = ["--set", "links.wire.rate=10mbit", "--explain", "load"];
    stdout(&ackwright(&[&["run", &file, "--out", &part], &one[..]].concat()));
    for (options, whole) in [(&[][..], &plain), (&["--view"], &viewed), (&[], &plain)] {
        let words = [&["run", &file, "--resume", &part], options].concat();
        stdout(&ackwright(&words));
        assert_same(Path::new(whole), Path::new(&part));
    }
    let nowhere = ackwright(&["run", &file, "--view"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(stderr(&nowhere).contains("--out <DIR>|--resume <DIR>"), "{}", stderr(&nowhere));
}

/// A machine that has lost its power keeps names of files and loses what was in them: such runs are
/// run again, too.
#[test]
fn a_run_whose_files_are_damaged_is_run_again() {
    let directory = scratch("resume-damaged");
    let file = write(&directory, "sweep.toml", SWEEP);
    let [whole, part] = ["whole", "part"].map(|name| path(&directory, name));
    for out in [&whole, &part] {
        stdout(&ackwright(&["run", &file, "--out", out]));
    }
    let damaged = [
        ("series/5mbit-seed-2/flow-load.parquet", 0),
        ("flows.csv/10mbit-seed-1.csv", 40),
        ("runs/20mbit-seed-1.json", 100),
    ];
    for (name, len) in damaged {
        let file = fs::OpenOptions::new().write(true).open(format!("{part}/{name}"));
        file.expect(name).set_len(len).expect(name);
    }
    let resumed = ackwright(&["run", &file, "--resume", &part]);
    assert!(stderr(&resumed).contains("has 3 of 6 runs"), "{}", stderr(&resumed));
    stdout(&resumed);
    assert_same(Path::new(&whole), Path::new(&part));
}

/// Ctrl-C shows what is finished, and leaves it whole.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_sweep_shows_finished_runs() {
    let directory = scratch("resume-stopped");
    let endless = SWEEP
        .replace("\"links.wire.rate\" = [\"5mbit\", \"10mbit\", \"20mbit\"]", "")
        .replace("[measure]", "[measure]\nsample = \"100ms\"")
        .replace("[sweep]", "[sweep]\nduration = [\"1s\", \"100000s\"]\n");
    let file = write(&directory, "sweep.toml", &endless);
    let out = directory.join("out");
    let mut child = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_ackwright"), "run", &file])
        .args(["--set", "flows.load.stop=1s", "--set", "workload.short.stop=1s", "--jobs", "1"])
        .args(["--out", &out.to_string_lossy()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    while !out.join("runs/1s-seed-2.json").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 of 4 runs are finished"), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("1s") && table.contains(" ± ") && !table.contains("100000s"), "{table}");
    let summary = fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["unfinished_runs"], 2);
    assert_eq!(summary["points"].as_array().map(Vec::len), Some(1));
    assert!(files(&out).keys().all(|name| !name.contains(".part")));
    let rows = fs::read_to_string(out.join("results.csv")).expect("results");
    assert!(rows.lines().count() > 20, "{rows}");
    // With an end in sight it goes on, to what one sweep gives.
    let file = write(&directory, "sweep.toml", &endless.replace("100000s", "2s"));
    let stop = ["--set", "flows.load.stop=1s", "--set", "workload.short.stop=1s"];
    let whole = path(&directory, "whole");
    stdout(&ackwright(&[&["run", &file, "--out", &whole], &stop[..]].concat()));
    let part = out.to_string_lossy();
    let resumed = ackwright(&[&["run", &file, "--resume", &part], &stop[..]].concat());
    assert!(stderr(&resumed).contains("has 2 of 4 runs"), "{}", stderr(&resumed));
    assert_same(Path::new(&whole), &out);
}

/// A publication goes on as a sweep does.
#[test]
fn a_reproduction_resumes_where_it_stopped() {
    let directory = scratch("resume-reproduce");
    let [whole, part] = ["whole", "part"].map(|name| path(&directory, name));
    let arguments = ["reproduce", "incast-rto", "--quick", "--runs", "1"];
    let told = stdout(&ackwright(&[&arguments[..], &["--out", &whole]].concat()));
    stdout(&ackwright(&[&arguments[..], &["--out", &part]].concat()));
    let runs = Path::new(&part).join("incast-rto/runs");
    fs::remove_file(runs.join("1ms-48-seed-1.json")).expect("a record");
    let resumed = ackwright(&[&arguments[..], &["--resume", &part]].concat());
    assert!(stderr(&resumed).contains("has 11 of 12 runs"), "{}", stderr(&resumed));
    assert_eq!(told.replace(&whole, &part), stdout(&resumed));
    assert_same(Path::new(&whole), Path::new(&part));
}

/// What is in the way of the last publication is told before the first one runs.
#[test]
fn nothing_is_reproduced_if_the_last_output_is_blocked() {
    let directory = scratch("reproduce-place");
    let out = path(&directory, "out");
    fs::create_dir_all(format!("{out}/rrul")).expect("a folder");
    fs::write(format!("{out}/rrul/summary.json"), "mine").expect("a file");
    for option in ["--out", "--resume"] {
        let refused = ackwright(&["reproduce", "policer", "rrul", "--quick", option, &out]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("rrul/summary.json"), "{}", stderr(&refused));
        assert!(!Path::new(&out).join("policer").exists());
    }
}

/// A publication that is stopped shows and writes what is finished, as a sweep does, and nobody else writes
/// to a directory meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_reproduction_shows_finished_runs() {
    let directory = scratch("stop-reproduce");
    let out = directory.join("out/incast-rto");
    let file = write(&directory, "sweep.toml", SWEEP);
    let mut child = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_ackwright"), "reproduce", "incast-rto"])
        .args(["--runs", "1000", "--jobs", "1", "--out", &path(&directory, "out")])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    while fs::read_dir(out.join("runs")).map_or(0, Iterator::count) < 2 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    for option in ["--out", "--resume"] {
        let refused = ackwright(&["run", &file, option, &out.to_string_lossy()]);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("written by another run"), "{}", stderr(&refused));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("switch.out") && table.contains(" ± "), "{table}");
    let summary = fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert!(summary["unfinished_runs"].as_u64() > Some(0), "{summary}");
    assert!(out.join("results.csv").exists());
}

/// What is seen only while a run lasts is refused with the reason.
#[test]
fn a_finished_run_cannot_be_looked_at_again() {
    let directory = scratch("resume-seen");
    let file = write(&directory, "sweep.toml", SWEEP);
    let out = path(&directory, "out");
    for seen in [["--ss-at", "1s"], ["--explain", "load"], ["--trace", "t"], ["--qlog", "q"]] {
        let refused = ackwright(&[&["run", &file, "--resume", &out], &seen[..]].concat());
        assert_eq!(refused.status.code(), Some(2));
        let told = stderr(&refused);
        assert!(told.contains("does not repeat finished runs") && told.contains(seen[0]), "{told}");
        assert!(!Path::new(&out).exists());
    }
}

/// What no longer fits is told, and what did fit stays and need not be run again.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_finished_results() {
    let directory = scratch("resume-full");
    // The capture of the second point is too long.
    let sweep = SWEEP.replace("[\"5mbit\", \"10mbit\", \"20mbit\"]", "[\"1mbit\", \"50mbit\"]");
    let file = write(&directory, "sweep.toml", &sweep);
    let [whole, part] = ["whole", "part"].map(|name| path(&directory, name));
    stdout(&ackwright(&["run", &file, "--out", &whole]));
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 1000; \"$0\" run \"$1\" --jobs 1 --out \"$2\""])
        .args([env!("CARGO_BIN_EXE_ackwright"), &file, &part])
        .output()
        .expect("it starts");
    assert_eq!(limited.status.code(), Some(1), "{}", stderr(&limited));
    let told = stderr(&limited);
    assert!(told.contains("cannot write") && told.contains("2 of 4 runs are finished"), "{told}");
    assert!(String::from_utf8_lossy(&limited.stdout).contains("1mbit"));
    let resumed = ackwright(&["run", &file, "--resume", &part]);
    assert!(stderr(&resumed).contains("has 2 of 4 runs"), "{}", stderr(&resumed));
    assert_same(Path::new(&whole), Path::new(&part));
}

/// What is drawn can be chosen, and its data lies beside each picture.
#[test]
fn plots_can_be_chosen() {
    let directory = scratch("plots");
    let file = write(&directory, "sweep.toml", SWEEP);
    let out = path(&directory, "out");
    let drawn =
        |out: &str| -> Vec<String> { files(&Path::new(out).join("plots")).into_keys().collect() };
    stdout(&ackwright(&[
        "run",
        &file,
        "--runs",
        "1",
        "--plot-format",
        "svg,pdf",
        "--plot-flows",
        "load",
        "--out",
        &out,
    ]));
    let all = drawn(&out);
    for name in [
        "5mbit-cwnd.svg",
        "5mbit-cwnd.pdf",
        "5mbit-cwnd.csv",
        "compare-utilisation.csv",
        "compare-queue-delay-cdf.pdf",
        "5mbit-fct-cdf.csv",
        "sweep-total-goodput.svg",
    ] {
        assert!(all.iter().any(|it| it == name), "{name} is not among {all:?}");
    }
    assert!(all.iter().all(|name| !name.contains(".png")));
    let goodput = fs::read_to_string(format!("{out}/plots/sweep-total-goodput.csv")).expect("data");
    assert!(goodput.starts_with("line,label,x,y,ci95,low,high\n"), "{goodput}");
    assert_eq!(goodput.lines().count(), 4, "{goodput}");
    let chosen =
        format!("{SWEEP}\n[[plot]]\nwhat = \"throughput\"\nformat = \"svg\"\nname = \"one\"\n");
    let file = write(&directory, "chosen.toml", &chosen);
    stdout(&ackwright(&[
        "run",
        &file,
        "--runs",
        "1",
        "--set",
        "links.wire.rate=5mbit",
        "--out",
        &out,
    ]));
    assert_eq!(drawn(&out), ["5mbit-one.csv", "5mbit-one.svg"]);
}
