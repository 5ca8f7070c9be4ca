//! Whatever a reader of a store does, its recorder neither waits for it nor fails to start.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};
use trackiops_store::{Options, Snapshot, Writer};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{granularity, windows};

/// Longer than anything in these tests takes, and shorter than the wait for a lock.
const SOON: Duration = Duration::from_secs(8);

/// A process of another user that has locked a directory. `None` without root, which alone can start it.
fn locked_by_another_user(dir: &Path) -> Option<Child> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: no other user locks the store's directory");
        return None;
    }
    let open = File::open(dir).unwrap();
    let child = Command::new("perl")
        .args(["-e", "flock(STDIN, 6) or exit 1; sleep 600"])
        .stdin(open.try_clone().unwrap())
        .uid(65534)
        .spawn()
        .unwrap();
    let is_free = || {
        let own = File::open(dir).unwrap();
        flock(&own, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    let begun = Instant::now();
    while is_free() {
        assert!(begun.elapsed() < SOON, "it does not lock");
        thread::sleep(Duration::from_millis(10));
    }
    Some(child)
}

#[test]
fn readers_cannot_hold_up_a_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let often = || Options {
        rotate: granularity("2s"),
        ..options("h")
    };
    let all = windows(40);
    let mut writer = Writer::open(store, often()).unwrap();
    all[..4].iter().for_each(|w| writer.append(w).unwrap());
    writer.finish().unwrap();

    // It has locked everything that a member of the group may open.
    let mut other = locked_by_another_user(store);
    let held: Vec<File> = ["catalog.db", "journal", "rollup"]
        .map(|path| File::open(store.join(path)).unwrap())
        .into();
    for file in &held {
        flock(file, FlockOperation::NonBlockingLockExclusive).unwrap();
    }
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(store.join("catalog.db"), read).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM segment;")
        .unwrap();
    let snapshot = Snapshot::open(store).unwrap();

    let began = Instant::now();
    let mut writer = Writer::open(store, often()).unwrap();
    all[4..].iter().for_each(|w| writer.append(w).unwrap());
    writer.finish().unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    if let Some(other) = &mut other {
        assert!(other.try_wait().unwrap().is_none(), "it still holds it");
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let finest = granularity("1s");
    assert!(Content::stored(store, finest) == Content::of(&all, finest));

    // Readers see the time at which they opened the store.
    let seen: i64 = reader
        .query_row("SELECT count(*) FROM sealed_journal", [], |row| row.get(0))
        .unwrap();
    assert_eq!(seen, 2);
    assert_eq!(snapshot.span().unwrap().1, all[4].start);
    // Only the recorder's own files are there, and other users may not open them.
    let mut names: Vec<_> = fs::read_dir(store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| store.join(name).is_file())
        .collect();
    names.sort();
    assert_eq!(names, ["catalog.db", "lock"]);
    let mode = |name: &str| fs::metadata(store.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("catalog.db"), mode("lock")), (0o640, 0o600));
}
