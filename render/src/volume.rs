//! Table of a store's size.

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, right, whole};
use crate::units;
use trackiops_query::answer::Answer;
use trackiops_query::volume::Volume;

pub(super) fn table(answer: &Answer<Volume>) -> Table {
    let header = [
        whole("rows").weighs(NAME),
        whole("windows").weighs(KEY),
        right("files").weighs(50),
        right("entries").weighs(90),
        right("on disk").weighs(ESSENTIAL + 2),
        right("per entry").weighs(80),
        right("40 B entries").weighs(40),
        right("a day").weighs(ESSENTIAL + 1),
        right("at most").weighs(ESSENTIAL),
    ];
    let line = |row: &Volume| {
        let some = |text: Option<String>| right(text.unwrap_or_else(|| NONE.to_owned()));
        vec![
            whole(row.dataset),
            whole(row.granularity.to_string()),
            some((row.segments > 0).then(|| row.segments.to_string())),
            right(row.entries.to_string()),
            right(units::bytes(row.bytes)),
            some(row.bytes_per_entry().map(|bytes| format!("{bytes:.1} B"))),
            some(row.paper_bytes.map(units::bytes)),
            some(row.bytes_per_day.map(|bytes| units::bytes(bytes as u64))),
            some(row.bytes_at_most.map(|bytes| units::bytes(bytes as u64))),
        ]
    };
    Table {
        title: Vec::new(),
        header: header.into(),
        lines: answer.rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
