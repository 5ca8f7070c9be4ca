//! Names and types of the columns on disk. They are part of the format: the same in Parquet, JSON
//! and CSV.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// Version of the format of everything on disk. A store of a newer version is not opened.
///
/// Version 2 adds rows of operations, more counters to rows of files and of health, to the latter what was pending, and to paths
/// where they are from; in what version 1 wrote that is not known.
///
/// Version 3 adds to rows of health what was kept from the store, to segments what they are and a checksum, and to the catalog what it takes to merge and to expire them.
pub const FORMAT_VERSION: u32 = 3;
/// The first of them whose segments have [`META_CRC32C`] and describe themselves.
pub const VERSION_OF_CHECKSUMS: u32 = 3;
/// The first of them whose rows of health tell what was kept from the store.
pub const VERSION_OF_STORE_HEALTH: u32 = 3;
/// The first of them that tells the parts of latencies.
pub const VERSION_OF_PARTS: u32 = 2;
/// The first of them in which the kernel has told paths.
pub const VERSION_OF_TOLD_PATHS: u32 = 2;
/// Parquet key-value metadata: [`FORMAT_VERSION`] of the file.
pub const META_FORMAT: &str = "trackiops.format";
/// Parquet key-value metadata: version of the program that wrote the file.
pub const META_WRITER: &str = "trackiops.writer";
/// Parquet key-value metadata: the file's granularity, such as `10s`.
pub const META_GRANULARITY: &str = "trackiops.granularity";
/// Parquet key-value metadata: what the rows are, as the file's first directory says.
pub const META_DATASET: &str = "trackiops.dataset";
/// Parquet key-value metadata: the recording host.
pub const META_HOST: &str = "trackiops.host";
/// Parquet key-value metadata: the journals that the rows are from: `number:start..end`, in ms since the epoch, with commas
/// between them. They start with the first and end with the last window of the finest granularity.
pub const META_JOURNALS: &str = "trackiops.journals";
/// Parquet key-value metadata: CRC32C of the file in which the eight hexadecimal digits of this value are zeros.
pub const META_CRC32C: &str = "trackiops.crc32c";

/// Start of the window, UTC.
pub const TIME: &str = "time";
/// Name of the recording host.
pub const HOST: &str = "host";
/// `server:/export`.
pub const MOUNT: &str = "mount";
/// The file's name when the window closed or it was renamed.
pub const PATH: &str = "path";
/// Whether the name was found by looking at who has the file open, rather than told by the kernel; null without a name.
pub const PATH_INFERRED: &str = "path_inferred";
/// [`crate::identity::FileKey`].
pub const FILE_KEY: &str = "file_key";
/// `major:minor`.
pub const DEV: &str = "dev";
/// NFS fileid.
pub const FILEID: &str = "fileid";
/// [`crate::identity::FileAttributes::tenant`].
pub const TENANT: &str = "tenant";

/// The two directions, in column order.
pub const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Integer columns of one direction, without the `read_` or `write_` before them, in column order.
pub const DIRECTION_COUNTERS: [&str; 15] = [
    "requests",
    "bytes",
    "latency_us_sum",
    "latency_us_max",
    "queue_us_sum",
    "rtt_us_sum",
    "errors",
    "retrans",
    "short",
    "sequential",
    "folded",
    "untimed",
    UNSPLIT,
    "direct",
    "stable",
];

/// Which of [`DIRECTION_COUNTERS`] are times: us in columns, ns in memory.
pub const DIRECTION_TIMES: Range<usize> = 2..6;

/// The column of one direction, one of [`DIRECTION_COUNTERS`], that counts requests of whose latencies the parts are not known: all,
/// in what version 1 of the format wrote, which does not have it.
pub const UNSPLIT: &str = "unsplit";

/// Whether there is such a column: reading knows nothing of stable storage.
pub fn has_counter(direction: &str, counter: &str) -> bool {
    (direction, counter) != ("read", "stable")
}

/// The column of a row of files that has its operations beside READ and WRITE: a list, each with its [`OP`].
pub const FILE_OPS: &str = "ops";
/// Integers within an element of [`FILE_OPS`], in order.
pub const FILE_OP_COUNTERS: [&str; 6] = [
    "requests",
    "errors",
    "queue_us_sum",
    "rtt_us_sum",
    "latency_us_sum",
    "latency_us_max",
];

/// The column of one direction that counts errors by errno, without the direction before it.
pub const ERRNOS: &str = "errors_by_errno";
/// The error within an element of [`ERRNOS`], as in errno(3).
pub const ERRNO: &str = "errno";
/// The histogram column of one direction, without the direction before it.
pub const LATENCY_HIST: &str = "latency_hist";
/// Number of the bucket within a histogram's element.
pub const HIST_BUCKET: &str = "bucket";
/// Number of requests within an element of a histogram or of [`ERRNOS`].
pub const COUNT: &str = "count";

/// Columns of the health rows after `time` and `host`, in column order.
pub const HEALTH_COUNTERS: [&str; 12] = [
    "covered_ms",
    "seen",
    "recorded",
    "folded",
    "lost",
    "missed",
    "clock_steps",
    "ops_covered_ms",
    "ops_seen",
    "ops_missed",
    "requests_dropped",
    "store_failures",
];

/// Column of the health rows: most requests that were pending at a look; null where nobody could look.
pub const PENDING_REQUESTS_MAX: &str = "pending_requests_max";
/// Column of the health rows: age of the oldest pending request, ms; null where nobody could look.
pub const PENDING_AGE_MS_MAX: &str = "pending_age_ms_max";
/// Column of the health rows: a list of the RPC clients that had pending requests.
pub const PENDING_CLIENTS: &str = "pending_clients";
/// Column of the health rows: the filter of the recording as it was given; null where there was none.
pub const FILTER: &str = "filter";
/// Number of the RPC client within [`PENDING_CLIENTS`].
pub const CLIENT: &str = "client";
/// Address of its server.
pub const SERVER: &str = "server";
/// `server:/export` of the mounts that it may serve, where it was stalled.
pub const MOUNTS: &str = "mounts";
/// [`PENDING_REQUESTS_MAX`] of one client.
pub const REQUESTS_MAX: &str = "requests_max";
/// [`PENDING_AGE_MS_MAX`] of one client.
pub const AGE_MS_MAX: &str = "age_ms_max";

/// Column of the rows of operations: the procedure. Of the requests: `READ` or `WRITE`.
pub const OP: &str = "op";
/// Column of the rows of operations: the connection; null where not known.
pub const TRANSPORT: &str = "transport";
/// Integer columns of the rows of operations, in column order.
pub const OP_COUNTERS: [&str; 8] = [
    "requests",
    "errors",
    "sent_bytes",
    "received_bytes",
    "queue_us_sum",
    "rtt_us_sum",
    "execute_us_sum",
    "execute_us_max",
];
/// Column of the rows of operations: the histogram.
pub const EXECUTE_HIST: &str = "execute_hist";

/// Column of the requests: when the request completed.
pub const END_TIME: &str = "end_time";
/// Column of the requests: the user on whose behalf it was made; null where not known.
pub const UID: &str = "uid";
/// Column of the requests: the process that initiated it; null where not known.
pub const PID: &str = "pid";
/// Column of the requests: offset of the first byte asked for.
pub const OFFSET_BYTES: &str = "offset_bytes";
/// Column of the requests: bytes asked for.
pub const ASKED_BYTES: &str = "asked_bytes";
/// Column of the requests: bytes transferred.
pub const DONE_BYTES: &str = "done_bytes";
/// Column of the requests: null where not known.
pub const LATENCY_NS: &str = "latency_ns";
/// Column of the requests: part of the latency until transmission; null where not known.
pub const QUEUE_NS: &str = "queue_ns";
/// Column of the requests: part of the latency from transmission to reply; null where not known.
pub const RTT_NS: &str = "rtt_ns";
/// Column of the requests: how often it was transmitted again; null where not known.
pub const RETRANS: &str = "retrans";
/// Column of the requests: whether the server said end of file; null for WRITE.
pub const EOF: &str = "eof";
/// Column of the requests: whether it was made by O_DIRECT.
pub const DIRECT: &str = "direct";
/// Column of the requests: whether it asked for stable storage; null for READ.
pub const STABLE: &str = "stable";
/// Column of the requests: id of the RPC as on the wire; null where not known.
pub const XID: &str = "xid";

/// The type of `time`.
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// The element of a histogram.
pub fn histogram_item() -> Field {
    counted(HIST_BUCKET, DataType::Int16)
}

/// The element of [`ERRNOS`].
pub fn errno_item() -> Field {
    counted(ERRNO, DataType::Int32)
}

/// The element of a list of counts: what is counted, and how often there was one.
fn counted(what: &str, is: DataType) -> Field {
    let fields = Fields::from(vec![
        Field::new(what, is, false),
        Field::new(COUNT, DataType::Int64, false),
    ]);
    Field::new("element", DataType::Struct(fields), false)
}

/// Fields of an element of [`FILE_OPS`].
pub fn file_op_fields() -> Fields {
    let counters = FILE_OP_COUNTERS.map(|name| Field::new(name, DataType::Int64, false));
    let name = Field::new(OP, DataType::Utf8, false);
    [name].into_iter().chain(counters).collect()
}

/// The element of [`FILE_OPS`].
pub fn file_op_item() -> Field {
    Field::new("element", DataType::Struct(file_op_fields()), false)
}

/// Fields of an element of [`PENDING_CLIENTS`].
pub fn pending_client_fields() -> Fields {
    Fields::from(vec![
        Field::new(CLIENT, DataType::Int64, false),
        Field::new(SERVER, DataType::Utf8, true),
        Field::new(MOUNTS, DataType::List(Arc::new(mount_item())), false),
        Field::new(REQUESTS_MAX, DataType::Int64, false),
        Field::new(AGE_MS_MAX, DataType::Int64, false),
    ])
}

/// The element of [`PENDING_CLIENTS`].
pub fn pending_client_item() -> Field {
    let fields = DataType::Struct(pending_client_fields());
    Field::new("element", fields, false)
}

/// The element of [`MOUNTS`].
pub fn mount_item() -> Field {
    Field::new("element", DataType::Utf8, false)
}

/// Schema of a rollup segment. Counters are signed because Spark and pandas have no unsigned sums.
pub fn rollup_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new(TIME, time_type(), false),
        Field::new(HOST, DataType::Utf8, false),
        Field::new(MOUNT, DataType::Utf8, true),
        Field::new(PATH, DataType::Utf8, true),
        Field::new(PATH_INFERRED, DataType::Boolean, true),
        Field::new(FILE_KEY, DataType::UInt64, false),
        Field::new(DEV, DataType::Utf8, false),
        Field::new(FILEID, DataType::UInt64, false),
        Field::new(TENANT, DataType::Utf8, true),
    ];
    for direction in DIRECTIONS {
        let mut add =
            |name: &str, is| fields.push(Field::new(format!("{direction}_{name}"), is, false));
        for counter in DIRECTION_COUNTERS {
            if has_counter(direction, counter) {
                add(counter, DataType::Int64);
            }
        }
        add(ERRNOS, DataType::List(Arc::new(errno_item())));
        add(LATENCY_HIST, DataType::List(Arc::new(histogram_item())));
    }
    let ops = DataType::List(Arc::new(file_op_item()));
    fields.push(Field::new(FILE_OPS, ops, false));
    Arc::new(Schema::new(fields))
}

/// Schema of a segment of requests; the error is [`ERRNO`], null where there was none.
pub fn request_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new(END_TIME, time, false),
        Field::new(HOST, DataType::Utf8, false),
        Field::new(MOUNT, DataType::Utf8, true),
        Field::new(PATH, DataType::Utf8, true),
        Field::new(PATH_INFERRED, DataType::Boolean, true),
        Field::new(FILE_KEY, DataType::UInt64, false),
        Field::new(DEV, DataType::Utf8, false),
        Field::new(FILEID, DataType::UInt64, false),
        Field::new(TENANT, DataType::Utf8, true),
        Field::new(UID, DataType::UInt32, true),
        Field::new(PID, DataType::UInt32, true),
        Field::new(OP, DataType::Utf8, false),
        Field::new(OFFSET_BYTES, DataType::Int64, false),
        Field::new(ASKED_BYTES, DataType::Int64, false),
        Field::new(DONE_BYTES, DataType::Int64, false),
        Field::new(LATENCY_NS, DataType::Int64, true),
        Field::new(QUEUE_NS, DataType::Int64, true),
        Field::new(RTT_NS, DataType::Int64, true),
        Field::new(RETRANS, DataType::Int64, true),
        Field::new(EOF, DataType::Boolean, true),
        Field::new(DIRECT, DataType::Boolean, false),
        Field::new(STABLE, DataType::Boolean, true),
        Field::new(ERRNO, DataType::Int32, true),
        Field::new(XID, DataType::UInt32, true),
    ]))
}

/// Schema of a health segment.
pub fn health_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new(TIME, time_type(), false),
        Field::new(HOST, DataType::Utf8, false),
    ];
    for counter in HEALTH_COUNTERS {
        fields.push(Field::new(counter, DataType::Int64, false));
    }
    for counter in [PENDING_REQUESTS_MAX, PENDING_AGE_MS_MAX] {
        fields.push(Field::new(counter, DataType::Int64, true));
    }
    let clients = DataType::List(Arc::new(pending_client_item()));
    fields.push(Field::new(PENDING_CLIENTS, clients, true));
    fields.push(Field::new(FILTER, DataType::Utf8, true));
    Arc::new(Schema::new(fields))
}

/// Schema of a segment of operations.
pub fn ops_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new(TIME, time_type(), false),
        Field::new(HOST, DataType::Utf8, false),
        Field::new(MOUNT, DataType::Utf8, true),
        Field::new(OP, DataType::Utf8, false),
        Field::new(TRANSPORT, DataType::Utf8, true),
    ];
    for counter in OP_COUNTERS {
        fields.push(Field::new(counter, DataType::Int64, false));
    }
    let list = DataType::List(Arc::new(histogram_item()));
    fields.push(Field::new(EXECUTE_HIST, list, false));
    Arc::new(Schema::new(fields))
}
