//! Table of captured connections.

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, Weight, left, right, whole};
use crate::units::bytes;
use trackiops_query::HostStream;
use trackiops_query::answer::Answer;
use trackiops_schemas::captured::StreamBytes;

/// A column: its name, its figure of a stream, and its weight.
type Figure = (&'static str, fn(&StreamBytes) -> u64, Weight);

const FIGURES: [Figure; 6] = [
    ("parsed", |bytes| bytes.parsed_bytes, ESSENTIAL),
    ("skipped", |bytes| bytes.skipped_bytes, 54),
    ("not read", |bytes| bytes.not_understood_bytes, ESSENTIAL),
    ("repeated", |bytes| bytes.repeated_bytes, 52),
    ("cut", |bytes| bytes.cut_bytes, 53),
    ("lost", |bytes| bytes.lost_bytes, ESSENTIAL),
];

pub(super) fn table(answer: &Answer<HostStream>) -> Table {
    let mut header = vec![
        left("client").weighs(NAME),
        left("server").weighs(NAME),
        left("").weighs(51),
        whole("").weighs(KEY),
        right("messages").weighs(50),
    ];
    header.extend(FIGURES.map(|(title, _, weight)| right(title).weighs(weight)));
    let line = |row: &HostStream| {
        let (stream, sums) = (&row.captured.stream, &row.captured.bytes);
        let mut cells = match stream {
            Some(stream) => vec![
                left(stream.client.to_string()),
                left(stream.server.to_string()),
                left(stream.carrier.to_string()),
                whole(stream.direction.to_string()),
            ],
            None => vec![left(&row.host), left("(others)"), left(NONE), whole(NONE)],
        };
        cells.push(right(sums.messages.to_string()));
        cells.extend(FIGURES.map(|(_, of, _)| right(bytes(of(sums)))));
        cells
    };
    Table {
        title: Vec::new(),
        header,
        lines: answer.rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
