//! Our own scripts: all of `conformance/tcp` pass, all of `conformance/negative` fail where they say.

use drill::report;
use drill::run::Verdict;
use drill::settings::{IpVersion, command_line_flag};
use drill::suite::{File, Plan, Report, find, run_all};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance").join(name)
}

fn run(files: &[File], versions: &[IpVersion]) -> Vec<Report> {
    let plan = Plan { versions: versions.to_vec(), ..Plan::default() };
    run_all(files, &plan, |_| ()).expect("readable scripts")
}

#[test]
fn every_script_passes_in_every_variant() {
    let files = find(&[folder("tcp")]).expect("scripts");
    assert!(files.len() >= 150, "{} scripts", files.len());
    let reports = run(&files, &IpVersion::ALL);
    let wrong = reports.iter().any(|it| it.outcome.verdict != Verdict::Pass);
    assert!(!wrong, "{}", report::text(&reports));
}

/// What a real 6.18.44 does otherwise than 7.x is what its profile does: these scripts fail there under Google's
/// packetdrill at the same lines, with the same values (the SYN-ACK 4.124 s after the one before, with HZ = 250).
#[test]
fn an_older_kernel_differs_where_it_does() {
    let files = find(&[folder("tcp")]).expect("scripts");
    let plan =
        Plan { flags: vec![command_line_flag("profile", Some("linux-6.18"))], ..Plan::default() };
    let reports = run_all(&files, &plan, |_| ()).expect("readable scripts");
    let mut failed: Vec<(&str, u32, &str)> = Vec::new();
    for report in &reports {
        match &report.outcome.verdict {
            Verdict::Fail(it) => failed.push((&report.name, it.pos.line, &it.reason)),
            other => assert_eq!(*other, Verdict::Pass, "{}", report.name),
        }
    }
    let win = "outbound packet: win expected";
    let told = [
        ("ecn/marks-without-sack-2.pkt", 34, format!("{win} 1061, actual 1062")),
        (
            "listener/syn-ack-rto-max.pkt",
            15,
            "outbound packet: time expected 5.103751 (+2.000000)~5.303751 (+2.200000) ± 0.256000, \
             actual 7.135750 (+4.031999)"
                .into(),
        ),
        ("memory/rcvbuf-keeps-least-window.pkt", 20, format!("{win} 1072, actual 1073")),
        ("memory/rcvbuf-of-a-living-connection.pkt", 21, format!("{win} 414, actual 510")),
        ("memory/squeezed-into-small-heads-2.pkt", 23, format!("{win} 1518, actual 1522")),
        ("recovery/fin-sent-again-is-joined.pkt", 16, format!("{win} 1061, actual 1062")),
        (
            "window/taken-back-lets-in.pkt",
            28,
            "assertion failed: 1: assert tcpi_unacked == 0, tcpi_unacked (tcpi_unacked = 1)".into(),
        ),
    ];
    let told: Vec<_> = told.iter().map(|(name, line, why)| (*name, *line, why.as_str())).collect();
    assert_eq!(failed, told);
}

/// Each negative is a copy of a script of ours with one field altered, which must be found out
/// there and nowhere else.
#[test]
fn every_negative_fails_where_it_says() {
    // The folder of the run holds `tcp/defaults.sh` as well.
    let mut files = find(&[folder("")]).expect("scripts");
    files.retain(|file| file.name.starts_with("negative/"));
    assert!(files.len() >= 40, "{} scripts", files.len());
    let mut fields = BTreeSet::new();
    for report in run(&files, &[IpVersion::Ipv4]) {
        let text = std::fs::read_to_string(folder("").join(&report.name)).expect("readable");
        let (line, field) = expected(&text);
        let Verdict::Fail(failure) = &report.outcome.verdict else {
            panic!("{}: {:?}", report.name, report.outcome.verdict);
        };
        let found = (failure.pos.line, failure.field.as_str());
        assert_eq!(found, (line, field), "{}: {}", report.name, failure.reason);
        fields.insert(field.to_owned());
    }
    assert!(fields.len() >= 20, "{fields:?}");
}

/// The line and field that the comment names: `// Must fail: line 12, field win`.
fn expected(text: &str) -> (u32, &str) {
    let rest = text.lines().find_map(|line| line.strip_prefix("// Must fail: line "));
    let (line, field) = rest.and_then(|rest| rest.split_once(", field ")).expect("a comment");
    (line.parse().expect("a number"), field)
}

/// The same scripts, any number of threads: the same report.
#[test]
fn reports_do_not_depend_on_threads() {
    let files = find(&[folder("tcp/sack-receiver"), folder("tcp/window")]).expect("scripts");
    let report = |jobs| {
        let plan = Plan { versions: vec![IpVersion::Ipv4], jobs, ..Plan::default() };
        report::json(&run_all(&files, &plan, |_| ()).expect("readable scripts"))
    };
    assert_eq!(report(1), report(4));
}
