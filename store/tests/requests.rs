//! Single requests have an inventory: deleted, exchanged, moved and copied files are all noticed.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, RequestsView, Writer, check, ends_ns, rebuild_catalog};
use trackiops_testkit::stores::{copy, options, parquet_files};
use trackiops_testkit::windows::{T0, file, granularity, windows};

const BUDGET: u64 = 64 << 20;

fn often() -> Options {
    Options {
        rotate: granularity("5s"),
        ..options("h")
    }
}

/// Three requests in a second.
fn batch(second: i64) -> RequestBatch {
    let request = |i: i64| {
        let end_ns = (T0 + second * 1000) * 1_000_000 + i;
        Request::new(&RequestRecord::default(), end_ns, 0)
    };
    RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a"))],
        requests: (0..3).map(request).collect(),
    }
}

/// Records requests of these seconds, with a journal for every five.
fn record(store: &Path, seconds: std::ops::Range<i64>, is_finished: bool) {
    let mut writer = Writer::open(store, often()).unwrap();
    let mut requests = writer.requests(BUDGET, |_| {}).unwrap();
    for second in seconds {
        writer
            .append(&windows(second + 1)[second as usize])
            .unwrap();
        requests.append(&batch(second)).unwrap();
    }
    if is_finished {
        requests.finish().unwrap();
        writer.finish().unwrap();
    }
}

/// A store with sealed requests, and a journal left by a killed recorder.
fn recorded(store: &Path) {
    record(store, 0..10, true);
    record(store, 10..13, false);
}

/// Completion times of the requests, and names of files with notes.
fn read(store: &Path) -> (Vec<i64>, BTreeSet<String>) {
    let mut view = RequestsView::open(store).unwrap();
    let mut ends = Vec::new();
    view.read(0..i64::MAX, &mut |batch| {
        ends.extend_from_slice(ends_ns(&batch));
        Ok(true)
    })
    .unwrap();
    ends.sort_unstable();
    let unread = view.unread().iter().map(|unread| &unread.path);
    let noted = unread.chain(view.damaged().keys());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    (ends, noted.map(name).collect())
}

fn found(store: &Path) -> BTreeSet<String> {
    let findings = check(store).unwrap().findings.into_iter();
    let relative = |path: PathBuf| {
        path.strip_prefix(store)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    findings.map(|finding| relative(finding.path)).collect()
}

fn segments(store: &Path) -> Vec<String> {
    let mut files = parquet_files(store);
    files.retain(|path| path.starts_with("requests/"));
    files
}

#[test]
fn whatever_happens_to_a_file_is_noted_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    recorded(&store);
    let whole = read(&store);
    assert_eq!((whole.0.len(), whole.1.len()), (39, 0), "{whole:?}");
    assert_eq!(found(&store), BTreeSet::new());
    let files = segments(&store);
    assert_eq!(files.len(), 2);
    type Change<'c> = &'c dyn Fn(&Path);
    let first = |store: &Path| store.join(&files[0]);
    let second = |store: &Path| store.join(&files[1]);
    let journal_at = |store: &Path| store.join("journal/requests-3.tij");
    let changes: [(&str, Change<'_>, bool); 9] = [
        (
            "a segment deleted",
            &|of| fs::remove_file(first(of)).unwrap(),
            true,
        ),
        (
            "two exchanged",
            &|of| {
                let bytes = fs::read(first(of)).unwrap();
                fs::copy(second(of), first(of)).unwrap();
                fs::write(second(of), bytes).unwrap();
            },
            true,
        ),
        (
            "a segment in place of another",
            &|of| {
                fs::copy(second(of), first(of)).unwrap();
            },
            true,
        ),
        (
            "a segment copied",
            &|of| {
                let other = second(of).with_file_name("h-20261121T035200Z-108.parquet");
                fs::copy(second(of), other).unwrap();
            },
            false,
        ),
        (
            "a day copied",
            &|of| {
                copy(
                    &of.join("requests/date=2026-11-21"),
                    &of.join("requests/date=2026-11-20"),
                )
            },
            false,
        ),
        (
            "a journal deleted",
            &|of| {
                fs::remove_file(journal_at(of)).unwrap();
                fs::remove_file(journal_at(of).with_extension("end")).unwrap();
            },
            true,
        ),
        (
            "a journal copied",
            &|of| {
                fs::copy(journal_at(of), of.join("journal/requests-108.tij")).unwrap();
            },
            false,
        ),
        (
            "a journal renamed",
            &|of| {
                fs::rename(journal_at(of), of.join("journal/requests-2.tij")).unwrap();
            },
            true,
        ),
        (
            "the last byte flipped",
            &|of| {
                let mut bytes = fs::read(journal_at(of)).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                fs::write(journal_at(of), bytes).unwrap();
            },
            true,
        ),
    ];
    for (what, change, loses) in changes {
        let copied = dir.path().join("copy");
        let _ = fs::remove_dir_all(&copied);
        copy(&store, &copied);
        change(&copied);
        let (ends, noted) = read(&copied);
        assert!(!found(&copied).is_empty(), "{what}");
        match loses {
            true => assert!(!noted.is_empty() && ends.len() < 39, "{what}: {noted:?}"),
            false => assert_eq!(ends, whole.0, "{what}"),
        }
        // The next recorder loses no further requests.
        let before = ends.len();
        record(&copied, 20..21, true);
        let (ends, again) = read(&copied);
        assert_eq!(ends.len(), before + 3, "{what}");
        if loses {
            assert!(!again.is_empty(), "{what}");
        }
    }
}

#[test]
fn a_catalog_of_an_earlier_time_is_noticed_and_a_rebuilt_one_knows_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let catalog = store.join("catalog.db");
    record(store, 0..5, true);
    let older = fs::read(&catalog).unwrap();
    record(store, 5..15, true);
    let whole = read(store);
    assert_eq!((whole.0.len(), whole.1.len()), (45, 0), "{whole:?}");
    fs::write(&catalog, older).unwrap();
    let (ends, noted) = read(store);
    assert_eq!(
        (ends.len(), noted),
        (15, BTreeSet::from(["catalog.db".to_owned()]))
    );
    for is_lost in [false, true] {
        if is_lost {
            fs::remove_file(&catalog).unwrap();
        }
        assert_eq!(rebuild_catalog(store).unwrap().left_out, []);
        assert_eq!(read(store), whole);
        assert_eq!(found(store), BTreeSet::new());
    }
    // Damage stays known.
    let damaged = segments(store)[1].clone();
    let mut bytes = fs::read(store.join(&damaged)).unwrap();
    bytes[40] ^= 1;
    fs::write(store.join(&damaged), bytes).unwrap();
    for is_lost in [false, true] {
        if is_lost {
            fs::remove_file(&catalog).unwrap();
        }
        assert_eq!(rebuild_catalog(store).unwrap().lost.len(), 1);
        let (ends, noted) = read(store);
        assert_eq!((ends.len(), noted.len()), (30, 1), "{noted:?}");
        assert_eq!(found(store), BTreeSet::from([damaged.clone()]));
    }
}

#[test]
fn a_torn_end_is_noted_if_nothing_says_how_long_the_journal_was() {
    for is_deleted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        recorded(store);
        let journal = store.join("journal/requests-3.tij");
        let whole = fs::read(&journal).unwrap();
        fs::write(&journal, &whole[..whole.len() - 5]).unwrap();
        let end = journal.with_extension("end");
        match is_deleted {
            true => fs::remove_file(&end).unwrap(),
            false => fs::write(&end, "").unwrap(),
        }
        let (ends, noted) = read(store);
        let torn = "requests-3.tij".to_owned();
        assert_eq!((ends.len(), noted), (36, BTreeSet::from([torn])));
        let torn = "journal/requests-3.tij".to_owned();
        assert_eq!(found(store), BTreeSet::from([torn]));
        // Sealing keeps the note.
        record(store, 60..61, true);
        let torn = "requests-3.tij.damaged".to_owned();
        assert_eq!(read(store).1, BTreeSet::from([torn]), "{is_deleted}");
    }
}

#[test]
fn a_rebuilt_catalog_misses_journals_whose_segments_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let catalog = store.join("catalog.db");
    record(store, 0..20, true);
    let files = segments(store);
    assert_eq!(files.len(), 4, "{files:?}");
    fs::remove_file(store.join(&files[2])).unwrap();
    fs::remove_file(&catalog).unwrap();
    for _ in 0..2 {
        rebuild_catalog(store).unwrap();
        let (ends, noted) = read(store);
        let missing = "requests-3.tij".to_owned();
        assert_eq!((ends.len(), noted), (45, BTreeSet::from([missing])));
        let missing = "journal/requests-3.tij".to_owned();
        assert_eq!(found(store), BTreeSet::from([missing]));
        let view = RequestsView::open(store).unwrap();
        assert_eq!(view.deleted_before(), None);
    }
    // No later journal names the first one that is left. So those before it may be lost or deleted.
    fs::remove_file(store.join(&files[0])).unwrap();
    fs::remove_file(&catalog).unwrap();
    for _ in 0..2 {
        rebuild_catalog(store).unwrap();
        let view = RequestsView::open(store).unwrap();
        assert!(view.is_start_unknown());
        assert_eq!(view.deleted_before(), Some(UtcMs(T0 + 5000)));
    }
}

/// Every place at which the writer may be killed.
const PLACES: [&str; 13] = [
    "journal: end created",
    "journal: created",
    "journal: durable",
    "requests: append",
    "journal: end durable",
    "requests: named",
    "requests: seal",
    "requests: names durable",
    "catalog: written",
    "catalog: renamed",
    "requests: committed",
    "requests: expired",
    "journal: removed",
];

#[test]
#[ignore = "is run by the others, to be killed"]
fn writer() {
    let number = |name| env::var(name).unwrap().parse::<u64>().unwrap();
    let store = PathBuf::from(env::var("TRACKIOPS_TEST_STORE").unwrap());
    let writer = Writer::open(store, often()).unwrap();
    let mut requests = writer
        .requests(number("TRACKIOPS_TEST_BUDGET"), |_| {})
        .unwrap();
    let from = number("TRACKIOPS_TEST_FROM").cast_signed();
    for second in from..from + 12 {
        requests.append(&batch(second)).unwrap();
        println!("acknowledged {second}");
    }
    requests.finish().unwrap();
    writer.finish().unwrap();
}

/// Records requests from a second on until it is killed. Returns the acknowledged seconds, and whether it was killed.
fn killed(store: &Path, kill_at: &str, budget: u64, from: i64) -> (Vec<i64>, bool) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "writer", "--nocapture"])
        .env("TRACKIOPS_KILL_AT", kill_at)
        .env("TRACKIOPS_TEST_STORE", store)
        .env("TRACKIOPS_TEST_BUDGET", budget.to_string())
        .env("TRACKIOPS_TEST_FROM", from.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds = said
        .lines()
        .filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
    (seconds.collect(), output.status.signal().is_some())
}

#[test]
fn killed_at_every_step_nothing_is_lost_doubled_or_noted() {
    for (place, budget) in PLACES
        .iter()
        .flat_map(|place| [(place, BUDGET), (place, 0)])
    {
        let mut kills = 0;
        for time in 1..=2 {
            let dir = tempfile::tempdir().unwrap();
            let store = dir.path().join("store");
            let when = format!("{time} {place}");
            let mut acknowledged = Vec::new();
            for round in 0..2 {
                let (seconds, was_killed) = killed(&store, &when, budget, 20 * round);
                kills += u64::from(was_killed);
                acknowledged.extend(seconds);
                let Ok((ends, noted)) = std::panic::catch_unwind(|| read(&store)) else {
                    assert!(acknowledged.is_empty(), "{when}");
                    continue;
                };
                assert_eq!(noted, BTreeSet::new(), "{when}");
                assert_eq!(found(&store), BTreeSet::new(), "{when}");
                if budget > 0 {
                    let expected =
                        |second: &i64| batch(*second).requests.into_iter().map(|one| one.end_ns);
                    let expected: Vec<_> = acknowledged.iter().flat_map(expected).collect();
                    // The last batch may be written but not acknowledged.
                    let more: Vec<_> = ends.iter().filter(|end| !expected.contains(end)).collect();
                    assert!(more.len() <= 3 * (round as usize + 1), "{when}: {more:?}");
                    assert_eq!(ends.len(), expected.len() + more.len(), "{when}");
                }
            }
        }
        assert!(
            kills > 0 || *place == "requests: expired" && budget > 0,
            "{place} was never reached"
        );
    }
}

#[test]
fn a_journal_that_never_had_requests_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    record(&store, 0..5, true);
    let (seconds, was_killed) = killed(&store, "1 journal: durable", BUDGET, 5);
    assert!(seconds.is_empty() && was_killed);
    // The first of these seals it, and the next one must not name it.
    for seconds in [0..0, 20..21, 30..31] {
        record(&store, seconds, true);
        assert_eq!(read(&store).1, BTreeSet::new());
        assert_eq!(found(&store), BTreeSet::new());
    }
}

#[test]
fn what_the_budget_deletes_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    for session in 0..3 {
        let mut writer = Writer::open(store, often()).unwrap();
        let mut requests = writer.requests(0, |_| {}).unwrap();
        for second in 10 * session..10 * (session + 1) {
            writer
                .append(&windows(second + 1)[second as usize])
                .unwrap();
            requests.append(&batch(second)).unwrap();
            assert_eq!(read(store).1, BTreeSet::new(), "{second}");
        }
        requests
            .idle(UtcMs(T0 + 10 * (session + 1) * 1000))
            .unwrap();
        requests.finish().unwrap();
        writer.finish().unwrap();
        assert_eq!(segments(store), [""; 0]);
        assert_eq!((read(store), found(store)), Default::default());
    }
}
