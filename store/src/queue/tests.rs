//! Tests named `as_root` mount file systems, which requires root.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::windows::mount_point;

use super::writer_thread::{LAST_TRIES, RETRY_EVERY};
use super::{QueueError, WindowQueue};
use crate::check::check;
use crate::error::StoreError;
use crate::layout::Dataset;
use crate::options::{Options, RetentionPolicy};
use crate::snapshot::Snapshot;
use crate::warning::Warning;
use crate::writer::Writer;

const T0: i64 = 1_795_233_120_000;

fn window(i: i64) -> ClosedWindow {
    let row = |fileid: u64| {
        let id = FileId {
            dev: Dev(49),
            fileid,
            handle_hash: 1,
        };
        let file = FileAttributes {
            key: FileKey::new(Some("srv:/e"), id),
            id,
            mount: Some("srv:/e".into()),
            path: Some(format!("/mnt/{fileid}")),
            path_inferred: false,
            tenant: Default::default(),
            level: Default::default(),
        };
        let mut row = Row::default();
        row.read.requests = 1;
        row.read.untimed = 1;
        FileRow {
            file: file.into(),
            row,
        }
    };
    let mut rows: Vec<_> = (0..200).map(row).collect();
    rows.sort_by_key(|row| row.file.key);
    ClosedWindow {
        start: UtcMs(T0 + 1000 * i),
        rows,
        ops: Vec::new(),
        health: Health {
            covered_ms: 1000,
            ..Health::default()
        },
    }
}

fn options() -> Options {
    Options {
        host: "h".into(),
        granularities: "1s,1m".parse().unwrap(),
        rotate: "1h".parse().unwrap(),
        filter: None,
        source: None,
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        keep: RetentionPolicy::default(),
    }
}

fn begin(store: &Path) -> WindowQueue {
    let writer = Writer::open(store, options()).unwrap();
    WindowQueue::start(writer, store.to_owned(), None, |_| ()).unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..300 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("in vain: {what}");
}

/// Recorded milliseconds, and failed writes, of all windows in journals.
fn told(store: &Path) -> (u64, u64) {
    let snapshot = Snapshot::open(store).unwrap();
    let mut told = (0, 0);
    for tail in snapshot.tails() {
        tail.windows(&mut |window| {
            told.0 += window.health.covered_ms;
            told.1 += window.health.store_failures;
        })
        .unwrap();
    }
    told
}

fn run(command: &str, args: &[&str]) {
    let status = Command::new(command).args(args).status().unwrap();
    assert!(status.success(), "{command} {args:?}: {status}");
}

/// A mounted file system. Dropping it unmounts it.
struct Mounted(tempfile::TempDir);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn tmpfs(size: &str) -> Mounted {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    run(
        "mount",
        &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", path],
    );
    Mounted(dir)
}

#[test]
fn as_root_a_full_disk_costs_no_window_and_recovery_is_automatic() {
    let disk = tmpfs("2m");
    let store = disk.0.path().join("store");
    let queue = begin(&store);
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    let filler = disk.0.path().join("filler");
    // Fills the disk.
    let _ = fs::write(&filler, vec![1; 4 << 20]);
    for i in 1..30 {
        queue.put(window(i));
    }
    wait_until("windows wait", || queue.waiting() > 20);
    thread::sleep(2 * RETRY_EVERY);
    assert!(queue.waiting() > 20);
    assert!(check(&store).unwrap().findings.is_empty());
    fs::remove_file(&filler).unwrap();
    wait_until("they are written", || queue.waiting() == 0);
    queue.put(window(30));
    wait_until("and the one that tells of it", || told(&store).0 == 31_000);
    assert!(told(&store).1 > 0, "failures are told");
    queue.finish().unwrap();
    let snapshot = Snapshot::open(&store).unwrap();
    let rows = snapshot.segments(Dataset::Rollup, None).unwrap();
    assert_eq!(rows[0].rows, 31 * 200);
    assert!(check(&store).unwrap().findings.is_empty());
}

#[test]
fn as_root_a_disk_that_stays_full_ends_with_what_was_lost() {
    let disk = tmpfs("2m");
    let store = disk.0.path().join("store");
    let queue = begin(&store);
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    let _ = fs::write(disk.0.path().join("filler"), vec![1; 4 << 20]);
    (1..30).for_each(|i| queue.put(window(i)));
    let begun = Instant::now();
    let finished = queue.finish();
    assert!(matches!(
        finished,
        Err(QueueError::Store(StoreError::Io { .. }))
    ));
    assert!(begun.elapsed() < 3 * LAST_TRIES);
    assert!(told(&store).0 >= 1000, "what was written is there");
}

#[test]
fn as_root_a_file_system_that_becomes_read_only_is_let_go_and_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let image = image.to_str().unwrap();
    run("mkfs.ext4", &["-q", image]);
    let disk = Mounted(tempfile::tempdir().unwrap());
    let path = disk.0.path().to_str().unwrap();
    run("mount", &["-o", "loop,errors=remount-ro", image, path]);
    let store = disk.0.path().join("store");
    let queue = begin(&store);
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    let source = Command::new("findmnt")
        .args(["-no", "SOURCE", path])
        .output()
        .unwrap();
    let device = String::from_utf8(source.stdout).unwrap();
    let device = device.trim().trim_start_matches("/dev/");
    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test").unwrap();
    (1..20).for_each(|i| queue.put(window(i)));
    let unmounted = || Command::new("umount").arg(path).status().unwrap().success();
    wait_until("nobody holds the file system", unmounted);
    // 1: errors were corrected.
    let repaired = Command::new("e2fsck")
        .args(["-fy", image])
        .output()
        .unwrap();
    assert!(
        repaired.status.code().is_some_and(|code| code <= 1),
        "{repaired:?}"
    );
    assert_eq!(queue.waiting(), 19);
    run("mount", &["-o", "loop", image, path]);
    wait_until("they are written", || queue.waiting() == 0);
    queue.finish().unwrap();
    let snapshot = Snapshot::open(&store).unwrap();
    let seconds = snapshot
        .segments(Dataset::Rollup, None)
        .unwrap()
        .into_iter();
    let seconds = seconds.filter(|segment| segment.granularity.ms() == 1000);
    assert_eq!(seconds.map(|segment| segment.rows).sum::<u64>(), 20 * 200);
    assert!(check(&store).unwrap().findings.is_empty());
}

#[test]
fn a_store_that_is_deleted_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let queue = begin(&store);
    let mount = mount_point(Dev(49), "srv:/e", "/mnt");
    queue.mounted(UtcMs(T0), vec![mount], &[]);
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    fs::remove_dir_all(&store).unwrap();
    (1..5).for_each(|i| queue.put(window(i)));
    wait_until("a new store is there", || queue.waiting() == 0);
    queue.put(window(5));
    wait_until("and written", || told(&store).0 >= 5000);
    queue.finish().unwrap();
    let mounts = Snapshot::open(&store).unwrap().mounts().unwrap();
    assert_eq!(mounts.len(), 1, "what is mounted is told again");
    assert!(check(&store).unwrap().findings.is_empty());
}

#[test]
fn a_store_whose_place_another_takes_is_sealed_where_it_is_and_the_other_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [store, copied, reference, moved] =
        ["store", "copied", "reference", "moved"].map(|name| dir.path().join(name));
    let writer = Writer::open(&store, options()).unwrap();
    let mut requests = writer.requests(64 << 20, |_| ()).unwrap();
    let (warn, warnings) = mpsc::channel();
    let warn = move |warning| {
        let _ = warn.send(warning);
    };
    let queue = WindowQueue::start(writer, store.clone(), None, warn).unwrap();
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    // By then, the thread that seals has begun.
    thread::sleep(RETRY_EVERY);
    for (from, to) in [(&store, &copied), (&copied, &reference)] {
        run("cp", &["-a", from.to_str().unwrap(), to.to_str().unwrap()]);
    }
    fs::rename(&store, &moved).unwrap();
    fs::rename(&copied, &store).unwrap();
    let batch = RequestBatch {
        files: Vec::new(),
        requests: vec![Request::new(&RequestRecord::default(), T0 * 1_000_000, 0)],
    };
    let refused = requests.append(&batch);
    assert!(
        matches!(refused, Err(StoreError::Replaced(_))),
        "{refused:?}"
    );
    queue.put(window(1));
    let warning = warnings.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(matches!(warning, Warning::Replaced(_)), "{warning:?}");
    requests.finish().unwrap();
    let finished = queue.finish();
    assert!(
        matches!(finished, Err(QueueError::Store(StoreError::Replaced(_)))),
        "{finished:?}"
    );
    let warnings: Vec<_> = warnings.try_iter().collect();
    assert_eq!(warnings, [Warning::WaitingLost(1)]);
    run(
        "diff",
        &["-r", reference.to_str().unwrap(), store.to_str().unwrap()],
    );
    let snapshot = Snapshot::open(&moved).unwrap();
    assert_eq!(snapshot.tails().len(), 0, "it is sealed");
    let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
    assert_eq!(segments[0].rows, 200);
    assert!(check(&moved).unwrap().findings.is_empty());
}

#[test]
fn a_store_is_created_again_only_after_its_requests_let_go_of_the_deleted_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let writer = Writer::open(&store, options()).unwrap();
    let requests = writer.requests(64 << 20, |_| ()).unwrap();
    let queue = WindowQueue::start(writer, store.clone(), None, |_| ()).unwrap();
    queue.put(window(0));
    wait_until("the first window is written", || queue.waiting() == 0);
    // A thread that seals may still be creating files.
    wait_until("it is deleted", || {
        let _ = fs::remove_dir_all(&store);
        !store.exists()
    });
    queue.put(window(1));
    thread::sleep(2 * RETRY_EVERY);
    assert_eq!((queue.waiting(), store.exists()), (1, false));
    drop(requests);
    wait_until("a new store is there", || queue.waiting() == 0);
    queue.finish().unwrap();
    assert!(check(&store).unwrap().findings.is_empty());
}

#[test]
fn what_was_closed_is_written_when_the_thread_that_closes_windows_panics() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let panicked = std::panic::catch_unwind(|| {
        let queue = begin(&store);
        (0..20).for_each(|i| queue.put(window(i)));
        panic!("as the main loop may");
    });
    assert!(panicked.is_err());
    let snapshot = Snapshot::open(&store).unwrap();
    assert_eq!(snapshot.tails().len(), 0, "it is sealed, too");
    let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
    assert_eq!(segments[0].rows, 20 * 200);
}

#[cfg(feature = "fail-points")]
#[test]
#[ignore = "is run by the other, to panic"]
fn as_child_the_thread_that_writes_panics() {
    let store = std::path::PathBuf::from(std::env::var_os("TRACKIOPS_PANIC_STORE").unwrap());
    let queue = begin(&store);
    for i in 0..3 {
        queue.put(window(i));
        wait_until("it is written", || queue.waiting() == 0);
    }
    // Several at once, and some after the panic.
    (3..9).for_each(|i| queue.put(window(i)));
    wait_until("they are written", || queue.waiting() == 0);
    (9..12).for_each(|i| queue.put(window(i)));
    let Err(QueueError::Panic(why)) = queue.finish() else {
        panic!("the thread has not panicked");
    };
    assert!(why.starts_with("fail point: "), "{why}");
    let death = trackiops_threads::death().unwrap();
    assert_eq!(death.thread, "windows");
}

#[cfg(feature = "fail-points")]
#[test]
fn a_panic_of_the_thread_that_writes_costs_no_window_and_doubles_none() {
    let test = "queue::tests::as_child_the_thread_that_writes_panics";
    for turn in [
        "1 windows: taken",
        "3 windows: taken",
        "2 append: encoded",
        "3 append: written",
        "4 append: durable",
        "1 journal: created",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--quiet"])
            .env("TRACKIOPS_PANIC_STORE", dir.path())
            .env("TRACKIOPS_PANIC_AT", turn)
            .status();
        assert!(status.unwrap().success(), "{turn}");
        Writer::open(dir.path(), options())
            .unwrap()
            .finish()
            .unwrap();
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
        let seconds = segments.iter().filter(|s| s.granularity.ms() == 1000);
        assert_eq!(seconds.map(|s| s.rows).sum::<u64>(), 12 * 200, "{turn}");
        assert_eq!(check(dir.path()).unwrap().findings, [], "{turn}");
    }
}
