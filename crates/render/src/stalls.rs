//! Table of stalls.

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right, whole};
use crate::units::time;
use trackiops_query::answer::Answer;
use trackiops_query::stalls::ServerStall;
use trackiops_query::times::{Zone, show, show_offset};

pub(super) fn table(answer: &Answer<ServerStall>, zone: Zone) -> Table {
    let times = Times::of(answer, zone, |row| row.stall.range.start);
    let rows = &answer.rows;
    let is_one_host = rows.windows(2).all(|rows| rows[0].host == rows[1].host);
    let offset = show_offset(answer.range.start, zone);
    let mut header = vec![
        whole(format!("since ({offset})")).weighs(KEY),
        whole("until").weighs(ESSENTIAL),
        right("age").weighs(ESSENTIAL + 1),
        right("requests").weighs(60),
    ];
    if !is_one_host {
        header.push(left("host").weighs(KEY));
    }
    header.push(left("server").weighs(NAME));
    header.push(left("mounts").weighs(70));
    let line = |row: &ServerStall| {
        let (server, range) = (&row.stall.server, row.stall.range);
        let mut cells = vec![
            whole(show(range.start, zone)),
            whole(show(range.end, zone)),
            right(time(server.age_ms_max as f64 * 1000.0)),
            right(server.requests_max.to_string()),
        ];
        if !is_one_host {
            cells.push(left(&row.host));
        }
        cells.push(left(server.address.as_deref().unwrap_or(NONE)));
        let mounts: Vec<_> = server.mounts.iter().map(String::as_str).collect();
        cells.push(left(mounts.join(", ")));
        cells
    };
    Table {
        title: times.title(answer).into_iter().collect(),
        header,
        lines: rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
