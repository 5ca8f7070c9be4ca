//! For every query plan, the answer is the sum of the recorded windows.

use trackiops_query::coverage::note::Note;
use trackiops_query::times::Zone;
use trackiops_query::{EmptyReason, Figures, GroupBy, Outcome, Projection, Question, Step, ask};
use trackiops_render::Format;
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::{DAY_MS, UtcMs};
use trackiops_testkit::generated::{THREE, file, folded_windows};
use trackiops_testkit::questions::{
    Sum, found, key_of, question, range, rows, select, straightforward,
};
use trackiops_testkit::stores::{append, options_of, record};

const LIST: &str = "1s,10s,1m,1h";

fn step(text: &str) -> Step {
    text.parse().unwrap()
}

/// Asks for `[since, until)` and compares with the sum over the windows that it touches.
fn compare(
    question: &Question,
    recordings: &[(&str, &[ClosedWindow])],
    since: i64,
    until: i64,
    finest_ms: i64,
) {
    let mut question = question.clone();
    question.range = range(since, until);
    let first = since - since.rem_euclid(finest_ms);
    let counts = |window: &ClosedWindow| window.start.0 >= first && window.start.0 < until;
    let only = (!question.files.is_empty()).then(|| file(2, None).key);
    let expected =
        |step, start| straightforward(recordings, counts, only, step, start, question.by);
    let answer = match ask(&question).unwrap() {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, .. } => {
            assert!(matches!(why, EmptyReason::Idle { .. }), "{why:?}");
            assert!(expected(Step::All, 0).is_empty());
            return;
        }
    };
    let expected = expected(answer.step, answer.range.start.0);
    assert!(
        rows(&answer) == expected,
        "{since}..{until} {:?}",
        question.step
    );
}

#[test]
fn every_step_range_and_file_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    // Journals of a minute: an hour's row is cut into partial rows by each rotation.
    let recorded = folded_windows(1, THREE + 3000, 1000, 400, 8);
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let recordings = [("a", &recorded[..])];
    let end = THREE + 403_000;
    for step_text in ["1s", "5s", "10s", "90s", "1m", "1h", "1d", "all"] {
        let mut asked = question(dir.path());
        asked.step = Some(step(step_text));
        for (since, until) in [
            (THREE, end),
            (THREE - DAY_MS, end + DAY_MS),
            (THREE + 60_000, THREE + 120_000),
            (THREE + 61_000, THREE + 119_000),
            (THREE + 70_000, THREE + 130_000),
            (THREE + 61_500, THREE + 302_700),
            (THREE + 100_000, THREE + 101_000),
        ] {
            compare(&asked, &recordings, since, until, 1000);
            let mut one = asked.clone();
            one.files = vec![select("/mnt/f2")];
            for by in [GroupBy::FILE, GroupBy::FILE_TENANT] {
                one.by = by;
                compare(&one, &recordings, since, until, 1000);
            }
        }
        for by in [GroupBy::FILE, GroupBy::FILE_TENANT] {
            let step = step(step_text);
            let everything = straightforward(&recordings, |_| true, None, step, THREE + 3000, by);
            asked.by = by;
            assert!(rows(&found(&asked)) == everything, "{step_text} {by:?}");
        }
    }
}

#[test]
fn a_device_and_fileid_name_the_same_file_as_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = folded_windows(1, THREE, 1000, 100, 8);
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let ask_for = |text: &str| {
        let mut asked = question(dir.path());
        asked.files = vec![select(text)];
        rows(&found(&asked))
    };
    let by_path = ask_for("/mnt/f5");
    assert_eq!(by_path, ask_for("0:50:5"));
    assert_eq!(by_path, ask_for("/mnt/../mnt/./f5"));
}

#[test]
fn a_journal_answers_as_it_will_when_it_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = folded_windows(2, THREE, 1000, 200, 6);
    let writer = append(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let ask_all = || {
        ["1s", "10s", "1m", "1h", "all"].map(|text| {
            let mut asked = question(dir.path());
            asked.step = Some(step(text));
            let all = rows(&found(&asked));
            asked.files = vec![select("/mnt/f1")];
            asked.range = range(THREE + 20_000, THREE + 190_500);
            (all, rows(&found(&asked)))
        })
    };
    let open = ask_all();
    writer.finish().unwrap();
    assert!(open == ask_all());
    assert_eq!(
        open[0].0,
        straightforward(
            &[("a", &recorded)],
            |_| true,
            None,
            step("1s"),
            THREE,
            GroupBy::FILE
        )
    );
}

#[test]
fn users_of_a_file_are_one_row_or_a_row_each_in_journals_and_in_segments() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = folded_windows(12, THREE, 1000, 100, 4);
    let writer = append(dir.path(), options_of("a", LIST, "1h"), &recorded);
    // Totals of the file with two users: requests and folded requests.
    let users = |by, text: &str| {
        let mut asked = question(dir.path());
        asked.files = vec![select("/mnt/f2")];
        asked.by = by;
        asked.step = Some(step(text));
        let answer = found(&asked);
        let rows = answer.rows.iter().map(|row| {
            let [read, write] = [row.sum.read(), row.sum.write()];
            for d in [&read, &write] {
                assert_eq!(d.latency.total(), d.requests - d.folded - d.untimed);
            }
            let sums = [read.requests + write.requests, read.folded + write.folded];
            (row.tenant.named(), sums)
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    };
    let one_user = |tenant: &str| {
        let rows = recorded.iter().flat_map(|window| &window.rows);
        let rows = rows.filter(|row| {
            row.file.path.as_deref() == Some("/mnt/f2") && row.file.tenant.to_string() == tenant
        });
        rows.fold(
            [0, 0],
            |[requests, folded],
             FileRow {
                 row: Row { read, write, .. },
                 ..
             }| {
                [
                    requests + read.requests + write.requests,
                    folded + read.folded + write.folded,
                ]
            },
        )
    };
    let [service, scope] = ["0:/a.service", "1000:/user.slice/b.scope"];
    let apart = [
        ("0:/a.service", one_user(service)),
        ("bob:/user.slice/b.scope", one_user(scope)),
    ];
    let apart = apart.map(|(tenant, sums)| (Some(tenant.to_owned()), sums));
    assert!(
        apart.iter().all(|(_, [_, folded])| *folded > 0),
        "{apart:?}"
    );
    let [of_service, of_scope] = [one_user(service), one_user(scope)];
    let sum = [of_service[0] + of_scope[0], of_service[1] + of_scope[1]];
    let check = || {
        assert_eq!(users(GroupBy::FILE_TENANT, "all"), apart);
        assert_eq!(users(GroupBy::FILE, "all"), [(None, sum)]);
        // A window in which the file was used has a row for each user.
        assert_eq!(
            users(GroupBy::FILE_TENANT, "1s").len(),
            2 * users(GroupBy::FILE, "1s").len()
        );
    };
    check();
    writer.finish().unwrap();
    check();
}

#[test]
fn recordings_with_other_granularities_and_hosts_add_up_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let first = folded_windows(3, THREE, 1000, 130, 5);
    let second = folded_windows(4, THREE + 130_000, 5000, 60, 5);
    let other = folded_windows(5, THREE + 7000, 1000, 200, 5);
    record(dir.path(), options_of("a", "1s,10s", "1m"), &first);
    record(dir.path(), options_of("a", "5s,1m", "5m"), &second);
    record(dir.path(), options_of("b", LIST, "1m"), &other);
    let a: Vec<_> = first.iter().chain(&second).cloned().collect();
    let recordings = [("a", &a[..]), ("b", &other[..])];
    for text in ["5s", "10s", "1m", "10m", "all"] {
        let mut asked = question(dir.path());
        asked.step = Some(step(text));
        let expected = straightforward(
            &recordings,
            |_| true,
            None,
            step(text),
            THREE,
            GroupBy::FILE,
        );
        assert!(rows(&found(&asked)) == expected, "{text}");
        compare(&asked, &recordings, THREE + 20_000, THREE + 200_000, 1000);
    }
    let mut asked = question(dir.path());
    assert_eq!(found(&asked).step, step("5s"));
    asked.step = Some(step("1s"));
    let error = trackiops_query::ask(&asked).unwrap_err().to_string();
    assert!(
        error.contains("2026-11-21 03:02:10 to 03:05:00") && error.contains("5s, 1m"),
        "{error}"
    );
    // Where only fine recordings exist, a fine step works.
    compare(&asked, &recordings, THREE + 20_000, THREE + 130_000, 1000);
}

#[test]
fn the_top_files_are_those_whose_requests_took_most_time_in_the_range() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = folded_windows(6, THREE, 1000, 150, 9);
    record(dir.path(), options_of("a", LIST, "1m"), &recorded);
    let (since, until) = (THREE + 10_000, THREE + 95_000);
    let counts = |w: &ClosedWindow| (since..until).contains(&w.start.0);
    let totals = straightforward(
        &[("a", &recorded)],
        counts,
        None,
        Step::All,
        since,
        GroupBy::FILE,
    );
    let took = |sum: &Sum| sum.0.read.latency_ns_sum + sum.0.write.latency_ns_sum;
    let mut ranking: Vec<_> = totals.iter().map(|(key, sum)| (took(sum), key.2)).collect();
    ranking.sort_by(|a, b| b.cmp(a));

    let mut asked = question(dir.path());
    asked.range = range(since, until);
    asked.top = std::num::NonZeroUsize::new(3);
    asked.step = Some(Step::All);
    let keys: Vec<_> = found(&asked).rows.iter().map(key_of).collect();
    let expected: Vec<_> = ranking.iter().take(3).map(|(_, key)| *key).collect();
    assert_eq!(keys, expected);

    asked.step = Some(step("10s"));
    let answer = found(&asked);
    let in_order = |a: &trackiops_query::AnswerRow| {
        (expected.iter().position(|key| *key == key_of(a)), a.time)
    };
    assert!(answer.rows.is_sorted_by_key(in_order));
    let all = straightforward(
        &[("a", &recorded)],
        counts,
        None,
        step("10s"),
        since,
        GroupBy::FILE,
    );
    assert_eq!(
        rows(&answer).len(),
        all.keys().filter(|key| expected.contains(&key.2)).count()
    );

    // With separate rows for tenants, each row takes a rank.
    asked.step = Some(Step::All);
    asked.by = GroupBy::FILE_TENANT;
    let took = |asked: &trackiops_query::Question| -> Vec<u64> {
        let rows = found(asked).rows;
        let took = rows
            .iter()
            .map(|row| row.sum.read().latency_ns_sum + row.sum.write().latency_ns_sum);
        took.collect()
    };
    let ranked = took(&asked);
    asked.top = None;
    let mut all = took(&asked);
    all.sort_unstable_by(|a, b| b.cmp(a));
    assert!(all.len() > 9, "some files have two");
    assert_eq!(ranked, all[..3]);

    asked.by = GroupBy::FILE;
    asked.top = None;
    let all: Vec<_> = found(&asked).rows.iter().map(key_of).collect();
    assert_eq!(all.len(), 9);
    assert_eq!(all[..3], expected);
}

#[test]
fn a_table_needs_fewer_columns_and_shows_the_same() {
    let dir = tempfile::tempdir().unwrap();
    record(
        dir.path(),
        options_of("a", LIST, "1m"),
        &folded_windows(7, THREE, 1000, 90, 4),
    );
    for figures in [Figures::Rates, Figures::Parts] {
        let table = |projection| {
            let mut asked = question(dir.path());
            asked.projection = projection;
            let mut out = Vec::new();
            let format = Format::Table(figures);
            let mut answer = found(&asked);
            // A table omits such rows.
            answer.rows.retain(|row| row.sum.is_transfer());
            trackiops_render::write(&answer, format, asked.zone, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let shown = table(Projection::table(figures));
        assert_eq!(shown, table(Projection::all()));
        assert!(shown.lines().count() > 90);
    }
}

#[test]
fn the_default_step_keeps_a_long_range_readable_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = folded_windows(8, THREE, 1000, 700, 2);
    recorded.drain(10..690);
    record(dir.path(), options_of("a", LIST, "15m"), &recorded);
    let mut asked = question(dir.path());
    let answer = found(&asked);
    assert_eq!(answer.step, step("10s"));
    let rows_of_10s = "rows of 10s; 1s is stored: --step 1s or a shorter range shows more";
    let chosen = |note: &Note| note.show(Zone::utc()) == rows_of_10s;
    assert!(answer.notes.iter().any(chosen), "{:?}", answer.notes);
    asked.range.until = Some(UtcMs(THREE + 600_000));
    assert_eq!(found(&asked).step, step("1s"));
    assert!(!found(&asked).notes.iter().any(chosen));
}

#[test]
fn a_coarse_recorder_at_work_forbids_no_fine_step_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let before = folded_windows(10, THREE, 1000, 30, 3);
    record(dir.path(), options_of("a", LIST, "1m"), &before);
    let now = folded_windows(11, THREE + 60_000, 10_000, 3, 3);
    let writer = append(dir.path(), options_of("a", "10s,1m", "1m"), &now);
    let mut asked = question(dir.path());
    asked.step = Some(step("1s"));
    compare(&asked, &[("a", &before)], THREE, THREE + 30_000, 1000);
    let error = ask(&asked).unwrap_err().to_string();
    assert!(error.contains("only 10s is stored"), "{error}");
    writer.finish().unwrap();
}
