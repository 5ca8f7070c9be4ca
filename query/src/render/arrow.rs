//! Parquet and Arrow: the columns with their types, units and error bounds. Both end in a footer, so that half of one is not
//! taken for a whole.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, ListArray, PrimitiveArray,
    RecordBatch, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trackiops_schemas::columns::META_WRITER;

use super::text::element_fields;
use crate::answer::Answer;
use crate::columns::{Columns, Record, Value};

/// Rows per batch of Arrow; many enough that what stands before them is little.
const BATCH_ROWS: usize = 65_536;

/// Writes Parquet, compressed.
pub(super) fn parquet<R: Record>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let writer = KeyValue::new(META_WRITER.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_key_value_metadata(Some(vec![writer]))
        .build();
    let schema = columns.schema();
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(of_parquet)?;
    for batch in batches(answer, columns) {
        writer.write(&batch?).map_err(of_parquet)?;
    }
    writer.close().map_err(of_parquet)?;
    Ok(())
}

/// Writes an Arrow IPC file (Feather 2), uncompressed, so that it can be mapped.
pub(super) fn ipc<R: Record>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let schema = columns.schema();
    let mut writer = FileWriter::try_new(out, &schema).map_err(of_arrow)?;
    for batch in batches(answer, columns) {
        writer.write(&batch?).map_err(of_arrow)?;
    }
    writer.finish().map_err(of_arrow)
}

fn batches<R: Record>(
    answer: &Answer<R>,
    columns: &Columns<R>,
) -> impl Iterator<Item = io::Result<RecordBatch>> {
    let batch = |rows: &[R]| {
        let arrays = columns.iter().map(|column| {
            let values = rows.iter().map(|row| column.value(row)).collect();
            array(&column.data_type, values)
        });
        RecordBatch::try_new(columns.schema(), arrays.collect::<Result<_, _>>()?)
    };
    answer
        .rows
        .chunks(BATCH_ROWS)
        .map(move |rows| batch(rows).map_err(of_arrow))
}

/// Values of one type as an array of it. What is not of the type is null.
fn array(data_type: &DataType, values: Vec<Value<'_>>) -> Result<ArrayRef, ArrowError> {
    let values = values.iter();
    Ok(match data_type {
        DataType::Utf8 => Arc::new(
            values
                .map(|value| match value {
                    Value::Text(text) => Some(text.as_ref()),
                    _ => None,
                })
                .collect::<StringArray>(),
        ),
        DataType::Boolean => Arc::new(
            values
                .map(|value| match value {
                    Value::Flag(flag) => Some(*flag),
                    _ => None,
                })
                .collect::<BooleanArray>(),
        ),
        DataType::Float64 => Arc::new(values.map(Value::number).collect::<Float64Array>()),
        DataType::Int16 => integers::<Int16Type>(values),
        DataType::Int32 => integers::<Int32Type>(values),
        DataType::Int64 => integers::<Int64Type>(values),
        DataType::UInt64 => integers::<UInt64Type>(values),
        DataType::Timestamp(_, zone) => {
            let times = values.map(|value| match value {
                Value::Time(time) => Some(time.0),
                _ => None,
            });
            let times: TimestampMillisecondArray = times.collect();
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::List(item) => lists(item, values)?,
        other => {
            let why = format!("no column has the type {other}");
            return Err(ArrowError::NotYetImplemented(why));
        }
    })
}

fn integers<'v, T: ArrowPrimitiveType<Native: TryFrom<i128>>>(
    values: impl Iterator<Item = &'v Value<'v>>,
) -> ArrayRef {
    let integer = |value: &Value<'_>| {
        let whole = match value {
            Value::Count(count) => i128::from(*count),
            Value::Int(int) => i128::from(*int),
            _ => return None,
        };
        T::Native::try_from(whole).ok()
    };
    Arc::new(values.map(integer).collect::<PrimitiveArray<T>>())
}

fn lists<'v>(
    item: &Arc<arrow::datatypes::Field>,
    values: impl Iterator<Item = &'v Value<'v>> + Clone,
) -> Result<ArrayRef, ArrowError> {
    let elements = |value: &'v Value<'v>| match value {
        Value::List(elements) => elements.as_slice(),
        _ => &[],
    };
    let is_known = |value: &Value<'_>| matches!(value, Value::List(_));
    let nulls: NullBuffer = values.clone().map(is_known).collect::<Vec<_>>().into();
    let lengths = OffsetBuffer::from_lengths(values.clone().map(|value| elements(value).len()));
    let fields = element_fields(&DataType::List(Arc::clone(item)));
    let all = || values.clone().flat_map(elements);
    let arrays = fields.iter().enumerate().map(|(i, field)| {
        let of_field = all().map(|element| element.get(i).cloned().unwrap_or(Value::Null));
        array(field.data_type(), of_field.collect())
    });
    let arrays = arrays.collect::<Result<_, _>>()?;
    let elements = StructArray::try_new(fields, arrays, None)?;
    let list = ListArray::try_new(Arc::clone(item), lengths, Arc::new(elements), Some(nulls))?;
    Ok(Arc::new(list))
}

/// Keeps the kind of an I/O error: a broken pipe is told apart.
fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
