//! Record batches to rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, ListArray, PrimitiveArray,
    RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};
use trackiops_schemas::columns;
use trackiops_schemas::file_ops::{FileOp, FileOps, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::rollup::{Direction, Health, Row};
use trackiops_schemas::time::UtcMs;

use super::{direction, op_sums};
use crate::units::{ns_from_us, unsigned};

/// A row of a rollup segment. What the batch has no column for is empty, zero or `None`, so a
/// query may leave out what it does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// `server:/export`, where known.
    pub mount: Option<&'a str>,
    /// The file's name when the window closed, where known.
    pub path: Option<&'a str>,
    /// Whether that was found by looking at who has the file open; not known of what version 1 of the format wrote.
    pub path_inferred: Option<bool>,
    /// The file on disk.
    pub file_key: FileKey,
    /// The file's device on the host.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
    /// Who used it, where known.
    pub tenant: Option<&'a str>,
    /// The counters, in ns, to the microsecond.
    pub row: Row,
}

/// A row of a health segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHealth<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// The recorder's own account.
    pub health: Health,
}

/// A row of a segment of operations. What the batch has no column for is empty, zero or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOps<'a> {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: &'a str,
    /// `server:/export`, where known.
    pub mount: Option<&'a str>,
    /// The procedure.
    pub op: &'a str,
    /// The connection, where known.
    pub transport: Option<&'a str>,
    /// The counters, in ns, to the microsecond.
    pub sums: OperationSums,
}

/// A batch does not have the columns of this format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "column `{0}` is not of the type it has in this format; was the segment written by another program?"
)]
pub struct BatchError(String);

/// Decodes the rows of a batch of a rollup segment, in order.
pub fn decode_rows<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredRow<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMillisecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let mounts: Option<&StringArray> = column(batch, columns::MOUNT)?;
    let paths: Option<&StringArray> = column(batch, columns::PATH)?;
    let inferred: Option<&BooleanArray> = column(batch, columns::PATH_INFERRED)?;
    let keys: Option<&UInt64Array> = column(batch, columns::FILE_KEY)?;
    let devs: Option<&StringArray> = column(batch, columns::DEV)?;
    let fileids: Option<&UInt64Array> = column(batch, columns::FILEID)?;
    let tenants: Option<&StringArray> = column(batch, columns::TENANT)?;
    let read = DirectionColumns::new(batch, columns::DIRECTIONS[0])?;
    let write = DirectionColumns::new(batch, columns::DIRECTIONS[1])?;
    let ops = FileOpColumns::new(batch)?;
    let mut last_dev = ("", Dev(0));
    for i in 0..batch.num_rows() {
        let dev = text(devs, i).unwrap_or_default();
        if dev != last_dev.0 {
            let parsed = dev.parse();
            last_dev = (dev, parsed.map_err(|_| BatchError(columns::DEV.into()))?);
        }
        each(StoredRow {
            time: UtcMs(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            mount: text(mounts, i),
            path: text(paths, i),
            path_inferred: inferred.filter(|of| of.is_valid(i)).map(|of| of.value(i)),
            file_key: FileKey(keys.map_or(0, |keys| keys.value(i))),
            dev: last_dev.1,
            fileid: fileids.map_or(0, |fileids| fileids.value(i)),
            tenant: text(tenants, i),
            row: Row {
                read: read.at(i),
                write: write.at(i),
                ops: ops.as_ref().map_or_else(FileOps::default, |ops| ops.at(i)),
            },
        });
    }
    Ok(())
}

/// Decodes the rows of a batch of a health segment, in order.
pub fn decode_health<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredHealth<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMillisecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let mut counters: [Option<&Int64Array>; columns::HEALTH_COUNTERS.len()] = Default::default();
    for (name, counter) in columns::HEALTH_COUNTERS.iter().zip(&mut counters) {
        *counter = column(batch, name)?;
    }
    let pending = PendingColumns::new(batch)?;
    let filters: Option<&StringArray> = column(batch, columns::FILTER)?;
    for i in 0..batch.num_rows() {
        let [
            covered_ms,
            seen,
            recorded,
            folded,
            lost,
            missed,
            clock_steps,
            ops_covered_ms,
            ops_seen,
            ops_missed,
            requests_dropped,
            store_failures,
        ] = counters.map(|column| column.map_or(0, |column| unsigned(column.value(i))));
        each(StoredHealth {
            time: UtcMs(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            health: Health {
                covered_ms,
                seen,
                recorded,
                folded,
                lost,
                missed,
                clock_steps,
                ops_covered_ms,
                ops_seen,
                ops_missed,
                requests_dropped,
                store_failures,
                pending: pending.as_ref().and_then(|pending| pending.at(i)),
                filter: text(filters, i).map(Arc::from),
            },
        });
    }
    Ok(())
}

/// The column of operations of a file.
struct FileOpColumns<'a> {
    lists: &'a ListArray,
    names: &'a StringArray,
    counters: [&'a Int64Array; columns::FILE_OP_COUNTERS.len()],
}

impl<'a> FileOpColumns<'a> {
    /// `None` where it is not there, as in version 1 of the format.
    fn new(batch: &'a RecordBatch) -> Result<Option<Self>, BatchError> {
        let Some(lists) = column::<ListArray>(batch, columns::FILE_OPS)? else {
            return Ok(None);
        };
        let columns = Self::of_elements(lists);
        columns
            .map(Some)
            .ok_or(BatchError(columns::FILE_OPS.into()))
    }

    fn of_elements(lists: &'a ListArray) -> Option<Self> {
        let elements = lists.values().as_struct_opt()?;
        let [requests, errors, queue, rtt, latency, max] = columns::FILE_OP_COUNTERS.map(|name| {
            elements
                .column_by_name(name)?
                .as_primitive_opt::<Int64Type>()
        });
        Some(Self {
            lists,
            names: elements.column_by_name(columns::OP)?.as_string_opt()?,
            counters: [requests?, errors?, queue?, rtt?, latency?, max?],
        })
    }

    fn at(&self, i: usize) -> FileOps {
        let op = |at| {
            let [requests, errors, queue, rtt, latency, max] =
                self.counters.map(|counter| unsigned(counter.value(at)));
            FileOp {
                op: OpName::new(self.names.value(at)),
                requests,
                errors,
                queue_ns_sum: ns_from_us(queue),
                rtt_ns_sum: ns_from_us(rtt),
                latency_ns_sum: ns_from_us(latency),
                latency_ns_max: ns_from_us(max),
            }
        };
        elements(self.lists, i).map(op).collect()
    }
}

/// The columns of a health row that tell what was pending.
struct PendingColumns<'a> {
    requests_max: &'a Int64Array,
    age_ms_max: &'a Int64Array,
    lists: &'a ListArray,
    clients: &'a Int64Array,
    servers: &'a StringArray,
    mounts: &'a ListArray,
    mount_names: &'a StringArray,
    client_requests_max: &'a Int64Array,
    client_age_ms_max: &'a Int64Array,
}

impl<'a> PendingColumns<'a> {
    /// `None` where version 1 of the format was written.
    fn new(batch: &'a RecordBatch) -> Result<Option<Self>, BatchError> {
        let number = |name| column::<Int64Array>(batch, name);
        let lists: Option<&ListArray> = column(batch, columns::PENDING_CLIENTS)?;
        let (Some(requests_max), Some(age_ms_max), Some(lists)) = (
            number(columns::PENDING_REQUESTS_MAX)?,
            number(columns::PENDING_AGE_MS_MAX)?,
            lists,
        ) else {
            return Ok(None);
        };
        let columns = Self::of_elements(requests_max, age_ms_max, lists);
        columns
            .map(Some)
            .ok_or(BatchError(columns::PENDING_CLIENTS.into()))
    }

    fn of_elements(
        requests_max: &'a Int64Array,
        age_ms_max: &'a Int64Array,
        lists: &'a ListArray,
    ) -> Option<Self> {
        let elements = lists.values().as_struct_opt()?;
        let field = |name| elements.column_by_name(name).map(|array| array.as_any());
        let mounts: &ListArray = field(columns::MOUNTS)?.downcast_ref()?;
        Some(Self {
            requests_max,
            age_ms_max,
            lists,
            clients: field(columns::CLIENT)?.downcast_ref()?,
            servers: field(columns::SERVER)?.downcast_ref()?,
            mounts,
            mount_names: mounts.values().as_any().downcast_ref()?,
            client_requests_max: field(columns::REQUESTS_MAX)?.downcast_ref()?,
            client_age_ms_max: field(columns::AGE_MS_MAX)?.downcast_ref()?,
        })
    }

    fn at(&self, i: usize) -> Option<Pending> {
        let known = self.requests_max.is_valid(i) && self.age_ms_max.is_valid(i);
        let client = |at| PendingClient {
            client: u32::try_from(self.clients.value(at)).unwrap_or(0),
            server: text(Some(self.servers), at).map(str::to_owned),
            mounts: elements(self.mounts, at)
                .map(|at| self.mount_names.value(at).to_owned())
                .collect(),
            requests_max: unsigned(self.client_requests_max.value(at)),
            age_ms_max: unsigned(self.client_age_ms_max.value(at)),
        };
        known.then(|| Pending {
            requests_max: unsigned(self.requests_max.value(i)),
            age_ms_max: unsigned(self.age_ms_max.value(i)),
            clients: elements(self.lists, i).map(client).collect(),
        })
    }
}

/// Where the elements of a list stand among those of all lists.
fn elements(lists: &ListArray, i: usize) -> Range<usize> {
    let [start, end] = [i, i + 1].map(|at| lists.value_offsets()[at] as usize);
    start..end
}

/// Decodes the rows of a batch of a segment of operations, in order.
pub fn decode_ops<'a>(
    batch: &'a RecordBatch,
    mut each: impl FnMut(StoredOps<'a>),
) -> Result<(), BatchError> {
    let times: Option<&TimestampMillisecondArray> = column(batch, columns::TIME)?;
    let hosts: Option<&StringArray> = column(batch, columns::HOST)?;
    let mounts: Option<&StringArray> = column(batch, columns::MOUNT)?;
    let ops: Option<&StringArray> = column(batch, columns::OP)?;
    let transports: Option<&StringArray> = column(batch, columns::TRANSPORT)?;
    let mut counters: [Option<&Int64Array>; columns::OP_COUNTERS.len()] = Default::default();
    for (name, counter) in columns::OP_COUNTERS.iter().zip(&mut counters) {
        *counter = column(batch, name)?;
    }
    let histograms: Option<Lists<'_, Int16Type>> = Lists::of(
        batch,
        columns::EXECUTE_HIST.to_owned(),
        columns::HIST_BUCKET,
    )?;
    for i in 0..batch.num_rows() {
        let mut sums = op_sums(counters.map(|column| column.map_or(0, |column| column.value(i))));
        for (bucket, count) in histograms.iter().flat_map(|lists| lists.at(i)) {
            sums.execute.add(bucket, count);
        }
        each(StoredOps {
            time: UtcMs(times.map_or(0, |times| times.value(i))),
            host: text(hosts, i).unwrap_or_default(),
            mount: text(mounts, i),
            op: text(ops, i).unwrap_or_default(),
            transport: text(transports, i),
            sums,
        });
    }
    Ok(())
}

/// The columns of one direction.
struct DirectionColumns<'a> {
    /// Whether there is no column that tells what is unsplit, as in version 1 of the format.
    unsplit: bool,
    /// Those that are there, each with its place in [`columns::DIRECTION_COUNTERS`].
    counters: Vec<(usize, &'a Int64Array)>,
    errnos: Option<Lists<'a, Int32Type>>,
    latencies: Option<Lists<'a, Int16Type>>,
}

/// Lists of what is counted, and how often there was one.
struct Lists<'a, K: ArrowPrimitiveType> {
    lists: &'a ListArray,
    keys: &'a PrimitiveArray<K>,
    counts: &'a Int64Array,
}

impl<'a> DirectionColumns<'a> {
    fn new(batch: &'a RecordBatch, name: &str) -> Result<Self, BatchError> {
        let mut counters = Vec::new();
        for (place, counter) in columns::DIRECTION_COUNTERS.iter().enumerate() {
            let column: Option<&Int64Array> = column(batch, &format!("{name}_{counter}"))?;
            counters.extend(column.map(|column| (place, column)));
        }
        let unsplit = format!("{name}_{}", columns::UNSPLIT);
        Ok(Self {
            unsplit: batch.column_by_name(&unsplit).is_none(),
            counters,
            errnos: Lists::of(batch, format!("{name}_{}", columns::ERRNOS), columns::ERRNO)?,
            latencies: Lists::of(
                batch,
                format!("{name}_{}", columns::LATENCY_HIST),
                columns::HIST_BUCKET,
            )?,
        })
    }

    fn at(&self, i: usize) -> Direction {
        let mut counters = [0; columns::DIRECTION_COUNTERS.len()];
        for (place, column) in &self.counters {
            counters[*place] = column.value(i);
        }
        let mut direction = direction(counters);
        if self.unsplit {
            direction.leave_unsplit();
        }
        for (errno, count) in self.errnos.iter().flat_map(|lists| lists.at(i)) {
            direction.errnos.add(errno, count);
        }
        if let Some(latencies) = &self.latencies {
            let buckets = latencies.at(i);
            direction.latency = Histogram::with_capacity(buckets.len());
            for (bucket, count) in buckets {
                direction.latency.add(bucket, count);
            }
        }
        direction
    }
}

impl<'a, K: ArrowPrimitiveType> Lists<'a, K> {
    /// Those of a column, if it is there; `key` is what they count.
    fn of(batch: &'a RecordBatch, name: String, key: &str) -> Result<Option<Self>, BatchError> {
        let Some(lists) = column::<ListArray>(batch, &name)? else {
            return Ok(None);
        };
        let found = lists.values().as_struct_opt().and_then(|elements| {
            Some(Self {
                lists,
                keys: elements.column_by_name(key)?.as_primitive_opt()?,
                counts: elements
                    .column_by_name(columns::COUNT)?
                    .as_primitive_opt::<Int64Type>()?,
            })
        });
        found.map(Some).ok_or(BatchError(name))
    }

    fn at(&self, i: usize) -> impl ExactSizeIterator<Item = (K::Native, u64)> {
        elements(self.lists, i).map(|at| (self.keys.value(at), unsigned(self.counts.value(at))))
    }
}

/// A column of the batch, if it is there; an error if it has another type.
fn column<'a, A: Array + 'static>(
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

fn text(array: Option<&StringArray>, i: usize) -> Option<&str> {
    array
        .filter(|array| array.is_valid(i))
        .map(|array| array.value(i))
}
