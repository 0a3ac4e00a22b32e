//! `ackwright swarm`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::report::Table;
use serde_json::{Value, json};
use swarm::Kind;
use swarm::campaign::{self, Campaign, Summary, Watcher};
use swarm::case::{Outcome as Verdict, Violation};

use super::{Failure, JOBS_MAX, Outcome, print, print_json, read_text};
use crate::{interrupt, table};

/// Arguments of `ackwright swarm`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright swarm --seeds 0..1000                  a thousand cases of every kind
  ackwright swarm --kind qdisc --seeds 4711 --shrink
  ackwright swarm --kind world --time 10m --seeds 1000000..
  ackwright swarm --case qdisc-4711.toml           a case from a file

A seed determines its case, as long as the program is the same. A violation is reported with the command that
reproduces it; with --shrink the case is minimised and written to a file. Builds with debug assertions check
those as well: `make swarm` has one. Exit code 1 if a case fails. docs/TESTING.md lists the invariants.")]
pub struct Args {
    /// Seeds: A..B (B excluded), A.. (with --time), or a single one
    #[arg(long, value_name = "A..B", default_value = "0..1000")]
    seeds: Seeds,
    /// Kind of case; may be repeated [default: all kinds]
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Start no more seeds of a kind after this time: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Number of concurrent cases [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=JOBS_MAX))]
    jobs: Option<u32>,
    /// Shrink the first failing case of each kind, and write it to KIND-SEED.toml
    #[arg(long)]
    shrink: bool,
    /// Run the case in this file instead of seeds
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "kind", "time", "shrink"])]
    case: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// So many runs shrinking may take.
const SHRINK_TRIES: u32 = 3_000;

/// The seeds of `--seeds`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seeds {
    from: u64,
    /// The first one that is none of them.
    end: Option<u64>,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_seed =
            |number: u64| format!("{number} is not a seed: the largest is {}", u64::MAX - 1);
        let number = |word: &str| {
            word.parse::<u64>()
                .map_err(|_| format!("\"{word}\" is not a seed: expected a whole number"))
        };
        let Some((from, end)) = text.split_once("..") else {
            let from = number(text)?;
            let end = from.checked_add(1).ok_or_else(|| no_seed(from))?;
            return Ok(Self { from, end: Some(end) });
        };
        let from = number(from)?;
        if from == u64::MAX {
            return Err(no_seed(from));
        }
        let end = if end.is_empty() { None } else { Some(number(end)?) };
        match end {
            Some(end) if end <= from => Err(format!("{from}..{end} is an empty range")),
            end => Ok(Self { from, end }),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, factor) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('h') => (number, 3_600.0),
        Some(number) if text.ends_with('m') => (number, 60.0),
        Some(number) => (number, 1.0),
        None => (text, 1.0),
    };
    let seconds = number.parse().map(|number: f64| number * factor);
    let told = || format!("\"{text}\" is not a time such as 30s, 10m or 2h");
    Duration::try_from_secs_f64(seconds.map_err(|_| told())?).map_err(|_| told())
}

/// Judges seeds or a file.
pub fn run(args: &Args) -> Outcome {
    if let Some(file) = &args.case {
        return run_case_file(file, args.json);
    }
    if args.seeds.end.is_none() && args.time.is_none() {
        return Err(Failure::Usage("an open range of seeds needs --time".to_owned()));
    }
    let kinds = if args.kind.is_empty() { Kind::ALL.to_vec() } else { args.kind.clone() };
    let stop = interrupt::flag();
    let mut reports = Vec::new();
    for kind in kinds {
        let report = run_kind(args, kind, &stop)?;
        reports.push(report);
    }
    if args.json {
        let kinds: Vec<Value> = reports.iter().map(Report::to_json).collect();
        print_json(&json!({ "schema": 1, "commit": COMMIT, "kinds": kinds }))?;
    } else {
        print(&table::render(&as_table(&reports)))?;
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted("stopped; the results so far are above".to_owned()));
    }
    let failed = reports.iter().any(|report| !report.summary.failed.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a seed belongs to.
const COMMIT: &str = env!("ACKWRIGHT_COMMIT");

fn run_case_file(file: &Path, json: bool) -> Outcome {
    let cannot = |fault: String| {
        let is_placed = fault.starts_with(|first: char| first.is_ascii_digit());
        let colon = if is_placed { ":" } else { ": " };
        Failure::Usage(format!("{}{colon}{fault}", file.display()))
    };
    let text = read_text(file)?;
    let verdict = swarm::file::judge(&text).map_err(cannot)?;
    let (code, told) = match &verdict {
        Ok(outcome) => (ExitCode::SUCCESS, format!("no violation in {} steps", outcome.steps)),
        Err(violation) => (ExitCode::FAILURE, violation.to_string()),
    };
    if json {
        print_json(
            &json!({ "schema": 1, "commit": COMMIT, "broken": verdict.as_ref().err().map(as_json) }),
        )?;
    } else {
        print(&told)?;
    }
    Ok(code)
}

/// What one kind came to.
struct Report {
    kind: Kind,
    summary: Summary,
    took: Duration,
}

fn run_kind(args: &Args, kind: Kind, stop: &Arc<AtomicBool>) -> Result<Report, Failure> {
    let asked = args.jobs.and_then(|jobs| NonZeroUsize::new(jobs as usize));
    let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = asked.unwrap_or_else(processors);
    let seeds = args.seeds.from..args.seeds.end.unwrap_or(u64::MAX);
    let campaign = Campaign { kind, seeds, jobs };
    let show = Show::new(args, kind, Arc::clone(stop));
    let summary = campaign::run(&campaign, &show);
    show.bar.finish_and_clear();
    if let (true, Some((seed, violation))) = (args.shrink, summary.failed.first()) {
        shrink(kind, *seed, violation)?;
    }
    Ok(Report { kind, summary, took: show.started.elapsed() })
}

fn shrink(kind: Kind, seed: u64, violation: &Violation) -> Result<(), Failure> {
    stderr_line!("shrinking {kind} seed {seed} …");
    let (text, broken) = swarm::file::of_seed(kind, seed, violation.clone(), SHRINK_TRIES);
    let file = format!("{kind}-{seed}.toml");
    lab::store::replace(Path::new(&file), text.as_bytes())?;
    stderr_line!("{broken}\nreproduce: ackwright swarm --case {file}");
    Ok(())
}

/// What is shown while seeds are judged.
struct Show {
    kind: Kind,
    bar: ProgressBar,
    started: Instant,
    until: Option<Instant>,
    stop: Arc<AtomicBool>,
    failed: AtomicU64,
}

/// Failures told one by one; the rest is counted.
const TOLD: u64 = 20;

impl Show {
    fn new(args: &Args, kind: Kind, stop: Arc<AtomicBool>) -> Self {
        let target = ProgressDrawTarget::stderr();
        let count = args.seeds.end.map(|end| end - args.seeds.from);
        let bar = ProgressBar::with_draw_target(count, target);
        let template = if count.is_some() {
            "{msg} {bar:30} {pos}/{len}  ETA {eta}"
        } else {
            "{msg} {pos} seeds in {elapsed}"
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        bar.set_message(kind.name());
        let started = Instant::now();
        let until = args.time.map(|time| started + time);
        Self { kind, bar, started, until, stop, failed: AtomicU64::new(0) }
    }
}

impl Watcher for Show {
    fn finished(&self, seed: u64, verdict: &Result<Verdict, Violation>) {
        self.bar.inc(1);
        let Err(violation) = verdict else { return };
        if self.failed.fetch_add(1, Ordering::Relaxed) < TOLD {
            let kind = self.kind;
            self.bar.suspend(|| {
                stderr_line!("{kind} seed {seed} at {COMMIT}: {violation}");
                stderr_line!(
                    "    reproduce: ackwright swarm --kind {kind} --seeds {seed} --shrink"
                );
            });
        }
    }

    fn exceeds(&self, seed: u64, what: &str) {
        let kind = self.kind;
        stderr_line!("{kind} seed {seed} at {COMMIT} {what}");
        stderr_line!("    reproduce: ackwright swarm --kind {kind} --seeds {seed}");
        std::process::exit(1);
    }

    fn stop(&self) -> bool {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        late || self.stop.load(Ordering::Relaxed)
    }
}

impl Report {
    fn to_json(&self) -> Value {
        let failed: Vec<Value> = self
            .summary
            .failed
            .iter()
            .map(|(seed, violation)| {
                let mut told = as_json(violation);
                told["seed"] = json!(seed);
                told
            })
            .collect();
        json!({
            "kind": self.kind.name(), "seeds": self.summary.seeds, "steps": self.summary.steps,
            "seconds": self.took.as_secs_f64(), "failed": failed,
        })
    }
}

fn as_json(violation: &Violation) -> Value {
    json!({ "oracle": violation.oracle, "at": violation.at, "what": violation.what })
}

fn as_table(reports: &[Report]) -> Table {
    let head = ["kind", "seeds", "steps", "seconds", "failed"].map(String::from).to_vec();
    let rows = reports
        .iter()
        .map(|report| {
            vec![
                report.kind.name().to_owned(),
                report.summary.seeds.to_string(),
                report.summary.steps.to_string(),
                format!("{:.1}", report.took.as_secs_f64()),
                report.summary.failed.len().to_string(),
            ]
        })
        .collect();
    Table { head, rows, numeric: vec![false, true, true, true, true] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| (seeds.from, seeds.end));
        assert_eq!(seeds("3..7"), Ok((3, Some(7))));
        assert_eq!(seeds("3.."), Ok((3, None)));
        assert_eq!(seeds("3"), Ok((3, Some(4))));
        assert_eq!(seeds("7..3"), Err("7..3 is an empty range".to_owned()));
        let last = "18446744073709551614";
        assert_eq!(seeds(last), Ok((u64::MAX - 1, Some(u64::MAX))));
        for none in ["18446744073709551615", "18446744073709551615.."] {
            let told = format!("18446744073709551615 is not a seed: the largest is {last}");
            assert_eq!(seeds(none), Err(told));
        }
        assert_eq!(seeds("x"), Err("\"x\" is not a seed: expected a whole number".to_owned()));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1_500)));
        assert!(duration("-1s").is_err() && duration("soon").is_err());
    }
}
