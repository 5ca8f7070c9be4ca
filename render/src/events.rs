//! Table of events.

use trackiops_query::Event;

use crate::table::{ESSENTIAL, KEY, NAME, Table, left, whole};
use trackiops_query::answer::Answer;
use trackiops_query::times::{Zone, show, show_offset};

pub(super) fn table(answer: &Answer<Event>, zone: Zone) -> Table {
    let rows = &answer.rows;
    let is_one_host = rows.windows(2).all(|rows| rows[0].host == rows[1].host);
    let offset = show_offset(answer.range.start, zone);
    let mut header = vec![
        whole(format!("time ({offset})")).weighs(KEY),
        whole("event").weighs(KEY),
    ];
    if !is_one_host {
        header.push(left("host").weighs(ESSENTIAL));
    }
    header.push(left("what").weighs(NAME));
    let line = |row: &Event| {
        let mut cells = vec![whole(show(row.time, zone)), whole(row.kind.as_str())];
        if !is_one_host {
            cells.push(left(&row.host));
        }
        cells.push(left(&row.text));
        cells
    };
    Table {
        title: Vec::new(),
        header,
        lines: rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
