//! Sweeps whose runs are made by other processes: one process says what is to be run and puts the
//! results together, any number of others make one run each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use lab::output::Output;
use lab::plan::{Experiment, limits};
use lab::results::{PointResult, RunResult};
use lab::run::{Error, Options};
use lab::store::Store;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::congestion::FirstException;
use crate::errors;
use crate::run::{PROGRAM, panic_message, supervised, unless_stopped};
use crate::runs::Runs;

/// One run: the point's place in the sweep, and the repetition.
type RunKey = (usize, u32);

/// A folder of results that fills.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Collection {
    experiment: Experiment,
    output: Output,
    folder: PathBuf,
    seed: u64,
    repetitions: u32,
    runs: Mutex<BTreeMap<RunKey, RunResult>>,
}

impl Collection {
    /// Begins with what is there, or with nothing.
    ///
    /// # Errors
    /// When the folder cannot be written, or holds what is not ours.
    pub fn begin(
        py: Python<'_>,
        experiment: &Experiment,
        seed: Option<u64>,
        repetitions: Option<u32>,
        folder: PathBuf,
        resume: bool,
    ) -> PyResult<Self> {
        let repetitions = repetitions.unwrap_or(experiment.base.repetitions);
        limits::runs(experiment.points.len() as u64, repetitions)
            .map_err(|problem| PyValueError::new_err(format!("repetitions: {problem}")))?;
        if repetitions == 0 {
            return Err(PyValueError::new_err("repetitions: must be at least 1"));
        }
        let seed = crate::run::first_seed(experiment, seed, repetitions)?;
        let output = if resume {
            Output::resume(&folder, PROGRAM, experiment, seed, repetitions)
                .map(|(output, ..)| output)
        } else {
            Store::results(&folder, PROGRAM).map(|(store, _)| Output::new(store))
        };
        let output = output.map_err(|error| errors::store(py, &error))?;
        let runs = Mutex::default();
        let experiment = experiment.clone();
        let new = Self { experiment, output, folder, seed, repetitions, runs };
        for place in new.places() {
            new.add_run(py, place.0, place.1)?;
        }
        let expected = new.places().map(|(point, repetition)| {
            (&new.experiment.points[point], new.seed.wrapping_add(repetition.into()))
        });
        new.output.expect(expected).map_err(|error| errors::store(py, &error))?;
        Ok(new)
    }

    fn places(&self) -> impl Iterator<Item = RunKey> {
        let repetitions = self.repetitions;
        let points = 0..self.experiment.points.len();
        points.flat_map(move |point| (0..repetitions).map(move |repetition| (point, repetition)))
    }
}

#[pymethods]
impl Collection {
    /// All runs, those that are to be made and those that are there.
    fn __len__(&self) -> usize {
        self.places().count()
    }

    /// What is still to be run, in order.
    fn missing(&self) -> Vec<RunKey> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        self.places().filter(|place| !runs.contains_key(place)).collect()
    }

    /// Takes in a run that has been brought to the folder; false if it is not there, or not whole.
    fn add_run(&self, py: Python<'_>, point: usize, repetition: u32) -> PyResult<bool> {
        let at = self.experiment.points.get(point);
        let at = at.ok_or_else(|| PyIndexError::new_err("no such point"))?;
        let (plan, _) = self
            .experiment
            .plan(at, repetition, self.seed)
            .map_err(|faults| errors::experiment(py, &faults))?;
        let run = self.output.adopt(at, repetition, &plan);
        let Some(run) = run.map_err(|error| errors::store(py, &error))? else { return Ok(false) };
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert((point, repetition), run);
        Ok(true)
    }

    /// Writes what is of all runs together, and returns those that are there. No process makes runs any
    /// more: what one that was killed has left half-written goes.
    fn finish(&self, py: Python<'_>) -> PyResult<Runs> {
        self.output.store().remove_parts().map_err(|error| errors::store(py, &error))?;
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = self.places().count();
        let missing = all - runs.len();
        let mut points: Vec<PointResult> = self
            .experiment
            .points
            .iter()
            .map(|point| PointResult { labels: point.labels.clone(), runs: Vec::new() })
            .collect();
        for ((point, _), run) in runs {
            points[point].runs.push(run);
        }
        if missing < all {
            py.detach(|| self.output.finish(&self.experiment, self.seed, &points, missing))
                .map_err(|error| errors::store(py, &error))?;
        }
        let kept = points.into_iter().map(|mut point| {
            let runs = std::mem::take(&mut point.runs);
            (point, runs)
        });
        Ok(Runs::new(&self.experiment, kept.collect(), Some(self.folder.clone())))
    }
}

/// Makes one run and writes its files, and nothing else, below `folder`; returns their names, that of
/// its record last.
///
/// # Errors
/// When the run does not come to its end, or a file cannot be written.
pub fn make_run(
    py: Python<'_>,
    (experiment, trouble): (&Experiment, &FirstException),
    point: usize,
    repetition: u32,
    seed: Option<u64>,
    folder: PathBuf,
) -> PyResult<Vec<String>> {
    trouble.clear();
    let point = experiment.points.get(point);
    let point = point.ok_or_else(|| PyIndexError::new_err("no such point"))?;
    let stop = AtomicBool::new(false);
    let work = || -> Result<Vec<String>, Error> {
        let output = Output::new(Store::create(&folder)?);
        let options = Options { seed, store: Some(output.store()), ..Options::silent(&stop) };
        let keep = |point: &_, repetition, run: &mut RunResult| {
            trouble.or_stopped()?;
            output.keep(point, repetition, run)
        };
        let run = lab::run::run_one(experiment, point, repetition, &options, &keep)?;
        Ok(run.files.into_iter().chain([lab::output::record_name(&run.name)]).collect())
    };
    let (done, stopped) = supervised(py, &stop, work, |py| trouble.check(py));
    let done = done.map_err(|panic| errors::run(py, &panic_message(&*panic)))?;
    trouble.check(py)?;
    match done {
        Ok(files) => unless_stopped(py, files, stopped),
        Err(error) => Err(crate::run::problem(py, error, stopped, "the run is not finished")),
    }
}
