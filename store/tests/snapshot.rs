//! What readers see, during a recording and after it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trackiops_schemas::identity::{Dev, FileAttributes, FileKey};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Names, Snapshot, Writer};
use trackiops_testkit::content::{Content, of, rows};
use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{T0, file, granularity, reads, window, windows};

#[test]
fn a_window_is_visible_when_append_returns() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("web-1")).unwrap();
    assert_eq!(Snapshot::open(dir.path()).unwrap().span(), None);
    let windows = windows(5);
    for (i, window) in windows.iter().enumerate() {
        writer.append(window).unwrap();
        let content = Content::stored(dir.path(), granularity("1s"));
        assert_eq!(content, Content::of(&windows[..=i], granularity("1s")));
    }
    let snapshot = Snapshot::open(dir.path()).unwrap();
    assert_eq!(snapshot.granularities(), [granularity("1s")]);
    assert_eq!(snapshot.span(), Some((UtcMs(T0), UtcMs(T0 + 5000))));
    let [tail] = snapshot.tails() else {
        panic!("one journal is open")
    };
    assert_eq!(
        (tail.host(), tail.granularity()),
        ("web-1", granularity("1s"))
    );

    writer.append(&window(T0 + 5000, vec![])).unwrap();
    let mut seen = 0;
    tail.windows(&mut |_| seen += 1).unwrap();
    assert_eq!(seen, 5, "a snapshot does not move");
}

#[test]
fn a_reader_beside_a_sealing_writer_sees_every_window_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("2s");
    let windows = windows(120);
    let appended = Arc::new(AtomicUsize::new(0));
    let mut writer = Writer::open(dir.path(), options).unwrap();
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            for (i, window) in windows.iter().enumerate() {
                writer.append(window).unwrap();
                appended.store(i + 1, Ordering::SeqCst);
            }
            writer.finish().unwrap();
        });
        loop {
            let over = recorder.is_finished();
            let before = appended.load(Ordering::SeqCst);
            let content = Content::stored(dir.path(), granularity("1s"));
            let seen = content.health.len();
            assert!(seen >= before, "{seen} of {before}");
            assert_eq!(content, Content::of(&windows[..seen], granularity("1s")));
            if over {
                break;
            }
        }
    });
    assert_eq!(
        Content::stored(dir.path(), granularity("1h")),
        Content::of(&windows, granularity("1h"))
    );
}

#[test]
fn rotation_seals_while_recording_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("10s");
    let mut writer = Writer::open(dir.path(), options).unwrap();
    let windows = windows(25);
    windows
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    assert!(snapshot.tails().is_empty());
    let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
    let finest: Vec<_> = segments
        .iter()
        .filter(|s| s.granularity == granularity("1s"))
        .collect();
    let spans: Vec<_> = finest
        .iter()
        .map(|s| (s.journal, (s.end.0 - s.start.0) / 1000))
        .collect();
    assert_eq!(spans, [(1, 10), (2, 10), (3, 5)]);
    let all = ["1s", "10s", "1m", "1h"].map(granularity);
    assert_eq!(snapshot.granularities(), all);

    let range = Some((UtcMs(T0 + 10_000), UtcMs(T0 + 20_000)));
    let mut overlapping = snapshot.segments(Dataset::Health, range).unwrap();
    overlapping.retain(|segment| segment.granularity == granularity("1s"));
    assert_eq!(
        overlapping.iter().map(|s| s.journal).collect::<Vec<_>>(),
        [2]
    );
}

/// Volumes of one export share a device, and a file may be on several mounts.
#[test]
fn a_file_is_found_by_its_numbers_on_each_of_its_mounts_and_a_mount_has_one_period_on_a_device() {
    let dir = tempfile::tempdir().unwrap();
    let on = |fileid, dev, mount: &str| {
        Arc::new(FileAttributes {
            mount: Some(mount.to_owned()),
            ..(*file(fileid, dev, None)).clone()
        })
    };
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for i in 0..4 {
        let files = [
            on(1, 49, "s:/e/one"),
            on(2, 49, "s:/e/two"),
            on(3, 49, "s:/e/one"),
            on(4, 49, "s:/e/two"),
            on(1, 50, "s:/e/one,vers=3"),
        ];
        // Its key is the same: it is the same file.
        let rows = files.map(|file| (file, reads(1)));
        writer.append(&window(T0 + i * 1000, rows.into())).unwrap();
    }
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let key = file(1, 49, None).key;
    for dev in [49, 50] {
        let dev = Dev::new(0, dev).unwrap();
        assert_eq!(snapshot.files_with_id(dev, 1).unwrap(), [key], "{dev}");
    }
    let catalog = rusqlite::Connection::open(dir.path().join("catalog.db")).unwrap();
    let periods = "SELECT count(*), count(DISTINCT dev || mount) FROM mount_period";
    let periods: (i64, i64) = catalog
        .query_row(periods, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(
        periods,
        (4, 4),
        "and one for the file's first mount on 0:50"
    );
}

/// Checks the same queries against a journal and against the catalog.
fn names_and_ids_resolve(store: &Path) {
    let snapshot = Snapshot::open(store).unwrap();
    let key = |fileid| file(fileid, 49, None).key;
    let names = |names| {
        let mut keys = Vec::new();
        snapshot
            .names(names, &mut |name| keys.push(name.key))
            .unwrap();
        keys.sort();
        keys.dedup();
        keys
    };
    let named = |path| names(Names::Exactly(path));
    let mut both = vec![key(1), key(2)];
    both.sort();
    assert_eq!(
        named("/mnt/a"),
        both,
        "the name passed from file 1 to file 2"
    );
    assert_eq!(named("/mnt/old"), [key(2)]);
    assert_eq!(named("/mnt/none"), []);
    assert_eq!(names(Names::Below("/mnt")), names(Names::All));
    assert_eq!(names(Names::Below("/mnt/a")), both, "the name itself");
    assert_eq!(names(Names::Below("/mn")), []);
    assert_eq!(names(Names::Below("")), names(Names::All));
    assert_eq!(
        snapshot.mount_roots().unwrap().of(Some("srv:/export"), ""),
        "/mnt"
    );
    let histories = snapshot.histories(&[key(2)]).unwrap();
    let at = |s: i64| UtcMs(T0 + s * 1000);
    let names = [("/mnt/old", (at(0), at(1))), ("/mnt/a", (at(1), at(2)))];
    let names = names.map(|(name, seen)| (name.to_owned(), seen));
    assert_eq!(histories[&key(2)].names, names);
    assert_eq!(histories[&key(2)].seen, (at(0), at(2)));
    let with_id = |dev, fileid| {
        snapshot
            .files_with_id(Dev::new(0, dev).unwrap(), fileid)
            .unwrap()
    };
    assert_eq!(with_id(49, 1), [key(1)]);
    assert_eq!(with_id(50, 1), [key(1)], "the same export, mounted again");
    assert_eq!(with_id(51, 1), []);
    assert_eq!(with_id(60, 9).len(), 1);
    assert_eq!(with_id(61, 9).len(), 1);
    assert_ne!(with_id(60, 9), with_id(61, 9), "two unknown mounts");
}

#[test]
fn names_and_ids_resolve_in_journals_and_in_the_catalog() {
    let unknown = |dev| {
        let file = file(9, dev, None);
        Arc::new(FileAttributes {
            key: FileKey::new(None, file.id),
            mount: None,
            ..(*file).clone()
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let early = vec![
        (file(1, 49, Some("/mnt/a")), reads(1)),
        (file(2, 49, Some("/mnt/old")), reads(1)),
        (unknown(60), reads(1)),
    ];
    let late = vec![
        (file(1, 50, None), reads(1)),
        (file(2, 49, Some("/mnt/a")), reads(1)),
        (unknown(61), reads(1)),
    ];
    writer.append(&window(T0, early)).unwrap();
    writer.append(&window(T0 + 1000, late)).unwrap();
    names_and_ids_resolve(dir.path());
    writer.finish().unwrap();
    names_and_ids_resolve(dir.path());
}

#[test]
fn two_hosts_recorded_one_after_the_other_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    for host in ["a-1", "b-2"] {
        let mut writer = Writer::open(dir.path(), options(host)).unwrap();
        windows(2)
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        writer.finish().unwrap();
    }
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let mut hosts = Vec::new();
    for segment in of(&snapshot, Dataset::Rollup, granularity("1s")) {
        assert_eq!(rows(&segment).len(), 4);
        hosts.push(segment.host);
    }
    assert_eq!(hosts, ["a-1", "b-2"]);
}
