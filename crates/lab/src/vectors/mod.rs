//! Replaying recorded traces: does the model do what the real kernel did?
//!
//! A vector file holds scenarios: what went in, when, and everything that the kernel was seen to
//! do. [`run`] recognises the kind of a file by its content, replays every scenario, and reports
//! for each one that fails the *first* point where model and kernel part.

mod ack_filter;
mod cake;
mod json;
mod lines;
mod multipath;
mod report;
mod tcp;

use serde_json::Value;
use std::path::Path;

pub use lines::{Error, read_lines};
pub use report::{Divergence, Figures, Pair, Report, Scenario, Transfers, Verdict, transfers};

/// Replays every scenario of the vector file at `path`, plain or gzipped.
///
/// # Errors
/// When the file cannot be read or its lines are not a known format; a scenario that merely
/// differs is not an error but a [`Verdict::Failed`] in the report.
pub fn run(path: &Path) -> Result<Report, Error> {
    run_with(path, None)
}

/// [`run`], which also writes what the model sent and received in each transfer to a capture in
/// the directory `pcap`, `NAME.pcapng`.
///
/// # Errors
/// Those of [`run`], and when a capture cannot be written.
pub fn run_with(path: &Path, pcap: Option<&Path>) -> Result<Report, Error> {
    let lines = read_lines(path)?;
    let (kind, scenarios) = replay(path, &lines, pcap)?;
    Ok(Report { file: path.display().to_string(), kind, scenarios })
}

/// Chooses the comparer by the keys of the first line.
fn replay(
    path: &Path,
    lines: &[Value],
    pcap: Option<&Path>,
) -> Result<(&'static str, Vec<Scenario>), Error> {
    let first = lines.first().ok_or(Error::UnknownKind)?;
    let has = |key: &str| first.get(key).is_some();
    if has("cake") && has("variants") {
        Ok(("cake", cake::replay(path, lines)?))
    } else if has("frames") && has("modes") {
        Ok(("ack-filter", ack_filter::replay(lines)?))
    } else if tcp::recognises(first) {
        Ok(("tcp", tcp::replay(path, lines, pcap)?))
    } else if multipath::recognises(first) {
        Ok(("multipath", multipath::replay(lines)?))
    } else {
        Err(Error::UnknownKind)
    }
}
