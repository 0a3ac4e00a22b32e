//! The published experiments of flows that leave a path: it is dead, or congested.

use lab::published::{experiment, publications};
use lab::run::{Options, run};
use std::sync::atomic::AtomicBool;

/// Runs an experiment, three times instead of as often as its file says, and sets it beside what was
/// published.
fn reproduced(name: &str) {
    let experiment = experiment(name).expect("a valid file").expect("it is shipped");
    let publications = publications().expect("valid files");
    let publication = publications.iter().find(|one| one.name == name).expect("it is shipped");
    let stop = AtomicBool::new(false);
    let options = Options { repetitions: Some(3), ..Options::silent(&stop) };
    let points = run(&experiment, &options, &|_, _, _| Ok(())).expect("it runs");
    let comparison = publication.compare(&points);
    for row in &comparison.rows {
        println!("{name}: {} {} = {:?}", row.row.case, row.row.metric, row.measured);
    }
    let missed: Vec<_> = comparison.expectations.iter().filter(|(_, met)| !met).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn flows_leave_a_path_that_loses_everything() {
    reproduced("protective-reroute");
}

#[test]
fn elephants_leave_a_path_that_marks_too_much() {
    reproduced("plb");
}
