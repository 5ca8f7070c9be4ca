//! JSON: one object per line, with keys in column order.

use std::io::{self, Write};

use crate::formats::text;
use trackiops_query::answer::Answer;
use trackiops_query::columns::Columns;

pub(super) fn write<R: Sync + 'static>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    out: &mut dyn Write,
) -> io::Result<()> {
    text::write_lines(&answer.rows, out, |row, line| {
        for (i, column) in columns.iter().enumerate() {
            let before = if i == 0 { "{\"" } else { ",\"" };
            let value = text::json(&column.data_type, &column.value(row))?;
            line.extend([before, &column.name, "\":", &value]);
        }
        line.push_str("}\n");
        Ok(())
    })
}
