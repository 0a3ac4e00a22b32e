//! Every case that once broke a law, as a file in `regressions/`, breaks none any more.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn what_once_failed_stays_mended() {
    let files = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions"));
    let failed: Vec<String> = files.iter().filter_map(|file| failure(file)).collect();
    assert!(failed.is_empty(), "of {} cases:\n{}", files.len(), failed.join("\n"));
}

fn failure(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).expect("a file of the repository");
    let broken = match swarm::file::judge(&text) {
        Ok(Ok(_)) => return None,
        Ok(Err(violation)) => violation.to_string(),
        Err(fault) => fault,
    };
    Some(format!("{}: {broken}", file.display()))
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}
