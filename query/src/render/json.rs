//! JSON, one object per line, its keys in column order.

use std::io::{self, Write};

use super::record::{Record, Value, errnos_json, file_ops_json, histogram_json, names_json};
use crate::answer::Answer;

pub(super) fn write<R: Record>(answer: &Answer<R>, out: &mut dyn Write) -> io::Result<()> {
    let names = R::names();
    for row in &answer.rows {
        for (i, (name, value)) in names.iter().zip(row.values()).enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            write!(out, "{before}\"{name}\":{}", text(&value)?)?;
        }
        out.write_all(b"}\n")?;
    }
    Ok(())
}

fn text(value: &Value<'_>) -> io::Result<String> {
    Ok(match value {
        Value::Null => "null".into(),
        Value::Text(text) => serde_json::to_string(text)?,
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Figure(figure) => serde_json::to_string(figure)?,
        Value::Errnos(errnos) => errnos_json(errnos),
        Value::FileOps(ops) => file_ops_json(ops),
        Value::Histogram(histogram) => histogram_json(histogram),
        Value::Names(names) => names_json(names),
    })
}
