//! Stores of two hosts with single requests, for reports: three hours of windows of 30 s.
//!
//! Host `h` has a gap that begins and ends within an interval of 5 minutes, and a partly covered window. Host `i` was up for a part of the
//! time. One tenant arrives late, and uses both hosts. Demand differs by hour and by file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Writer;

use crate::generated::{Numbers, THREE, file};
use crate::stores::options_of;
use crate::windows::{named, used_by};

const STEP_MS: i64 = 30_000;
const WINDOWS: i64 = 360;
const FILES: u64 = 6;

/// Records the stores of both hosts below a directory.
pub fn record(dir: &Path, seed: u64) {
    let gap = |n: i64| (181..215).contains(&n);
    record_host(&dir.join("h"), "h", seed, |n| match n {
        n if gap(n) => None,
        100 => Some(4000),
        _ => Some(30_000),
    });
    record_host(&dir.join("i"), "i", seed + 1, |n| {
        (80..302).contains(&n).then_some(30_000)
    });
}

/// The files of a host, each with its user.
fn users(host: &str) -> Vec<(i64, Arc<FileAttributes>)> {
    let path = |n: u64| format!("/mnt/all/d{}/f{n}", n % 3);
    let mut users = Vec::new();
    for n in 0..FILES {
        let file = file(n + 1, Some(&path(n)));
        match n % 3 {
            0 => users.push((0, used_by(&file, "0:/db.service"))),
            1 => users.push((160, named(&used_by(&file, "1000:/batch.slice"), "alice"))),
            _ if host == "h" => users.push((0, used_by(&file, "2000"))),
            // Its user is unknown.
            _ => users.push((0, file)),
        }
    }
    users
}

fn record_host(store: &Path, host: &str, seed: u64, covered_ms: impl Fn(i64) -> Option<u64>) {
    let users = users(host);
    let mut numbers = Numbers(seed);
    let mut writer = Writer::open(store, options_of(host, "30s,1m,1h", "15m")).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    for n in 0..WINDOWS {
        let Some(covered_ms) = covered_ms(n) else {
            continue;
        };
        let start = THREE + STEP_MS * n;
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        let mut requests = Vec::new();
        for (user, (since, _)) in users.iter().enumerate() {
            // Each has different busy times.
            let phase = (n / 12 + user as i64 * 5) % 9;
            if n < *since || phase > 3 {
                continue;
            }
            let most = 1 + [2, 3, 7, 40][phase.unsigned_abs() as usize % 4];
            for _ in 0..numbers.below(most) {
                requests.push(request(&mut numbers, start, user as u32));
            }
            let row = rows.entry(user).or_default();
            let getattrs = numbers.below(4);
            if getattrs > 0 {
                row.ops.add(&FileOp {
                    op: OpName::new("GETATTR"),
                    requests: getattrs,
                    ..FileOp::default()
                });
            }
        }
        requests.sort_by_key(|request| request.end_ns);
        for request in &requests {
            let row = rows.entry(request.file as usize).or_default();
            let is_write = request.is(flags::WRITE);
            add(
                request,
                if is_write {
                    &mut row.write
                } else {
                    &mut row.read
                },
            );
        }
        rows.retain(|_, row| row.is_transfer() || !row.ops.is_empty());
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|(user, row)| FileRow {
                file: Arc::clone(&users[user].1),
                row,
            })
            .collect();
        rows.sort_by_key(|row| row.file.key);
        let seen = requests.len() as u64;
        let health = Health {
            covered_ms,
            ops_covered_ms: covered_ms,
            seen,
            recorded: seen,
            ..Health::default()
        };
        let window = ClosedWindow {
            start: UtcMs(start),
            rows,
            ops: Vec::new(),
            health,
        };
        writer.append(&window).unwrap();
        let files = users.iter().map(|(_, file)| Arc::clone(file)).collect();
        kept.append(&RequestBatch { files, requests }).unwrap();
    }
    kept.finish().unwrap();
    writer.finish().unwrap();
}

fn request(numbers: &mut Numbers, start: i64, user: u32) -> Request {
    let bytes = 4096 << numbers.below(6);
    let is_write = numbers.below(3) == 0;
    Request {
        end_ns: (start + numbers.below(30_000) as i64) * 1_000_000,
        file: user,
        flags: if is_write { flags::WRITE } else { 0 },
        offset: 4096 * numbers.below(2000),
        asked_bytes: bytes as u32,
        done_bytes: bytes as u32,
        latency_ns: 1000 * (1 + numbers.below(5000)),
        queue_ns: 1000,
        rtt_ns: 0,
        xid: 1,
        retransmissions: 0,
        error: 0,
        pid: 12,
        process: ProcessName::new(b"fio"),
    }
}

fn add(request: &Request, direction: &mut Direction) {
    direction.requests += 1;
    direction.bytes += u64::from(request.done_bytes);
    direction.latency_ns_sum += request.latency_ns;
    direction.latency_ns_max = direction.latency_ns_max.max(request.latency_ns);
    direction.queue_ns_sum += request.queue_ns;
    direction.latency.record(request.latency_ns);
}
