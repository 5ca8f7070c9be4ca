//! The columns that somebody chose, for people.

use super::table::{Cell, NONE, Table, Times, left, printable, right};
use crate::answer::Answer;
use crate::columns::{Column, Columns, PERCENTILE_ERROR, Record, Value};
use crate::sheet::text;
use crate::times::{Zone, show, show_offset};

pub(super) fn table<R: Record>(answer: &Answer<R>, columns: &Columns<R>, zone: Zone) -> Table {
    let times = Times::of(answer, zone, |_| answer.range.start);
    let header = |column: &Column<R>| {
        let short = column.short_names().into_iter().next();
        let name = short.unwrap_or_else(|| column.name.clone());
        match column.is_number() {
            true => right(name),
            false => left(name),
        }
    };
    let line = |row: &R| {
        let cells = columns.iter().map(|c| cell(c, &c.value(row), zone));
        cells.collect::<Vec<_>>()
    };
    Table {
        title: times.title(answer).into_iter().collect(),
        header: columns.iter().map(header).collect(),
        lines: answer.rows.iter().map(line).collect(),
    }
}

/// All columns that there are.
pub(super) fn list<R: Record>() -> Table {
    let line = |column: Column<R>| {
        let mut unit = column.unit.name().unwrap_or(NONE).to_owned();
        if column.is_estimate {
            unit += &format!(", within {:.1}%", PERCENTILE_ERROR * 100.0);
        }
        let short = column.short_names().into_iter().next();
        vec![
            left(&column.name),
            left(short.unwrap_or_else(|| NONE.into())),
            left(unit),
            left(if column.is_usual {
                "yes"
            } else {
                "if asked for"
            }),
        ]
    };
    Table {
        title: Vec::new(),
        header: ["column", "or", "unit", "in csv, json, parquet, arrow"]
            .map(left)
            .into(),
        lines: R::columns().into_iter().map(line).collect(),
    }
}

fn cell<R>(column: &Column<R>, value: &Value<'_>, zone: Zone) -> Cell {
    if let Some(number) = value.number().filter(|_| column.is_number()) {
        return right(column.unit.show(number));
    }
    match value {
        Value::Null if column.is_number() => right(NONE),
        Value::Null => left(NONE),
        Value::Time(time) => left(format!("{}{}", show(*time, zone), show_offset(*time, zone))),
        other => left(printable(
            &text::plain(&column.data_type, other).unwrap_or_default(),
        )),
    }
}
