//! Experiments that are edited, and read.

use std::path::PathBuf;
use std::sync::Arc;

use lab::Registry;
use lab::plan::{Draft as Editable, Edit, EditKind, Experiment};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::congestion::{self, Trouble};
use crate::{errors, values};

/// What [`Draft::state`] says.
type State = (String, String, Vec<(String, String, String, String)>);

/// Edits, as they are called between processes.
const KINDS: [(&str, EditKind); 4] = [
    ("set", EditKind::Set),
    ("sweep", EditKind::Sweep),
    ("draw", EditKind::Draw),
    ("remove", EditKind::Remove),
];

/// An experiment that is being edited.
#[pyclass(module = "ackwright._native")]
#[derive(Clone)]
pub struct Draft {
    editable: Editable,
    registry: Registry,
    /// What the classes of the registry have raised.
    trouble: Arc<Trouble>,
}

impl Draft {
    fn new(editable: Editable) -> Self {
        Self { editable, registry: Registry::default(), trouble: Arc::default() }
    }
}

#[pymethods]
impl Draft {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Editable::load(&path).map(Self::new).map_err(|error| errors::plan(py, error))
    }

    #[staticmethod]
    fn parse(py: Python<'_>, name: &str, text: &str) -> PyResult<Self> {
        Editable::parse(name, text).map(Self::new).map_err(|faults| errors::experiment(py, &faults))
    }

    /// All that makes it, for another process: name, text, and edits, each of kind, path, value and
    /// label. The name of a file becomes absolute, so that files beside it are found from anywhere.
    fn state(&self) -> State {
        let (name, text) = self.editable.source();
        let absolute = std::fs::canonicalize(name).ok().filter(|path| path.is_file());
        let name = absolute.map_or_else(|| name.to_owned(), |path| path.display().to_string());
        let edits = self.editable.edits().iter().map(|Edit { kind, path, value, label }| {
            let kind = KINDS.iter().find(|(_, it)| it == kind).map_or("", |(word, _)| *word);
            (kind.to_owned(), path.clone(), value.clone(), label.clone())
        });
        (name, text.to_owned(), edits.collect())
    }

    /// The same from what [`state`](Self::state) said.
    #[staticmethod]
    fn of_state(py: Python<'_>, state: State) -> PyResult<Self> {
        let (name, text, edits) = state;
        let failed = |faults| errors::experiment(py, &faults);
        let mut draft = Editable::parse(&name, &text).map_err(failed)?;
        for (kind, path, value, label) in edits {
            let known = KINDS.iter().find(|(word, _)| *word == kind);
            let &(_, kind) = known.ok_or_else(|| PyValueError::new_err("no such edit"))?;
            draft.edit(&Edit { kind, path, value, label }).map_err(failed)?;
        }
        Ok(Self::new(draft))
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
        self.editable.set(path, &value, label).map_err(|faults| errors::experiment(py, &faults))
    }

    fn sweep(
        &mut self,
        py: Python<'_>,
        axis: &str,
        steps: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let steps = values::inline(steps)?;
        self.editable.sweep(axis, &steps, label).map_err(|faults| errors::experiment(py, &faults))
    }

    fn draw(
        &mut self,
        py: Python<'_>,
        path: &str,
        from: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let from = values::inline(from)?;
        self.editable.draw(path, &from, label).map_err(|faults| errors::experiment(py, &faults))
    }

    /// The value at a path in a tuple of one; empty if there is none.
    fn get<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        self.editable.get(path).map(|json| Ok((values::from_json(py, &json)?,))).transpose()
    }

    fn remove(&mut self, path: &str) -> bool {
        self.editable.remove(path)
    }

    /// Reads and checks the whole.
    fn finish(&self, py: Python<'_>) -> PyResult<Checked> {
        let done = py.detach(|| {
            let experiment = self.editable.clone().with(&self.registry).finish()?;
            experiment.check_names()?;
            Ok(experiment)
        });
        let trouble = Arc::clone(&self.trouble);
        done.map(|experiment| Checked { experiment, trouble })
            .map_err(|faults| errors::experiment(py, &faults))
    }

    /// A class becomes a congestion control of that name.
    fn congestion_control(
        &mut self,
        name: &str,
        class: &Bound<'_, PyAny>,
        version: &str,
    ) -> PyResult<()> {
        let Self { registry, trouble, .. } = self;
        congestion::register(registry, trouble, name, class)?;
        registry.version(name, version);
        Ok(())
    }
}

/// An experiment that has been read.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Checked {
    experiment: Experiment,
    trouble: Arc<Trouble>,
}

#[pymethods]
impl Checked {
    #[getter]
    fn name(&self) -> &str {
        &self.experiment.base.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.experiment.base.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.experiment.base.seed
    }

    #[getter]
    fn repetitions(&self) -> u32 {
        self.experiment.base.repetitions
    }

    #[getter]
    fn duration(&self) -> f64 {
        self.experiment.base.duration.as_nanos() as f64 / 1e9
    }

    #[getter]
    fn axes(&self) -> Vec<&str> {
        self.experiment.axis_names()
    }

    /// (axis, label) of each point.
    #[getter]
    fn points(&self) -> Vec<Vec<(String, String)>> {
        self.experiment.points.iter().map(|point| point.labels.clone()).collect()
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
        crate::run::explain(py, &self.experiment, &self.trouble, flow, point, seed)
    }

    /// A folder that fills with runs which other processes make.
    fn collect(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        repetitions: Option<u32>,
        out: PathBuf,
        resume: bool,
    ) -> PyResult<crate::collect::Collection> {
        crate::collect::Collection::begin(py, &self.experiment, seed, repetitions, out, resume)
    }

    /// Makes one run and writes its files below `out`: their names, the record's last.
    fn make_run(
        &self,
        py: Python<'_>,
        point: usize,
        repetition: u32,
        seed: Option<u64>,
        out: PathBuf,
    ) -> PyResult<Vec<String>> {
        crate::collect::make_run(
            py,
            (&self.experiment, &self.trouble),
            point,
            repetition,
            seed,
            out,
        )
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
        view: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(crate::runs::Runs, Option<Py<PyAny>>)> {
        let wanted =
            crate::run::Wanted { seed, repetitions, jobs, threads, out, resume, keep, view };
        crate::run::run(py, &self.experiment, &self.trouble, &wanted, progress.as_ref())
    }
}
