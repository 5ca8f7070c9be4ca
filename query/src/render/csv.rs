//! CSV with a header. Unknown values are empty; a list is its JSON text.

use std::io::{self, Write};

use super::record::{Record, Value, errnos_json, file_ops_json, histogram_json, names_json};
use crate::answer::Answer;

pub(super) fn write<R: Record>(answer: &Answer<R>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(R::names()).map_err(io_error)?;
    for row in &answer.rows {
        let values = row.values();
        writer
            .write_record(values.iter().map(text))
            .map_err(io_error)?;
    }
    writer.flush()
}

/// Keeps the kind of an I/O error: a broken pipe is told apart.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) => text.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Figure(figure) => figure.to_string(),
        Value::Errnos(errnos) => errnos_json(errnos),
        Value::FileOps(ops) => file_ops_json(ops),
        Value::Histogram(histogram) => histogram_json(histogram),
        Value::Names(names) => names_json(names),
    }
}
