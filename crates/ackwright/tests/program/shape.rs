//! `ackwright shape` between captures, which takes no rights.

use std::fs;

use super::common::{ackwright, path, scratch, stderr, stdout, write};

/// An upload and a download, captured whole in front of the line that is to be shaped.
const EXPERIMENT: &str = "schema = 1\nname = \"both\"\nduration = \"1s\"\n\
    nodes = { home = {}, server = {} }\n[links.lan]\nends = [\"home\", \"server\"]\nrate = \"20mbit\"\n\
    rtt = \"20ms\"\n[flows]\nup = { app = \"bulk\", from = \"home\", to = \"server\" }\n\
    [measure]\npcap = [\"home.lan\"]\nsnaplen = 2000\n";

#[test]
fn a_shaper_traces_its_queues() {
    let directory = scratch("shape-trace");
    let file = write(&directory, "both.toml", EXPERIMENT);
    let out = path(&directory, "out");
    stdout(&ackwright(&["run", &file, "--out", &out]));
    let input = path(&directory, "out/pcap/seed-1-home.lan.pcapng");
    let (trace, ctl) = (path(&directory, "deep/q.pftrace"), path(&directory, "c.sock"));
    let one = format!("file:{input},{}", path(&directory, "a.pcapng"));
    let two = format!("file:{input},{}", path(&directory, "b.pcapng"));
    let shape = |more: &[&str]| {
        let always = ["shape", "--between", &one, &two, "--ctl", &ctl, "--drain", "10ms"];
        let queue = ["--ab", "cake bandwidth 2mbit besteffort"];
        ackwright(&[&always[..], &queue, more].concat())
    };
    let said = stdout(&shape(&["--trace", &trace]));
    assert!(
        said.contains(&format!("the trace is in {trace}; open it in ui.perfetto.dev")),
        "{said}"
    );
    let bytes = fs::read(&trace).expect("a trace");
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    for text in [&one, &format!("queue to {two}"), "backlog", "delay", "Tin 0: backlog", "drop "] {
        assert!(has(text), "{text} is not in the trace");
    }
    let unshaped = ackwright(&["shape", "--between", &one, &two, "--ctl", &ctl, "--drain", "10ms"]);
    let note = "note: no qdisc is given (--ab, --ba, --tc): packets pass unshaped";
    assert!(stderr(&unshaped).contains(note), "{}", stderr(&unshaped));
    assert!(!stderr(&shape(&[])).contains("unshaped"));
    let full = shape(&["--trace", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1), "{}", stderr(&full));
    assert!(stderr(&full).contains("the trace cannot be written"), "{}", stderr(&full));
    let over = shape(&["--trace", &input]);
    assert_eq!(over.status.code(), Some(2), "{}", stderr(&over));
    assert!(stderr(&over).contains("would overwrite"), "{}", stderr(&over));
}
