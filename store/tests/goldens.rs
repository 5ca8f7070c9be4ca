//! A store from an earlier time is read, completed and continued. `format-1/` holds the windows of [`recorded`]: two
//! sealed journals, an unsealed one, and single requests.
//!
//! A format without a release may still change: then remove the directory, and write it again with `cargo test -p
//! trackiops-store --test goldens -- --ignored`. Never rewrite the directory of a released format.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_schemas::columns::{
    FORMAT_VERSION, health_schema, ops_schema, request_schema, rollup_schema,
};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::DAY_MS;
use trackiops_store::{Dataset, Names, Options, Snapshot, Writer, check};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::options;
use trackiops_testkit::stores::{copy, open, parquet_files, recovered};
use trackiops_testkit::windows::{T0, file, granularity, named, reads, used_by, window};

fn golden() -> PathBuf {
    let name = format!("tests/format-{FORMAT_VERSION}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn recorder() -> Options {
    Options {
        filter: Some("--uid 7".into()),
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        ..options("h")
    }
}

/// Windows of three journals: two around midnight, two a rotation later, two after that.
fn recorded() -> Vec<ClosedWindow> {
    let midnight = (T0 / DAY_MS + 1) * DAY_MS;
    let starts = [-1000, 0, 900_000, 901_000, 1_800_000, 1_801_000];
    let windows = starts.into_iter().enumerate();
    windows
        .map(|(i, at)| one(midnight + at, i as u64))
        .collect()
}

fn one(start_ms: i64, i: u64) -> ClosedWindow {
    let unknown = file(9, 60, None);
    let unknown = FileAttributes {
        key: FileKey::new(None, unknown.id),
        mount: None,
        ..(*unknown).clone()
    };
    let name = if i < 3 { "/mnt/old" } else { "/mnt/new" };
    let renamed = file(2, 49, Some(name));
    let mut written = reads(0);
    written.read = Default::default();
    written.write = reads(3 + i).read;
    written.write.errors = 1;
    written.write.errnos.add(5, 1);
    written.ops.add(&FileOp {
        op: OpName::new("COMMIT"),
        requests: 2,
        execute_ns_sum: 9_000_000,
        execute_ns_max: 5_000_000,
        ..FileOp::default()
    });
    let mut fsync = FileOp {
        op: OpName::new("fsync"),
        requests: 3,
        execute_ns_sum: 7_000_000,
        execute_ns_max: 4_000_000,
        ..FileOp::default()
    };
    fsync.execute.record(3_000_000);
    fsync.execute.record(4_000_000);
    written.ops.add(&fsync);
    let rows = vec![
        (file(1, 49, Some("/mnt/a")), reads(2 + i)),
        (
            named(&used_by(&renamed, "1000:/user.slice"), "alice"),
            written,
        ),
        (used_by(&renamed, "0:/a.service"), reads(4)),
        (Arc::new(unknown), reads(2)),
    ];
    let mut window = window(start_ms, rows);
    let mut sums = OperationSums {
        requests: 3,
        received_bytes: 300,
        execute_ns_sum: 3_000_000,
        execute_ns_max: 1_000_000,
        ..OperationSums::default()
    };
    (0..3).for_each(|_| sums.execute.record(1_000_000));
    let operation = Operation {
        mount: Some("srv:/export".into()),
        op: "GETATTR".into(),
        transport: Some("tcp-1".into()),
    };
    window.ops.push(OperationRow { operation, sums });
    window.ops.push(OperationRow {
        operation: Operation::connection("tcp-1".into()),
        sums: OperationSums {
            tcp: TcpSums {
                readings: 1,
                reconnects: i % 2,
                rtt_ns_sum: 300_000,
                rtt_ns_max: 300_000,
                rtt_ns_min: 200_000,
                segments: 7 + i,
                retrans: i,
                ..TcpSums::default()
            },
            ..OperationSums::default()
        },
    });
    window.health.ops_covered_ms = 1000;
    window.health.ops_seen = 3;
    window.health.filter = Some("--uid 7".into());
    window.health.pending = (i % 2 == 1).then(|| Pending {
        requests_max: 4,
        age_ms_max: 2000,
        clients: vec![PendingClient {
            client: 1,
            server: Some("10.0.0.5".into()),
            mounts: vec!["srv:/export".into()],
            requests_max: 4,
            age_ms_max: 2000,
        }],
    });
    window
}

fn requests(window: &ClosedWindow) -> RequestBatch {
    let request = |ms: i64| {
        let end_ns = (window.start.0 + ms) * 1_000_000;
        Request::new(&RequestRecord::default(), end_ns, 0)
    };
    RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a"))],
        requests: (0..3).map(request).collect(),
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write() {
    let golden = golden();
    assert!(!golden.exists(), "{} is there", golden.display());
    let mut writer = Writer::open(&golden, recorder()).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    for window in recorded() {
        writer.append(&window).unwrap();
        kept.append(&requests(&window)).unwrap();
    }
}

#[test]
fn the_golden_store_is_read() {
    let dir = tempfile::tempdir().unwrap();
    copy(&golden(), dir.path());
    let content = Content::stored(dir.path(), granularity("1s"));
    assert_eq!(content, Content::of(&recorded(), granularity("1s")));
    let snapshot = Snapshot::open(dir.path()).unwrap();
    assert_eq!(snapshot.tails().len(), 1);
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

#[test]
fn the_golden_store_has_all_columns() {
    let schemas = [
        ("rollup/", rollup_schema()),
        ("ops/", ops_schema()),
        ("health/", health_schema()),
        ("requests/", request_schema()),
    ];
    for file in parquet_files(&golden()) {
        let schema = schemas
            .iter()
            .find(|(dataset, _)| file.starts_with(dataset));
        let segment = std::fs::File::open(golden().join(&file)).unwrap();
        let stored = ParquetRecordBatchReaderBuilder::try_new(segment).unwrap();
        assert_eq!(
            stored.schema().fields(),
            schema.unwrap().1.fields(),
            "{file}"
        );
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
    copy(&golden(), dir.path());
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
    let unknown = file(9, 60, None);
    let found = snapshot.files_with_id(unknown.id.dev, 9).unwrap();
    assert_eq!(found, [FileKey::new(None, unknown.id)]);
    let files = parquet_files(dir.path());
    let requests = files.iter().filter(|file| file.starts_with("requests/"));
    assert_eq!(requests.count(), 4, "{files:?}");
}
