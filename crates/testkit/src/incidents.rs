//! Planted incidents: seconds of a host in which one thing goes wrong, and everything else is normal. [`planted`] lists them.

pub mod planted;
mod scenes;

use std::f64::consts::E;
use std::sync::Arc;

use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, MISSED};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{AppCalls, ClosedWindow, Direction, FileRow, Row};
use trackiops_schemas::time::UtcMs;

use crate::generated::{Numbers, THREE, health};
use crate::windows::used_by;

pub use scenes::*;

/// Begin and end of the incident, in seconds of a scene of [`SECONDS`].
pub const BEGIN: i64 = 600;
pub const END: i64 = 660;
/// Length of a scene.
pub const SECONDS: i64 = 900;

/// The time of a second of a scene.
pub fn at(second: i64) -> UtcMs {
    UtcMs(THREE + 1000 * second)
}

/// Whether the incident is under way.
pub fn is_planted(second: i64) -> bool {
    (BEGIN..END).contains(&second)
}

/// A file of an NFS mount, as a tenant uses it.
pub fn nfs(mount: &str, path: &str, tenant: &str) -> Arc<FileAttributes> {
    used_by(&file(mount, path, IoLevel::Wire), tenant)
}

/// A file on a device.
pub fn local(device: &str, path: &str, cgroup: &str) -> Arc<FileAttributes> {
    used_by(&file(device, path, IoLevel::Block), &format!("?:{cgroup}"))
}

fn file(mount: &str, path: &str, level: IoLevel) -> FileAttributes {
    let number = |text: &str| {
        let bytes = text.bytes().map(u64::from);
        bytes.fold(7, |sum: u64, byte| {
            (sum ^ byte).wrapping_mul(1_099_511_628_211)
        })
    };
    let id = FileId {
        dev: Dev((number(mount) % 1000) as u32),
        fileid: number(path) >> 1,
        handle_hash: 7,
    };
    FileAttributes {
        key: FileKey::new(Some(mount), id),
        id,
        mount: Some(mount.into()),
        path: Some(path.into()),
        path_inferred: false,
        tenant: Arc::default(),
        level,
    }
}

/// Usual requests of a file.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// Requests per second.
    pub rate: f64,
    /// Bytes of each request.
    pub bytes: u64,
    /// Median latency, us.
    pub us: f64,
    /// Parts of the latency: before the request is sent, and until its reply.
    pub parts: [f64; 2],
    /// Standard deviation of the logarithms of latencies. 0 if all latencies are equal.
    pub spread: f64,
}

/// Requests over a network; most of their time is the server's.
pub const fn usual(rate: f64, bytes: u64, us: f64) -> Usual {
    Usual {
        rate,
        bytes,
        us,
        parts: [0.05, 0.9],
        spread: 0.4,
    }
}

impl Usual {
    /// The usual number of requests, each `times` as slow.
    pub fn slower(self, times: f64) -> Self {
        Self {
            us: self.us * times,
            ..self
        }
    }

    /// All of them wait until the same moment.
    pub fn held_up(self) -> Self {
        Self {
            spread: 0.0,
            ..self
        }
    }

    /// `times` as many requests.
    pub fn more(self, times: f64) -> Self {
        Self {
            rate: self.rate * times,
            ..self
        }
    }
}

/// A second of a scene, with the activity of files.
pub struct Second {
    numbers: Numbers,
    rows: Vec<FileRow>,
}

impl Second {
    /// A number from 0 to 1.
    fn part(&mut self) -> f64 {
        self.numbers.below(1 << 20) as f64 / f64::from(1 << 20)
    }

    /// A random count within a third of `rate`.
    fn count(&mut self, rate: f64) -> u64 {
        let wanted = rate * (0.67 + 0.66 * self.part());
        let more = u64::from(self.part() < wanted.fract());
        wanted as u64 + more
    }

    /// A latency around a median, ns: log-normal, and one in a hundred takes four times as long.
    fn latency_ns(&mut self, of: Usual) -> u64 {
        let normal: f64 = (0..12).map(|_| self.part()).sum::<f64>() - 6.0;
        let is_late = of.spread > 0.0 && self.numbers.below(100) == 0;
        let tail = if is_late { 4.0 } else { 1.0 };
        (of.us * tail * E.powf(of.spread * normal)) as u64 * 1000
    }

    fn requests(&mut self, of: Usual) -> Direction {
        let mut all = Direction::default();
        for _ in 0..self.count(of.rate) {
            let ns = self.latency_ns(of);
            all.requests += 1;
            all.bytes += of.bytes;
            all.latency_ns_sum += ns;
            all.latency_ns_max = all.latency_ns_max.max(ns);
            all.queue_ns_sum += (ns as f64 * of.parts[0]) as u64;
            all.rtt_ns_sum += (ns as f64 * of.parts[1]) as u64;
            all.latency.record(ns);
        }
        all
    }

    /// Adds a row.
    pub fn add(&mut self, file: &Arc<FileAttributes>, row: Row) {
        self.rows.push(FileRow {
            file: Arc::clone(file),
            row,
        });
    }

    /// Adds reads of a file, and the calls that made them.
    fn add_reads(&mut self, file: &Arc<FileAttributes>, read: Direction, app_read: AppCalls) {
        let row = Row {
            read,
            app_read,
            ..Row::default()
        };
        self.add(file, row);
    }

    /// A file is read.
    pub fn reads(&mut self, file: &Arc<FileAttributes>, of: Usual) {
        let read = self.requests(of);
        self.add_reads(file, read, AppCalls::default());
    }

    /// A file is written.
    pub fn writes(&mut self, file: &Arc<FileAttributes>, of: Usual) {
        let write = self.requests(of);
        self.add(
            file,
            Row {
                write,
                ..Row::default()
            },
        );
    }

    /// The kernel counted a request to a device, and no probe saw it.
    pub fn missed(&mut self) {
        let id = FileId::missed(Dev(0));
        let file = FileAttributes {
            key: FileKey::new(None, id),
            id,
            mount: None,
            path: Some(MISSED.to_owned()),
            path_inferred: false,
            tenant: Default::default(),
            level: IoLevel::Block,
        };
        let read = Direction {
            requests: 1,
            bytes: 4096,
            untimed: 1,
            ..Direction::default()
        };
        let row = Row {
            read,
            ..Row::default()
        };
        self.add(&Arc::new(file), row);
    }

    /// A file is read, and some requests fail or are sent again.
    pub fn faulty(&mut self, file: &Arc<FileAttributes>, of: Usual, errors: u64, retrans: u64) {
        let mut read = self.requests(of);
        read.errors = errors.min(read.requests);
        read.errnos.add(5, read.errors);
        read.retrans = retrans;
        self.add_reads(file, read, AppCalls::default());
    }

    /// Operations other than reads and writes.
    pub fn operations(&mut self, file: &Arc<FileAttributes>, op: &str, of: Usual) {
        let all = self.requests(of);
        let op = FileOp {
            op: OpName::new(op),
            requests: all.requests,
            errors: 0,
            queue_ns_sum: all.queue_ns_sum,
            rtt_ns_sum: all.rtt_ns_sum,
            execute_ns_sum: all.latency_ns_sum,
            execute_ns_max: all.latency_ns_max,
            // For NFS, the kernel keeps only sums.
            execute: match file.level {
                IoLevel::Block => all.latency,
                _ => Histogram::default(),
            },
        };
        if all.requests > 0 {
            let ops = [op].into_iter().collect();
            self.add(
                file,
                Row {
                    ops,
                    ..Row::default()
                },
            );
        }
    }

    /// Read calls: the cache answers a part of them, and requests to the device the rest.
    pub fn calls(&mut self, file: &Arc<FileAttributes>, of: Usual, hit: f64, device_us: f64) {
        let missed = Usual {
            rate: of.rate * (1.0 - hit),
            us: device_us,
            ..of
        };
        let read = self.requests(missed);
        let hits = self.requests(of.more(hit));
        let mut latency = read.latency.clone();
        latency.merge(&hits.latency);
        let app_read = AppCalls {
            calls: read.requests + hits.requests,
            bytes: read.bytes + hits.bytes,
            timed: read.requests + hits.requests,
            latency_ns_sum: read.latency_ns_sum + hits.latency_ns_sum,
            latency_ns_max: read.latency_ns_max.max(hits.latency_ns_max),
            latency,
            ..AppCalls::default()
        };
        self.add_reads(file, read, app_read);
    }

    /// Read calls that the cache does not answer. Each ends `late_us` after its request.
    pub fn late_calls(&mut self, file: &Arc<FileAttributes>, of: Usual, late_us: u64) {
        let read = self.requests(of);
        let each_ns = read.latency_ns_sum / read.requests.max(1) + 1000 * late_us;
        let mut latency = Histogram::default();
        (0..read.requests).for_each(|_| latency.record(each_ns));
        let app_read = AppCalls {
            calls: read.requests,
            bytes: read.bytes,
            timed: read.requests,
            latency_ns_sum: each_ns * read.requests,
            latency_ns_max: each_ns,
            latency,
            ..AppCalls::default()
        };
        self.add_reads(file, read, app_read);
    }
}

/// Windows of a second each, from the begin of a scene. `scene` sets the activity of files.
pub fn recorded(seed: u64, seconds: i64, scene: impl FnMut(i64, &mut Second)) -> Vec<ClosedWindow> {
    in_windows(seed, 1, seconds, scene)
}

/// The same in `count` windows of `length` seconds.
pub fn in_windows(
    seed: u64,
    length: i64,
    count: i64,
    mut scene: impl FnMut(i64, &mut Second),
) -> Vec<ClosedWindow> {
    let mut second = Second {
        numbers: Numbers(seed),
        rows: Vec::new(),
    };
    let window = |number: i64| {
        scene(number, &mut second);
        let mut rows = std::mem::take(&mut second.rows);
        rows.retain(|of| of.row != Row::default());
        rows.sort_by_key(|of| (of.file.key, of.file.tenant.to_string()));
        ClosedWindow {
            start: at(length * number),
            ops: Vec::new(),
            health: health(1000 * length.cast_unsigned(), &rows),
            rows,
        }
    };
    (0..count).map(window).collect()
}
