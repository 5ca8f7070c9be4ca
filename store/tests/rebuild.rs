//! A rebuilt catalog has the same content as the old one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::Value;
use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot, StoreError, Writer, check, rebuild_catalog};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{options, parquet_files, seal_catalog};
use trackiops_testkit::windows::{T0, file, granularity, reads, used_by, window, windows};

/// The content of a catalog, without the ids of its rows.
fn said(store: &Path) -> Vec<Vec<Value>> {
    let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
    let mut rows = Vec::new();
    for sql in [
        "SELECT 'host', name FROM host",
        "SELECT 'mount', name FROM mount",
        "SELECT 'period', host.name, dev, mount.name, first_ms, last_ms
         FROM mount_period JOIN host ON host.id = host LEFT JOIN mount ON mount.id = mount",
        "SELECT 'file', file_key, mount.name, dev, fileid, first_ms, last_ms
         FROM file LEFT JOIN mount ON mount.id = mount",
        "SELECT 'name', * FROM file_name",
        "SELECT 'segment', dataset, granularity_ms, host.name, journal, last_journal, start_ms, end_ms, rows, bytes, path, files
         FROM segment JOIN host ON host.id = host",
        "SELECT 'journal', journal, host.name, start_ms, end_ms
         FROM sealed_journal LEFT JOIN host ON host.id = host",
        "SELECT 'removed', path FROM removed",
    ] {
        let mut select = catalog.prepare(sql).unwrap();
        let columns = select.column_count();
        let read = |row: &rusqlite::Row<'_>| (0..columns).map(|i| row.get(i)).collect();
        let mut all: Vec<Vec<Value>> = select
            .query_map([], read)
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        all.sort_by_key(|row| format!("{row:?}"));
        rows.extend(all);
    }
    rows
}

/// Renames, tenants, two devices, a file without a known mount, two hosts.
fn recorded(store: &Path) {
    for (host, from) in [("a-1", 0), ("b-2", 4000)] {
        let mut options = options(host);
        options.rotate = granularity("10s");
        let mut writer = Writer::open(store, options).unwrap();
        for i in 0..40 {
            let name = ["/mnt/a", "/mnt/b", "/mnt/c"][i as usize / 15];
            let unknown = file(9, 60 + (i as u32 / 20), None);
            let unknown = FileAttributes {
                key: FileKey::new(None, unknown.id),
                mount: None,
                ..(*unknown).clone()
            };
            let mut rows = vec![
                (file(1, 49, Some(name)), reads(2)),
                (used_by(&file(2, 50, Some("/mnt/x")), "1000"), reads(3)),
                (file(3, 49, None), reads(1)),
            ];
            if i % 7 == 0 {
                rows.push((Arc::new(unknown), reads(1)));
            }
            writer
                .append(&window(T0 + (from + i) * 1000, rows))
                .unwrap();
        }
        writer.finish().unwrap();
    }
}

#[test]
fn a_rebuilt_catalog_says_what_the_old_one_said() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let before = said(dir.path());
    assert!(before.len() > 60, "{}", before.len());
    for lose in ["", "catalog.db"] {
        if !lose.is_empty() {
            fs::remove_file(dir.path().join(lose)).unwrap();
        }
        let rebuilt = rebuild_catalog(dir.path()).unwrap();
        assert_eq!((rebuilt.journals, rebuilt.left_out.len()), (8, 0));
        assert_eq!(said(dir.path()), before);
        assert_eq!(check(dir.path()).unwrap().findings, []);
    }
}

#[test]
fn what_is_not_sealed_stays_so_and_what_is_damaged_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("10s");
    let windows = windows(25);
    let mut writer = Writer::open(dir.path(), options.clone()).unwrap();
    windows
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    let locked = rebuild_catalog(dir.path());
    assert!(matches!(locked, Err(StoreError::Locked(_))));
    drop(writer);
    rebuild_catalog(dir.path()).unwrap();
    let second = granularity("1s");
    assert_eq!(
        Content::stored(dir.path(), second),
        Content::of(&windows, second)
    );
    Writer::open(dir.path(), options).unwrap().finish().unwrap();
    let files = parquet_files(dir.path());
    let damaged = files
        .iter()
        .find(|file| file.contains("rollup/granularity=1m"));
    let damaged = dir.path().join(damaged.unwrap());
    let bytes = fs::read(&damaged).unwrap();
    fs::write(&damaged, &bytes[..bytes.len() - 9]).unwrap();
    let rebuilt = rebuild_catalog(dir.path()).unwrap();
    assert_eq!(rebuilt.left_out.len(), 1);
    assert_eq!(rebuilt.left_out[0].0, damaged);
    assert_eq!(
        Content::stored(dir.path(), second),
        Content::of(&windows, second)
    );
}

/// Segments that a snapshot lists and that cannot be read.
fn unreadable(store: &Path) -> Vec<String> {
    let snapshot = Snapshot::open(store).unwrap();
    let mut unreadable = Vec::new();
    for dataset in Dataset::ALL {
        for segment in snapshot.segments(dataset, None).unwrap() {
            if segment.verify().is_err() {
                let relative = segment.path.strip_prefix(store).unwrap();
                unreadable.push(relative.to_str().unwrap().to_owned());
            }
        }
    }
    unreadable.sort();
    unreadable
}

/// Damages a segment, or deletes it.
fn damage(path: &Path, by: &str) {
    match by {
        "flip" => {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        "cut" => {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }
        _ => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn what_is_damaged_or_missing_stays_known_however_often_the_catalog_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let files = parquet_files(dir.path());
    let before = said(dir.path());
    for (by, at) in [("flip", 0), ("cut", 7), ("delete", files.len() - 1)] {
        let damaged = dir.path().join(&files[at]);
        let whole = fs::read(&damaged).unwrap();
        damage(&damaged, by);
        for _ in 0..2 {
            let rebuilt = rebuild_catalog(dir.path()).unwrap();
            assert_eq!(rebuilt.lost.iter().collect::<Vec<_>>(), [&damaged], "{by}");
            assert_eq!(rebuilt.left_out.len(), 1, "{by}");
            assert_eq!(unreadable(dir.path()), [files[at].clone()], "{by}");
            let found = check(dir.path()).unwrap().findings;
            assert!(found.iter().any(|found| found.path == damaged), "{found:?}");
        }
        fs::write(&damaged, whole).unwrap();
        assert_eq!(rebuild_catalog(dir.path()).unwrap().left_out, [], "{by}");
        assert!(said(dir.path()) == before, "{by}");
    }
}

#[test]
fn a_catalog_of_an_earlier_time_is_noticed_and_a_new_one_takes_all_in() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = dir.path().join("catalog.db");
    let windows = windows(30);
    let session = |windows: &[ClosedWindow]| {
        let mut options = options("h");
        options.rotate = granularity("5s");
        let mut writer = Writer::open(dir.path(), options).unwrap();
        windows
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        writer.finish().unwrap();
        fs::read(&catalog).unwrap()
    };
    let older = session(&windows[..10]);
    session(&windows[10..]);
    let unread = |store: &Path| Snapshot::open(store).unwrap().unread().to_vec();
    assert_eq!(unread(dir.path()), []);
    fs::write(&catalog, older).unwrap();
    let noted = unread(dir.path());
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0].path, catalog);
    assert!(noted[0].why.contains("rebuild-catalog"), "{noted:?}");
    let end = UtcMs(windows[29].start.0 + 1000);
    assert_eq!(noted[0].covers, Some((windows[10].start, end)));
    rebuild_catalog(dir.path()).unwrap();
    assert_eq!(unread(dir.path()), []);
    let second = granularity("1s");
    assert_eq!(
        Content::stored(dir.path(), second),
        Content::of(&windows, second)
    );
}

#[test]
fn what_is_damaged_stays_known_without_the_old_catalog() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    for at in [0, 5] {
        let files = parquet_files(dir.path());
        let damaged = dir.path().join(&files[at]);
        let whole = fs::read(&damaged).unwrap();
        let times = |snapshot: &Snapshot| {
            let all = Dataset::ALL.map(|of| snapshot.segments(of, None).unwrap());
            let own = all
                .into_iter()
                .flatten()
                .find(|s| s.path == damaged)
                .unwrap();
            (own.start, own.end, own.host, own.journal)
        };
        let before = times(&Snapshot::open(dir.path()).unwrap());
        damage(&damaged, "flip");
        fs::remove_file(dir.path().join("catalog.db")).unwrap();
        let rebuilt = rebuild_catalog(dir.path()).unwrap();
        assert_eq!(rebuilt.lost.iter().collect::<Vec<_>>(), [&damaged]);
        assert_eq!(unreadable(dir.path()), [files[at].clone()]);
        let snapshot = Snapshot::open(dir.path()).unwrap();
        assert_eq!(times(&snapshot), before);
        fs::write(&damaged, whole).unwrap();
        rebuild_catalog(dir.path()).unwrap();
    }
}

#[test]
fn rows_without_health_and_health_without_rows_are_missed_without_the_old_catalog() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let catalog = dir.path().join("catalog.db");
    let files = parquet_files(dir.path());
    let before = said(dir.path());
    for dataset in ["rollup", "health"] {
        for granularity in ["1s", "10s", "1h"] {
            let of = format!("{dataset}/granularity={granularity}/");
            let name = files.iter().find(|file| file.starts_with(&of)).unwrap();
            let path = dir.path().join(name);
            let whole = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            fs::remove_file(&catalog).unwrap();
            for _ in 0..2 {
                let rebuilt = rebuild_catalog(dir.path()).unwrap();
                assert_eq!(rebuilt.lost.iter().collect::<Vec<_>>(), [&path]);
                assert_eq!(unreadable(dir.path()), std::slice::from_ref(name));
                let found = check(dir.path()).unwrap().findings;
                assert!(found.iter().any(|found| found.path == path), "{found:?}");
            }
            fs::write(&path, whole).unwrap();
            let rebuilt = rebuild_catalog(dir.path()).unwrap();
            assert_eq!((rebuilt.left_out, rebuilt.lost.len()), (Vec::new(), 0));
            assert!(said(dir.path()) == before, "{of}");
        }
    }
    fs::remove_dir_all(dir.path().join("rollup")).unwrap();
    fs::remove_file(&catalog).unwrap();
    rebuild_catalog(dir.path()).unwrap();
    let rollups = files.iter().filter(|file| file.starts_with("rollup/"));
    assert_eq!(unreadable(dir.path()).len(), rollups.count());
}

#[test]
fn idle_journals_have_health_alone_and_miss_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for second in 0..5 {
        let idle = window(T0 + second * 1000, Vec::new());
        writer.append(&idle).unwrap();
    }
    writer.finish().unwrap();
    fs::remove_file(dir.path().join("catalog.db")).unwrap();
    let rebuilt = rebuild_catalog(dir.path()).unwrap();
    assert_eq!((rebuilt.left_out, rebuilt.lost.len()), (Vec::new(), 0));
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

#[test]
fn what_is_no_store_is_not_given_a_catalog() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "").unwrap();
    let refused = rebuild_catalog(dir.path());
    assert!(matches!(refused, Err(StoreError::NotAStore { .. })));
    let missing = rebuild_catalog(&dir.path().join("missing"));
    assert!(matches!(missing, Err(StoreError::Missing(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn copies_of_segments_count_once() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    rebuild_catalog(dir.path()).unwrap();
    let before = said(dir.path());
    let second = dir.path().join("rollup/granularity=1s");
    let date = second.join("date=2026-11-21");
    for copy in ["date=2026-11-21.bak", "date=2026-11-22"] {
        let copy = second.join(copy);
        fs::create_dir(&copy).unwrap();
        for segment in fs::read_dir(&date).unwrap() {
            let segment = segment.unwrap();
            fs::copy(segment.path(), copy.join(segment.file_name())).unwrap();
        }
    }
    let copies = 2 * fs::read_dir(&date).unwrap().count();
    assert_eq!(rebuild_catalog(dir.path()).unwrap().left_out.len(), copies);
    assert_eq!(said(dir.path()), before);
}

#[test]
fn copies_of_segments_under_other_numbers_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    rebuild_catalog(dir.path()).unwrap();
    let before = said(dir.path());
    let files = parquet_files(dir.path());
    let of = |dataset: &str| files.iter().find(|file| file.starts_with(dataset)).unwrap();
    let mut copies = Vec::new();
    for (dataset, numbers) in [("rollup", "1-108"), ("health", "108"), ("rollup", "0-4")] {
        let segment = dir.path().join(of(dataset));
        let name = format!("a-1-20261121T035200Z-{numbers}.parquet");
        let copy = segment.with_file_name(name);
        fs::copy(segment, &copy).unwrap();
        copies.push(copy);
    }
    copies.sort();
    for lose in ["", "catalog.db"] {
        if !lose.is_empty() {
            fs::remove_file(dir.path().join(lose)).unwrap();
        }
        let rebuilt = rebuild_catalog(dir.path()).unwrap();
        let mut left_out: Vec<_> = rebuilt.left_out.iter().map(|(path, _)| path).collect();
        left_out.sort();
        assert_eq!(left_out, copies.iter().collect::<Vec<_>>());
        assert!(rebuilt.lost.is_empty(), "{:?}", rebuilt.lost);
        assert_eq!(said(dir.path()), before);
        assert_eq!(unreadable(dir.path()), [""; 0]);
        Snapshot::open(dir.path()).unwrap();
    }
}

#[test]
fn the_catalog_of_another_format_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let catalog = rusqlite::Connection::open(dir.path().join("catalog.db")).unwrap();
    catalog.pragma_update(None, "user_version", 7).unwrap();
    drop(catalog);
    seal_catalog(dir.path());
    let refused = rebuild_catalog(dir.path()).expect_err("it knows better");
    assert!(matches!(refused, StoreError::OtherFormat { found: 7, .. }));
}
