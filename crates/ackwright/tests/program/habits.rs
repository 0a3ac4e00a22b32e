//! What people type by habit, from other programs or as files call it.

use super::common::{ackwright, scratch, stderr, stdout, write};

/// A word of another program is answered with what does that here.
#[test]
fn words_of_other_programs() {
    for (arguments, told) in [
        (&["ss", "-ti"][..], "--ss-at end"),
        (&["iperf3", "-c", "10.0.0.1"], "ackwright iperf"),
        (&["tcpdump", "-i", "eth0"], "--pcap PORT"),
        (&["packetdrill", "x.pkt"], "ackwright drill"),
        (&["flent", "rrul"], "app = \"rrul\""),
        (&["plot"], "table.tex"),
        (&["runn", "x.toml"], "similar"),
        (&["iperf"], "<--client <ADDRESS>|--server>"),
        (&["iperf", "-s", "-c", "10.0.0.1"], "cannot be used with"),
    ] {
        let refused = ackwright(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&refused).contains(told), "{arguments:?}: {}", stderr(&refused));
    }
}

/// `tc` takes its words without quotes.
#[test]
fn tc_without_quotes() {
    let quoted = ackwright(&["tc", "qdisc add dev eth0 root cake bandwidth 20mbit"]);
    let words = ["tc", "-s", "qdisc", "add", "dev", "eth0", "root", "cake", "bandwidth", "20mbit"];
    assert_eq!(stdout(&ackwright(&words)), stdout(&quoted));
    let two = ackwright(&["tc", "-j", "qdisc add dev a root fq", "qdisc add dev b root pfifo"]);
    assert!(stdout(&two).contains("\"dev\":\"b\""));
    let wrong = ackwright(&["tc", "qdisc", "add", "dev", "eth0", "root", "cakke"]);
    assert!(
        stderr(&wrong).contains("1:25: ") && stderr(&wrong).contains("did you mean \"cake\"?"),
        "{}",
        stderr(&wrong)
    );
    for show in [
        &["tc", "-s", "qdisc", "show", "dev", "eth0"][..],
        &["tc", "qdisc"],
        &["tc", "class", "ls"],
    ] {
        let refused = ackwright(show);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            stderr(&refused).contains("ackwright ctl tc -s qdisc show"),
            "{}",
            stderr(&refused)
        );
    }
}

const SWEEP: &str = r#"
schema = 1
name = "two"
duration = "2s"
repetitions = 3
[nodes]
a = {}
b = {}
[links]
wire = { ends = ["a", "b"], rate = "10mbit", rtt = "10ms" }
[parameters]
cc = "cubic"
[flows]
bulk = { app = "bulk", from = "a", to = "b", congestion_control = "${cc}" }
[measure]
table = ["total goodput"]
[sweep]
cc = ["cubic", "reno"]
"#;

/// `--repetitions` is what files call `--runs`; `--pcap` captures the first of them.
#[test]
fn one_capture_of_each_point() {
    let folder = scratch("habits-pcap");
    let file = write(&folder, "two.toml", SWEEP);
    let out = folder.join("out");
    let place = out.to_string_lossy().into_owned();
    let run = ["run", &file, "--repetitions", "2", "--out", &place, "--pcap", "a.wire,a.*"];
    assert!(stdout(&ackwright(&run)).contains("2 runs per row"));
    let mut captures: Vec<String> = std::fs::read_dir(out.join("pcap"))
        .expect("captures")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    captures.sort();
    assert_eq!(captures, ["cubic-seed-1-a.wire.pcapng", "reno-seed-1-a.wire.pcapng"]);
    // A capture changes no figure.
    let summary =
        |place: &std::path::Path| std::fs::read(place.join("summary.json")).expect("a summary");
    let without = folder.join("without");
    stdout(&ackwright(&["run", &file, "--runs", "2", "--out", &without.to_string_lossy()]));
    assert_eq!(summary(&out), summary(&without));
    let table = std::fs::read_to_string(out.join("table.csv")).expect("a table");
    assert!(table.starts_with("cc,total goodput [Mbit/s],total goodput [Mbit/s] ci95,"), "{table}");
    let latex = std::fs::read_to_string(out.join("table.tex")).expect("a table");
    assert!(latex.contains("cc & goodput [Mbit/s] \\\\") && latex.contains("cubic & $"), "{latex}");

    let unknown = ackwright(&["run", &file, "--out", &place, "--pcap", "a.wir"]);
    assert_eq!(unknown.status.code(), Some(2));
    let told = "--pcap a.wir: no port is called \"a.wir\" (ports are \"NODE.LINK\"); did you mean \"a.wire\"?";
    assert!(stderr(&unknown).contains(told), "{}", stderr(&unknown));
    let file_viewed = ackwright(&["view", &file]);
    assert_eq!(file_viewed.status.code(), Some(2));
    assert!(stderr(&file_viewed).contains("--out DIR --view"), "{}", stderr(&file_viewed));
    let nowhere = ackwright(&["run", &file, "--pcap", "a.wire"]);
    assert!(stderr(&nowhere).contains("--out"), "{}", stderr(&nowhere));
}

/// A script that passes as one kernel and fails as another; a call that waits for lines below it.
#[test]
fn drill_as_another_kernel() {
    let folder = scratch("habits-drill");
    // 3 segments were the initial window of 2007, 10 are that of today.
    let script = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0 %{ assert tcpi_snd_cwnd == 3, tcpi_snd_cwnd }%
";
    let file = write(&folder, "window.pkt", script);
    for (profile, code) in [("linux-2.6.22", 0), ("linux-6.1", 1), ("linux-7.x", 1)] {
        let run = ackwright(&["drill", &file, "--profile", profile]);
        assert_eq!(run.status.code(), Some(code), "{profile}");
    }
    assert_eq!(ackwright(&["drill", &file]).status.code(), Some(1));
    let unknown = ackwright(&["drill", &file, "--profile", "linux-7"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean `linux-7.x`?"), "{}", stderr(&unknown));

    let script = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 connect(3, ..., ...) = 0
+0 > S 0:0(0) <...>
+.1 < S. 0:0(0) ack 1 win 65535 <mss 1460>
";
    let file = write(&folder, "blocking.pkt", script);
    let run = ackwright(&["drill", &file]);
    assert_eq!(run.status.code(), Some(1));
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(told.contains("write `+0...0.100 connect(…)`, or O_NONBLOCK"), "{told}");
}

/// Where there is only the program, it has files to begin with.
#[test]
fn a_file_from_the_program() {
    let folder = scratch("habits-print");
    let text = stdout(&ackwright(&["reproduce", "incast-rto", "--print-toml"]));
    let file = write(&folder, "my.toml", &text);
    assert!(stdout(&ackwright(&["check", &file])).contains("\"incast-rto\" is valid"));
    let unknown = ackwright(&["reproduce", "incast-rtt", "--print-toml"]);
    assert!(stderr(&unknown).contains("did you mean \"incast-rto\"?"), "{}", stderr(&unknown));
    assert_eq!(ackwright(&["reproduce", "--print-toml"]).status.code(), Some(2));
}

/// What is right but may not be meant is a note; keys of other tools have a hint.
#[test]
fn files_written_by_habit() {
    let folder = scratch("habits-files");
    for (from, to, told) in [
        ("\"10mbit\"", "\"10Mbps\"", "note: FILE:10:36: \"10Mbps\" are 10 megabytes a second"),
        ("rate =", "bandwidth =", "unknown key \"bandwidth\"; did you mean \"rate\"?"),
        ("rtt =", "buffer = 10, rtt =", "the queue of a port is in [qdisc]"),
        ("repetitions =", "runs =", "did you mean \"repetitions\"?"),
        ("schema = 1\n", "", "\"schema\" is missing; write schema = 1"),
        ("[flows]", "[sysctl]\ntcp_ecn = 1\n[flows]", "did you mean \"net.ipv4.tcp_ecn\"?"),
        ("\"bulk\"", "\"iperf3\"", "\"iperf3\" is not a valid app; did you mean \"bulk\"?"),
        (
            "\"reno\"]",
            "\"newreno\"]",
            "\"newreno\" is not a valid congestion control; did you mean \"reno\"?",
        ),
        ("cc = \"cubic\"", "c = \"cubic\"", "no parameter is called \"cc\""),
    ] {
        let file = write(&folder, "x.toml", &SWEEP.replace(from, to));
        let checked = ackwright(&["check", &file]);
        let told = told.replace("FILE", &file);
        assert!(stderr(&checked).contains(&told), "{to}: {}", stderr(&checked));
    }
}
