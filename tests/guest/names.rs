//! Names of files in rows: the name at that time.

mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::run::{Run, lines, long, stored_rows};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let files = if long() { "10000" } else { "500" };
    let names = crate::run::scripts().join("names.py");
    let names = names.to_str().expect("a path of this repository");
    let flags = ["--timeout", "900", "--add", names];
    Run::on(&crate::run::kernel(), "names", &flags, &[files])
});

/// The workload's record of a file.
#[derive(Debug, Deserialize)]
struct Listed {
    case: String,
    fileid: u64,
    names: Vec<Name>,
}

#[derive(Debug, Deserialize)]
struct Name {
    path: Option<String>,
    reads: Vec<Made>,
    writes: Vec<Made>,
}

/// Time bounds of a request, UTC in ms.
type Made = (i64, i64);

/// The recorded row of a file in a window.
#[derive(Debug, Deserialize)]
struct Row {
    time: i64,
    path: Option<String>,
    path_inferred: Option<bool>,
    file_key: i64,
    fileid: u64,
    write_requests: u64,
    /// 0 if calls are not counted.
    app_write_calls: u64,
}

static LIST: LazyLock<Vec<Listed>> = LazyLock::new(|| lines(&RUN.text("list")));
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(&RUN.store()));

fn rows(store: &Path) -> Vec<Row> {
    let columns = [
        "time",
        "path",
        "path_inferred",
        "file_key",
        "fileid",
        "write_requests",
        "app_write_calls",
    ];
    stored_rows(store, &columns)
}

fn of_case(case: &str) -> Vec<&'static Listed> {
    let listed: Vec<_> = LIST.iter().filter(|listed| listed.case == case).collect();
    assert!(!listed.is_empty(), "{case} was done");
    listed
}

/// The rows of a file with WRITE requests, in order.
fn rows_of(fileid: u64) -> Vec<&'static Row> {
    let mut own: Vec<_> = ROWS
        .iter()
        .filter(|row| row.fileid == fileid && row.write_requests > 0)
        .collect();
    own.sort_by_key(|row| row.time);
    own
}

/// Checks that every name of the file has its number of requests, in the right windows.
fn assert_named(listed: &Listed) {
    let own = rows_of(listed.fileid);
    let names: BTreeSet<_> = listed.names.iter().map(|name| &name.path).collect();
    for row in &own {
        assert!(names.contains(&row.path), "{listed:?} is called {row:?}");
        assert_eq!(
            row.path_inferred,
            row.path.as_ref().map(|_| false),
            "{row:?}"
        );
    }
    for name in &listed.names {
        let named = || own.iter().filter(|row| row.path == name.path);
        let requests: u64 = named().map(|row| row.write_requests).sum();
        assert_eq!(requests, name.writes.len() as u64, "{listed:?}: {own:?}");
        let (Some((first, _)), Some((_, last))) = (name.writes.first(), name.writes.last()) else {
            continue;
        };
        for row in named() {
            let is_in_time = row.time + 1000 > *first && row.time <= *last;
            assert!(is_in_time, "{listed:?}: {row:?}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_row_of_many_files_that_are_closed_at_once_is_named_right() {
    let listed = of_case("nested");
    println!("{} files", listed.len());
    listed.into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_any_bytes_and_any_depth_are_a_name() {
    of_case("odd").into_iter().for_each(assert_named);
    let deep = of_case("deep");
    let path = deep[0].names[0].path.as_deref().expect("a path");
    assert!(path.len() > 33 * 255, "{} bytes", path.len());
    deep.into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_renamed_file_has_its_old_name_before_and_its_new_name_after() {
    of_case("renamed_file").into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_is_in_a_renamed_directory_is_renamed_and_nothing_beside_it() {
    let listed = of_case("renamed_directory");
    assert_eq!(listed.len(), 4);
    listed.into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_file_that_others_renamed_is_named_anew_within_seconds() {
    let listed = of_case("renamed_there");
    let [file] = listed[..] else {
        panic!("{listed:?}")
    };
    let own = rows_of(file.fileid);
    let (first, last) = (own.first().expect("a row"), own.last().expect("a row"));
    assert_eq!(first.path, file.names[0].path);
    assert_eq!(last.path, file.names[1].path);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_an_unlinked_file_keeps_its_name_and_a_linked_one_has_the_one_it_was_opened_by() {
    of_case("unlinked").into_iter().for_each(assert_named);
    of_case("linked").into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_file_that_was_opened_by_its_handle_has_no_name_rather_than_a_wrong_one() {
    of_case("by_handle").into_iter().for_each(assert_named);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_reused_inode_number_is_another_file() {
    let mut names: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for file in of_case("reused") {
        let path = file.names[0].path.as_deref().expect("a path");
        names.entry(file.fileid).or_default().insert(path);
    }
    let (fileid, names) = names
        .into_iter()
        .max_by_key(|(_, names)| names.len())
        .expect("a file");
    assert!(names.len() > 1, "the number {fileid} was used again");
    let own = rows_of(fileid);
    let own = own.iter().filter(|row| {
        row.path
            .as_deref()
            .is_some_and(|path| path.starts_with("/mnt/two/reused-"))
    });
    let recorded: BTreeMap<i64, &str> = own
        .map(|row| (row.file_key, row.path.as_deref().expect("it has one")))
        .collect();
    let recorded_names: BTreeSet<_> = recorded.values().copied().collect();
    assert_eq!(recorded_names, names);
    assert_eq!(recorded.len(), names.len(), "each is a file of its own");
}

/// Requests and calls by path.
#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_files_that_live_for_moments_have_their_own_requests_and_calls() {
    let files = of_case("short_lived");
    let fileids: BTreeSet<_> = files.iter().map(|file| file.fileid).collect();
    assert!(fileids.len() < files.len() / 2, "numbers are used again");
    let mut recorded: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for row in ROWS.iter() {
        if let Some(path) = &row.path {
            let [requests, calls] = recorded.entry(path).or_default();
            *requests += row.write_requests;
            *calls += row.app_write_calls;
        }
    }
    let counts_calls = RUN
        .text("doctor")
        .contains("; counts calls of applications");
    for name in files.iter().map(|file| &file.names[0]) {
        let path = name.path.as_deref().expect("a path");
        let made = name.writes.len() as u64;
        let calls = if counts_calls { made } else { 0 };
        assert_eq!(recorded.get(path), Some(&[made, calls]), "{path}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_the_tracepoint_engine_finds_out_is_marked_as_inferred() {
    let rows = rows(&RUN.out.join("tracepoint"));
    let listed: Vec<Listed> = lines(&RUN.text("list.tracepoint"));
    let names: BTreeMap<_, _> = listed
        .iter()
        .map(|file| (file.fileid, &file.names[0].path))
        .collect();
    let (mut named, mut held) = (0, 0);
    for row in &rows {
        assert_eq!(
            row.path_inferred,
            row.path.as_ref().map(|_| true),
            "{row:?}"
        );
        if row.path.is_some() {
            assert_eq!(
                Some(&&row.path),
                names.get(&row.fileid),
                "no name rather than a wrong one"
            );
            named += 1;
        }
        held += 1;
    }
    println!("{named} of {held} rows named");
    // Before Linux 5.14, the kernel does not reveal the file of a descriptor.
    assert_eq!(named > 0, RUN.text("fdinfo").contains("ino:"));
}
