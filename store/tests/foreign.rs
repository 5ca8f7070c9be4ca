//! The content of a store is only data. Whatever it contains, nothing outside is read, changed or deleted, and one bad
//! file spoils no other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use trackiops_store::{Options, Snapshot, StoreError, Warning, Writer, check, repair};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::options;
use trackiops_testkit::stores::{parquet_files, seal_catalog};
use trackiops_testkit::windows::{granularity, windows};

fn often() -> Options {
    Options {
        rotate: granularity("2s"),
        ..options("h")
    }
}

/// A store of two journals without a running writer.
fn recorded(store: &Path) {
    let mut writer = Writer::open(store, often()).unwrap();
    windows(4).iter().for_each(|w| writer.append(w).unwrap());
    writer.finish().unwrap();
}

fn change(store: &Path, sql: &str) {
    let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
    catalog.execute_batch(sql).unwrap();
    drop(catalog);
    seal_catalog(store);
}

#[test]
fn a_catalog_has_nothing_deleted_but_segments_that_were_removed() {
    let outer = tempfile::tempdir().unwrap();
    let store = outer.path().join("store");
    recorded(&store);
    let precious = outer.path().join("precious.parquet");
    fs::write(&precious, "theirs").unwrap();
    let own = store.join("journal/1-7.parquet");
    fs::write(&own, "no segment").unwrap();
    let before = parquet_files(&store);
    let live = before
        .iter()
        .find(|path| path.starts_with("rollup"))
        .unwrap();
    let live = live.as_str();
    for path in [
        precious.to_str().unwrap(),
        "../precious.parquet",
        "rollup/granularity=1s/date=2026-11-21/../../../../precious.parquet",
        "journal/1-7.parquet",
        "catalog.db",
        live,
    ] {
        change(&store, &format!("INSERT INTO removed VALUES ('{path}', 0)"));
        let found = check(&store).unwrap().findings;
        assert_eq!(found.len(), 1, "{path}: {found:#?}");
        let refused = repair(&store).expect_err(path);
        assert!(
            refused.to_string().contains("not a removed segment"),
            "{refused}"
        );
        Writer::open(&store, often()).unwrap().finish().unwrap();
        assert!(precious.exists() && own.exists(), "{path}");
        assert_eq!(parquet_files(&store), before, "{path}");
        change(&store, "DELETE FROM removed");
    }
}

#[test]
fn a_catalog_has_nothing_read_but_segments() {
    let outer = tempfile::tempdir().unwrap();
    let store = outer.path().join("store");
    recorded(&store);
    for path in [
        "/etc/passwd",
        "../x.parquet",
        "requests/date=2026-11-21/h-1.parquet",
    ] {
        change(
            &store,
            &format!("UPDATE segment SET path = '{path}' WHERE id = 1"),
        );
        let snapshot = Snapshot::open(&store).unwrap();
        let read = [
            trackiops_store::Dataset::Rollup,
            trackiops_store::Dataset::Health,
            trackiops_store::Dataset::Ops,
        ]
        .map(|dataset| snapshot.segments(dataset, None));
        let refused = read.into_iter().find_map(Result::err).expect(path);
        assert!(
            refused.to_string().contains("path of something else"),
            "{refused}"
        );
        // Neither merged nor expired.
        Writer::open(&store, often()).unwrap().finish().unwrap();
    }
}

#[test]
fn a_segment_has_no_more_rows_than_there_can_be() {
    let outer = tempfile::tempdir().unwrap();
    let store = outer.path().join("store");
    recorded(&store);
    for sql in ["rows = -1", "rows = 9223372036854775807", "bytes = -1"] {
        change(&store, &format!("UPDATE segment SET {sql}"));
        let snapshot = Snapshot::open(&store).unwrap();
        let read = snapshot.segments(trackiops_store::Dataset::Rollup, None);
        let refused = read.expect_err(sql).to_string();
        assert!(refused.contains("more rows or bytes than"), "{refused}");
    }
}

#[test]
fn numbers_of_a_catalog_that_make_no_sense_end_no_recorder() {
    for sql in [
        "UPDATE segment SET end_ms = -9223372036854775808",
        "UPDATE segment SET start_ms = 9223372036854775807",
        "UPDATE segment SET bytes = 9223372036854775807",
        "UPDATE segment SET bytes = -1",
        "UPDATE segment SET journal = last_journal + 1",
        "UPDATE segment SET journal = 0, last_journal = -1",
        "DELETE FROM sealed_journal; INSERT INTO sealed_journal (journal, host, start_ms, end_ms) VALUES (-1, 1, 0, 0)",
    ] {
        let outer = tempfile::tempdir().unwrap();
        let store = outer.path().join("store");
        recorded(&store);
        change(&store, sql);
        fs::write(store.join("journal/18446744073709551615.tij"), "none").unwrap();
        let mut writer = Writer::open(&store, often()).unwrap();
        windows(6)[4..]
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        match writer.finish() {
            // A segment of that number already exists.
            Ok(()) | Err(StoreError::Catalog { .. }) => {}
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}

/// Gives a table of the catalog more rows than it has: pages with 300 references to the same page.
fn repeat_rows(store: &Path, table: &str) {
    const LEVELS: usize = 4;
    let path = store.join("catalog.db");
    let catalog = rusqlite::Connection::open(&path).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u32 = catalog.query_row(root, [table], |row| row.get(0)).unwrap();
    let page: u32 = catalog
        .query_row("PRAGMA page_size", [], |row| row.get(0))
        .unwrap();
    drop(catalog);
    let [root, page] = [root, page].map(|n| usize::try_from(n).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(bytes.len() / page * page);
    let references = |child: usize| {
        let child = u32::try_from(child).unwrap().to_be_bytes();
        let mut interior = vec![0; page];
        interior[0] = 5;
        interior[8..12].copy_from_slice(&child);
        for cell in 0..300_u16 {
            let at = page - 5 * (usize::from(cell) + 1);
            interior[at..at + 4].copy_from_slice(&child);
            interior[at + 4] = 1;
            let place = 12 + 2 * usize::from(cell);
            let at = u16::try_from(at).unwrap().to_be_bytes();
            interior[place..place + 2].copy_from_slice(&at);
            interior[3..5].copy_from_slice(&(cell + 1).to_be_bytes());
            interior[5..7].copy_from_slice(&at);
        }
        interior
    };
    let place = (root - 1) * page..root * page;
    let leaf = bytes[place.clone()].to_vec();
    bytes.extend(leaf);
    let mut last = bytes.len() / page;
    for _ in 0..LEVELS {
        bytes.extend(references(last));
        last += 1;
    }
    bytes[place].copy_from_slice(&references(last));
    let pages = u32::try_from(last).unwrap().to_be_bytes();
    bytes[28..32].copy_from_slice(&pages);
    fs::write(&path, bytes).unwrap();
    seal_catalog(store);
}

#[test]
fn a_catalog_whose_pages_repeat_is_refused_soon() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    recorded(&store);
    repeat_rows(&store, "sealed_journal");
    let began = Instant::now();
    let refused = Snapshot::open(&store).expect_err("endless").to_string();
    assert!(refused.contains("store rebuild-catalog"), "{refused}");
    assert!(!check(&store).unwrap().findings.is_empty());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_name_that_many_rows_refer_to_has_an_end() {
    for table in ["host", "mount"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        recorded(&store);
        change(
            &store,
            &format!("UPDATE {table} SET name = hex(zeroblob(1000000))"),
        );
        let refused = Snapshot::open(&store).expect_err(table).to_string();
        assert!(
            refused.contains("a longer name than there can be"),
            "{refused}"
        );
        assert_eq!(check(&store).unwrap().findings.len(), 1, "{table}");
    }
}

#[test]
fn links_in_a_store_lead_nowhere() {
    let outer = tempfile::tempdir().unwrap();
    let theirs = outer.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("file"), "theirs").unwrap();
    for link in [
        ".catalog.db.tmp",
        ".catalog.db.scratch",
        "lock",
        "journal/1.spool",
        "journal/3.tij",
        "rollup/granularity=1s/date=2026-11-21/.h-20261121T035204Z-3.parquet.tmp",
        "rollup/granularity=1s/date=2026-11-21/h-20261121T035204Z-3.parquet",
    ] {
        let store = outer.path().join("store");
        recorded(&store);
        let _ = fs::remove_file(store.join(link));
        symlink(theirs.join("file"), store.join(link)).unwrap();
        let all = windows(8);
        let written = Writer::open(&store, often()).and_then(|mut writer| {
            all[4..]
                .iter()
                .try_for_each(|window| writer.append(window))?;
            writer.finish()
        });
        assert_eq!(
            fs::read(theirs.join("file")).unwrap(),
            b"theirs",
            "{link}: {written:?}"
        );
        match written {
            Ok(()) => {
                let finest = granularity("1s");
                let same = Content::stored(&store, finest) == Content::of(&all, finest);
                assert!(same, "{link}");
            }
            Err(error) => {
                let error = error.to_string();
                let named = error.contains("symbolic link") || error.contains("exists");
                assert!(named, "{link}: {error}");
            }
        }
        fs::remove_dir_all(store).unwrap();
    }
    // A directory that is a link to another place.
    let store = outer.path().join("store");
    recorded(&store);
    fs::remove_dir_all(store.join("journal")).unwrap();
    symlink(&theirs, store.join("journal")).unwrap();
    let refused = Writer::open(&store, often()).and_then(|mut w| w.append(&windows(5)[4]));
    assert!(refused.is_err());
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
}

#[test]
fn a_store_that_others_own_or_may_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let mode = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o770, 0o757] {
        mode(open);
        let refused = Writer::open(dir.path(), often()).expect_err("others may write");
        assert!(matches!(refused, StoreError::OthersWrite(_)), "{refused}");
        assert!(refused.to_string().contains("chmod -R go-w"), "{refused}");
        assert!(Snapshot::open(dir.path()).is_ok());
    }
    mode(0o755);
    for path in ["", "catalog.db", "rollup", "rollup/granularity=1s"] {
        let path = dir.path().join(path);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        let refused = Writer::open(dir.path(), often()).expect_err("others may write");
        assert!(matches!(refused, StoreError::OthersWrite(_)), "{refused}");
        fs::set_permissions(&path, before).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
            let refused = Writer::open(dir.path(), often()).expect_err("somebody else owns it");
            assert!(
                refused.to_string().contains("belongs to user 4711"),
                "{refused}"
            );
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
    }
    Writer::open(dir.path(), often()).unwrap();
}

#[test]
fn the_group_cannot_open_the_lock_again_after_a_recorder_did() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let lock = dir.path().join("lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o640)).unwrap();
    Writer::open(dir.path(), often()).unwrap().finish().unwrap();
    let mode = fs::metadata(&lock).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_in_the_way_holds_up_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    recorded(store);
    // The health of the first journal is missing, and a directory replaces a temporary file.
    let files = parquet_files(store);
    let health = files
        .iter()
        .find(|path| path.starts_with("health/granularity=1s"));
    fs::remove_file(store.join(health.unwrap())).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let all = windows(40);
    let mut writer = Writer::open_after(store, often(), None, move |warning| {
        tell.lock().unwrap().push(warning);
    })
    .unwrap();
    for window in &all[4..] {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
    for _ in 0..40 {
        Writer::open(store, often()).unwrap().finish().unwrap();
    }
    let merged = parquet_files(store);
    let merged: Vec<_> = merged
        .iter()
        .filter(|path| path.contains("rollup/granularity=1s"))
        .collect();
    assert!(
        merged.len() < 10,
        "the others are merged: {merged:#?} {:?}",
        told.lock()
    );
    let told = told.lock().unwrap();
    let told_again = told
        .iter()
        .filter(|warning| matches!(warning, Warning::WillRetry(_)));
    assert!(told_again.count() <= 1, "{told:?}");
    let finest = granularity("10s");
    assert!(Content::stored(store, finest).rows == Content::of(&all, finest).rows);
    assert_eq!(check(store).unwrap().findings.len(), 1);
}
