//! Python's values as TOML, and JSON as Python's values.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use serde_json::Value as Json;
use toml::Value as Toml;

/// How deep values may lie in each other.
const DEPTH_MAX: usize = 32;

/// A value of an experiment as it stands behind a `=`: texts, numbers, truth values, lists and
/// mappings of them. Mappings keep their order, which a `toml::Table` would not.
///
/// # Errors
/// When it is something else.
pub fn inline(value: &Bound<'_, PyAny>) -> PyResult<String> {
    nested(value, 0)
}

/// The document of a mapping: a line or a section for each entry, so that messages show a place.
///
/// # Errors
/// As of [`inline`].
pub fn document(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let entries = entries(value.cast::<PyMapping>()?)?;
    let (tables, lines): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, item)| item.cast::<PyMapping>().is_ok());
    let mut text = String::new();
    write_lines(&mut text, lines)?;
    for (name, table) in tables {
        let entries = self::entries(table.cast::<PyMapping>()?)?;
        let of_tables = |entry: &(String, Bound<'_, PyAny>)| entry.1.cast::<PyMapping>().is_ok();
        if entries.is_empty() || !entries.iter().all(of_tables) {
            text.extend(["\n[", &name, "]\n"]);
            write_lines(&mut text, entries)?;
            continue;
        }
        for (below, table) in entries {
            text.extend(["\n[", &name, ".", &below, "]\n"]);
            write_lines(&mut text, self::entries(table.cast::<PyMapping>()?)?)?;
        }
    }
    Ok(text)
}

fn write_lines(text: &mut String, entries: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
    for (key, item) in entries {
        text.extend([&key, " = ", &nested(&item, 1)?, "\n"]);
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

fn nested(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err("values lie too deep in each other, or in themselves"));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Toml::String(text.extract()?).to_string());
    }
    // A truth value is an int too in Python.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(truth.is_true().to_string());
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return Ok(number.extract::<i64>()?.to_string());
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Toml::Float(number.extract()?).to_string());
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let each = |(key, item)| Ok(format!("{key} = {}", nested(&item, depth + 1)?));
        let items = entries(mapping)?.into_iter().map(each).collect::<PyResult<Vec<String>>>()?;
        return Ok(format!("{{ {} }}", items.join(", ")));
    }
    if let Ok(sequence) = value.cast::<PySequence>() {
        let items = sequence.try_iter()?.map(|item| nested(&item?, depth + 1));
        return Ok(format!("[{}]", items.collect::<PyResult<Vec<String>>>()?.join(", ")));
    }
    // Numbers of numpy, paths.
    if let Ok(number) = value.call_method0("__index__") {
        return Ok(number.extract::<i64>()?.to_string());
    }
    if value.hasattr("__fspath__")? {
        return Ok(Toml::String(value.str()?.extract()?).to_string());
    }
    if let Ok(number) = value.call_method0("__float__") {
        return Ok(Toml::Float(number.extract()?).to_string());
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
