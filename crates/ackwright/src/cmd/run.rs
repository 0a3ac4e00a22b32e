//! `ackwright run`.

mod print;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::output::{Output, PlotOptions};
use lab::plan::plots::Format;
use lab::plan::{Error as PlanError, Experiment, Stack, limits};
use lab::results::PointResult;
use lab::run::{Error, FindFinishedRun, Incomplete, LiveOverrides, Options, SsAt};
use lab::trace::TraceOutputs;
use sim::epoch::Grouping;

use self::print::{print_files, print_results};
use super::{
    Failure, JOBS_MAX, Outcome, PROGRAM, lock_directory, print, refuse_file, refuse_output,
    refuse_overwriting, results,
};
use crate::interrupt;
use crate::progress::Bar;

/// Arguments of `ackwright run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright run experiments/first.toml
  ackwright run experiments/first.toml --runs 20 --out out/first
  ackwright run experiments/lost-retransmit.toml --set burst=64kb --set congestion_control=reno
  ackwright run experiments/first.toml --explain download
  ackwright run experiments/first.toml --explain download --explain-packets --set duration=3s
  ackwright run experiments/first.toml --runs 1 --trace out/first.pftrace   # ui.perfetto.dev
  ackwright run experiments/first.toml --runs 1 --qlog out/qlog             # qvis
  ackwright run experiments/first.toml --out out/first --view && ackwright view out/first
  ackwright run experiments/first.toml --out out/first --pcap router.dsl    # Wireshark
  ackwright run experiments/cake-ack-filter.toml --set load=be --runs 1 --tc-stats
  ackwright run experiments/first.toml --runs 1 --ss-at 2s --ss-at end
  ackwright run experiments/web-search.toml --out out/web-search
  ackwright run my.toml --seed 7 --json > results.json
  ackwright run experiments/first.toml --live --runs 1                      # real packets, as root")]
pub struct Args {
    /// Experiment file (TOML, schema 1; see docs/experiments.md)
    file: PathBuf,
    /// Seed of the first repetition; repetition k uses SEED + k (2^63 - 1 at most)
    #[arg(long)]
    seed: Option<u64>,
    /// Replace a parameter or a key of the file; an axis of the sweep becomes this one value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Number of repetitions
    #[arg(long, alias = "repetitions", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    #[command(flatten)]
    workers: Workers,
    /// Run with real packets in real time, in network namespaces: needs root or unprivileged user
    /// namespaces; each run takes as long as the file's duration
    #[arg(long, conflicts_with_all = WITHOUT_LIVE)]
    pub live: bool,
    /// Run all hosts on this stack, whatever the file says
    #[arg(long, value_enum, requires = "live", conflicts_with_all = WITHOUT_LIVE)]
    stack: Option<StackChoice>,
    /// Write summary.json, results and flows (CSV, Parquet), series (Parquet), captures (pcapng) and
    /// plots (SVG, PNG, PDF, and their data as CSV) to DIR
    #[arg(long, value_name = "DIR", group = "results")]
    out: Option<PathBuf>,
    /// Resume from the results in DIR: finished runs of the same plan are kept, the others are run;
    /// the results are the same as those of an uninterrupted run
    #[arg(long, value_name = "DIR", group = "results")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    seeing: TraceArgs,
    /// Print `tc -s qdisc show` of every watched port at the end of each point's first run; the
    /// summary has it as JSON
    #[arg(long, conflicts_with = "json")]
    tc_stats: bool,
    /// Print `tc -s class show` of the same ports
    #[arg(long, conflicts_with = "json")]
    tc_classes: bool,
    /// Print `ss -tino` of every host at this time, or at the "end" of each run; may be repeated
    #[arg(long, value_name = "TIME")]
    ss_at: Vec<SsAt>,
    /// Plot only these flows: names, or patterns with `*`
    #[arg(long, value_name = "FLOW", value_delimiter = ',')]
    plot_flows: Vec<String>,
    /// Plot formats: svg, png, pdf [default: svg,png]
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    plot_format: Vec<Format>,
    /// Title of plots that have none of their own; '' leaves titles out
    #[arg(long, value_name = "TITLE", value_parser = plot_title)]
    plot_title: Option<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// What is of no use with `--live`, nor with what needs it: clap drops a need that conflicts.
const WITHOUT_LIVE: [&str; 4] = ["resume", "explain", "trace", "qlog"];

/// Whose stack hosts run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StackChoice {
    /// This program's
    Ours,
    /// This machine's kernel's
    Kernel,
}

impl From<StackChoice> for Stack {
    fn from(stack: StackChoice) -> Self {
        match stack {
            StackChoice::Ours => Self::Ours,
            StackChoice::Kernel => Self::Kernel,
        }
    }
}

/// What is observed of the first repetition of the first point.
#[derive(clap::Args)]
struct TraceArgs {
    /// Explain why a flow of the first repetition was not faster, and list its events: when and why
    /// its window was reduced, what was retransmitted and why; a name, or a pattern with `*`.
    /// Without --out, nothing else is run
    #[arg(long, value_name = "FLOW", value_delimiter = ',', conflicts_with = "json")]
    explain: Vec<String>,
    /// With --explain, print every packet of the flow as well
    #[arg(long, requires = "explain", conflicts_with = "json")]
    explain_packets: bool,
    /// Write a trace of the first repetition, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record what `ackwright view` shows in addition to the usual results, for the first
    /// repetition of each point: utilisation of all links, packets and event logs of flows, tins,
    /// filtered ACKs, next hops
    #[arg(long, requires = "results")]
    view: bool,
    /// Capture the packets at this port (NODE.LINK, or a pattern with `*`) to DIR/pcap, in the first repetition of each
    /// point; `pcap` in the file's [measure] does it in every one
    #[arg(long, value_name = "PORT", value_delimiter = ',', requires = "results")]
    pcap: Vec<String>,
    /// Write each TCP flow of the first repetition to a qlog file, for qvis
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl TraceArgs {
    fn outputs(&self) -> TraceOutputs {
        TraceOutputs {
            perfetto: self.trace.clone(),
            qlog: self.qlog.clone(),
            explain: self.explain.clone(),
            packets: self.explain_packets,
            view: self.view,
            pcap: self.pcap.clone(),
        }
    }
}

/// How much is done at a time.
#[derive(Clone, Copy, Default, clap::Args)]
pub struct Workers {
    /// Number of concurrent runs [default: one per CPU]; results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=JOBS_MAX))]
    jobs: u32,
    /// Threads per run [default: the CPUs that --jobs leaves idle, at most one per hundred nodes];
    /// results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=64))]
    threads: u32,
    /// How nodes are grouped; results do not depend on it, which `make determinism` checks
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide = true)]
    grouping: GroupingChoice,
}

/// How nodes are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum GroupingChoice {
    /// As far as it pays off
    #[default]
    Adaptive,
    /// Event by event
    One,
    /// As finely as possible, and on all threads, whether it pays off or not
    Finest,
}

impl From<GroupingChoice> for Grouping {
    fn from(how: GroupingChoice) -> Self {
        match how {
            GroupingChoice::Adaptive => Self::Adaptive,
            GroupingChoice::One => Self::One,
            GroupingChoice::Finest => Self::Finest,
        }
    }
}

/// Runs an experiment file.
pub fn run(args: &Args) -> Outcome {
    check_resume(args)?;
    let experiment = Experiment::load(&args.file, &args.settings)?;
    super::check::print_notes(&experiment);
    let repetitions = args.runs.unwrap_or(experiment.base.repetitions);
    let seed = args.seed.unwrap_or(experiment.base.seed);
    // The file's own seeds have been checked.
    let option = if args.seed.is_some() { "--seed" } else { "--runs" };
    limits::seeds(seed, repetitions)
        .map_err(|problem| Failure::Usage(format!("{option}: {problem}")))?;
    let wanted = args.seeing.outputs();
    check_observed(&experiment, args, &wanted)?;
    if !wanted.explain.is_empty() && args.out.is_none() {
        return explain(&experiment, args.seed, &wanted);
    }
    check_times(&experiment, args)?;
    check_plot_flows(&experiment, args)?;
    limits::runs(experiment.points.len() as u64, repetitions)
        .map_err(|problem| Failure::Usage(format!("--runs: {problem}")))?;
    let output = match &args.resume {
        Some(directory) => Some(resume(directory, &experiment, seed, repetitions)?),
        None => args.out.as_deref().map(results).transpose()?,
    };
    let choice = PlotOptions {
        flows: args.plot_flows.clone(),
        formats: args.plot_format.clone(),
        title: args.plot_title.clone(),
    };
    let output = output.map(|output| output.choosing(choice).viewing(wanted.view));
    let runs = Runs {
        seed: args.seed,
        repetitions: args.runs,
        workers: args.workers,
        ss_at: &args.ss_at,
        wanted: Some(&wanted),
        live: args.live.then(|| LiveOverrides { stack: args.stack.map(Stack::from) }),
    };
    match run_all(&experiment, &runs, output.as_ref()) {
        Ok(points) => {
            if let Some(output) = &output {
                output.finish(&experiment, seed, &points, 0)?;
            }
            print_results(&experiment, args, output.as_ref(), seed, &points, 0)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(mut part) => {
            if let Some(missing) = keep_finished(&mut part, &experiment, seed, output.as_ref()) {
                print_results(&experiment, args, output.as_ref(), seed, &part.points, missing)?;
            }
            Err(unfinished(part, output.is_some()))
        }
    }
}

/// Writes what is finished of a sweep that was stopped or has failed, and leaves the points that have any
/// run in `part`; how many runs are missing, or none if none is finished.
pub fn keep_finished(
    part: &mut Incomplete,
    experiment: &Experiment,
    seed: u64,
    output: Option<&Output>,
) -> Option<usize> {
    let missing = part.runs - part.finished;
    if part.finished == 0 {
        return None;
    }
    if let Some(output) = output {
        // On a full disk this fails as well; the first error is the one to tell.
        let _ = output.finish(experiment, seed, &part.points, missing);
    }
    part.points.retain(|point| !point.runs.is_empty());
    Some(missing)
}

/// What is observed while a run lasts is not available for one that is already finished.
fn check_resume(args: &Args) -> Result<(), Failure> {
    let seen = [
        ("--ss-at", !args.ss_at.is_empty()),
        ("--explain", !args.seeing.explain.is_empty()),
        ("--trace", args.seeing.trace.is_some()),
        ("--pcap", !args.seeing.pcap.is_empty()),
        ("--qlog", args.seeing.qlog.is_some()),
    ];
    match seen.into_iter().find(|(_, asked)| args.resume.is_some() && *asked) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::Usage(format!(
            "{option} needs to observe a run, and --resume does not repeat finished runs; leave \
             {option} out, or run without --resume and choose points with --set"
        ))),
    }
}

/// Goes on with the results in a directory.
pub fn resume(
    directory: &Path,
    experiment: &Experiment,
    seed: u64,
    repetitions: u32,
) -> Result<Output, Failure> {
    lock_directory(directory)?;
    let (output, kept, _) = Output::resume(directory, PROGRAM, experiment, seed, repetitions)?;
    let (runs, name) =
        (experiment.points.len() as u64 * u64::from(repetitions), directory.display());
    if kept == 0 {
        stderr_line!("note: {name} has no runs of this program to keep; running all");
    } else {
        stderr_line!("note: {name} has {kept} of {runs} runs; keeping those of the same plan");
    }
    Ok(output)
}

/// A title for plots, as files may have it.
pub fn plot_title(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("a title must be one line, without control characters".into());
    }
    Ok(text.to_owned())
}

/// Patterns of `--plot-flows` are to fit a flow.
fn check_plot_flows(experiment: &Experiment, args: &Args) -> Result<(), Failure> {
    let seed = args.seed.unwrap_or(experiment.base.seed);
    let mut wrong: Vec<&String> = args.plot_flows.iter().collect();
    let mut names = Vec::new();
    for point in &experiment.points {
        if wrong.is_empty() {
            break;
        }
        let (plan, _) = experiment.plan(point, 0, seed).map_err(PlanError::from)?;
        names = plan.flows.into_iter().map(|flow| flow.name).collect();
        let fits = |pattern: &str| names.iter().any(|name| lab::plan::matches(pattern, name));
        wrong.retain(|pattern| !fits(pattern));
    }
    let Some(pattern) = wrong.first() else { return Ok(()) };
    let help = lab::plan::suggest(pattern, names.iter().map(String::as_str));
    let help = help.map_or(String::new(), |help| format!("; {help}"));
    Err(Failure::Usage(format!("--plot-flows {pattern}: no such flow{help}")))
}

/// Sockets can be looked at while a run lasts; a sweep may have shorter ones too.
fn check_times(experiment: &Experiment, args: &Args) -> Result<(), Failure> {
    let seed = args.seed.unwrap_or(experiment.base.seed);
    let mut longest = experiment.base.duration;
    for point in &experiment.points {
        let (plan, _) = experiment.plan(point, 0, seed).map_err(PlanError::from)?;
        longest = longest.max(plan.duration);
    }
    for at in &args.ss_at {
        if matches!(at, SsAt::Time(time) if *time > longest) {
            let nanos = longest.as_nanos();
            let end = format!("{}.{:06} s", nanos / 1_000_000_000, nanos / 1_000 % 1_000_000);
            return Err(Failure::Usage(format!("--ss-at: the experiment ends at {end}")));
        }
    }
    Ok(())
}

/// What is to be observed exists, and is not written over what is read.
fn check_observed(
    experiment: &Experiment,
    args: &Args,
    wanted: &TraceOutputs,
) -> Result<(), Failure> {
    if let Some(trace) = &wanted.perfetto {
        refuse_output("--trace", trace)?;
        refuse_overwriting(trace, &[&args.file])?;
    }
    if let Some(qlog) = &wanted.qlog {
        refuse_file(qlog)?;
    }
    let seed = args.seed.unwrap_or(experiment.base.seed);
    let (plan, _) = experiment.plan(&experiment.points[0], 0, seed).map_err(PlanError::from)?;
    lab::trace::tracer::check(wanted, &plan).map_err(failure)
}

/// Runs the first repetition of the first point, and prints why its flows were not faster.
fn explain(experiment: &Experiment, seed: Option<u64>, wanted: &TraceOutputs) -> Outcome {
    let stop = interrupt::flag();
    let point = &experiment.points[0];
    let seed = seed.unwrap_or(experiment.base.seed);
    let (plan, _) = experiment.plan(point, 0, seed).map_err(PlanError::from)?;
    let options = Options { wanted: Some(wanted), ..Options::silent(&stop) };
    let run = lab::run::run_plan(&plan, "explained", &options).map_err(failure)?;
    for one in &run.explained {
        print(&format!("{}\n{}", one.story, one.why))?;
    }
    print_files(wanted)?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Stopped => {
            Failure::Interrupted("stopped; files already written are complete".into())
        }
        Error::Invalid(faults) => Failure::Usage(faults.to_string()),
        Error::World(problem) => Failure::Other(problem),
        Error::Store(error) => error.into(),
    }
}

/// Why not all runs were finished, and how to go on if those that were are `kept`.
pub fn unfinished(part: Incomplete, kept: bool) -> Failure {
    let (finished, runs) = (part.finished, part.runs);
    let resume = if kept { "; to continue, pass the directory of --out to --resume" } else { "" };
    let rest = format!("{finished} of {runs} runs are finished{resume}");
    match failure(part.error) {
        Failure::Interrupted(message) if runs > 1 => {
            Failure::Interrupted(format!("{message}; {rest}"))
        }
        Failure::Other(message) if runs > 1 => Failure::Other(format!("{message}; {rest}")),
        other => other,
    }
}

/// Live runs need namespaces.
#[cfg(target_os = "linux")]
pub fn acquire_namespaces() -> Result<(), Failure> {
    lab::live::acquire().map_err(Failure::Usage)
}

/// Live runs need namespaces.
#[cfg(not(target_os = "linux"))]
pub fn acquire_namespaces() -> Result<(), Failure> {
    Err(Failure::Usage("--live needs Linux".into()))
}

/// What is run in place of what the file says.
#[derive(Default)]
pub struct Runs<'a> {
    /// Seed of the first repetition.
    pub seed: Option<u64>,
    /// How many repetitions.
    pub repetitions: Option<u32>,
    /// How much is done at a time.
    pub workers: Workers,
    /// When sockets are looked at.
    pub ss_at: &'a [SsAt],
    /// What is observed of the first one.
    pub wanted: Option<&'a TraceOutputs>,
    /// With real packets.
    pub live: Option<LiveOverrides>,
}

/// Runs every point with a progress bar and a clean stop on Ctrl-C.
pub fn run_all(
    experiment: &Experiment,
    what: &Runs<'_>,
    output: Option<&Output>,
) -> Result<Vec<PointResult>, Incomplete> {
    let runs = what.repetitions.unwrap_or(experiment.base.repetitions);
    let bar = Bar::new(experiment.points.len() as u64 * u64::from(runs));
    let stop = interrupt::flag();
    let known: &FindFinishedRun<'_> =
        &|point, repetition, plan| output.and_then(|output| output.known(point, repetition, plan));
    let options = Options {
        seed: what.seed,
        repetitions: what.repetitions,
        jobs: what.workers.jobs as usize,
        threads: what.workers.threads as usize,
        grouping: what.workers.grouping.into(),
        stop: &stop,
        progress: &bar,
        store: output.map(Output::store),
        ss_at: what.ss_at,
        wanted: what.wanted,
        network: true,
        live: what.live,
        known,
        labels: &[],
    };
    let done = lab::run::run(experiment, &options, &|point, repetition, run| {
        if let Some(output) = output {
            return output.keep(point, repetition, run);
        }
        run.series.clear();
        run.flows.clear();
        Ok(())
    });
    bar.finish();
    done
}
