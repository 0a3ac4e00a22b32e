//! The pages that number where we differ from Linux name a test for each number. Here every name is
//! looked up: a test that was renamed or taken away is missed on the page that relies on it.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = root().join("docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below `crates`: paths relative to it, with `/` on every system, and texts.
fn sources() -> Vec<(String, String)> {
    let crates = root().join("crates");
    let mut files = Vec::new();
    let mut left = vec![crates.clone()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).expect("readable").map(|entry| entry.expect("entry"))
        {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&crates).expect("is below");
                let name: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
                files.push((name.join("/"), fs::read_to_string(&path).expect("text")));
            }
        }
    }
    files
}

/// What stands between back-ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    source.find(&head).is_some_and(|at| {
        let before = &source[..at];
        before.rfind("#[test]").is_some_and(|test| !before[test..].contains("\n}"))
    })
}

/// How many tests `text` names; an error names what is not there. A name is
/// `path/of/file.rs` below `crates`, behind which names of tests (or of cases) in that file follow;
/// `module::test` or `module::tests` for all of a module; `conformance/….pkt`; or `scripts/….py`, behind
/// which words that stand in that file follow.
fn tests_named(text: &str, sources: &[(String, String)]) -> Result<usize, String> {
    let mut found = 0;
    let mut file: Option<&(String, String)> = None;
    let mut script: Option<String> = None;
    for name in quoted(text) {
        if Path::new(name).extension().is_some_and(|extension| extension == "py") {
            let text = fs::read_to_string(root().join(name));
            script = Some(text.map_err(|error| format!("{name}: {error}"))?);
            continue;
        }
        if let Some(script) = &script {
            if !script.contains(name) {
                return Err(format!("no \"{name}\" in its script"));
            }
        } else if Path::new(name).extension().is_some_and(|extension| extension == "pkt") {
            if !root().join(name).is_file() {
                return Err(format!("no script {name}"));
            }
        } else if Path::new(name).extension().is_some_and(|extension| extension == "rs") {
            file = sources.iter().find(|(path, _)| path == name);
            let Some((_, source)) = file else { return Err(format!("no file crates/{name}")) };
            if !source.contains("#[test]") && !source.contains("fn main()") {
                return Err(format!("no test in crates/{name}"));
            }
        } else if name.contains("::") {
            in_module(name, sources)?;
        } else if let Some((path, source)) = file {
            if !is_test(source, name) && !source.contains(&format!("\"{name}\"")) {
                return Err(format!("no test {name} in crates/{path}"));
            }
        } else {
            continue;
        }
        found += 1;
    }
    Ok(found)
}

/// `datapath::tcp::cc::cubic::tests::the_root_is_close`: the words but `tests` and `…` are parts of
/// a path; the last is a test, unless it is `tests`.
fn in_module(name: &str, sources: &[(String, String)]) -> Result<(), String> {
    let mut words: Vec<&str> = name.split("::").filter(|word| *word != "…").collect();
    let last = words.pop().expect("at least one word");
    words.retain(|word| *word != "tests");
    let fits = |path: &str| {
        let mut parts = path.trim_end_matches(".rs").split('/');
        words.iter().all(|word| parts.any(|part| part == *word))
    };
    let there = sources.iter().filter(|(path, _)| fits(path)).any(|(_, source)| {
        if last == "tests" { source.contains("#[test]") } else { is_test(source, last) }
    });
    if there { Ok(()) } else { Err(format!("no test {name}")) }
}

/// The rows `| NUMBER | … |` below a heading: number and last cell.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<(u32, &'a str)> {
    let section = section(text, heading);
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = cells.first()?.parse().ok()?;
        Some((number, *cells.last()?))
    });
    rows.collect()
}

/// The items `NUMBER. …` below a heading: number, and what stands behind the last `Test:`.
fn items<'a>(text: &'a str, heading: &str) -> Vec<(u32, &'a str)> {
    let section = section(text, heading);
    let starts: Vec<(usize, u32)> = section
        .match_indices('\n')
        .filter_map(|(at, _)| {
            let line = section[at + 1..].lines().next()?;
            Some((at + 1, line.split_once(". ")?.0.parse().ok()?))
        })
        .collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([section.len()]);
    let items = starts.iter().zip(ends).map(|(&(at, number), end)| {
        let item = section[at..end].split("\n\n").next().expect("a first paragraph");
        (number, item.rsplit_once("Test:").map_or("", |(_, names)| names))
    });
    items.collect()
}

fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = text.find(heading).unwrap_or_else(|| panic!("no heading {heading}"));
    let body = &text[start + heading.len()..];
    &body[..body.find("\n## ").unwrap_or(body.len())]
}

fn check(page: &str, entries: &[(u32, &str)], at_least: usize) {
    let sources = sources();
    assert!(entries.len() >= at_least, "{page}: {} numbers were found", entries.len());
    let mut faults = Vec::new();
    for (number, names) in entries {
        match tests_named(names, &sources) {
            Ok(0) => faults.push(format!("{page} {number}: names no test")),
            Ok(_) => {}
            Err(fault) => faults.push(format!("{page} {number}: {fault}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_departure_of_the_tcp_names_a_test() {
    check("LINUX.md", &rows(&page("LINUX.md"), "## Departures"), 16);
}

#[test]
fn every_departure_of_routes_names_a_test() {
    check("multipath.md", &items(&page("multipath.md"), "## Differences from Linux"), 9);
}

#[test]
fn every_departure_of_cake_names_a_test() {
    check("cake.md", &items(&page("cake.md"), "## Differences from Linux"), 4);
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    let sources = sources();
    for (names, fault) in [
        ("`datapath::tcp::cc::cubic::tests::the_root_is_far`", "no test datapath::tcp"),
        ("`sim/tests/forwards.rs`", "no file crates/sim/tests/forwards.rs"),
        ("`sim/tests/forwarding.rs`: `no_datagram`", "no test no_datagram in"),
        ("`conformance/tcp/none.pkt`", "no script"),
    ] {
        let error = tests_named(names, &sources).expect_err(names);
        assert!(error.starts_with(fault), "{error}");
    }
    assert_eq!(tests_named("the first packet of `every` capture", &sources), Ok(0));
    assert_eq!(
        tests_named("`sim/tests/capture.rs`: `two_runs_give_the_same_bytes`", &sources),
        Ok(2)
    );
}
