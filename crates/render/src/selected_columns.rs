//! Table of the columns in `--columns`.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;

use crate::formats::text;
use crate::table::{Cell, ESSENTIAL, KEY, NAME, NONE, Table, Times, left, right, whole};
use crate::units;
use trackiops_query::answer::Answer;
use trackiops_query::columns::{
    CALL_PERCENTILE_ERROR, Column, Columns, Estimate, PERCENTILE_ERROR, Record, Value, decimal_text,
};
use trackiops_query::times::{Zone, show, show_offset};

pub(super) fn table<R: 'static>(answer: &Answer<R>, columns: &Columns<R>, zone: Zone) -> Table {
    let times = Times::of(answer, zone, |_| answer.range.start);
    let offset = offset_of_all(answer, columns, zone);
    let header = |column: &Column<R>| {
        let mut name = column.shown_name();
        if let (DataType::Timestamp(..), Some(offset)) = (&column.data_type, &offset) {
            name += &format!(" ({offset})");
        }
        match (column.is_number(), &column.data_type) {
            (true, _) | (_, DataType::Decimal128(..)) => right(name),
            (false, DataType::Timestamp(..)) => whole(name),
            _ => left(name),
        }
    };
    let line = |row: &R| {
        let cells = columns
            .iter()
            .map(|c| cell(c, &c.shown(row), zone, offset.is_none()));
        cells.collect::<Vec<_>>()
    };
    Table {
        title: times.title(answer).into_iter().collect(),
        header: columns.iter().map(header).collect(),
        lines: answer.rows.iter().map(line).collect(),
        is_chosen: true,
    }
}

/// Table of all columns of a kind of row.
pub(super) fn list<R: Record>() -> Table {
    let line = |column: Column<R>| {
        let mut unit = column.unit.name().unwrap_or(NONE).to_owned();
        let percent = |error: f64| format!("{:.1}%", error * 100.0);
        match column.estimate {
            None => {}
            Some(Estimate::OfBoth) => {
                unit += &format!(", within {}", percent(PERCENTILE_ERROR));
                unit += &format!(", calls {}", percent(CALL_PERCENTILE_ERROR));
            }
            Some(estimate) => unit += &format!(", within {}", percent(estimate.error())),
        }
        let short = column.short_names().into_iter().next();
        vec![
            left(&column.name),
            left(short.unwrap_or_else(|| NONE.into())),
            left(unit),
            left(match (column.is_usual, column.is_list()) {
                (true, false) => "yes",
                (true, true) => "yes, in csv if asked for",
                (false, _) => "if asked for",
            }),
        ]
    };
    Table {
        title: Vec::new(),
        header: vec![
            whole("column").weighs(NAME),
            left("or").weighs(KEY),
            whole("unit").weighs(ESSENTIAL),
            whole("in csv, json, parquet, arrow").weighs(50),
        ],
        lines: R::columns().into_iter().map(line).collect(),
        is_chosen: false,
    }
}

/// The offset of local time if all cells share it; then the headers show it.
fn offset_of_all<R: 'static>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    zone: Zone,
) -> Option<String> {
    let mut offsets = BTreeSet::new();
    for column in columns.iter() {
        for row in &answer.rows {
            if let Value::Time(time) = column.value(row) {
                offsets.insert(show_offset(time, zone));
            }
        }
    }
    match offsets.len() {
        1 => offsets.pop_first(),
        _ => None,
    }
}

fn cell<R>(column: &Column<R>, value: &Value<'_>, zone: Zone, with_offset: bool) -> Cell {
    if let Some(number) = value.number().filter(|_| column.is_number()) {
        return right(units::show(column.unit, number));
    }
    match value {
        Value::Decimal(units, decimals) => right(decimal_text(*units, *decimals)),
        Value::Null if column.is_number() => right(NONE),
        Value::Null => left(NONE),
        Value::Time(time) if !with_offset => whole(show(*time, zone)),
        Value::Time(time) => whole(format!("{}{}", show(*time, zone), show_offset(*time, zone))),
        other => left(text::plain(&column.data_type, other).unwrap_or_default()),
    }
}
