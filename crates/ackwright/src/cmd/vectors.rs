//! `ackwright vectors`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::vectors::{self, Report};
use serde_json::{Value, json};

use super::{Failure, Outcome, print, print_json, refuse_file};

/// Arguments of `ackwright vectors`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright vectors ../shared/vectors/v4
  ackwright vectors v1_cake_fixed.jsonl.gz --json
  ackwright vectors droptail_cubic.json.gz --pcap out

Exit code 1 if any scenario differs from the recording.")]
pub struct Args {
    /// Vector files, or directories of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write what the model sent and received in each transfer to DIR/NAME.pcapng
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
}

/// Replays every vector file below the given paths.
pub fn run(args: &Args) -> Outcome {
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        let paths: Vec<_> = args.paths.iter().map(|path| path.display().to_string()).collect();
        let message = format!("{}: no vectors (.json, .jsonl, or their .gz)", paths.join(", "));
        return Err(Failure::Usage(message));
    }
    if let Some(folder) = &args.pcap {
        refuse_file(folder)?;
    }
    let mut reports = Vec::new();
    for file in &files {
        let report = match vectors::run_with(file, args.pcap.as_deref()) {
            Ok(report) => report,
            Err(error) if is_unrelated_json(file, &args.paths, &error) => {
                stderr_line!("skipped {}: {error}", file.display());
                continue;
            }
            Err(error) => return Err(Failure::Usage(format!("{}: {error}", file.display()))),
        };
        if !args.json {
            print(&report.to_string())?;
        }
        reports.push(report);
    }
    let failed: usize = reports.iter().map(Report::failed).sum();
    if args.json {
        print_json(&summary(&reports))?;
    } else if let Some(transfers) = vectors::transfers(&reports) {
        print(&transfers.to_string())?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A plain JSON file that merely lies beside vectors: not named by the user, and not a vector file.
fn is_unrelated_json(file: &Path, named: &[PathBuf], error: &vectors::Error) -> bool {
    let foreign =
        matches!(error, vectors::Error::UnknownKind | vectors::Error::Format { line: 1, .. });
    let plain = file.extension().is_some_and(|end| end == "json");
    foreign && plain && !named.iter().any(|path| path == file)
}

/// The capture that belongs to a transfer is read with it: `v4/*` names both.
fn is_capture(path: &Path) -> bool {
    let name = path.to_string_lossy();
    [".pcap", ".pcap.gz", ".pcapng"].iter().any(|end| name.ends_with(end)) && path.exists()
}

/// Files as they are, but for captures; of directories, and those inside, every `.json`, `.jsonl` and their `.gz`, in
/// order of name.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error| Failure::Usage(format!("{}: {error}", path.display()));
    if !path.is_dir() {
        if !is_capture(path) {
            files.push(path.into());
        }
        return Ok(());
    }
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        inside.push(entry.map_err(unreadable)?.path());
    }
    inside.sort();
    for path in inside {
        let name = path.to_string_lossy();
        let named =
            [".json", ".jsonl", ".json.gz", ".jsonl.gz"].iter().any(|end| name.ends_with(end));
        if named || path.is_dir() {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// All reports in one object, the scenarios of all files in one list.
fn summary(reports: &[Report]) -> Value {
    let scenarios: Vec<Value> = reports
        .iter()
        .flat_map(|report| {
            report.scenarios.iter().map(|scenario| {
                let mut object = scenario.to_json();
                object["file"] = json!(report.file);
                object
            })
        })
        .collect();
    let mut summary = json!({
        "schema": 1,
        "passed": reports.iter().map(Report::passed).sum::<usize>(),
        "failed": reports.iter().map(Report::failed).sum::<usize>(),
        "scenarios": scenarios,
    });
    if let Some(transfers) = vectors::transfers(reports) {
        summary["transfers"] = transfers.to_json();
    }
    summary
}
