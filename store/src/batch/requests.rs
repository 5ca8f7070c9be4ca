//! Encodes single requests as record batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::error::ArrowError;
use trackiops_schemas::columns;
use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::request::Request;

use super::encode::{file_columns, hosts};
use crate::column_values::signed;

/// These flags distinguish READs, WRITEs and calls. Calls have neither end of file nor stable storage.
const KIND: u32 = flags::CALL | flags::WRITE;

/// A request with its file.
#[derive(Clone, Debug)]
pub struct RequestRow {
    /// The file.
    pub file: Arc<FileAttributes>,
    /// The request. Its index of a file is not used here.
    pub request: Request,
}

/// Requests of one host as a batch of [`columns::request_schema`].
pub fn request_batch(host: &str, rows: &[RequestRow]) -> Result<RecordBatch, ArrowError> {
    let requests = || rows.iter().map(|row| &row.request);
    let number = |of: fn(&Request) -> u64| -> ArrayRef {
        let column = requests().map(|request| signed(of(request)));
        Arc::new(Int64Array::from_iter_values(column))
    };
    let known = |of: fn(&Request) -> Option<u64>| -> ArrayRef {
        let column = requests().map(|request| of(request).map(signed));
        Arc::new(column.collect::<Int64Array>())
    };
    let id = |of: fn(&Request) -> Option<u32>| -> ArrayRef {
        let column = requests().map(|request| of(request).map(i64::from));
        Arc::new(column.collect::<Int64Array>())
    };
    let flag = |of: fn(&Request) -> Option<bool>| -> ArrayRef {
        Arc::new(requests().map(of).collect::<BooleanArray>())
    };
    let ends_ns = || requests().map(|request| request.end_ns);
    let ends = TimestampMicrosecondArray::from_iter_values(ends_ns().map(|ns| ns.div_euclid(1000)));
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(ends.with_timezone("UTC")),
        Arc::new(Int64Array::from_iter_values(ends_ns())),
        hosts(host, rows.len()),
    ];
    arrays.extend(file_columns(rows.iter().map(|row| &*row.file)));
    let levels = rows
        .iter()
        .map(|row| row.request.level(row.file.level).as_str());
    let processes = requests().map(|request| request.process.text());
    let of_requests: [ArrayRef; 18] = [
        Arc::new(StringArray::from_iter_values(levels)),
        id(Request::pid),
        Arc::new(processes.collect::<StringArray>()),
        id(Request::tid),
        Arc::new(StringArray::from_iter_values(
            requests().map(Request::operation),
        )),
        known(Request::offset),
        number(|request| u64::from(request.asked_bytes)),
        number(|request| u64::from(request.done_bytes)),
        known(Request::latency_ns),
        known(|request| request.parts_ns().map(|[queue_ns, _]| queue_ns)),
        known(|request| request.parts_ns().map(|[_, rtt_ns]| rtt_ns)),
        known(|request| request.retransmissions().map(u64::from)),
        flag(|request| (request.flags & KIND == 0).then_some(request.is(flags::EOF))),
        flag(|request| Some(request.is(flags::DIRECT))),
        flag(|request| (request.flags & KIND == flags::WRITE).then_some(request.is(flags::STABLE))),
        Arc::new(requests().map(Request::errno).collect::<Int32Array>()),
        id(Request::xid),
        flag(|request| Some(request.is(flags::PIECE))),
    ];
    arrays.extend(of_requests);
    RecordBatch::try_new(columns::request_schema(), arrays)
}
