//! Tests each cell of docs/reference/endings.md on a pseudo-terminal: which events end long-running commands, and which do not.

mod command;
mod run;
mod table;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use trackiops_testkit::program;

use self::run::Run;
use self::table::{Case, Kind, documented};
use crate::server;

/// Number of commands at once.
const AT_ONCE: usize = 8;

#[test]
fn commands_end_as_documented_and_take_no_cpu_time() {
    let programs = tempfile::tempdir().unwrap();
    // Copy the program for commands that must not be root before any of them starts.
    server::trackiops(programs.path());
    if std::env::var_os("TRACKIOPS_TEST_EMULATOR").is_some() {
        println!("SKIPPED: processes are those of the emulator");
        return;
    }
    let is_root = geteuid().is_root();
    let mut runs = documented();
    runs.retain(|(kind, ..)| is_root || *kind != Kind::Record);
    all_end_so(runs, AT_ONCE, programs.path());
}

#[test]
#[ignore = "make test-levels: needs root and BPF"]
fn a_recorder_of_calls_ends_as_documented() {
    let programs = tempfile::tempdir().unwrap();
    let runs = documented().into_iter();
    let runs = runs.filter(|(kind, ..)| *kind == Kind::Record);
    let runs = runs.map(|(_, case, ends)| (Kind::RecordCalls, case, ends));
    // One at a time: two would record each other's calls.
    all_end_so(runs.collect(), 1, programs.path());
}

#[test]
fn as_root_a_signal_during_the_start_of_a_recorder_ends_it_before_it_records() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = starting_recorder(dir.path());
    kill_process(Pid::from_child(&recorder), Signal::TERM).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("stopped before the recording began"),
        "{said}"
    );
    assert!(!dir.path().join("ready").exists());
}

#[test]
fn as_root_a_store_that_is_moved_during_the_start_of_a_recorder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let recorder = starting_recorder(dir.path());
    fs::rename(&store, dir.path().join("moved")).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!("cannot find the store {}", store.display());
    assert!(said.contains(&expected), "{said}");
}

/// A recorder that has its store, and loads its programs next, which takes a while.
fn starting_recorder(dir: &Path) -> Child {
    let mut record = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    record.args(["record", "--levels", "block", "--store"]);
    record.arg(dir.join("store"));
    record.arg("--live-socket").arg(dir.join("live.sock"));
    record.arg("--ready-file").arg(dir.join("ready"));
    record
        .env("TRACKIOPS_CONFIG", "none")
        .stderr(Stdio::piped());
    let recorder = record.spawn().unwrap();
    let begun = Instant::now();
    while !handles(recorder.id(), Signal::TERM) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(2));
    }
    recorder
}

/// Whether a process has a handler for a signal.
fn handles(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let handled = u64::from_str_radix(handled.unwrap().trim(), 16).unwrap();
    handled & (1 << (signal.as_raw() - 1)) != 0
}

/// Runs the cases, `at_once` at a time. `TRACKIOPS_ENDINGS` selects some, such as `Top, TerminalClosed`.
fn all_end_so(mut runs: Vec<(Kind, Case, bool)>, at_once: usize, programs: &Path) {
    let only = std::env::var("TRACKIOPS_ENDINGS").unwrap_or_default();
    runs.retain(|run| format!("{run:?}").contains(&only));
    let wrong = in_parallel(runs, at_once, |(kind, case, ends)| {
        Run::start(kind, case, programs).meets(case, ends)
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The failures of each case.
fn in_parallel(
    runs: Vec<(Kind, Case, bool)>,
    at_once: usize,
    check: impl Fn((Kind, Case, bool)) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (runs, wrong) = (Mutex::new(runs), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(run) = runs.lock().unwrap().pop() else {
                        return;
                    };
                    if let Err(why) = check(run) {
                        wrong.lock().unwrap().push(format!("{run:?}: {why}"));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}
