//! Judges a slice of seeds and tells each that fails on a line: seed, tab, oracle, tab, what it saw.
//!
//! `slice KIND A..B [SEED]...` stops at the first failure, but for the seeds named, which may fail;
//! `slice KIND A..B all` does not stop; `slice shrink KIND SEED [TRIES]` writes a shrunk case,
//! by so many tries, and what it breaks, or as it is drawn if they are none; `slice case FILE` judges such a file; `slice kinds` tells
//! the kinds. The mutation check and the
//! coverage of the swarm tester run on it (docs/TESTING.md): unlike `ackwright swarm` it needs little to
//! be built.

use std::io::{Write as _, stdout};
use std::num::NonZeroUsize;
use std::process::{ExitCode, exit};
use std::sync::atomic::{AtomicBool, Ordering};

use swarm::Kind;
use swarm::campaign::{self, Campaign, Watcher};
use swarm::case::{Outcome, Violation};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["kinds"] {
        println!("{}", Kind::ALL.map(Kind::name).join(" "));
        return ExitCode::SUCCESS;
    }
    if let [word, kind, seed, tries @ ..] = &words[..]
        && word == "shrink"
        && let (Ok(kind), Ok(seed)) = (kind.parse(), seed.parse())
    {
        return shrink(kind, seed, tries.first().and_then(|it| it.parse().ok()).unwrap_or(2_000));
    }
    if let [word, file] = &words[..]
        && word == "case"
    {
        return judge(file);
    }
    let Some((campaign, teller)) = understood(&words) else {
        eprintln!(
            "slice KIND A..B [SEED]... | slice KIND A..B all | slice case FILE | slice kinds"
        );
        return ExitCode::from(2);
    };
    campaign::run(&campaign, &teller);
    let failed = teller.failed.load(Ordering::Relaxed);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Judges the case in a file.
fn judge(file: &str) -> ExitCode {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    match text.and_then(|text| swarm::file::judge(&text)) {
        Ok(Ok(outcome)) => {
            writeln!(stdout(), "{outcome:?}").expect("somebody listens");
            ExitCode::SUCCESS
        }
        Ok(Err(violation)) => {
            writeln!(stdout(), "{violation}").expect("somebody listens");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes down a seed: a failing one shrunk, any other as it was drawn.
fn shrink(kind: Kind, seed: u64, tries: u32) -> ExitCode {
    fn judged<C: swarm::case::Case>(seed: u64) -> Result<Outcome, Violation> {
        swarm::judge::judge(&C::draw(seed))
    }
    fn as_drawn<C: swarm::case::Case>(seed: u64) -> String {
        swarm::file::write(&C::draw(seed), "")
    }
    if tries == 0 {
        writeln!(stdout(), "{}", swarm::with_case!(kind, as_drawn(seed))).expect("heard");
        return ExitCode::SUCCESS;
    }
    match swarm::with_case!(kind, judged(seed)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(violation) => {
            let (text, _) = swarm::file::of_seed(kind, seed, violation, tries);
            writeln!(stdout(), "{text}").expect("somebody listens");
            ExitCode::FAILURE
        }
    }
}

fn understood(words: &[String]) -> Option<(Campaign, FailureReporter)> {
    let [kind, seeds, rest @ ..] = words else { return None };
    let kind: Kind = kind.parse().ok()?;
    let (from, end) = seeds.split_once("..")?;
    let seeds = from.parse().ok()?..end.parse().ok()?;
    let all = rest == ["all"];
    let numbers = if all { &[] } else { rest };
    let known = numbers.iter().map(|seed| seed.parse().ok()).collect::<Option<_>>()?;
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let teller = FailureReporter { known, all, failed: AtomicBool::new(false) };
    Some((Campaign { kind, seeds, jobs }, teller))
}

/// So much is told of what an oracle saw.
const LONG: usize = 400;

/// Tells failures as they are found.
struct FailureReporter {
    known: Vec<u64>,
    all: bool,
    failed: AtomicBool,
}

impl FailureReporter {
    fn tell(&self, seed: u64, oracle: &str, what: &str) {
        if !self.known.contains(&seed) {
            self.failed.store(true, Ordering::Relaxed);
            let what: String = what.lines().next().unwrap_or_default().chars().take(LONG).collect();
            writeln!(stdout(), "{seed}\t{oracle}\t{what}").expect("somebody listens");
        }
    }
}

impl Watcher for FailureReporter {
    fn finished(&self, seed: u64, verdict: &Result<Outcome, Violation>) {
        if let Err(violation) = verdict {
            self.tell(seed, violation.oracle, &violation.what);
        }
    }

    fn exceeds(&self, seed: u64, what: &str) {
        self.tell(seed, "limits", what);
        exit(1);
    }

    fn stop(&self) -> bool {
        !self.all && self.failed.load(Ordering::Relaxed)
    }
}
