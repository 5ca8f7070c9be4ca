//! Converts values of columns to Arrow arrays, and back.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array,
    ListArray, PrimitiveArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use trackiops_query::columns::Value;

/// An array of one type. Values of another type become null.
pub(super) fn array(data_type: &DataType, values: Vec<Value<'_>>) -> Result<ArrayRef, ArrowError> {
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
        DataType::Int32 => integers::<Int32Type>(values),
        DataType::Int64 => integers::<Int64Type>(values),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let times = values.map(|value| match value {
                Value::Time(time) => time.0.checked_mul(1000),
                Value::TimeUs(us) => Some(*us),
                _ => None,
            });
            let times: TimestampMicrosecondArray = times.collect();
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(precision, scale) => {
            let units = values.map(|value| match value {
                Value::Decimal(units, decimals) if i16::from(*decimals) == i16::from(*scale) => {
                    Some(*units)
                }
                _ => None,
            });
            let units: Decimal128Array = units.collect();
            Arc::new(units.with_precision_and_scale(*precision, *scale)?)
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
            Value::Int(int) | Value::Key(int) => i128::from(*int),
            Value::Fileid(fileid) => i128::from(fileid.cast_signed()),
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
    let all = || values.clone().flat_map(elements);
    let child = |i: usize, data_type: &DataType| {
        let of_field = all().map(|element| element.get(i).cloned().unwrap_or(Value::Null));
        array(data_type, of_field.collect())
    };
    let elements: ArrayRef = match item.data_type() {
        DataType::Struct(fields) => {
            let arrays = fields.iter().enumerate();
            let arrays = arrays.map(|(i, field)| child(i, field.data_type()));
            let arrays = arrays.collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new(fields.clone(), arrays, None)?)
        }
        plain => child(0, plain)?,
    };
    let list = ListArray::try_new(Arc::clone(item), lengths, elements, Some(nulls))?;
    Ok(Arc::new(list))
}

/// The value at an index of an array.
pub(super) fn value(array: &dyn Array, at: usize) -> Result<Value<'_>, ArrowError> {
    if array.is_null(at) {
        return Ok(Value::Null);
    }
    fn number<T: ArrowPrimitiveType>(array: &dyn Array, at: usize) -> T::Native {
        array.as_primitive::<T>().value(at)
    }
    Ok(match array.data_type() {
        DataType::Utf8 => Value::text(array.as_string::<i32>().value(at)),
        DataType::Boolean => Value::Flag(array.as_boolean().value(at)),
        DataType::Float64 => Value::Figure(number::<Float64Type>(array, at)),
        DataType::Int32 => Value::Int(number::<Int32Type>(array, at).into()),
        DataType::Int64 => Value::Int(number::<Int64Type>(array, at)),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Value::TimeUs(number::<TimestampMicrosecondType>(array, at))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (offsets, elements) = (list.value_offsets(), list.values());
            let within = offsets[at] as usize..offsets[at + 1] as usize;
            let element = |at: usize| match elements.as_struct_opt() {
                Some(fields) => fields
                    .columns()
                    .iter()
                    .map(|field| value(field, at))
                    .collect(),
                None => Ok(vec![value(elements, at)?]),
            };
            Value::List(within.map(element).collect::<Result<_, _>>()?)
        }
        other => {
            let why = format!("no column has the type {other}");
            return Err(ArrowError::NotYetImplemented(why));
        }
    })
}
