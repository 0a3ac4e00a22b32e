//! Tables, handed out as Arrow streams.

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use lab::store::table::{Table as Rows, Values};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::slice::PySliceIndices;
use pyo3::types::{PyCapsule, PyDict, PySlice};

/// Rows and columns; `python/ackwright/_native.pyi` says what its methods do.
#[pyclass(frozen, module = "ackwright")]
pub struct Table(Rows);

/// Columns as they go to another process: name, kind, values.
type Columns<'py> = Vec<(String, &'static str, Bound<'py, PyAny>)>;

impl From<Rows> for Table {
    fn from(rows: Rows) -> Self {
        Self(rows)
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.0.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(name) = key.extract::<String>() {
            return match self.column(&name)? {
                Values::Text(values) => values.into_pyobject(py),
                Values::Whole(values) => values.into_pyobject(py),
                Values::Decimal(values) => values.into_pyobject(py),
            };
        }
        let rows = self.0.rows() as isize;
        if let Ok(slice) = key.cast::<PySlice>() {
            let PySliceIndices { start, step, slicelength, .. } = slice.indices(rows)?;
            let places: Vec<usize> =
                (0..slicelength as isize).map(|at| (start + at * step) as usize).collect();
            return Ok(Bound::new(py, self.picked(&places))?.into_any());
        }
        let place: isize = key.extract().map_err(|_| {
            let kind = key.get_type();
            let text = format!("a {kind} is neither a column's name nor a row's number or a slice");
            PyTypeError::new_err(text)
        })?;
        let place = if place < 0 { place + rows } else { place };
        if place < 0 || place >= rows {
            return Err(PyIndexError::new_err(format!("there are {rows} rows")));
        }
        Ok(self.row(py, place as usize)?.into_any())
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        (0..self.0.rows()).map(|row| self.row(py, row)).collect()
    }

    fn select(&self, column: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let wanted = self.column(column)?;
        let fits: Vec<bool> = match wanted {
            Values::Text(values) => {
                let text: String = value.str()?.extract()?;
                values.iter().map(|one| *one == text).collect()
            }
            Values::Whole(values) => {
                let number: Option<i64> = value.extract()?;
                values.iter().map(|one| *one == number).collect()
            }
            Values::Decimal(values) => {
                let number: Option<f64> = value.extract()?;
                values.iter().map(|one| *one == number).collect()
            }
        };
        let places = fits.iter().enumerate().filter(|(_, fits)| **fits).map(|(at, _)| at);
        Ok(self.picked(&places.collect::<Vec<_>>()))
    }

    /// The table of what [`__reduce__`](Self::__reduce__) says.
    #[staticmethod]
    fn of_columns(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut table = Rows::default();
        for (name, kind, values) in columns {
            let rows = values.len()?;
            let values = match kind.as_str() {
                "text" => Values::Text(values.extract()?),
                "whole" => Values::Whole(values.extract()?),
                "decimal" => Values::Decimal(values.extract()?),
                _ => {
                    return Err(PyRuntimeError::new_err(format!("unknown kind of column: {kind}")));
                }
            };
            if !table.columns.is_empty() && rows != table.rows() {
                let text =
                    format!("{name}: {rows} values, but other columns have {}", table.rows());
                return Err(PyRuntimeError::new_err(text));
            }
            table.push(&name, values);
        }
        Ok(Self(table))
    }

    /// For `pickle` and `copy`.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Columns<'py>,))> {
        let column = |(name, values): &(String, Values)| {
            let (kind, list) = match values {
                Values::Text(values) => ("text", values.into_pyobject(py)?),
                Values::Whole(values) => ("whole", values.into_pyobject(py)?),
                Values::Decimal(values) => ("decimal", values.into_pyobject(py)?),
            };
            Ok((name.clone(), kind, list))
        };
        let columns = self.0.columns.iter().map(column).collect::<PyResult<_>>()?;
        let again = py.import("ackwright.results")?.getattr("_table_again")?;
        Ok((again, (columns,)))
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.0.rows(), self.columns().join(", "))
    }

    fn to_pandas(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("ackwright.results")?.getattr("_pandas_of")?.call1((slf,))
    }

    fn to_polars(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("ackwright.results")?.getattr("_polars_of")?.call1((slf,))
    }

    fn csv(&self) -> PyResult<String> {
        let bytes = self.0.csv()?;
        String::from_utf8(bytes).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    fn parquet(&self) -> PyResult<Vec<u8>> {
        self.0.parquet().map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// The Arrow PyCapsule interface. What is asked for is a wish that need not be met.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batch = batch(&self.0).map_err(arrow)?;
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(schema(&self.0)).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

impl Table {
    /// Those rows.
    fn picked(&self, places: &[usize]) -> Self {
        fn those<T: Clone>(values: &[T], places: &[usize]) -> Vec<T> {
            places.iter().map(|at| values[*at].clone()).collect()
        }
        let mut table = Rows::default();
        for (name, values) in &self.0.columns {
            let values = match values {
                Values::Text(values) => Values::Text(those(values, places)),
                Values::Whole(values) => Values::Whole(those(values, places)),
                Values::Decimal(values) => Values::Decimal(those(values, places)),
            };
            table.push(name, values);
        }
        Self(table)
    }

    fn column(&self, name: &str) -> PyResult<&Values> {
        let found = self.0.columns.iter().find(|(known, _)| known == name);
        found.map(|(_, values)| values).ok_or_else(|| {
            let help = lab::plan::suggest(name, self.columns()).unwrap_or_default();
            PyKeyError::new_err(format!("no column is called \"{name}\"; {help}"))
        })
    }

    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, values) in &self.0.columns {
            match values {
                Values::Text(values) => dict.set_item(name, &values[row])?,
                Values::Whole(values) => dict.set_item(name, values[row])?,
                Values::Decimal(values) => dict.set_item(name, values[row])?,
            }
        }
        Ok(dict)
    }
}

fn schema(rows: &Rows) -> Schema {
    let field = |(name, values): &(String, Values)| match values {
        Values::Text(_) => Field::new(name, DataType::Utf8, false),
        Values::Whole(_) => Field::new(name, DataType::Int64, true),
        Values::Decimal(_) => Field::new(name, DataType::Float64, true),
    };
    Schema::new(rows.columns.iter().map(field).collect::<Vec<_>>())
}

fn batch(rows: &Rows) -> Result<RecordBatch, ArrowError> {
    let column = |(_, values): &(String, Values)| -> ArrayRef {
        match values {
            Values::Text(values) => Arc::new(StringArray::from_iter_values(values)),
            Values::Whole(values) => Arc::new(Int64Array::from(values.clone())),
            Values::Decimal(values) => Arc::new(Float64Array::from(values.clone())),
        }
    };
    RecordBatch::try_new(Arc::new(schema(rows)), rows.columns.iter().map(column).collect())
}

fn arrow(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
