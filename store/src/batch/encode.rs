//! Rows to record batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Int64Array, ListArray, PrimitiveArray, RecordBatch,
    StringArray, StructArray, TimestampMillisecondArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int16Type, Int32Type};
use arrow::error::ArrowError;
use trackiops_schemas::columns;
use trackiops_schemas::file_ops::{FileOp, FileOps};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::OperationRow;
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::rollup::{Direction, Health, Row};
use trackiops_schemas::time::UtcMs;

use super::{counters, op_counters};
use crate::units::{signed, us_from_ns};

/// A row with its window and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The file.
    pub file: Arc<FileAttributes>,
    /// Its counters.
    pub row: Row,
}

/// The recorder's own account of a window.
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
    let files = || rows.iter().map(|row| &*row.file);
    let mut arrays: Vec<ArrayRef> = vec![
        times(rows.iter().map(|row| row.time)),
        hosts(host, rows.len()),
        Arc::new(
            files()
                .map(|file| file.mount.as_deref())
                .collect::<StringArray>(),
        ),
        Arc::new(
            files()
                .map(|file| file.path.as_deref())
                .collect::<StringArray>(),
        ),
        path_inferred(files()),
        Arc::new(UInt64Array::from_iter_values(
            files().map(|file| file.key.0),
        )),
        Arc::new(StringArray::from_iter_values(
            files().map(|file| file.id.dev.to_string()),
        )),
        Arc::new(UInt64Array::from_iter_values(
            files().map(|file| file.id.fileid),
        )),
        Arc::new(
            files()
                .map(|file| file.tenant.as_deref())
                .collect::<StringArray>(),
        ),
    ];
    let directions: [fn(&RollupRow) -> &Direction; 2] = [|row| &row.row.read, |row| &row.row.write];
    for (name, direction) in columns::DIRECTIONS.into_iter().zip(directions) {
        let counters: Vec<_> = rows.iter().map(|row| counters(direction(row))).collect();
        for (i, counter) in columns::DIRECTION_COUNTERS.into_iter().enumerate() {
            if columns::has_counter(name, counter) {
                let column = counters.iter().map(|counters| counters[i]);
                arrays.push(Arc::new(Int64Array::from_iter_values(column)));
            }
        }
        let errnos = rows.iter().map(|row| direction(row).errnos.counts());
        arrays.push(lists::<Int32Type>(columns::errno_item(), errnos)?);
        let latencies = rows.iter().map(|row| direction(row).latency.buckets());
        arrays.push(lists::<Int16Type>(columns::histogram_item(), latencies)?);
    }
    arrays.push(file_ops(rows.iter().map(|row| &row.row.ops))?);
    RecordBatch::try_new(columns::rollup_schema(), arrays)
}

/// The column [`columns::PATH_INFERRED`].
pub(super) fn path_inferred<'f>(files: impl Iterator<Item = &'f FileAttributes>) -> ArrayRef {
    let column = files.map(|file| file.path.as_ref().map(|_| file.path_inferred));
    Arc::new(column.collect::<BooleanArray>())
}

fn file_ops<'a>(rows: impl Iterator<Item = &'a FileOps> + Clone) -> Result<ArrayRef, ArrowError> {
    let ops = || rows.clone().flat_map(FileOps::as_slice);
    let counters: Vec<_> = ops().map(file_op_counters).collect();
    let names = StringArray::from_iter_values(ops().map(|op| op.op.as_str()));
    let mut fields: Vec<ArrayRef> = vec![Arc::new(names)];
    for i in 0..columns::FILE_OP_COUNTERS.len() {
        let column = counters.iter().map(|counters| counters[i]);
        fields.push(Arc::new(Int64Array::from_iter_values(column)));
    }
    let elements = StructArray::try_new(columns::file_op_fields(), fields, None)?;
    Ok(Arc::new(ListArray::try_new(
        Arc::new(columns::file_op_item()),
        OffsetBuffer::from_lengths(rows.map(|ops| ops.as_slice().len())),
        Arc::new(elements),
        None,
    )?))
}

/// In the order of [`columns::FILE_OP_COUNTERS`].
fn file_op_counters(op: &FileOp) -> [i64; columns::FILE_OP_COUNTERS.len()] {
    let [requests, errors, times @ ..] = op.counters();
    let [queue, rtt, latency, max] = times.map(us_from_ns);
    [signed(requests), signed(errors), queue, rtt, latency, max]
}

/// Health rows of one host as a batch of [`columns::health_schema`].
pub fn health_batch(host: &str, rows: &[HealthRow]) -> Result<RecordBatch, ArrowError> {
    let mut arrays = vec![
        times(rows.iter().map(|row| row.time)),
        hosts(host, rows.len()),
    ];
    for i in 0..columns::HEALTH_COUNTERS.len() {
        let column = rows
            .iter()
            .map(|row| signed(health_counters(&row.health)[i]));
        arrays.push(Arc::new(Int64Array::from_iter_values(column)));
    }
    let pending = || rows.iter().map(|row| row.health.pending.as_ref());
    let maxima: [fn(&Pending) -> u64; 2] = [|p| p.requests_max, |p| p.age_ms_max];
    for max in maxima {
        let column = pending().map(|pending| pending.map(|pending| signed(max(pending))));
        arrays.push(Arc::new(column.collect::<Int64Array>()));
    }
    arrays.push(pending_clients(pending())?);
    let filters = rows.iter().map(|row| row.health.filter.as_deref());
    arrays.push(Arc::new(filters.collect::<StringArray>()));
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
    for i in 0..columns::OP_COUNTERS.len() {
        let column = rows.iter().map(|row| op_counters(&row.row.sums)[i]);
        arrays.push(Arc::new(Int64Array::from_iter_values(column)));
    }
    let execute = rows.iter().map(|row| row.row.sums.execute.buckets());
    arrays.push(lists::<Int16Type>(columns::histogram_item(), execute)?);
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

/// In the order of [`columns::HEALTH_COUNTERS`].
fn health_counters(health: &Health) -> [u64; columns::HEALTH_COUNTERS.len()] {
    let Health {
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
        pending: _,
        filter: _,
    } = health;
    [
        *covered_ms,
        *seen,
        *recorded,
        *folded,
        *lost,
        *missed,
        *clock_steps,
        *ops_covered_ms,
        *ops_seen,
        *ops_missed,
        *requests_dropped,
        *store_failures,
    ]
}

fn times(times: impl Iterator<Item = UtcMs>) -> ArrayRef {
    let array = TimestampMillisecondArray::from_iter_values(times.map(|time| time.0));
    Arc::new(array.with_timezone("UTC"))
}

/// The host's name in every row.
pub(super) fn hosts(host: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(
        host, rows,
    )))
}

/// Lists of what is counted, and how often there was one.
fn lists<'a, K: ArrowPrimitiveType>(
    item: Field,
    rows: impl Iterator<Item = &'a [(K::Native, u64)]>,
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
        Arc::new(PrimitiveArray::<K>::from_iter_values(keys)),
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
