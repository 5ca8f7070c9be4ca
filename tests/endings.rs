//! Tests each cell of docs/reference/endings.md on a pseudo-terminal: which events end long-running commands, and which do not.

mod command;
mod run;
mod table;

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use rustix::process::geteuid;

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

/// Tries them, so many at once. `TRACKIOPS_ENDINGS` names a part of them, such as `Top, TerminalClosed`.
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
