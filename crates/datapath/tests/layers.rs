//! The order of the modules, read from the source: `units → packet → trace → node → {tcp | qdisc | fib | neighbour} → host → socket`.
//! A file names only what lies below its own layer, and of its own layer only its own module.

use std::collections::{BTreeMap, BTreeSet};
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

/// The modules in these folders: each names only modules that do not lead back to it. `mod.rs`, which knows them all, is left
/// out, and files in the folder of a module belong to it.
#[test]
fn modules_form_no_circle() {
    for folder in ["tcp", "fib", "neighbour"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in files_below(&source).into_iter().filter(|file| *file != source.join("mod.rs")) {
            let module = module_of(&source, &file).expect("no file of the crate itself");
            let depth = file.strip_prefix(&source).expect("a file below").components().count();
            let depth = depth - usize::from(file.ends_with("mod.rs"));
            let text = fs::read_to_string(&file).expect("a source file");
            let code: String = code_lines(&text).flat_map(|(_, line)| [line, "\n"]).collect();
            let above = "super::".repeat(depth);
            let named = names.entry(module).or_default();
            named.extend(siblings_named(&code, &format!("crate::{folder}::")));
            named.extend(siblings_named(&code, &above));
        }
        // Modules that name only what has been taken away already, until none is left.
        while !names.is_empty() {
            let is_free = |(module, named): &(&String, &BTreeSet<String>)| {
                named.iter().all(|it| it == *module || !names.contains_key(it))
            };
            let free: Vec<String> =
                names.iter().filter(is_free).map(|(it, _)| it.clone()).collect();
            assert!(!free.is_empty(), "a circle in {folder}, or what names it: {names:#?}");
            names.retain(|module, _| !free.contains(module));
        }
    }
}

/// What stands behind `prefix` in the code: a name, or each of several in braces.
fn siblings_named(code: &str, prefix: &str) -> Vec<String> {
    let is_whole = |at: &usize| !code[..*at].ends_with("::");
    let found = code.match_indices(prefix).map(|(at, _)| at).filter(is_whole);
    let behind = found.map(|at| &code[at + prefix.len()..]);
    let listed = behind.flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split(';').next().unwrap_or_default().split(',').collect(),
        None => vec![rest],
    });
    let name = |rest: &str| {
        let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        rest.trim_start().chars().take_while(is_of_name).collect()
    };
    listed.map(name).collect()
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
