//! Scripts in a network namespace of their own, and files to talk to them by.

use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How a namespace is made: as root of a user namespace, or as root.
const WAYS: [&str; 2] = ["-rn", "-n"];

/// Runs a script in a fresh network namespace. Where that is not allowed, or `needs` (a script, too)
/// fails in one: `None`, and a loud word about `what`.
pub fn in_namespace(what: &str, needs: &str, script: &str) -> Option<Output> {
    let mut reason = String::new();
    for way in WAYS {
        match Command::new("unshare").args([way, "sh", "-ec", needs]).output() {
            Ok(output) if output.status.success() => {
                let run = Command::new("unshare").args([way, "sh", "-c", script]).output();
                return Some(run.expect("it ran a moment ago"));
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                reason = format!("{reason} unshare {way}: {said}.");
            }
            Err(error) => reason = format!(" unshare: {error}"),
        }
    }
    // Past the capture of a passing test: scripts/steps.py lists it.
    let _ = writeln!(stderr(), "SKIPPED: {what}:{reason}");
    None
}

/// An empty directory.
pub fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    directory
}

/// What a script has written, without the last line's end.
pub fn read(directory: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(directory.join(name));
    text.unwrap_or_else(|error| panic!("{name}: {error}")).trim_end().to_owned()
}
