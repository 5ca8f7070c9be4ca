//! Imports of many clients, days and files, and signals that end them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use trackiops_query::times::{Zone, show};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::program;

use super::packets::{Read, START_S, reads};
use super::{BY_HOST, requests, rows, text, trackiops, transfers};

/// An import ends within a second after a signal; busy machines take longer.
const SOON: Duration = Duration::from_secs(10);
const DAY_S: u32 = 86_400;

fn client(number: u32) -> [u8; 4] {
    let [.., high, low] = number.to_be_bytes();
    [10, 1, high, low]
}

/// A READ by each of several clients.
fn of_clients(count: u32) -> Vec<u8> {
    reads((0..count).map(|number| Read {
        client: client(number),
        file: 1,
        time: (START_S, number),
    }))
}

pub fn begin(capture: &Path, store: &Path) -> Child {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(["import", "pcap", text(capture), "--store", text(store)]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

/// Ends an import once there are this many files below a directory of its store.
pub fn end(import: Child, signal: Signal, dir: &Path, files: usize) -> Output {
    let count = || fs::read_dir(dir).map_or(0, Iterator::count);
    let begun = Instant::now();
    while count() < files && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(2));
    }
    let asked = Instant::now();
    kill_process(Pid::from_child(&import), signal).unwrap();
    let output = import.wait_with_output().unwrap();
    assert!(asked.elapsed() < SOON, "{:?}: {output:?}", asked.elapsed());
    output
}

fn capture(content: &[u8]) -> (TempDir, std::path::PathBuf, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (capture, store) = (dir.path().join("a.pcap"), dir.path().join("store"));
    fs::write(&capture, content).unwrap();
    (dir, capture, store)
}

#[test]
fn a_signal_ends_an_import_at_once_and_what_was_written_stays() {
    const CLIENTS: u32 = 100;
    let (_dir, capture, store) = capture(&of_clients(CLIENTS));
    for (signal, files) in [(Signal::TERM, 20), (Signal::INT, 60)] {
        let _ = fs::remove_dir_all(&store);
        let import = begin(&capture, &store);
        let output = end(import, signal, &store.join("journal"), files);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("ended by a signal at 2026-"), "{said}");
        let [(kept, _), _] = transfers(&store);
        assert!(0 < kept && kept <= u64::from(CLIENTS), "{kept}");
        // It may end between the sums of a client and its single requests.
        assert!(requests(&store).len() <= CLIENTS as usize);
        let again = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
        assert!(again.status.success(), "{again:?}");
        assert_eq!(transfers(&store)[0].0, u64::from(CLIENTS));
        assert_eq!(requests(&store).len() as u64, u64::from(CLIENTS));
        let check = trackiops(&["store", "check", text(&store)]);
        assert!(check.status.success(), "{check:?}");
    }
}

#[test]
fn a_signal_ends_an_import_of_many_days_at_once_and_what_was_written_stays() {
    // Enough that the windows of all days are written together.
    const DAYS: u64 = 6_000;
    let dir = tempfile::tempdir().unwrap();
    let (table, store) = (dir.path().join("a.csv"), dir.path().join("store"));
    // From 1992 on: questions begin in 1990.
    let second = |day: u64| (8035 + day) * u64::from(DAY_S) + 1;
    let lines = (0..DAYS).map(|day| format!("{},READ,4096,/a\n", second(day)));
    let lines: String = lines.collect();
    fs::write(&table, format!("time_s,op,bytes,path\n{lines}")).unwrap();
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(["import", "csv", text(&table), "--store", text(&store)]);
    command.args(["--map", "time=time_s:s,bytes=bytes"]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let import = piped.spawn().unwrap();
    let output = end(import, Signal::TERM, &store.join("journal"), 40);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ended by a signal at "), "{said}");
    let [(kept, _), _] = transfers(&store);
    assert!(0 < kept && kept < DAYS, "{kept}");
    let check = trackiops(&["store", "check", text(&store)]);
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn a_signal_ends_an_import_of_many_days_from_a_pipe_and_it_says_until_when_it_came() {
    // Enough that the windows of all days are written together, and not all of them once it is to end.
    const DAYS: u64 = 12_000;
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    // From 1992 on: questions begin in 1990.
    let second = |day: u64| (8035 + day) * u64::from(DAY_S) + 1;
    let lines = (0..DAYS).map(|day| format!("{},READ,4096,/a\n", second(day)));
    let lines: String = lines.collect();
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(["import", "csv", "-", "--store", text(&store)]);
    command.args(["--map", "time=time_s:s,bytes=bytes"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut import = piped.stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = import.stdin.take().unwrap();
    let table = format!("time_s,op,bytes,path\n{lines}");
    // It reads no further while it writes.
    let writer = thread::spawn(move || pipe.write_all(table.as_bytes()).map(|()| pipe));
    let output = end(import, Signal::TERM, &store.join("journal"), 40);
    let _ = writer.join();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("warning: not all later windows"), "{said}");
    let (_, rest) = said.split_once("what was read until ").unwrap();
    let (until, _) = rest.split_once(" UTC").unwrap();
    let [(kept, _), _] = transfers(&store);
    assert!(0 < kept && kept < DAYS, "{kept}");
    let asked = ["--since", "1990-01-01", "--until", until];
    let words = ["query", "--by", "mount", "--format", "csv", "--store"];
    let before = rows(&[&words[..], &[text(&store)], &asked].concat());
    let reads: u64 = before[0]["read_requests"].parse().unwrap();
    // The store has each day before that time, and that day is the first that it may lack, at some granularity.
    let missing = show(UtcMs(second(reads) as i64 * 1000), Zone::utc());
    assert_eq!(until.split(' ').next(), missing.split(' ').next(), "{said}");
}

#[test]
fn each_day_and_each_client_is_kept_and_sealed() {
    const DAYS: u32 = 40;
    let days = reads((0..DAYS).map(|day| Read {
        client: client(1),
        file: 1,
        time: (START_S - day.abs_diff(DAYS) * DAY_S, 0),
    }));
    for (content, expected) in [(days, DAYS), (of_clients(40), 40)] {
        let (_dir, capture, store) = capture(&content);
        let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
        assert!(output.status.success(), "{output:?}");
        let [(kept, _), _] = transfers(&store);
        assert_eq!(kept, u64::from(expected));
        assert_eq!(fs::read_dir(store.join("journal")).unwrap().count(), 0);
    }
}

#[test]
fn what_a_store_has_already_is_said() {
    let of_seconds = |seconds: std::ops::Range<u32>| {
        reads(seconds.map(|second| Read {
            client: client(1),
            file: 1,
            time: (START_S + second, 0),
        }))
    };
    let (_dir, capture, store) = capture(&of_seconds(0..5));
    let import = || {
        let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let first = import();
    assert!(!first.contains("already"), "{first}");
    // Different bytes, so that the import does not recognize the capture.
    fs::write(&capture, [of_seconds(0..5), vec![0; 16]].concat()).unwrap();
    let again = import();
    assert!(
        again.contains("1 client for the same time already, and 5 windows"),
        "{again}"
    );
    // The next capture begins in the second in which this one ends.
    fs::write(&capture, of_seconds(4..9)).unwrap();
    let next = import();
    assert!(!next.contains("already"), "{next}");
}

#[test]
fn more_files_in_a_second_than_a_journal_has_are_all_kept() {
    const FILES: u32 = 300_000;
    let (_dir, capture, store) = capture(&reads((0..FILES).map(|file| Read {
        client: client(1),
        file,
        time: (START_S, file),
    })));
    let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        transfers(&store)[0],
        (u64::from(FILES), 16 * u64::from(FILES))
    );
    assert_eq!(rows(&[&BY_HOST[..], &[text(&store)]].concat()).len(), 1);
}
