//! Python's values as TOML, and JSON as Python's values.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use serde_json::Value as Json;
use toml::Value as Toml;

/// How deep values may lie in each other.
const DEPTH_MAX: usize = 32;

/// A value of an experiment: texts, numbers, truth values, lists and mappings of them.
///
/// # Errors
/// When it is something else.
pub fn to_toml(value: &Bound<'_, PyAny>) -> PyResult<Toml> {
    convert(value, 0)
}

fn convert(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Toml> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err("values lie too deep in each other, or in themselves"));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Toml::String(text.extract()?));
    }
    // A truth value is an int too in Python.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Toml::Boolean(truth.is_true()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return Ok(Toml::Integer(number.extract()?));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Toml::Float(number.extract()?));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut table = toml::Table::new();
        for pair in mapping.items()? {
            let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            table.insert(key.str()?.extract()?, convert(&item, depth + 1)?);
        }
        return Ok(Toml::Table(table));
    }
    if let Ok(sequence) = value.cast::<PySequence>() {
        let items = sequence.try_iter()?.map(|item| convert(&item?, depth + 1));
        return Ok(Toml::Array(items.collect::<PyResult<_>>()?));
    }
    // Numbers of numpy, paths.
    if let Ok(number) = value.call_method0("__index__") {
        return Ok(Toml::Integer(number.extract()?));
    }
    if value.hasattr("__fspath__")? {
        return Ok(Toml::String(value.str()?.extract()?));
    }
    if let Ok(number) = value.call_method0("__float__") {
        return Ok(Toml::Float(number.extract()?));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a {kind} is no value of an experiment: use text, numbers, booleans, lists and dicts"
    )))
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
