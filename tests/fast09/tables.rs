//! Compares tables: rows by key, numbers with the precision of their output.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::blocks::Differences;
use super::compare::Printed;
use super::edge::{CsvRow, csv_rows};

/// Rows by key: the numbers of each.
pub type Keyed = BTreeMap<Vec<String>, Vec<f64>>;

/// A text in a row of the program; "any" if the column is missing.
pub fn text(row: &Value, name: &str) -> String {
    match &row[name] {
        Value::Null => "*".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number of a row of the program.
pub fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(f64::NAN)
}

/// Rows of CSV by some columns, with numbers of others.
pub fn of_csv(path: &Path, keys: &[&str], numbers: &[&str]) -> Keyed {
    let rows = csv_rows(path).into_iter();
    rows.map(|row| {
        let texts = keys.iter().map(|name| row[*name].clone()).collect();
        let numbers = numbers
            .iter()
            .map(|name| row[*name].parse().expect("a number"));
        (texts, numbers.collect())
    })
    .collect()
}

/// Compares rows. `printed` has the precision of each number.
pub fn compare(found: &Keyed, expected: &Keyed, printed: &[Printed]) -> Differences {
    let mut differences = Vec::new();
    for (key, numbers) in expected {
        let Some(found) = found.get(key) else {
            differences.push(format!("{key:?} is missing"));
            continue;
        };
        for ((found, expected), printed) in found.iter().zip(numbers).zip(printed) {
            printed.check(&format!("{key:?}"), *found, *expected, &mut differences);
        }
    }
    let more = found.keys().filter(|key| !expected.contains_key(*key));
    differences.extend(more.map(|key| format!("{key:?} is not expected")));
    differences
}

/// Most decimals in a column of texts.
pub fn decimals(rows: &[CsvRow], name: &str) -> i32 {
    let texts = rows.iter().map(|row| &row[name]);
    let decimals = texts.map(|text| text.split_once('.').map_or(0, |(_, part)| part.len()));
    i32::try_from(decimals.max().unwrap_or(0)).expect("few decimals")
}
