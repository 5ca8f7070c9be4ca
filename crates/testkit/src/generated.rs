//! Windows generated from a seed: many files, users, names and errors.

use std::sync::Arc;

use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey};
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::{
    AppCalls, CachedBytes, ClosedWindow, Direction, FileRow, Health, Row,
};
use trackiops_schemas::time::UtcMs;

use crate::windows::{named, used_by};

/// 2026-11-21T03:00:00Z.
pub const THREE: i64 = 1_795_230_000_000;

/// A small generator of reproducible numbers.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A file of one of two mounts.
pub fn file(fileid: u64, path: Option<&str>) -> Arc<FileAttributes> {
    let mount = if fileid.is_multiple_of(2) {
        "srv:/even"
    } else {
        "srv:/odd"
    };
    let id = FileId {
        dev: Dev(49 + (fileid % 2) as u32),
        fileid,
        handle_hash: fileid as u32,
    };
    Arc::new(FileAttributes {
        key: FileKey::new(Some(mount), id),
        id,
        mount: Some(mount.into()),
        path: path.map(Into::into),
        path_inferred: false,
        tenant: Default::default(),
        level: Default::default(),
    })
}

fn direction(numbers: &mut Numbers, folding: bool) -> Direction {
    let mut d = Direction::default();
    for _ in 0..numbers.below(4) {
        d.requests += 1;
        d.bytes += 4096 * (1 + numbers.below(8));
        d.short += u64::from(numbers.below(9) == 0);
        if numbers.below(20) == 0 {
            d.errors += 1;
            d.errnos.add(5, 1);
        }
        d.retrans += numbers.below(2);
        d.direct += numbers.below(2);
        if numbers.below(10) == 0 {
            d.untimed += 1;
            continue;
        }
        // Whole microseconds, so that rounding on disk has no effect.
        let latency_ns = (100 + numbers.below(5000)) * 1000;
        d.latency_ns_sum += latency_ns;
        d.latency_ns_max = d.latency_ns_max.max(latency_ns);
        d.queue_ns_sum += numbers.below(100) * 1000;
        d.unsplit += u64::from(numbers.below(9) == 0);
        if folding && numbers.below(8) == 0 {
            d.folded += 1;
            continue;
        }
        d.sequential += numbers.below(2);
        d.latency.record(latency_ns);
    }
    d
}

/// Sums of fewer than `most` requests of an operation, each shorter than `most_us`.
pub fn operation_sums(numbers: &mut Numbers, most: u64, most_us: u64) -> OperationSums {
    let mut sums = OperationSums::default();
    for _ in 0..numbers.below(most) {
        let us = 50 + numbers.below(most_us - 50);
        sums.requests += 1;
        sums.errors += u64::from(numbers.below(9) == 0);
        sums.sent_bytes += 100 + numbers.below(50);
        sums.received_bytes += 200 + numbers.below(5000);
        sums.queue_ns_sum += us / 10 * 1000;
        sums.rtt_ns_sum += us / 2 * 1000;
        sums.execute_ns_sum += us * 1000;
        sums.execute_ns_max = sums.execute_ns_max.max(us * 1000);
        sums.execute.record(us * 1000);
    }
    sums
}

/// Windows of `step_ms` from `start`, with about half of `files` files active in each.
pub fn windows(seed: u64, start: i64, step_ms: i64, count: i64, files: u64) -> Vec<ClosedWindow> {
    generate(seed, start, step_ms, count, files, false)
}

/// The same windows, from a kernel that folded some of the requests.
pub fn folded_windows(
    seed: u64,
    start: i64,
    step_ms: i64,
    count: i64,
    files: u64,
) -> Vec<ClosedWindow> {
    generate(seed, start, step_ms, count, files, true)
}

fn generate(
    seed: u64,
    start: i64,
    step_ms: i64,
    count: i64,
    files: u64,
    folding: bool,
) -> Vec<ClosedWindow> {
    let mut numbers = Numbers(seed);
    let window = |i| {
        let mut rows = Vec::new();
        for fileid in 0..files {
            if numbers.below(2) == 0 {
                continue;
            }
            // One file is renamed half way; one never has a name.
            let path = match fileid {
                0 if i >= count / 2 => Some("/mnt/a new name".to_owned()),
                3 => None,
                n => Some(format!("/mnt/f{n}")),
            };
            // The user of one file is unknown; another file has two users at the same time.
            let tenants = match fileid {
                1 => &[None][..],
                2 => &[Some("0:/a.service"), Some("1000:/user.slice/b.scope")],
                _ => &[Some("0:/a.service")],
            };
            for tenant in tenants {
                let file = file(fileid, path.as_deref());
                let file = tenant.map_or(file.clone(), |tenant| used_by(&file, tenant));
                // One user gets a name and later another one; one never has a name.
                let user = match tenant.map(|tenant| tenant.starts_with("1000")) {
                    Some(true) if i >= count / 2 => Some("bob"),
                    Some(true) if i >= count / 4 => Some("alice"),
                    _ => None,
                };
                let read = direction(&mut numbers, folding);
                let write = direction(&mut numbers, folding);
                rows.push(FileRow {
                    file: user.map_or(file.clone(), |user| named(&file, user)),
                    row: Row {
                        app_read: calls(&read, 4),
                        app_write: calls(&write, 1),
                        cache: CachedBytes {
                            added: read.bytes,
                            evicted: read.bytes / 2,
                            dirtied: write.bytes,
                            written: write.bytes / 2,
                        },
                        read,
                        write,
                        ops: (fileid % 3 > 0)
                            .then(|| FileOp {
                                op: OpName::new("COMMIT"),
                                requests: fileid % 3,
                                execute_ns_sum: fileid % 3 * 700_000,
                                ..FileOp::default()
                            })
                            .into_iter()
                            .collect(),
                    },
                });
            }
        }
        rows.sort_by_key(|row| row.file.key);
        ClosedWindow {
            start: UtcMs(start + i * step_ms),
            ops: Vec::new(),
            health: health(step_ms as u64, &rows),
            rows,
        }
    };
    (0..count).map(window).collect()
}

/// Calls that caused these requests, and calls that the cache answered, so that they have `times` the bytes.
fn calls(requests: &Direction, times: u64) -> AppCalls {
    AppCalls {
        calls: requests.requests * (times + 1),
        errors: requests.errors,
        bytes: requests.bytes * times,
        direct_calls: requests.direct,
        direct_bytes: requests.direct * 4096,
        timed: requests.latency.total(),
        latency_ns_sum: requests.latency_ns_sum,
        latency_ns_max: requests.latency_ns_max,
        latency: requests.latency.clone(),
    }
}

/// The health of a window with these rows.
pub fn health(covered_ms: u64, rows: &[FileRow]) -> Health {
    let seen = rows
        .iter()
        .map(|r| r.row.read.requests + r.row.write.requests)
        .sum();
    let folded = rows
        .iter()
        .map(|r| r.row.read.folded + r.row.write.folded)
        .sum();
    Health {
        covered_ms,
        seen,
        recorded: seen - folded,
        folded,
        ..Health::default()
    }
}
