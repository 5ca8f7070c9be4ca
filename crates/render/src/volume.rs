//! The size of a store: a table, and a summary.

use crate::table::{ESSENTIAL, KEY, NAME, NONE, Table, right, whole};
use crate::units;
use trackiops_query::answer::Answer;
use trackiops_query::volume::{Volume, days_until};

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

/// The sums of all granularities, and when `room` bytes are used up.
pub fn summary(rows: &[Volume], is_plan: bool, room: Option<u64>) -> String {
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let unsealed = rows.iter().filter(|row| !row.is_sealed());
    let unsealed: u64 = unsealed.map(|row| row.bytes).sum();
    if rows.iter().all(|row| row.bytes_per_day.is_none()) {
        return format!(
            "not sealed yet: {} in journals; sealing makes them smaller, and then a day can be estimated",
            units::bytes(unsealed)
        );
    }
    let a_day: f64 = rows.iter().filter_map(|row| row.bytes_per_day).sum();
    let most: f64 = rows.iter().filter_map(|row| row.bytes_at_most).sum();
    let lasting = rows.iter().filter(|row| row.bytes_at_most.is_none());
    let lasting: f64 = lasting.filter_map(|row| row.bytes_per_day).sum();
    let mut text = format!("{} a day", units::bytes(a_day as u64));
    if !is_plan {
        let journals = match unsealed {
            0 => String::new(),
            bytes => format!(
                " ({} of it in journals, not sealed yet)",
                units::bytes(bytes)
            ),
        };
        text = format!("{} on disk{journals}, {text}", units::bytes(bytes));
    }
    if most > 0.0 {
        let most = units::bytes(most as u64);
        text += &format!("; what expires will take {most} at most");
    }
    if lasting > 0.0 {
        let a_year = units::bytes((365.0 * lasting) as u64);
        text += &format!("; what is kept for ever grows by {a_year} a year");
    }
    match room {
        None => text,
        Some(room) => {
            let days = days_until(rows, is_plan, room);
            let when = match days {
                None => "never used up".to_owned(),
                Some(days) if days < 2.0 => format!("used up in {:.0} hours", 24.0 * days),
                Some(days) => format!("used up in {days:.0} days"),
            };
            format!("{text}; {} are {when}", units::bytes(room))
        }
    }
}
