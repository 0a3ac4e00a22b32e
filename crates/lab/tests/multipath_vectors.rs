//! Every kind of choice that Linux 6.18 was seen to make, replayed: IPv4 and IPv6, all policies,
//! tunnels, fragments, ICMP errors, link and neighbour states. And the comparer itself: one
//! altered choice must be found where it is.

use flate2::Compression;
use flate2::write::GzEncoder;
use lab::vectors::{self, Verdict};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/multipath_6_18.jsonl.gz");

#[test]
fn every_recorded_choice_is_ours() {
    let report = vectors::run(Path::new(RECORDING)).expect("the recording is readable");
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(report.passed(), report.scenarios.len());
    assert!(report.passed() > 600, "{} records", report.passed());
}

#[test]
fn an_altered_choice_fails_at_its_place() {
    let lines = vectors::read_lines(Path::new(RECORDING)).expect("the recording is readable");
    for record in [2usize, 20, 40, 60, 100, 200, 400, 600] {
        let mut altered = lines.clone();
        let Some(hop) = altered[record]["hop"].as_str() else { continue };
        let place = hop.len() / 2;
        let other = if hop.as_bytes()[place] == b'1' { "2" } else { "1" };
        let changed = format!("{}{other}{}", &hop[..place], &hop[place + 1..]);
        altered[record]["hop"] = json!(changed);
        let path = write(&altered, record);
        let report = vectors::run(&path).expect("the altered recording is readable");
        std::fs::remove_file(&path).expect("our own file");
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures.len(), 1, "record {record}");
        assert_eq!(failures[0].1.index, Some(place as u64), "record {record}");
        assert!(matches!(failures[0].0.verdict, Verdict::Failed(_)));
    }
}

fn write(lines: &[Value], record: usize) -> PathBuf {
    let path = std::env::temp_dir().join(format!("multipath-{}-{record}.gz", std::process::id()));
    let file = std::fs::File::create(&path).expect("a temporary file");
    let mut zip = GzEncoder::new(file, Compression::fast());
    for line in lines {
        writeln!(zip, "{line}").expect("room in the temporary file");
    }
    zip.finish().expect("room in the temporary file");
    path
}
