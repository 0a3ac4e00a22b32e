//! Time series as Parquet: `time_ns` and the series' columns, all 64-bit integers.

use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::results::Series;

/// The bytes of a Parquet file.
pub fn parquet_bytes(series: &Series) -> parquet::errors::Result<Vec<u8>> {
    let mut fields = vec![field("time_ns", Repetition::REQUIRED)?];
    for column in &series.columns {
        fields.push(field(&column.name, Repetition::OPTIONAL)?);
    }
    let schema = Type::group_type_builder("samples").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("ackwright".into())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&series.time_ns, None, None)?;
        column.close()?;
    }
    for values in series.columns.iter().map(|column| &column.values) {
        let Some(mut column) = group.next_column()? else { break };
        let present: Vec<i64> = values.iter().filter_map(|value| *value).collect();
        let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
        column.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(name: &str, repetition: Repetition) -> parquet::errors::Result<Arc<Type>> {
    let built = Type::primitive_type_builder(name, PhysicalType::INT64)
        .with_repetition(repetition)
        .build()?;
    Ok(Arc::new(built))
}
