//! Encodes rows as record batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use trackiops_schemas::captured::{Captured, Stream, StreamBytes};
use trackiops_schemas::columns;
use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::file_ops::{FileOp, FileOps};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::{OperationRow, OperationSums};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::{AppCalls, CachedBytes, Direction, Health, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::UtcMs;

use crate::column_values::{signed, stored, us_of};

/// A row with its window and file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The file.
    pub file: Arc<FileAttributes>,
    /// Its counters.
    pub row: Row,
}

/// The recorder's account of itself in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The account.
    pub health: Health,
}

/// An operation's row with its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The operation.
    pub row: OperationRow,
}

/// Rows of one host as a batch of [`columns::rollup_schema`].
pub fn rollup_batch(host: &str, rows: &[RollupRow]) -> Result<RecordBatch, ArrowError> {
    let mut arrays: Vec<ArrayRef> = vec![
        times(rows.iter().map(|row| row.time)),
        hosts(host, rows.len()),
    ];
    arrays.extend(file_columns(rows.iter().map(|row| &*row.file)));
    let levels = rows.iter().map(|row| match row.file.level {
        IoLevel::Wire => None,
        level => Some(level.as_str()),
    });
    arrays.push(Arc::new(levels.collect::<StringArray>()));
    let directions: [fn(&RollupRow) -> &Direction; 2] = [|row| &row.row.read, |row| &row.row.write];
    for (name, direction) in columns::DIRECTIONS.into_iter().zip(directions) {
        let table = Direction::COUNTERS.iter();
        let table = table.filter(|counter| counter.is_of(name));
        arrays.extend(counters(table, rows.iter().map(direction)));
        let errnos = rows.iter().map(|row| direction(row).errnos.counts());
        arrays.push(lists(columns::errno_item(), errnos)?);
        let latencies = rows.iter().map(|row| direction(row).latency.buckets());
        arrays.push(lists(columns::histogram_item(), latencies)?);
    }
    arrays.push(file_ops(rows.iter().map(|row| &row.row.ops))?);
    let calls: [fn(&RollupRow) -> &AppCalls; 2] =
        [|row| &row.row.app_read, |row| &row.row.app_write];
    for calls in calls {
        arrays.extend(counters(AppCalls::COUNTERS.iter(), rows.iter().map(calls)));
        let latencies = rows.iter().map(|row| calls(row).latency.buckets());
        arrays.push(lists(columns::histogram_item(), latencies)?);
    }
    let cache = rows.iter().map(|row| &row.row.cache);
    arrays.extend(counters(CachedBytes::COUNTERS.iter(), cache));
    RecordBatch::try_new(columns::rollup_schema(), arrays)
}

/// The columns from [`columns::MOUNT`] to [`columns::LABELS`].
pub(super) fn file_columns<'f>(
    files: impl Iterator<Item = &'f FileAttributes> + Clone,
) -> [ArrayRef; 12] {
    let text = |of: fn(&FileAttributes) -> Option<&str>| -> ArrayRef {
        Arc::new(files.clone().map(of).collect::<StringArray>())
    };
    let inferred = files
        .clone()
        .map(|file| file.path.as_ref().map(|_| file.path_inferred));
    let keys = files.clone().map(|file| file.key.0);
    let devs = files.clone().map(|file| file.id.dev.to_string());
    let fileids = files.clone().map(|file| file.id.fileid.cast_signed());
    let uids = files.clone().map(|file| file.tenant.uid.map(i64::from));
    [
        text(|file| file.mount.as_deref()),
        text(|file| file.path.as_deref()),
        Arc::new(inferred.collect::<BooleanArray>()),
        Arc::new(Int64Array::from_iter_values(keys)),
        Arc::new(StringArray::from_iter_values(devs)),
        Arc::new(Int64Array::from_iter_values(fileids)),
        Arc::new(uids.collect::<Int64Array>()),
        text(|file| file.tenant.user.as_deref()),
        text(|file| file.tenant.cgroup.as_deref()),
        text(|file| file.tenant.container.as_deref()),
        text(|file| file.tenant.name.as_deref()),
        text(|file| file.tenant.labels.as_deref()),
    ]
}

fn file_ops<'a>(rows: impl Iterator<Item = &'a FileOps> + Clone) -> Result<ArrayRef, ArrowError> {
    let ops = || rows.clone().flat_map(FileOps::as_slice);
    let names = StringArray::from_iter_values(ops().map(|op| op.op.as_str()));
    let mut fields: Vec<ArrayRef> = vec![Arc::new(names)];
    fields.extend(counters(FileOp::COUNTERS.iter(), ops()));
    let execute = ops().map(|op| op.execute.buckets());
    fields.push(lists(columns::histogram_item(), execute)?);
    let elements = StructArray::try_new(columns::file_op_fields(), fields, None)?;
    Ok(Arc::new(ListArray::try_new(
        Arc::new(columns::file_op_item()),
        OffsetBuffer::from_lengths(rows.map(|ops| ops.as_slice().len())),
        Arc::new(elements),
        None,
    )?))
}

/// Health rows of one host as a batch of [`columns::health_schema`].
pub fn health_batch(host: &str, rows: &[HealthRow]) -> Result<RecordBatch, ArrowError> {
    let mut arrays = vec![
        times(rows.iter().map(|row| row.time)),
        hosts(host, rows.len()),
    ];
    let health = rows.iter().map(|row| &row.health);
    arrays.extend(counters(Health::COUNTERS.iter(), health));
    let pending = || rows.iter().map(|row| row.health.pending.as_ref());
    let maxima: [fn(&Pending) -> u64; 2] = [|p| p.requests_max, |p| p.age_ms_max];
    for max in maxima {
        let column = pending().map(|pending| pending.map(|pending| signed(max(pending))));
        arrays.push(Arc::new(column.collect::<Int64Array>()));
    }
    arrays.push(pending_clients(pending())?);
    let filters = rows.iter().map(|row| row.health.filter.as_deref());
    arrays.push(Arc::new(filters.collect::<StringArray>()));
    let sources = rows.iter().map(|row| row.health.source.as_deref());
    arrays.push(Arc::new(sources.collect::<StringArray>()));
    arrays.push(captured_streams(
        rows.iter().map(|row| &row.health.captured),
    )?);
    RecordBatch::try_new(columns::health_schema(), arrays)
}

/// Rows of operations of one host as a batch of [`columns::ops_schema`].
pub fn ops_batch(host: &str, rows: &[OpsRow]) -> Result<RecordBatch, ArrowError> {
    let operations = || rows.iter().map(|row| &row.row.operation);
    let mounts = operations().map(|operation| operation.mount.as_deref());
    let ops = operations().map(|operation| &operation.op);
    let transports = operations().map(|operation| operation.transport.as_deref());
    let mut arrays: Vec<ArrayRef> = vec![
        times(rows.iter().map(|row| row.time)),
        hosts(host, rows.len()),
        Arc::new(mounts.collect::<StringArray>()),
        Arc::new(StringArray::from_iter_values(ops)),
        Arc::new(transports.collect::<StringArray>()),
    ];
    let sums = rows.iter().map(|row| &row.row.sums);
    arrays.extend(counters(OperationSums::COUNTERS.iter(), sums));
    let execute = rows.iter().map(|row| row.row.sums.execute.buckets());
    arrays.push(lists(columns::histogram_item(), execute)?);
    arrays.extend(TcpSums::COUNTERS.iter().map(|counter| -> ArrayRef {
        let values = rows.iter().map(|row| row.row.sums.tcp.known(counter));
        Arc::new(
            values
                .map(|value| value.map(signed))
                .collect::<Int64Array>(),
        )
    }));
    RecordBatch::try_new(columns::ops_schema(), arrays)
}

fn pending_clients<'a>(
    rows: impl Iterator<Item = Option<&'a Pending>> + Clone,
) -> Result<ArrayRef, ArrowError> {
    let clients = || rows.clone().flatten().flat_map(|pending| &pending.clients);
    let mounts: StringArray = clients()
        .flat_map(|client| &client.mounts)
        .map(Some)
        .collect();
    let mounts = ListArray::try_new(
        Arc::new(columns::mount_item()),
        OffsetBuffer::from_lengths(clients().map(|client| client.mounts.len())),
        Arc::new(mounts),
        None,
    )?;
    let number = |of: fn(&PendingClient) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(clients().map(of)))
    };
    let servers = clients().map(|client| client.server.as_deref());
    let fields: Vec<ArrayRef> = vec![
        number(|client| i64::from(client.client)),
        Arc::new(servers.collect::<StringArray>()),
        Arc::new(mounts),
        number(|client| signed(client.requests_max)),
        number(|client| signed(client.age_ms_max)),
    ];
    let elements = StructArray::try_new(columns::pending_client_fields(), fields, None)?;
    let lengths = rows
        .clone()
        .map(|pending| pending.map_or(0, |pending| pending.clients.len()));
    Ok(Arc::new(ListArray::try_new(
        Arc::new(columns::pending_client_item()),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(elements),
        Some(rows.map(|pending| pending.is_some()).collect()),
    )?))
}

fn captured_streams<'a>(
    rows: impl Iterator<Item = &'a Captured> + Clone,
) -> Result<ArrayRef, ArrowError> {
    let streams = || rows.clone().flat_map(Captured::iter);
    let text = |of: fn(&Stream) -> String| -> ArrayRef {
        let texts = streams().map(|(stream, _)| stream.map(of));
        Arc::new(texts.collect::<StringArray>())
    };
    let mut fields = vec![
        text(|stream| stream.client.to_string()),
        text(|stream| stream.server.to_string()),
        text(|stream| stream.carrier.to_string()),
        text(|stream| stream.direction.to_string()),
    ];
    let bytes = streams().map(|(_, bytes)| bytes);
    fields.extend(counters(StreamBytes::COUNTERS.iter(), bytes));
    let elements = StructArray::try_new(columns::stream_fields(), fields, None)?;
    Ok(Arc::new(ListArray::try_new(
        Arc::new(columns::stream_item()),
        OffsetBuffer::from_lengths(rows.map(|captured| captured.iter().len())),
        Arc::new(elements),
        None,
    )?))
}

/// The columns of counters.
fn counters<'r, R: 'static>(
    table: impl Iterator<Item = &'static Counter<R>>,
    rows: impl Iterator<Item = &'r R> + Clone,
) -> impl Iterator<Item = ArrayRef> {
    table.map(move |counter| {
        let column = rows.clone().map(|row| stored(counter, row));
        Arc::new(Int64Array::from_iter_values(column)) as ArrayRef
    })
}

fn times(times: impl Iterator<Item = UtcMs>) -> ArrayRef {
    let array = TimestampMicrosecondArray::from_iter_values(times.map(us_of));
    Arc::new(array.with_timezone("UTC"))
}

/// A column with the host's name in every row.
pub(super) fn hosts(host: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        host, rows,
    )))
}

/// Lists of pairs of a key and a count.
fn lists<'a>(
    item: Field,
    rows: impl Iterator<Item = &'a [(i32, u64)]>,
) -> Result<ArrayRef, ArrowError> {
    let (mut keys, mut counts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        lengths.push(row.len());
        for (key, count) in row {
            keys.push(*key);
            counts.push(signed(*count));
        }
    }
    let DataType::Struct(fields) = item.data_type() else {
        return Err(ArrowError::SchemaError(
            "a list of counts has no fields".into(),
        ));
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(keys)),
        Arc::new(Int64Array::from(counts)),
    ];
    let elements = StructArray::try_new(fields.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(
        Arc::new(item),
        offsets,
        Arc::new(elements),
        None,
    )?))
}
