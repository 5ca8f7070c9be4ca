//! A journal that was deleted, copied under another number or replaced by an earlier version is noticed, because each
//! journal names its predecessor.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, RetentionPolicy, Snapshot, Unread, Writer, check, rebuild_catalog};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{journals, options};
use trackiops_testkit::windows::{granularity, windows};

fn often() -> Options {
    Options {
        rotate: granularity("5s"),
        ..options("h")
    }
}

/// Appends windows without sealing them.
fn leave(store: &Path, windows: &[ClosedWindow]) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    for window in windows {
        writer.append(window).unwrap();
    }
}

/// Appends windows, and seals them.
fn session(store: &Path, windows: &[ClosedWindow]) {
    let mut writer = Writer::open(store, often()).unwrap();
    for window in windows {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
}

fn unread(store: &Path) -> Vec<Unread> {
    Snapshot::open(store).unwrap().unread().to_vec()
}

fn found(store: &Path) -> Vec<PathBuf> {
    let findings = check(store).unwrap().findings;
    findings.into_iter().map(|finding| finding.path).collect()
}

fn is_clean(store: &Path) {
    assert_eq!(unread(store), []);
    assert_eq!(check(store).unwrap().findings, []);
}

fn end_of(windows: &[ClosedWindow]) -> UtcMs {
    UtcMs(windows.last().unwrap().start.0 + 1000)
}

/// Asserts that the finest rows of these windows are stored.
fn is_stored(store: &Path, windows: &[ClosedWindow]) {
    let second = granularity("1s");
    assert!(Content::stored(store, second) == Content::of(windows, second));
}

/// A second unsealed journal, of the next ten windows.
fn one_more(store: &Path, all: &[ClosedWindow]) {
    // Sealing fails, but windows are appended.
    let blocked = store.join("rollup");
    fs::write(&blocked, "").unwrap();
    let mut writer = Writer::open(store, options("h")).unwrap();
    for window in &all[10..] {
        while writer.append(window).is_err() {}
    }
    drop(writer);
    fs::remove_file(blocked).unwrap();
    assert_eq!(journals(store), ["1.tij", "2.tij"]);
    is_clean(store);
}

#[test]
fn a_copy_of_a_journal_under_another_number_counts_as_damage_and_not_twice() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(10);
    leave(dir.path(), &all);
    is_clean(dir.path());
    let journal = |name: &str| dir.path().join("journal").join(name);
    for extension in ["tij", "end"] {
        let [from, to] = ["1", "108"].map(|stem| journal(&format!("{stem}.{extension}")));
        fs::copy(from, to).unwrap();
    }
    let noted = unread(dir.path());
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0].path, journal("108.tij"));
    assert!(noted[0].why.contains("copy"), "{noted:?}");
    assert_eq!(noted[0].covers, Some((all[0].start, end_of(&all))));
    assert_eq!(found(dir.path()), [journal("108.tij")]);
    is_stored(dir.path(), &all);
    session(dir.path(), &[]);
    is_stored(dir.path(), &all);
    assert_eq!(journals(dir.path()), ["108.tij.damaged"]);
    // When the damaged journal is moved away, nothing is missing.
    fs::remove_file(journal("108.tij.damaged")).unwrap();
    fs::remove_file(journal("108.end.damaged")).unwrap();
    let all = windows(20);
    session(dir.path(), &all[10..]);
    is_clean(dir.path());
    is_stored(dir.path(), &all);
}

#[test]
fn the_last_journal_is_missed_if_nothing_of_it_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    session(dir.path(), &all[..10]);
    leave(dir.path(), &all[10..20]);
    is_clean(dir.path());
    let journal = dir.path().join("journal/3.tij");
    fs::remove_file(&journal).unwrap();
    fs::remove_file(journal.with_extension("end")).unwrap();
    let noted = unread(dir.path());
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!((&noted[0].path, noted[0].covers), (&journal, None));
    assert_eq!(found(dir.path()), std::slice::from_ref(&journal));
    // Neither the next recorder nor a new catalog hides the loss. Then its time is known, too.
    session(dir.path(), &all[20..]);
    let between = Some((end_of(&all[..10]), all[20].start));
    for _ in 0..2 {
        let noted = unread(dir.path());
        assert_eq!(noted.len(), 1, "{noted:?}");
        assert_eq!((&noted[0].path, noted[0].covers), (&journal, between));
        assert_eq!(found(dir.path()), std::slice::from_ref(&journal));
        rebuild_catalog(dir.path()).unwrap();
    }
    fs::remove_file(dir.path().join("catalog.db")).unwrap();
    rebuild_catalog(dir.path()).unwrap();
    assert_eq!(unread(dir.path()).len(), 1);
}

#[test]
fn a_journal_of_an_earlier_time_is_noticed_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(20);
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let mut append = |windows: &[ClosedWindow]| {
        windows
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        ["journal/1.tij", "journal/1.end"].map(|name| {
            let path = dir.path().join(name);
            (fs::read(&path).unwrap(), path)
        })
    };
    let earlier = append(&all[..4]);
    append(&all[4..10]);
    drop(writer);
    one_more(dir.path(), &all);
    for (bytes, path) in earlier {
        fs::write(path, bytes).unwrap();
    }
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let damage = snapshot.tails()[0].damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!(damage[0].is_cut, "{damage:?}");
    assert_eq!(found(dir.path()), [dir.path().join("journal/1.tij")]);
}

#[test]
fn a_catalog_of_an_earlier_time_beside_unsealed_journals_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    leave(dir.path(), &all[..10]);
    let catalog = dir.path().join("catalog.db");
    let older = fs::read(&catalog).unwrap();
    session(dir.path(), &all[10..20]);
    leave(dir.path(), &all[20..]);
    is_clean(dir.path());
    fs::write(&catalog, older).unwrap();
    let noted = unread(dir.path());
    assert!(noted.iter().any(|noted| noted.path == catalog), "{noted:?}");
    // No segments are left either.
    for dataset in ["rollup", "health", "ops"] {
        let _ = fs::remove_dir_all(dir.path().join(dataset));
    }
    let noted = unread(dir.path());
    let names: Vec<_> = noted
        .iter()
        .map(|noted| noted.path.file_name().unwrap())
        .collect();
    assert_eq!(names, ["1.tij", "3.tij"], "{noted:?}");
}

#[test]
fn what_has_expired_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    for windows in all.chunks(10) {
        let mut options = often();
        options.keep = RetentionPolicy {
            most_bytes: Some(0),
            ..RetentionPolicy::default()
        };
        let mut writer = Writer::open(dir.path(), options).unwrap();
        for window in windows {
            writer.append(window).unwrap();
            is_clean(dir.path());
        }
        writer.finish().unwrap();
        is_clean(dir.path());
    }
    rebuild_catalog(dir.path()).unwrap();
    is_clean(dir.path());
}

#[test]
fn a_journal_that_was_emptied_together_with_its_end_is_missed() {
    let all = windows(20);
    for (bytes, is_deleted) in [(0, true), (1, true), (100, true), (0, false), (100, false)] {
        let dir = tempfile::tempdir().unwrap();
        leave(dir.path(), &all[..10]);
        is_clean(dir.path());
        let journal = dir.path().join("journal/1.tij");
        let whole = fs::read(&journal).unwrap();
        fs::write(&journal, &whole[..bytes]).unwrap();
        let end = journal.with_extension("end");
        match is_deleted {
            true => fs::remove_file(&end).unwrap(),
            false => fs::write(&end, [0_u8; 1024]).unwrap(),
        }
        let noted = unread(dir.path());
        assert_eq!(noted.len(), 1, "{bytes} {is_deleted}: {noted:?}");
        assert_eq!(noted[0].path, journal);
        assert_eq!(found(dir.path()), std::slice::from_ref(&journal));
        // Neither the next recorder nor a new catalog hides the loss.
        session(dir.path(), &all[10..]);
        // What is torn and has no end is set aside.
        let set_aside = dir.path().join("journal/1.tij.damaged");
        let expected = match set_aside.exists() {
            true => &set_aside,
            false => &journal,
        };
        for _ in 0..2 {
            let noted = unread(dir.path());
            assert_eq!(noted.len(), 1, "{bytes} {is_deleted}: {noted:?}");
            assert_eq!(noted[0].path, *expected);
            assert_eq!(found(dir.path()), std::slice::from_ref(expected));
            rebuild_catalog(dir.path()).unwrap();
        }
        is_stored(dir.path(), &all[10..]);
    }
}

#[test]
fn a_torn_end_is_noted_if_nothing_says_how_long_the_journal_was() {
    let all = windows(20);
    for is_deleted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        leave(dir.path(), &all[..10]);
        let journal = dir.path().join("journal/1.tij");
        let end = journal.with_extension("end");
        let whole = fs::read(&journal).unwrap();
        fs::write(&journal, &whole[..whole.len() - 5]).unwrap();
        match is_deleted {
            true => fs::remove_file(&end).unwrap(),
            false => fs::write(&end, "").unwrap(),
        }
        let is_noted = |path: &PathBuf| {
            let noted = unread(dir.path());
            let paths: Vec<_> = noted.iter().map(|noted| &noted.path).collect();
            assert_eq!(paths, [path], "{noted:?}");
            assert_eq!(found(dir.path()), std::slice::from_ref(path));
        };
        is_noted(&journal);
        is_stored(dir.path(), &all[..9]);
        // Sealing keeps the note.
        session(dir.path(), &all[10..]);
        is_noted(&dir.path().join("journal/1.tij.damaged"));
        is_stored(dir.path(), &[&all[..9], &all[10..]].concat());
    }
}

#[test]
fn a_catalog_that_is_rebuilt_from_segments_alone_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    session(dir.path(), &all[..20]);
    leave(dir.path(), &all[20..]);
    // A journal without any append.
    drop(Writer::open(dir.path(), options("h")).unwrap());
    fs::remove_file(dir.path().join("catalog.db")).unwrap();
    rebuild_catalog(dir.path()).unwrap();
    is_clean(dir.path());
    is_stored(dir.path(), &all);
}
