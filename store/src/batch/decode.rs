//! Decodes rows from record batches.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow::array::{
    Array, AsArray, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use trackiops_schemas::columns;
use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::file_ops::{FileOp, FileOps, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::{AppCalls, CachedBytes, Direction, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::UtcMs;

use crate::column_values::{of_stored, time_of, unsigned};
use crate::journal::payload::BUCKETS;

/// A row of a rollup segment. Fields without a column in the batch are empty, zero or `None`, so a
/// query can skip columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// `server:/export`, if known.
    pub mount: Option<&'a str>,
    /// The file's name when the window closed, if known.
    pub path: Option<&'a str>,
    /// Whether the name comes from a process that has the file open. `None` without a name.
    pub path_inferred: Option<bool>,
    /// The file on disk.
    pub file_key: FileKey,
    /// The file's device on the host.
    pub dev: Dev,
    /// The NFS fileid.
    pub fileid: u64,
    /// The user and the cgroup, if known.
    pub tenant: StoredTenant<'a>,
    /// The level at which the I/O was observed.
    pub level: IoLevel,
    /// The counters. Times are in ns, but rounded to us.
    pub row: Row,
}

impl StoredRow<'_> {
    /// Whether the row belongs to this file and tenant.
    pub(crate) fn is_of(&self, file: &FileAttributes) -> bool {
        (file.key, file.id.dev, file.id.fileid) == (self.file_key, self.dev, self.fileid)
            && file.path.as_deref() == self.path
            && file.mount.as_deref() == self.mount
            && self.tenant == *file.tenant
            && file.path_inferred == self.path_inferred.unwrap_or(false)
            && file.level == self.level
    }

    /// The file's attributes. The hash of its handle is 0, because only the key contains it.
    pub(crate) fn file(&self) -> FileAttributes {
        FileAttributes {
            key: self.file_key,
            id: FileId {
                dev: self.dev,
                fileid: self.fileid,
                handle_hash: 0,
            },
            mount: self.mount.map(str::to_owned),
            path: self.path.map(str::to_owned),
            path_inferred: self.path_inferred.unwrap_or(false),
            tenant: Arc::new(self.tenant.into()),
            level: self.level,
        }
    }
}

/// The [`Tenant`] of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredTenant<'a> {
    /// As [`Tenant::uid`].
    pub uid: Option<u32>,
    /// As [`Tenant::user`].
    pub user: Option<&'a str>,
    /// As [`Tenant::cgroup`].
    pub cgroup: Option<&'a str>,
    /// As [`Tenant::container`].
    pub container: Option<&'a str>,
    /// As [`Tenant::name`].
    pub name: Option<&'a str>,
    /// As [`Tenant::labels`].
    pub labels: Option<&'a str>,
}

impl PartialEq<Tenant> for StoredTenant<'_> {
    fn eq(&self, other: &Tenant) -> bool {
        (self.name, self.uid, self.cgroup) == other.id()
            && self.user == other.user.as_deref()
            && self.container == other.container.as_deref()
            && self.labels == other.labels.as_deref()
    }
}

impl From<StoredTenant<'_>> for Tenant {
    fn from(stored: StoredTenant<'_>) -> Self {
        Self {
            uid: stored.uid,
            user: stored.user.map(Into::into),
            cgroup: stored.cgroup.map(Into::into),
            container: stored.container.map(Into::into),
            name: stored.name.map(Into::into),
            labels: stored.labels.map(Into::into),
        }
    }
}

/// A row of a segment of operations. Fields without a column in the batch are empty, zero or
/// `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOps<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// `server:/export`, if known.
    pub mount: Option<&'a str>,
    /// The procedure.
    pub op: &'a str,
    /// The connection, if known.
    pub transport: Option<&'a str>,
    /// The counters. Times are in ns, but rounded to us.
    pub sums: OperationSums,
}

/// A batch does not have the columns of this format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "column `{0}` is not of the type or order it has in this format; was the segment written by another program?"
)]
pub struct BatchError(pub(super) String);

/// Decodes the rows of a batch of a rollup segment, in order.
pub fn decode_rows<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredRow<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMicrosecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let mounts: Option<&StringArray> = column(batch, columns::MOUNT)?;
    let paths: Option<&StringArray> = column(batch, columns::PATH)?;
    let inferred: Option<&BooleanArray> = column(batch, columns::PATH_INFERRED)?;
    let keys: Option<&Int64Array> = column(batch, columns::FILE_KEY)?;
    let devs: Option<&StringArray> = column(batch, columns::DEV)?;
    let fileids: Option<&Int64Array> = column(batch, columns::FILEID)?;
    let uids: Option<&Int64Array> = column(batch, columns::UID)?;
    let users: Option<&StringArray> = column(batch, columns::USER)?;
    let cgroups: Option<&StringArray> = column(batch, columns::CGROUP)?;
    let containers: Option<&StringArray> = column(batch, columns::CONTAINER)?;
    let names: Option<&StringArray> = column(batch, columns::TENANT_NAME)?;
    let labels: Option<&StringArray> = column(batch, columns::LABELS)?;
    let levels: Option<&StringArray> = column(batch, columns::LEVEL)?;
    let read = DirectionColumns::new(batch, columns::DIRECTIONS[0])?;
    let write = DirectionColumns::new(batch, columns::DIRECTIONS[1])?;
    let ops = FileOpColumns::new(batch)?;
    let [app_read, app_write] =
        columns::APP_DIRECTIONS.map(|prefix| CallColumns::new(batch, prefix));
    let (app_read, app_write) = (app_read?, app_write?);
    let cache: Counters<'_, CachedBytes, { CachedBytes::COUNT }> =
        Counters::new(batch, columns::CACHE, &CachedBytes::COUNTERS)?;
    let mut last_dev = ("", Dev(0));
    for i in 0..batch.num_rows() {
        let dev = text(devs, i).unwrap_or_default();
        if dev != last_dev.0 {
            let parsed = dev.parse();
            last_dev = (dev, parsed.map_err(|_| BatchError(columns::DEV.into()))?);
        }
        each(StoredRow {
            time: time_of(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            mount: text(mounts, i),
            path: text(paths, i),
            path_inferred: inferred.filter(|of| of.is_valid(i)).map(|of| of.value(i)),
            file_key: FileKey(keys.map_or(0, |keys| keys.value(i))),
            dev: last_dev.1,
            fileid: fileids.map_or(0, |fileids| fileids.value(i).cast_unsigned()),
            tenant: StoredTenant {
                uid: uids.and_then(|uids| uid(uids, i)),
                user: text(users, i),
                cgroup: text(cgroups, i),
                container: text(containers, i),
                name: text(names, i),
                labels: text(labels, i),
            },
            level: level(text(levels, i))?,
            row: Row {
                read: read.at(i),
                write: write.at(i),
                ops: ops.as_ref().map_or_else(FileOps::default, |ops| ops.at(i)),
                app_read: app_read.at(i),
                app_write: app_write.at(i),
                cache: CachedBytes::of_counters(cache.at(i)),
            },
        });
    }
    Ok(())
}

fn level(name: Option<&str>) -> Result<IoLevel, BatchError> {
    let parsed = name.map_or(Ok(IoLevel::Wire), str::parse);
    parsed
        .ok()
        .filter(|level| IoLevel::OF_ROWS.contains(level))
        .ok_or_else(|| BatchError(columns::LEVEL.into()))
}

/// The starts of the windows of a batch's rows, in order.
pub fn decode_times(batch: &RecordBatch) -> Result<impl Iterator<Item = UtcMs>, BatchError> {
    let times: Option<&TimestampMicrosecondArray> = column(batch, columns::TIME)?;
    let times = times.into_iter().flat_map(|times| times.values());
    Ok(times.map(|time| time_of(*time)))
}

/// The column of a file's operations.
struct FileOpColumns<'a> {
    lists: &'a ListArray,
    names: &'a StringArray,
    counters: [&'a Int64Array; FileOp::COUNT],
    execute: Lists<'a>,
}

impl<'a> FileOpColumns<'a> {
    /// `None` if the batch does not have the column.
    fn new(batch: &'a RecordBatch) -> Result<Option<Self>, BatchError> {
        let Some(lists) = column::<ListArray>(batch, columns::FILE_OPS)? else {
            return Ok(None);
        };
        let columns = Self::of_elements(lists).filter(|columns| {
            let ascends = |i| {
                let names = elements(lists, i).map(|at| columns.names.value(at));
                names.is_sorted_by(|a, b| a < b)
            };
            (0..lists.len()).all(ascends)
        });
        columns
            .map(Some)
            .ok_or(BatchError(columns::FILE_OPS.into()))
    }

    fn of_elements(lists: &'a ListArray) -> Option<Self> {
        let elements = lists.values().as_struct_opt()?;
        let counters = FileOp::COUNTERS.iter().map(|counter| {
            let column = elements.column_by_name(counter.name)?;
            column.as_primitive_opt::<Int64Type>()
        });
        let counters: Vec<_> = counters.collect::<Option<_>>()?;
        Some(Self {
            lists,
            names: elements.column_by_name(columns::OP)?.as_string_opt()?,
            counters: counters.try_into().ok()?,
            execute: Lists::of_pairs(
                elements
                    .column_by_name(columns::EXECUTE_HIST)?
                    .as_list_opt()?,
                columns::HIST_BUCKET,
                BUCKETS,
            )?,
        })
    }

    fn at(&self, i: usize) -> FileOps {
        let op = |at| {
            let stored = self.counters.map(|counter| counter.value(at));
            FileOp {
                op: OpName::new(self.names.value(at)),
                execute: Histogram::of_ascending(self.execute.at(at)),
                ..FileOp::of_counters(of_stored(&FileOp::COUNTERS, stored))
            }
        };
        elements(self.lists, i).map(op).collect()
    }
}

/// Indexes of the elements of list `i` among the elements of all lists.
pub(super) fn elements(lists: &ListArray, i: usize) -> Range<usize> {
    let [start, end] = [i, i + 1].map(|at| lists.value_offsets()[at] as usize);
    start..end
}

/// Decodes the rows of a batch of a segment of operations, in order.
pub fn decode_ops<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredOps<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMicrosecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let mounts: Option<&StringArray> = column(batch, columns::MOUNT)?;
    let ops: Option<&StringArray> = column(batch, columns::OP)?;
    let transports: Option<&StringArray> = column(batch, columns::TRANSPORT)?;
    let counters = Counters::new(batch, "", &OperationSums::COUNTERS)?;
    let histograms = columns::EXECUTE_HIST.to_owned();
    let histograms = Lists::of(batch, histograms, columns::HIST_BUCKET, BUCKETS)?;
    let tcp = Counters::new(batch, columns::TCP, &TcpSums::COUNTERS)?;
    for i in 0..batch.num_rows() {
        let mut sums = OperationSums {
            tcp: TcpSums::of_counters(tcp.at(i)),
            ..OperationSums::of_counters(counters.at(i))
        };
        for (bucket, count) in histograms.iter().flat_map(|lists| lists.at(i)) {
            sums.execute.add(bucket, count);
        }
        each(StoredOps {
            time: time_of(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            mount: text(mounts, i),
            op: text(ops, i).unwrap_or_default(),
            transport: text(transports, i),
            sums,
        });
    }
    Ok(())
}

/// Columns of counters. Counters without a column, and unknown ones, are zero.
pub(super) struct Counters<'a, R: 'static, const COUNT: usize> {
    table: &'static [Counter<R>; COUNT],
    /// The existing columns, each with its index in the table.
    columns: Vec<(usize, &'a Int64Array)>,
}

impl<'a, R, const COUNT: usize> Counters<'a, R, COUNT> {
    pub(super) fn new(
        batch: &'a RecordBatch,
        prefix: &str,
        table: &'static [Counter<R>; COUNT],
    ) -> Result<Self, BatchError> {
        let mut columns = Vec::new();
        for (place, counter) in table.iter().enumerate() {
            let column = column(batch, &format!("{prefix}{}", counter.name))?;
            columns.extend(column.map(|column| (place, column)));
        }
        Ok(Self { table, columns })
    }

    pub(super) fn at(&self, i: usize) -> [u64; COUNT] {
        let mut stored = [0; COUNT];
        for (place, column) in &self.columns {
            // The value below a null is arbitrary.
            if column.is_valid(i) {
                stored[*place] = column.value(i);
            }
        }
        of_stored(self.table, stored)
    }
}

/// The columns of one direction.
struct DirectionColumns<'a> {
    counters: Counters<'a, Direction, { Direction::COUNT }>,
    errnos: Option<Lists<'a>>,
    latencies: Option<Lists<'a>>,
}

/// Lists of pairs of a key and a count.
struct Lists<'a> {
    lists: &'a ListArray,
    keys: &'a Int32Array,
    counts: &'a Int64Array,
}

impl<'a> DirectionColumns<'a> {
    fn new(batch: &'a RecordBatch, name: &str) -> Result<Self, BatchError> {
        let prefix = format!("{name}_");
        Ok(Self {
            counters: Counters::new(batch, &prefix, &Direction::COUNTERS)?,
            errnos: Lists::of(
                batch,
                format!("{prefix}{}", columns::ERRNOS),
                columns::ERRNO,
                i32::MIN..=i32::MAX,
            )?,
            latencies: Lists::of_latencies(batch, &prefix)?,
        })
    }

    fn at(&self, i: usize) -> Direction {
        let mut direction = Direction::of_counters(self.counters.at(i));
        for (errno, count) in self.errnos.iter().flat_map(|lists| lists.at(i)) {
            direction.errnos.add(errno, count);
        }
        if let Some(latencies) = &self.latencies {
            direction.latency = Histogram::of_ascending(latencies.at(i));
        }
        direction
    }
}

/// The columns of calls of applications in one direction.
struct CallColumns<'a> {
    counters: Counters<'a, AppCalls, { AppCalls::COUNT }>,
    latencies: Option<Lists<'a>>,
}

impl<'a> CallColumns<'a> {
    fn new(batch: &'a RecordBatch, prefix: &str) -> Result<Self, BatchError> {
        Ok(Self {
            counters: Counters::new(batch, prefix, &AppCalls::COUNTERS)?,
            latencies: Lists::of_latencies(batch, prefix)?,
        })
    }

    fn at(&self, i: usize) -> AppCalls {
        let latencies = self.latencies.as_ref();
        AppCalls {
            latency: latencies
                .map_or_else(Histogram::default, |of| Histogram::of_ascending(of.at(i))),
            ..AppCalls::of_counters(self.counters.at(i))
        }
    }
}

impl<'a> Lists<'a> {
    /// The histogram of the latencies with this column prefix.
    fn of_latencies(batch: &'a RecordBatch, prefix: &str) -> Result<Option<Self>, BatchError> {
        let name = format!("{prefix}{}", columns::LATENCY_HIST);
        Self::of(batch, name, columns::HIST_BUCKET, BUCKETS)
    }

    /// The lists of a column, if the batch has it. Keys must ascend and be within `range`.
    fn of(
        batch: &'a RecordBatch,
        name: String,
        key: &str,
        range: RangeInclusive<i32>,
    ) -> Result<Option<Self>, BatchError> {
        let Some(lists) = column::<ListArray>(batch, &name)? else {
            return Ok(None);
        };
        let found = Self::of_pairs(lists, key, range);
        found.map(Some).ok_or(BatchError(name))
    }

    /// The lists of a column, if its elements are pairs and in order.
    fn of_pairs(lists: &'a ListArray, key: &str, range: RangeInclusive<i32>) -> Option<Self> {
        let pairs = lists.values().as_struct_opt()?;
        let found = Self {
            lists,
            keys: pairs.column_by_name(key)?.as_primitive_opt::<Int32Type>()?,
            counts: pairs
                .column_by_name(columns::COUNT)?
                .as_primitive_opt::<Int64Type>()?,
        };
        // Keys must ascend, so that each is appended. Otherwise, each insertion could move all
        // others.
        let keys = found.keys.values();
        let ascends = |i| keys[elements(lists, i)].is_sorted_by(|a, b| a < b);
        let is_sound = keys.iter().all(|key| range.contains(key)) && (0..lists.len()).all(ascends);
        is_sound.then_some(found)
    }

    fn at(&self, i: usize) -> impl ExactSizeIterator<Item = (i32, u64)> {
        elements(self.lists, i).map(|at| (self.keys.value(at), unsigned(self.counts.value(at))))
    }
}

/// A column of the batch, if it exists. An error if it has another type.
pub(super) fn column<'a, A: Array + 'static>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<Option<&'a A>, BatchError> {
    match batch.column_by_name(name) {
        None => Ok(None),
        Some(array) => match array.as_any().downcast_ref() {
            None => Err(BatchError(name.into())),
            array => Ok(array),
        },
    }
}

fn uid(array: &Int64Array, i: usize) -> Option<u32> {
    let known = array.is_valid(i).then(|| array.value(i));
    known.and_then(|uid| uid.try_into().ok())
}

pub(super) fn text(array: Option<&StringArray>, i: usize) -> Option<&str> {
    array
        .filter(|array| array.is_valid(i))
        .map(|array| array.value(i))
}
