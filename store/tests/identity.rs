//! A store recognises its own files by an id, even after it was copied.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use regex::Regex;
use tempfile::TempDir;
use trackiops_schemas::columns::{FORMAT_VERSION, META_STORE};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{
    RequestsView, Snapshot, StoreIds, Writer, check, rebuild_catalog, store_ids,
};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{copy, journals, options, parquet_files};
use trackiops_testkit::windows::{file, granularity, windows};

const FOREIGN: &str = "another store, or of a copy";

/// How parquet-java parses `created_by` (`VersionParser.FORMAT`). It ignores some statistics of other files.
const PARQUET_JAVA: &str = r"^(.*?)\s+version\s*(?:([^(]*?)\s*(?:\(\s*build\s*([^)]*?)\s*\))?)?$";

/// The ids that a store has had.
fn ids(store: &Path) -> Vec<String> {
    let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
    let mut select = catalog
        .prepare("SELECT id FROM store ORDER BY generation")
        .unwrap();
    let ids = select.query_map([], |row| row.get(0)).unwrap();
    ids.collect::<rusqlite::Result<_>>().unwrap()
}

/// What the metadata of a segment say.
struct Described {
    path: String,
    /// The store that it was written in, and the one before that.
    store: String,
    created_by: String,
}

impl Described {
    fn is_merged(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap();
        name.split('-').count() > 3
    }
}

/// All segments of a store, of requests as well.
fn segments(store: &Path) -> Vec<Described> {
    let describe = |path: String| {
        let file = File::open(store.join(&path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let metadata = reader.metadata().file_metadata();
        let mut pairs = metadata.key_value_metadata().unwrap().iter();
        let store = pairs.find(|pair| pair.key == META_STORE).unwrap();
        Described {
            path,
            store: store.value.clone().unwrap(),
            created_by: metadata.created_by().unwrap().to_owned(),
        }
    };
    parquet_files(store).into_iter().map(describe).collect()
}

/// The ids that a store has had, as [`store_ids`] returns them.
fn known(ids: &StoreIds) -> Vec<String> {
    let all = ids.former.iter().chain([&ids.id]);
    all.map(ToString::to_string).collect()
}

/// Appends windows, and a request for each.
fn append(store: &Path, windows: &[ClosedWindow], finish: bool) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for window in windows {
        writer.append(window).unwrap();
        let batch = RequestBatch {
            files: vec![file(1, 49, Some("/mnt/a"))],
            requests: vec![Request::new(
                &RequestRecord::default(),
                window.start.0 * 1_000_000,
                0,
            )],
        };
        requests.append(&batch).unwrap();
    }
    if finish {
        requests.finish().unwrap();
        writer.finish().unwrap();
    }
}

fn store_of(windows: &[ClosedWindow], finish: bool) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    append(dir.path(), windows, finish);
    dir
}

fn requests(store: &Path) -> u64 {
    let (mut rows, mut view) = (0, RequestsView::open(store).unwrap());
    view.read(0..i64::MAX, &mut |batch| {
        rows += batch.num_rows() as u64;
        Ok(true)
    })
    .unwrap();
    rows
}

/// Asserts that a store has these windows with a request each.
fn has(store: &Path, windows: &[ClosedWindow]) {
    let second = granularity("1s");
    assert!(Content::stored(store, second) == Content::of(windows, second));
    assert_eq!(requests(store), windows.len() as u64);
}

fn is_clean(store: &Path) {
    assert_eq!(Snapshot::open(store).unwrap().unread(), []);
    assert_eq!(RequestsView::open(store).unwrap().unread(), []);
    assert_eq!(check(store).unwrap().findings, []);
}

/// The files that a check attributes to another store.
fn foreign(store: &Path) -> Vec<PathBuf> {
    let findings = check(store).unwrap().findings.into_iter();
    let findings = findings.filter(|finding| finding.why.contains(FOREIGN));
    findings.map(|finding| finding.path).collect()
}

/// Puts files of one store into another.
fn put(from: &Path, to: &Path, names: &[String]) -> Vec<PathBuf> {
    let put = |name: &String| {
        let target = to.join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(name), &target).unwrap();
        target
    };
    names.iter().map(put).collect()
}

#[test]
fn journals_of_another_store_are_noticed_and_do_not_count() {
    let all = windows(30);
    let own = store_of(&all[..10], false);
    append(own.path(), &all[10..20], true);
    let other = store_of(&[], true);
    for part in all[..30].chunks(10) {
        append(other.path(), part, false);
    }
    let names = ["3.tij", "3.end", "requests-3.tij", "requests-3.end"];
    let put = put(
        other.path(),
        own.path(),
        &names.map(|name| format!("journal/{name}")),
    );
    let noted = Snapshot::open(own.path()).unwrap().unread().to_vec();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert!(noted[0].why.contains(FOREIGN), "{noted:?}");
    let noted = RequestsView::open(own.path()).unwrap().unread().to_vec();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(foreign(own.path()), [put[0].clone(), put[2].clone()]);
    has(own.path(), &all[..20]);
    append(own.path(), &[], true);
    has(own.path(), &all[..20]);
    assert_eq!(
        journals(own.path()),
        ["3.tij.damaged", "requests-3.tij.damaged"]
    );
}

#[test]
fn segments_of_another_store_are_noticed_and_never_taken_in() {
    let all = windows(40);
    let own = store_of(&all[..20], true);
    let other = store_of(&[], true);
    for part in all[10..].chunks(10) {
        append(other.path(), part, true);
    }
    let mut files = parquet_files(other.path());
    files.retain(|name| !own.path().join(name).exists());
    let put = put(other.path(), own.path(), &files);
    assert!(!put.is_empty());
    let noted = Snapshot::open(own.path()).unwrap().unread().to_vec();
    assert!(noted.iter().any(|of| of.why.contains(FOREIGN)), "{noted:?}");
    let noted = RequestsView::open(own.path()).unwrap().unread().to_vec();
    assert!(noted.iter().any(|of| of.why.contains(FOREIGN)), "{noted:?}");
    assert_eq!(foreign(own.path()).len(), put.len());
    for catalog in [true, false] {
        if !catalog {
            // Most segments belong to the store itself.
            for path in &put[2..] {
                fs::remove_file(path).unwrap();
            }
            fs::remove_file(own.path().join("catalog.db")).unwrap();
        }
        let rebuilt = rebuild_catalog(own.path()).unwrap();
        let left_out = rebuilt.left_out.into_iter().map(|(path, _)| path);
        let left_out: BTreeSet<_> = left_out.collect();
        let there = put.iter().filter(|path| path.exists()).cloned();
        assert_eq!(left_out, there.collect());
        assert!(rebuilt.lost.is_empty());
        has(own.path(), &all[..20]);
    }
}

#[test]
fn a_store_keeps_its_id_and_every_segment_has_it() {
    let all = windows(60);
    let own = store_of(&all[..10], true);
    let id = ids(own.path());
    assert_eq!(id.len(), 1);
    for part in all[10..].chunks(10) {
        append(own.path(), part, true);
    }
    let has_merged = (0..50).any(|_| {
        append(own.path(), &[], true);
        segments(own.path()).iter().any(Described::is_merged)
    });
    let segments = segments(own.path());
    let of_requests = |of: &Described| of.path.starts_with("requests/");
    assert!(has_merged && segments.iter().any(of_requests));
    for Described { path, store, .. } in &segments {
        assert_eq!(*store, id[0], "{path}");
    }
    let read = store_ids(own.path()).unwrap();
    assert_eq!((known(&read), read.is_copy), (id.clone(), false));
    assert_eq!(check(own.path()).unwrap().ids, Some(read));
    assert_eq!(ids(own.path()), id);
    let other = store_of(&all[..10], true);
    assert_ne!(ids(other.path()), id);
}

#[test]
fn parquet_java_knows_who_wrote_a_segment() {
    // Without tables of Unicode.
    let expression = PARQUET_JAVA.replace(r"\s", r"(?-u:\s)");
    let expression = Regex::new(&expression).unwrap();
    let build = format!("format-{FORMAT_VERSION}");
    let own = store_of(&windows(10), true);
    for Described { created_by, .. } in segments(own.path()) {
        let parts = expression.captures(&created_by).unwrap();
        let parts = [1, 2, 3].map(|part| &parts[part]);
        let expected = ["trackiops", env!("CARGO_PKG_VERSION"), &*build];
        assert_eq!(parts, expected, "{created_by}");
    }
}

#[test]
fn a_copy_takes_a_new_id_when_it_is_written_to_and_its_original_keeps_its_own() {
    let all = windows(30);
    let own = store_of(&all[..10], true);
    append(own.path(), &all[10..20], true);
    let before = ids(own.path());
    assert_eq!(before.len(), 1);
    let copies = tempfile::tempdir().unwrap();
    let [plain, made, restored] = ["plain", "made", "own"].map(|name| copies.path().join(name));
    copy(own.path(), &plain);
    trackiops_store::copy(own.path(), &made).unwrap();
    // A backup restored in place.
    append(&restored, &[], true);
    fs::remove_file(restored.join("catalog.db")).unwrap();
    copy(own.path(), &restored);
    append(own.path(), &all[20..], false);
    for store in [&plain, &made, &restored] {
        is_clean(store);
        assert_eq!(ids(store), before);
        let read = store_ids(store).unwrap();
        assert_eq!((known(&read), read.is_copy), (before.clone(), true));
        append(store, &[], true);
        let after = ids(store);
        assert_eq!((after.len(), &after[..1]), (2, &before[..]));
        // After this write it is not a copy any more.
        append(store, &all[20..], true);
        assert_eq!(ids(store), after);
        let read = store_ids(store).unwrap();
        assert_eq!((known(&read), read.is_copy), (after.clone(), false));
        let new = format!("{}<{}", after[1], after[0]);
        let of: BTreeSet<_> = segments(store).into_iter().map(|of| of.store).collect();
        assert!(of.contains(&new), "{of:?}");
        assert!(of.iter().all(|of| *of == new || *of == before[0]), "{of:?}");
        is_clean(store);
        has(store, &all);
    }
    assert_eq!(ids(own.path()), before);
    assert!(!store_ids(own.path()).unwrap().is_copy);
    // A rebuilt catalog is not a copy any more.
    fs::remove_dir_all(&plain).unwrap();
    copy(&made, &plain);
    rebuild_catalog(&plain).unwrap();
    assert_eq!(ids(&plain).len(), 3);
    is_clean(&plain);
}

#[test]
fn a_rebuilt_catalog_keeps_the_ids_of_a_store_and_of_its_past() {
    let all = windows(30);
    let own = store_of(&all[..20], true);
    let copies = tempfile::tempdir().unwrap();
    let store = copies.path().join("copy");
    copy(own.path(), &store);
    append(&store, &all[20..], true);
    let before = ids(&store);
    rebuild_catalog(&store).unwrap();
    assert_eq!(ids(&store), before);
    fs::remove_file(store.join("catalog.db")).unwrap();
    rebuild_catalog(&store).unwrap();
    assert_eq!(ids(&store)[..2], before);
    has(&store, &all);
    is_clean(&store);
}

#[test]
fn a_catalog_of_an_earlier_time_goes_on_under_a_new_id() {
    let all = windows(30);
    let own = store_of(&all[..10], true);
    let catalog = own.path().join("catalog.db");
    let backup = tempfile::tempdir().unwrap();
    let older = backup.path().join("catalog.db");
    fs::copy(&catalog, &older).unwrap();
    append(own.path(), &all[10..20], true);
    let before = ids(own.path());
    fs::rename(&older, &catalog).unwrap();
    append(own.path(), &all[20..], true);
    let after = ids(own.path());
    assert_eq!((after.len(), &after[..1]), (2, &before[..]));
    // The segments that the catalog lacks are of the store, and no number was used twice.
    assert_eq!(foreign(own.path()), [""; 0].map(PathBuf::from));
    rebuild_catalog(own.path()).unwrap();
    assert_eq!(ids(own.path()), after);
    has(own.path(), &all);
}

#[test]
fn without_a_catalog_journals_tell_the_ids_as_well() {
    let all = windows(30);
    // Nothing is sealed yet.
    let own = store_of(&all[..10], false);
    let before = ids(own.path());
    fs::remove_file(own.path().join("catalog.db")).unwrap();
    rebuild_catalog(own.path()).unwrap();
    assert_eq!(ids(own.path())[..1], before);
    has(own.path(), &all[..10]);
    append(own.path(), &all[10..20], true);
    has(own.path(), &all[..20]);
    is_clean(own.path());
    // Only a journal has the new id of a copy.
    let copies = tempfile::tempdir().unwrap();
    let store = copies.path().join("copy");
    trackiops_store::copy(own.path(), &store).unwrap();
    append(&store, &all[20..], false);
    let before = ids(&store);
    fs::remove_file(store.join("catalog.db")).unwrap();
    rebuild_catalog(&store).unwrap();
    assert_eq!(ids(&store)[..before.len()], before);
    has(&store, &all);
}
