//! Runs `trackiops analyze`.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Rows of a table, as JSON objects.
pub type Rows = Vec<Value>;

/// The program's output for a source with these arguments.
pub fn output(source: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trackiops"))
        .arg("analyze")
        .args(args)
        .arg(source)
        .env("TZ", "UTC")
        .output()
        .expect("it starts")
}

/// A table, as JSON.
pub fn rows(source: &Path, args: &[&str], table: &str) -> Rows {
    let args = [args, &["--format", "json", "--table", table]].concat();
    let output = output(source, &args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect()
}

/// The value for a name in a table of counts.
pub fn count(counts: &Rows, what: &str) -> f64 {
    let row = counts.iter().find(|row| row["what"] == what);
    let row = row.unwrap_or_else(|| panic!("no count {what} in {counts:?}"));
    row["value"].as_f64().expect("a number")
}
