//! `trackiops requests`: the first of what an export has, by any order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use trackiops_testkit::lake;

type Rows = Vec<BTreeMap<String, String>>;

fn trackiops(dir: &Path, words: &[&str]) -> Output {
    let mut stores: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    stores.sort();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(words).env("TZ", "UTC0").env("COLUMNS", "100");
    for store in &stores {
        command.arg("--store").arg(store);
    }
    command.output().unwrap()
}

fn rows(csv: &[u8]) -> Rows {
    let mut reader = csv::Reader::from_reader(csv);
    reader.deserialize().map(Result::unwrap).collect()
}

/// All single requests of a store, as an export has them.
fn exported(dir: &Path) -> Rows {
    let file = dir.join("all.csv");
    let output = trackiops(
        dir,
        &["export", "--requests", "--output", file.to_str().unwrap()],
    );
    assert!(output.status.success(), "{output:?}");
    rows(&std::fs::read(file).unwrap())
}

fn listed(dir: &Path, words: &[&str]) -> Rows {
    let output = trackiops(dir, &[&["requests", "--csv"], words].concat());
    assert!(output.status.success(), "{output:?}");
    rows(&output.stdout)
}

fn number(row: &BTreeMap<String, String>, column: &str) -> i64 {
    row[column].parse().unwrap()
}

/// What tells a request from others.
fn ids(rows: &Rows) -> Vec<(String, i64, String)> {
    let id = |row: &BTreeMap<String, String>| {
        (
            row["host"].clone(),
            number(row, "end_time_ns"),
            row["xid"].clone(),
        )
    };
    let mut ids: Vec<_> = rows.iter().map(id).collect();
    ids.sort();
    ids
}

#[test]
fn the_slowest_requests_are_those_of_an_export() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let mut all = exported(dir.path());
    assert!(all.len() > 500, "{}", all.len());
    all.sort_by_key(|row| -number(row, "latency_ns"));
    let latencies =
        |rows: &Rows| -> Vec<i64> { rows.iter().map(|row| number(row, "latency_ns")).collect() };
    // Without --top 20, the slowest first; all columns are those of the export.
    for (words, count) in [
        (vec![], 20),
        (vec!["--top", "7"], 7),
        (vec!["--top", "100000"], all.len()),
    ] {
        let found = listed(dir.path(), &words);
        assert_eq!(latencies(&found), latencies(&all)[..count]);
        assert!(found.iter().all(|row| all.contains(row)));
    }
    assert_eq!(ids(&listed(dir.path(), &["--top", "100000"])), ids(&all));
    // Of a file, and by conditions.
    let of_file = |row: &&BTreeMap<String, String>| {
        row["path"] == "/mnt/f2" && number(row, "latency_ns") > 50_000_000
    };
    let expected: Rows = all.iter().filter(of_file).cloned().collect();
    let words = [
        "--file",
        "/mnt/f2",
        "--where",
        "latency > 50ms",
        "--top",
        "100000",
    ];
    assert!(!expected.is_empty());
    assert_eq!(ids(&listed(dir.path(), &words)), ids(&expected));
    // By another order.
    let first = listed(dir.path(), &["--sort", "offset_bytes:asc", "--top", "1"]);
    let least = all
        .iter()
        .map(|row| number(row, "offset_bytes"))
        .min()
        .unwrap();
    assert_eq!(number(&first[0], "offset_bytes"), least);
}

#[test]
fn a_table_fits_and_nothing_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let output = trackiops(dir.path(), &["requests", "--top", "3"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("latency") && table.contains("/mnt/f"),
        "{table}"
    );
    println!("{table}");
    assert!(table.lines().count() <= 6, "{table}");
    for (words, said) in [
        (vec!["--where", "latency > 100s"], "no row"),
        (vec!["--op", "getattr"], "no GETATTR requests"),
    ] {
        let output = trackiops(dir.path(), &[&["requests"], &words[..]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
}
