//! Time series as Parquet: `time_ns` and the series' columns, all 64-bit integers, and columns that
//! say in each row the same: point, seed, and the flow or port.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::types::Type;

use super::table;
use crate::results::{Column, Series};

/// What stands in every row of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A text.
    Text(String),
    /// A number.
    Whole(i64),
}

/// The name of the column of times.
const TIME: &str = "time_ns";
/// The name of the column of seeds, the one label that is a number.
pub const SEED: &str = "seed";

/// The bytes of a Parquet file.
pub fn parquet_bytes(series: &Series, labels: &[(String, Label)]) -> Result<Vec<u8>> {
    let mut fields = vec![field(TIME, PhysicalType::INT64, Repetition::REQUIRED)?];
    for column in &series.columns {
        fields.push(field(&column.name, PhysicalType::INT64, Repetition::OPTIONAL)?);
    }
    for (name, label) in labels {
        let physical = match label {
            Label::Text(_) => PhysicalType::BYTE_ARRAY,
            Label::Whole(_) => PhysicalType::INT64,
        };
        fields.push(field(name, physical, Repetition::REQUIRED)?);
    }
    let rows = series.time_ns.len();
    table::file("samples", fields, |group| {
        table::column::<Int64Type>(group, &series.time_ns, None)?;
        for column in &series.columns {
            table::optional::<Int64Type>(group, column.values.iter())?;
        }
        labels.iter().try_for_each(|(_, label)| match label {
            Label::Text(text) => {
                let same = vec![ByteArray::from(text.as_str()); rows];
                table::column::<ByteArrayType>(group, &same, None)
            }
            Label::Whole(number) => table::column::<Int64Type>(group, &vec![*number; rows], None),
        })
    })
}

/// The series called `name` in a file, without its labels.
pub fn read(file: File, name: &str) -> Result<Series> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut series = Series { name: name.into(), time_ns: Vec::new(), columns: Vec::new() };
    for place in 0..schema.num_columns() {
        let column = schema.column(place);
        if column.physical_type() != PhysicalType::INT64 || column.name() == SEED {
            continue;
        }
        let mut values: Vec<Option<i64>> = Vec::new();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            let rows = group.metadata().num_rows() as usize;
            let ColumnReader::Int64ColumnReader(mut column) = group.get_column_reader(place)?
            else {
                return Err(ParquetError::General("not a column of whole numbers".into()));
            };
            let (mut levels, mut present) = (Vec::new(), Vec::new());
            column.read_records(rows, Some(&mut levels), None, &mut present)?;
            let mut present = present.into_iter();
            if levels.is_empty() {
                values.extend(present.map(Some));
            } else {
                // A value is there where its level says so.
                values.extend(
                    levels.iter().map(|level| if *level > 0 { present.next() } else { None }),
                );
            }
        }
        if column.name() == TIME {
            series.time_ns = values.into_iter().flatten().collect();
        } else {
            series.columns.push(Column { name: column.name().into(), values: values.into() });
        }
    }
    Ok(series)
}

fn field(name: &str, physical: PhysicalType, repetition: Repetition) -> Result<Arc<Type>> {
    let is_text = physical == PhysicalType::BYTE_ARRAY;
    let built = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(is_text.then_some(LogicalType::String))
        .build()?;
    Ok(Arc::new(built))
}
