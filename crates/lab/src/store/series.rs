//! Time series as Parquet: `time_ns` and the series' columns, all 64-bit integers.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::data_type::Int64Type;
use parquet::schema::types::Type;

use super::table;
use crate::results::Series;

/// The bytes of a Parquet file.
pub fn parquet_bytes(series: &Series) -> parquet::errors::Result<Vec<u8>> {
    let mut fields = vec![field("time_ns", Repetition::REQUIRED)?];
    for column in &series.columns {
        fields.push(field(&column.name, Repetition::OPTIONAL)?);
    }
    table::file("samples", fields, |group| {
        table::column::<Int64Type>(group, &series.time_ns, None)?;
        let mut columns = series.columns.iter();
        columns.try_for_each(|column| table::optional::<Int64Type>(group, &column.values))
    })
}

fn field(name: &str, repetition: Repetition) -> parquet::errors::Result<Arc<Type>> {
    let built = Type::primitive_type_builder(name, PhysicalType::INT64)
        .with_repetition(repetition)
        .build()?;
    Ok(Arc::new(built))
}
