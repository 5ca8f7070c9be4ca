//! The sealing thread panics at each of its steps. The appending thread gets an error, can go on, and loses no window.
//! The next opening seals the rest.
//!
//! The panicking program is this one again, running the test `recorder`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, RetentionPolicy, StoreError, Writer, check};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{complete, journals, options};
use trackiops_testkit::windows::{T0, file, granularity, windows};

/// Steps of the sealing thread while windows are appended.
const PLACES: [&str; 7] = [
    "seal: written",
    "seal: renamed",
    "seal: committed",
    "seal: journal removed",
    "compact: written",
    "compact: committed",
    "retention: committed",
];

/// More windows than are appended until the panic.
const WINDOWS: i64 = 400;

fn recorder_options() -> Options {
    Options {
        granularities: "1s,10s,1m".parse().unwrap(),
        rotate: granularity("2s"),
        keep: RetentionPolicy {
            retention: "1s=600s,1m=forever".parse().unwrap(),
            gaps_age: true,
            // So late that some windows have expired when they are sealed.
            now: || UtcMs(T0 + 1_000_000),
            ..RetentionPolicy::default()
        },
        ..options("h")
    }
}

/// Appends until the sealing thread has panicked, and some more. Writes the error and the number of appended windows to
/// files.
#[test]
#[ignore = "is run by the others, to panic"]
fn recorder() {
    let dir = env::var_os("TRACKIOPS_PANIC_STORE").expect("it is run by the others");
    let dir = Path::new(&dir);
    let mut writer = Writer::open(dir.join("store"), recorder_options()).unwrap();
    let (mut told, mut appended, mut more) = (Vec::new(), 0, 6);
    for window in windows(WINDOWS) {
        if more == 0 {
            break;
        }
        if let Err(error) = writer.append(&window) {
            assert!(matches!(error, StoreError::SealerGone { .. }), "{error}");
            told.push(error.to_string());
            // The window was not appended, and may be appended again.
            writer.append(&window).unwrap();
        }
        appended += 1;
        more -= u32::from(!told.is_empty());
        sleep(Duration::from_millis(10));
    }
    let finished = writer.finish().unwrap_err();
    assert!(matches!(finished, StoreError::SealerGone { .. }));
    fs::write(dir.join("told"), told.join("\n")).unwrap();
    fs::write(dir.join("appended"), format!("{appended}")).unwrap();
}

/// Appends single requests until the thread that seals them has panicked.
#[test]
#[ignore = "is run by the others, to panic"]
fn requests_recorder() {
    let dir = env::var_os("TRACKIOPS_PANIC_STORE").expect("it is run by the others");
    let dir = Path::new(&dir);
    let writer = Writer::open(dir.join("store"), options("h")).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    let request = Request::new(&RequestRecord::default(), T0 * 1_000_000, 0);
    let batch = RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a"))],
        requests: vec![request],
    };
    requests.append(&batch).unwrap();
    let error = requests.finish().unwrap_err();
    fs::write(dir.join("told"), error.to_string()).unwrap();
    writer.finish().unwrap();
}

/// Runs one of these tests in a directory.
fn run(test: &str, dir: &Path, panic_at: &str) {
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--quiet"])
        .env("TRACKIOPS_PANIC_STORE", dir)
        .env("TRACKIOPS_PANIC_AT", panic_at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "{panic_at}");
}

#[test]
fn the_sealing_thread_panics_at_every_step() {
    for place in PLACES {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        run("recorder", dir.path(), &format!("1 {place}"));
        let said = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let told = said("told");
        assert_eq!(told.lines().count(), 1, "{place}: {told}");
        let why = format!("has panicked: fail point: {place}");
        assert!(told.contains(&why), "{told}");
        assert_ne!(journals(&store), Vec::<String>::new(), "{place}");

        let appended = windows(said("appended").parse().unwrap());
        let minute = granularity("1m");
        let assert_same = || {
            assert!(
                Content::stored(&store, minute) == Content::of(&appended, minute),
                "{place}"
            );
        };
        complete(&store, recorder_options());
        assert_same();
        assert_eq!(journals(&store), Vec::<String>::new(), "{place}");
        assert_eq!(check(&store).unwrap().findings, [], "{place}");
    }
}

#[test]
fn the_thread_that_seals_requests_panics() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    run("requests_recorder", dir.path(), "1 requests: seal");
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    assert!(told.contains("fail point: requests: seal"), "{told}");
    let writer = Writer::open(&store, options("h")).unwrap();
    assert!(writer.has_unsealed_requests().unwrap());
    let requests = writer.requests(64 << 20, |_| {}).unwrap();
    requests.finish().unwrap();
    assert!(!writer.has_unsealed_requests().unwrap());
}
