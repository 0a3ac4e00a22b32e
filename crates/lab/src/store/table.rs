//! Tables for other programs: the same rows as CSV and as Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

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
        let fields: Vec<Arc<Type>> = self
            .columns
            .iter()
            .map(|(name, values)| field(name, values))
            .collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("ackwright".into())
            .build();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for (_, values) in &self.columns {
            write(&mut group, values)?;
        }
        group.close()?;
        writer.into_inner()
    }
}

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

fn write<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &Values,
) -> parquet::errors::Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    match values {
        Values::Text(values) => {
            let bytes: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            column.typed::<ByteArrayType>().write_batch(&bytes, None, None)?;
        }
        Values::Whole(values) => {
            let (present, levels) = split(values);
            column.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?;
        }
        Values::Decimal(values) => {
            let (present, levels) = split(values);
            column.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
        }
    }
    column.close()
}

/// The values that are there, and for each place whether one is.
fn split<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let present = values.iter().filter_map(|value| *value).collect();
    (present, values.iter().map(|value| i16::from(value.is_some())).collect())
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
