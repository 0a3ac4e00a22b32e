//! The modules of the simulator form no circle, read from the source: each names only modules that do not lead back to it.
//! Files in the folder of a module belong to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_module_leads_back_to_itself() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files_below(&source) {
        let module = module_of(&source, &file);
        let text = fs::read_to_string(&file).expect("a source file");
        names.entry(module).or_default().extend(modules_named(&text));
    }
    assert!(names.len() > 25, "only {} modules were found", names.len());
    let mut below: Vec<String> = Vec::new();
    // Modules that name only what has been taken away already, until none is left.
    while !names.is_empty() {
        let is_free = |(module, named): &(&String, &BTreeSet<String>)| {
            named.iter().all(|it| it == *module || !names.contains_key(it))
        };
        let free: Vec<String> = names.iter().filter(is_free).map(|(it, _)| it.clone()).collect();
        assert!(!free.is_empty(), "a circle, or what names it: {names:#?}");
        names.retain(|module, _| !free.contains(module));
        below.extend(free);
    }
    assert_eq!(below.last().map(String::as_str), Some("topology"), "worlds are made last");
}

/// The first part of a file's path below `src`.
fn module_of(source: &Path, file: &Path) -> String {
    let below = file.strip_prefix(source).expect("a file of the source");
    let first = below.components().next().expect("a file has a name").as_os_str();
    first.to_str().expect("a plain name").trim_end_matches(".rs").to_owned()
}

/// The modules of the crate that a file names outside of its comments and tests: `crate::NAME`.
fn modules_named(text: &str) -> impl Iterator<Item = String> {
    let code = text.lines().take_while(|line| *line != "mod tests {");
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        rest.chars().take_while(is_of_name).collect()
    })
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the source") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}
