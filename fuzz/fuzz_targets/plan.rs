//! Any text is read as an experiment file: it is refused with a place, or every point has a plan.

#![no_main]

use lab::plan::Experiment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Experiment::parse("fuzz.toml", &text, &[]) {
        Ok(experiment) => {
            for point in experiment.points.iter().take(16) {
                let drawn = experiment.plan(point, 0, 1);
                assert!(drawn.is_ok(), "a checked point has no plan: {}", drawn.unwrap_err());
            }
        }
        Err(faults) => assert!(!faults.to_string().is_empty(), "a refusal says why"),
    }
});
