//! Reports: a summary for people, JSON, JUnit and TAP for programs.

use crate::run::{Failure, Verdict};
use crate::suite::Report;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many scripts ended how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// As the script says.
    pub passed: usize,
    /// Not so.
    pub failed: usize,
    /// Not run, for a reason.
    pub skipped: usize,
}

impl Counts {
    /// Of all reports.
    pub fn of<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Self {
        let mut counts = Self::default();
        for report in reports {
            match report.outcome.verdict {
                Verdict::Pass => counts.passed += 1,
                Verdict::Fail(_) => counts.failed += 1,
                Verdict::Skip { .. } => counts.skipped += 1,
            }
        }
        counts
    }
}

/// Result, reason and line, as JSON has them.
fn parts(verdict: &Verdict) -> (&'static str, Option<String>, Option<u32>) {
    match verdict {
        Verdict::Pass => ("pass", None, None),
        Verdict::Fail(failure) => ("fail", Some(failure.reason.clone()), Some(failure.pos.line)),
        Verdict::Skip { pos, because } => {
            let line = (pos.line > 0).then_some(pos.line);
            ("skip", Some(because.clone()), line)
        }
    }
}

/// `{"passed":N,"failed":N,"skipped":N,"scripts":[…]}`.
pub fn json(reports: &[Report]) -> Value {
    let counts = Counts::of(reports);
    let scripts: Vec<Value> = reports
        .iter()
        .map(|report| {
            let (result, reason, line) = parts(&report.outcome.verdict);
            json!({
                "path": report.name,
                "ip_version": report.version.name(),
                "result": result,
                "reason": reason,
                "line": line,
            })
        })
        .collect();
    json!({
        "passed": counts.passed,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "scripts": scripts,
    })
}

/// A failure in full: where, what, expected beside actual, the packets around.
pub fn failure(report: &Report, failure: &Failure) -> String {
    let mut out = format!(
        "{}:{}: [{}] {}\n",
        report.name,
        failure.pos,
        report.version.name(),
        failure.reason
    );
    for line in &failure.details {
        writeln!(out, "{line}").expect("a string takes anything");
    }
    out
}

/// Failures in full, then a table by folder, then why scripts were skipped.
pub fn text(reports: &[Report]) -> String {
    let mut out = String::new();
    for report in reports {
        for warning in &report.outcome.warnings {
            let _ = write!(out, "warning: {}", failure(report, warning));
        }
        if let Verdict::Fail(it) = &report.outcome.verdict {
            out.push_str(&failure(report, it));
            out.push('\n');
        }
    }
    out.push_str(&table(reports));
    let skips = skip_reasons(reports);
    if !skips.is_empty() {
        out.push_str("\nskipped because\n");
        for (because, count) in skips {
            writeln!(out, "  {count:>4}  {because}").expect("a string takes anything");
        }
    }
    out
}

/// Passed, failed and skipped by folder and IP version.
fn table(reports: &[Report]) -> String {
    let mut groups: BTreeMap<(String, &str), Vec<&Report>> = BTreeMap::new();
    for report in reports {
        let folder = report.name.rsplit_once('/').map_or(".", |(folder, _)| folder);
        groups.entry((folder.to_owned(), report.version.name())).or_default().push(report);
    }
    let width =
        groups.keys().map(|(folder, _)| folder.chars().count()).max().unwrap_or(6).clamp(6, 40);
    let mut out = format!(
        "{:width$}  {:16}  {:>6}  {:>6}  {:>7}\n",
        "folder", "IP version", "passed", "failed", "skipped"
    );
    let mut row = |folder: &str, version: &str, counts: Counts| {
        // The end of a long name tells more than its beginning.
        let chars: Vec<char> = folder.chars().collect();
        let shown: String = chars[chars.len().saturating_sub(width)..].iter().collect();
        writeln!(
            out,
            "{shown:width$}  {version:16}  {:>6}  {:>6}  {:>7}",
            counts.passed, counts.failed, counts.skipped
        )
        .expect("a string takes anything");
    };
    if groups.len() > 1 {
        for ((folder, version), reports) in &groups {
            row(folder, version, Counts::of(reports.iter().copied()));
        }
    }
    row("all", "", Counts::of(reports));
    out
}

fn skip_reasons(reports: &[Report]) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for report in reports {
        if let Verdict::Skip { because, .. } = &report.outcome.verdict {
            *reasons.entry(because.clone()).or_insert(0) += 1;
        }
    }
    reasons
}

/// TAP version 13, as kernel selftests print it.
pub fn tap(reports: &[Report]) -> String {
    let mut out = format!("TAP version 13\n1..{}\n", reports.len());
    for (index, report) in reports.iter().enumerate() {
        let number = index + 1;
        let name = format!("{} ({})", report.name, report.version.name());
        match &report.outcome.verdict {
            Verdict::Pass => writeln!(out, "ok {number} {name}"),
            Verdict::Skip { because, .. } => writeln!(out, "ok {number} {name} # SKIP {because}"),
            Verdict::Fail(it) => {
                let told = failure(report, it);
                let lines: String = told
                    .lines()
                    .flat_map(|line| {
                        [
                            "# ", line, "
",
                        ]
                    })
                    .collect();
                write!(out, "not ok {number} {name}\n{lines}")
            }
        }
        .expect("a string takes anything");
    }
    out
}

/// JUnit XML, as CI systems read it.
pub fn junit(reports: &[Report]) -> String {
    let counts = Counts::of(reports);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites>\n<testsuite name=\"drill\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
        reports.len(),
        counts.failed,
        counts.skipped
    );
    for report in reports {
        let name = xml(&report.name);
        let version = report.version.name();
        write!(out, "<testcase classname=\"{version}\" name=\"{name}\">")
            .expect("a string takes anything");
        match &report.outcome.verdict {
            Verdict::Pass => {}
            Verdict::Skip { because, .. } => {
                write!(out, "<skipped message=\"{}\"/>", xml(because))
                    .expect("a string takes anything");
            }
            Verdict::Fail(it) => {
                let (message, body) = (xml(&it.reason), xml(&failure(report, it)));
                write!(out, "<failure message=\"{message}\">{body}</failure>")
                    .expect("a string takes anything");
            }
        }
        out.push_str("</testcase>\n");
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::IpVersion;
    use crate::suite::{File, run_text};

    fn report(name: &str, text: &str) -> Report {
        let file =
            File { path: name.into(), name: name.to_owned(), root: std::path::PathBuf::new() };
        let version = IpVersion::Ipv4;
        Report { name: name.to_owned(), version, outcome: run_text(text, &file, version, &[]) }
    }

    fn three() -> Vec<Report> {
        vec![
            report("a/one.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3"),
            report("a/two.pkt", "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = -1 EPERM (no)"),
            report("b/three.pkt", "0 psp_rx_assoc(3, 1) = 0"),
        ]
    }

    #[test]
    fn json_has_the_documented_shape() {
        let value = json(&three());
        assert_eq!(
            (&value["passed"], &value["failed"], &value["skipped"]),
            (&json!(1), &json!(1), &json!(1))
        );
        let scripts = value["scripts"].as_array().expect("a list");
        assert_eq!(
            scripts[0],
            json!({"path": "a/one.pkt", "ip_version": "ipv4", "result": "pass", "reason": null, "line": null})
        );
        assert_eq!((&scripts[1]["result"], &scripts[1]["line"]), (&json!("fail"), &json!(1)));
        assert_eq!(scripts[2]["result"], json!("skip"));
        assert!(scripts[2]["reason"].as_str().expect("text").contains("PSP"));
    }

    #[test]
    fn the_other_shapes() {
        let reports = three();
        let tap = tap(&reports);
        assert!(tap.starts_with("TAP version 13\n1..3\nok 1 a/one.pkt (ipv4)\nnot ok 2 "), "{tap}");
        assert!(tap.contains("# SKIP PSP"), "{tap}");
        let junit = junit(&reports);
        assert!(junit.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{junit}");
        let text = text(&reports);
        assert!(text.contains("a/two.pkt:1:3: [ipv4] socket() returned 3"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn xml_is_escaped() {
        assert_eq!(xml("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}");
    }
}
