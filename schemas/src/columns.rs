//! Names and types of the columns on disk. They are part of the format: the same in Parquet, JSON
//! and CSV.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::captured::StreamBytes;
use crate::file_ops::FileOp;
use crate::histogram;
use crate::ops::OperationSums;
use crate::row::{AppCalls, CachedBytes, Direction, Health};
use crate::tcp::TcpSums;
use crate::unit::Unit;

/// Version of the on-disk format. Programs refuse to open data of another version.
pub const FORMAT_VERSION: u32 = 1;
/// Parquet key-value metadata: [`FORMAT_VERSION`] of the file.
pub const META_FORMAT: &str = "trackiops.format";
/// Parquet key-value metadata: version of the program that wrote the file.
pub const META_WRITER: &str = "trackiops.writer";
/// Parquet key-value metadata: the file's granularity, such as `10s`.
pub const META_GRANULARITY: &str = "trackiops.granularity";
/// Parquet key-value metadata: the dataset of the rows, named like the file's first directory.
pub const META_DATASET: &str = "trackiops.dataset";
/// Parquet key-value metadata: the recording host.
pub const META_HOST: &str = "trackiops.host";
/// Parquet key-value metadata: the id of the store that the file was written in. In a copied store, `<` and the id of
/// the original follow.
pub const META_STORE: &str = "trackiops.store";
/// Parquet key-value metadata of an export: all ids of the stores that it is of, separated by commas. Absent in an
/// anonymous one.
pub const META_STORES: &str = "trackiops.stores";
/// Parquet key-value metadata: the journals that the rows are from, as `number:start..end` in ms since the epoch,
/// separated by commas. `start` and `end` bound the journal's windows of the finest granularity.
pub const META_JOURNALS: &str = "trackiops.journals";
/// Parquet key-value metadata of single requests: the file's name.
pub const META_NAME: &str = "trackiops.name";
/// Parquet key-value metadata of an export: `start..end` in ms since the epoch, from the start of the first window to
/// the end of the last one.
pub const META_RANGE: &str = "trackiops.range";
/// Parquet key-value metadata: CRC32C of the checksums of the file's blocks and of its footer. The footer is hashed
/// with eight zeros in place of this value.
pub const META_CRC32C: &str = "trackiops.crc32c";

/// Key in the metadata of a histogram column and of its file: the meaning of bucket numbers, see
/// [`histogram::mapping`].
pub const META_HISTOGRAM: &str = "trackiops.histogram";

/// Columns that were added to this version of the format. Older segments lack them, and they read as 0 there.
pub const ADDED: [&str; 8] = [
    "read_network_us_sum",
    "read_server_us_sum",
    "write_network_us_sum",
    "write_server_us_sum",
    "network_us_sum",
    "server_us_sum",
    "tcp_busy_us",
    "tcp_out_of_order",
];

/// Start of the window, UTC.
pub const TIME: &str = "time";
/// Name of the recording host.
pub const HOST: &str = "host";
/// `server:/export`, and a suffix where that is not unique.
pub const MOUNT: &str = "mount";
/// The volume of the mount, as the kubelet or a container engine names it; null where the mount is not a volume. Only
/// in answers, not on disk.
pub const VOLUME: &str = "volume";
/// The claim of that volume; null where not known. Only in answers, not on disk.
pub const CLAIM: &str = "claim";
/// The file's name when the window closed or it was renamed.
pub const PATH: &str = "path";
/// Whether the name was found through a process that has the file open, instead of being reported by the kernel; null
/// without a name.
pub const PATH_INFERRED: &str = "path_inferred";
/// [`crate::identity::FileKey`].
pub const FILE_KEY: &str = "file_key";
/// `major:minor`.
pub const DEV: &str = "dev";
/// NFS fileid.
pub const FILEID: &str = "fileid";
/// The user who used the file on the host: [`crate::identity::Tenant::uid`]; null where not known.
pub const UID: &str = "uid";
/// The user's name when it was recorded; null where not known.
pub const USER: &str = "user";
/// The cgroup that used the file: [`crate::identity::Tenant::cgroup`]; null where not known.
pub const CGROUP: &str = "cgroup";
/// Names of the cgroup's container: [`crate::identity::Tenant::container`]; null where not known.
pub const CONTAINER: &str = "container";
/// The name that rules gave the tenant: [`crate::identity::Tenant::name`]; null where no rule applied.
pub const TENANT_NAME: &str = "tenant_name";
/// The labels that rules gave the tenant: [`crate::identity::Tenant::labels`]; null where no rule applied.
pub const LABELS: &str = "labels";

/// [`crate::level::IoLevel`]; null for the wire.
pub const LEVEL: &str = "level";
/// Column: whether the row holds further bytes of a request that another row counts. They are of another file, or
/// completed separately.
pub const PIECE: &str = "piece";

/// The columns of the tenant.
pub const TENANT_COLUMNS: [&str; 6] = [UID, USER, CGROUP, CONTAINER, TENANT_NAME, LABELS];

/// The two directions, in column order.
pub const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Prefixes of the columns of application calls, in the order of [`DIRECTIONS`].
pub const APP_DIRECTIONS: [&str; 2] = ["app_read_", "app_write_"];

/// Prefix of the columns of the page cache.
pub const CACHE: &str = "cache_";

/// The column of one direction that counts timed requests without the parts of their latency.
pub const UNSPLIT: &str = "unsplit";

/// Whether a direction has a column of that name (given without the direction): reads have no `stable`.
pub fn has_counter(direction: &str, name: &str) -> bool {
    let mut counters = Direction::COUNTERS.iter();
    counters.all(|counter| counter.name != name || counter.is_of(direction))
}

/// The column of a row of files with its operations other than READ and WRITE: a list, each with its [`OP`].
pub const FILE_OPS: &str = "ops";

/// The column of one direction that counts errors by errno, without its direction prefix.
pub const ERRNOS: &str = "errors_by_errno";
/// The error within an element of [`ERRNOS`], as in errno(3).
pub const ERRNO: &str = "errno";
/// The histogram column of one direction, without its direction prefix.
pub const LATENCY_HIST: &str = "latency_hist";
/// Number of the bucket within a histogram's element.
pub const HIST_BUCKET: &str = "bucket";
/// Number of requests within an element of a histogram or of [`ERRNOS`].
pub const COUNT: &str = "count";

/// Column of the health rows: most requests that were pending at a look; null where the kernel's list was not readable.
pub const PENDING_REQUESTS_MAX: &str = "pending_requests_max";
/// Column of the health rows: age of the oldest pending request, ms; null where the kernel's list was not readable.
pub const PENDING_AGE_MS_MAX: &str = "pending_age_ms_max";
/// Column of the health rows: a list of the RPC clients that had pending requests.
pub const PENDING_CLIENTS: &str = "pending_clients";
/// Column of the health rows: the filter of the recording as it was given; null where there was none.
pub const FILTER: &str = "filter";
/// Column of the health rows: the kind of import; null where rows were recorded.
pub const SOURCE: &str = "source";
/// Column of the health rows: a list of the captured streams, with where their bytes went.
pub const CAPTURED: &str = "captured";
/// Direction of a stream, within [`CAPTURED`].
pub const DIRECTION: &str = "direction";
/// Number of the RPC client within [`PENDING_CLIENTS`].
pub const CLIENT: &str = "client";
/// Address of that client's server.
pub const SERVER: &str = "server";
/// `server:/export` of the mounts that a stalled client may serve.
pub const MOUNTS: &str = "mounts";
/// [`PENDING_REQUESTS_MAX`] of one client.
pub const REQUESTS_MAX: &str = "requests_max";
/// [`PENDING_AGE_MS_MAX`] of one client.
pub const AGE_MS_MAX: &str = "age_ms_max";

/// Column of the rows of operations: the procedure. Column of the requests: `READ` or `WRITE`.
pub const OP: &str = "op";
/// Column of the rows of operations: the connection; null where not known.
pub const TRANSPORT: &str = "transport";
/// Column of the rows of operations: the histogram.
pub const EXECUTE_HIST: &str = "execute_hist";
/// Prefix of the columns that hold what TCP knows of a connection; null in other rows of operations.
pub const TCP: &str = "tcp_";

/// Column of the requests: when the request completed, in whole us.
pub const END_TIME: &str = "end_time";
/// Column of the requests: when it completed, ns since the epoch. Rows are ordered by it.
pub const END_TIME_NS: &str = "end_time_ns";
/// Column of the requests: the process that initiated it; null where not known.
pub const PID: &str = "pid";
/// Column of the requests: the name of that process; null where not known.
pub const PROCESS: &str = "process";
/// Column of the requests: the thread that made a call; null for requests.
pub const TID: &str = "tid";
/// Column of the requests: offset of the first byte asked for; null where not known.
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
/// Column of the requests: number of retransmissions; null where not known.
pub const RETRANS: &str = "retrans";
/// Column of the requests: whether the server reported end of file; null for WRITE.
pub const EOF: &str = "eof";
/// Column of the requests: whether it used O_DIRECT.
pub const DIRECT: &str = "direct";
/// Column of the requests: whether it asked for stable storage; null for READ.
pub const STABLE: &str = "stable";
/// Column of the requests: id of the RPC on the wire; null where not known.
pub const XID: &str = "xid";

/// The type of every timestamp. Some engines do not read finer or coarser units.
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// A column of numbers, never null.
fn number(name: &str, unit: Unit) -> Field {
    unit.of(Field::new(name, DataType::Int64, false))
}

/// A column of numbers, null where not known.
fn optional(name: &str, unit: Unit) -> Field {
    unit.of(Field::new(name, DataType::Int64, true))
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

fn optional_text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, false)
}

fn optional_flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, true)
}

fn list(name: &str, item: Field) -> Field {
    Field::new(name, DataType::List(Arc::new(item)), false)
}

/// The element of a histogram.
pub fn histogram_item() -> Field {
    counted(HIST_BUCKET)
}

/// A histogram.
pub fn histogram_field(name: &str) -> Field {
    let mapping = (META_HISTOGRAM.to_owned(), histogram::mapping());
    list(name, histogram_item()).with_metadata(HashMap::from([mapping]))
}

/// [`META_HISTOGRAM`] for the metadata of a file with histograms, for readers that ignore the metadata of fields.
pub fn histogram_metadata(schema: &Schema) -> Option<(&'static str, String)> {
    let mut metadata = schema.fields().iter().map(|field| field.metadata());
    let mapping = metadata.find_map(|metadata| metadata.get(META_HISTOGRAM))?;
    Some((META_HISTOGRAM, mapping.clone()))
}

/// The element of [`ERRNOS`].
pub fn errno_item() -> Field {
    counted(ERRNO)
}

/// The element of a list of counts: the value that is counted, and its count.
fn counted(what: &str) -> Field {
    let fields = vec![
        Field::new(what, DataType::Int32, false),
        number(COUNT, Unit::Count),
    ];
    element(DataType::Struct(fields.into()))
}

/// An element of a list.
fn element(is: DataType) -> Field {
    Field::new("element", is, false)
}

/// Fields of an element of [`FILE_OPS`].
pub fn file_op_fields() -> Fields {
    let counters = FileOp::COUNTERS.iter().map(|counter| counter.field(""));
    let execute = histogram_field(EXECUTE_HIST);
    [text(OP)]
        .into_iter()
        .chain(counters)
        .chain([execute])
        .collect()
}

/// The element of [`FILE_OPS`].
pub fn file_op_item() -> Field {
    element(DataType::Struct(file_op_fields()))
}

/// Fields of an element of [`PENDING_CLIENTS`].
pub fn pending_client_fields() -> Fields {
    Fields::from(vec![
        number(CLIENT, Unit::None),
        optional_text(SERVER),
        list(MOUNTS, mount_item()),
        number(REQUESTS_MAX, Unit::Count),
        number(AGE_MS_MAX, Unit::Milliseconds),
    ])
}

/// The element of [`PENDING_CLIENTS`].
pub fn pending_client_item() -> Field {
    element(DataType::Struct(pending_client_fields()))
}

/// Fields of an element of [`CAPTURED`].
pub fn stream_fields() -> Fields {
    let counters = StreamBytes::COUNTERS.iter();
    let names = [CLIENT, SERVER, TRANSPORT, DIRECTION];
    let names = names.into_iter().map(optional_text);
    names
        .chain(counters.map(|counter| counter.field("")))
        .collect()
}

/// The element of [`CAPTURED`].
pub fn stream_item() -> Field {
    element(DataType::Struct(stream_fields()))
}

/// The element of [`MOUNTS`].
pub fn mount_item() -> Field {
    element(DataType::Utf8)
}

/// Columns that identify the file of a row and its user.
fn file_fields() -> [Field; 13] {
    [
        text(HOST),
        optional_text(MOUNT),
        optional_text(PATH),
        optional_flag(PATH_INFERRED),
        number(FILE_KEY, Unit::None),
        text(DEV),
        number(FILEID, Unit::None),
        optional(UID, Unit::None),
        optional_text(USER),
        optional_text(CGROUP),
        optional_text(CONTAINER),
        optional_text(TENANT_NAME),
        optional_text(LABELS),
    ]
}

/// Schema of a rollup segment. All numbers are signed: half of the engines have no unsigned types.
pub fn rollup_schema() -> SchemaRef {
    let mut fields = vec![Field::new(TIME, time_type(), false)];
    fields.extend(file_fields());
    fields.push(optional_text(LEVEL));
    for direction in DIRECTIONS {
        let prefix = format!("{direction}_");
        let counters = Direction::COUNTERS.iter();
        let counters = counters.filter(|counter| counter.is_of(direction));
        fields.extend(counters.map(|counter| counter.field(&prefix)));
        fields.push(list(&format!("{prefix}{ERRNOS}"), errno_item()));
        fields.push(histogram_field(&format!("{prefix}{LATENCY_HIST}")));
    }
    fields.push(list(FILE_OPS, file_op_item()));
    for prefix in APP_DIRECTIONS {
        fields.extend(
            AppCalls::COUNTERS
                .iter()
                .map(|counter| counter.field(prefix)),
        );
        fields.push(histogram_field(&format!("{prefix}{LATENCY_HIST}")));
    }
    let cache = CachedBytes::COUNTERS.iter();
    fields.extend(cache.map(|counter| counter.field(CACHE)));
    Arc::new(Schema::new(fields))
}

/// Schema of a segment of requests; the error is [`ERRNO`], null where there was none.
pub fn request_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new(END_TIME, time_type(), false),
        number(END_TIME_NS, Unit::Nanoseconds),
    ];
    fields.extend(file_fields());
    fields.extend([
        text(LEVEL),
        optional(PID, Unit::None),
        optional_text(PROCESS),
        optional(TID, Unit::None),
        text(OP),
        optional(OFFSET_BYTES, Unit::Bytes),
        number(ASKED_BYTES, Unit::Bytes),
        number(DONE_BYTES, Unit::Bytes),
        optional(LATENCY_NS, Unit::Nanoseconds),
        optional(QUEUE_NS, Unit::Nanoseconds),
        optional(RTT_NS, Unit::Nanoseconds),
        optional(RETRANS, Unit::Count),
        optional_flag(EOF),
        flag(DIRECT),
        optional_flag(STABLE),
        Field::new(ERRNO, DataType::Int32, true),
        optional(XID, Unit::None),
        flag(PIECE),
    ]);
    Arc::new(Schema::new(fields))
}

/// Schema of a health segment.
pub fn health_schema() -> SchemaRef {
    let mut fields = vec![Field::new(TIME, time_type(), false), text(HOST)];
    fields.extend(Health::COUNTERS.iter().map(|counter| counter.field("")));
    fields.extend([
        optional(PENDING_REQUESTS_MAX, Unit::Count),
        optional(PENDING_AGE_MS_MAX, Unit::Milliseconds),
        list(PENDING_CLIENTS, pending_client_item()).with_nullable(true),
        optional_text(FILTER),
        optional_text(SOURCE),
        list(CAPTURED, stream_item()),
    ]);
    Arc::new(Schema::new(fields))
}

/// Schema of a segment of operations.
pub fn ops_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new(TIME, time_type(), false),
        text(HOST),
        optional_text(MOUNT),
        text(OP),
        optional_text(TRANSPORT),
    ];
    let counters = OperationSums::COUNTERS.iter();
    fields.extend(counters.map(|counter| counter.field("")));
    fields.push(histogram_field(EXECUTE_HIST));
    fields.extend(tcp_fields());
    Arc::new(Schema::new(fields))
}

/// The columns of [`TcpSums`], in its order.
pub fn tcp_fields() -> impl Iterator<Item = Field> {
    let counters = TcpSums::COUNTERS.iter();
    counters.map(|counter| counter.field(TCP).with_nullable(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schemas() -> [SchemaRef; 4] {
        [
            rollup_schema(),
            ops_schema(),
            health_schema(),
            request_schema(),
        ]
    }

    /// Numbers that identify something instead of counting or measuring it.
    const NAMES: [&str; 10] = [
        FILE_KEY,
        FILEID,
        UID,
        PID,
        TID,
        XID,
        ERRNO,
        CLIENT,
        HIST_BUCKET,
        TIME,
    ];

    fn check_unit(field: &Field) {
        match field.data_type() {
            DataType::List(item) => match item.data_type() {
                DataType::Struct(fields) => fields.iter().for_each(|field| check_unit(field)),
                _ => check_unit(item),
            },
            numbers if numbers.is_numeric() => {
                let is_known = Unit::in_metadata(field) != Unit::None;
                assert_eq!(is_known, !NAMES.contains(&field.name().as_str()), "{field}");
            }
            _ => assert_eq!(Unit::in_metadata(field), Unit::None, "{field}"),
        }
    }

    #[test]
    fn every_number_that_counts_or_measures_has_its_unit() {
        for schema in schemas() {
            schema.fields().iter().for_each(|field| check_unit(field));
        }
    }

    #[test]
    fn every_histogram_says_what_its_buckets_are() {
        for schema in schemas() {
            let histograms = schema.fields().iter();
            let histograms = histograms.filter(|field| field.name().ends_with("_hist"));
            let mut count = 0;
            for field in histograms {
                assert_eq!(field.metadata()[META_HISTOGRAM], histogram::mapping());
                count += 1;
            }
            assert_eq!(histogram_metadata(&schema).is_some(), count > 0);
        }
    }

    #[test]
    fn reading_has_no_column_of_stable_storage() {
        let schema = rollup_schema();
        assert!(schema.index_of("read_stable").is_err() && !has_counter("read", "stable"));
        assert!(schema.index_of("write_stable").is_ok() && has_counter("write", "stable"));
        assert!(has_counter("read", "requests") && has_counter("read", LATENCY_HIST));
    }
}
