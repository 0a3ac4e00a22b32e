//! The presets after flent, and the files for it. Where flent itself can be run (`FLENT` names it, or
//! it is on the path) its formatter must read every file; where not, that part says so.

use std::fs;
use std::io::{Read as _, Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use lab::output::Output;
use lab::plan::Experiment;
use lab::run;
use lab::store::Store;
use serde_json::Value;

const PRESETS: [&str; 3] = ["rrul", "rrul_be", "tcp_nup"];

fn scratch(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("flent").join(name);
    let _ = fs::remove_dir_all(&directory);
    directory
}

/// Runs a preset for a shorter time, behind CAKE, and gives the file for flent, for one test.
fn made(test: &str, name: &str) -> PathBuf {
    let path = format!("{}/../../experiments/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let settings = ["queue=cake", "duration=20s", "flows.up.stop=15s"];
    let settings = &settings[..if name == "tcp_nup" { 3 } else { 2 }];
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let experiment = Experiment::load(Path::new(&path), &settings).expect("valid");
    let store = Store::create(&scratch(&format!("{test}-{name}"))).expect("a directory");
    let output = Output::new(store.clone());
    let stop = AtomicBool::new(false);
    let options =
        run::Options { repetitions: Some(1), store: Some(&store), ..run::Options::silent(&stop) };
    run::run(&experiment, &options, &|point, repetition, run| output.keep(point, repetition, run))
        .expect("it runs");
    store.root().join("flent/cake-seed-1.flent.gz")
}

fn read(path: &Path) -> Value {
    let mut text = String::new();
    let file = fs::File::open(path).expect("it was written");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_files_have_the_series_of_flents_tests() {
    let rrul: Vec<String> = ["BE", "BK", "CS5", "EF"]
        .iter()
        .flat_map(|class| ["upload", "download"].map(|way| format!("TCP {way} {class}")))
        .chain(
            ["ICMP", "UDP BE", "UDP BK", "UDP EF", "avg"].map(|ping| format!("Ping (ms) {ping}")),
        )
        .chain(["TCP upload sum", "TCP download avg", "TCP totals"].map(String::from))
        .collect();
    let rrul_be: Vec<String> =
        ["TCP upload BE", "TCP download BE4", "Ping (ms) UDP BE3", "TCP totals"]
            .map(String::from)
            .to_vec();
    let tcp_nup: Vec<String> =
        ["TCP upload::1", "TCP upload::4", "TCP upload sum", "Ping (ms) ICMP"]
            .map(String::from)
            .to_vec();
    for (name, wanted) in PRESETS.into_iter().zip([rrul, rrul_be, tcp_nup]) {
        let file = read(&made("series", name));
        assert_eq!(file["metadata"]["NAME"], name);
        assert_eq!(file["version"], 4);
        let x = file["x_values"].as_array().expect("times");
        assert_eq!(x.len(), 101, "20 s in steps of 0.2 s");
        let results = file["results"].as_object().expect("series");
        for series in wanted {
            let values = results.get(&series).unwrap_or_else(|| panic!("{name} has no {series}"));
            let values = values.as_array().expect("values");
            assert_eq!(values.len(), x.len(), "{name} {series}");
            let known = values.iter().filter(|value| value.is_number()).count();
            assert!(known >= 45, "{name} {series}: {known} values");
        }
        let early = &results["TCP upload sum"][10];
        assert!(early.is_null(), "no stream before 5 s: {early}");
    }
}

/// Where flent is, if it is anywhere.
fn flent() -> Option<String> {
    let program = std::env::var("FLENT").unwrap_or_else(|_| "flent".into());
    let works =
        Command::new(&program).arg("--version").output().is_ok_and(|out| out.status.success());
    works.then_some(program)
}

#[test]
fn flent_reads_them() {
    let Some(program) = flent() else {
        // Past the capture of a passing test: scripts/steps.py lists it.
        let why = "not installed (pip install flent; FLENT=/path/to/flent)";
        let _ = writeln!(stderr(), "SKIPPED: flent: {why}");
        return;
    };
    for name in PRESETS {
        let file = made("read", name);
        for format in ["summary", "csv", "stats"] {
            let done =
                Command::new(&program).args(["-f", format]).arg(&file).output().expect("flent");
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            let problem = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{name} -f {format}: {problem}");
            assert!(text.contains("TCP upload"), "{name} -f {format}: {text} {problem}");
            assert!(!problem.contains("ERROR") && !problem.contains("Traceback"), "{problem}");
        }
    }
}
