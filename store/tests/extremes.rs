//! Keys and ids of files use all 64 bits. Their columns are signed, and so is every order.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parquet::file::statistics::Statistics;
use trackiops_schemas::columns::{FILE_KEY, FILEID};
use trackiops_schemas::identity::{FileAttributes, FileId, FileKey};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{Dataset, Names, Snapshot, Writer, check, rebuild_catalog};
use trackiops_testkit::content::{Content, of, reader};
use trackiops_testkit::forge;
use trackiops_testkit::stores::{complete, options};
use trackiops_testkit::windows::{T0, file, granularity, reads, window};

/// Ascending.
const KEYS: [i64; 6] = [i64::MIN, -7, -1, 0, 1, i64::MAX];
const FILEIDS: [u64; 6] = [1 << 63, 34_866_518, u64::MAX, 2, 7, (1 << 63) - 1];

fn files() -> Vec<Arc<FileAttributes>> {
    let of = |(key, fileid): (i64, u64)| {
        let plain = file(1, 49, Some(&format!("/mnt/{fileid}")));
        Arc::new(FileAttributes {
            key: FileKey(key),
            id: FileId { fileid, ..plain.id },
            ..(*plain).clone()
        })
    };
    KEYS.into_iter().zip(FILEIDS).map(of).collect()
}

/// Windows of two rotations, so that segments are merged, too.
fn windows() -> Vec<ClosedWindow> {
    let rows = || files().into_iter().map(|file| (file, reads(3))).collect();
    [0, 1, 20, 21]
        .map(|second| window(T0 + second * 1000, rows()))
        .into()
}

#[test]
fn keys_are_in_the_order_of_signed_numbers_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("10s");
    let mut writer = Writer::open(dir.path(), options.clone()).unwrap();
    for window in windows() {
        writer.append(&window).unwrap();
    }
    // The order of a journal.
    let second = granularity("1s");
    assert_eq!(
        Content::stored(dir.path(), second),
        Content::of(&windows(), second)
    );
    writer.finish().unwrap();
    for _ in ["sealed", "rebuilt"] {
        for text in ["1s", "10s", "1m"] {
            let granularity = granularity(text);
            let expected = Content::of(&windows(), granularity);
            assert_eq!(Content::stored(dir.path(), granularity), expected, "{text}");
        }
        assert_eq!(check(dir.path()).unwrap().findings, []);
        let snapshot = Snapshot::open(dir.path()).unwrap();
        for segment in of(&snapshot, Dataset::Rollup, second) {
            let files = segment.files.unpack();
            assert!(files.keys().eq(KEYS.map(FileKey)));
            // Each has two windows.
            let some = [FileKey(-7), FileKey(-1), FileKey(i64::MAX)];
            assert_eq!(files.rows_of(&some), [2..6, 10..12]);
        }
        for (key, fileid) in KEYS.into_iter().zip(FILEIDS) {
            let found = snapshot.files_with_id(files()[0].id.dev, fileid).unwrap();
            assert_eq!(found, [FileKey(key)]);
            let mut named = Vec::new();
            let each = &mut |name: trackiops_store::NameSeen| named.push(name.key);
            let path = format!("/mnt/{fileid}");
            snapshot.names(Names::Exactly(&path), each).unwrap();
            assert_eq!(named, [FileKey(key)]);
        }
        rebuild_catalog(dir.path()).unwrap();
    }
}

#[test]
fn columns_and_their_statistics_have_the_signed_numbers() {
    let dir = tempfile::tempdir().unwrap();
    complete(dir.path(), options("h"));
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    writer.append(&windows()[0]).unwrap();
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let segment = &of(&snapshot, Dataset::Rollup, granularity("1s"))[0];
    let reader = reader(segment);
    let group = reader.metadata().row_group(0);
    let statistics = |name: &str| {
        let mut columns = group.columns().iter();
        let column = columns.find(|column| column.column_path().string() == name);
        match column.unwrap().statistics() {
            Some(Statistics::Int64(values)) => {
                (*values.min_opt().unwrap(), *values.max_opt().unwrap())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(statistics(FILE_KEY), (i64::MIN, i64::MAX));
    assert_eq!(statistics(FILEID), (i64::MIN, i64::MAX));
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let column = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(column(FILE_KEY), KEYS);
    assert_eq!(column(FILEID), FILEIDS.map(u64::cast_signed));
}

#[test]
fn a_segment_of_another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    writer.append(&windows()[0]).unwrap();
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let path = of(&snapshot, Dataset::Rollup, granularity("1s"))[0]
        .path
        .clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let version = forge::place(&bytes, b"trackiops.format\x18\x01");
    bytes[version] = b'3';
    forge::seal(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let why = "it has format version 3, this trackiops reads version 1";
    let findings = check(dir.path()).unwrap().findings;
    assert_eq!((&findings[0].path, &*findings[0].why), (&path, why));
    let left_out = rebuild_catalog(dir.path()).unwrap().left_out;
    assert_eq!(left_out, [(path, why.to_owned())]);
}

/// Checks release builds only with `cargo test --release`: Cargo.toml turns on overflow checks.
#[test]
fn arithmetic_is_checked_in_releases() {
    let overflows = || std::hint::black_box(u64::MAX) + 1;
    assert!(std::panic::catch_unwind(overflows).is_err());
}
