//! Tells the program which commit it is built from, so that a failing seed can be run again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-env=ACKWRIGHT_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
}

fn commit() -> Option<String> {
    let folder = git(&["rev-parse", "--absolute-git-dir"])?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_else(|| "HEAD".into());
    for file in ["HEAD", branch.as_str()] {
        let path = Path::new(&folder).join(file);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// What git answers; `None` where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
