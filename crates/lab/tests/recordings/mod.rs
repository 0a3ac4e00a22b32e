//! Where the recorded traces are. They are not part of the repository.

use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};

/// The directory that `ACKWRIGHT_VECTORS` names, else `../shared/vectors` beside the workspace.
/// Without it a test says so and checks nothing.
pub fn directory() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let directory = std::env::var_os("ACKWRIGHT_VECTORS").map_or(beside, PathBuf::from);
    if directory.is_dir() {
        return Some(directory);
    }
    // Past the capture of a passing test: scripts/steps.py lists it.
    let place = directory.display();
    let _ = writeln!(stderr(), "SKIPPED: recorded traces: none in {place} (set ACKWRIGHT_VECTORS)");
    None
}
