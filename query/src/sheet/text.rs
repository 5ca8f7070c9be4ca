//! Values as CSV and JSON write them, and as CSV is read.

use std::io::{self, Write};
use std::mem;

use arrow::datatypes::DataType;
use chrono::{DateTime, SecondsFormat};
use serde_json::Value as Json;

use crate::columns::Value;
use crate::parallel::in_order;
use crate::render::visible::is_hidden;
use crate::times::put_rfc3339;

/// So many rows are text before it is written.
const ROWS_IN_MEMORY: usize = 1 << 16;
/// So many are made to text at a time.
const ROWS_OF_A_PIECE: usize = 1 << 12;

/// A value as JSON.
pub(crate) fn json(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    Ok(match value {
        Value::Null => "null".into(),
        Value::Text(text) => json_text(text)?,
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Figure(figure) => serde_json::to_string(figure)?,
        Value::Time(_) | Value::TimeUs(_) => format!("\"{}\"", plain(data_type, value)?),
        Value::List(elements) => list_json(data_type, elements)?,
    })
}

/// A text as JSON, with escapes for invisible characters: it is the same text, and cannot drive a terminal.
fn json_text(text: &str) -> serde_json::Result<String> {
    let mut json = serde_json::to_string(text)?;
    if json.contains(is_hidden) {
        let hidden = mem::take(&mut json);
        for c in hidden.chars() {
            match is_hidden(c) {
                true => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        json += &format!("\\u{unit:04x}");
                    }
                }
                false => json.push(c),
            }
        }
    }
    Ok(json)
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

/// A value as text: nothing where it is not known; a list is its JSON.
pub(crate) fn plain(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    let mut text = String::new();
    put(data_type, value, &mut text)?;
    Ok(text)
}

/// Writes a text for each of many rows, as `put` adds them to one.
pub(crate) fn write_lines<R: Sync>(
    rows: &[R],
    out: &mut (impl Write + ?Sized),
    put: impl Fn(&R, &mut String) -> io::Result<()> + Sync,
) -> io::Result<()> {
    for rows in rows.chunks(ROWS_IN_MEMORY) {
        let pieces: Vec<_> = rows.chunks(ROWS_OF_A_PIECE).collect();
        let texts = in_order(&pieces, rows.len() as u64, |rows| {
            let mut text = String::new();
            rows.iter().try_for_each(|row| put(row, &mut text))?;
            Ok::<_, io::Error>(text)
        })?;
        let mut texts = texts.iter();
        texts.try_for_each(|text| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Adds a line of CSV.
pub(super) fn put_line<'v>(
    cells: impl Iterator<Item = io::Result<(&'v DataType, Value<'v>)>>,
    text: &mut String,
) -> io::Result<()> {
    let begun = text.len();
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            text.push(',');
        }
        let (data_type, value) = cell?;
        put_csv(data_type, &value, text)?;
    }
    if text.len() == begun {
        // An empty line is none.
        text.push_str("\"\"");
    }
    text.push('\n');
    Ok(())
}

/// Adds a value to a line of CSV, in quotes where it takes some (RFC 4180).
fn put_csv(data_type: &DataType, value: &Value<'_>, line: &mut String) -> serde_json::Result<()> {
    let quoted = |text: &str, line: &mut String| match text.contains([',', '"', '\n', '\r']) {
        true => line.extend(["\"", &text.replace('"', "\"\""), "\""]),
        false => line.push_str(text),
    };
    match value {
        Value::Text(text) => quoted(text, line),
        Value::List(_) => quoted(&plain(data_type, value)?, line),
        _ => put(data_type, value, line)?,
    }
    Ok(())
}

fn put(data_type: &DataType, value: &Value<'_>, to: &mut String) -> serde_json::Result<()> {
    match value {
        Value::Null => {}
        Value::Text(text) => to.push_str(text),
        Value::Count(count) => to.push_str(itoa::Buffer::new().format(*count)),
        Value::Int(int) => to.push_str(itoa::Buffer::new().format(*int)),
        Value::Figure(figure) => *to += &figure.to_string(),
        Value::Time(time) => put_rfc3339(*time, to),
        Value::TimeUs(us) => {
            let time = DateTime::from_timestamp_micros(*us).unwrap_or_default();
            *to += &time.to_rfc3339_opts(SecondsFormat::Micros, true);
        }
        Value::Flag(_) | Value::List(_) => *to += &json(data_type, value)?,
    }
    Ok(())
}

/// The value that [`plain`] wrote; `None` if it writes no such text.
pub(crate) fn parse(data_type: &DataType, text: &str) -> Option<Value<'static>> {
    if text.is_empty() {
        return Some(Value::Null);
    }
    Some(match data_type {
        DataType::Utf8 => Value::text(text.to_owned()),
        DataType::Boolean => Value::Flag(text.parse().ok()?),
        DataType::Float64 => Value::Figure(text.parse().ok()?),
        DataType::Int32 | DataType::Int64 => Value::Int(text.parse().ok()?),
        DataType::Timestamp(..) => {
            Value::TimeUs(DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros())
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
