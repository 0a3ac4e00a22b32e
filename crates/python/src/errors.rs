//! Our errors as the exceptions of `ackwright.errors`.

use lab::plan::{Diagnostic, Diagnostics, Error as PlanError};
use lab::store;
use pyo3::prelude::*;

/// One fault: file, line, column, message, help, the line's text.
type Fault = (String, Option<usize>, Option<usize>, String, Option<String>, Option<String>);

fn raise<'py, A>(py: Python<'py>, class: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let made = py
        .import("ackwright.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// `ExperimentError`: what is wrong with an experiment, and where.
pub fn experiment(py: Python<'_>, faults: &Diagnostics) -> PyErr {
    let fault = |one: &Diagnostic| -> Fault {
        let (line, column) = one.position.unzip();
        let Diagnostic { source, message, help, line_text, .. } = one.clone();
        (source, line, column, message, help, line_text)
    };
    let list: Vec<Fault> = faults.0.iter().map(fault).collect();
    raise(py, "ExperimentError", (faults.to_string(), list))
}

/// `ExperimentError` of one place in a text.
pub fn at(py: Python<'_>, file: &str, place: Option<(usize, usize)>, message: &str) -> PyErr {
    let fault = Diagnostic {
        source: file.into(),
        position: place,
        message: message.into(),
        help: None,
        line_text: None,
    };
    experiment(py, &Diagnostics(vec![fault]))
}

/// Of an experiment that cannot be read.
pub fn plan(py: Python<'_>, error: PlanError) -> PyErr {
    match error {
        PlanError::Invalid(faults) => experiment(py, &faults),
        PlanError::Io { path, problem } => io(py, &path, &problem),
    }
}

/// `OSError` as Python's own: by its number one of the subclasses.
pub fn io(py: Python<'_>, path: &str, problem: &std::io::Error) -> PyErr {
    let class = py.get_type::<pyo3::exceptions::PyOSError>();
    let text = problem.to_string();
    let made = match problem.raw_os_error() {
        Some(number) => {
            let text = text.split(" (os error").next().unwrap_or_default();
            class.call1((number, text, path))
        }
        None => class.call1((format!("{path}: {text}"),)),
    };
    made.map_or_else(|error| error, PyErr::from_value)
}

/// `OutputError`: a file that could not be written.
pub fn store(py: Python<'_>, error: &store::Error) -> PyErr {
    let arguments =
        (error.to_string(), error.problem.raw_os_error(), error.path.display().to_string());
    raise(py, "OutputError", arguments)
}

/// `RunError`: an experiment that did not come to its end.
pub fn run(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "RunError", (message,))
}

/// `Interrupted`: Ctrl-C while something ran.
pub fn interrupted(py: Python<'_>, message: &str) -> PyErr {
    raise(py, "Interrupted", (message,))
}
