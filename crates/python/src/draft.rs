//! Experiments that are edited, and read.

use std::path::PathBuf;

use lab::plan::{Draft as Editable, Experiment};
use pyo3::prelude::*;

use crate::{errors, values};

/// An experiment that is being edited.
#[pyclass(module = "ackwright._native")]
#[derive(Clone)]
pub struct Draft(Editable);

#[pymethods]
impl Draft {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Editable::load(&path).map(Self).map_err(|error| errors::plan(py, error))
    }

    #[staticmethod]
    fn parse(py: Python<'_>, name: &str, text: &str) -> PyResult<Self> {
        Editable::parse(name, text).map(Self).map_err(|faults| errors::experiment(py, &faults))
    }

    /// The TOML of a mapping.
    #[staticmethod]
    fn toml_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
        values::document(value)
    }

    fn copy(&self) -> Self {
        self.clone()
    }

    fn set(
        &mut self,
        py: Python<'_>,
        path: &str,
        value: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let value = values::inline(value)?;
        self.0.set(path, &value, label).map_err(|faults| errors::experiment(py, &faults))
    }

    fn sweep(
        &mut self,
        py: Python<'_>,
        axis: &str,
        steps: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let steps = values::inline(steps)?;
        self.0.sweep(axis, &steps, label).map_err(|faults| errors::experiment(py, &faults))
    }

    fn draw(
        &mut self,
        py: Python<'_>,
        path: &str,
        from: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let from = values::inline(from)?;
        self.0.draw(path, &from, label).map_err(|faults| errors::experiment(py, &faults))
    }

    /// The value at a path in a tuple of one; empty if there is none.
    fn get<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        self.0.get(path).map(|json| Ok((values::from_json(py, &json)?,))).transpose()
    }

    fn remove(&mut self, path: &str) -> bool {
        self.0.remove(path)
    }

    /// Reads and checks the whole.
    fn finish(&self, py: Python<'_>) -> PyResult<Checked> {
        let done = py.detach(|| {
            let experiment = self.0.finish()?;
            experiment.check_metrics()?;
            Ok(experiment)
        });
        done.map(Checked).map_err(|faults| errors::experiment(py, &faults))
    }
}

/// An experiment that has been read.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Checked(pub(crate) Experiment);

#[pymethods]
impl Checked {
    #[getter]
    fn name(&self) -> &str {
        &self.0.base.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.0.base.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.base.seed
    }

    #[getter]
    fn repetitions(&self) -> u32 {
        self.0.base.repetitions
    }

    #[getter]
    fn duration(&self) -> f64 {
        self.0.base.duration.as_nanos() as f64 / 1e9
    }

    #[getter]
    fn axes(&self) -> Vec<&str> {
        self.0.axis_names()
    }

    /// (axis, label) of each point.
    #[getter]
    fn points(&self) -> Vec<Vec<(String, String)>> {
        self.0.points.iter().map(|point| point.labels.clone()).collect()
    }

    /// What happened to one flow in the first repetition of a point.
    #[pyo3(signature = (flow, point, seed))]
    fn explain(
        &self,
        py: Python<'_>,
        flow: &str,
        point: usize,
        seed: Option<u64>,
    ) -> PyResult<String> {
        crate::run::explain(py, &self.0, flow, point, seed)
    }

    /// Runs everything: what came out, and why it is not all, if so.
    #[expect(clippy::too_many_arguments, reason = "the words of `ackwright run`")]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        repetitions: Option<u32>,
        jobs: usize,
        threads: usize,
        out: Option<PathBuf>,
        resume: bool,
        keep: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(crate::runs::Runs, Option<Py<PyAny>>)> {
        let wanted = crate::run::Wanted { seed, repetitions, jobs, threads, out, resume, keep };
        crate::run::run(py, &self.0, &wanted, progress.as_ref())
    }
}
