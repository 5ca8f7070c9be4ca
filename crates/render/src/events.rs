//! Tables of marks and of events.

use trackiops_query::Event;
use trackiops_query::answer::Answer;
use trackiops_query::times::{Zone, show, show_offset};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Mark;

use crate::table::{ESSENTIAL, KEY, NAME, Table, left, whole};

/// The parts of a row.
struct Moment<'r> {
    time: UtcMs,
    /// A mark has no kind.
    kind: Option<&'static str>,
    host: &'r str,
    text: &'r str,
}

pub(super) fn events(answer: &Answer<Event>, zone: Zone) -> Table {
    table(answer, zone, "what", |row| Moment {
        time: row.time,
        kind: Some(row.kind.as_str()),
        host: &row.host,
        text: &row.text,
    })
}

pub(super) fn marks(answer: &Answer<Mark>, zone: Zone) -> Table {
    table(answer, zone, "mark", |row| Moment {
        time: row.time,
        kind: None,
        host: &row.host,
        text: &row.text,
    })
}

/// A table with the columns that its rows need. `text` is the header of their texts.
fn table<R>(
    answer: &Answer<R>,
    zone: Zone,
    text: &'static str,
    moment: fn(&R) -> Moment<'_>,
) -> Table {
    let rows: Vec<_> = answer.rows.iter().map(moment).collect();
    let is_one_host = rows.windows(2).all(|rows| rows[0].host == rows[1].host);
    let has_kinds = rows.iter().any(|row| row.kind.is_some());
    let offset = show_offset(answer.range.start, zone);
    let mut header = vec![whole(format!("time ({offset})")).weighs(KEY)];
    if has_kinds {
        header.push(whole("event").weighs(KEY));
    }
    if !is_one_host {
        header.push(left("host").weighs(ESSENTIAL));
    }
    header.push(left(text).weighs(NAME));
    let line = |row: &Moment<'_>| {
        let mut cells = vec![whole(show(row.time, zone))];
        cells.extend(row.kind.map(whole));
        if !is_one_host {
            cells.push(left(row.host));
        }
        cells.push(left(row.text));
        cells
    };
    Table {
        title: Vec::new(),
        header,
        lines: rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
