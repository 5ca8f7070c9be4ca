//! Recordings of two hosts, in stores of every state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::{Operation, OperationRow};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, RetentionPolicy, Writer};

use trackiops_testkit::generated::{Numbers, THREE, file, folded_windows, health, operation_sums};
use trackiops_testkit::merging::{self, merged};
use trackiops_testkit::stores::{append, options_of, record};
use trackiops_testkit::windows::{named, used_by};

const PATHS: [Option<&str>; 14] = [
    Some("/mnt/even/db/orders.db"),
    Some("/mnt/odd/db/other.db"),
    Some("/mnt/even/db/old/orders.db"),
    Some("/mnt/odd/logs/app.log"),
    Some("/mnt/even/top.txt"),
    // These two did the same, and so did the files without names.
    Some("/mnt/odd/same-b"),
    Some("/mnt/even/same-a"),
    None,
    None,
    Some("/mnt/odd/only metadata"),
    Some("/mnt/even/dé, \"it's\"/日本.db"),
    Some("(other)"),
    Some("/mnt/even/was.txt"),
    Some("/mnt/odd/db/old/deep/er/x"),
];

/// The file at this index of [`PATHS`], with its name and user at that time.
fn used(place: usize, second: usize, again: bool) -> Arc<FileAttributes> {
    // Renames happen between windows of ten seconds: an export has one name for each window.
    let path = match (place, second) {
        (12, 80..) => Some("/mnt/even/is now.txt"),
        _ => PATHS[place],
    };
    let file = file(2 + place as u64, path);
    match (place, again) {
        (_, true) => used_by(&file, "1000:/batch.slice"),
        (0, _) if second > 40 => named(&used_by(&file, "0:/db.service"), "root"),
        (0 | 4, _) => used_by(&file, "0:/db.service"),
        (3, _) => used_by(&file, "?:/logs.service"),
        (1, _) => named(&used_by(&file, "1000:/batch.slice"), "alice"),
        _ => file,
    }
}

/// The recording of a host: with a gap, a barely recorded window, files with several names, several users, and none.
fn recorded(seed: u64) -> Vec<ClosedWindow> {
    let mut recorded = folded_windows(seed, THREE, 1000, 150, 14);
    for (second, window) in recorded.iter_mut().enumerate() {
        let rows: Vec<Row> = window.rows.drain(..).map(|row| row.row).collect();
        let row = |place: usize| rows[place % rows.len()].clone();
        if rows.is_empty() {
            continue;
        }
        for place in (0..PATHS.len()).filter(|place| place % 7 != second % 5) {
            let mut row = match place {
                6 => row(5),
                8 => row(7),
                _ => row(place),
            };
            if place == 9 {
                (row.read, row.write) = Default::default();
                row.ops.add(&metadata("GETATTR", second as u64 + 1));
            }
            let file = used(place, second, false);
            window.rows.push(FileRow { file, row });
        }
        let again = FileRow {
            file: used(0, second, true),
            row: row(second),
        };
        window.rows.push(again);
        let id = |row: &FileRow| (row.file.key, row.file.tenant.to_string());
        window.rows.sort_by_key(id);
        window.health = health(1000, &window.rows);
        window.ops = operations(seed + second as u64);
        window.health.ops_covered_ms = 1000;
        window.health.ops_seen = window.ops.iter().map(|op| op.sums.requests).sum();
    }
    recorded[100].health.covered_ms = 300;
    recorded[100].health.ops_covered_ms = 300;
    recorded.drain(62..68);
    recorded
}

fn metadata(op: &str, requests: u64) -> FileOp {
    FileOp {
        op: OpName::new(op),
        requests,
        errors: requests % 2,
        queue_ns_sum: requests * 3000,
        rtt_ns_sum: requests * 200_000,
        execute_ns_sum: requests * 250_000,
        execute_ns_max: 700_000,
        ..FileOp::default()
    }
}

/// Operations over two connections, and one without a mount.
fn operations(seed: u64) -> Vec<OperationRow> {
    let mut numbers = Numbers(seed);
    let all = [
        ("GETATTR", Some("srv:/even"), Some("tcp-0")),
        ("GETATTR", Some("srv:/even"), Some("tcp-1")),
        ("READ", Some("srv:/odd"), Some("tcp-0")),
        ("READ_PLUS", Some("srv:/odd"), Some("tcp-0")),
        ("RENAME", Some("srv:/odd"), None),
        ("SEQUENCE", None, Some("tcp-1")),
    ];
    let mut rows = Vec::new();
    for (op, mount, transport) in all {
        let sums = operation_sums(&mut numbers, 4, 9050);
        let operation = Operation {
            op: op.into(),
            mount: mount.map(Into::into),
            transport: transport.map(Into::into),
        };
        if sums.requests > 0 {
            rows.push(OperationRow { operation, sums });
        }
    }
    rows.sort_by(|a, b| a.operation.cmp(&b.operation));
    rows
}

/// A directory with the stores of two hosts.
pub struct Stores {
    dir: tempfile::TempDir,
    /// Recorders that still run.
    writers: Vec<Writer>,
}

const HOSTS: [(&str, u64); 2] = [("one", 21), ("two", 5)];

impl Stores {
    fn new(record: impl Fn(&Path, &str, &[ClosedWindow]) -> Option<Writer>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let one = |(host, seed): (&str, u64)| record(&dir.path().join(host), host, &recorded(seed));
        let writers = HOSTS.into_iter().filter_map(one).collect();
        Self { dir, writers }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `ask` while the first host's segments are merged.
    pub fn while_merging(mut self, ask: impl Fn(&Path)) {
        let dir = self.dir.path();
        merging::while_merging(&dir.join(HOSTS[0].0), &mut self.writers[0], || ask(dir));
    }

    /// Nothing is sealed.
    pub fn journal() -> Self {
        Self::new(|store, host, windows| {
            Some(append(store, options_of(host, "1s,10s,1m", "1h"), windows))
        })
    }

    /// Rotations fall into the middle of a minute.
    pub fn sealed() -> Self {
        Self::new(|store, host, windows| {
            record(store, options_of(host, "1s,10s,1m", "90s"), windows);
            None
        })
    }

    pub fn merged() -> Self {
        let stores = Self::new(|store, host, windows| {
            let windows = [windows, &[merging::idle(0)]].concat();
            Some(append(
                store,
                options_of(host, "1s,10s,1m", "15s"),
                &windows,
            ))
        });
        let merged = merged(&stores.path().join("one"));
        assert!(merged > 0, "nothing is merged");
        stores
    }

    /// Like [`Self::sealed`], with additional data in each window: they cause a note, but no other rows.
    pub fn with(more: More) -> Self {
        Self::new(|store, host, windows| {
            let mut windows = windows.to_vec();
            windows.iter_mut().for_each(more);
            record(store, options_of(host, "1s,10s,1m", "90s"), &windows);
            None
        })
    }

    /// Windows of a second have expired in the first two minutes.
    pub fn expired() -> Self {
        let stores = Self::new(|store, host, windows| {
            record(store, options_of(host, "1s,10s,1m", "1m"), windows);
            let options = Options {
                keep: RetentionPolicy {
                    retention: "1s=25s,1m=forever".parse().unwrap(),
                    now: || UtcMs(THREE + 150_000),
                    ..RetentionPolicy::default()
                },
                ..options_of(host, "1s,10s,1m", "1m")
            };
            for _ in 0..2 {
                let writer = Writer::open(store, options.clone()).unwrap();
                writer.finish().unwrap();
            }
            let seconds = segments(store, "rollup/granularity=1s");
            assert_eq!(seconds.len(), 1, "{seconds:?}");
            None
        });
        assert_eq!(
            segments(&stores.path().join("one"), "rollup/granularity=10s").len(),
            3
        );
        stores
    }

    /// A recorder that was killed in the middle of a merge, between its transaction and its renames.
    pub fn interrupted() -> Self {
        let recording = Self::new(|store, host, windows| {
            let windows = [windows, &[merging::idle(0)]].concat();
            let writer = append(store, options_of(host, "1s,10s,1m", "30s"), &windows);
            for _ in 0..6000 {
                if merged(store) >= 12 {
                    return Some(writer);
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("{} is not merged", store.display());
        });
        let dir = tempfile::tempdir().unwrap();
        for (host, _) in HOSTS {
            let [from, to] = [recording.path(), dir.path()].map(|dir| dir.join(host));
            let copied = Command::new("cp").arg("-a").args([&from, &to]).status();
            assert!(copied.unwrap().success());
            for granularity in ["1s", "10s", "1m"] {
                take_back(&to.join(format!("rollup/granularity={granularity}/date=2026-11-21")));
            }
        }
        let writers = Vec::new();
        Self { dir, writers }
    }
}

/// Undoes the renames of a merge, except for the first input.
fn take_back(date: &Path) {
    let mut files: Vec<_> = fs::read_dir(date)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let output = files
        .iter()
        .find(|path| name(path).ends_with("-1-4.parquet"))
        .unwrap();
    fs::rename(output, date.join(format!(".{}.tmp", name(output)))).unwrap();
    let inputs: Vec<_> = files
        .iter()
        .filter(|path| name(path).ends_with(".removed"))
        .collect();
    assert_eq!(inputs.len(), 4);
    for input in &inputs[1..] {
        let shown = name(input).trim_end_matches(".removed")[1..].to_owned();
        fs::rename(input, date.join(shown)).unwrap();
    }
}

/// The files that a glob finds.
fn segments(store: &Path, below: &str) -> Vec<PathBuf> {
    let dates = fs::read_dir(store.join(below)).unwrap();
    let files = dates.flat_map(|date| fs::read_dir(date.unwrap().path()).unwrap());
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension() == Some("parquet".as_ref()));
    files.retain(|path| !path.file_name().unwrap().to_str().unwrap().starts_with('.'));
    files
}

/// Adds something to a window.
pub type More = fn(&mut ClosedWindow);

/// Data about windows that keep the rows of an answer unchanged.
pub const NOTED: [(&str, More); 4] = [
    ("several levels", |window| {
        for fileid in [100, 102] {
            let file = FileAttributes {
                level: IoLevel::Block,
                mount: Some("vda:/".to_owned()),
                ..(*file(fileid, Some("/var/log/messages"))).clone()
            };
            let row = window.rows.first().map(|row| row.row.clone());
            window.rows.push(FileRow {
                file: Arc::new(file),
                row: row.unwrap_or_default(),
            });
        }
        window
            .rows
            .sort_by_key(|row| (row.file.key, row.file.tenant.to_string()));
        window.health.block_covered_ms = window.health.covered_ms;
    }),
    ("drops", |window| {
        window.health.lost = 2;
        window.health.missed = 1;
        window.health.requests_dropped = 7;
    }),
    ("filtered", |window| {
        window.health.filter = Some("--mount 'srv:/*'".into());
    }),
    ("imported", |window| {
        window.health.source = Some("csv".into());
    }),
];
