//! Small made-up inputs, for what samples do not have.

use std::collections::BTreeMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::blocks::Blocks;
use super::sequentiality;
use super::write_parquet::{Column, write};

/// A row of CSV, by name of column.
pub type CsvRow = BTreeMap<String, String>;

/// Compares all edge cases that are there.
pub fn compare(dir: &Path, blocks: &mut Blocks) {
    let work = tempfile::tempdir().expect("a directory");
    if dir.join("sequentiality.json").is_file() {
        compare_sequentiality(dir, work.path(), blocks);
    }
}

fn compare_sequentiality(dir: &Path, work: &Path, blocks: &mut Blocks) {
    let expected = sequentiality::json(&dir.join("sequentiality.json"));
    let rows = csv_rows(&dir.join("io.csv"));
    for (case, orders) in expected.as_object().expect("cases") {
        let mut of_case: Vec<_> = rows.iter().filter(|row| row["case"] == *case).collect();
        // Files have requests in order of completion.
        of_case.sort_by_key(|row| number(row, "end_ns"));
        let path = work.join("requests.parquet");
        write_requests(&path, &of_case);
        for (order, expected) in orders.as_object().expect("orders") {
            let differences = sequentiality::compare_edge(&path, order, expected);
            blocks.add(&format!("edge/sequentiality/{case}/{order}"), differences);
        }
    }
}

fn write_requests(path: &Path, rows: &[&CsvRow]) {
    let texts = |of: &dyn Fn(&CsvRow) -> String| {
        Column::Texts(rows.iter().map(|row| Some(of(row))).collect())
    };
    let numbers = |of: &dyn Fn(&CsvRow) -> Option<i64>| {
        Column::Numbers(rows.iter().map(|row| of(row)).collect())
    };
    let of = |name: &'static str| move |row: &CsvRow| number(row, name);
    let columns = vec![
        ("end_time_ns", numbers(&of("end_ns"))),
        ("latency_ns", numbers(&|row| Some(number(row, "end_ns")? - number(row, "start_ns")?))),
        ("host", texts(&|row| row["client"].clone())),
        ("mount", texts(&|row| format!("{}:/", row["server"]))),
        ("file_key", numbers(&|row| Some(xxh3_64(row["fh"].as_bytes()).cast_signed()))),
        ("op", texts(&|row| if row["is_read"] == "true" { "READ" } else { "WRITE" }.to_owned())),
        ("offset_bytes", numbers(&of("offset"))),
        ("done_bytes", numbers(&of("bytes"))),
        ("file_size", numbers(&of("file_size"))),
    ];
    write(path, columns);
}

/// A number of a row; empty is unknown.
pub fn number(row: &CsvRow, name: &str) -> Option<i64> {
    let text = &row[name];
    (!text.is_empty()).then(|| text.parse().expect("a number"))
}

/// Rows of a file of CSV.
pub fn csv_rows(path: &Path) -> Vec<CsvRow> {
    let mut reader = csv::Reader::from_path(path).expect("it opens");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}
