//! Columns of single requests: the stored columns, and their times in us for comparing and sorting.

use trackiops_schemas::columns::{FILE_KEY, FILEID, request_schema};

use crate::column::{Column, Record, Unit, Value};
use crate::requests::KeptRequest;

use arrow::datatypes::DataType;

impl Record for KeptRequest {
    fn columns() -> Vec<Column<Self>> {
        let schema = request_schema();
        let stored = schema.fields().iter().map(|field| {
            let name = field.name().clone();
            Column::stored(field, move |row: &Self| identifier(&name, row.value(&name)))
        });
        let us = |name, get: fn(&Self) -> Option<f64>| Column {
            is_usual: false,
            ..Column::new(name, DataType::Float64, Unit::Microseconds, move |row| {
                Value::some_figure(get(row), Unit::Microseconds)
            })
        };
        stored
            .chain([
                us("latency", |row| row.latency_us().0),
                us("queue", |row| row.latency_us().1[0]),
                us("network", |row| row.latency_us().1[1]),
                us("completion", |row| row.latency_us().1[2]),
            ])
            .collect()
    }
}

/// The value of a column that identifies a file, as an identifier.
fn identifier<'r>(column: &str, value: Value<'r>) -> Value<'r> {
    match (column, value) {
        (FILE_KEY, Value::Int(key)) => Value::Key(key),
        (FILEID, Value::Int(fileid)) => Value::Fileid(fileid.cast_unsigned()),
        (_, value) => value,
    }
}
