//! A store from an earlier time is read, completed and continued. `format-1/` holds what `crates/testkit/src/golden.rs`
//! describes.
//!
//! A format without a release may still change: then remove the directory, and write it again with `cargo test -p
//! trackiops-store --test goldens -- --ignored`. Never rewrite the directory of a released format.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_schemas::columns::{ADDED, health_schema, ops_schema, request_schema, rollup_schema};
use trackiops_store::{Dataset, Names, Options, Snapshot, Writer, check, marks};
use trackiops_testkit::content::Content;
use trackiops_testkit::golden::{self, one, recorded, requests};
use trackiops_testkit::stores::options;
use trackiops_testkit::stores::{copy, open, parquet_files, recovered};
use trackiops_testkit::windows::{file, granularity};

fn recorder() -> Options {
    Options {
        filter: Some("--uid 7".into()),
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        ..options("h")
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write() {
    let golden = golden::store();
    assert!(!golden.exists(), "{} is there", golden.display());
    let mut writer = Writer::open(&golden, recorder()).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    let windows = recorded();
    writer.mounted(windows[0].start, &golden::mounts()).unwrap();
    for window in windows {
        writer.append(&window).unwrap();
        kept.append(&requests(&window)).unwrap();
    }
    for mark in golden::marks() {
        mark.add_to(&golden).unwrap();
    }
}

#[test]
fn the_golden_store_is_read() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden::store(), dir.path());
    let content = Content::stored(dir.path(), granularity("1s"));
    assert_eq!(content, Content::of(&recorded(), granularity("1s")));
    let snapshot = Snapshot::open(dir.path()).unwrap();
    assert_eq!(snapshot.tails().len(), 1);
    assert_eq!(marks(dir.path()).unwrap().marks, golden::marks());
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

#[test]
fn the_golden_store_has_all_columns_but_those_that_were_added() {
    let schemas = [
        ("rollup/", rollup_schema()),
        ("ops/", ops_schema()),
        ("health/", health_schema()),
        ("requests/", request_schema()),
    ];
    for file in parquet_files(&golden::store()) {
        let schema = schemas
            .iter()
            .find(|(dataset, _)| file.starts_with(dataset));
        let segment = std::fs::File::open(golden::store().join(&file)).unwrap();
        let stored = ParquetRecordBatchReaderBuilder::try_new(segment).unwrap();
        let fields = schema.unwrap().1.fields();
        let fields = fields.iter();
        let older: Vec<_> = fields
            .filter(|field| !ADDED.contains(&field.name().as_str()))
            .cloned()
            .collect();
        assert_eq!(stored.schema().fields()[..], older[..], "{file}");
        // No query selects rows by these columns.
        let groups = stored.metadata().row_groups().iter();
        let mut columns = groups.flat_map(|group| group.columns());
        let is_of_tcp = |name: &str| name.starts_with("tcp_") && file.starts_with("ops/");
        assert!(columns.all(|column| {
            let is_without = column.statistics().is_none();
            is_without || !is_of_tcp(&column.column_path().string())
        }));
    }
}

#[test]
fn the_golden_store_is_completed_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden::store(), dir.path());
    let mut windows = recorded();
    let (mut writer, told) = open(dir.path(), recorder());
    let last = windows[windows.len() - 1].start.0;
    windows.push(one(last + 1000, 9));
    writer.append(&windows[windows.len() - 1]).unwrap();
    writer.requests(64 << 20, |_| {}).unwrap().finish().unwrap();
    writer.finish().unwrap();
    assert_eq!(*told.lock().unwrap(), [recovered(2, 0)]);
    for text in ["1s", "10s", "1m", "1h"] {
        let granularity = granularity(text);
        assert_eq!(
            Content::stored(dir.path(), granularity),
            Content::of(&windows, granularity),
            "{text}"
        );
    }
    let snapshot = Snapshot::open(dir.path()).unwrap();
    assert!(snapshot.tails().is_empty());
    assert!(!snapshot.segments(Dataset::Ops, None).unwrap().is_empty());
    let mut named = Vec::new();
    let each = &mut |name: trackiops_store::NameSeen| named.push(name.key);
    snapshot.names(Names::Exactly("/mnt/new"), each).unwrap();
    assert_eq!(named, [file(2, 49, None).key]);
    let unknown = golden::unknown();
    let found = snapshot.files_with_id(unknown.id.dev, 9).unwrap();
    assert_eq!(found, [unknown.key]);
    let files = parquet_files(dir.path());
    let requests = files.iter().filter(|file| file.starts_with("requests/"));
    assert_eq!(requests.count(), 4, "{files:?}");
}
