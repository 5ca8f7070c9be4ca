//! A question in the flags of `trackiops query`, and its answers in every format.

use std::fs;
use std::path::Path;
use std::process::Command;
use trackiops_testkit::program;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use serde_json::{Value as Json, json};
use trackiops_render::formats::Reader;
use trackiops_render::pseudonym::known_schemas;

/// The whole recording, without rows that a recorder adds meanwhile.
pub const ALL: [&str; 4] = [
    "--since",
    "2026-11-21T03:00:00Z",
    "--until",
    "2026-11-21T03:02:30Z",
];
/// Default number of rows in a table; --step, --top and --file change it.
const MOST_ROWS: usize = 20;

/// Columns, and rows of them.
pub type Answer = (Vec<String>, Vec<Vec<Json>>);

/// A question's flags.
#[derive(Clone)]
pub struct Question {
    pub words: Vec<String>,
    is_ranged: bool,
}

impl Question {
    pub fn all() -> Vec<Self> {
        let lines = include_str!("questions.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        lines.map(Self::parse).collect()
    }

    /// A question about the whole recording.
    pub fn asking(words: &[&[&str]]) -> Self {
        let words = words.concat();
        let words = words.iter().chain(&ALL).map(|word| (*word).to_owned());
        Self {
            words: words.collect(),
            is_ranged: false,
        }
    }

    /// Splits a line into words; single quotes group.
    fn parse(line: &str) -> Self {
        let mut words = Vec::new();
        for (i, part) in line.split('\'').enumerate() {
            match i % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        let is_ranged = line.contains("--since");
        if !is_ranged {
            words.extend(ALL.map(str::to_owned));
        }
        Self { words, is_ranged }
    }

    pub fn value(&self, flag: &str) -> Option<&str> {
        let place = self.words.iter().position(|word| word == flag)?;
        Some(&self.words[place + 1])
    }

    pub fn columns(&self) -> Vec<&str> {
        self.value("--columns").unwrap().split(',').collect()
    }

    /// Whether windows of ten seconds suffice to answer it.
    pub fn is_coarse(&self) -> bool {
        self.value("--step") != Some("1s") && !self.is_ranged
    }

    /// Whether an export has its data: operations of files, but not operations of mounts.
    pub fn is_of_files(&self) -> bool {
        match (self.value("--by"), self.value("--op")) {
            (Some(by), _) => !["op", "op,transport"].contains(&by),
            (None, op) => op != Some("read,getattr"),
        }
    }

    /// Most rows of the table.
    pub fn most_rows(&self) -> usize {
        let says = ["--step", "--top", "--file"];
        match says.iter().any(|flag| self.value(flag).is_some()) {
            true => usize::MAX,
            false => MOST_ROWS,
        }
    }

    /// The program's answer.
    pub fn ask(&self, dir: &Path, stores: &[&str], more: &[&str]) -> Vec<u8> {
        let stores = stores.iter().flat_map(|store| ["--store", store]);
        let mut command = program(dir);
        let words = self.words.iter().map(String::as_str);
        command.arg("query").args(stores).args(words).args(more);
        command.env("COLUMNS", "400").env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.words.join(" "));
        output.stdout
    }

    pub fn lines(&self, dir: &Path, stores: &[&str], more: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.ask(dir, stores, more)).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Rows of JSON, and the columns that they have.
    pub fn json(&self, dir: &Path, stores: &[&str]) -> Answer {
        let lines = self.lines(dir, stores, &["--json"]);
        let row = |line: &String| -> Row { with_numbers(serde_json::from_str(line).unwrap()) };
        // The map sorts names; the text has them in the order of columns.
        let rows: Vec<_> = lines.iter().map(row).collect();
        let first = &lines[0];
        let mut names: Vec<_> = rows[0].keys().cloned().collect();
        names.sort_by_key(|name| first.find(&format!("\"{name}\":")).unwrap());
        let rows = rows.iter().map(|row| values(row, &names)).collect();
        (names, rows)
    }
}

/// A row of JSON.
pub type Row = serde_json::Map<String, Json>;

/// Converts identifiers to signed numbers, as in other formats: in JSON they are text.
pub fn with_numbers(mut row: Row) -> Row {
    for identifier in ["file_key", "fileid"] {
        let Some(Json::String(text)) = row.get(identifier) else {
            continue;
        };
        let signed = text.parse::<i64>().ok();
        let signed = signed.or_else(|| Some(text.parse::<u64>().ok()?.cast_signed()));
        row.insert(identifier.to_owned(), json!(signed.unwrap()));
    }
    row
}

/// The values of a row, in the order of names.
pub fn values(row: &Row, names: &[String]) -> Vec<Json> {
    names.iter().map(|name| row[name].clone()).collect()
}

pub fn program(dir: &Path) -> Command {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.current_dir(dir).env("TZ", "UTC0");
    command
}

pub const BOTH: [&str; 2] = ["one", "two"];

/// The value of a CSV cell, by the type in JSON.
pub fn csv_value(cell: &str, like: &Json) -> Json {
    match (cell, like) {
        ("", Json::Null) => Json::Null,
        (cell, Json::String(_)) => json!(cell),
        (cell, _) => serde_json::from_str(cell).unwrap_or_else(|_| json!(cell)),
    }
}

/// The values of CSV lines, by the types in JSON.
pub fn csv_rows(text: &[u8], like: &[Vec<Json>]) -> Vec<Vec<Json>> {
    let mut reader = csv::Reader::from_reader(text);
    let rows = reader.records().map(|row| row.unwrap());
    let none = Vec::new();
    let row = |(i, row): (usize, csv::StringRecord)| {
        row.iter()
            .zip(like.get(i).unwrap_or(&none))
            .map(|(cell, like)| csv_value(cell, like))
            .collect()
    };
    rows.enumerate().map(row).collect()
}

/// The rows of a Parquet or Arrow file.
pub fn file_rows(bytes: &[u8]) -> Vec<Vec<Json>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let reader = Reader::open(file.path(), &known_schemas()).unwrap();
    let rows = |batch: RecordBatch| {
        let row = |i| {
            batch
                .columns()
                .iter()
                .map(|column| value(column, i))
                .collect()
        };
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    };
    reader.flat_map(|batch| rows(batch.unwrap())).collect()
}

pub fn value(column: &dyn Array, i: usize) -> Json {
    if column.is_null(i) {
        return Json::Null;
    }
    match column.data_type() {
        DataType::Utf8 => json!(column.as_string::<i32>().value(i)),
        DataType::Boolean => json!(column.as_boolean().value(i)),
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(i)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(i)),
        DataType::Float64 => json!(column.as_primitive::<Float64Type>().value(i)),
        DataType::Timestamp(..) => {
            let us = column.as_primitive::<TimestampMicrosecondType>().value(i);
            let time = chrono::DateTime::from_timestamp_micros(us).unwrap();
            json!(time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        }
        other => panic!("no column is {other}"),
    }
}
