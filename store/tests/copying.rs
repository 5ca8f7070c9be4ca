//! A copy of a store has everything that was durable when copying began, each once, even while a recorder runs.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Dataset, Options, RequestsView, RetentionPolicy, Snapshot, StoreError, Writer, check, copy,
    ends_ns,
};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{self, options, parquet_files};
use trackiops_testkit::windows::{file, granularity, windows};

fn often() -> Options {
    Options {
        rotate: granularity("2s"),
        ..options("h")
    }
}

fn batch(window: &ClosedWindow) -> RequestBatch {
    RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a"))],
        requests: vec![Request::new(
            &RequestRecord::default(),
            window.start.0 * 1_000_000,
            0,
        )],
    }
}

/// Asserts that a copy is consistent, and returns its numbers of windows and requests.
fn whole(store: &Path, all: &[ClosedWindow]) -> (usize, usize) {
    let findings = check(store).unwrap().findings;
    assert_eq!(findings, []);
    assert_eq!(Snapshot::open(store).unwrap().unread(), []);
    let second = granularity("1s");
    let content = Content::stored(store, second);
    let windows = content.health.len();
    assert!(
        content == Content::of(&all[..windows], second),
        "{windows} windows"
    );
    let mut view = RequestsView::open(store).unwrap();
    let mut ends = Vec::new();
    view.read(0..i64::MAX, &mut |batch| {
        ends.extend_from_slice(ends_ns(&batch));
        Ok(true)
    })
    .unwrap();
    assert!(view.unread().is_empty() && view.damaged().is_empty());
    let starts = all.iter().map(|window| window.start.0 * 1_000_000);
    ends.sort_unstable();
    assert!(
        ends.iter().copied().eq(starts.take(ends.len())),
        "{} requests",
        ends.len()
    );
    (windows, ends.len())
}

#[test]
fn copies_of_a_store_that_is_recorded_to_have_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let all = windows(60);
    let (appended, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for windows in all.chunks(20) {
                let mut writer = Writer::open(&store, often()).unwrap();
                let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
                for window in windows {
                    writer.append(window).unwrap();
                    requests.append(&batch(window)).unwrap();
                    appended.fetch_add(1, Ordering::SeqCst);
                }
                requests.finish().unwrap();
                writer.finish().unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let mut copies = 0;
        while !is_over.load(Ordering::SeqCst) {
            let before = appended.load(Ordering::SeqCst);
            if before == 0 {
                continue;
            }
            let to = dir.path().join(format!("copy-{copies}"));
            copy(&store, &to).unwrap();
            let (windows, requests) = whole(&to, &all);
            assert!(
                windows >= before && requests >= before,
                "{windows} and {requests} of {before}"
            );
            copies += 1;
        }
        assert!(copies > 3, "{copies}");
    });
    // A copy is a store: it can be recorded into like any other.
    let to = dir.path().join("copy-0");
    Writer::open(&to, often()).unwrap().finish().unwrap();
    whole(&to, &all);
}

/// Records windows with a request each, and seals them if `is_sealed`.
fn session(store: &Path, windows: &[ClosedWindow], is_sealed: bool) {
    let mut writer = Writer::open(store, often()).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for window in windows {
        writer.append(window).unwrap();
        requests.append(&batch(window)).unwrap();
    }
    if is_sealed {
        requests.finish().unwrap();
        writer.finish().unwrap();
    }
}

/// Whether queries of a store report missing data.
fn is_noticed(store: &Path) -> bool {
    let snapshot = Snapshot::open(store).unwrap();
    let segments = Dataset::ALL.map(|dataset| snapshot.segments(dataset, None).unwrap());
    let mut requests = RequestsView::open(store).unwrap();
    requests.read(0..i64::MAX, &mut |_| Ok(true)).unwrap();
    let damaged = snapshot.tails().iter().map(|tail| tail.damage().len());
    !snapshot.unread().is_empty()
        || damaged.sum::<usize>() > 0
        || segments
            .iter()
            .flatten()
            .any(|segment| !segment.path.exists())
        || !requests.unread().is_empty()
        || !requests.damaged().is_empty()
}

#[test]
fn a_copy_file_by_file_is_whole_up_to_a_time_or_says_that_it_is_not() {
    const PARTS: [&[&str]; 3] = [
        &["catalog.db"],
        &["journal"],
        &["rollup", "health", "ops", "requests"],
    ];
    let all = windows(20);
    let (mut whole_ones, mut noticed) = (0, 0);
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        // Between two parts, the recorder does nothing, leaves a journal, or seals it.
        for between in [None, Some(false), Some(true)] {
            let dir = tempfile::tempdir().unwrap();
            let [store, to] = ["store", "copy"].map(|name| dir.path().join(name));
            session(&store, &all[..5], true);
            session(&store, &all[5..10], false);
            fs::create_dir(&to).unwrap();
            for (place, part) in order.into_iter().enumerate() {
                for name in PARTS[part].iter().filter(|name| store.join(name).exists()) {
                    match store.join(name).is_dir() {
                        true => stores::copy(&store.join(name), &to.join(name)),
                        false => fs::copy(store.join(name), to.join(name)).map(drop).unwrap(),
                    }
                }
                if let (0..2, Some(is_sealed)) = (place, between) {
                    session(&store, &all[10 + 5 * place..][..5], is_sealed);
                }
            }
            let case = format!("{order:?} {between:?}");
            if is_noticed(&to) {
                assert_ne!(check(&to).unwrap().findings, [], "{case}");
                noticed += 1;
            } else {
                let (windows, requests) = whole(&to, &all);
                assert!(
                    windows >= 10 && requests >= 10,
                    "{case}: {windows}, {requests}"
                );
                whole_ones += 1;
            }
        }
    }
    assert!(whole_ones >= 6 && noticed > 0, "{whole_ones}, {noticed}");
}

#[test]
fn segments_are_linked_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let (store, to) = (dir.path().join("store"), dir.path().join("copy"));
    let all = windows(7);
    let mut writer = Writer::open(&store, often()).unwrap();
    all[..6]
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    writer.finish().unwrap();
    let mut writer = Writer::open(&store, often()).unwrap();
    writer.append(&all[6]).unwrap();
    drop(writer);
    fs::create_dir(&to).unwrap();
    let copied = copy(&store, &to).unwrap();
    let inode = |store: &Path, file: &str| fs::metadata(store.join(file)).unwrap().ino();
    let segments = parquet_files(&to);
    assert_eq!(
        (copied.segments, copied.linked, copied.journals),
        (segments.len() as u64, segments.len() as u64, 1)
    );
    for segment in segments {
        assert_eq!(inode(&to, &segment), inode(&store, &segment), "{segment}");
    }
    for file in ["catalog.db", "journal/4.tij", "journal/4.end"] {
        assert_ne!(inode(&to, file), inode(&store, file), "{file}");
    }
    // Data that expires in the store stays in the copy.
    let mut options = often();
    options.keep = RetentionPolicy {
        most_bytes: Some(0),
        now: || UtcMs(i64::MAX / 2),
        ..RetentionPolicy::default()
    };
    Writer::open(&store, options).unwrap().finish().unwrap();
    assert_eq!(parquet_files(&store).len(), 0);
    assert_eq!(whole(&to, &all).0, 7);
}

#[test]
fn damage_is_copied_with_what_tells_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, to) = (dir.path().join("store"), dir.path().join("copy"));
    let all = windows(12);
    let mut writer = Writer::open(&store, often()).unwrap();
    all[..6]
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    writer.finish().unwrap();
    let mut writer = Writer::open(&store, options("h")).unwrap();
    all[6..]
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    drop(writer);
    fs::remove_file(store.join(&parquet_files(&store)[0])).unwrap();
    let journal = store.join("journal/4.tij");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() / 2]).unwrap();
    let found = |store: &Path| {
        let findings = check(store).unwrap().findings.into_iter();
        findings
            .map(|found| {
                (
                    found.path.strip_prefix(store).unwrap().to_owned(),
                    found.why,
                )
            })
            .collect::<Vec<_>>()
    };
    let before = found(&store);
    assert_eq!(before.len(), 2, "{before:?}");
    copy(&store, &to).unwrap();
    assert_eq!(found(&to), before);
}

#[test]
fn a_place_that_is_not_free_is_refused_and_nothing_is_left_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    Writer::open(&store, often()).unwrap().finish().unwrap();
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/file"), "theirs").unwrap();
    for (to, why) in [
        ("full", "not empty"),
        ("full/file", "not a directory"),
        ("store/copy", "in the store"),
    ] {
        let refused = copy(&store, &dir.path().join(to)).unwrap_err();
        assert!(
            matches!(refused, StoreError::CopyTarget { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let nowhere = copy(&store, &dir.path().join("nowhere/copy")).unwrap_err();
    assert!(nowhere.to_string().contains("nowhere"), "{nowhere}");
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["full", "store"]);
}
