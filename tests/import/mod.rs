//! `trackiops import`: stores of captures and traces match the counts of other tools.
//!
//! Traces of other tools are not in the repository: `TRACKIOPS_FAST09` is their folder.

mod account;
mod csv;
mod long;
mod messages;
mod nfsdump;
mod packets;
mod pcap;
mod resume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use trackiops_testkit::program;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A capture of some requests.
pub fn some_capture() -> Vec<u8> {
    packets::pcap(packets::START_S, &packets::some_requests())
}

/// Text of nfsdump.
pub fn some_nfsdump() -> &'static str {
    nfsdump::LINES
}

/// Runs the program.
fn trackiops(words: &[&str]) -> Output {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(words).env("TZ", "UTC0").output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

type Row = BTreeMap<String, String>;

/// The rows of an answer as CSV.
fn rows(words: &[&str]) -> Vec<Row> {
    let output = trackiops(words);
    assert!(output.status.success(), "{output:?}");
    let mut reader = ::csv::Reader::from_reader(&output.stdout[..]);
    reader.deserialize().map(Result::unwrap).collect()
}

/// The columns that identify a request, in the order of [`lines`].
const OF_A_REQUEST: [&str; 13] = [
    "host",
    "mount",
    "path",
    "fileid",
    "uid",
    "op",
    "offset_bytes",
    "asked_bytes",
    "done_bytes",
    "latency_ns",
    "eof",
    "errno",
    "xid",
];

/// The single requests of a store.
fn requests(store: &Path) -> Vec<Row> {
    let words = ["requests", "--since", "1990-01-01", "--csv", "--store"];
    rows(&[&words[..], &[text(store)]].concat())
}

/// A line for each row, with these columns, sorted.
fn lines<const N: usize>(rows: &[Row], columns: [&str; N]) -> Vec<String> {
    let line = |row: &Row| columns.map(|column| row[column].clone()).join(" ");
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort();
    lines
}

/// Requests of a store by operation, from its rows of operations.
fn operations(store: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let words = [
        "query",
        "--since",
        "1990-01-01",
        "--by",
        "op",
        "--csv",
        "--store",
        text(store),
    ];
    for row in rows(&words) {
        *counts.entry(row["op"].clone()).or_default() += row["requests"].parse::<u64>().unwrap();
    }
    counts
}

/// Flags for one row per host. The store follows.
const BY_HOST: [&str; 7] = [
    "query",
    "--since",
    "1990-01-01",
    "--by",
    "host",
    "--csv",
    "--store",
];

/// READs and WRITEs of a store, and their bytes, from its rows of files.
fn transfers(store: &Path) -> [(u64, u64); 2] {
    let output = trackiops(&[&BY_HOST[..], &[text(store)]].concat());
    let mut reader = ::csv::Reader::from_reader(&output.stdout[..]);
    let mut sums = [(0, 0); 2];
    for row in reader.deserialize::<Row>().map(Result::unwrap) {
        for (sum, direction) in sums.iter_mut().zip(["read", "write"]) {
            let number = |column: &str| row[&format!("{direction}_{column}")].parse().unwrap_or(0);
            *sum = (sum.0 + number("requests"), sum.1 + number("bytes"));
        }
    }
    sums
}

/// A folder of traces of other tools. Prints a message if it does not exist.
fn shared(folder: &str) -> Option<PathBuf> {
    let beside = Path::new(ROOT).join("../shared/fast09");
    let traces = std::env::var_os("TRACKIOPS_FAST09").map_or(beside, PathBuf::from);
    let folder = traces.join(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    println!(
        "skipped: {} is not there; TRACKIOPS_FAST09 says where the traces are",
        folder.display()
    );
    None
}
