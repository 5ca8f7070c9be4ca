//! Small artificial inputs for cases that the samples lack.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::blocks::{Blocks, Differences};
use super::compare::Printed;
use super::tables::text;
use super::write_parquet::{Column, write};
use super::{distributions, others, program, sequentiality};

/// A row of CSV, by name of column.
pub type CsvRow = BTreeMap<String, String>;

/// Compares all edge cases that exist.
pub fn compare(dir: &Path, blocks: &mut Blocks) {
    let work = tempfile::tempdir().expect("a directory");
    if dir.join("sequentiality.json").is_file() {
        compare_sequentiality(dir, work.path(), blocks);
    }
    if dir.join("server_latency.json").is_file() {
        let path = work.path().join("messages.parquet");
        write_messages(&path, &csv_rows(&dir.join("messages.csv")));
        let expected = sequentiality::json(&dir.join("server_latency.json"));
        blocks.add("edge/server_latency", compare_latency(&path, &expected));
    }
    if dir.join("xids.json").is_file() {
        let path = work.path().join("xids.parquet");
        write_messages(&path, &csv_rows(&dir.join("xids.csv")));
        let expected = sequentiality::json(&dir.join("xids.json"));
        let mut counts = expected["counts"].clone();
        counts["skip_after"] = expected["skip_after"].clone();
        let batch = expected["batch"].as_u64();
        blocks.add("edge/xids", others::compare_xids(&path, &counts, batch));
    }
}

fn compare_sequentiality(dir: &Path, work: &Path, blocks: &mut Blocks) {
    let expected = sequentiality::json(&dir.join("sequentiality.json"));
    let rows = csv_rows(&dir.join("io.csv"));
    for (case, orders) in expected.as_object().expect("cases") {
        let mut of_case: Vec<_> = rows.iter().filter(|row| row["case"] == *case).collect();
        // Files must have requests in order of completion.
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
        (
            "latency_ns",
            numbers(&|row| Some(number(row, "end_ns")? - number(row, "start_ns")?)),
        ),
        ("host", texts(&|row| row["client"].clone())),
        ("mount", texts(&|row| format!("{}:/", row["server"]))),
        (
            "file_key",
            numbers(&|row| Some(xxh3_64(row["fh"].as_bytes()).cast_signed())),
        ),
        (
            "op",
            texts(&|row| {
                if row["is_read"] == "true" {
                    "READ"
                } else {
                    "WRITE"
                }
                .to_owned()
            }),
        ),
        ("offset_bytes", numbers(&of("offset"))),
        ("done_bytes", numbers(&of("bytes"))),
        ("file_size", numbers(&of("file_size"))),
    ];
    write(path, columns);
}

fn write_messages(path: &Path, rows: &[CsvRow]) {
    let texts = |name: &str| Column::Texts(rows.iter().map(|row| row.get(name).cloned()).collect());
    let numbers = |name: &str| {
        let number = |row: &CsvRow| row.get(name).map(|text| text.parse().expect("a number"));
        Column::Numbers(rows.iter().map(number).collect())
    };
    let calls = rows.iter().map(|row| Some(row["is_request"] == "true"));
    let columns = vec![
        ("time_ns", numbers("time_ns")),
        ("src_ip", texts("src_ip")),
        ("dst_ip", texts("dst_ip")),
        ("is_request", Column::Flags(calls.collect())),
        ("xid", numbers("xid")),
        ("op", texts("op")),
        ("payload_bytes", numbers("payload_bytes")),
    ];
    write(path, columns);
}

/// Compares latencies, which are few and listed one by one.
fn compare_latency(source: &Path, expected: &Value) -> Differences {
    // Divisible by all small numbers of values, so each value is a quantile.
    const PARTS: usize = 2520;
    let quantiles = format!("--quantiles={PARTS}");
    let args = ["latency", "--of=messages", &quantiles];
    let counts = program::rows(source, &args, "counts");
    let mut differences = others::compare_counts(&counts, &expected["summary"], Printed::Double);
    let rows = program::rows(source, &args, "latencies");
    let all = expected["rows"].as_array().expect("rows");
    if rows.len() != all.len() {
        differences.push(format!("{} rows instead of {}", rows.len(), all.len()));
    }
    for expected in all {
        let is_same = |row: &&Value| {
            ["server", "op"]
                .iter()
                .all(|name| row[name] == expected[name])
        };
        let Some(row) = rows.iter().find(is_same) else {
            differences.push(format!("{expected} is missing"));
            continue;
        };
        let values = distributions::numbers(&row["quantiles"]);
        let count = row["n"].as_u64().expect("a count") as usize;
        assert_eq!(PARTS % count, 0, "{count} values");
        let places = (1..count).map(|rank| values[rank * PARTS / count - 1]);
        let found: Vec<_> = places.chain(row["max"].as_f64()).collect();
        let latencies = distributions::numbers(&expected["latencies_ms"]);
        if found != latencies || row["duplicated_operations"] != expected["duplicated_operations"] {
            differences.push(format!(
                "{} {}: {found:?} instead of {latencies:?}",
                text(row, "server"),
                text(row, "op")
            ));
        }
    }
    differences
}

/// A number of a row; empty is unknown.
pub fn number(row: &CsvRow, name: &str) -> Option<i64> {
    let text = &row[name];
    (!text.is_empty()).then(|| text.parse().expect("a number"))
}

/// Rows of a file of CSV.
pub fn csv_rows(path: &Path) -> Vec<CsvRow> {
    let mut reader = csv::Reader::from_path(path).expect("it opens");
    reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect()
}
