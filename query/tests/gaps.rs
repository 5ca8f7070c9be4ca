//! Notes distinguish missing data from idle time.

use std::path::Path;

use trackiops_query::columns::Value;
use trackiops_query::{
    Columns, EmptyReason, GroupBy, Outcome, Projection, Question, Range, Step, ask,
};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file, windows};
use trackiops_testkit::questions::{found, question, range, rows, select, straightforward};
use trackiops_testkit::stores::{append, options_of, record};

const LIST: &str = "1s,10s,1m,1h";

fn notes(question: &Question) -> Vec<String> {
    let notes = match ask(question).unwrap() {
        Outcome::Found(answer) => answer.notes,
        Outcome::Nothing { notes, .. } => notes,
    };
    notes.iter().map(|note| note.show(question.zone)).collect()
}

/// Recorded from 03:00:00.300 to 03:01:40.600, and from 03:04:10.250 to 03:05:00.
fn restarted(store: &Path) -> Vec<ClosedWindow> {
    let mut first = windows(1, THREE, 1000, 101, 4);
    first[0].health.covered_ms = 700;
    first[100].health.covered_ms = 600;
    let mut second = windows(2, THREE + 250_000, 1000, 50, 4);
    second[0].health.covered_ms = 750;
    record(store, options_of("a", LIST, "1m"), &first);
    record(store, options_of("a", LIST, "1m"), &second);
    first.into_iter().chain(second).collect()
}

#[test]
fn a_restart_is_told_to_the_millisecond_at_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = restarted(dir.path());
    let local = "times are local, UTC+00:00".to_owned();
    for text in ["1s", "10s", "1m", "1h", "all"] {
        let mut asked = question(dir.path());
        asked.step = Some(text.parse().unwrap());
        let expected = "2026-11-21 03:01:40.600 to 03:04:10.250 not recorded".to_owned();
        assert_eq!(notes(&asked), [local.clone(), expected], "{text}");
        let step: Step = text.parse().unwrap();
        let sums = straightforward(
            &[("a", &recorded)],
            |_| true,
            None,
            step,
            THREE,
            GroupBy::FILE,
        );
        assert!(rows(&found(&asked)) == sums, "{text}");
    }
}

#[test]
fn who_asks_for_more_than_was_recorded_is_told() {
    let dir = tempfile::tempdir().unwrap();
    restarted(dir.path());
    let mut asked = question(dir.path());
    asked.range = range(THREE - 3_600_000, THREE + 60_000);
    assert_eq!(
        notes(&asked)[1..],
        ["2026-11-21 02:00:00 to 03:00:00.300 not recorded"]
    );
    asked.range = range(THREE + 270_000, THREE + 3_600_000);
    assert_eq!(
        notes(&asked)[1..],
        ["2026-11-21 03:05:00 to 04:00:00 not recorded"]
    );
    // With only a start, the range extends to the present ...
    asked.range.until = None;
    asked.now = UtcMs(THREE + 400_000);
    assert_eq!(
        notes(&asked)[1..],
        ["2026-11-21 03:05:00 to 03:06:40 not recorded"]
    );
    // ... except for windows that a running recorder has not closed yet.
    asked.now = UtcMs(THREE + 302_000);
    assert_eq!(notes(&asked), [""; 0]);
}

#[test]
fn restarts_of_milliseconds_are_noted_once_they_are_a_second_together() {
    let dir = tempfile::tempdir().unwrap();
    let restarted = |seed: u64| {
        let start = THREE + 20_000 * seed.cast_signed();
        let mut recorded = windows(seed, start, 1000, 21, 4);
        recorded[0].health.covered_ms = if seed == 0 { 1000 } else { 300 };
        recorded[20].health.covered_ms = 300;
        record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    };
    restarted(0);
    restarted(1);
    assert_eq!(notes(&question(dir.path())), [""; 0]);
    restarted(2);
    restarted(3);
    let told = notes(&question(dir.path()));
    assert_eq!(told, ["3 more gaps not recorded, 1.2 s in all"]);
}

#[test]
fn rates_divide_by_the_time_that_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    restarted(dir.path());
    let mut asked = question(dir.path());
    asked.step = Some("1m".parse().unwrap());
    let covered: std::collections::BTreeMap<_, _> = found(&asked)
        .rows
        .iter()
        .map(|row| ((row.time.0 - THREE) / 60_000, row.covered_ms))
        .collect();
    let expected = [(0, 59_700), (1, 40_600), (4, 49_750)];
    assert_eq!(covered.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn time_without_calls_is_the_same_at_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 180, 4);
    for (number, window) in recorded.iter_mut().enumerate() {
        // Only in the second of three minutes.
        let is_with = (60..120).contains(&number);
        window.health.app_covered_ms = if is_with { 1000 } else { 0 };
    }
    record(dir.path(), options_of("a", LIST, "1h"), &recorded);
    for text in ["1s", "10s", "1m", "all"] {
        let mut asked = question(dir.path());
        asked.step = Some(text.parse().unwrap());
        asked.projection = Projection::new(["app_read_calls"]).named();
        let told = notes(&asked);
        let without = told.iter().filter(|note| note.contains("without calls"));
        let without: Vec<_> = without.collect();
        assert!(
            without.len() == 1 && without[0].contains("for 2 min of it"),
            "{text}: {told:?}"
        );
    }
}

#[test]
fn unsealed_journals_tell_their_gaps_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 50, 4);
    recorded.drain(10..20);
    let writer = append(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let expected = ["2026-11-21 03:00:10 to 03:00:20 not recorded"];
    assert_eq!(notes(&question(dir.path()))[1..], expected);
    writer.finish().unwrap();
    assert_eq!(notes(&question(dir.path()))[1..], expected);
}

#[test]
fn losses_are_told_with_their_range() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 60, 4);
    for (i, window) in recorded.iter_mut().enumerate() {
        window.health.seen = 100;
        window.health.lost = u64::from(i == 20) * 7;
    }
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let mut asked = question(dir.path());
    asked.range = range(THREE + 10_000, THREE + 50_000);
    asked.step = Some("1s".parse().unwrap());
    let expected = "7 of 100 requests lost between 2026-11-21 03:00:20 and 03:00:21: counts below are too low by that";
    assert_eq!(notes(&asked)[1..], [expected]);
}

#[test]
fn a_server_that_did_not_answer_is_told_while_it_does_not_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 600, 4);
    for (i, window) in recorded.iter_mut().enumerate() {
        // No look at pending requests in the first minute. From 03:05:10 on, a server hangs for 42 s.
        let waiting = (311..=352).contains(&i).then(|| PendingClient {
            client: 3,
            server: Some("10.0.0.5".to_owned()),
            mounts: vec!["nas:/home".to_owned()],
            requests_max: 17,
            age_ms_max: (i as u64 - 310) * 1000 + 300,
        });
        let slow = PendingClient {
            client: 4,
            server: Some("10.0.0.6".to_owned()),
            requests_max: 1,
            age_ms_max: 700,
            ..PendingClient::default()
        };
        window.health.pending = (i >= 60).then(|| Pending {
            requests_max: 18,
            age_ms_max: waiting.as_ref().map_or(700, |client| client.age_ms_max),
            clients: waiting.into_iter().chain([slow]).collect(),
        });
    }
    let mut asked = question(dir.path());
    let told = |asked: &Question| notes(asked)[1..].to_vec();
    let stalled = |length: u32, end| {
        [format!(
            "STALLED {length} s: 10.0.0.5 (nas:/home) did not answer between 2026-11-21 03:05:11 and {end}, up to 17 \
             requests waited"
        )]
    };
    let while_it_hangs = append(dir.path(), options_of("a", LIST, "1m"), &recorded[..331]);
    asked.step = Some("1s".parse().unwrap());
    assert_eq!(told(&asked), stalled(20, "03:05:31"));
    drop(while_it_hangs);
    append(dir.path(), options_of("a", LIST, "1m"), &recorded[331..])
        .finish()
        .unwrap();
    for step in ["1s", "1m", "all"] {
        asked.step = Some(step.parse().unwrap());
        let told: Vec<_> = told(&asked);
        assert_eq!(told, stalled(42, "03:05:53"), "{step}");
    }
    asked.range = range(THREE, THREE + 300_000);
    assert!(notes(&asked).iter().all(|note| !note.contains("STALLED")));
}

#[test]
fn folded_requests_are_told_of_the_files_that_had_some() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 60, 4);
    for i in [20, 22] {
        let mut row = Row::default();
        row.write.requests = 10;
        row.write.folded = 7;
        let file = file(1, Some("/mnt/f1"));
        recorded[i].rows = vec![FileRow { file, row }];
    }
    recorded[21].rows.clear();
    let writer = append(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let told = || {
        let mut asked = question(dir.path());
        asked.step = Some("1s".parse().unwrap());
        let expected = "14 of 20 requests between 2026-11-21 03:00:20 and 03:00:23 were folded: \
                        their counts, bytes and sums are exact, percentiles and sequential shares leave them out";
        assert_eq!(notes(&asked)[1..], [expected]);
        asked.files = vec![select("/mnt/f2")];
        assert_eq!(notes(&asked), [""; 0]);
    };
    told();
    writer.finish().unwrap();
    told();
}

#[test]
fn many_gaps_are_told_as_a_sum() {
    let dir = tempfile::tempdir().unwrap();
    let recorded: Vec<_> = windows(1, THREE, 1000, 101, 2)
        .into_iter()
        .step_by(2)
        .collect();
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let told = notes(&question(dir.path()));
    assert_eq!(told.len(), 22);
    assert_eq!(told[21], "30 more gaps not recorded, 30 s in all");
}

#[test]
fn of_several_hosts_each_has_its_own_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let mut a = windows(1, THREE, 1000, 50, 2);
    a.drain(10..20);
    record(dir.path(), options_of("a", LIST, "1m"), &a);
    record(
        dir.path(),
        options_of("b", LIST, "1m"),
        &windows(1, THREE + 5000, 1000, 50, 2),
    );
    let told = notes(&question(dir.path()));
    assert_eq!(
        told[1..],
        ["a: 2026-11-21 03:00:10 to 03:00:20 not recorded"]
    );
}

#[test]
fn what_is_not_found_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    restarted(dir.path());
    let why = |file: Option<&str>, range: Range| {
        let mut asked = question(dir.path());
        asked.files = file.map(select).into_iter().collect();
        asked.range = range;
        match ask(&asked).unwrap() {
            Outcome::Nothing { why, .. } => (why.clone(), why.show(asked.zone)),
            Outcome::Found(answer) => panic!("{:?}", answer.rows),
        }
    };
    let any = Range::default();
    assert_eq!(
        why(Some("0:49:4711"), any).1.split(';').next(),
        Some("no file 0:49:4711 was ever recorded")
    );
    let (_, text) = why(Some("/no such file"), any);
    assert!(
        text.contains("no file was ever recorded under the name /no such file"),
        "{text}"
    );
    assert!(text.contains("No such file"), "{text}");
    let (_, text) = why(Some("/proc/version"), any);
    assert!(
        text.starts_with("/proc/version (") && text.contains("was never recorded"),
        "{text}"
    );
    let (_, text) = why(None, range(THREE + 120_000, THREE + 180_000));
    assert_eq!(
        text,
        "nothing was recorded from 2026-11-21 03:02:00 to 03:03:00; the recording is from 2026-11-21 03:00:00 to 03:05:00"
    );
    let (_, text) = why(None, range(THREE - 7_200_000, THREE - 3_600_000));
    assert!(
        text.starts_with("nothing was recorded from 2026-11-21 01:00:00 to 02:00:00"),
        "{text}"
    );
}

#[test]
fn an_idle_file_is_not_an_unknown_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 60, 4);
    for window in &mut recorded[30..] {
        window.rows.clear();
        window.health.seen = 0;
    }
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let mut asked = question(dir.path());
    asked.range = range(THREE + 40_000, THREE + 50_000);
    for (file, text) in [
        (Some("/mnt/f1"), "no request read or wrote the file"),
        (None, "no request read or wrote a file"),
    ] {
        asked.files = file.map(select).into_iter().collect();
        match ask(&asked).unwrap() {
            Outcome::Nothing {
                why: why @ EmptyReason::Idle { .. },
                notes,
            } => {
                assert_eq!(
                    why.show(asked.zone),
                    format!("{text} from 2026-11-21 03:00:40 to 03:00:50")
                );
                // A note says when the name was in use.
                let told = notes.iter().map(|note| note.show(asked.zone));
                let told: Vec<_> = told.filter(|note| !note.starts_with("times")).collect();
                assert_eq!(told.len(), asked.files.len(), "{told:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn impossible_questions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |asked: &Question| ask(asked).unwrap_err().to_string();
    let mut asked = question(&dir.path().join("none"));
    assert!(
        refused(&asked).contains("no such directory"),
        "{}",
        refused(&asked)
    );
    asked.stores = vec![dir.path().into()];
    assert!(
        refused(&asked).contains("not a TrackIOps store"),
        "{}",
        refused(&asked)
    );
    restarted(dir.path());
    asked.range = range(THREE + 1000, THREE);
    assert!(
        refused(&asked).contains("begins at 2026-11-21 03:00:01 and ends at 2026-11-21 03:00:00")
    );
    asked.range = range(asked.now.0 + 1, asked.now.0 + 2);
    assert!(refused(&asked).contains("future"));
    asked.range = Range::default();
    asked.step = Some("500ms".parse().unwrap());
    assert!(refused(&asked).contains("(1s, 10s, 1m, 1h)"));
}

#[test]
fn a_store_without_a_window_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("a", LIST, "1m"), &[]);
    match ask(&question(dir.path())).unwrap() {
        Outcome::Nothing {
            why: EmptyReason::EmptyStore(_),
            ..
        } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_of_which_little_was_recorded_has_no_rate() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = windows(1, THREE, 1000, 3, 4);
    // A recorder starts 4 ms before a window ends: 5 requests would look like 1250 per second.
    recorded[0].health.covered_ms = 4;
    recorded[1].health.covered_ms = 60;
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let rates = |question: &Question| {
        let Outcome::Found(answer) = ask(question).unwrap() else {
            panic!("no rows");
        };
        let columns = Columns::parse("iops").unwrap();
        let rate = columns.iter().next().unwrap();
        let rates = answer.rows.iter().map(|row| rate.value(row) != Value::Null);
        rates.collect::<Vec<_>>()
    };
    let mut asked = question(dir.path());
    asked.by = GroupBy::HOST;
    asked.step = Some("1s".parse().unwrap());
    assert_eq!(rates(&asked), [false, true, true]);
    asked.step = Some(Step::All);
    assert_eq!(rates(&asked), [true]);
    asked.range.until = Some(UtcMs(THREE + 1000));
    assert_eq!(rates(&asked), [false], "of all that was asked for");
}
