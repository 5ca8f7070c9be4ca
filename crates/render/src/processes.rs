//! Table of processes.

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right};
use crate::units::{bytes, latency};
use trackiops_query::answer::Answer;
use trackiops_query::processes::ProcessActivity;
use trackiops_query::times::Zone;

pub(super) fn table(answer: &Answer<ProcessActivity>, zone: Zone) -> Table {
    let rows = &answer.rows;
    let is_one_host = rows.windows(2).all(|rows| rows[0].host == rows[1].host);
    let mut header = vec![
        right("requests").weighs(80),
        right("r-bytes").weighs(ESSENTIAL + 9),
        right("w-bytes").weighs(ESSENTIAL + 9),
        right("mean").weighs(60),
        right("max").weighs(50),
        left("level").weighs(KEY + 2),
    ];
    if !is_one_host {
        header.push(left("host").weighs(KEY + 1));
    }
    header.push(right("pid").weighs(KEY + 8));
    header.push(left("process").weighs(NAME));
    let line = |row: &ProcessActivity| {
        let time = |us: Option<f64>| right(us.map_or_else(|| NONE.into(), latency));
        let mut cells = vec![
            right(row.requests.to_string()),
            right(bytes(row.read_bytes)),
            right(bytes(row.write_bytes)),
            time(row.latency_us_mean()),
            time(row.latency_us_max()),
            left(row.level.as_str()),
        ];
        if !is_one_host {
            cells.push(left(&*row.host));
        }
        let pid = row.pid.map(|pid| pid.to_string());
        cells.push(right(pid.unwrap_or_else(|| NONE.into())));
        cells.push(left(row.process.as_deref().unwrap_or(NONE)));
        cells
    };
    let times = Times::of(answer, zone, |_| answer.range.start);
    Table {
        title: times.title(answer).into_iter().collect(),
        header,
        lines: rows.iter().map(line).collect(),
        is_chosen: false,
    }
}
