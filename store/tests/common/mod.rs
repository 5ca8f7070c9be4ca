//! Windows to write, and reading back a whole store.
#![allow(dead_code, reason = "not every test needs every helper")]

pub mod forge;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::batch::{decode_health, decode_ops, decode_rows};
use trackiops_store::{Dataset, Options, Segment, Snapshot, Warning, Writer};

/// 2026-11-21T03:52:00Z.
pub const T0: i64 = 1_795_233_120_000;

pub fn options(host: &str) -> Options {
    Options {
        host: host.into(),
        granularities: "1s,10s,1m,1h".parse().unwrap(),
        rotate: "15m".parse().unwrap(),
        filter: None,
        allow_nfs_store: false,
        keep: Default::default(),
    }
}

/// What was told of a store.
pub type Told = Arc<Mutex<Vec<Warning>>>;

pub fn tell(told: &Told) -> impl Fn(Warning) + Send + 'static {
    let told = Arc::clone(told);
    move |warning| told.lock().unwrap().push(warning)
}

/// Opens a store for writing, which tells of what was left in it once that is sealed.
pub fn open(store: &Path, options: Options) -> (Writer, Told) {
    let told = Told::default();
    let writer = Writer::open_after(store, options, None, tell(&told)).unwrap();
    (writer, told)
}

/// Has what was left in a store completed: what was told of it.
pub fn complete(store: &Path, options: Options) -> Vec<Warning> {
    let (writer, told) = open(store, options);
    writer.finish().unwrap();
    told.lock().unwrap().clone()
}

pub fn recovered(windows: u64, torn_bytes: u64) -> Warning {
    Warning::RecoveredWindows {
        windows,
        torn_bytes,
    }
}

pub fn granularity(text: &str) -> Granularity {
    text.parse().unwrap()
}

pub fn file(fileid: u64, dev: u32, path: Option<&str>) -> Arc<FileAttributes> {
    let id = FileId {
        dev: Dev::new(0, dev).unwrap(),
        fileid,
        handle_hash: 7,
    };
    let mount = Some("srv:/export");
    Arc::new(FileAttributes {
        key: FileKey::new(mount, id),
        id,
        mount: mount.map(str::to_owned),
        path: path.map(str::to_owned),
        path_inferred: fileid % 2 == 1 && path.is_some(),
        tenant: Default::default(),
    })
}

/// The file as somebody uses it: `uid:/cgroup`.
pub fn used_by(file: &FileAttributes, tenant: &str) -> Arc<FileAttributes> {
    let tenant: Tenant = tenant.parse().unwrap();
    Arc::new(FileAttributes {
        tenant: tenant.into(),
        ..file.clone()
    })
}

/// The file with the name of its user.
pub fn named(file: &FileAttributes, user: &str) -> Arc<FileAttributes> {
    let tenant = Tenant {
        user: Some(user.into()),
        ..(*file.tenant).clone()
    };
    Arc::new(FileAttributes {
        tenant: tenant.into(),
        ..file.clone()
    })
}

/// A row of `requests` reads of 4 KiB and 300 us each, one of them untimed.
pub fn reads(requests: u64) -> Row {
    let mut row = Row::default();
    row.read.requests = requests;
    row.read.bytes = 4096 * requests;
    row.read.untimed = 1;
    for _ in 1..requests {
        row.read.latency.record(300_000);
        row.read.latency_ns_sum += 300_000;
        row.read.latency_ns_max = 300_000;
    }
    row
}

pub fn window(start_ms: i64, rows: Vec<(Arc<FileAttributes>, Row)>) -> ClosedWindow {
    let seen = rows
        .iter()
        .map(|(_, row)| row.read.requests + row.write.requests)
        .sum();
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(file, row)| FileRow { file, row })
        .collect();
    rows.sort_by_key(|row| row.file.key);
    ClosedWindow {
        start: UtcMs(start_ms),
        rows,
        ops: Vec::new(),
        health: Health {
            covered_ms: 1000,
            seen,
            recorded: seen,
            ..Health::default()
        },
    }
}

/// `count` windows of one second from `T0`, of two files each.
pub fn windows(count: i64) -> Vec<ClosedWindow> {
    let one = |i: i64| {
        let rows = vec![
            (file(1, 49, Some("/mnt/a")), reads(2 + i.cast_unsigned())),
            (file(2, 49, Some("/mnt/b")), reads(5)),
        ];
        window(T0 + i * 1000, rows)
    };
    (0..count).map(one).collect()
}

/// What identifies a row: its window and everything about its file that is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId {
    pub time: UtcMs,
    pub key: FileKey,
    pub dev: Dev,
    pub fileid: u64,
    pub mount: Option<String>,
    pub path: Option<String>,
    pub uid: Option<u32>,
    pub user: Option<String>,
    pub cgroup: Option<String>,
}

/// Rows and health added up by window of one granularity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub rows: BTreeMap<RowId, Row>,
    pub health: BTreeMap<UtcMs, Health>,
    pub ops: BTreeMap<(UtcMs, Operation), OperationSums>,
}

impl Content {
    pub fn of(windows: &[ClosedWindow], granularity: Granularity) -> Self {
        let mut content = Self::default();
        windows
            .iter()
            .for_each(|window| content.add(window, granularity));
        content
    }

    fn add(&mut self, window: &ClosedWindow, granularity: Granularity) {
        let time = window.start.align(granularity);
        self.health.entry(time).or_default().merge(&window.health);
        self.add_ops(window.start, &window.ops, granularity);
        for FileRow { file, row } in &window.rows {
            let id = RowId {
                time,
                key: file.key,
                dev: file.id.dev,
                fileid: file.id.fileid,
                mount: file.mount.clone(),
                path: file.path.clone(),
                uid: file.tenant.uid,
                user: file.tenant.user.as_deref().map(str::to_owned),
                cgroup: file.tenant.cgroup.as_deref().map(str::to_owned),
            };
            self.rows.entry(id).or_default().merge(row);
        }
    }

    fn add_ops(&mut self, start: UtcMs, ops: &[OperationRow], granularity: Granularity) {
        for OperationRow { operation, sums } in ops {
            let key = (start.align(granularity), operation.clone());
            self.ops.entry(key).or_default().merge(sums);
        }
    }

    /// All that the segments of a view hold at a granularity; `None` if one was deleted since.
    pub fn sealed(snapshot: &Snapshot, granularity: Granularity) -> Option<Self> {
        let mut content = Self::default();
        for dataset in Dataset::ALL {
            for segment in of(snapshot, dataset, granularity) {
                content.add_file(dataset, segment.open().ok()?, granularity);
            }
        }
        Some(content)
    }

    fn add_file(&mut self, dataset: Dataset, file: File, granularity: Granularity) {
        match dataset {
            Dataset::Rollup => {
                for (id, row) in rows_in(file) {
                    self.rows.entry(id).or_default().merge(&row);
                }
            }
            Dataset::Health => {
                for (time, health) in health(file) {
                    self.health.entry(time).or_default().merge(&health);
                }
            }
            Dataset::Ops => {
                let rows = ops(file);
                assert!(rows.is_sorted_by_key(|(time, _)| *time));
                for (time, row) in rows {
                    self.add_ops(time, &[row], granularity);
                }
            }
        }
    }

    /// All that a store holds at a granularity: its segments, and the tails of its journals.
    pub fn stored(store: &Path, granularity: Granularity) -> Self {
        let view = || {
            let snapshot = Snapshot::open(store).unwrap();
            let sealed = Self::sealed(&snapshot, granularity)?;
            Some((snapshot, sealed))
        };
        // A recorder that ends deletes what it has merged.
        let mut views = (0..10).filter_map(|_| view());
        let (snapshot, mut content) = views.next().unwrap();
        for tail in snapshot.tails() {
            tail.windows(&mut |window| content.add(&window, granularity))
                .unwrap();
            tail.operations(&mut |start, rows| content.add_ops(start, &rows, granularity))
                .unwrap();
        }
        content
    }
}

/// What a glob over the `*.parquet` of a granularity sees, which knows no catalog. `None` if a file has vanished before it was
/// opened: whoever globs meets an error then.
pub fn globbed(store: &Path, granularity: Granularity) -> Option<Content> {
    let mut content = Content::default();
    for dataset in Dataset::ALL {
        let dir = format!("{}/granularity={granularity}", dataset.name());
        let mut files = parquet_files(&store.join(dir));
        files.retain(|path| path.ends_with(".parquet"));
        for path in files {
            let dir = format!("{}/granularity={granularity}", dataset.name());
            let file = File::open(store.join(dir).join(path)).ok()?;
            content.add_file(dataset, file, granularity);
        }
    }
    Some(content)
}

/// Asserts that a glob sees nothing twice: no counter is larger than what was recorded.
pub fn assert_at_most(seen: &Content, recorded: &Content, when: &str) {
    for (id, row) in &seen.rows {
        let most = recorded.rows.get(id).cloned().unwrap_or_default();
        let counters = |row: &Row| [&row.read, &row.write].map(|d| (d.requests, d.bytes));
        let pairs = counters(row).into_iter().zip(counters(&most));
        for (seen, most) in pairs {
            assert!(seen.0 <= most.0 && seen.1 <= most.1, "{when}: {id:?}");
        }
    }
    for (time, health) in &seen.health {
        let most = recorded.health.get(time).cloned().unwrap_or_default();
        assert!(health.covered_ms <= most.covered_ms, "{when}: {time:?}");
        assert!(health.seen <= most.seen, "{when}: {time:?}");
    }
    for (at, sums) in &seen.ops {
        let most = recorded.ops.get(at).map_or(0, |most| most.requests);
        assert!(sums.requests <= most, "{when}: {at:?}");
    }
}

pub fn of(snapshot: &Snapshot, dataset: Dataset, granularity: Granularity) -> Vec<Segment> {
    let mut segments = snapshot.segments(dataset, None).unwrap();
    segments.retain(|segment| segment.granularity == granularity);
    segments
}

/// The rows of a segment of operations, in the order of the file.
fn ops(file: File) -> Vec<(UtcMs, OperationRow)> {
    let mut rows = Vec::new();
    for batch in batches(file) {
        decode_ops(&batch.unwrap(), |stored| {
            let operation = Operation {
                mount: stored.mount.map(str::to_owned),
                op: stored.op.to_owned(),
                transport: stored.transport.map(str::to_owned),
            };
            let sums = stored.sums;
            rows.push((stored.time, OperationRow { operation, sums }));
        })
        .unwrap();
    }
    rows
}

/// The rows of a rollup segment, in the order of the file.
pub fn rows(segment: &Segment) -> Vec<(RowId, Row)> {
    rows_in(segment.open().unwrap())
}

fn rows_in(file: File) -> Vec<(RowId, Row)> {
    let mut rows = Vec::new();
    for batch in batches(file) {
        let batch = batch.unwrap();
        decode_rows(&batch, |stored| {
            let id = RowId {
                time: stored.time,
                key: stored.file_key,
                dev: stored.dev,
                fileid: stored.fileid,
                mount: stored.mount.map(str::to_owned),
                path: stored.path.map(str::to_owned),
                uid: stored.tenant.uid,
                user: stored.tenant.user.map(str::to_owned),
                cgroup: stored.tenant.cgroup.map(str::to_owned),
            };
            rows.push((id, stored.row));
        })
        .unwrap();
    }
    rows
}

/// The rows of a health segment, in the order of the file.
fn health(file: File) -> Vec<(UtcMs, Health)> {
    let mut rows = Vec::new();
    for batch in batches(file) {
        decode_health(&batch.unwrap(), |stored| {
            rows.push((stored.time, stored.health))
        })
        .unwrap();
    }
    rows
}

pub fn reader(segment: &Segment) -> ParquetRecordBatchReaderBuilder<File> {
    ParquetRecordBatchReaderBuilder::try_new(segment.open().unwrap()).unwrap()
}

fn batches(file: File) -> ParquetRecordBatchReader {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    builder.build().unwrap()
}

/// Names in the journal directory.
pub fn journals(store: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(store.join("journal")).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|e| name(e).into_string().unwrap()).collect();
    // What is beside a journal is there or not with it.
    names.retain(|name| !name.contains(".end"));
    names.sort();
    names
}

/// Paths of all files of segments under a directory, relative to it, whether a glob sees them or not.
pub fn parquet_files(store: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut dirs = vec![store.to_owned()];
    while let Some(dir) = dirs.pop() {
        // It may have been removed with its last segment.
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_str().unwrap().contains(".parquet") {
                files.push(
                    path.strip_prefix(store)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    files.sort();
    files
}

/// Copies a directory with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

/// Makes a catalog that was changed look like one that was written so.
pub fn seal_catalog(store: &Path) {
    const PAGE_BYTES: usize = 4096;
    let path = store.join("catalog.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() / PAGE_BYTES * PAGE_BYTES);
    let mut trailer = b"TIOPends".to_vec();
    trailer.extend((bytes.len() as u64).to_le_bytes());
    trailer.extend(crc32c::crc32c(&bytes).to_le_bytes());
    trailer.extend(crc32c::crc32c(&trailer).to_le_bytes());
    bytes.extend(trailer);
    std::fs::write(path, bytes).unwrap();
}
