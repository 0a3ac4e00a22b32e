//! Python's values as TOML, and JSON as Python's values.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString,
};
use serde_json::Value as Json;
use toml::Value as Toml;

/// How deep values may lie in each other.
const DEPTH_MAX: usize = 32;

/// Why a value is refused.
enum ValueFault {
    /// Where it lies (keys, the outermost last), and what it is.
    Ours { path: Vec<String>, class: fn(String) -> PyErr, message: String },
    /// What the value itself has raised.
    Theirs(PyErr),
}

impl From<PyErr> for ValueFault {
    fn from(error: PyErr) -> Self {
        Self::Theirs(error)
    }
}

impl ValueFault {
    fn new(class: fn(String) -> PyErr, message: impl Into<String>) -> Self {
        Self::Ours { path: Vec::new(), class, message: message.into() }
    }

    /// It lies behind that key.
    fn under_key(mut self, key: &str) -> Self {
        if let Self::Ours { path, .. } = &mut self {
            path.push(key.to_owned());
        }
        self
    }

    fn raised(self) -> PyErr {
        match self {
            Self::Theirs(error) => error,
            Self::Ours { path, class, message } if path.is_empty() => class(message),
            Self::Ours { mut path, class, message } => {
                path.reverse();
                class(format!("{}: {message}", path.join(".")))
            }
        }
    }
}

/// A value of an experiment as it stands behind a `=`: texts, numbers, truth values, lists and
/// mappings of them. Mappings keep their order, which a `toml::Table` would not. `label` is what brings it in.
///
/// # Errors
/// When it is something else.
pub fn inline(value: &Bound<'_, PyAny>, label: &str) -> PyResult<String> {
    nested(value, 0).map_err(|wrong| wrong.under_key(label).raised())
}

/// The document of a mapping: a line or a section for each entry, so that messages show a place.
///
/// # Errors
/// As of [`inline`].
pub fn document(value: &Bound<'_, PyAny>) -> PyResult<String> {
    sections(value).map_err(ValueFault::raised)
}

fn sections(value: &Bound<'_, PyAny>) -> Result<String, ValueFault> {
    let entries = entries(value.cast::<PyMapping>().map_err(PyErr::from)?)?;
    let (tables, lines): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, item)| item.cast::<PyMapping>().is_ok());
    let mut text = String::new();
    write_lines(&mut text, lines)?;
    for (name, table) in tables {
        let entries = self::entries(table.cast::<PyMapping>().map_err(PyErr::from)?)?;
        let of_tables = |entry: &(String, Bound<'_, PyAny>)| entry.1.cast::<PyMapping>().is_ok();
        if entries.is_empty() || !entries.iter().all(of_tables) {
            text.extend(["\n[", &name, "]\n"]);
            write_lines(&mut text, entries).map_err(|wrong| wrong.under_key(&name))?;
            continue;
        }
        for (below, table) in entries {
            text.extend(["\n[", &name, ".", &below, "]\n"]);
            let lines = self::entries(table.cast::<PyMapping>().map_err(PyErr::from)?)?;
            let written = write_lines(&mut text, lines);
            written.map_err(|wrong| wrong.under_key(&below).under_key(&name))?;
        }
    }
    Ok(text)
}

fn write_lines(
    text: &mut String,
    entries: Vec<(String, Bound<'_, PyAny>)>,
) -> Result<(), ValueFault> {
    for (key, item) in entries {
        let value = nested(&item, 1).map_err(|wrong| wrong.under_key(&key))?;
        text.extend([&key, " = ", &value, "\n"]);
    }
    Ok(())
}

/// Keys, quoted where they must be, and values.
fn entries<'py>(mapping: &Bound<'py, PyMapping>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let mut all = Vec::new();
    for pair in mapping.items()? {
        let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        let key: String = key.str()?.extract()?;
        let fits = !key.is_empty() && key.chars().all(bare);
        all.push((if fits { key } else { Toml::String(key).to_string() }, item));
    }
    Ok(all)
}

fn nested(value: &Bound<'_, PyAny>, depth: usize) -> Result<String, ValueFault> {
    if depth > DEPTH_MAX {
        let message = "values are nested too deeply, or contain themselves";
        return Err(ValueFault::new(PyValueError::new_err, message));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Toml::String(text.extract()?).to_string());
    }
    // A truth value is an int too in Python.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(truth.is_true().to_string());
    }
    if value.cast::<PyInt>().is_ok() {
        return integer(value);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return decimal(number.extract()?);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let each = |(key, item): (String, Bound<'_, PyAny>)| {
            let value = nested(&item, depth + 1).map_err(|wrong| wrong.under_key(&key))?;
            Ok(format!("{key} = {value}"))
        };
        let items = entries(mapping)?.into_iter().map(each);
        return Ok(format!(
            "{{ {} }}",
            items.collect::<Result<Vec<String>, ValueFault>>()?.join(", ")
        ));
    }
    let is_bytes = value.cast::<PyBytes>().is_ok() || value.cast::<PyByteArray>().is_ok();
    if !is_bytes && let Ok(sequence) = value.cast::<PySequence>() {
        let items = sequence.try_iter()?.map(|item| nested(&item?, depth + 1));
        return Ok(format!("[{}]", items.collect::<Result<Vec<String>, ValueFault>>()?.join(", ")));
    }
    // Arrays of numpy and what is like them, which are no sequences to Python.
    if value.hasattr("__array__")? && value.hasattr("tolist")? {
        return nested(&value.call_method0("tolist")?, depth + 1);
    }
    // Other numbers, paths.
    if let Ok(number) = value.call_method0("__index__") {
        return integer(&number);
    }
    if value.hasattr("__fspath__")? {
        return Ok(Toml::String(value.str()?.extract()?).to_string());
    }
    if let Ok(number) = value.call_method0("__float__") {
        return decimal(number.extract()?);
    }
    let kind = value.get_type().name()?;
    let message = format!(
        "a {kind} is not a value of an experiment: use text, numbers, booleans, lists and dicts"
    );
    Err(ValueFault::new(PyTypeError::new_err, message))
}

fn integer(number: &Bound<'_, PyAny>) -> Result<String, ValueFault> {
    let too_large = |_| {
        let message = "an integer of an experiment must fit in 64 bits, signed";
        ValueFault::new(PyOverflowError::new_err, message)
    };
    number.extract::<i64>().map(|number| number.to_string()).map_err(too_large)
}

fn decimal(number: f64) -> Result<String, ValueFault> {
    if !number.is_finite() {
        let message = format!("{number} is not a value of an experiment: numbers must be finite");
        return Err(ValueFault::new(PyValueError::new_err, message));
    }
    Ok(Toml::Float(number).to_string())
}

/// JSON as Python has it.
///
/// # Errors
/// When memory is short.
pub fn from_json<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match json {
        Json::Null => py.None().into_bound(py),
        Json::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            _ => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Json::String(text) => PyString::new(py, text).into_any(),
        Json::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(from_json(py, item)?)?;
            }
            list.into_any()
        }
        Json::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, item) in entries {
                dict.set_item(key, from_json(py, item)?)?;
            }
            dict.into_any()
        }
    })
}
