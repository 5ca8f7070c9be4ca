//! Errors of operations that a store refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Snapshot, StoreError, Writer, check, rebuild_catalog, repair};
use trackiops_testkit::stores::{options, seal_catalog};
use trackiops_testkit::windows::windows;

fn refused(path: &Path) -> StoreError {
    Writer::open(path, options("h")).expect_err("refused")
}

/// Every message names the path and the problem.
fn assert_says(error: &StoreError, path: &Path, words: &str) {
    let message = error.to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains(words), "{message}");
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = Writer::open(dir.path(), options("h")).unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, StoreError::Locked(_)));
    assert_says(&error, dir.path(), "stop the recorder");
    drop(first);
    Writer::open(dir.path(), options("h")).unwrap();
}

#[test]
fn a_store_of_another_format_is_neither_written_nor_read() {
    let dir = tempfile::tempdir().unwrap();
    Writer::open(dir.path(), options("h"))
        .unwrap()
        .finish()
        .unwrap();
    for version in [0, 2, 3, 7] {
        let catalog = rusqlite::Connection::open(dir.path().join("catalog.db")).unwrap();
        catalog
            .pragma_update(None, "user_version", version)
            .unwrap();
        drop(catalog);
        seal_catalog(dir.path());
        for error in [
            refused(dir.path()),
            Snapshot::open(dir.path()).expect_err("refused"),
            check(dir.path()).expect_err("refused"),
        ] {
            assert!(
                matches!(error, StoreError::OtherFormat { found, .. } if found == version),
                "{error:?}"
            );
            let words =
                format!("format version {version}, this trackiops reads and writes version 1");
            assert_says(&error, dir.path(), &words);
        }
    }
}

#[test]
fn a_journal_of_another_format_is_left_alone() {
    for version in [0_u32, 2, 3, 7] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(dir.path(), options("h")).unwrap();
        writer.append(&windows(1)[0]).unwrap();
        drop(writer);
        let journal = dir.path().join("journal/1.tij");
        let mut bytes = fs::read(&journal).unwrap();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let fields = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
        let checksum = crc32c::crc32c(&bytes[16..16 + fields]);
        let checksum = crc32c::crc32c_append(checksum, &version.to_le_bytes());
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        fs::write(&journal, &bytes).unwrap();
        let error = refused(dir.path());
        assert!(
            matches!(error, StoreError::OtherFormat { found, .. } if found == version),
            "{error:?}"
        );
        assert_eq!(fs::read(&journal).unwrap(), bytes);
    }
}

#[test]
fn a_path_that_cannot_be_written_is_named_with_the_cause() {
    // Not through modes: they do not bind root, who runs the recorder.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("store");
    assert_says(&refused(&below), &below, "Not a directory");
    for error in [
        refused(&file),
        rebuild_catalog(&file).expect_err("refused"),
        repair(&file).expect_err("refused"),
    ] {
        assert_says(&error, &file, "it is not a directory");
    }
    let nowhere = Path::new("/proc/trackiops-store");
    assert_says(&refused(nowhere), nowhere, "cannot create directory");
}

#[test]
fn what_is_not_a_store_is_not_made_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "").unwrap();
    for error in [
        refused(dir.path()),
        Snapshot::open(dir.path()).expect_err("refused"),
    ] {
        assert!(matches!(error, StoreError::NotAStore { .. }));
        assert_says(&error, dir.path(), "not a TrackIOps store");
    }
    for content in [
        "not a database at all, and long enough to be told from one",
        "",
    ] {
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("catalog.db"), content).unwrap();
        let error = Snapshot::open(other.path()).expect_err("refused");
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    }
    let missing = dir.path().join("missing");
    assert_says(
        &Snapshot::open(&missing).expect_err("refused"),
        &missing,
        "no such directory",
    );
}

#[test]
fn garbage_in_the_place_of_a_catalog_is_damage_where_there_are_segments() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    writer.append(&windows(1)[0]).unwrap();
    writer.finish().unwrap();
    for content in [
        "not a database at all, and long enough to be told from one",
        "",
    ] {
        fs::write(dir.path().join("catalog.db"), content).unwrap();
        let error = Snapshot::open(dir.path()).expect_err("refused");
        let next = "`trackiops store rebuild-catalog --store";
        assert_says(&error, dir.path(), next);
        assert_says(&error, dir.path(), "is damaged");
        rebuild_catalog(dir.path()).unwrap();
        assert!(Snapshot::open(dir.path()).unwrap().span().is_some());
    }
}

#[test]
fn a_new_store_is_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let mut writer = Writer::open(&store, options("h")).unwrap();
    writer.append(&windows(1)[0]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o007;
    assert_eq!(mode(&store), 0);
    assert_eq!(mode(&store.join("journal")), 0);
    assert_eq!(mode(&store.join("journal/1.tij")), 0);
}

#[test]
fn a_window_that_is_not_aligned_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let mut window = windows(1).remove(0);
    window.start = UtcMs(window.start.0 + 1);
    assert!(matches!(
        writer.append(&window),
        Err(StoreError::Unaligned { .. })
    ));
    writer.finish().unwrap();
    assert_eq!(Snapshot::open(dir.path()).unwrap().span(), None);
}
