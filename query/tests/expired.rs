//! If segments have expired, were merged or cannot be read, the remaining ones answer.

use std::path::Path;

use trackiops_query::coverage::note::Note;
use trackiops_query::{GroupBy, Outcome, QueryError, Step, ask};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Options, RetentionPolicy, Snapshot, Writer};
use trackiops_testkit::generated::{THREE, folded_windows, windows};
use trackiops_testkit::questions::{found, question, range, rows, straightforward};
use trackiops_testkit::stores::{options_of, record};

const LIST: &str = "1s,10s,1m,1h";

/// 400 s in journals of a minute. The first four are merged, and keep only their minutes and the hour.
fn keeping() -> Options {
    Options {
        keep: RetentionPolicy {
            retention: "10s=200s,1h=forever".parse().unwrap(),
            now: || UtcMs(THREE + 450_000),
            ..RetentionPolicy::default()
        },
        ..options_of("a", LIST, "1m")
    }
}

fn recorded(store: &Path) -> Vec<ClosedWindow> {
    let windows = folded_windows(3, THREE, 1000, 400, 8);
    record(store, options_of("a", LIST, "1m"), &windows);
    for options in [options_of("a", LIST, "1m"), keeping()] {
        for _ in 0..12 {
            let writer = Writer::open(store, options.clone()).unwrap();
            writer.finish().unwrap();
        }
    }
    windows
}

fn step(text: &str) -> Step {
    text.parse().unwrap()
}

#[test]
fn answers_are_exact_while_segments_are_merged_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let options = options_of("a", "1s,10s", "5s");
    record(
        dir.path(),
        options.clone(),
        &windows(3, THREE, 1000, 160, 4),
    );
    let segments = || {
        let snapshot = Snapshot::open(dir.path()).unwrap();
        snapshot.segments(Dataset::Rollup, None).unwrap().len()
    };
    let mut asked = question(dir.path());
    asked.step = Some(step("1s"));
    let (expected, before) = (rows(&found(&asked)), segments());
    let mut asks = 0;
    std::thread::scope(|scope| {
        // Each run merges once and deletes at once.
        let recorder = scope.spawn(|| {
            for _ in 0..12 {
                let writer = Writer::open(dir.path(), options.clone()).unwrap();
                writer.finish().unwrap();
            }
        });
        while !recorder.is_finished() {
            let answer = found(&asked);
            assert!(rows(&answer) == expected);
            let damage = |note: &&Note| matches!(note, Note::Damaged { .. });
            assert!(
                answer.notes.iter().find(damage).is_none(),
                "{:?}",
                answer.notes
            );
            asks += 1;
        }
    });
    assert!(asks > 0 && segments() + 12 < before, "{asks} {before}");
}

#[test]
fn a_segment_that_is_missing_for_good_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(3, THREE, 1000, 20, 4);
    record(dir.path(), options_of("a", "1s", "10s"), &windows);
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
    std::fs::remove_file(&segments[0].path).unwrap();
    let mut asked = question(dir.path());
    asked.step = Some(step("1s"));
    let answer = found(&asked);
    let is_missing =
        |note: &Note| matches!(note, Note::Damaged { why, .. } if why == "it is missing");
    assert!(answer.notes.iter().any(is_missing), "{:?}", answer.notes);
    let start = THREE + 10_000;
    let counts = |window: &ClosedWindow| window.start.0 >= start;
    let recordings = [("a", &windows[..])];
    let expected = straightforward(&recordings, counts, None, step("1s"), start, GroupBy::FILE);
    assert!(rows(&answer) == expected);
}

#[test]
fn coarse_windows_answer_where_fine_ones_have_expired() {
    let dir = tempfile::tempdir().unwrap();
    let windows = recorded(dir.path());
    // The range of the question, s; the step; the range of the answering windows, s.
    let cases = [
        ((0, 400), "all", (0, 400)),
        ((0, 400), "1m", (0, 400)),
        ((0, 400), "1h", (0, 400)),
        ((250, 400), "1s", (250, 400)),
        ((241, 399), "all", (241, 399)),
        ((245, 395), "5s", (245, 395)),
        // Of the first minutes, only minutes remain.
        ((61, 119), "all", (60, 120)),
        ((61, 390), "all", (60, 390)),
    ];
    for ((since, until), text, (first, last)) in cases {
        let mut asked = question(dir.path());
        asked.step = Some(step(text));
        asked.range = range(THREE + since * 1000, THREE + until * 1000);
        let from = THREE + first * 1000;
        let counts = |window: &ClosedWindow| (from..THREE + last * 1000).contains(&window.start.0);
        let recordings = [("a", &windows[..])];
        let start = THREE + since * 1000;
        let expected = straightforward(&recordings, counts, None, step(text), start, GroupBy::FILE);
        assert!(rows(&found(&asked)) == expected, "{since}..{until} {text}");
    }
    let mut asked = question(dir.path());
    asked.range = range(THREE, THREE + 100_000);
    asked.step = Some(step("1s"));
    let refused = ask(&asked);
    assert!(matches!(refused, Err(QueryError::StepNotRecorded { .. })));
    asked.step = None;
    assert_eq!(found(&asked).step, step("1m"), "the finest that is left");
}

#[test]
fn a_segment_that_cannot_be_read_is_told_and_another_granularity_answers() {
    for dataset in [Dataset::Rollup, Dataset::Health] {
        let dir = tempfile::tempdir().unwrap();
        let windows = recorded(dir.path());
        let recordings = [("a", &windows[..])];
        let mut asked = question(dir.path());
        asked.step = Some(Step::All);
        let everything =
            straightforward(&recordings, |_| true, None, Step::All, THREE, GroupBy::FILE);
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let hours = snapshot.segments(dataset, None).unwrap();
        let hour = hours
            .iter()
            .rfind(|s| s.granularity.ms() == 3_600_000)
            .unwrap();
        std::fs::remove_file(&hour.path).unwrap();
        let answer = found(&asked);
        assert!(rows(&answer) == everything, "{dataset:?}");
        let told = |note: &Note| matches!(note, Note::Damaged { path, .. } if *path == hour.path);
        assert!(answer.notes.iter().any(told), "{:?}", answer.notes);
    }
}

#[test]
fn where_no_other_granularity_adds_up_to_the_step_the_rest_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let mut asked = question(dir.path());
    asked.step = Some(step("1s"));
    asked.range = range(THREE + 340_000, THREE + 400_000);
    let before = found(&asked).rows.len();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let seconds = snapshot.segments(Dataset::Rollup, None).unwrap();
    let seconds = seconds
        .iter()
        .rfind(|s| s.granularity.ms() == 1000)
        .unwrap();
    std::fs::write(&seconds.path, "PAR1").unwrap();
    match ask(&asked).unwrap() {
        Outcome::Found(answer) => {
            assert!(answer.rows.len() < before);
            let is_damage = |note: &Note| matches!(note, Note::Damaged { .. });
            assert!(answer.notes.iter().any(is_damage));
        }
        Outcome::Nothing { why, .. } => panic!("{why:?}"),
    }
}
