//! The store of the current format in `store/tests/`, and what it holds: two sealed journals, an unsealed one, single requests, mounts and
//! marks. `store/tests/goldens.rs` writes and reads it, and `tests/promise/` has the answers of the program about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{FileAttributes, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::{AppCalls, CachedBytes, ClosedWindow, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::{DAY_MS, UtcMs};
use trackiops_store::Mark;

use crate::windows::{T0, file, named, reads, used_by, window};

/// Its directory.
pub fn store() -> PathBuf {
    let name = format!("../../store/tests/format-{FORMAT_VERSION}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Windows of three journals: two around midnight, two a rotation later, two after that.
pub fn recorded() -> Vec<ClosedWindow> {
    let midnight = (T0 / DAY_MS + 1) * DAY_MS;
    let starts = [-1000, 0, 900_000, 901_000, 1_800_000, 1_801_000];
    let windows = starts.into_iter().enumerate();
    windows
        .map(|(i, at)| one(midnight + at, i as u64))
        .collect()
}

/// A window. Later ones have more requests, and another name of a file.
pub fn one(start_ms: i64, i: u64) -> ClosedWindow {
    let name = if i < 3 { "/mnt/old" } else { "/mnt/new" };
    let renamed = file(2, 49, Some(name));
    let rows = vec![
        (file(1, 49, Some("/mnt/a")), read_and_called(2 + i)),
        (
            named(&used_by(&renamed, "1000:/user.slice"), "alice"),
            written(3 + i),
        ),
        (of_a_shop(&renamed), reads(4)),
        (unknown(), reads(2)),
        (local(), reads(3)),
    ];
    let mut window = window(start_ms, rows);
    window.ops = vec![getattr(), connection(i)];
    window.health.ops_covered_ms = 1000;
    window.health.ops_seen = 3;
    window.health.app_covered_ms = 1000;
    window.health.block_covered_ms = 1000;
    window.health.filter = Some("--uid 7".into());
    window.health.pending = (i % 2 == 1).then(pending);
    window
}

/// A file that is read by requests with known parts, by calls, and into the page cache.
fn read_and_called(requests: u64) -> Row {
    let mut row = reads(requests);
    let timed = requests - 1;
    row.read.queue_ns_sum = 20_000 * timed;
    row.read.rtt_ns_sum = 200_000 * timed;
    row.read.retrans = 1;
    let mut latency = Histogram::default();
    latency.record(100_000);
    latency.record(200_000);
    row.app_read = AppCalls {
        calls: 4,
        bytes: 4 * 4096,
        timed: 2,
        latency_ns_sum: 300_000,
        latency_ns_max: 200_000,
        latency,
        ..AppCalls::default()
    };
    row.cache = CachedBytes {
        added: 8192,
        evicted: 4096,
        ..CachedBytes::default()
    };
    row
}

/// A file that is written, with an error and further operations.
fn written(requests: u64) -> Row {
    let mut row = Row {
        write: reads(requests).read,
        ..Row::default()
    };
    row.write.errors = 1;
    row.write.errnos.add(5, 1);
    row.ops.add(&FileOp {
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
    row.ops.add(&fsync);
    row
}

/// The file as a tenant uses it that rules have named.
fn of_a_shop(file: &FileAttributes) -> Arc<FileAttributes> {
    let used = used_by(file, "0:/a.service");
    let tenant = Tenant {
        container: Some("shop/web/nginx".into()),
        name: Some("shop".into()),
        labels: Some(r#"{"stage":"test"}"#.into()),
        ..(*used.tenant).clone()
    };
    Arc::new(FileAttributes {
        tenant: tenant.into(),
        ..(*used).clone()
    })
}

/// A file without a name, of a mount that is not known.
pub fn unknown() -> Arc<FileAttributes> {
    let unknown = file(9, 60, None);
    Arc::new(FileAttributes {
        key: FileKey::new(None, unknown.id),
        mount: None,
        ..(*unknown).clone()
    })
}

/// A file on a device of the host.
fn local() -> Arc<FileAttributes> {
    let (device, local) = ("/dev/sda1", file(5, 61, Some("/var/log/messages")));
    Arc::new(FileAttributes {
        key: FileKey::new(Some(device), local.id),
        mount: Some(device.to_owned()),
        level: IoLevel::Block,
        ..(*local).clone()
    })
}

fn getattr() -> OperationRow {
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
    OperationRow { operation, sums }
}

fn connection(i: u64) -> OperationRow {
    let tcp = TcpSums {
        readings: 1,
        reconnects: i % 2,
        rtt_ns_sum: 300_000,
        rtt_ns_max: 300_000,
        rtt_ns_min: 200_000,
        segments: 7 + i,
        retrans: i,
        ..TcpSums::default()
    };
    OperationRow {
        operation: Operation::connection("tcp-1".into()),
        sums: OperationSums {
            tcp,
            ..OperationSums::default()
        },
    }
}

fn pending() -> Pending {
    Pending {
        requests_max: 4,
        age_ms_max: 2000,
        clients: vec![PendingClient {
            client: 1,
            server: Some("10.0.0.5".into()),
            mounts: vec!["srv:/export".into()],
            requests_max: 4,
            age_ms_max: 2000,
        }],
    }
}

/// Single requests of a window: two that read, and one that could not write.
pub fn requests(window: &ClosedWindow) -> RequestBatch {
    let request = |ms: i64| {
        let record = RequestRecord {
            offset: 4096 * ms.cast_unsigned(),
            asked_bytes: 4096,
            done_bytes: 4096,
            latency_ns: 300_000,
            queue_ns: 20_000,
            rtt_ns: 200_000,
            xid: 17,
            pid: 4242,
            ..RequestRecord::default()
        };
        let record = match ms {
            2 => RequestRecord {
                done_bytes: 0,
                error: -5,
                flags: flags::WRITE | flags::STABLE,
                ..record
            },
            _ => record,
        };
        let end_ns = (window.start.0 + ms) * 1_000_000;
        Request {
            process: ProcessName::new(b"postgres"),
            ..Request::new(&record, end_ns, 0)
        }
    };
    RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a"))],
        requests: (0..3).map(request).collect(),
    }
}

/// What is mounted.
pub fn mounts() -> [MountPoint; 1] {
    [MountPoint {
        dev: file(1, 49, None).id.dev,
        mount: "srv:/export".to_owned(),
        source: "srv:/export".to_owned(),
        path: "/mnt".to_owned(),
        version: Some("4.2".to_owned()),
        options: "rw,hard".to_owned(),
        is_foreign: false,
        volume: Some("pvc-1".to_owned()),
        claim: Some("shop/data".to_owned()),
    }]
}

/// What a person noted.
pub fn marks() -> [Mark; 2] {
    let start = recorded()[0].start;
    [(500, "job 17 starts"), (1500, "job 17 ends")].map(|(ms, text)| Mark {
        time: UtcMs(start.0 + ms),
        host: "h".to_owned(),
        text: text.to_owned(),
    })
}
