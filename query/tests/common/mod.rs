//! Generated recordings, stores made of them, and the straightforward answer to a question.
#![allow(dead_code)] // not every test file needs all of it
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use trackiops_query::times::Zone;
use trackiops_query::{
    Answer, AnswerRow, Explain, FileSelector, GroupBy, Outcome, Projection, Question, Range, Step,
    ask,
};
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, Writer};

/// 2026-11-21T03:00:00Z.
pub const THREE: i64 = 1_795_230_000_000;

/// A small generator of the same numbers every time.
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
    })
}

/// The file as somebody uses it: `uid:/cgroup`.
pub fn used_by(file: &FileAttributes, tenant: &str) -> Arc<FileAttributes> {
    let tenant: Tenant = tenant.parse().unwrap();
    Arc::new(FileAttributes {
        tenant: tenant.into(),
        ..file.clone()
    })
}

/// The file with the name of its user.
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
        // Whole microseconds, so that rounding on disk does not show.
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

/// What less than `most` requests of an operation came to, each of less than `most_us`.
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

/// Such windows of a kernel that folded some of the requests.
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
            // One file is renamed half way, one never had a name.
            let path = match fileid {
                0 if i >= count / 2 => Some("/mnt/a new name".to_owned()),
                3 => None,
                n => Some(format!("/mnt/f{n}")),
            };
            // Of one nobody knows who uses it, another is used by two at once.
            let tenants = match fileid {
                1 => &[None][..],
                2 => &[Some("0:/a.service"), Some("1000:/user.slice/b.scope")],
                _ => &[Some("0:/a.service")],
            };
            for tenant in tenants {
                let file = file(fileid, path.as_deref());
                let file = tenant.map_or(file.clone(), |tenant| used_by(&file, tenant));
                // One user gets a name and then another one, and one never has any.
                let user = match tenant.map(|tenant| tenant.starts_with("1000")) {
                    Some(true) if i >= count / 2 => Some("bob"),
                    Some(true) if i >= count / 4 => Some("alice"),
                    _ => None,
                };
                rows.push(FileRow {
                    file: user.map_or(file.clone(), |user| named(&file, user)),
                    row: Row {
                        read: direction(&mut numbers, folding),
                        write: direction(&mut numbers, folding),
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

pub fn options(host: &str, granularities: &str, rotate: &str) -> Options {
    Options {
        host: host.into(),
        granularities: granularities.parse().unwrap(),
        rotate: rotate.parse().unwrap(),
        filter: None,
        allow_nfs_store: true,
        keep: Default::default(),
    }
}

/// Appends windows without sealing the last journal. Those before it are sealed when it returns: sealing rounds times to us, so
/// that two questions while it goes on may differ.
pub fn append(store: &Path, options: Options, windows: &[ClosedWindow]) -> Writer {
    let mut writer = Writer::open(store, options).unwrap();
    for window in windows {
        writer.append(window).unwrap();
    }
    for _ in 0..6000 {
        if journals(store) <= 1 {
            return writer;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the journals of {} are not sealed", store.display());
}

fn journals(store: &Path) -> usize {
    let names = fs::read_dir(store.join("journal")).unwrap();
    let names = names.map(|entry| PathBuf::from(entry.unwrap().file_name()));
    names
        .filter(|name| name.extension() == Some("tij".as_ref()))
        .count()
}

/// A complete recording.
pub fn record(store: &Path, options: Options, windows: &[ClosedWindow]) {
    append(store, options, windows).finish().unwrap();
}

pub fn question(store: &Path) -> Question {
    Question {
        stores: vec![store.into()],
        files: Vec::new(),
        range: Range::default(),
        step: None,
        mounts: Vec::new(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        by: GroupBy::FILE,
        projection: Projection::all(),
        // Long after everything that tests record.
        now: UtcMs(THREE + 30 * 86_400_000),
        zone: Zone::utc(),
        explain: Explain::default(),
        row_limit: None,
    }
}

pub fn range(since: i64, until: i64) -> Range {
    Range {
        since: Some(UtcMs(since)),
        until: Some(UtcMs(until)),
    }
}

pub fn found(question: &Question) -> Answer {
    match ask(question).unwrap() {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, .. } => panic!("nothing found: {why:?}"),
    }
}

/// What `--file` says.
pub fn select(text: &str) -> FileSelector {
    FileSelector::parse(Path::new(text)).unwrap()
}

/// The file of a row that is of one.
pub fn key_of(row: &AnswerRow) -> FileKey {
    row.file.as_ref().unwrap().key
}

/// What a row of an answer is about; the tenant where rows are told apart by that.
pub type Key = (i64, String, FileKey, Option<String>);
/// The row without what it is about: its counters, covered time, name and tenant.
pub type Sum = (Row, u64, Option<String>, Tenant);

pub fn rows(answer: &Answer) -> BTreeMap<Key, Sum> {
    let row = |row: &trackiops_query::AnswerRow| {
        let tenant = Tenant::clone(&row.tenant);
        let apart = (answer.by == GroupBy::FILE_TENANT).then(|| tenant.to_string());
        let path = row.path().map(str::to_owned);
        (
            (row.time.0, row.host.to_string(), key_of(row), apart),
            (row.sum.row().into_owned(), row.covered_ms, path, tenant),
        )
    };
    let rows: BTreeMap<_, _> = answer.rows.iter().map(row).collect();
    assert_eq!(rows.len(), answer.rows.len(), "a row comes twice");
    rows
}

/// The answer by the shortest way: every window that `counts`, in windows of `step`.
pub fn straightforward(
    recordings: &[(&str, &[ClosedWindow])],
    counts: impl Fn(&ClosedWindow) -> bool,
    only: Option<FileKey>,
    step: Step,
    start: i64,
    by: GroupBy,
) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    let mut covered: BTreeMap<(i64, String), u64> = BTreeMap::new();
    for (host, windows) in recordings {
        for window in windows.iter().filter(|window| counts(window)) {
            let time = match step {
                Step::Windows(step) => window.start.align(step).0,
                Step::All => start,
            };
            *covered.entry((time, host.to_string())).or_default() += window.health.covered_ms;
            for row in &window.rows {
                if only.is_some_and(|only| only != row.file.key) {
                    continue;
                }
                let tenant = &*row.file.tenant;
                let apart = (by == GroupBy::FILE_TENANT).then(|| tenant.to_string());
                let sum = sums
                    .entry((time, host.to_string(), row.file.key, apart))
                    .or_insert_with(|| (Row::default(), 0, None, tenant.clone()));
                sum.0.merge(&row.row);
                sum.2 = row.file.path.clone();
                let known = &mut sum.3;
                if known.uid != tenant.uid {
                    (known.uid, known.user) = (None, None);
                } else if tenant.user.is_some() {
                    known.user = tenant.user.clone();
                }
                if known.cgroup != tenant.cgroup {
                    known.cgroup = None;
                }
            }
        }
    }
    for ((time, host, ..), sum) in &mut sums {
        sum.1 = covered[&(*time, host.clone())];
    }
    sums
}
