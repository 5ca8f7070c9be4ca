//! Windows of a recorder: a row for each file, with content chosen by the test.

use std::sync::Arc;

use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::{Granularity, UtcMs};

/// 2026-11-21T03:52:00Z.
pub const T0: i64 = 1_795_233_120_000;

/// A granularity by its name.
pub fn granularity(text: &str) -> Granularity {
    text.parse().unwrap()
}

/// A file of `srv:/export`.
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
        level: Default::default(),
    })
}

/// The file as used by a tenant, `uid:/cgroup`.
pub fn used_by(file: &FileAttributes, tenant: &str) -> Arc<FileAttributes> {
    let tenant: Tenant = tenant.parse().unwrap();
    Arc::new(FileAttributes {
        tenant: tenant.into(),
        ..file.clone()
    })
}

/// The file with a name for its user.
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

/// Where `server:/export` is mounted, by NFS 4.2.
pub fn mount_point(dev: Dev, mount: &str, path: &str) -> MountPoint {
    MountPoint {
        dev,
        mount: mount.into(),
        source: mount.into(),
        path: path.into(),
        version: Some("4.2".into()),
        options: "rw".into(),
        is_foreign: false,
        volume: None,
        claim: None,
    }
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

/// What TCP knows of a connection that was read once: `retrans` of its `segments` were retransmitted.
pub fn connection(transport: &str, rtt_us: u64, retrans: u64, segments: u64) -> OperationRow {
    let tcp = TcpSums {
        readings: 1,
        rtt_ns_sum: rtt_us * 1000,
        rtt_ns_max: rtt_us * 1000,
        rtt_ns_min: rtt_us * 1000,
        segments,
        retrans,
        ..TcpSums::default()
    };
    OperationRow {
        operation: Operation::connection(transport.to_owned()),
        sums: OperationSums {
            tcp,
            ..OperationSums::default()
        },
    }
}

/// Requests that have waited for the server of a mount, the oldest for `age_ms`.
pub fn stalled(server: &str, mount: &str, age_ms: u64, requests: u64) -> Pending {
    Pending {
        requests_max: requests,
        age_ms_max: age_ms,
        clients: vec![PendingClient {
            client: 7,
            server: Some(server.into()),
            mounts: vec![mount.into()],
            requests_max: requests,
            age_ms_max: age_ms,
        }],
    }
}

/// A window of one second in which these files were used.
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
