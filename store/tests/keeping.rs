//! Merging, expiring and deleting change neither the remaining data nor what readers see of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::path::Path;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Dataset, Options, RetentionPolicy, Snapshot, Writer, check, rebuild_catalog,
};
use trackiops_testkit::content::{Content, of, rows};
use trackiops_testkit::stores::options;
use trackiops_testkit::stores::{journals, parquet_files};
use trackiops_testkit::windows::{T0, file, granularity, named, reads, used_by, window, windows};

fn keeping(keep: RetentionPolicy) -> Options {
    Options {
        rotate: granularity("10s"),
        keep,
        ..options("h")
    }
}

fn at_t0() -> RetentionPolicy {
    RetentionPolicy {
        now: || UtcMs(T0),
        ..RetentionPolicy::default()
    }
}

/// Long after the windows from `T0` on, and after the grace period of readers.
fn later() -> RetentionPolicy {
    RetentionPolicy {
        now: || UtcMs(T0 + 3_600_000),
        ..RetentionPolicy::default()
    }
}

/// Opens and closes the store until nothing is left to do.
fn settle(store: &Path, keep: &RetentionPolicy) {
    let mut files = 0;
    while files != parquet_files(store).len() {
        files = parquet_files(store).len();
        for _ in 0..5 {
            Writer::open(store, keeping(keep.clone()))
                .unwrap()
                .finish()
                .unwrap();
        }
    }
}

fn journals_of(store: &Path, text: &str) -> Vec<(u64, u64)> {
    let snapshot = Snapshot::open(store).unwrap();
    let segments = of(&snapshot, Dataset::Rollup, granularity(text)).into_iter();
    segments.map(|s| (s.journal, s.last_journal)).collect()
}

#[test]
fn small_segments_become_one_and_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(100);
    let mut writer = Writer::open(dir.path(), keeping(at_t0())).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
    settle(dir.path(), &at_t0());
    assert_eq!(
        journals_of(dir.path(), "1s"),
        [(1, 4), (5, 8), (9, 9), (10, 10)]
    );
    // Merged segments are deleted when the recorder ends, at any time.
    let files = parquet_files(dir.path());
    let reader = Snapshot::open(dir.path()).unwrap();
    settle(dir.path(), &later());
    assert_eq!(parquet_files(dir.path()), files);
    for text in ["1s", "10s", "1m", "1h"] {
        let granularity = granularity(text);
        let expected = Content::of(&windows, granularity);
        assert_eq!(Content::stored(dir.path(), granularity), expected, "{text}");
        assert_eq!(journals_of(dir.path(), text).len(), 4, "{text}");
    }
    // Merging joins the parts of a coarse window that a rotation had split.
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let hours = of(&snapshot, Dataset::Rollup, granularity("1h"));
    assert_eq!(hours[0].rows, 2);
    drop(reader);
    assert_eq!(check(dir.path()).unwrap().findings, []);
    rebuild_catalog(dir.path()).unwrap();
    assert_eq!(journals_of(dir.path(), "1s").len(), 4);
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

#[test]
fn merged_rows_of_a_renamed_user_are_one_with_the_last_known_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), keeping(at_t0())).unwrap();
    let file = used_by(&file(1, 49, Some("/mnt/a")), "1000:/a.service");
    for i in 0..40 {
        // A separate journal for each user name.
        let file = match i / 10 {
            1 => named(&file, "alice"),
            2 => named(&file, "bob"),
            _ => file.clone(),
        };
        let window = window(T0 + i * 1000, vec![(file, reads(2))]);
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
    settle(dir.path(), &later());
    assert_eq!(journals_of(dir.path(), "1h"), [(1, 4)]);
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let hours = of(&snapshot, Dataset::Rollup, granularity("1h"));
    let rows = rows(&hours[0]).into_iter();
    let rows: Vec<_> = rows.map(|(id, row)| (id.user, row.read.requests)).collect();
    assert_eq!(rows, [(Some("bob".to_owned()), 80)]);
    assert_eq!(check(dir.path()).unwrap().findings, []);
}

#[test]
fn a_granularity_expires_at_its_age_and_coarser_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(60);
    let keep = RetentionPolicy {
        retention: "1s=30s,10s=1h,1h=forever".parse().unwrap(),
        gaps_age: true,
        now: || UtcMs(T0 + 60_000),
        ..RetentionPolicy::default()
    };
    let mut writer = Writer::open(dir.path(), keeping(keep.clone())).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
    settle(dir.path(), &keep);
    let fine = Content::stored(dir.path(), granularity("1s"));
    let first = fine.health.keys().next().unwrap();
    assert!(first.0 >= T0 + 20_000, "{}", first.0 - T0);
    for text in ["10s", "1m", "1h"] {
        let granularity = granularity(text);
        let expected = Content::of(&windows, granularity);
        assert_eq!(Content::stored(dir.path(), granularity), expected, "{text}");
    }
    assert_eq!(check(dir.path()).unwrap().findings, []);
    // After years only data without an age limit remains. Minutes are not listed, so they inherit the limit of hours.
    let keep = RetentionPolicy {
        now: || UtcMs(T0 + 86_400_000_000),
        ..keep
    };
    settle(dir.path(), &keep);
    let keep = RetentionPolicy {
        now: || UtcMs(T0 + 86_500_000_000),
        ..keep
    };
    settle(dir.path(), &keep);
    let left = parquet_files(dir.path());
    assert!(
        left.iter()
            .all(|file| file.contains("=1h") || file.contains("=1m")),
        "{left:?}"
    );
    let hour = granularity("1h");
    assert_eq!(
        Content::stored(dir.path(), hour),
        Content::of(&windows, hour)
    );
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let span = Snapshot::open(dir.path()).unwrap().span();
    assert_eq!(span, Some((UtcMs(T0), UtcMs(T0 + 60_000))));
}

#[test]
fn what_is_sealed_late_is_not_taken_for_a_part_of_what_was_merged_before() {
    let dir = tempfile::tempdir().unwrap();
    // Sealing fails for the second of five journals.
    let segment = "rollup/granularity=1s/date=2026-11-21/.h-20261121T035210Z-2.parquet.tmp";
    let obstacle = dir.path().join(segment);
    let open = || Writer::open(dir.path(), keeping(at_t0())).unwrap();
    let mut writer = open();
    std::fs::create_dir_all(obstacle.join("in the way")).unwrap();
    for window in &windows(50) {
        while writer.append(window).is_err() {}
    }
    assert!(writer.finish().is_err());
    for _ in 0..5 {
        assert!(open().finish().is_err());
    }
    assert_eq!(journals(dir.path()), ["2.tij"]);
    std::fs::remove_dir_all(obstacle).unwrap();
    // The first two expire.
    let keep = RetentionPolicy {
        retention: "1s=25s,10s=forever".parse().unwrap(),
        gaps_age: true,
        now: || UtcMs(T0 + 50_000),
        ..RetentionPolicy::default()
    };
    settle(dir.path(), &keep);
    assert_eq!(check(dir.path()).unwrap().findings, []);
    assert_eq!(journals_of(dir.path(), "1s"), [(3, 3), (4, 4), (5, 5)]);
    assert_eq!(journals_of(dir.path(), "10s"), [(1, 4), (5, 5)]);
}

#[test]
fn where_everything_has_expired_recording_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let keep = RetentionPolicy {
        retention: "1h=1s".parse().unwrap(),
        gaps_age: true,
        now: || UtcMs(T0 + 86_400_000),
        ..RetentionPolicy::default()
    };
    let mut writer = Writer::open(dir.path(), keeping(keep.clone())).unwrap();
    for window in windows(30) {
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
    settle(dir.path(), &keep);
    assert_eq!(Snapshot::open(dir.path()).unwrap().granularities(), []);
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let mut writer = Writer::open(dir.path(), keeping(at_t0())).unwrap();
    writer.append(&windows(1)[0]).unwrap();
    drop(writer);
    assert_eq!(
        journals(dir.path()),
        ["4.tij"],
        "numbers are not used again"
    );
}

#[test]
fn room_is_made_by_what_is_finest_and_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(60);
    let mut writer = Writer::open(dir.path(), keeping(at_t0())).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
    let bytes = |store: &Path| -> u64 {
        let files = parquet_files(store).into_iter();
        files
            .map(|file| std::fs::metadata(store.join(file)).unwrap().len())
            .sum()
    };
    // Beside the catalog are the writer's copy, and room for the next catalog, which may grow by 64 KiB.
    let catalog = std::fs::metadata(dir.path().join("catalog.db")).unwrap();
    let other = 3 * catalog.len() + (64 << 10);
    let all = bytes(dir.path());
    let keep = RetentionPolicy {
        most_bytes: Some(other + all / 2),
        ..later()
    };
    settle(dir.path(), &keep);
    let keep = RetentionPolicy {
        now: || UtcMs(T0 + 2 * 3_600_000),
        ..keep
    };
    settle(dir.path(), &keep);
    assert!(
        bytes(dir.path()) <= all / 2,
        "{} of {all}",
        bytes(dir.path())
    );
    let hour = granularity("1h");
    assert_eq!(
        Content::stored(dir.path(), hour),
        Content::of(&windows, hour)
    );
    assert!(journals_of(dir.path(), "1s").is_empty());
    assert_eq!(check(dir.path()).unwrap().findings, []);
}
