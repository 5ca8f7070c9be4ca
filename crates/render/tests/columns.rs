//! With any choice of columns, each value equals that in the whole row, in every format.

use std::fs::File;
use std::io::{Cursor, Write};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use trackiops_query::columns::{Column, META_ERROR};
use trackiops_query::times::Zone;
use trackiops_query::{Answer, AnswerRow, Columns, Outcome, Question, Record, Step, ask};
use trackiops_render::Format;
use trackiops_schemas::unit::META_UNIT;
use trackiops_testkit::generated::{THREE, folded_windows, windows};
use trackiops_testkit::questions::{found, question};
use trackiops_testkit::stores::{append, options_of, record};

fn written(answer: &Answer, columns: &Columns<AnswerRow>, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    trackiops_render::write_columns(answer, columns, format, Zone::utc(), &mut out).unwrap();
    out
}

fn parquet(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let reader: ParquetRecordBatchReaderBuilder<File> =
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}

fn arrow(bytes: Vec<u8>) -> Vec<RecordBatch> {
    let reader = arrow_ipc::reader::FileReader::try_new(Cursor::new(bytes), None).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn parquet_arrow_and_json_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let windows = folded_windows(3, THREE, 1000, 40, 6);
    record(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
    let answer = found(&question(dir.path()));
    let columns = Columns::usual();
    let json = String::from_utf8(written(&answer, &columns, Format::Json)).unwrap();
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for batches in [
        parquet(written(&answer, &columns, Format::Parquet)),
        arrow(written(&answer, &columns, Format::Arrow)),
    ] {
        let mut rows = lines.iter();
        for batch in &batches {
            let p99 = batch.schema();
            let p99 = p99.field_with_name("read_latency_us_p99").unwrap().clone();
            assert_eq!(p99.metadata()[META_UNIT], "us");
            assert_eq!(p99.metadata()[META_ERROR], "0.011");
            let of_calls = batch.schema();
            let of_calls = of_calls.field_with_name("app_read_latency_us_p99");
            assert_eq!(of_calls.unwrap().metadata()[META_ERROR], "0.075");
            let column = |name: &str| batch.column_by_name(name).unwrap();
            for i in 0..batch.num_rows() {
                let row = rows.next().unwrap();
                let same = |is_null: bool, name: &str| assert_eq!(is_null, row[name].is_null());
                let bytes = column("read_bytes").as_primitive::<Int64Type>();
                assert_eq!(bytes.value(i), row["read_bytes"].as_i64().unwrap());
                let key = column("file_key").as_primitive::<Int64Type>();
                let text = row["file_key"].as_str().unwrap();
                assert_eq!(key.value(i), text.parse::<i64>().unwrap());
                let p99 = column("read_latency_us_p99").as_primitive::<Float64Type>();
                same(p99.is_null(i), "read_latency_us_p99");
                if p99.is_valid(i) {
                    assert_eq!(Some(p99.value(i)), row["read_latency_us_p99"].as_f64());
                }
                let path = column("path").as_string::<i32>();
                same(path.is_null(i), "path");
                assert_eq!(
                    path.is_valid(i).then(|| path.value(i)),
                    row["path"].as_str()
                );
                let buckets = column("read_latency_hist").as_list::<i32>().value(i);
                let counts = buckets.as_struct().column(1).as_primitive::<Int64Type>();
                let in_json = row["read_latency_hist"].as_array().unwrap();
                assert_eq!(counts.len(), in_json.len());
                for (count, bucket) in counts.values().iter().zip(in_json) {
                    assert_eq!(Some(*count), bucket["count"].as_i64());
                }
            }
        }
        assert!(rows.next().is_none());
    }
}

#[test]
fn half_of_a_binary_answer_is_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(3, THREE, 1000, 40, 6);
    record(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
    let answer = found(&question(dir.path()));
    for format in [Format::Parquet, Format::Arrow] {
        let whole = written(&answer, &Columns::usual(), format);
        let half = whole[..whole.len() - 20].to_vec();
        let read = match format {
            Format::Parquet => {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&half).unwrap();
                ParquetRecordBatchReaderBuilder::try_new(file).is_ok()
            }
            _ => arrow_ipc::reader::FileReader::try_new(Cursor::new(half), None).is_ok(),
        };
        assert!(!read, "{format:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The query must read all inputs of a column, whichever other columns are chosen.
    #[test]
    fn chosen_columns_are_those_of_the_whole_answer(
        seed in 0_u64..1000,
        picks in prop::collection::vec(0_usize..1000, 1..5),
        all in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let windows = folded_windows(seed, THREE, 1000, 70, 5);
        // Only a part of it is sealed.
        let writer = append(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
        drop(writer);
        let names: Vec<String> = AnswerRow::columns().into_iter().map(|c| c.name).collect();
        let mut chosen: Vec<_> = picks.iter().map(|pick| names[pick % names.len()].clone()).collect();
        chosen.sort();
        chosen.dedup();
        let columns = Columns::<AnswerRow>::parse(&chosen.join(",")).unwrap();
        let whole = Question {
            step: all.then_some(Step::All),
            ..question(dir.path())
        };
        let part = Question { projection: columns.needs(), ..whole.clone() };
        let values = |question: &Question| {
            let Outcome::Found(answer) = ask(question).unwrap() else {
                panic!("nothing found");
            };
            let row = |row: &AnswerRow| {
                let value = |column: &Column<AnswerRow>| format!("{:?}", column.value(row));
                columns.iter().map(value).collect::<Vec<_>>()
            };
            answer.rows.iter().map(row).collect::<Vec<_>>()
        };
        prop_assert_eq!(values(&whole), values(&part));
    }
}
