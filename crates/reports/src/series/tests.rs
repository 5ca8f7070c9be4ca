#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use trackiops_query::Range as TimeRange;
use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::row::ClosedWindow;
use trackiops_testkit::questions::question;
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::{file, granularity, reads, used_by, window};

use super::*;

/// Midnight, 2026-11-21.
const T0: i64 = 1_795_219_200_000;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reads(u64);

impl Sums for Reads {
    fn add(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

fn of(uid: u32) -> Arc<FileAttributes> {
    used_by(&file(1, 49, Some("/mnt/a")), &format!("{uid}:/a.slice"))
}

/// A second with reads of some users.
fn second(at: i64, users: &[(u32, u64)]) -> ClosedWindow {
    let rows = users.iter().map(|(uid, count)| (of(*uid), reads(*count)));
    window(T0 + 1000 * at, rows.collect())
}

fn keep(dir: &Path, host: &str, windows: &[ClosedWindow]) {
    record(&dir.join(host), options_of(host, "1s,10s", "1m"), windows);
}

fn ask_all(
    dir: &Path,
    hosts: &[&str],
    range: TimeRange,
    by: &str,
) -> Result<SeriesSet<Reads>, String> {
    let mut question = question(&dir.join(hosts[0]));
    question.stores = hosts.iter().map(|host| dir.join(host)).collect();
    question.range = range;
    let made = ask_series(
        &question,
        by.parse().unwrap(),
        granularity("10s"),
        Projection::new(["read_requests"]),
        |row| Reads(row.sum.read().requests),
    );
    made.unwrap().map_err(|(why, _)| format!("{why:?}"))
}

fn rates(set: &SeriesSet<Reads>, place: usize) -> Vec<Option<f64>> {
    set.rates(&set.series[place], |reads| reads.0)
}

#[test]
fn idle_is_zero_and_what_was_not_recorded_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    // 20 s with requests, 20 s idle, 20 s not recorded, 5 s with requests.
    let busy = (0..20).map(|at| second(at, &[(7, 3)]));
    let idle = (20..40).map(|at| second(at, &[]));
    let later = (60..65).map(|at| second(at, &[(7, 6)]));
    let windows: Vec<_> = busy.chain(idle).chain(later).collect();
    keep(dir.path(), "h", &windows);
    let set = ask_all(dir.path(), &["h"], TimeRange::default(), "tenant").unwrap();
    let some = |rate| Some(rate);
    assert_eq!(
        rates(&set, 0),
        [
            some(3.0),
            some(3.0),
            some(0.0),
            some(0.0),
            None,
            None,
            some(6.0)
        ]
    );
    let series = &set.series[0];
    assert_eq!(set.recorded_ms(series, 0..7), 45_000);
    assert_eq!(set.recorded_ms(series, 4..6), 0);
    assert_eq!(series.sum(0..7), Reads(90));
    assert_eq!(series.sum(6..7), Reads(30));
    assert_eq!(set.recorded_in_words(), "recorded of 65 s: 45 s on h");
}

#[test]
fn hosts_that_record_in_parallel_add_up_unless_they_are_apart() {
    let dir = tempfile::tempdir().unwrap();
    let one: Vec<_> = (0..30).map(|at| second(at, &[(7, 2)])).collect();
    // The other host recorded from the second interval on, and only half of that one.
    let other: Vec<_> = (15..30).map(|at| second(at, &[(7, 4)])).collect();
    keep(dir.path(), "h", &one);
    keep(dir.path(), "i", &other);
    let all = ask_all(dir.path(), &["h", "i"], TimeRange::default(), "tenant").unwrap();
    assert_eq!(all.series.len(), 1);
    assert_eq!(rates(&all, 0), [Some(2.0), Some(6.0), Some(6.0)]);
    assert_eq!(all.recorded_ms(&all.series[0], 0..3), 30_000);
    assert_eq!(all.series[0].sum(0..3), Reads(120));
    let apart = ask_all(dir.path(), &["h", "i"], TimeRange::default(), "tenant,host").unwrap();
    assert_eq!(apart.series.len(), 2);
    assert_eq!(rates(&apart, 0), [Some(2.0); 3]);
    assert_eq!(rates(&apart, 1), [None, Some(4.0), Some(4.0)]);
    assert_eq!(apart.series[1].subject.host.as_deref(), Some("i"));
    // Both hosts have the same file.
    let files = ask_all(dir.path(), &["h", "i"], TimeRange::default(), "file").unwrap();
    assert_eq!(files.series.len(), 1);
}

#[test]
fn one_store_named_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let one: Vec<_> = (0..30).map(|at| second(at, &[(7, 2)])).collect();
    keep(dir.path(), "h", &one);
    let twice = ask_all(dir.path(), &["h", "h"], TimeRange::default(), "tenant").unwrap();
    assert_eq!(rates(&twice, 0), [Some(2.0); 3]);
}

#[test]
fn rows_of_one_tenant_at_several_levels_are_not_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let on_device = Arc::new(FileAttributes {
        level: IoLevel::Block,
        mount: Some("/dev/sda1".into()),
        key: FileKey(77),
        ..(*of(7)).clone()
    });
    let second = |at: i64| {
        let wire = (at >= 10).then(|| (of(7), reads(2)));
        let rows = wire
            .into_iter()
            .chain([(Arc::clone(&on_device), reads(50))]);
        window(T0 + 1000 * at, rows.collect())
    };
    let windows: Vec<_> = (0..30).map(second).collect();
    keep(dir.path(), "h", &windows);
    for by in ["tenant", "host", "mount", "file"] {
        let set = ask_all(dir.path(), &["h"], TimeRange::default(), by).unwrap();
        assert_eq!((set.level, set.series.len()), (IoLevel::Wire, 1), "{by}");
        assert_eq!(set.series[0].sum(0..set.intervals.count), Reads(40), "{by}");
        // Another range of the same report has the same level, also if nothing is there.
        let asked = set.at_their_level(&question(&dir.path().join("h")));
        assert_eq!(asked.levels, [IoLevel::Wire]);
    }
    let before = TimeRange {
        since: None,
        until: Some(UtcMs(T0 + 10_000)),
    };
    let set = ask_all(dir.path(), &["h"], before, "tenant").unwrap();
    assert_eq!(set.level, IoLevel::Block);
    assert_eq!(set.series[0].sum(0..set.intervals.count), Reads(500));
}

#[test]
fn who_comes_late_was_idle_before() {
    let dir = tempfile::tempdir().unwrap();
    let users = |at| match at {
        25.. => vec![(7, 1), (8, 10)],
        _ => vec![(7, 1)],
    };
    let windows: Vec<_> = (0..40).map(|at| second(at, &users(at))).collect();
    keep(dir.path(), "h", &windows);
    let set = ask_all(dir.path(), &["h"], TimeRange::default(), "tenant").unwrap();
    assert_eq!(
        rates(&set, 1),
        [Some(0.0), Some(0.0), Some(5.0), Some(10.0)]
    );
    // The range begins and ends within an interval.
    let range = TimeRange {
        since: Some(UtcMs(T0 + 5000)),
        until: Some(UtcMs(T0 + 33_000)),
    };
    let part = ask_all(dir.path(), &["h"], range, "tenant").unwrap();
    assert_eq!(
        rates(&part, 1),
        [Some(0.0), Some(0.0), Some(5.0), Some(10.0)]
    );
    assert_eq!(part.recorded_ms(&part.series[0], 0..4), 28_000);
}

#[test]
fn an_empty_range_has_no_series() {
    let dir = tempfile::tempdir().unwrap();
    let windows: Vec<_> = (0..20).map(|at| second(at, &[])).collect();
    keep(dir.path(), "h", &windows);
    let none = ask_all(dir.path(), &["h"], TimeRange::default(), "tenant").unwrap_err();
    assert!(none.contains("Idle"), "{none}");
    let later = TimeRange {
        since: Some(UtcMs(T0 + 50_000)),
        until: Some(UtcMs(T0 + 60_000)),
    };
    let none = ask_all(dir.path(), &["h"], later, "tenant").unwrap_err();
    assert!(none.contains("NotRecorded"), "{none}");
}

#[test]
fn a_range_may_have_too_many_intervals() {
    let year = Interval::new(UtcMs(0), UtcMs(366 * 86_400_000));
    assert_eq!(
        Intervals::covering(year, granularity("1m")).unwrap().count,
        527_040
    );
    let error = Intervals::covering(year, granularity("1s"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("--interval"), "{error}");
}
