//! Converts values to CSV and JSON, and from CSV.

use std::borrow::Cow;
use std::io::{self, Write};

use arrow::datatypes::DataType;
use chrono::{DateTime, SecondsFormat};
use serde_json::Value as Json;

use super::Texts;
use crate::visible::{self, is_hidden};
use trackiops_query::columns::{Value, decimal_text};
use trackiops_query::parallel::in_order;
use trackiops_query::times::put_rfc3339;

/// Rows that are converted before they are written.
const ROWS_IN_MEMORY: usize = 1 << 16;
/// Rows that one job converts.
const ROWS_OF_A_PIECE: usize = 1 << 12;

/// A value as JSON.
pub(crate) fn json(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    Ok(match value {
        Value::Null => "null".into(),
        Value::Text(text) => visible::json(text.as_ref())?,
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Key(key) => format!("\"{key}\""),
        Value::Fileid(fileid) => format!("\"{fileid}\""),
        Value::Figure(figure) => serde_json::to_string(figure)?,
        Value::Decimal(units, decimals) => decimal_text(*units, *decimals),
        Value::Time(_) | Value::TimeUs(_) => format!("\"{}\"", plain(data_type, value)?),
        Value::List(elements) => list_json(data_type, elements)?,
    })
}

/// `[{"bucket":12,"count":3}]`; a list without fields is `["a","b"]`.
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

/// A value as text. An unknown value is empty; a list is JSON.
pub(crate) fn plain(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    let mut text = String::new();
    put(data_type, value, &mut text)?;
    Ok(text)
}

/// Writes one text per row, with several threads. `put` appends the text of a row.
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

/// Appends a line of CSV.
pub(super) fn put_line<'v>(
    cells: impl Iterator<Item = io::Result<(&'v DataType, Value<'v>)>>,
    texts: Texts,
    text: &mut String,
) -> io::Result<()> {
    let begun = text.len();
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            text.push(',');
        }
        let (data_type, value) = cell?;
        match texts {
            Texts::AsTheyAre => put_csv(data_type, &value, text)?,
            Texts::ForSpreadsheets => put_csv(data_type, &value.map_texts(&inert), text)?,
        }
    }
    if text.len() == begun {
        // CSV readers skip an empty line.
        text.push_str("\"\"");
    }
    text.push('\n');
    Ok(())
}

/// Characters that need quotes. Some spreadsheets take semicolons and tabs for separators, too.
const QUOTED: [char; 6] = [',', '"', '\n', '\r', ';', '\t'];

/// Characters that end a cell, in spreadsheets of any locale.
const SEPARATORS: [char; 5] = [',', ';', '\t', '\r', '\n'];

/// Adds a `'` wherever a spreadsheet could start a formula: at the start of the text and after separators of any locale. A path
/// starts with a slash, but it may contain `;=` (<https://owasp.org/www-community/attacks/CSV_Injection>).
fn inert(text: &str) -> Cow<'_, str> {
    let begins_formula = |cell: &str| {
        let skipped = |c: char| c.is_whitespace() || matches!(c, '"' | '\'') || is_hidden(c);
        // Spreadsheets in Japanese treat the wide characters in the same way.
        let formula = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
        cell.trim_start_matches(skipped).starts_with(formula)
    };
    let mut inert = String::new();
    if text.starts_with(['\t', '\r', '\n']) {
        inert.push('\'');
    }
    for cell in text.split_inclusive(SEPARATORS) {
        if begins_formula(cell) {
            inert.push('\'');
        }
        inert.push_str(cell);
    }
    match inert.len() == text.len() {
        true => text.into(),
        false => inert.into(),
    }
}

/// Appends a value to a line of CSV, in quotes if it needs them (RFC 4180).
fn put_csv(data_type: &DataType, value: &Value<'_>, line: &mut String) -> serde_json::Result<()> {
    let quoted = |text: &str, line: &mut String| match text.contains(QUOTED) {
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
        Value::Int(int) | Value::Key(int) => to.push_str(itoa::Buffer::new().format(*int)),
        Value::Fileid(fileid) => {
            to.push_str(itoa::Buffer::new().format(fileid.cast_signed()));
        }
        Value::Figure(figure) => *to += &figure.to_string(),
        Value::Decimal(units, decimals) => *to += &decimal_text(*units, *decimals),
        Value::Time(time) => put_rfc3339(*time, to),
        Value::TimeUs(us) => {
            let time = DateTime::from_timestamp_micros(*us).unwrap_or_default();
            *to += &time.to_rfc3339_opts(SecondsFormat::Micros, true);
        }
        Value::Flag(_) | Value::List(_) => *to += &json(data_type, value)?,
    }
    Ok(())
}

/// Parses a text of [`plain`]; `None` if it cannot have written the text.
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

/// Parses a value of [`json`], as far as lists contain such values.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use arrow::datatypes::{Field, Fields};
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn no_cell_of_a_spreadsheet_begins_a_formula() {
        for (text, expected) in [
            ("/mnt/home/a-b=c+d@e", "/mnt/home/a-b=c+d@e"),
            ("web-1; web-2", "web-1; web-2"),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("＝1", "'＝1"),
            ("\t/a", "'\t/a"),
            ("\r=1", "'\r'=1"),
            (" \"'=1", "' \"'=1"),
            ("\u{200b}=1", "'\u{200b}=1"),
            ("/a;=1,\"@b\n-c", "/a;'=1,'\"@b\n'-c"),
        ] {
            assert_eq!(inert(text), expected);
        }
    }

    #[test]
    fn numbers_stay_numbers_and_lists_stay_json() {
        let name = Field::new("path", DataType::Utf8, false);
        let element = DataType::Struct(Fields::from(vec![name]));
        let list = DataType::List(Arc::new(Field::new("element", element, false)));
        let values = [
            (DataType::Int64, Value::Int(-5)),
            (DataType::Float64, Value::Figure(-0.5)),
            (DataType::Utf8, Value::text("-5")),
            (list, Value::List(vec![vec![Value::text("=1")]])),
        ];
        let line = |texts| {
            let mut line = String::new();
            let cells = values.iter().map(|(t, value)| Ok((t, value.clone())));
            put_line(cells, texts, &mut line).unwrap();
            line
        };
        let plain = r#"-5,-0.5,-5,"[{""path"":""=1""}]""#;
        assert_eq!(line(Texts::AsTheyAre).trim_end(), plain);
        let inert = r#"-5,-0.5,'-5,"[{""path"":""'=1""}]""#;
        assert_eq!(line(Texts::ForSpreadsheets).trim_end(), inert);
    }

    proptest! {
        #[test]
        fn whatever_separates_cells_none_begins_a_formula(text in "[=+@;,\t\n\r\"' a/-]{0,12}") {
            let shown = inert(&text);
            for separators in [&[][..], &[','], &[';'], &['\t'], &['\n', '\r', ';'], &SEPARATORS] {
                for cell in shown.split(separators) {
                    let cell = cell.trim_start_matches([' ', '"']);
                    prop_assert!(!cell.starts_with(['=', '+', '-', '@']), "{text:?}: {shown:?}");
                }
            }
            prop_assert!(!shown.starts_with(['\t', '\r', '\n']));
            prop_assert_eq!(shown.replace('\'', ""), text.replace('\'', ""));
        }
    }
}
