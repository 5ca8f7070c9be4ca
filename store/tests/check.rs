//! The findings of `check`, and that intact stores have none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Dataset, Finding, Report, Snapshot, Warning, Writer, check, rebuild_catalog,
};
use trackiops_testkit::content::of;
use trackiops_testkit::forge;
use trackiops_testkit::stores::{complete, options, recovered, seal_catalog};
use trackiops_testkit::windows::{T0, granularity, windows};

/// Two sealed journals of 900 s, and an unsealed one of 20 s.
fn recorded(store: &Path) {
    let mut options = options("h");
    options.rotate = granularity("10s");
    let mut writer = Writer::open(store, options).unwrap();
    for window in windows(25) {
        writer.append(&window).unwrap();
    }
}

fn clean(store: &Path) -> Report {
    let report = check(store).unwrap();
    assert_eq!(report.findings, []);
    report
}

/// The only finding.
fn only(store: &Path) -> Finding {
    let mut found = check(store).unwrap().findings;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// The second finest segment of rollups.
fn a_segment(store: &Path) -> PathBuf {
    let snapshot = Snapshot::open(store).unwrap();
    of(&snapshot, Dataset::Rollup, granularity("1s"))[1]
        .path
        .clone()
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 0x10;
    file.write_all_at(&byte, at).unwrap();
}

/// Changes the catalog without updating its digests.
fn change(store: &Path, sql: &str) {
    let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
    catalog.execute_batch(sql).unwrap();
}

fn seconds(from: i64, to: i64) -> (UtcMs, UtcMs) {
    (UtcMs(T0 + from * 1000), UtcMs(T0 + to * 1000))
}

#[test]
fn a_store_is_clean_while_it_is_recorded_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    clean(dir.path());
    for window in windows(3) {
        writer.append(&window).unwrap();
        assert_eq!(clean(dir.path()).journals, 1);
    }
    writer.finish().unwrap();
    let report = clean(dir.path());
    assert_eq!((report.journals, report.segments), (0, 8));
    assert_eq!(report.rows, 6 + 3 + 9);
}

#[test]
fn a_damaged_segment_is_told_with_its_time_and_its_files() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    clean(dir.path());
    let segment = a_segment(dir.path());
    flip(&segment, 400);
    let found = only(dir.path());
    assert_eq!(found.path, segment);
    let covers = found.covers.unwrap();
    assert_eq!((covers.start, covers.end), seconds(10, 20));
    assert_eq!(covers.files, 2);
    assert_eq!(covers.names.len(), 2);
    assert!(found.why.contains("checksum"), "{}", found.why);
}

#[test]
fn segments_that_are_missing_short_or_unknown_are_told() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let segment = a_segment(dir.path());
    let content = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    let found = only(dir.path());
    assert!(found.why.contains("missing"), "{}", found.why);
    let next = found.next;
    let helps = next.contains("restore") && !next.contains("move");
    assert!(helps, "there is nothing to move: {next}");
    assert_eq!(found.covers.unwrap().files, 2);
    fs::write(&segment, &content[..content.len() / 2]).unwrap();
    assert!(only(dir.path()).why.contains("bytes"));
    fs::write(&segment, &content).unwrap();
    let stray = segment.with_file_name("h-20261121T000000Z-0.parquet");
    fs::copy(&segment, &stray).unwrap();
    let found = only(dir.path());
    assert_eq!(found.path, stray);
    flip(&stray, 400);
    let found = only(dir.path());
    assert!(found.why.contains("catalog does not know it"), "{found:?}");
    let is_whole = |next: &str| {
        let [effect, steps] = ["answers do not have its rows", "rebuild-catalog"];
        next.contains(effect) && next.contains(steps) && next.contains("out of the store")
    };
    assert!(is_whole(found.next), "{}", found.next);
    fs::remove_file(&stray).unwrap();
    clean(dir.path());
}

#[test]
fn a_catalog_that_says_something_else_is_told() {
    for sql in [
        "UPDATE segment SET start_ms = start_ms - 1000 WHERE id = 3",
        "DELETE FROM segment WHERE id = 3",
        "UPDATE file_name SET path = '/mnt/c' WHERE path = '/mnt/a'",
        "DELETE FROM file_name",
        "UPDATE sealed_journal SET end_ms = end_ms + 1 WHERE journal = 1",
        "CREATE VIEW v AS SELECT * FROM segment",
    ] {
        let dir = tempfile::tempdir().unwrap();
        recorded(dir.path());
        change(dir.path(), sql);
        let found = only(dir.path());
        assert!(found.why.contains("checksum"), "{sql}: {found:?}");
        assert!(found.next.contains("rebuild-catalog"), "{sql}");
        let refused = Snapshot::open(dir.path()).expect_err(sql);
        assert!(refused.to_string().contains("rebuild-catalog"), "{refused}");
        // An attacker can update the checksum, but still cannot run SQL statements.
        if sql.contains("VIEW") {
            seal_catalog(dir.path());
            let found = only(dir.path());
            assert!(found.why.contains("CREATE VIEW v"), "{found:?}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    fs::write(dir.path().join("catalog.db"), "no database").unwrap();
    let found = check(dir.path()).unwrap().findings;
    assert!(found[0].next.contains("rebuild-catalog"), "{found:#?}");
}

#[test]
fn a_damaged_journal_is_told_with_the_windows_around_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let journal = dir.path().join("journal/1.tij");
    let mut ends = Vec::new();
    for window in windows(5) {
        writer.append(&window).unwrap();
        ends.push(fs::metadata(&journal).unwrap().len());
    }
    drop(writer);
    clean(dir.path());
    flip(&journal, ends[1] + 20);
    let found = only(dir.path());
    let covers = found.covers.unwrap();
    assert_eq!((covers.start, covers.end), seconds(2, 3));
    assert_eq!(covers.files, 2);
    // Recording continues, and all data is kept, even the damaged journal.
    let told = complete(dir.path(), options("h"));
    let quarantined = only(dir.path());
    assert_eq!(quarantined.path, dir.path().join("journal/1.tij.damaged"));
    assert_eq!(
        told,
        [
            recovered(4, 0),
            Warning::Quarantined(quarantined.path.clone())
        ]
    );
    fs::remove_file(quarantined.path).unwrap();
    clean(dir.path());
}

#[test]
fn a_journal_whose_first_window_is_damaged_is_told_with_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let journal = dir.path().join("journal/1.tij");
    let all = windows(3);
    writer.append(&all[0]).unwrap();
    let end = fs::metadata(&journal).unwrap().len();
    all[1..]
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    drop(writer);
    flip(&journal, end - 10);
    let covers = only(dir.path()).covers.unwrap();
    assert_eq!((covers.start, covers.end), seconds(0, 1));
}

#[test]
fn fine_and_coarse_that_disagree_are_told() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    // A segment of another store, with other rows in the same windows, is intact by itself.
    let other = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("10s");
    let mut writer = Writer::open(other.path(), options).unwrap();
    for mut window in windows(25) {
        window
            .rows
            .iter_mut()
            .for_each(|row| row.row.read.bytes = 7);
        writer.append(&window).unwrap();
    }
    drop(writer);
    let segment = a_segment(dir.path());
    let relative = segment.strip_prefix(dir.path()).unwrap();
    fs::copy(other.path().join(relative), &segment).unwrap();
    let found = only(dir.path());
    assert!(found.why.contains("the catalog says"), "{}", found.why);
    let bytes = fs::read(&segment).unwrap();
    let (length, crc32c) = (bytes.len(), forge::crc32c_of(&bytes));
    let name = relative.to_str().unwrap();
    change(
        dir.path(),
        &format!("UPDATE segment SET bytes = {length}, crc32c = {crc32c} WHERE path = '{name}'"),
    );
    seal_catalog(dir.path());
    let sums = only(dir.path());
    assert!(
        sums.why
            .contains("1 windows of 10s are not the sums of those of 1s")
    );
    let covers = sums.covers.clone().unwrap();
    assert_eq!((covers.start, covers.end), seconds(10, 20));
}

#[test]
fn a_schema_that_is_not_a_catalogs_is_told() {
    for (from, to) in [("last_journal", "last_jour~al"), ("NOT NULL", "NOT NUML")] {
        let dir = tempfile::tempdir().unwrap();
        recorded(dir.path());
        change(
            dir.path(),
            &format!(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(sql, '{from}', '\"{to}\"') WHERE name = 'segment';
                 PRAGMA writable_schema = OFF;"
            ),
        );
        let found = check(dir.path()).unwrap().findings;
        let catalog = dir.path().join("catalog.db");
        assert!(
            found.iter().any(|found| found.path == catalog),
            "{to}: {found:#?}"
        );
    }
}

#[test]
fn a_journal_whose_version_is_damaged_keeps_nobody_from_the_rest() {
    for journal in ["3.tij", "requests-1.tij"] {
        let dir = tempfile::tempdir().unwrap();
        recorded(dir.path());
        let path = dir.path().join("journal").join(journal);
        if journal.starts_with("requests") {
            fs::copy(dir.path().join("journal/3.tij"), &path).unwrap();
        }
        flip(&path, 5);
        let found = only(dir.path());
        assert_eq!(found.path, path);
        assert!(found.why.contains("checksum"), "{}", found.why);
        assert!(Snapshot::open(dir.path()).is_ok());
        let writer = Writer::open(dir.path(), options("h")).unwrap();
        writer.requests(1 << 30, |_| {}).unwrap().finish().unwrap();
        writer.finish().unwrap();
        let set_aside = only(dir.path());
        assert_eq!(set_aside.path.with_extension(""), path);
        let (why, next) = (set_aside.why, set_aside.next);
        assert!(why.contains("damaged when it was sealed"), "{why}");
        for part in [
            "the rest is lost",
            "answers of its time",
            "move it out of the store",
        ] {
            assert!(next.contains(part), "{next}");
        }
    }
}

#[test]
fn what_cannot_be_read_at_all_keeps_nobody_from_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let segment = a_segment(dir.path());
    let before = clean(dir.path()).segments;
    fs::remove_file(&segment).unwrap();
    // A link to itself cannot be opened, not even by root.
    std::os::unix::fs::symlink(&segment, &segment).unwrap();
    let found = only(dir.path());
    assert_eq!(found.path, segment);
    assert!(found.why.contains("cannot be read"), "{}", found.why);
    assert!(check(dir.path()).unwrap().segments >= before - 1);
    let rebuilt = rebuild_catalog(dir.path()).unwrap();
    assert_eq!(rebuilt.left_out.len(), 1);
    assert_eq!(rebuilt.left_out[0].0, segment);
}

#[test]
fn without_a_catalog_segments_are_still_checked() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let segment = a_segment(dir.path());
    flip(&segment, 400);
    fs::remove_file(dir.path().join("catalog.db")).unwrap();
    let found = check(dir.path()).unwrap().findings;
    let paths: Vec<_> = found.iter().map(|found| &found.path).collect();
    assert_eq!(paths, [&dir.path().join("catalog.db"), &segment]);
    let refused = Snapshot::open(dir.path()).expect_err("it has no catalog");
    assert!(
        refused.to_string().contains("store rebuild-catalog"),
        "{refused}"
    );
}
