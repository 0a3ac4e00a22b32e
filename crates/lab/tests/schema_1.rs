//! What earlier versions have read and written is read still: an experiment file of schema 1, and the
//! folder of results that it gave.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lab::output::Output;
use lab::plan::Experiment;
use lab::run::{Options, run};
use lab::store::Store;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema-1")
}

/// A copy of the folder, to write into.
fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schema-1-{name}"));
    let _ = fs::remove_dir_all(&root);
    copy(&samples().join("results"), &root);
    root
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).expect("a copy");
        }
    }
}

fn experiment() -> Experiment {
    Experiment::load(&samples().join("before.toml"), &[]).expect("it is valid")
}

/// All that was measured then is measured now, by the same names.
#[test]
fn a_file_of_schema_1_yields_the_same_metrics_as_ever() {
    let experiment = experiment();
    assert_eq!((experiment.points.len(), experiment.base.repetitions), (4, 2));
    assert!(experiment.check_names().is_ok());
    let stop = AtomicBool::new(false);
    let options = Options { repetitions: Some(1), ..Options::silent(&stop) };
    let points = run(&experiment, &options, &|_, _, _| Ok(())).expect("it runs");
    let summary = fs::read_to_string(samples().join("results/summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    for metric in summary["points"][0]["metrics"].as_array().expect("a list") {
        let (scope, name) = (metric["scope"].as_str().unwrap(), metric["metric"].as_str().unwrap());
        assert!(!points[0].values(scope, name).is_empty(), "{scope} {name}");
    }
}

/// The series of then are read, and what is written now is read back the same.
#[test]
fn the_series_of_then_are_read() {
    let (store, root) = {
        let root = folder("series");
        (Store::create(&root).expect("a store"), root)
    };
    let read =
        |name: &str| store.read_series(&format!("series/20-reno-seed-7/{name}.parquet"), name);
    for name in ["flow-load", "flow-file", "latency-ping", "port-r.wan"] {
        let series = read(name).expect("it is read");
        assert!(series.time_ns.len() > 20 && !series.columns.is_empty(), "{name}");
        let label = ("seed".to_owned(), lab::store::Label::Whole(7));
        store.write_series("series/again.parquet", &series, &[label]).expect("it is written");
        assert_eq!(store.read_series("series/again.parquet", name), Some(series), "{name}");
    }
    fs::remove_dir_all(root).expect("a directory");
}

/// New results take the place of the old ones; they do not go on with runs that have no record.
#[test]
fn a_folder_of_then_is_replaced_or_gone_on_with() {
    let replaced = folder("replaced");
    let (_, removed) = Store::results(&replaced, "test").expect("its files are ours");
    assert!(removed >= 10, "{removed}");
    assert!(!replaced.join("series").exists());
    let resumed = folder("resumed");
    let (_, runs, removed) =
        Output::resume(&resumed, "test", &experiment(), 7, 2).expect("its files are ours");
    assert!(runs == 0 && removed >= 10);
    for root in [replaced, resumed] {
        fs::remove_dir_all(root).expect("a directory");
    }
}
