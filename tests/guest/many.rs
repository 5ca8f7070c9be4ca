//! More files than are followed at a time: all are counted, and memory stays where it was.

use std::collections::HashMap;

use serde::Deserialize;

use crate::run::{Run, long, number, stored_rows, sum};

/// What is recorded of a file that there was no room for.
const OTHERS: &str = "(other)";
/// Files that a window has rows for, at most.
const FOLLOWED: u64 = 65_536;
/// Most memory of a recorder of 200,000 files, KiB.
const MOST_MEMORY_KIB: u64 = 400 << 10;

#[derive(Debug, Deserialize)]
struct Row {
    path: Option<String>,
    fileid: u64,
    read_requests: u64,
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_each_of_very_many_files_is_counted_under_its_name_or_as_other() {
    let count = if long() { 200_000 } else { 2_000 };
    let flags = ["--nfs", "3", "--mem", "3072", "--timeout", "2400"];
    let run = Run::on(&crate::run::kernel(), "many", &flags, &[&count.to_string()]);
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    assert_eq!(truth.reads(), count);
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
    let [mut named, mut others] = [0, 0];
    for row in rows {
        match row.path.as_deref() {
            Some(OTHERS) => others += row.read_requests,
            path => {
                assert_eq!(path, names.get(&row.fileid).copied(), "{row:?}");
                named += row.read_requests;
            }
        }
    }
    assert_eq!(named + others, count);
    println!(
        "{named} of {count} files by name, {others} as others, in {} s",
        run.text("seconds").trim()
    );

    // The same in one window, with more files than it has room for.
    let beside = run.out.join("beside");
    let whole = Run::query_store(&beside, &["--step", "all", "--by", "host"]);
    let found = ["read_requests", "read_bytes"].map(|column| sum(&whole, column));
    assert_eq!(found, [truth.reads(), truth.server_read_bytes], "beside");
    let by_name = Run::query_store(&beside, &["--step", "all", "--by", "dir", "--depth", "1"]);
    let requests = |is_other: bool| -> u64 {
        let own = by_name
            .iter()
            .filter(|row| (row["path"] == OTHERS) == is_other);
        own.map(|row| number(row, "read_requests") as u64).sum()
    };
    let [followed, others] = [false, true].map(requests);
    println!("in windows of an hour {followed} by name, {others} as others");
    assert_eq!(followed + others, count);
    assert_eq!(others > 0, count > 2 * FOLLOWED, "{others} as others");

    let peaks = run.text("peaks");
    let peaks = peaks
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let peaks: Vec<u64> = peaks.map(|kib| kib.parse().expect("KiB")).collect();
    println!(
        "the recorders took {:?} MiB at most",
        peaks.iter().map(|kib| kib >> 10).collect::<Vec<_>>()
    );
    assert!(
        peaks.len() == 2 && peaks.iter().all(|kib| *kib < MOST_MEMORY_KIB),
        "{peaks:?}"
    );
}
