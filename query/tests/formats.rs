//! What an earlier version of the format has not is not known, and nothing else is lost.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::*;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trackiops_query::{Connections, Nothing, Outcome, ask_operations};
use trackiops_schemas::columns::META_FORMAT;

/// What columns that came with version 2 end in.
const SINCE_2: [&str; 10] = [
    "queue_us_sum",
    "rtt_us_sum",
    "retrans",
    "unsplit",
    "direct",
    "stable",
    "errors_by_errno",
    "ops_covered_ms",
    "ops_seen",
    "ops_missed",
];

/// Makes segments what version 1 would have written.
fn make_older(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_older(&path);
        } else if path.extension().is_some_and(|ext| ext == "parquet") {
            make_segment_older(&path);
        }
    }
}

fn make_segment_older(path: &PathBuf) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let of_1 = |name: &str| {
        !name.starts_with("pending_") && !SINCE_2.iter().any(|column| name.ends_with(column))
    };
    let fields = reader.schema().fields().iter().enumerate();
    let kept: Vec<usize> = fields
        .filter(|(_, field)| of_1(field.name()))
        .map(|(at, _)| at)
        .collect();
    assert!(kept.len() < reader.schema().fields().len());
    let schema = reader.schema().project(&kept).unwrap();
    let version = KeyValue::new(META_FORMAT.to_owned(), "1".to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version]));
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.into(), Some(properties.build())).unwrap();
    for batch in batches {
        writer.write(&batch.project(&kept).unwrap()).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn segments_of_version_1_are_read_without_what_they_have_not() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(4, THREE, 1000, 30, 3);
    record(dir.path(), options("h", "1s,10s", "1m"), &windows);
    let asked = question(dir.path());
    let before = found(&asked);
    make_older(dir.path());
    let after = found(&asked);
    assert_eq!(before.rows.len(), after.rows.len());
    for (before, after) in before.rows.iter().zip(&after.rows) {
        for (before, after) in [
            (before.sum.read(), after.sum.read()),
            (before.sum.write(), after.sum.write()),
        ] {
            assert_eq!(
                (before.requests, before.bytes, &before.latency),
                (after.requests, after.bytes, &after.latency)
            );
            assert_eq!(after.parts_ns_mean(), None);
        }
        assert_eq!(before.covered_ms, after.covered_ms);
    }
    match ask_operations(&asked, Connections::Together).unwrap() {
        Outcome::Nothing { why, .. } => assert!(matches!(why, Nothing::LeftOut { .. }), "{why:?}"),
        Outcome::Found(answer) => panic!("{answer:?}"),
    }
}
