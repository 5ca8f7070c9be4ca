//! The content of a store or of windows, as sums that can be compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::batch::{decode_health, decode_ops, decode_rows};
use trackiops_store::{Dataset, Segment, Snapshot};

use crate::stores::parquet_files;

/// The key of a row: its window and all stored attributes of its file.
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
    pub container: Option<String>,
    /// See the tenant's field.
    pub name: Option<String>,
    /// See the tenant's field.
    pub labels: Option<String>,
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
                container: file.tenant.container.as_deref().map(str::to_owned),
                name: file.tenant.name.as_deref().map(str::to_owned),
                labels: file.tenant.labels.as_deref().map(str::to_owned),
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

    /// The content of a view's segments at a granularity; `None` if one was deleted meanwhile.
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

    /// The content of a store at a granularity: its segments, and the tails of its journals.
    pub fn stored(store: &Path, granularity: Granularity) -> Self {
        // A recorder that ends deletes merged segments.
        let mut views =
            (0..10).filter_map(|_| Self::of_view(&Snapshot::open(store).unwrap(), granularity));
        views.next().unwrap()
    }

    /// The content of a view at a granularity; `None` if a segment was deleted meanwhile.
    pub fn of_view(snapshot: &Snapshot, granularity: Granularity) -> Option<Self> {
        let mut content = Self::sealed(snapshot, granularity)?;
        for tail in snapshot.tails() {
            tail.windows(&mut |window| content.add(&window, granularity))
                .unwrap();
            tail.operations(&mut |start, rows| content.add_ops(start, &rows, granularity))
                .unwrap();
        }
        Some(content)
    }

    /// Adds another content.
    pub fn merge(&mut self, other: Self) {
        for (id, row) in other.rows {
            self.rows.entry(id).or_default().merge(&row);
        }
        for (time, health) in other.health {
            self.health.entry(time).or_default().merge(&health);
        }
        for (key, sums) in other.ops {
            self.ops.entry(key).or_default().merge(&sums);
        }
    }
}

/// The content that a glob over the `*.parquet` of a granularity sees, without the catalog. `None` if a file vanished before it was opened:
/// the program that globs gets an error then.
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

/// Asserts that a glob sees nothing twice: no counter exceeds the recorded one.
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
                container: stored.tenant.container.map(str::to_owned),
                name: stored.tenant.name.map(str::to_owned),
                labels: stored.tenant.labels.map(str::to_owned),
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
