//! From plans to results: builds worlds, runs them in parallel, gathers their results.

pub(crate) mod apps;
pub(crate) mod build;
mod capture;
mod changes;
mod clock;
mod config;
mod counters;
mod exchanges;
mod latency;
mod measure;
mod metric;
mod one;
pub(crate) mod outside;
mod queue_watch;
mod reroute;
mod routes;
mod sample;
mod shown;
mod sockets;
mod transfer;
mod utilisation;
mod workload;

pub use one::run_plan;
pub use sockets::SsAt;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rayon::prelude::*;
use sim::epoch::Grouping;

use crate::plan::{Diagnostics, Experiment, Plan, Stack};
use crate::results::{PointResult, RunResult};
use crate::store::{self, Store};
use crate::sweep::Point;
use crate::trace::TraceOutputs;

/// Receives the progress of runs; called from many threads.
pub trait Progress: Sync {
    /// One run has advanced by so much virtual time, which is this share of its whole.
    fn advanced(&self, virtual_ns: u64, share: f64);
}

/// Ignores progress.
pub struct NoProgress;

impl Progress for NoProgress {
    fn advanced(&self, _virtual_ns: u64, _share: f64) {}
}

/// How to run an experiment.
pub struct Options<'a> {
    /// Seed of the first repetition, in place of the file's.
    pub seed: Option<u64>,
    /// Repetitions, in place of the file's.
    pub repetitions: Option<u32>,
    /// Runs at a time; 0 = one per processor. Results do not depend on it.
    pub jobs: usize,
    /// Threads for each run; 0 = as many as leave no processor idle, but no more than have a hundred nodes each. Results do not
    /// depend on it.
    pub threads: usize,
    /// How nodes are grouped. Results do not depend on it; the option exists to check that.
    pub grouping: Grouping,
    /// Set from outside to stop early.
    pub stop: &'a AtomicBool,
    /// Receives the progress.
    pub progress: &'a dyn Progress,
    /// Where captures go; there are none without.
    pub store: Option<&'a Store>,
    /// When the sockets of all hosts are dumped.
    pub ss_at: &'a [SsAt],
    /// What is observed of the first repetition of the first point, or of each point.
    pub wanted: Option<&'a TraceOutputs>,
    /// Real packets in real time, one run at a time.
    pub live: Option<LiveOverrides>,
    /// The network is written beside the results, of the first repetition of each point.
    pub network: bool,
    /// Labels of the point that is run, for tables that are written.
    pub labels: &'a [(String, String)],
    /// Called for each run before it begins, with point, repetition and plan: a run with a known result
    /// is not repeated.
    pub known: &'a FindFinishedRun<'a>,
}

/// How a live run overrides the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveOverrides {
    /// All hosts run on this stack.
    pub stack: Option<Stack>,
}

/// Finds the result of a run that need not be run again.
pub type FindFinishedRun<'a> = dyn Fn(&Point, u32, &Plan) -> Option<RunResult> + Sync + 'a;

impl<'a> Options<'a> {
    /// As the file says, in one thread, without progress and without files.
    pub fn silent(stop: &'a AtomicBool) -> Self {
        Self {
            seed: None,
            repetitions: None,
            jobs: 1,
            threads: 1,
            grouping: Grouping::default(),
            stop,
            progress: &NoProgress,
            store: None,
            ss_at: &[],
            wanted: None,
            labels: &[],
            live: None,
            network: true,
            known: &|_, _, _| None,
        }
    }
}

/// The finished part of an experiment that was stopped or failed.
#[derive(Debug)]
pub struct Incomplete {
    /// Why.
    pub error: Error,
    /// All points, each with those of its runs that are finished.
    pub points: Vec<PointResult>,
    /// Runs that are finished.
    pub finished: usize,
    /// Runs in all.
    pub runs: usize,
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {} of {} runs are finished", self.error, self.finished, self.runs)
    }
}

impl std::error::Error for Incomplete {}

impl From<Error> for Incomplete {
    /// Nothing has been run.
    fn from(error: Error) -> Self {
        Self { error, points: Vec::new(), finished: 0, runs: 0 }
    }
}

/// Why an experiment did not come to its end.
#[derive(Debug)]
pub enum Error {
    /// It was stopped from outside.
    Stopped,
    /// A plan turned out to be impossible.
    Invalid(Diagnostics),
    /// The world could not be built.
    World(String),
    /// A file could not be written.
    Store(store::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => write!(f, "stopped"),
            Self::Invalid(faults) => write!(f, "{faults}"),
            Self::World(problem) => write!(f, "{problem}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Diagnostics> for Error {
    fn from(faults: Diagnostics) -> Self {
        Self::Invalid(faults)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// Called with a run as soon as it has ended; may remove what it has stored.
pub type OnRun<'a> = dyn Fn(&Point, u32, &mut RunResult) -> Result<(), Error> + Sync + 'a;

/// Runs every repetition of every point.
///
/// # Errors
/// The experiment was stopped, a world could not be built, or `on_run` failed; with the finished
/// runs. No run begins any more then, and those in progress are finished.
pub fn run(
    experiment: &Experiment,
    options: &Options<'_>,
    on_run: &OnRun<'_>,
) -> Result<Vec<PointResult>, Incomplete> {
    let repetitions = options.repetitions.unwrap_or(experiment.base.repetitions);
    let jobs: Vec<(&Point, u32)> = experiment
        .points
        .iter()
        .flat_map(|point| (0..repetitions).map(move |repetition| (point, repetition)))
        .collect();
    let (at_a_time, threads) = match options.live {
        Some(_) => (1, 1),
        None => share_out(jobs.len(), (options.jobs, options.threads), experiment.base.nodes.len()),
    };
    let one = |&(point, repetition): &(&Point, u32)| {
        run_one(experiment, point, repetition, &Options { threads, ..*options }, on_run)
    };
    let failed = AtomicBool::new(false);
    let unless_failed = |job| {
        if failed.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        one(job).inspect_err(|_| failed.store(true, Ordering::Relaxed))
    };
    let results: Vec<Result<RunResult, Error>> = if at_a_time == 1 {
        // Here, so that plots reuse the memory of the world before it goes back to the system.
        jobs.iter().map(unless_failed).collect()
    } else {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(at_a_time).build();
        let pool = pool.map_err(|error| Error::World(format!("cannot start threads: {error}")))?;
        pool.install(|| jobs.par_iter().map(unless_failed).collect())
    };
    gather(experiment, results, repetitions)
}

/// Runs one repetition of one point, unless it is known.
///
/// # Errors
/// As of [`run`].
pub fn run_one(
    experiment: &Experiment,
    point: &Point,
    repetition: u32,
    options: &Options<'_>,
    on_run: &OnRun<'_>,
) -> Result<RunResult, Error> {
    let seed = options.seed.unwrap_or(experiment.base.seed);
    let (plan, drawn) = experiment.plan(point, repetition, seed)?;
    if let Some(known) = (options.known)(point, repetition, &plan) {
        options.progress.advanced(0, 1.0);
        return Ok(known);
    }
    let name = run_name(point.slug(), plan.seed);
    // Of all runs one is observed; for the viewer and for captures, one of each point.
    let first = std::ptr::eq(point, &raw const experiment.points[0]);
    let view = options.wanted.is_some_and(|wanted| wanted.view);
    let pcap = options.wanted.map_or(Vec::new(), |wanted| wanted.pcap.clone());
    let viewed = TraceOutputs { view, pcap, ..TraceOutputs::default() };
    let wanted = if first { options.wanted } else { Some(&viewed) };
    let network = options.network && repetition == 0;
    let wanted = wanted.filter(|wanted| repetition == 0 && !wanted.is_empty());
    let mut result =
        run_plan(&plan, &name, &Options { wanted, network, labels: &point.labels, ..*options })?;
    result.drawn = drawn.iter().map(|value| (value.path.clone(), value.plain())).collect();
    on_run(point, repetition, &mut result)?;
    Ok(result)
}

/// Puts the runs to their points.
fn gather(
    experiment: &Experiment,
    results: Vec<Result<RunResult, Error>>,
    repetitions: u32,
) -> Result<Vec<PointResult>, Incomplete> {
    let runs = results.len();
    let (mut finished, mut error) = (0, None);
    let mut results = results.into_iter();
    let mut points = Vec::new();
    for point in &experiment.points {
        let mut own = Vec::new();
        for result in results.by_ref().take(repetitions as usize) {
            match result {
                Ok(run) => own.push(run),
                // A run that did not begin is not the cause.
                Err(Error::Stopped) => drop(error.get_or_insert(Error::Stopped)),
                Err(other) if matches!(error, None | Some(Error::Stopped)) => error = Some(other),
                Err(_) => {}
            }
        }
        finished += own.len();
        points.push(PointResult { labels: point.labels.clone(), runs: own });
    }
    match error {
        None => Ok(points),
        Some(error) => Err(Incomplete { error, points, finished, runs }),
    }
}

/// The number of nodes for which another thread pays. With fewer, threads wait for each other more than they work: with
/// two, a world of 22 nodes (`bench a`) takes up to twice the CPU time, and at best a quarter less wall-clock time.
const NODES_PER_THREAD: usize = 100;

/// How many of these runs there are at a time, and with how many threads each: as asked for, but never
/// more runs than there are, or (0) so that each processor has one, if worlds of so many nodes are worth it.
fn share_out(runs: usize, (jobs, threads): (usize, usize), nodes: usize) -> (usize, usize) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = match jobs {
        0 => processors / threads.max(1),
        jobs => jobs,
    };
    let jobs = jobs.clamp(1, runs.max(1));
    let threads = match threads {
        0 => (processors / jobs).min(nodes / NODES_PER_THREAD).max(1),
        threads => threads,
    };
    (jobs, threads)
}

/// The name for the files of one run.
pub fn run_name(slug: &str, seed: u64) -> String {
    if slug.is_empty() { format!("seed-{seed}") } else { format!("{slug}-seed-{seed}") }
}

#[cfg(test)]
mod tests;
