//! Values as CSV and JSON write them, and as CSV is read.

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, SecondsFormat};
use serde_json::Value as Json;
use trackiops_schemas::time::UtcMs;

use crate::columns::Value;
use crate::times::rfc3339;

/// A value as JSON.
pub(crate) fn json(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    Ok(match value {
        Value::Null => "null".into(),
        Value::Text(text) => serde_json::to_string(text)?,
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Figure(figure) => serde_json::to_string(figure)?,
        Value::Time(_) | Value::TimeNs(_) => format!("\"{}\"", csv(data_type, value)?),
        Value::List(elements) => list_json(data_type, elements)?,
    })
}

/// `[{"bucket":12,"count":3}]`; a list of what has no fields is `["a","b"]`.
fn list_json(data_type: &DataType, elements: &[Vec<Value<'_>>]) -> serde_json::Result<String> {
    let DataType::List(item) = data_type else {
        return Ok("null".into());
    };
    let mut texts = Vec::with_capacity(elements.len());
    for element in elements {
        texts.push(match item.data_type() {
            DataType::Struct(fields) => {
                let mut text = String::from("{");
                for (i, (field, value)) in fields.iter().zip(element).enumerate() {
                    let before = if i == 0 { "" } else { "," };
                    let value = json(field.data_type(), value)?;
                    text += &format!("{before}\"{}\":{value}", field.name());
                }
                text + "}"
            }
            plain => json(plain, element.first().unwrap_or(&Value::Null))?,
        });
    }
    Ok(format!("[{}]", texts.join(",")))
}

/// A value as CSV: nothing where it is not known; a list is its JSON.
pub(crate) fn csv(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    let mut text = String::new();
    put_csv(data_type, value, &mut text)?;
    Ok(text)
}

/// Adds that to a text.
pub(super) fn put_csv(
    data_type: &DataType,
    value: &Value<'_>,
    to: &mut String,
) -> serde_json::Result<()> {
    match value {
        Value::Null => {}
        Value::Text(text) => to.push_str(text),
        Value::Count(count) => to.push_str(itoa::Buffer::new().format(*count)),
        Value::Int(int) => to.push_str(itoa::Buffer::new().format(*int)),
        Value::Figure(figure) => *to += &figure.to_string(),
        Value::Time(time) => *to += &rfc3339(*time),
        Value::TimeNs(ns) => {
            let time = DateTime::from_timestamp_nanos(*ns);
            *to += &time.to_rfc3339_opts(SecondsFormat::Nanos, true);
        }
        Value::Flag(_) | Value::List(_) => *to += &json(data_type, value)?,
    }
    Ok(())
}

/// The value that [`csv`] wrote; `None` if it writes no such text.
pub(crate) fn parse(data_type: &DataType, text: &str) -> Option<Value<'static>> {
    if text.is_empty() {
        return Some(Value::Null);
    }
    Some(match data_type {
        DataType::Utf8 => Value::text(text.to_owned()),
        DataType::Boolean => Value::Flag(text.parse().ok()?),
        DataType::Float64 => Value::Figure(text.parse().ok()?),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Value::Int(text.parse().ok()?),
        DataType::UInt32 | DataType::UInt64 => Value::Count(text.parse().ok()?),
        DataType::Timestamp(unit, _) => {
            let time = DateTime::parse_from_rfc3339(text).ok()?;
            match unit {
                TimeUnit::Nanosecond => Value::TimeNs(time.timestamp_nanos_opt()?),
                _ => Value::Time(UtcMs(time.timestamp_millis())),
            }
        }
        DataType::List(_) => of_json(data_type, &serde_json::from_str(text).ok()?)?,
        _ => return None,
    })
}

/// The value that [`json`] wrote, as far as lists hold such.
fn of_json(data_type: &DataType, value: &Json) -> Option<Value<'static>> {
    Some(match (data_type, value) {
        (_, Json::Null) => Value::Null,
        (DataType::Utf8, Json::String(text)) => Value::text(text.clone()),
        (DataType::UInt32 | DataType::UInt64, number) => Value::Count(number.as_u64()?),
        (DataType::List(item), Json::Array(elements)) => {
            let element = |element: &Json| match item.data_type() {
                DataType::Struct(fields) => fields
                    .iter()
                    .map(|field| of_json(field.data_type(), element.get(field.name())?))
                    .collect(),
                plain => Some(vec![of_json(plain, element)?]),
            };
            Value::List(elements.iter().map(element).collect::<Option<_>>()?)
        }
        (_, number) => Value::Int(number.as_i64()?),
    })
}
