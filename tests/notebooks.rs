//! The recipes of docs/notebooks.md, each run and compared with what `trackiops query` answers. They need a Python with what they
//! import, which `make` brings (`make notebooks`, `make science`): TRACKIOPS_PYTHON is its path.
#![allow(clippy::expect_used, clippy::unwrap_used)] // helpers of tests are tests

mod common;
#[path = "../query/tests/common/mod.rs"]
mod recordings;

use std::path::Path;

use recordings::{THREE, file, options, record, used_by, windows};
use trackiops_schemas::rollup::FileRow;

const PATHS: [&str; 8] = [
    "/mnt/nfs/db/orders.db",
    "/mnt/nfs/db/orders.idx",
    "/mnt/nfs/db/old/orders.db",
    "/mnt/nfs/dbx",
    "/mnt/nfs/logs/app.log",
    "/mnt/nfs/media/movie.mkv",
    "/mnt/nfs/www/index.html",
    "/mnt/nfs/www/it's.html",
];

/// Four minutes of files, some of which two tenants use, with a rotation in the middle of a minute and a gap.
fn store(dir: &Path) {
    let mut recorded = windows(21, THREE, 1000, 240, 2 * PATHS.len() as u64);
    for window in &mut recorded {
        for (i, row) in window.rows.iter_mut().enumerate() {
            let place = i % PATHS.len();
            let file = file(place as u64 + 1, Some(PATHS[place]));
            row.file = match i < PATHS.len() {
                true => file,
                false => used_by(&file, "1000:/batch.slice"),
            };
        }
        window
            .rows
            .sort_by_key(|row: &FileRow| (row.file.key, row.file.tenant.clone()));
    }
    recorded.drain(70..83);
    recorded[100].health.covered_ms = 300;
    record(
        &dir.join("store"),
        options("h", "1s,10s,1m", "90s"),
        &recorded,
    );
}

fn run(engines: &[&str]) {
    let python = std::env::var("TRACKIOPS_PYTHON").expect("make sets TRACKIOPS_PYTHON");
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = common::command(Path::new(&python))
        .arg(root.join("tests/science/run.py"))
        .arg(env!("CARGO_BIN_EXE_trackiops"))
        .arg(root.join("docs/notebooks.md"))
        .args(engines)
        .current_dir(dir.path())
        .env("TZ", "UTC")
        .output()
        .expect("Python can be started");
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}{errors}");
    print!("{said}");
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn recipes_of_duckdb_polars_and_pandas_answer_as_the_query_does() {
    run(&["DuckDB", "Polars", "pandas"]);
}

#[test]
#[ignore = "make science: needs a Python with PySpark, and Java"]
fn spark_recipes_answer_as_the_query_does() {
    run(&["PySpark"]);
}
