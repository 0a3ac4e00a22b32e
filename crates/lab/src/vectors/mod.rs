//! Replaying recorded traces: does the model do what the real kernel did?
//!
//! A vector file holds scenarios: what went in, when, and everything that the kernel was seen to
//! do. [`run`] recognises the kind of a file by its content, replays every scenario, and reports
//! for each one that fails the *first* point where model and kernel part.

mod ack_filter;
mod cake;
mod json;
mod multipath;
mod tcp;

use serde_json::{Value, json};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The first point where a replay and the recording part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// When, in ns of the scenario's clock, where the recording has a time there.
    pub time: Option<u64>,
    /// Where: index into the recorded sequence that differs.
    pub index: Option<u64>,
    /// Which recorded value differs, as a path (`out.time`, `snaps.mid.tins[1].drops`).
    pub field: String,
    /// What the kernel did.
    pub expected: String,
    /// What the model did.
    pub got: String,
}

/// How one scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was compared is equal.
    Passed,
    /// Something differs; this is the first such thing.
    Failed(Divergence),
    /// Nothing could be compared, and why.
    Skipped(String),
}

/// The outcome of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in the file.
    pub name: String,
    /// Passed, failed or skipped.
    pub verdict: Verdict,
    /// How many recorded values were compared.
    pub compared: u64,
}

/// The outcome of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file, as it was named.
    pub file: String,
    /// What the file holds (`cake`, `ack-filter`, `multipath`, `tcp`).
    pub kind: &'static str,
    /// Scenario by scenario, in the order of the file.
    pub scenarios: Vec<Scenario>,
}

/// Why a file could not be replayed at all.
#[derive(Debug)]
pub enum Error {
    /// It could not be read.
    Io(io::Error),
    /// A line (from 1) is not what the format says.
    Format {
        /// Line in the file, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The first line belongs to no known format.
    UnknownKind,
}

/// Replays every scenario of the vector file at `path`, plain or gzipped.
///
/// # Errors
/// When the file cannot be read or its lines are not a known format; a scenario that merely
/// differs is not an error but a [`Verdict::Failed`] in the report.
pub fn run(path: &Path) -> Result<Report, Error> {
    let lines = read_lines(path)?;
    let (kind, scenarios) = replay(path, &lines)?;
    Ok(Report { file: path.display().to_string(), kind, scenarios })
}

/// Chooses the comparer by the keys of the first line.
fn replay(path: &Path, lines: &[Value]) -> Result<(&'static str, Vec<Scenario>), Error> {
    let first = lines.first().ok_or(Error::UnknownKind)?;
    let has = |key: &str| first.get(key).is_some();
    if has("cake") && has("variants") {
        Ok(("cake", cake::replay(path, lines)?))
    } else if has("frames") && has("modes") {
        Ok(("ack-filter", ack_filter::replay(lines)?))
    } else if tcp::recognises(first) {
        Ok(("tcp", tcp::replay(path, lines)?))
    } else if multipath::recognises(first) {
        Ok(("multipath", multipath::replay(lines)?))
    } else {
        Err(Error::UnknownKind)
    }
}

/// Every line of a `.jsonl` or `.jsonl.gz` file (gzip is recognised by its magic number).
///
/// # Errors
/// When the file cannot be read or a line is not JSON.
pub fn read_lines(path: &Path) -> Result<Vec<Value>, Error> {
    let mut file = BufReader::new(File::open(path)?);
    let zipped = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let mut text = String::new();
    if zipped {
        flate2::bufread::MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value = serde_json::from_str(line)
            .map_err(|error| Error::Format { line: number + 1, problem: error.to_string() })?;
        lines.push(value);
    }
    Ok(lines)
}

impl Report {
    /// How many scenarios passed.
    pub fn passed(&self) -> usize {
        self.scenarios.iter().filter(|one| one.verdict == Verdict::Passed).count()
    }

    /// The scenarios that failed, with their first divergence.
    pub fn failures(&self) -> impl Iterator<Item = (&Scenario, &Divergence)> {
        self.scenarios.iter().filter_map(|one| match &one.verdict {
            Verdict::Failed(divergence) => Some((one, divergence)),
            Verdict::Passed | Verdict::Skipped(_) => None,
        })
    }

    /// How many scenarios failed.
    pub fn failed(&self) -> usize {
        self.failures().count()
    }

    /// The report as JSON, for `--json`.
    pub fn to_json(&self) -> Value {
        let scenarios: Vec<Value> = self.scenarios.iter().map(Scenario::to_json).collect();
        json!({
            "file": self.file,
            "kind": self.kind,
            "passed": self.passed(),
            "failed": self.failed(),
            "skipped": self.scenarios.len() - self.passed() - self.failed(),
            "scenarios": scenarios,
        })
    }
}

impl Scenario {
    /// The scenario as JSON.
    pub fn to_json(&self) -> Value {
        let mut object = json!({ "name": self.name, "compared": self.compared });
        match &self.verdict {
            Verdict::Passed => object["result"] = json!("pass"),
            Verdict::Skipped(reason) => {
                object["result"] = json!("skip");
                object["reason"] = json!(reason);
            }
            Verdict::Failed(divergence) => {
                object["result"] = json!("fail");
                object["divergence"] = json!({
                    "time": divergence.time,
                    "index": divergence.index,
                    "field": divergence.field,
                    "expected": divergence.expected,
                    "got": divergence.got,
                });
            }
        }
        object
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.scenarios {
            match &one.verdict {
                Verdict::Passed => {}
                Verdict::Skipped(reason) => writeln!(f, "skipped {}: {reason}", one.name)?,
                Verdict::Failed(divergence) => writeln!(f, "FAILED {}: {divergence}", one.name)?,
            }
        }
        let compared: u64 = self.scenarios.iter().map(|one| one.compared).sum();
        let (file, kind, total) = (&self.file, self.kind, self.scenarios.len());
        write!(f, "{file}: {kind}: {} of {total} passed", self.passed())?;
        writeln!(f, ", {} failed ({compared} values compared)", self.failed())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if let Some(index) = self.index {
            write!(f, " at index {index}")?;
        }
        if let Some(time) = self.time {
            write!(f, " at {time} ns")?;
        }
        write!(f, ": expected {}, got {}", self.expected, self.got)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Format { line, problem } => write!(f, "line {line}: {problem}"),
            Self::UnknownKind => write!(f, "not a vector file: its first line has no known keys"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_first_divergence() {
        let divergence = Divergence {
            time: Some(12),
            index: Some(3),
            field: "out.time".to_owned(),
            expected: "12".to_owned(),
            got: "13".to_owned(),
        };
        let scenarios = vec![
            Scenario { name: "good".to_owned(), verdict: Verdict::Passed, compared: 7 },
            Scenario { name: "bad".to_owned(), verdict: Verdict::Failed(divergence), compared: 4 },
        ];
        let report = Report { file: "x".to_owned(), kind: "cake", scenarios };
        assert_eq!((report.passed(), report.failed()), (1, 1));
        assert_eq!(
            report.to_string(),
            "FAILED bad: out.time at index 3 at 12 ns: expected 12, got 13\n\
             x: cake: 1 of 2 passed, 1 failed (11 values compared)\n"
        );
        assert_eq!(report.to_json()["scenarios"][1]["divergence"]["got"], "13");
    }
}
