//! The command line in the hands of somebody who errs, or means harm: what is not ours stays as it is,
//! and every message is short and says what to do.

use crate::common::{ackwright, path, scratch, stderr, write};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PROBES: &str = r#"schema = 1
name = "probes"
duration = "1s"
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
[measure]
pcap = ["a.wire"]
queues = ["a.wire"]
"#;

const SCRIPT: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                      +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)\n";

/// A capture of the probes, taken by a run.
fn capture(directory: &Path) -> String {
    let file = write(directory, "probes.toml", PROBES);
    let ran = ackwright(&["run", &file, "--out", &path(directory, "results")]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    path(directory, "results/pcap/seed-1-a.wire.pcapng")
}

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

#[cfg(unix)]
#[test]
fn an_output_follows_links_and_replaces_no_device_link_or_fifo() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let directory = scratch("outputs");
    let capture = capture(&directory);
    let plots = path(&directory, "plots");
    let replay = |out: &str| {
        let arguments = ["replay", &capture, "--qdisc", "fq", "--rate", "1mbit", "--plots", &plots];
        ackwright(&[&arguments[..], &["--out", out]].concat())
    };
    // A device is written to.
    assert!(replay("/dev/null").status.success());
    assert!(fs::metadata("/dev/null").expect("there").file_type().is_char_device());
    // A symbolic link stays one, and its target is written.
    let real = path(&directory, "real.pcapng");
    let link = path(&directory, "link.pcapng");
    symlink(&real, &link).expect("a link");
    assert!(replay(&link).status.success());
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(fs::read(&real).expect("written").starts_with(&PCAPNG));
    // Into a FIFO it flows.
    let fifo = path(&directory, "fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().expect("cat");
    assert!(replay(&fifo).status.success());
    assert!(reader.wait_with_output().expect("ends").stdout.starts_with(&PCAPNG));
    assert!(fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
    // A directory is none of these.
    let refused = replay(&plots);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("cannot write"), "{}", stderr(&refused));
}

#[cfg(unix)]
#[test]
fn an_output_that_is_the_input_is_refused_under_every_name() {
    let directory = scratch("same");
    let capture = capture(&directory);
    let before = fs::read(&capture).expect("a capture");
    let symlink = path(&directory, "symlink");
    std::os::unix::fs::symlink(&capture, &symlink).expect("a link");
    let hard = path(&directory, "hard");
    fs::hard_link(&capture, &hard).expect("a link");
    for out in [&capture, &symlink, &hard] {
        let refused = ackwright(&["replay", &capture, "--qdisc", "fq", "--out", out]);
        assert_eq!(refused.status.code(), Some(2), "{out}");
        assert!(stderr(&refused).contains("would overwrite"), "{}", stderr(&refused));
    }
    assert_eq!(fs::read(&capture).expect("a capture"), before);
    let script = write(&directory, "x.pkt", SCRIPT);
    let refused = ackwright(&["drill", &script, "--junit", &script]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let routes = write(&directory, "routes.svg", "link add eth0\nroute add default dev eth0\n");
    let flows = write(&directory, "flows.csv", "10.0.0.1,10.0.0.2,17,1,2,100\n");
    let refused = ackwright(&["ecmp", &flows, "--routes", &routes, "--plot", &routes]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

#[test]
fn a_dash_means_standard_output_for_a_single_file() {
    let directory = scratch("dash");
    let capture = capture(&directory);
    let plots = path(&directory, "plots");
    let arguments = ["replay", &capture, "--qdisc", "fq", "--plots", &plots, "--out", "-"];
    let done = ackwright(&arguments);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(done.stdout.starts_with(&PCAPNG));
    assert!(stderr(&done).contains("mean and 99 % delay"), "{}", stderr(&done));
    let both = ackwright(&[&arguments[..], &["--json"]].concat());
    assert_eq!(both.status.code(), Some(2));
    assert!(both.stdout.is_empty());
    let trace = ["replay", &capture, "--qdisc", "fq", "--plots", &plots, "--trace", "-"];
    let done = ackwright(&trace);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(!done.stdout.is_empty() && stderr(&done).contains("mean and 99 % delay"));
    let file = path(&directory, "x.pftrace");
    assert!(ackwright(&[&trace[..7], &[&file]].concat()).status.success());
    assert_eq!(done.stdout, fs::read(&file).expect("the same trace"), "nothing else is in it");
    for more in [&["--json"][..], &["--out", "-"], &["--out", &capture]] {
        let refused = ackwright(&[&trace[..], more].concat());
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
    }
    let one = ackwright(&[&trace[..7], &[&file, "--out", &file]].concat());
    assert_eq!(one.status.code(), Some(2), "{}", stderr(&one));
    let script = write(&directory, "x.pkt", SCRIPT);
    let junit = ackwright(&["drill", &script, "--junit", "-"]);
    assert!(String::from_utf8_lossy(&junit.stdout).starts_with("<?xml"));
    assert_eq!(ackwright(&["drill", &script, "--junit", "-", "--tap"]).status.code(), Some(2));
    let file = write(&directory, "probes.toml", PROBES);
    let refusals: [&[&str]; 7] = [
        &["run", &file, "--out", "-"],
        &["run", &file, "--trace", "-"],
        &["shape", "--between", "no", "device", "--trace", "-"],
        &["reproduce", "rrul", "--out", "-"],
        &["replay", &capture, "--qdisc", "fq", "--plots", "-"],
        &["drill", &script, "--pcap", "-"],
        &["ip", "--config", "-", "route", "show"],
    ];
    for arguments in refusals {
        let refused = Command::new(env!("CARGO_BIN_EXE_ackwright"))
            .args(arguments)
            .current_dir(&directory)
            .output()
            .expect("it starts");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", stderr(&refused));
    }
    assert!(!directory.join("-").exists());
}

#[test]
fn points_with_labels_that_look_alike_have_folders_of_their_own() {
    let directory = scratch("labels");
    let text = format!(
        "{PROBES}[parameters]\nname = \"x\"\n[sweep]\nname = [\"a b\", \"a_b\", \"größer\", \"gräßer\"]\n"
    )
    .replace("name = \"probes\"", "name = \"probes\"\ntitle = \"${name}\"");
    let file = write(&directory, "labels.toml", &text);
    let out = path(&directory, "out");
    let done = ackwright(&["run", &file, "--out", &out, "--json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let mut names: Vec<String> = (0..4)
        .map(|point| json["points"][point]["runs"][0]["name"].as_str().expect("a name").into())
        .collect();
    for name in &names {
        assert!(Path::new(&out).join(format!("series/{name}/port-a.wire.parquet")).is_file());
        assert!(Path::new(&out).join(format!("pcap/{name}-a.wire.pcapng")).is_file());
    }
    assert_eq!(names[1], "a_b-seed-1", "what needs no change keeps its name");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_second_run_replaces_only_files_of_the_first() {
    let directory = scratch("again");
    let file = write(&directory, "probes.toml", PROBES);
    let out = directory.join("out");
    let run =
        |seed: &str| ackwright(&["run", &file, "--seed", seed, "--out", &out.to_string_lossy()]);
    assert!(run("1").status.success());
    fs::write(out.join("notes.txt"), "mine").expect("a file of the user's");
    let again = run("9");
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(stderr(&again).contains("files of an earlier run"), "{}", stderr(&again));
    assert!(!out.join("series/seed-1").exists() && out.join("series/seed-9").exists());
    assert!(out.join("notes.txt").exists());
    // What somebody else has put among the results is not removed, and old figures are not kept
    // beside new ones: the run is refused.
    fs::write(out.join("plots/mine.png"), "mine").expect("a file of the user's");
    let refused = run("10");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("plots/mine.png"), "{}", stderr(&refused));
    assert!(out.join("series/seed-9").exists());
}

/// As on a full disk: no file may grow.
#[cfg(unix)]
#[test]
fn where_nothing_can_be_written_nothing_half_written_stays_and_the_file_is_named() {
    let directory = scratch("full-disk");
    let capture = capture(&directory);
    let script = write(&directory, "x.pkt", SCRIPT);
    let file = write(&directory, "probes.toml", PROBES);
    let routes = write(&directory, "routes.ip", "link add eth0\n");
    let out = path(&directory, "out");
    let one = path(&directory, "one.pcapng");
    let junit = path(&directory, "junit.xml");
    let commands: [(&[&str], &str); 5] = [
        (&["drill", &script, "--pcap", &out], "x_ipv4.pcapng"),
        (&["drill", &script, "--junit", &junit], "junit.xml"),
        (&["run", &file, "--out", &out], "out/"),
        (&["replay", &capture, "--qdisc", "fq", "--plots", &out, "--out", &one], "out/"),
        (&["ip", "--config", &routes, "route", "add", "default", "dev", "eth0"], "routes.ip"),
    ];
    for (arguments, named) in commands {
        let full = Command::new("sh")
            .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_ackwright")])
            .args(arguments)
            .output()
            .expect("it starts");
        assert_eq!(full.status.code(), Some(1), "{arguments:?}: {}", stderr(&full));
        assert!(stderr(&full).contains(named), "{named}: {}", stderr(&full));
        let left = files_below(Path::new(&out));
        assert!(left.iter().all(|name| name.ends_with(".ackwright-files")), "{left:?}");
        assert!(!Path::new(&one).exists() && !Path::new(&junit).exists());
    }
    assert_eq!(fs::read_to_string(&routes).expect("there"), "link add eth0\n");
    assert!(files_below(&directory).iter().all(|name| !name.contains(".part")));
}

fn files_below(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path().to_string_lossy().into_owned());
        }
    }
    files
}

#[test]
fn messages_stay_short_whatever_is_wrong_and_however_long_it_is() {
    let directory = scratch("messages");
    let deep = write(&directory, "deep.toml", &format!("a = {}", "[".repeat(400_000)));
    let dots = write(&directory, "dots.toml", &vec!["a"; 200_000].join("."));
    let word = "x".repeat(400_000);
    let long =
        write(&directory, "long.toml", &PROBES.replace("to = \"b\"", &format!("to = \"{word}\"")));
    let keys = (0..20_000).map(|key| format!("k{key} = 1\n")).collect::<Vec<_>>().concat();
    let keys = write(&directory, "keys.toml", &(keys + PROBES));
    let json = write(&directory, "json.ip", &format!("[{{\"dst\":\"{word}\"}}]"));
    let line = write(&directory, "line.ip", &format!("route {word}"));
    let words = write(&directory, "words.tc", &format!("qdisc add dev e root cake {word}"));
    let script = write(&directory, "long.pkt", &format!("0 {word}(1) = 0\n"));
    let csv = write(&directory, "long.csv", &format!("{word},1\n"));
    let escape =
        write(&directory, "escape.toml", &PROBES.replace("to = \"b\"", "to = \"\\u001b[2Jb\""));
    let commands: [&[&str]; 15] = [
        &["check", &deep],
        &["check", &dots],
        &["check", &long],
        &["check", &keys],
        &["check", &escape],
        &["check", "/dev/zero"],
        &["check", &deep, "--set", &word[..100_000]],
        &["ip", "--config", &json, "route", "show"],
        &["ip", "--config", &line, "route", "show"],
        &["ip", "--config", "/dev/zero", "route", "show"],
        &["tc", "--file", &words],
        &["ecmp", &csv, "--routes", &line],
        &["drill", "--dry-run", "/dev/zero"],
        &["vectors", &json],
        &["swarm", "--case", "/dev/zero"],
    ];
    for arguments in commands {
        let output = ackwright(arguments);
        let text = stderr(&output);
        let arguments: Vec<&str> = arguments.iter().map(|it| &it[..it.len().min(60)]).collect();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text:.2000}");
        assert!(!text.is_empty() && text.len() < 12_000, "{arguments:?}: {} bytes", text.len());
        assert!(
            !text.contains("panicked") && !text.contains('\u{1b}'),
            "{arguments:?}: {text:.2000}"
        );
    }
    for arguments in [&["drill", &script][..], &["drill", &script, "--json"]] {
        let output = ackwright(arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(output.stdout.len() < 12_000, "{} bytes", output.stdout.len());
    }
    assert!(
        stderr(&ackwright(&["ip", "--config", &json, "route", "show"])).contains("this is JSON")
    );
}

#[test]
fn a_mistake_is_reported_with_a_correction() {
    let directory = scratch("told");
    let bursts =
        write(&directory, "x.toml", &PROBES.replace("rtt =", "loss = \"gemodel 1% 10\"\nrtt ="));
    let told = stderr(&ackwright(&["check", &bursts]));
    assert!(told.contains(":8:8: \"10\""), "{told}");
    assert!(told.contains("percentage"), "{told}");
    let missing = stderr(&ackwright(&["drill", "/nowhere/x.pkt"]));
    assert!(missing.contains("/nowhere/x.pkt"), "{missing}");
    let file = write(&directory, "probes.toml", PROBES);
    let many = ackwright(&["run", &file, "--runs", "4000000000"]);
    assert_eq!(many.status.code(), Some(2));
    assert!(stderr(&many).contains("at most 100000"), "{}", stderr(&many));
    let beyond = ackwright(&["run", &file, "--seed", "9223372036854775807", "--runs", "2"]);
    assert_eq!(beyond.status.code(), Some(2));
    assert!(stderr(&beyond).contains("--seed: 9223372036854775807 with 2"), "{}", stderr(&beyond));
    let zeros = write(&directory, "zeros.ip", &format!("link add eth0\n{}", "\0".repeat(1 << 20)));
    let no_text = ackwright(&["ip", "--config", &zeros, "route", "show"]);
    assert_eq!(no_text.status.code(), Some(2));
    let told = stderr(&no_text);
    assert!(told.ends_with("zeros.ip: line 2 has a zero byte: this is no text\n"), "{told}");
    let case = write(&directory, "case.toml", "kind = \"world\"\n[case]\nseed = \"x\"\n");
    let no_case = ackwright(&["swarm", "--case", &case]);
    assert_eq!(no_case.status.code(), Some(2));
    assert!(stderr(&no_case).contains("case.toml:3:8: invalid type"), "{}", stderr(&no_case));
}

/// A star of three hosts with a workload.
const STAR: &str = r#"schema = 1
name = "star"
duration = "100ms"
[topology]
kind = "star"
hosts = 3
rate = "10mbit"
[workload.w]
size = "fixed 1kb"
load = 0.5
"#;

/// What is wrong is told with its place and what would be right, and nothing is written.
#[test]
fn what_cannot_be_run_is_refused_before_anything_is_written() {
    let directory = scratch("refused");
    write(&directory, "short.cdf", "1000 0.5\n2000 0.9\n");
    let pieces = r#"{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}],
                     "links": [{"source": "a", "target": "b"}, {"source": "c", "target": "d"}]}"#;
    write(&directory, "pieces.json", pieces);
    let load = |load: &str| STAR.replace("load = 0.5", &format!("load = {load}"));
    let above_0 = ":10:8: a \"load\" must be above 0 and at most 1, not ";
    let table = [
        (
            STAR.replace("fixed 1kb", "file short.cdf"),
            ":9:8: ",
            "short.cdf:2: the last share must be 1, not 0.9",
        ),
        (load("0"), above_0, "not 0\n"),
        (load("-0.5"), above_0, "not -0.5\n"),
        (load("1.01"), above_0, "not 1.01\n"),
        (
            STAR.replace("kind = \"star\"\nhosts = 3", "kind = \"graph\"\nfile = \"pieces.json\""),
            ":6:8: the graph is not connected: no path leads from \"a\" to \"c\"",
            "connect it, or write one component",
        ),
        (format!("{STAR}[workload.w]\nload = 1"), ":11:11: duplicate key", "rename one of the two"),
        (
            format!("{STAR}[nodes]\nhost-1 = {{}}"),
            "another node is called \"host-1\" too",
            ":4:1: ",
        ),
        (
            format!("{STAR}[links.host-1]\nends = [\"host-2\", \"host-3\"]\nrate = \"1mbit\""),
            "another link is called \"host-1\" too",
            ":4:1: ",
        ),
        (
            PROBES.replace(
                "[flows.ping]",
                "[flows.ping-2]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n[flows.ping]\ncount = 2",
            ),
            ":13:8: another flow is called \"ping-2\" too",
            "",
        ),
        (
            format!("{STAR}[flows.w]\napp = \"bulk\"\nfrom = \"host-1\"\nto = \"host-2\""),
            ":8:11: a flow or a group is called \"w\" too",
            "",
        ),
        (
            format!("{PROBES}[links.second]\nends = [\"a\", \"b\"]\ncost = 2"),
            ":19:8: a \"cost\" needs a [topology]",
            "[routes]",
        ),
    ];
    for (text, what, more) in table {
        let file = write(&directory, "wrong.toml", &text);
        let out = path(&directory, "out");
        let refused = ackwright(&["run", &file, "--out", &out]);
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}: {told}");
        assert!(
            told.contains("wrong.toml") && told.contains(what) && told.contains(more),
            "{text}: {told}"
        );
        assert!(!Path::new(&out).exists(), "{text}");
    }
}

/// What is asked for and cannot be drawn is told: before the run where it can be known.
#[test]
fn no_picture_is_left_out_in_silence() {
    let directory = scratch("no-picture");
    let plots = "[[plot]]\nwhat = \"utilisation\"\n[[plot]]\nwhat = \"ping goodput\"\n\
                 [[plot]]\nwhat = \"ping latency median\"\nname = \"alone\"\n";
    let file = write(&directory, "plots.toml", &format!("{PROBES}{plots}"));
    let out = path(&directory, "out");
    let ran = ackwright(&["run", &file, "--out", &out]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    for told in [
        "note: [[plot]]: plot \"utilisation\" is empty: none of it was measured",
        "note: [[plot]]: no metric is called \"ping goodput\"",
    ] {
        assert!(stderr(&ran).contains(told), "{}", stderr(&ran));
    }
    // Where nothing is swept a metric is one bar.
    let data = fs::read_to_string(directory.join("out/plots/alone.csv")).expect("data");
    assert!(data.starts_with("group,bar,value,ci95\n,,"), "{data}");
    let odd = ackwright(&["run", &file, "--out", &out, "--plot-flows", "ping,pong"]);
    assert_eq!(odd.status.code(), Some(2));
    let told = "--plot-flows pong: no such flow; did you mean \"ping\"?";
    assert!(stderr(&odd).contains(told), "{}", stderr(&odd));
    assert!(directory.join("out/summary.json").is_file(), "what was there stays");
    for option in ["--out", "--qlog"] {
        let into_file = ackwright(&["run", &file, option, &file]);
        assert_eq!(into_file.status.code(), Some(2), "{}", stderr(&into_file));
        assert!(
            stderr(&into_file).contains("plots.toml is not a directory"),
            "{}",
            stderr(&into_file)
        );
        let below = format!("{file}/results");
        let below_file = ackwright(&["run", &file, option, &below]);
        assert_eq!(below_file.status.code(), Some(2), "{}", stderr(&below_file));
        assert!(
            stderr(&below_file).contains("plots.toml is not a directory"),
            "{}",
            stderr(&below_file)
        );
    }
}

/// A file that lies where a folder is to be made is told of before anything runs.
#[test]
fn no_folder_is_made_of_a_file() {
    let directory = scratch("no-folder");
    let script = write(&directory, "connect.pkt", SCRIPT);
    for option in ["--pcap", "--trace"] {
        for folder in [script.clone(), format!("{script}/below")] {
            let refused = ackwright(&["drill", &script, option, &folder]);
            assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
            assert!(
                stderr(&refused).contains("connect.pkt is not a directory"),
                "{}",
                stderr(&refused)
            );
        }
    }
}

#[test]
fn pictures_of_next_hops_have_their_data_beside_them_and_replace_no_input() {
    let directory = scratch("next-hop-pictures");
    let routes = "link add in0\nlink add eth1\nlink add eth2\nroute add default nexthop dev eth1 nexthop dev eth2\n";
    let routes = write(&directory, "routes.ip", routes);
    let flows = write(&directory, "flows.csv", "10.9.0.7,198.18.0.1,6,40000,443,1000\n");
    let at = |name: &str| path(&directory, name);
    let ecmp = |plot: &str, regions: &str| {
        let pictures = ["--plot", &at(plot), "--regions", &at(regions)];
        ackwright(&[&["ecmp", &flows, "--routes", &routes][..], &pictures].concat())
    };
    let drawn = ecmp("load.pdf", "regions.svg");
    assert_eq!(drawn.status.code(), Some(0), "{}", stderr(&drawn));
    let read = |name: &str| fs::read(directory.join(name)).expect("it was written");
    assert!(read("load.pdf").starts_with(b"%PDF-"));
    assert!(read("load.csv").starts_with(b"group,bar,value,ci95\n"));
    assert!(read("regions.csv").starts_with(b"row,next_hop,from,to\n"));
    for (plot, regions, why) in [
        ("flows.png", "r.png", "which is read"),
        ("same.png", "same.svg", "the same data file"),
        ("load.gif", "r.png", "must end in .svg, .png or .pdf"),
    ] {
        let refused = ecmp(plot, regions);
        assert_eq!(refused.status.code(), Some(2), "{plot}");
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
        assert!(!directory.join("r.png").exists() && !directory.join(plot).exists());
    }
}

/// Each of them is a thread.
#[test]
fn more_jobs_than_a_machine_can_use_are_refused() {
    let directory = scratch("jobs");
    let file = write(&directory, "probes.toml", PROBES);
    let script = write(&directory, "connect.pkt", SCRIPT);
    for command in [
        &["run", &file][..],
        &["reproduce", "policer"],
        &["drill", &script],
        &["swarm", "--seeds", "0..1"],
    ] {
        let refused = ackwright(&[command, &["--jobs", "1025"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{command:?}");
        assert!(stderr(&refused).contains("1025 is not in"), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("..=1024"), "{}", stderr(&refused));
    }
    let taken = ackwright(&["run", &file, "--jobs", "1024"]);
    assert_eq!(taken.status.code(), Some(0), "{}", stderr(&taken));
}

/// What needs an option that another one excludes is not passed over.
#[cfg(target_os = "linux")]
#[test]
fn options_that_need_others_are_refused_without_them() {
    let between = ["shape", "--between", "file:a,b", "file:c,d"];
    let queue = "cake bandwidth 1mbit";
    for words in [
        &[&between[..], &["--egress", queue]].concat()[..],
        &[&between[..], &["--ingress", queue]].concat(),
        &["shape", "--dev", "eth0", "--ab", queue],
        &["shape", "--dev", "eth0", "--ba", queue],
        &["shape", "--egress", queue, "--ab", queue],
        &["run", "x.toml", "--stack", "kernel", "--resume", "out"],
        &["run", "x.toml", "--explain-packets", "--json"],
        &["reproduce", "policer", "--quick", "--live-runs", "2"],
        &["reproduce", "policer", "--resume", "out", "--live-stack", "ours"],
        &["iperf", "-c", "10.0.0.1", "-1"],
    ] {
        let refused = ackwright(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(
            stderr(&refused).contains("cannot be used with"),
            "{words:?}: {}",
            stderr(&refused)
        );
    }
}
