//! Events come from marks and from the health of windows, each once and as exactly as it is known.

use std::path::Path;

use trackiops_query::{Event, Outcome, Question, ask_events};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Mark;
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::{question, range};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::stalled;

/// Recorded until 40.5 s, from 50.25 s to 69.9 s, and from 70.3 s on.
fn eventful(store: &Path) {
    let mut first = windows(1, THREE, 1000, 41, 4);
    first[20].health.clock_steps = 1;
    for window in &mut first[30..33] {
        window.health.pending = Some(stalled("10.0.0.5", "srv:/even", 1500, 3));
    }
    first[40].health.covered_ms = 500;
    let mut second = windows(2, THREE + 50_000, 1000, 20, 4);
    second[0].health.covered_ms = 750;
    second[19].health.covered_ms = 900;
    let mut third = windows(3, THREE + 70_000, 1000, 10, 4);
    third[0].health.covered_ms = 700;
    third[9].health.pending = Some(stalled("10.0.0.6", "srv:/odd", 1200, 1));
    for windows in [first, second, third] {
        record(store, options_of("a", "1s,10s,1m,1h", "1m"), &windows);
    }
    let mark = Mark {
        time: UtcMs(THREE + 25_000),
        host: "a".into(),
        text: "backup begins".into(),
    };
    mark.add_to(store).unwrap();
}

/// The events, each with its time since 03:00:00.
fn events(question: &Question) -> Vec<(i64, &'static str, String)> {
    let Outcome::Found(answer) = ask_events(question).unwrap() else {
        return Vec::new();
    };
    let shown = |event: Event| (event.time.0 - THREE, event.kind.as_str(), event.text);
    answer.rows.into_iter().map(shown).collect()
}

fn expected(events: &[(i64, &'static str, &str)]) -> Vec<(i64, &'static str, String)> {
    let owned = |(time, kind, text): &(i64, &'static str, &str)| (*time, *kind, (*text).to_owned());
    events.iter().map(owned).collect()
}

#[test]
fn all_that_happened_is_listed_by_time() {
    let dir = tempfile::tempdir().unwrap();
    eventful(dir.path());
    let all = expected(&[
        (20_000, "clock-step", "the clock was set"),
        (25_000, "mark", "backup begins"),
        (30_000, "stall", "10.0.0.5 (srv:/even) does not answer"),
        (33_000, "stall-end", "10.0.0.5 (srv:/even) answers again"),
        (
            40_500,
            "recorder-ended",
            "the recorder ended: 9.75 s not recorded",
        ),
        (50_250, "recorder-started", "the recorder started"),
        (
            69_900,
            "recorder-restarted",
            "the recorder restarted: 0.4 s not recorded",
        ),
        // It may go on.
        (79_000, "stall", "10.0.0.6 (srv:/odd) does not answer"),
    ]);
    assert_eq!(events(&question(dir.path())), all);
}

#[test]
fn a_gap_that_the_range_cuts_has_no_event_at_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    eventful(dir.path());
    let mut asked = question(dir.path());
    asked.range = range(THREE - 60_000, THREE + 10_000);
    assert_eq!(
        events(&asked),
        expected(&[(0, "recorder-started", "the recorder started")])
    );
    asked.range = range(THREE + 35_000, THREE + 45_000);
    assert_eq!(
        events(&asked),
        expected(&[(
            40_500,
            "recorder-ended",
            "the recorder ended: 4.5 s not recorded"
        )])
    );
}

#[test]
fn a_recording_that_begins_and_ends_within_a_second_is_no_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 20, 4);
    recorded[0].health.covered_ms = 700;
    recorded[19].health.covered_ms = 600;
    record(dir.path(), options_of("a", "1s,10s", "1m"), &recorded);
    let mut asked = question(dir.path());
    // As a picture asks for the time of its answer.
    asked.range = range(THREE, THREE + 20_000);
    let ended = "the recorder ended: 0.4 s not recorded";
    assert_eq!(
        events(&asked),
        expected(&[
            (300, "recorder-started", "the recorder started"),
            (19_600, "recorder-ended", ended),
        ])
    );
}

#[test]
fn a_gap_where_the_clock_was_set_is_no_end_of_the_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let first = windows(1, THREE, 1000, 10, 4);
    let mut second = windows(2, THREE + 600_000, 1000, 10, 4);
    second[0].health.clock_steps = 1;
    let all = [first, second].concat();
    record(dir.path(), options_of("a", "1s,10s", "1h"), &all);
    let stepped = (600_000, "clock-step", "the clock was set");
    assert_eq!(events(&question(dir.path())), expected(&[stepped]));
}
