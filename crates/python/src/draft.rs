//! Experiments that are edited, and read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datapath::tcp::cc::GuestError;
use lab::Registry;
use lab::plan::{Diagnostics, Draft as Editable, Edit, EditKind, Experiment};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::congestion::{self, Class, FirstException};
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

/// An experiment that is being edited. Several threads may, and what Python makes of a value may edit as well: the lock is
/// never held while Python runs.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Draft(Mutex<Editing>);

#[derive(Clone)]
struct Editing {
    editable: Editable,
    classes: Vec<Named>,
}

/// A congestion control of the user's: its name, and the version of its source.
#[derive(Clone)]
struct Named {
    name: String,
    version: String,
    class: Arc<Class>,
}

/// What knows these classes, and tells their exceptions as `trouble`.
fn registry(classes: &[Named], trouble: &Arc<FirstException>) -> Result<Registry, GuestError> {
    let mut registry = Registry::default();
    for Named { name, version, class } in classes {
        let make = Arc::clone(class).maker(Arc::clone(trouble));
        registry.congestion_control(name, make)?.version(name, version);
    }
    Ok(registry)
}

impl Draft {
    fn new(editable: Editable) -> Self {
        Self(Mutex::new(Editing { editable, classes: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Editing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(
        &self,
        py: Python<'_>,
        edit: impl FnOnce(&mut Editable) -> Result<(), Diagnostics>,
    ) -> PyResult<()> {
        let done = edit(&mut self.lock().editable);
        done.map_err(|faults| errors::experiment(py, &faults))
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
        let editing = self.lock();
        let (name, text) = editing.editable.source();
        let absolute = std::fs::canonicalize(name).ok().filter(|path| path.is_file());
        let name = absolute.map_or_else(|| name.to_owned(), |path| path.display().to_string());
        let edits = editing.editable.edits().iter().map(|Edit { kind, path, value, label }| {
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
        Self(Mutex::new(self.lock().clone()))
    }

    fn set(
        &self,
        py: Python<'_>,
        path: &str,
        value: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let value = values::inline(value, label)?;
        self.edit(py, |editable| editable.set(path, &value, label))
    }

    fn sweep(
        &self,
        py: Python<'_>,
        axis: &str,
        steps: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let steps = values::inline(steps, label)?;
        self.edit(py, |editable| editable.sweep(axis, &steps, label))
    }

    fn draw(
        &self,
        py: Python<'_>,
        path: &str,
        from: &Bound<'_, PyAny>,
        label: &str,
    ) -> PyResult<()> {
        let from = values::inline(from, label)?;
        self.edit(py, |editable| editable.draw(path, &from, label))
    }

    /// The value at a path in a tuple of one; empty if there is none.
    fn get<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let found = self.lock().editable.get(path);
        found.map(|json| Ok((values::from_json(py, &json)?,))).transpose()
    }

    fn remove(&self, path: &str) -> bool {
        self.lock().editable.remove(path)
    }

    /// Reads and checks the whole.
    fn finish(&self, py: Python<'_>) -> PyResult<Checked> {
        let Editing { editable, classes } = self.lock().clone();
        // Of each run its own: several may go on, of copies or of one experiment.
        let trouble = Arc::default();
        let known = registry(&classes, &trouble).expect("names were tried when they were given");
        let done = py.detach(|| {
            let experiment = editable.with(&known).finish()?;
            experiment.check_names()?;
            Ok(experiment)
        });
        done.map(|experiment| Checked { experiment, trouble })
            .map_err(|faults| errors::experiment(py, &faults))
    }

    /// A class becomes a congestion control of that name.
    fn congestion_control(
        &self,
        name: &str,
        class: &Bound<'_, PyAny>,
        version: &str,
    ) -> PyResult<()> {
        let class = Arc::new(congestion::read(class)?);
        let new = Named { name: name.to_owned(), version: version.to_owned(), class };
        let mut editing = self.lock();
        editing.classes.push(new);
        registry(&editing.classes, &Arc::default()).map(drop).map_err(|error| {
            editing.classes.pop();
            PyValueError::new_err(error.to_string())
        })
    }
}

/// An experiment that has been read.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Checked {
    experiment: Experiment,
    trouble: Arc<FirstException>,
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
            crate::run::RunRequest { seed, repetitions, jobs, threads, out, resume, keep, view };
        crate::run::run(py, &self.experiment, &self.trouble, &wanted, progress.as_ref())
    }
}
