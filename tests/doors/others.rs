//! Ways to query besides the command: the API of the page, the screen of `top`, and piped exports.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow_ipc::reader::StreamReader;
use serde_json::{Value as Json, json};
use trackiops_render::formats::Reader;
use trackiops_render::pseudonym::known_schemas;

use super::question::{
    ALL, Answer, BOTH, Question, Row, csv_value, program, value, values, with_numbers,
};
use super::table::is_shown;
use super::{compare, each, same};
use crate::server::{Server, trackiops};

/// Percent-encodes all bytes except letters and digits.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Queries `trackiops serve` like the page does.
pub fn compare_api(dir: &Path, questions: &[Question], answers: &[Answer]) {
    let mut command = trackiops(dir);
    command.current_dir(dir).env("TZ", "UTC0");
    command.args(["serve", "--listen", "127.0.0.1:0", "--socket", "none"]);
    command.args(BOTH.iter().flat_map(|store| ["--store", store]));
    let mut server = Server::start(&mut command, "serving at http://");
    let said = server.address.clone();
    let (address, token) = said.split_once("/?token=").unwrap();
    server.address = address.to_owned();
    let headers = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
    let all: Vec<_> = questions.iter().zip(answers).collect();
    each(&all, |(question, (names, rows))| {
        let words = question.words.chunks(2).map(|pair| {
            let name = pair[0].trim_start_matches("--");
            format!("{name}={}", escaped(&pair[1]))
        });
        let words = words.collect::<Vec<_>>().join("&");
        let (head, body) = server.get(&format!("/api/v1/series?{words}"), &headers);
        assert!(head.contains(" 200 "), "{words}: {head}");
        let body: Json = serde_json::from_slice(&body).unwrap();
        let answered = body["rows"].as_array().unwrap().iter();
        let row = |row: &Json| values(&with_numbers(row.as_object().unwrap().clone()), names);
        compare(
            "API",
            question,
            rows,
            &answered.map(row).collect::<Vec<_>>(),
        );
    });
}

/// A frame of `top` shows the same as the answer of the command.
pub fn compare_top(dir: &Path) {
    const COLUMNS: &str = "path,host,iops,throughput,took,p99,errors";
    let by_time = ["--sort", "took", "--columns", COLUMNS];
    let question = Question::asking(&[&["--by", "file", "--step", "all"], &by_time[..]]);
    let (names, mut rows) = question.json(dir, &BOTH);
    let mut command = program(dir);
    command.args(["top", "--once", "--since", ALL[1], "--step", "150s"]);
    command.args(BOTH.iter().flat_map(|store| ["--store", store]));
    let output = command.env("COLUMNS", "200").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let lines = text.lines().skip_while(|line| !line.starts_with("name "));
    let mut shown = 0;
    for line in lines.skip(1).take_while(|line| line.contains("B/s")) {
        let cells: Vec<&str> = line.split("  ").map(str::trim).collect();
        let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        let [name, iops, throughput, took, _, p99, _, errors, ..] = cells[..] else {
            panic!("{line}");
        };
        // Two stores have two hosts.
        let (name, host) = name.rsplit_once(" on ").expect(line);
        // The mount of requests that belong to no file.
        let rest = name
            .split_inclusive(')')
            .next()
            .filter(|_| name.starts_with('('));
        let name = rest.unwrap_or(name);
        let errors = errors.split(' ').next().unwrap();
        let cells = [name, host, iops, throughput, took, p99, errors];
        let is_row = |row: &Vec<Json>| {
            let mut all = names.iter().zip(row).zip(cells);
            all.all(|((column, value), cell)| {
                // A file without a name shows its number.
                column == "path" && value.is_null() || is_shown(cell, column, value)
            })
        };
        let place = rows.iter().position(is_row);
        rows.remove(place.unwrap_or_else(|| panic!("{line}\nis none of {rows:?}")));
        shown += 1;
    }
    assert!(shown > 10, "{text}");
}

/// The output of `export`.
fn exported(dir: &Path, more: &[&str]) -> Vec<u8> {
    let mut command = program(dir);
    command.args(["export", "--granularity", "10s"]).args(ALL);
    command.args(BOTH.iter().flat_map(|store| ["--store", store]));
    let output = command.args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{more:?}: {said}");
    output.stdout
}

fn batches(path: &Path) -> Vec<RecordBatch> {
    let reader = Reader::open(path, &known_schemas()).unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

/// Rows without lists.
fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        for i in 0..batch.num_rows() {
            let fields = schema.fields().iter().zip(batch.columns());
            let plain = fields.filter(|(field, _)| !matches!(field.data_type(), DataType::List(_)));
            let plain = plain.map(|(field, column)| (field.name().clone(), value(column, i)));
            rows.push(plain.collect());
        }
    }
    rows
}

/// A piped export has the same rows as one written to a file.
pub fn compare_streams(dir: &Path) {
    exported(dir, &["-o", "whole.parquet"]);
    let expected = rows_of(&batches(&dir.join("whole.parquet")));
    assert!(!expected.is_empty());
    let piped = |format| exported(dir, &["-o", "-", "--format", format]);
    let arrow = piped("arrow");
    let stream = StreamReader::try_new(&arrow[..], None).unwrap();
    let stream: Vec<_> = stream.map(|batch| batch.unwrap()).collect();
    assert_eq!(rows_of(&stream), expected);

    let json = String::from_utf8(piped("json")).unwrap();
    let rows: Vec<Row> = json
        .lines()
        .map(|line| with_numbers(serde_json::from_str(line).unwrap()))
        .collect();
    assert_eq!(rows.len(), expected.len());
    let csv = piped("csv");
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let names = reader.headers().unwrap().clone();
    let lines: Vec<_> = reader.records().map(|line| line.unwrap()).collect();
    assert_eq!(lines.len(), expected.len());
    for ((expected, row), line) in expected.iter().zip(&rows).zip(&lines) {
        let of_csv = |name: &str| {
            let place = names.iter().position(|of| of == name).unwrap();
            csv_value(&line[place], &expected[name])
        };
        for (name, value) in expected {
            let in_json = row.get(name).unwrap_or(&json!(null)).clone();
            assert!(same(value, &in_json), "JSON: {name}: {value} is {in_json}");
            let in_csv = of_csv(name);
            assert!(same(value, &in_csv), "CSV: {name}: {value} is {in_csv}");
        }
    }
}
