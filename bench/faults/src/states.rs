//! Stores in the states in which they may be damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, RequestsWriter, StoreError, Writer};

use trackiops_testkit::generated::{THREE, file, windows};
use trackiops_testkit::stores::options_of;

/// The files of a store, by their paths in it.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// A store, and an older version of each of its files, if there was one.
pub struct State {
    pub name: &'static str,
    pub image: Image,
    pub older: Image,
}

/// Granularities of the stores.
const GRANULARITIES: &str = "1s,1m";
const REQUESTS_BYTES: u64 = 64 << 20;
/// Number of single requests kept for each window.
pub const REQUESTS: i64 = 3;

/// Windows with files and operations; one has requests that wait for a server.
pub fn recorded(seed: u64, start: i64, count: i64) -> Vec<ClosedWindow> {
    let mut windows = windows(seed, start, 1000, count, 5);
    for window in &mut windows {
        for (op, requests) in [("GETATTR", 7), ("COMMIT", 2)] {
            let sums = OperationSums {
                requests,
                received_bytes: window.start.0.unsigned_abs() / 1000 % 1000,
                ..OperationSums::default()
            };
            let operation = Operation {
                mount: Some("srv:/even".into()),
                op: op.into(),
                transport: None,
            };
            window.ops.push(OperationRow { operation, sums });
        }
        window.health.ops_covered_ms = 1000;
        window.health.ops_seen = 9;
    }
    windows
}

/// Single requests of a window, with distinct completion times.
pub fn batch(window: &ClosedWindow) -> RequestBatch {
    let request = |i: i64| {
        let end_ns = window.start.0 * 1_000_000 + i * 3333;
        Request::new(&RequestRecord::default(), end_ns, 0)
    };
    RequestBatch {
        files: vec![file(1, Some("/mnt/f1"))],
        requests: (0..REQUESTS).map(request).collect(),
    }
}

/// Opens a store for windows and for single requests.
pub fn open(store: &Path, rotate: &str) -> Result<(Writer, RequestsWriter), StoreError> {
    let writer = Writer::open(store, options_of("a", GRANULARITIES, rotate))?;
    let requests = writer.requests(REQUESTS_BYTES, |_| {})?;
    Ok((writer, requests))
}

/// Records windows and their requests.
fn put(
    (writer, requests): &mut (Writer, RequestsWriter),
    windows: &[ClosedWindow],
) -> Result<(), StoreError> {
    for window in windows {
        writer.append(window)?;
        requests.append(&batch(window))?;
    }
    Ok(())
}

/// Leaves all written data to the next recorder. All of it is durable.
fn leave((writer, mut requests): (Writer, RequestsWriter)) -> Result<()> {
    // Requests are synced once a second.
    thread::sleep(Duration::from_millis(1100));
    requests.idle(UtcMs(THREE + 25_000))?;
    drop((requests, writer));
    Ok(())
}

fn finish((writer, requests): (Writer, RequestsWriter)) -> Result<(), StoreError> {
    requests.finish()?;
    writer.finish()
}

/// Records windows `from..to` of a recording in which `rotate` never cuts a journal, or does so every few seconds.
fn session(store: &Path, rotate: &str, from: usize, to: usize) -> Result<(), StoreError> {
    let all = recorded(5, THREE, 25);
    let mut writers = open(store, rotate)?;
    put(&mut writers, &all[from..to])?;
    finish(writers)
}

/// Nothing is sealed yet.
fn journal(store: &Path) -> Result<Image> {
    let all = recorded(5, THREE, 12);
    let mut writers = open(store, "1h")?;
    put(&mut writers, &all[..6])?;
    let older = image(store)?;
    put(&mut writers, &all[6..])?;
    leave(writers)?;
    Ok(older)
}

/// All is sealed, in one segment of each kind.
fn sealed(store: &Path) -> Result<Image> {
    let all = recorded(5, THREE, 25);
    let mut writers = open(store, "1h")?;
    put(&mut writers, &all)?;
    let older = image(store)?;
    finish(writers)?;
    Ok(older)
}

/// Some windows and single requests are sealed, others are not.
fn requests(store: &Path) -> Result<Image> {
    session(store, "1h", 0, 10)?;
    let older = image(store)?;
    let all = recorded(5, THREE, 25);
    let mut writers = open(store, "1h")?;
    put(&mut writers, &all[10..])?;
    leave(writers)?;
    Ok(older)
}

/// Segments of several journals were merged.
fn merged(store: &Path) -> Result<Image> {
    session(store, "5s", 0, 10)?;
    let older = image(store)?;
    session(store, "5s", 10, 25)?;
    Ok(older)
}

/// The recorder was killed after the merged segment counted, and before the others were hidden.
fn merging(store: &Path) -> Result<Image> {
    session(store, "5s", 0, 10)?;
    let older = image(store)?;
    let status = Command::new(std::env::current_exe()?)
        .arg("merging")
        .arg(store)
        .env("TRACKIOPS_KILL_AT", "1 compact: committed")
        .stdin(Stdio::null())
        .status()?;
    ensure!(!status.success(), "nothing was merged");
    Ok(older)
}

/// The work of the process that is killed.
pub fn merge(store: &Path) -> Result<()> {
    Ok(session(store, "5s", 10, 25)?)
}

/// All states.
pub fn all() -> Result<Vec<State>> {
    type Make = fn(&Path) -> Result<Image>;
    let makes: [(&str, Make); 5] = [
        ("journal", journal),
        ("sealed", sealed),
        ("requests", requests),
        ("merged", merged),
        ("merging", merging),
    ];
    let states = makes.into_iter().map(|(name, make)| {
        let dir = tempfile::tempdir()?;
        let store = dir.path().join("store");
        let older = make(&store).with_context(|| format!("the store for {name}"))?;
        for (at, text) in [(5, "begin"), (0, "before"), (20, "end")] {
            let (time, host) = (UtcMs(THREE + 1000 * at), name.to_owned());
            let text = text.to_owned();
            Mark { time, host, text }.add_to(&store)?;
        }
        let image = image(&store)?;
        Ok(State { name, image, older })
    });
    states.collect()
}

/// The content of a directory.
pub fn image(store: &Path) -> Result<Image> {
    let mut files = Image::new();
    let mut dirs = vec![store.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.insert(path.strip_prefix(store)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

/// Replaces the content of a directory by these files.
pub fn restore(image: &Image, store: &Path) -> Result<()> {
    if store.exists() {
        fs::remove_dir_all(store)?;
    }
    fs::create_dir_all(store)?;
    for (path, bytes) in image {
        let path = store.join(path);
        fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}
