//! Runs: without the interpreter's lock, with progress, stopped by signals.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lab::output::Output;
use lab::plan::{Experiment, limits};
use lab::results::{PointResult, RunResult};
use lab::run::{Error, FindFinishedRun, Incomplete, Options, Progress};
use lab::store::Store;
use lab::trace;
use pyo3::exceptions::{PyIndexError, PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

use crate::congestion::FirstException;
use crate::errors;
use crate::runs::Runs;

/// The program, as its results name it: the same as the command line, whose results it goes on with.
pub const PROGRAM: &str =
    concat!("ackwright ", env!("CARGO_PKG_VERSION"), " ", env!("ACKWRIGHT_COMMIT"));

/// How to run an experiment.
pub struct RunRequest {
    /// Seed of the first repetition, in place of the file's.
    pub seed: Option<u64>,
    /// Repetitions, in place of the file's.
    pub repetitions: Option<u32>,
    /// Runs at a time; 0 = one per processor.
    pub jobs: usize,
    /// Threads for each run; 0 = as many as leave no processor idle.
    pub threads: usize,
    /// Where results are written.
    pub out: Option<PathBuf>,
    /// Runs that are finished there stay.
    pub resume: bool,
    /// Series and flows stay in memory.
    pub keep: bool,
    /// What the viewer shows besides is recorded.
    pub view: bool,
}

/// The progress of all runs.
#[derive(Default)]
struct RunPosition {
    /// Runs, with parts of those that go on.
    runs: Mutex<f64>,
    /// Virtual time of all runs together, ns.
    virtual_ns: AtomicU64,
}

impl Progress for RunPosition {
    fn advanced(&self, virtual_ns: u64, share: f64) {
        *self.runs.lock().unwrap_or_else(PoisonError::into_inner) += share;
        self.virtual_ns.fetch_add(virtual_ns, Ordering::Relaxed);
    }
}

/// How often signals are checked and progress is reported.
const TICK: Duration = Duration::from_millis(50);

/// Does `work` on another thread, without the interpreter's lock; `stop` is set at a signal, and
/// where `tick` fails. Returns what that was as well.
pub fn supervised<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
) -> (thread::Result<T>, Option<PyErr>) {
    thread::scope(|scope| {
        let (done, waiting) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let result = work();
            // Nobody waits any more only if the process ends.
            let _ = done.send(());
            result
        });
        let mut stopped = None;
        let waiting = Mutex::new(waiting);
        loop {
            let wait = || {
                let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.recv_timeout(TICK)
            };
            let heard = py.detach(wait);
            if stopped.is_none() {
                stopped = py.check_signals().and_then(|()| tick(py)).err();
                stop.fetch_or(stopped.is_some(), Ordering::Relaxed);
            }
            if heard != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        (py.detach(|| worker.join()), stopped)
    })
}

/// Runs every repetition of every point: what is finished, and the exception that says why it is
/// not all.
///
/// # Errors
/// When nothing could begin.
pub fn run(
    py: Python<'_>,
    experiment: &Experiment,
    trouble: &FirstException,
    wanted: &RunRequest,
    progress: Option<&Py<PyAny>>,
) -> PyResult<(Runs, Option<Py<PyAny>>)> {
    let repetitions = wanted.repetitions.unwrap_or(experiment.base.repetitions);
    let runs = limits::runs(experiment.points.len() as u64, repetitions)
        .map_err(|problem| PyValueError::new_err(format!("repetitions: {problem}")))?;
    if repetitions == 0 {
        return Err(PyValueError::new_err("repetitions: must be at least 1"));
    }
    let seed = first_seed(experiment, wanted.seed, repetitions)?;
    let output =
        output(experiment, wanted, seed, repetitions).map_err(|error| errors::store(py, &error))?;
    let (far, stop) = (RunPosition::default(), AtomicBool::new(false));
    trouble.clear();
    let tick = |py: Python<'_>| {
        trouble.check(py)?;
        let Some(progress) = progress else { return Ok(()) };
        let done = *far.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = far.virtual_ns.load(Ordering::Relaxed) as f64 / 1e9;
        progress.call1(py, (done, runs, seconds)).map(drop)
    };
    let work = || all((experiment, trouble), wanted, output.as_ref(), &far, &stop);
    let (done, stopped) = supervised(py, &stop, work, tick);
    let stopped = trouble.check(py).err().or(stopped);
    let done = done.map_err(|panic| errors::run(py, &panic_message(&*panic)))?;
    let in_files = wanted.out.clone().filter(|_| wanted.resume || !wanted.keep);
    let of = |points| Runs::new(experiment, points, in_files.clone());
    let (points, failed) = match done {
        Ok(points) => (points, None),
        Err(part) => (part.points, Some((part.error, part.finished, part.runs))),
    };
    let (late, stopped) = if failed.is_none() { (stopped, None) } else { (None, stopped) };
    let (finished, missing) = failed.as_ref().map_or((0, 0), |(_, done, all)| (*done, all - done));
    let mut why = failed.map(|(error, finished, runs)| {
        problem(py, error, stopped, &format!("{finished} of {runs} runs are finished"))
    });
    if let Some(output) = &output
        && (why.is_none() || finished > 0)
    {
        let stripped: Vec<PointResult> = points.iter().map(|(point, _)| point.clone()).collect();
        let written = py.detach(|| output.finish(experiment, seed, &stripped, missing));
        // On a full disk this fails as well; the first error is the one to tell.
        if let (Err(error), None) = (written, &why) {
            why = Some(errors::store(py, &error));
        }
    }
    // Of short runs nothing is left to stop when it is looked at: it is raised all the same.
    if let (Some(stopped), None) = (late, &why) {
        let all = experiment.points.len() as u64 * u64::from(repetitions);
        why = Some(raised(py, stopped, &format!("{all} of {all} runs are finished")));
    }
    Ok((of(points), why.map(|why| why.into_value(py).into_any())))
}

/// A point as it is written, and its runs with all that stays in memory.
pub type PointRuns = (PointResult, Vec<RunResult>);

/// The finished part of an experiment that was stopped or failed.
struct UnfinishedRuns {
    error: Error,
    points: Vec<PointRuns>,
    finished: usize,
    runs: usize,
}

/// The seed of the first repetition, if results can say those of all.
///
/// # Errors
/// When they cannot.
pub fn first_seed(experiment: &Experiment, seed: Option<u64>, repetitions: u32) -> PyResult<u64> {
    let seed = seed.unwrap_or(experiment.base.seed);
    limits::seeds(seed, repetitions)
        .map_err(|problem| PyValueError::new_err(format!("seed: {problem}")))?;
    Ok(seed)
}

/// Where results go, if anywhere.
fn output(
    experiment: &Experiment,
    wanted: &RunRequest,
    seed: u64,
    repetitions: u32,
) -> Result<Option<Output>, lab::store::Error> {
    let Some(out) = &wanted.out else { return Ok(None) };
    let output = if wanted.resume {
        Output::resume(out, PROGRAM, experiment, seed, repetitions)?.0
    } else {
        Output::new(Store::results(out, PROGRAM)?.0)
    };
    Ok(Some(output.viewing(wanted.view)))
}

/// Everything, in this thread and those that it begins.
fn all(
    (experiment, trouble): (&Experiment, &FirstException),
    wanted: &RunRequest,
    output: Option<&Output>,
    far: &RunPosition,
    stop: &AtomicBool,
) -> Result<Vec<PointRuns>, UnfinishedRuns> {
    let known: &FindFinishedRun<'_> =
        &|point, repetition, plan| output.and_then(|output| output.known(point, repetition, plan));
    let seen = trace::TraceOutputs { view: wanted.view, ..trace::TraceOutputs::default() };
    let options = Options {
        seed: wanted.seed,
        repetitions: wanted.repetitions,
        wanted: Some(&seen),
        jobs: wanted.jobs,
        threads: wanted.threads,
        progress: far,
        store: output.map(Output::store),
        known,
        ..Options::silent(stop)
    };
    // What the files have, and what stays in memory beside it.
    let whole: Mutex<BTreeMap<String, RunResult>> = Mutex::default();
    let done = lab::run::run(experiment, &options, &|point, repetition, run| {
        trouble.or_stopped()?;
        if !wanted.keep && output.is_none() {
            run.series.clear();
            run.flows.clear();
        }
        let Some(output) = output else { return Ok(()) };
        let copy = wanted.keep.then(|| run.clone());
        output.keep(point, repetition, run)?;
        if let Some(copy) = copy {
            let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
            whole.insert(run.name.clone(), RunResult { files: run.files.clone(), ..copy });
        }
        Ok(())
    });
    let mut whole = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut kept = |points: Vec<PointResult>| -> Vec<PointRuns> {
        let each = |mut point: PointResult| {
            let runs = point.runs.iter().map(|run| whole.remove(&run.name));
            let runs: Vec<Option<RunResult>> = runs.collect();
            if output.is_none() {
                return (PointResult { labels: point.labels, runs: Vec::new() }, point.runs);
            }
            let runs = runs.into_iter().zip(&mut point.runs);
            let runs = runs.map(|(whole, run)| whole.unwrap_or_else(|| run.clone())).collect();
            (point, runs)
        };
        points.into_iter().map(each).collect()
    };
    match done {
        Ok(points) => Ok(kept(points)),
        Err(Incomplete { error, points, finished, runs }) => {
            Err(UnfinishedRuns { error, points: kept(points), finished, runs })
        }
    }
}

/// Why not all runs were finished, as an exception. `stopped` is what asked us to stop.
pub fn problem(py: Python<'_>, error: Error, stopped: Option<PyErr>, rest: &str) -> PyErr {
    match (error, stopped) {
        (Error::Stopped, Some(why)) => raised(py, why, rest),
        (Error::Stopped, None) => errors::run(py, &format!("stopped; {rest}")),
        (Error::Invalid(faults), _) => errors::experiment(py, &faults),
        (Error::World(message), _) => errors::run(py, &format!("{message}; {rest}")),
        (Error::Store(error), _) => errors::store(py, &error),
    }
}

/// What asked us to stop, as it is raised: Ctrl-C says what is finished.
fn raised(py: Python<'_>, stopped: PyErr, rest: &str) -> PyErr {
    if stopped.is_instance_of::<PyKeyboardInterrupt>(py) {
        errors::interrupted(py, rest)
    } else {
        stopped
    }
}

/// What has been done, unless there was a signal: one that came too late to stop anything is raised as well.
///
/// # Errors
/// What asked us to stop.
pub fn unless_stopped<T>(py: Python<'_>, done: T, stopped: Option<PyErr>) -> PyResult<T> {
    stopped.map_or(Ok(done), |why| Err(raised(py, why, "all is finished")))
}

/// What a broken invariant of ours said.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("a mistake in ackwright: {text}")
}

/// The events of one flow in the first repetition of a point.
///
/// # Errors
/// When there is no such flow or point, or the run did not come to its end.
pub fn explain(
    py: Python<'_>,
    experiment: &Experiment,
    trouble: &FirstException,
    flow: &str,
    point: usize,
    seed: Option<u64>,
) -> PyResult<String> {
    trouble.clear();
    let Some(point) = experiment.points.get(point) else {
        let count = experiment.points.len();
        return Err(PyIndexError::new_err(format!("there are {count} points")));
    };
    let seed = first_seed(experiment, seed, 1)?;
    let (plan, _) =
        experiment.plan(point, 0, seed).map_err(|faults| errors::experiment(py, &faults))?;
    let stop = AtomicBool::new(false);
    let explain = vec![flow.to_owned()];
    let wanted = trace::TraceOutputs { explain, packets: true, ..trace::TraceOutputs::default() };
    let work = || {
        let options = Options { wanted: Some(&wanted), ..Options::silent(&stop) };
        let run = lab::run::run_plan(&plan, "explained", &options)?;
        let told = run.explained.iter().map(|one| format!("{}\n{}", one.story, one.why));
        Ok::<_, Error>(told.collect::<Vec<_>>().join("\n"))
    };
    let (done, stopped) = supervised(py, &stop, work, |py| trouble.check(py));
    let done = done.map_err(|panic| errors::run(py, &panic_message(&*panic)))?;
    trouble.check(py)?;
    match done {
        Ok(told) => unless_stopped(py, told, stopped),
        Err(error) => Err(problem(py, error, stopped, "nothing is told")),
    }
}
