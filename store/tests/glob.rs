//! A glob over the store's `*.parquet`, which does not know the catalog, never counts a row twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Dataset, Options, Repaired, RetentionPolicy, Snapshot, StoreError, Writer, check,
    rebuild_catalog, repair,
};
use trackiops_testkit::content::{Content, assert_at_most, globbed, of, rows};
use trackiops_testkit::stores::{copy, journals, options, parquet_files};
use trackiops_testkit::windows::{T0, granularity, windows};

/// Segments are merged all the time, and merged segments are not deleted while the recorder runs.
fn merging() -> Options {
    Options {
        granularities: "1s,10s".parse().unwrap(),
        rotate: granularity("2s"),
        keep: RetentionPolicy {
            now: || UtcMs(T0),
            ..RetentionPolicy::default()
        },
        ..options("h")
    }
}

/// Records four journals, which are merged at the finest granularity, and a window of a fifth journal.
fn record(store: &Path) -> Writer {
    let mut writer = Writer::open(store, merging()).unwrap();
    for window in windows(9) {
        writer.append(&window).unwrap();
    }
    wait(|| ending(store, ".removed").len() == 8 && ending(store, ".tmp").is_empty());
    writer
}

fn wait(until: impl Fn() -> bool) {
    let begun = Instant::now();
    while !until() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happens");
        thread::sleep(Duration::from_millis(10));
    }
}

/// All files of segments with this suffix.
fn ending(store: &Path, suffix: &str) -> Vec<String> {
    let mut files = parquet_files(store);
    files.retain(|file| file.ends_with(suffix));
    files
}

/// A glob matches what the catalog lists, and there are no other files.
fn assert_settled(store: &Path, when: &str) {
    let snapshot = Snapshot::open(store).unwrap();
    for granularity in ["1s", "10s"].map(granularity) {
        let sealed = Content::sealed(&snapshot, granularity).unwrap();
        let seen = globbed(store, granularity).unwrap();
        assert!(seen == sealed, "{when}: {granularity}");
    }
    assert_eq!(ending(store, ".removed"), [""; 0], "{when}");
    assert_eq!(ending(store, ".tmp"), [""; 0], "{when}");
    let report = check(store).unwrap();
    assert_eq!((report.findings, report.waiting), (vec![], 0), "{when}");
}

#[test]
fn a_glob_beside_a_merging_recorder_sees_no_row_twice() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(40);
    let appended = AtomicUsize::new(0);
    let mut writer = Writer::open(dir.path(), merging()).unwrap();
    let (mut looks, mut merged) = (0, 0);
    thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            for (i, window) in all.iter().enumerate() {
                writer.append(window).unwrap();
                appended.store(i + 1, Ordering::SeqCst);
                // Waits for one journal at a time, so that each time there is something to merge.
                wait(|| journals(dir.path()).len() <= 1);
            }
            writer.finish().unwrap();
        });
        while !recorder.is_finished() {
            for granularity in ["1s", "10s"].map(granularity) {
                let seen = globbed(dir.path(), granularity);
                // A window being sealed was appended before.
                let recorded = (appended.load(Ordering::SeqCst) + 1).min(all.len());
                let recorded = Content::of(&all[..recorded], granularity);
                if let Some(seen) = seen {
                    assert_at_most(&seen, &recorded, "while it merges");
                    looks += 1;
                }
            }
            merged = merged.max(ending(dir.path(), ".removed").len());
        }
    });
    assert!(looks > 10 && merged > 50, "{looks} looks, {merged} merged");
    for granularity in ["1s", "10s"].map(granularity) {
        let seen = globbed(dir.path(), granularity).unwrap();
        assert!(seen == Content::of(&all, granularity), "{granularity}");
    }
    assert_settled(dir.path(), "after a clean stop");
}

#[test]
fn readers_with_an_old_plan_find_what_was_merged_until_the_recorder_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), merging()).unwrap();
    let all = windows(41);
    for window in &all[..5] {
        writer.append(window).unwrap();
    }
    let planned = || {
        let snapshot = Snapshot::open(dir.path()).unwrap();
        of(&snapshot, Dataset::Rollup, granularity("1s"))
    };
    wait(|| planned().len() == 2);
    let planned = planned();
    for window in &all[5..] {
        writer.append(window).unwrap();
    }
    wait(|| !planned.iter().any(|segment| segment.path.exists()));
    for segment in &planned {
        assert_eq!(rows(segment).len() as u64, segment.rows);
    }
    let report = check(dir.path()).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.waiting > 0 && report.waiting_bytes > 0, "{report:?}");
    writer.finish().unwrap();
    let vanished = planned[0].open().unwrap_err();
    assert_eq!(vanished.kind(), std::io::ErrorKind::NotFound);
    assert_settled(dir.path(), "after a clean stop");
}

/// An interrupted merge: the catalog lists the merged segment, and only some files have their new names.
struct Interrupted {
    dir: TempDir,
    all: Content,
}

/// A store whose recorder was killed right after a merge.
fn killed() -> TempDir {
    let (recorded, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _writer = record(recorded.path());
    copy(recorded.path(), dir.path());
    dir
}

impl Interrupted {
    /// Undoes the last renames of a merge of one dataset: of its output, then of its inputs.
    fn after(hidden: usize, recorded: &TempDir) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(recorded.path(), dir.path());
        let store = dir.path();
        let merged = |path: &PathBuf| path.to_str().unwrap().ends_with("-1-4.parquet");
        let date = store.join("rollup/granularity=1s/date=2026-11-21");
        let files = fs::read_dir(date).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.collect();
        files.sort();
        let output = files.iter().find(|path| merged(path)).unwrap();
        let name = output.file_name().unwrap().to_str().unwrap();
        fs::rename(output, output.with_file_name(format!(".{name}.tmp"))).unwrap();
        let inputs = files
            .iter()
            .filter(|path| path.extension().unwrap() == "removed");
        let inputs: Vec<_> = inputs.collect();
        assert_eq!(inputs.len(), 4, "{files:?}");
        for input in &inputs[hidden..] {
            let name = input.file_stem().unwrap().to_str().unwrap();
            fs::rename(input, input.with_file_name(&name[1..])).unwrap();
        }
        Self {
            dir,
            all: Content::of(&windows(9), granularity("1s")),
        }
    }

    fn store(&self) -> &Path {
        self.dir.path()
    }

    fn assert_exact(&self, when: &str) {
        let seen = Content::stored(self.store(), granularity("1s"));
        assert!(seen == self.all, "{when}");
        if let Some(seen) = globbed(self.store(), granularity("1s")) {
            assert_at_most(&seen, &self.all, when);
        }
    }
}

#[test]
fn a_merge_that_was_interrupted_is_read_exactly_reported_and_finished() {
    let recorded = killed();
    for hidden in 0..=4 {
        let when = format!("{hidden} hidden");
        let store = Interrupted::after(hidden, &recorded);
        store.assert_exact(&when);
        let findings = check(store.store()).unwrap().findings;
        // Inputs that a glob still matches, and the output that it does not match yet.
        assert_eq!(findings.len(), 4 - hidden + 1, "{when}: {findings:#?}");
        let repair_says = |f: &&str| f.contains("store check --repair");
        assert!(findings.iter().map(|f| f.next).filter(repair_says).count() == findings.len());
        let repaired = repair(store.store()).unwrap();
        let expected = (4 - hidden as u64, 1);
        assert_eq!((repaired.hidden, repaired.shown), expected, "{when}");
        assert!(repaired.deleted >= 4, "{when}: {repaired:?}");
        store.assert_exact(&when);
        assert_settled(store.store(), &when);
        assert_eq!(repair(store.store()).unwrap(), Repaired::default());
        assert_settled(store.store(), &when);
    }
}

#[test]
fn the_next_recorder_finishes_a_merge_that_was_interrupted() {
    let recorded = killed();
    for hidden in [0, 2, 4] {
        let when = format!("{hidden} hidden");
        let store = Interrupted::after(hidden, &recorded);
        let writer = Writer::open(store.store(), merging()).unwrap();
        writer.finish().unwrap();
        store.assert_exact(&when);
        assert_settled(store.store(), &when);
    }
}

#[test]
fn a_catalog_is_rebuilt_from_a_merge_that_was_interrupted() {
    let recorded = killed();
    for hidden in 0..=4 {
        let when = format!("{hidden} hidden");
        let store = Interrupted::after(hidden, &recorded);
        fs::remove_file(store.store().join("catalog.db")).unwrap();
        let rebuilt = rebuild_catalog(store.store()).unwrap();
        assert_eq!(rebuilt.left_out, [], "{when}");
        store.assert_exact(&when);
        assert_settled(store.store(), &when);
        let snapshot = Snapshot::open(store.store()).unwrap();
        let names = of(&snapshot, Dataset::Rollup, granularity("1s")).into_iter();
        let journals: Vec<_> = names.map(|s| (s.journal, s.last_journal)).collect();
        assert_eq!(journals, [(1, 1), (2, 2), (3, 3), (4, 4)], "{when}");
    }
}

#[test]
fn nothing_is_repaired_while_somebody_records_or_by_a_damaged_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let writer = record(dir.path());
    let before = parquet_files(dir.path());
    let refused = repair(dir.path()).expect_err("it is locked");
    assert!(matches!(refused, StoreError::Locked(_)), "{refused}");
    assert_eq!(parquet_files(dir.path()), before);
    let store = Interrupted::after(2, &killed());
    drop(writer);
    let catalog = rusqlite::Connection::open(store.store().join("catalog.db")).unwrap();
    let change = "UPDATE removed SET path = (SELECT path FROM segment LIMIT 1) WHERE path = (SELECT max(path) FROM removed)";
    catalog.execute_batch(change).unwrap();
    drop(catalog);
    let before = parquet_files(store.store());
    let refused = repair(store.store()).expect_err("it would delete what counts");
    assert!(refused.to_string().contains("rebuild-catalog"), "{refused}");
    assert_eq!(parquet_files(store.store()), before);
    let missing = repair(&dir.path().join("missing"));
    assert!(matches!(missing, Err(StoreError::Missing(_))));
}

#[test]
fn what_has_expired_is_hidden_until_the_recorder_ends() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(25);
    let options = Options {
        rotate: granularity("10s"),
        keep: RetentionPolicy {
            retention: "1s=30s,10s=forever".parse().unwrap(),
            gaps_age: true,
            now: || UtcMs(T0 + 45_000),
            ..RetentionPolicy::default()
        },
        ..merging()
    };
    let mut writer = Writer::open(dir.path(), options).unwrap();
    for window in &all {
        writer.append(window).unwrap();
    }
    wait(|| !ending(dir.path(), ".removed").is_empty());
    writer.finish().unwrap();
    assert_settled(dir.path(), "after a clean stop");
    let ten = granularity("10s");
    assert!(globbed(dir.path(), ten).unwrap() == Content::of(&all, ten));
    let fine = globbed(dir.path(), granularity("1s")).unwrap();
    let first = fine.health.keys().next().unwrap();
    assert_eq!(*first, UtcMs(T0 + 10_000));
}
