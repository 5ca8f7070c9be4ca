//! More files than are followed at a time: all are counted, and memory stays constant.

use std::collections::HashMap;

use serde::Deserialize;

use crate::run::{Run, long, stored_rows, sum};

/// The row of files beyond the limit.
const OTHERS: &str = "(other)";
/// Most rows of a window (`MOST` in `collector/src/rollup/mod.rs`).
const MOST_ROWS: u64 = 65_536;
/// Most memory of the recorder, KiB.
const MOST_MEMORY_KIB: u64 = 400 << 10;

#[derive(Debug, Deserialize)]
struct Row {
    path: Option<String>,
    fileid: u64,
    read_requests: u64,
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_recorder_in_little_memory_counts_all_files() {
    // With the larger number, some count as others.
    let files: u64 = if long() { 8000 } else { 1000 };
    let run = Run::on(
        &crate::run::kernel(),
        "little",
        &[],
        &["64", &files.to_string()],
    );
    let events = run.text("events");
    assert!(events.contains("oom_kill 0\n"), "{events}");
    let said = run.text("record.err");
    assert!(
        said.contains("requests and calls are not kept one by one"),
        "{said}"
    );
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    let whole = run.query(&["--step", "all", "--by", "host"]);
    let found = ["write_requests", "write_bytes"].map(|column| sum(&whole, column));
    assert_eq!(found, [truth.writes(), truth.server_written_bytes]);
    assert!(found[0] >= files, "{found:?}");
    let rows: Vec<Row> = stored_rows(&run.store(), &["path", "fileid", "read_requests"]);
    let is_of_others = |row: &&Row| row.path.as_deref() == Some(OTHERS);
    let others = rows.iter().filter(is_of_others).count();
    assert!(!long() || others > 0, "{} rows, none of others", rows.len());
    println!(
        "{}: {} rows, {} of others, a peak of {}",
        crate::run::kernel(),
        rows.len(),
        others,
        run.text("peak")
    );
}

#[test]
#[ignore = "boots a guest: make test-long"]
fn guest_each_of_very_many_files_is_counted_under_its_name_or_as_other() {
    if !long() {
        println!("reading all these files takes minutes: make test-long");
        return;
    }
    let count = 100_000;
    let flags = ["--nfs", "3", "--mem", "3072", "--timeout", "2400"];
    // A busy host may read fewer files in the time.
    let arguments = [&count.to_string(), "600"];
    let run = Run::on(&crate::run::kernel(), "many", &flags, &arguments);
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    let read = truth.reads();
    assert!(read > MOST_ROWS + 1000, "{read} of {count} were read");
    let whole = run.query(&["--step", "all", "--by", "host"]);
    let found = ["read_requests", "read_bytes"].map(|column| sum(&whole, column));
    assert_eq!(found, [truth.reads(), truth.server_read_bytes]);

    let text = run.text("files");
    let listed = text.lines().filter_map(|line| line.split_once(' '));
    let names: HashMap<u64, &str> = listed
        .map(|(fileid, path)| (fileid.parse().expect("a number"), path))
        .collect();
    assert_eq!(names.len() as u64, count);
    let rows: Vec<Row> = stored_rows(&run.store(), &["path", "fileid", "read_requests"]);
    let [mut named, mut nameless, mut others] = [0, 0, 0];
    // Files that were only looked up may have no name.
    for row in rows.iter().filter(|row| row.read_requests > 0) {
        match row.path.as_deref() {
            Some(OTHERS) => others += row.read_requests,
            None => nameless += row.read_requests,
            path => {
                assert_eq!(path, names.get(&row.fileid).copied(), "{row:?}");
                named += row.read_requests;
            }
        }
    }
    assert_eq!(named + nameless + others, read);
    // Directories have names and rows as well.
    let directories = count / 1000 + 10;
    assert!(nameless <= directories, "{nameless} without a name");
    let rows = named + nameless;
    assert!(
        (MOST_ROWS - directories..=MOST_ROWS).contains(&rows),
        "{rows} rows"
    );
    println!(
        "{named} of {read} files by name, {nameless} without one, {others} as others, in {} s",
        run.text("seconds").trim()
    );

    let peak = run.text("peak");
    let peak = peak
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok());
    let peak: u64 = peak.expect("KiB");
    println!("the recorder took {} MiB at most", peak >> 10);
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}
