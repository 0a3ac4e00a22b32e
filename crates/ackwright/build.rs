//! Tells the program which commit it is built from, so that a failing seed can be run again.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = packaged().or_else(commit).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=ACKWRIGHT_COMMIT={commit}");
}

/// What cargo has noted in the package of a registry; the repository around it, if any, is another.
fn packaged() -> Option<String> {
    let note = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, hash) = note.split_once("\"sha1\": \"")?;
    hash.get(..12).map(str::to_owned)
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
