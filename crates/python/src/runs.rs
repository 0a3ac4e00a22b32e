//! What runs leave behind, as tables.

use std::path::PathBuf;

use lab::output::tables;
use lab::plan::Experiment;
use lab::results::{Column, PointResult, RunResult, Series, summary_json};
use lab::store::Label;
use lab::store::table::{Table as Rows, Values};
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::run::PointRuns;
use crate::table::Table;

/// All runs of an experiment that are finished.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Runs {
    name: String,
    title: String,
    seed: u64,
    axes: Vec<String>,
    wanted: Vec<String>,
    points: Vec<PointResult>,
    /// Series and flows of some runs are here only.
    in_files: Option<PathBuf>,
}

impl Runs {
    /// The runs of an experiment.
    pub fn new(experiment: &Experiment, points: Vec<PointRuns>, in_files: Option<PathBuf>) -> Self {
        let plan = &experiment.base;
        let points = points
            .into_iter()
            .map(|(point, runs)| PointResult { labels: point.labels, runs })
            .filter(|point| !point.runs.is_empty());
        Self {
            name: plan.name.clone(),
            title: plan.title.clone(),
            seed: plan.seed,
            axes: experiment.axis_names().into_iter().map(String::from).collect(),
            wanted: plan.measure.table.clone(),
            points: points.collect(),
            in_files,
        }
    }

    fn all(&self) -> impl Iterator<Item = (&PointResult, &RunResult)> {
        self.points.iter().flat_map(|point| point.runs.iter().map(move |run| (point, run)))
    }

    /// Series and flows are kept in memory.
    fn require_in_memory(&self) -> PyResult<()> {
        match &self.in_files {
            None => Ok(()),
            Some(folder) => Err(PyLookupError::new_err(format!(
                "series and flows are not in memory; they are files in {}",
                folder.display()
            ))),
        }
    }
}

#[pymethods]
impl Runs {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    #[getter]
    fn axes(&self) -> Vec<&str> {
        self.axes.iter().map(String::as_str).collect()
    }

    fn __len__(&self) -> usize {
        self.all().count()
    }

    /// Every metric of every run.
    fn metrics(&self) -> Table {
        tables::results(&self.points).into()
    }

    /// Every metric of every point, over its repetitions.
    fn summary(&self) -> Table {
        tables::summaries(&self.points).into()
    }

    /// Every flow of every run.
    fn flows(&self) -> PyResult<Table> {
        self.require_in_memory()?;
        let each = self.all().map(|(point, run)| tables::flows(&point.labels, run));
        Ok(each.reduce(append).unwrap_or_default().into())
    }

    /// How completion times, latencies and queue delays are distributed.
    fn distributions(&self) -> Table {
        tables::distributions(&self.points).into()
    }

    /// The names of all series.
    fn series_names(&self) -> PyResult<Vec<&str>> {
        self.require_in_memory()?;
        let mut names: Vec<&str> = Vec::new();
        for (_, run) in self.all() {
            for series in &run.series {
                if !names.contains(&series.name.as_str()) {
                    names.push(&series.name);
                }
            }
        }
        Ok(names)
    }

    /// The series of that name, of all runs.
    fn series(&self, name: &str) -> PyResult<Table> {
        let names = self.series_names()?;
        if !names.contains(&name) {
            let help = lab::plan::suggest(name, names).unwrap_or_default();
            let message = format!("no series is called \"{name}\"; {help}");
            return Err(PyLookupError::new_err(message));
        }
        let each = self.all().filter_map(|(point, run)| {
            let series = run.series.iter().find(|series| series.name == name)?;
            Some(samples(series, &tables::labels(&point.labels, run.seed, series)))
        });
        Ok(each.reduce(append).unwrap_or_default().into())
    }

    /// What `ackwright run` prints: the head and the rows.
    fn report(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let axes: Vec<&str> = self.axes();
        let table = lab::report::results(&axes, &self.points, &self.wanted);
        (table.head, table.rows)
    }

    /// `summary.json`.
    fn summary_json(&self) -> String {
        format!("{:#}\n", summary_json(&self.name, &self.title, self.seed, &self.points, 0))
    }

    /// One dict a run.
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.all().map(|(point, run)| describe(py, point, run)).collect()
    }
}

fn describe<'py>(
    py: Python<'py>,
    point: &PointResult,
    run: &RunResult,
) -> PyResult<Bound<'py, PyDict>> {
    let pairs = |list: &[(String, String)]| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        list.iter().try_for_each(|(key, value)| dict.set_item(key, value))?;
        Ok(dict)
    };
    let metrics = PyDict::new(py);
    for metric in &run.metrics {
        metrics.set_item(metric.full_name(), metric.value)?;
    }
    let tc = PyDict::new(py);
    for port in &run.tc {
        tc.set_item(&port.port, &port.text)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("name", &run.name)?;
    dict.set_item("point", pairs(&point.labels)?)?;
    dict.set_item("seed", run.seed)?;
    dict.set_item("drawn", pairs(&run.drawn)?)?;
    dict.set_item("metrics", metrics)?;
    dict.set_item("tc", tc)?;
    dict.set_item("fingerprint", format!("{:016x}", run.fingerprint))?;
    dict.set_item("virtual_seconds", run.virtual_ns as f64 / 1e9)?;
    Ok(dict)
}

/// A series with its labels, as its file has them.
fn samples(series: &Series, labels: &[(String, Label)]) -> Rows {
    let count = series.time_ns.len();
    let mut table = Rows::default();
    table.push("time_ns", Values::Whole(series.time_ns.iter().copied().map(Some).collect()));
    for Column { name, values } in &series.columns {
        table.push(name, Values::Whole(values.iter().collect()));
    }
    for (name, label) in labels {
        table.push(
            name,
            match label {
                Label::Text(text) => Values::Text(vec![text.clone(); count]),
                Label::Whole(number) => Values::Whole(vec![Some(*number); count]),
            },
        );
    }
    table
}

/// The rows of both; a column that one lacks is empty there.
fn append(mut first: Rows, second: Rows) -> Rows {
    let (before, after) = (first.rows(), second.rows());
    for (name, values) in &second.columns {
        if first.columns.iter().all(|(known, _)| known != name) {
            let empty = match values {
                Values::Text(_) => Values::Text(vec![String::new(); before]),
                Values::Whole(_) => Values::Whole(vec![None; before]),
                Values::Decimal(_) => Values::Decimal(vec![None; before]),
            };
            first.push(name, empty);
        }
    }
    let mut more: Vec<(String, Values)> = second.columns;
    for (name, values) in &mut first.columns {
        let place = more.iter().position(|(known, _)| known == name);
        let of_second = place.map(|place| more.swap_remove(place).1);
        match (values, of_second) {
            (Values::Text(all), Some(Values::Text(next))) => all.extend(next),
            (Values::Whole(all), Some(Values::Whole(next))) => all.extend(next),
            (Values::Decimal(all), Some(Values::Decimal(next))) => all.extend(next),
            (Values::Text(all), _) => all.resize(before + after, String::new()),
            (Values::Whole(all), _) => all.resize(before + after, None),
            (Values::Decimal(all), _) => all.resize(before + after, None),
        }
    }
    first
}
