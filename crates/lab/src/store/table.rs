//! Tables for other programs: the same rows as CSV and as Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr,
};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

/// A table: all columns have as many values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name and values, from left to right.
    pub columns: Vec<(String, Values)>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<String>),
    /// Whole numbers, absent where nothing is known.
    Whole(Vec<Option<i64>>),
    /// Decimal numbers, absent where nothing is known.
    Decimal(Vec<Option<f64>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Decimal(values) => values.len(),
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].clone(),
            Self::Whole(values) => values[row].map_or(String::new(), |value| value.to_string()),
            Self::Decimal(values) => values[row].map_or(String::new(), |value| value.to_string()),
        }
    }
}

impl Table {
    /// Adds a column.
    pub fn push(&mut self, name: &str, values: Values) {
        self.columns.push((name.to_owned(), values));
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// As CSV with a head line (RFC 4180, lines end with a line feed).
    ///
    /// # Errors
    /// Columns of different lengths.
    pub fn csv(&self) -> std::io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows() {
            writer.write_record(self.columns.iter().map(|(_, values)| values.text(row)))?;
        }
        writer.into_inner().map_err(|error| std::io::Error::other(error.to_string()))
    }

    /// As Parquet.
    ///
    /// # Errors
    /// What the writer says.
    pub fn parquet(&self) -> parquet::errors::Result<Vec<u8>> {
        let fields = self.columns.iter().map(|(name, values)| field(name, values));
        let fields = fields.collect::<parquet::errors::Result<Vec<_>>>()?;
        let properties = properties_of(&fields);
        file(schema("table", fields)?, properties, |group| {
            self.columns.iter().try_for_each(|(_, values)| write(group, values))
        })
    }
}

/// How columns are written.
pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("ackwright".into())
}

/// How those of a table are written. Minimum and maximum of texts are of no use, and finding them
/// takes longer than writing them.
fn properties_of(fields: &[Arc<Type>]) -> WriterPropertiesPtr {
    let texts = fields.iter().filter(|it| it.get_physical_type() == PhysicalType::BYTE_ARRAY);
    let names = texts.map(|text| ColumnPath::from(text.name()));
    let properties = names.fold(properties(), |properties, name| {
        properties.set_column_statistics_enabled(name, EnabledStatistics::None)
    });
    Arc::new(properties.build())
}

/// All columns under one name.
pub(super) fn schema(name: &str, fields: Vec<Arc<Type>>) -> parquet::errors::Result<TypePtr> {
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

/// A Parquet file of one row group, whose columns `write` fills in the order of the schema.
pub(super) fn file(
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    write: impl FnOnce(&mut RowGroup<'_>) -> parquet::errors::Result<()>,
) -> parquet::errors::Result<Vec<u8>> {
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut group = writer.next_row_group()?;
    write(&mut group)?;
    group.close()?;
    writer.into_inner()
}

/// What is filled.
pub(super) type RowGroup<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn field(name: &str, values: &Values) -> parquet::errors::Result<Arc<Type>> {
    let (physical, repetition) = match values {
        Values::Text(_) => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
        Values::Whole(_) => (PhysicalType::INT64, Repetition::OPTIONAL),
        Values::Decimal(_) => (PhysicalType::DOUBLE, Repetition::OPTIONAL),
    };
    let logical = matches!(values, Values::Text(_)).then_some(LogicalType::String);
    let built = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(built))
}

fn write(group: &mut RowGroup<'_>, values: &Values) -> parquet::errors::Result<()> {
    match values {
        Values::Text(values) => {
            let bytes: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            column::<ByteArrayType>(group, &bytes, None)
        }
        Values::Whole(values) => optional::<Int64Type>(group, values.iter().copied()),
        Values::Decimal(values) => optional::<DoubleType>(group, values.iter().copied()),
    }
}

/// Fills the next column with the values that are there.
fn optional<T: DataType>(
    group: &mut RowGroup<'_>,
    values: impl ExactSizeIterator<Item = Option<T::T>> + Clone,
) -> parquet::errors::Result<()> {
    let mut present = Vec::with_capacity(values.len());
    present.extend(values.clone().flatten());
    let levels: Vec<i16> = values.map(|value| i16::from(value.is_some())).collect();
    column::<T>(group, &present, Some(&levels))
}

/// Fills the next column; `levels` says of each place whether it has one of the values, if some may not.
pub(super) fn column<T: DataType>(
    group: &mut RowGroup<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    #[test]
    fn both_files_have_the_same_rows() {
        let mut table = Table::default();
        table.push("who", Values::Text(vec!["a, b".into(), "c".into()]));
        table.push("count", Values::Whole(vec![Some(3), None]));
        table.push("share", Values::Decimal(vec![None, Some(0.25)]));
        assert_eq!(table.csv().unwrap(), b"who,count,share\n\"a, b\",3,\nc,,0.25\n");
        let bytes = Bytes::from(table.parquet().unwrap());
        let reader = SerializedFileReader::new(bytes).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            ["{who: \"a, b\", count: 3, share: null}", "{who: \"c\", count: null, share: 0.25}"]
        );
    }
}
