//! A writer is killed at each of its steps, and at random times. No acknowledged window is lost, and none counts twice,
//! by the catalog or by a glob. Fine and coarse windows agree. The store is clean after it is opened again, repaired or
//! given a new catalog.
//!
//! The writer is this program again, running the test `writer`. `TRACKIOPS_TEST_LONG` kills it hundreds of times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Options, RetentionPolicy, Snapshot, Warning, Writer, check, rebuild_catalog, repair,
};
use trackiops_testkit::content::{Content, assert_at_most, globbed};
use trackiops_testkit::stores::options;
use trackiops_testkit::stores::{complete, copy, parquet_files};
use trackiops_testkit::windows::{T0, granularity, windows};

/// Every place at which the writer may be killed.
const PLACES: [&str; 23] = [
    "journal: end created",
    "journal: created",
    "journal: durable",
    "append: encoded",
    "append: written",
    "append: durable",
    "journal: end durable",
    "append: named",
    "seal: written",
    "seal: renamed",
    "seal: names durable",
    "catalog: written",
    "catalog: renamed",
    "seal: committed",
    "journal: removed",
    "seal: journal removed",
    "compact: written",
    "compact: committed",
    "settle: hidden",
    "settle: shown",
    "retention: committed",
    "delete: file",
    "delete: noted",
];

/// Number of all windows, and of windows between opening the store and finishing.
const WINDOWS: i64 = 48;
const AT_ONCE: i64 = 8;

/// The current time. It advances faster than the windows, so that windows expire and merged segments are deleted.
static NOW: AtomicI64 = AtomicI64::new(T0);

fn recorder() -> Options {
    Options {
        granularities: "1s,10s,1m".parse().unwrap(),
        rotate: granularity("2s"),
        keep: RetentionPolicy {
            retention: "1s=600s,1m=forever".parse().unwrap(),
            gaps_age: true,
            now: || UtcMs(NOW.load(Ordering::SeqCst)),
            ..RetentionPolicy::default()
        },
        ..options("h")
    }
}

fn is_long() -> bool {
    env::var_os("TRACKIOPS_TEST_LONG").is_some()
}

/// Number of windows in the store.
fn stored(store: &Path) -> i64 {
    match Snapshot::open(store) {
        Ok(snapshot) => snapshot.span().map_or(0, |(_, end)| (end.0 - T0) / 1000),
        Err(_) => 0,
    }
}

#[test]
#[ignore = "is run by the others, to be killed"]
fn writer() {
    let dir = env::var_os("TRACKIOPS_KILL_STORE").expect("it is run by the others");
    let dir = Path::new(&dir);
    let store = dir.join("store");
    let mut acknowledged = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("acknowledged"))
        .unwrap();
    let all = windows(WINDOWS);
    let mut next = stored(&store);
    while next < WINDOWS {
        NOW.store(T0 + 40_000 * next, Ordering::SeqCst);
        let mut writer = Writer::open(&store, recorder()).unwrap();
        for _ in 0..AT_ONCE.min(WINDOWS - next) {
            writer.append(&all[next as usize]).unwrap();
            next += 1;
            writeln!(acknowledged, "{next}").unwrap();
        }
        writer.finish().unwrap();
    }
}

/// Runs the writer in a directory.
fn start(dir: &Path, kill_at: Option<&str>) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "writer", "--ignored", "--quiet"])
        .env("TRACKIOPS_KILL_STORE", dir)
        .env_remove("TRACKIOPS_KILL_AT")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(place) = kill_at {
        command.env("TRACKIOPS_KILL_AT", place);
    }
    command.spawn().unwrap()
}

fn was_killed(status: ExitStatus) -> bool {
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

/// Invariants after each kill of a writer that had found `before` windows.
fn assert_whole(dir: &Path, before: i64, when: &str) {
    let store = dir.join("store");
    let acknowledged = fs::read_to_string(dir.join("acknowledged")).unwrap_or_default();
    let acknowledged: i64 = acknowledged
        .lines()
        .last()
        .map_or(0, |n| n.parse().unwrap());
    let acknowledged = acknowledged.max(before);
    let there = stored(&store);
    // One more window may be durable without an acknowledgement.
    assert!(
        (acknowledged..=acknowledged + 1).contains(&there),
        "{when}: {acknowledged} {there}"
    );
    let all = windows(WINDOWS);
    let assert_same = || {
        if there == 0 {
            return;
        }
        let minute = granularity("1m");
        let content = Content::stored(&store, minute);
        assert!(
            content == Content::of(&all[..there as usize], minute),
            "{when}"
        );
    };
    assert_same();
    let recorded = &all[..there as usize];
    assert_globbed(&store, recorded, when);
    let renames = ["compact: ", "settle: ", "retention: ", "delete: "];
    if renames.iter().any(|place| when.contains(place)) {
        assert_mended(&store, recorded, when);
    }
    NOW.store(T0 + 40_000 * there, Ordering::SeqCst);
    let told = complete(&store, recorder());
    let is_damaged = |warning: &Warning| matches!(warning, Warning::Quarantined(_));
    assert!(!told.iter().any(is_damaged), "{when}: {told:?}");
    assert_same();
    assert_eq!(check(&store).unwrap().findings, [], "{when}");
    assert_tidy(&store, when);
    let left = fs::read_dir(store.join("journal")).unwrap();
    assert_eq!(left.count(), 0, "{when}");
}

const GRANULARITIES: [&str; 3] = ["1s", "10s", "1m"];

/// A glob matches no row twice.
fn assert_globbed(store: &Path, recorded: &[ClosedWindow], when: &str) {
    for granularity in GRANULARITIES.map(granularity) {
        let seen = globbed(store, granularity).unwrap();
        assert_at_most(&seen, &Content::of(recorded, granularity), when);
    }
}

/// A glob matches what the catalog lists, and no segment waits for deletion.
fn assert_tidy(store: &Path, when: &str) {
    let snapshot = Snapshot::open(store).unwrap();
    for granularity in GRANULARITIES.map(granularity) {
        let sealed = Content::sealed(&snapshot, granularity).unwrap();
        assert!(globbed(store, granularity).unwrap() == sealed, "{when}");
    }
    let files = parquet_files(store);
    let waits = |file: &&String| file.ends_with(".removed");
    assert_eq!(files.iter().find(waits), None, "{when}");
}

/// A store can be repaired, and its catalog rebuilt, without another recording.
fn assert_mended(store: &Path, recorded: &[ClosedWindow], when: &str) {
    let minute = granularity("1m");
    for mend in ["repair", "rebuild-catalog"] {
        let when = format!("{mend} after {when}");
        let dir = tempfile::tempdir().unwrap();
        copy(store, dir.path());
        match mend {
            "repair" => drop(repair(dir.path()).unwrap()),
            _ => {
                fs::remove_file(dir.path().join("catalog.db")).unwrap();
                assert_eq!(rebuild_catalog(dir.path()).unwrap().left_out, [], "{when}");
            }
        }
        let content = Content::stored(dir.path(), minute);
        assert!(content == Content::of(recorded, minute), "{when}");
        assert_globbed(dir.path(), recorded, &when);
        assert_eq!(check(dir.path()).unwrap().findings, [], "{when}");
        assert_tidy(dir.path(), &when);
    }
}

#[test]
fn killed_at_every_step() {
    let times: &[u64] = match is_long() {
        true => &[1, 2, 3, 4, 5, 7, 10, 14, 20],
        false => &[1],
    };
    for place in PLACES {
        let mut kills = 0;
        for time in times {
            let dir = tempfile::tempdir().unwrap();
            let kill_at = format!("{time} {place}");
            // Kill it at the same step again, in the store that the first kill left.
            for _ in 0..2 {
                let before = stored(&dir.path().join("store"));
                let killed = was_killed(start(dir.path(), Some(&kill_at)).wait().unwrap());
                kills += u64::from(killed);
                assert_whole(dir.path(), before, &kill_at);
            }
        }
        assert!(kills > 0, "{place} was never reached");
    }
}

#[test]
fn killed_at_any_time() {
    let kills = if is_long() { 300 } else { 12 };
    let mut killed = 0;
    let mut numbers = 88_172_645_463_325_252_u64;
    while killed < kills {
        let dir = tempfile::tempdir().unwrap();
        loop {
            numbers ^= numbers << 13;
            numbers ^= numbers >> 7;
            numbers ^= numbers << 17;
            let before = stored(&dir.path().join("store"));
            let mut writer = start(dir.path(), None);
            std::thread::sleep(Duration::from_micros(10_000 + numbers % 400_000));
            writer.kill().unwrap();
            let status = writer.wait().unwrap();
            assert_whole(dir.path(), before, &format!("kill {killed}"));
            if !was_killed(status) {
                break;
            }
            killed += 1;
        }
    }
}
