//! The order of the modules, read from the source: `units → packet → trace → node → {tcp | qdisc | fib | neighbour} → host → socket`.
//! A file names only what lies below its own layer, and of its own layer only its own module.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From below. What shares a layer knows nothing of each other, but for the first, which is plain data.
const LAYERS: &[&[&str]] = &[
    &["grow", "metrics", "prefetch", "profile", "reason", "rng", "units"],
    &["packet"],
    &["trace"],
    &["node"],
    &["tcp", "qdisc", "fib", "neighbour"],
    &["host"],
    &["socket"],
];

#[test]
fn every_module_names_only_what_lies_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, modules)| modules.iter().map(move |module| (*module, layer)))
        .collect();
    let mut wrong = Vec::new();
    let mut crossings = 0;
    for file in files_below(&source) {
        let Some(module) = module_of(&source, &file) else { continue };
        let layer = *layer_of.get(&*module).unwrap_or_else(|| panic!("{module} has no layer"));
        let text = fs::read_to_string(&file).expect("a source file");
        for (number, line) in code_lines(&text) {
            for named in modules_named(line) {
                let Some(&its_layer) = layer_of.get(named) else { continue };
                crossings += usize::from(its_layer < layer);
                let lowest = layer == 0 && its_layer == 0;
                if its_layer >= layer && named != module && !lowest {
                    wrong.push(format!("{}:{number}: {module} names {named}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        crossings > 300,
        "only {crossings} names of lower layers were found: is this still read right?"
    );
}

/// The first part of a file's path below `src`; nothing for the crate's own file.
fn module_of(source: &Path, file: &Path) -> Option<String> {
    let below = file.strip_prefix(source).expect("a file of the source");
    let first = below.components().next()?.as_os_str().to_str()?.trim_end_matches(".rs");
    (first != "lib").then(|| first.to_owned())
}

/// Lines that are no comments, with their numbers, up to the unit tests of a file.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_code = |(_, line): &(usize, &str)| !line.trim_start().starts_with("//");
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.take_while(|(_, line)| *line != "mod tests {").filter(is_code)
}

/// The modules of the crate that a line names: `crate::NAME`.
fn modules_named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("crate::").map(|(at, found)| {
        let rest = &line[at + found.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Source files, without those that hold nothing but tests.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the source") {
        let path = entry.expect("a readable folder").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem == "tests" || stem == "testing" {
            continue;
        }
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}
