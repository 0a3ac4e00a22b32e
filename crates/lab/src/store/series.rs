//! Time series as Parquet: `time_ns` and the series' columns, all 64-bit integers, and columns that
//! say in each row the same: point, seed, and the flow or port.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterPropertiesPtr};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, ColumnPath, SchemaDescriptor, Type};

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
    let properties = properties(series);
    let schema = table::schema("samples", fields)?;
    let columns = SchemaDescriptor::new(Arc::clone(&schema));
    let first_label = 1 + series.columns.len();
    table::file(schema, Arc::clone(&properties), |group| {
        same(
            group,
            &columns.column(0),
            &properties,
            SharedColumn::Times(Cow::Borrowed(&series.time_ns)),
        )?;
        let (mut known, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for column in &series.columns {
            column.values.split(&mut known, &mut levels);
            table::column::<Int64Type>(group, &known, Some(&levels))?;
            known.clear();
            levels.clear();
        }
        (first_label..).zip(labels).try_for_each(|(place, (_, label))| {
            same(
                group,
                &columns.column(place),
                &properties,
                SharedColumn::Label(Cow::Borrowed(label), rows),
            )
        })
    })
}

/// How columns are written. A file is one group of rows, of which the least and the largest of a column tell nothing that a
/// look would not. Times and what is measured change little from one sample to the next, and have many values: differences
/// take less time and room than a dictionary, which labels have.
fn properties(series: &Series) -> WriterPropertiesPtr {
    let general = table::properties().set_statistics_enabled(EnabledStatistics::None);
    let names = series.columns.iter().map(|column| &*column.name);
    let properties = names.chain([TIME]).fold(general, |properties, name| {
        let path = ColumnPath::from(name);
        properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
    });
    Arc::new(properties.build())
}

/// A column that may be the same in many files.
#[derive(PartialEq)]
enum SharedColumn<'a> {
    Times(Cow<'a, [i64]>),
    /// In so many rows.
    Label(Cow<'a, Label>, usize),
}

/// An encoded column.
struct EncodedColumn {
    what: SharedColumn<'static>,
    pages: Bytes,
    close: ColumnCloseResult,
}

thread_local! {
    /// The latest such columns: the flows of a run are written one after the other, and have most of them in common.
    static LATEST: RefCell<Vec<EncodedColumn>> = const { RefCell::new(Vec::new()) };
}

/// Columns of different names that are remembered.
const LATEST_MOST: usize = 16;

/// Fills the next column with what may be the same as in the file before, and is not encoded again then.
fn same(
    group: &mut table::RowGroup<'_>,
    column: &ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    what: SharedColumn<'_>,
) -> Result<()> {
    LATEST.with_borrow_mut(|latest| {
        let place = latest.iter().position(|one| one.close.metadata.column_descr() == &**column);
        let place = match place {
            Some(place) if latest[place].what == what => place,
            known => {
                let new = EncodedColumn::new(column, properties, what)?;
                known.map(|place| latest.swap_remove(place));
                if latest.len() == LATEST_MOST {
                    latest.clear();
                }
                latest.push(new);
                latest.len() - 1
            }
        };
        group.append_column(&latest[place].pages, latest[place].close.clone())
    })
}

impl EncodedColumn {
    fn new(
        column: &ColumnDescPtr,
        properties: &WriterPropertiesPtr,
        what: SharedColumn<'_>,
    ) -> Result<Self> {
        let (pages, close) = match &what {
            SharedColumn::Times(times) => encode::<Int64Type>(column, properties, times)?,
            SharedColumn::Label(label, rows) => match &**label {
                Label::Text(text) => {
                    let texts = vec![ByteArray::from(text.as_str()); *rows];
                    encode::<ByteArrayType>(column, properties, &texts)?
                }
                Label::Whole(number) => {
                    encode::<Int64Type>(column, properties, &vec![*number; *rows])?
                }
            },
        };
        let what = match what {
            SharedColumn::Times(times) => SharedColumn::Times(times.into_owned().into()),
            SharedColumn::Label(label, rows) => {
                SharedColumn::Label(Cow::Owned(label.into_owned()), rows)
            }
        };
        Ok(Self { what, pages, close })
    }
}

/// A column apart from any file.
fn encode<T: DataType>(
    column: &ColumnDescPtr,
    properties: &WriterPropertiesPtr,
    values: &[T::T],
) -> Result<(Bytes, ColumnCloseResult)> {
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let writer = get_column_writer(Arc::clone(column), Arc::clone(properties), pages);
    let mut writer = get_typed_column_writer::<T>(writer);
    writer.write_batch(values, None, None)?;
    let close = writer.close()?;
    Ok((sink.into_inner()?.into(), close))
}

/// The series called `name` in a file, without its labels.
pub fn read(file: File, name: &str) -> Result<Series> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut series = Series { name: name.into(), time_ns: Arc::default(), columns: Vec::new() };
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
