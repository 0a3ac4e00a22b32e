//! What `check` accepts, `run` can run: random experiments of every section and key of docs/experiments.md, with values
//! within their limits, at them and beyond.
//!
//! A seed is an experiment. What is refused is refused with places; the lines there are left out, and what remains is
//! tried again, until it is valid. Then it runs, with one thread and with three, and both write the same files.
//!
//! `SEEDS=1000..9000 cargo test -p ackwright-lab --test any_experiment` tries more of them.

mod draw;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use draw::Line;
use lab::output::Output;
use lab::plan::{Diagnostics, Experiment};
use lab::run::{self, Options};
use lab::store::Store;
use sim::epoch::Grouping;

/// Seeds of each run of the tests.
const SEEDS: Range<u64> = 0..120;

/// So often faulty lines are left out. What is invalid even then is counted, and nothing else.
const ROUNDS: usize = 16;

#[test]
fn what_is_accepted_runs_and_what_is_refused_has_a_place() {
    let seeds = std::env::var("SEEDS").map_or(SEEDS, |text| {
        let (from, to) = text.split_once("..").expect("SEEDS=A..B");
        from.parse().expect("a seed")..to.parse().expect("a seed")
    });
    let (next, broken, ran) = (AtomicU64::new(seeds.start), Mutex::default(), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match judge(&draw::experiment(seed), seed) {
                        Ok(is_valid) => drop(ran.fetch_add(is_valid.into(), Ordering::Relaxed)),
                        Err((what, text)) => {
                            let mut broken: std::sync::MutexGuard<'_, Vec<String>> =
                                broken.lock().expect("no thread panics");
                            broken.push(format!("seed {seed}: {what}\n{text}"));
                        }
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().expect("no thread panics");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let (ran, all) = (ran.into_inner(), seeds.end - seeds.start);
    assert!(ran * 3 >= all, "only {ran} of {all} experiments became valid: the others test little");
}

/// True if it became valid, and then ran; else what was wrong, and of which text.
fn judge(lines: &[Line], seed: u64) -> Result<bool, (String, String)> {
    let mut lines = lines.to_vec();
    for round in 0..ROUNDS {
        let text = draw::text(&lines);
        match caught(|| Experiment::parse("any.toml", &text, &[])) {
            Err(panic) => return Err((format!("check: {panic}"), text)),
            Ok(Ok(experiment)) => {
                return ran_twice(&experiment, seed)
                    .map_or_else(|what| Err((what, text)), |()| Ok(true));
            }
            Ok(Err(faults)) => {
                let faulty = places(&faults, &text).map_err(|what| (what, text))?;
                lines = draw::without(&lines, &faulty, round);
            }
        }
    }
    Ok(false)
}

/// The lines that are faulty, from 0; an error if a fault says not which, or nothing.
fn places(faults: &Diagnostics, text: &str) -> Result<Vec<usize>, String> {
    assert!(!faults.0.is_empty(), "a refusal says why");
    let count = text.lines().count();
    let line = |fault: &lab::plan::Diagnostic| match fault.position {
        Some((line, column))
            if (1..=count).contains(&line) && column > 0 && !fault.message.is_empty() =>
        {
            Ok(line - 1)
        }
        _ => Err(format!("no place: {fault}")),
    };
    faults.0.iter().map(line).collect()
}

fn ran_twice(experiment: &Experiment, seed: u64) -> Result<(), String> {
    let one = files_of(experiment, seed, 1, Grouping::One)?;
    let other = files_of(experiment, seed, 3, Grouping::default())?;
    let names = one.keys().chain(other.keys());
    let different = names.into_iter().find(|name| one.get(*name) != other.get(*name));
    different.map_or(Ok(()), |name| Err(format!("{name} depends on the number of threads")))
}

/// What it writes when it runs in so many threads.
fn files_of(
    experiment: &Experiment,
    seed: u64,
    threads: usize,
    grouping: Grouping,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let name = format!("any-experiment-{seed}-{threads}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _is_new = fs::remove_dir_all(&folder);
    let done = caught(|| {
        let store = Store::create(&folder).map_err(|error| error.to_string())?;
        let output = Output::new(store.clone());
        let stop = AtomicBool::new(false);
        let options = Options { threads, grouping, store: Some(&store), ..Options::silent(&stop) };
        let keep = |point: &_, repetition, run: &mut _| output.keep(point, repetition, run);
        let points = run::run(experiment, &options, &keep).map_err(|error| error.to_string())?;
        let written = output.finish(experiment, experiment.base.seed, &points, 0);
        written.map_err(|error| error.to_string()).map(drop)
    });
    let files = done.and_then(|done| done).map(|()| tree(&folder, ""));
    let _is_gone = fs::remove_dir_all(&folder);
    files.map_err(|what| format!("check accepts it, but run with {threads} threads: {what}"))
}

/// All files below a folder.
fn tree(folder: &Path, before: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = format!("{before}{}", path.file_name().expect("a name").display());
        if path.is_dir() {
            files.append(&mut tree(&path, &format!("{name}/")));
        } else {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
    files
}

fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|_| "a panic, told above".to_owned())
}
