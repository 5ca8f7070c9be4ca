//! The column `lost`: what requests took beyond their mean before the range.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use trackiops_query::coverage::note::Note;
use trackiops_query::lost::Lost;
use trackiops_query::{
    Answer, AnswerRow, Columns, Explain, FileSelector, GroupBy, Projection, Question, Step,
    ask_usual_latencies,
};
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;
use trackiops_testkit::questions::{found, question, range};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::{T0, file, used_by, window};

/// The range begins here, after a minute that it is compared with. It lasts ten seconds.
const BEGIN: i64 = T0 + 60_000;
const END: i64 = BEGIN + 10_000;

/// Ten reads.
fn reads(bytes: u64, us: u64) -> Row {
    let mut row = Row::default();
    row.read.requests = 10;
    row.read.bytes = 10 * bytes;
    row.read.latency_ns_sum = 10 * us * 1000;
    row.read.latency_ns_max = us * 1000;
    (0..10).for_each(|_| row.read.latency.record(us * 1000));
    row
}

/// Writes, in addition to reads.
fn and_writes(mut row: Row, us: u64) -> Row {
    row.write = reads(4096, us).read;
    row
}

/// `slow` waits three times as long as before, and its writes as long as before. `quick` waits less. `new` was not there before, and its
/// requests are large and long.
fn recorded() -> Vec<ClosedWindow> {
    let of = |id, path, tenant| used_by(&file(id, 49, Some(path)), tenant);
    let slow = of(1, "/mnt/db/slow", "7:/db");
    let quick = of(2, "/mnt/db/quick", "8:/web");
    let new = of(3, "/mnt/scratch/new", "9:/batch");
    let second = |second: i64| {
        let start = T0 + 1000 * second;
        let is_in = start >= BEGIN;
        let (slow_us, quick_us) = if is_in { (3000, 500) } else { (1000, 800) };
        let mut rows = vec![
            (slow.clone(), and_writes(reads(4096, slow_us), 2000)),
            (quick.clone(), reads(4096, quick_us)),
        ];
        rows.extend(is_in.then(|| (new.clone(), reads(1 << 20, 50_000))));
        window(start, rows)
    };
    (0..70).map(second).collect()
}

fn asked(store: &Path) -> Question {
    asked_of(store, &recorded())
}

fn asked_of(store: &Path, recorded: &[ClosedWindow]) -> Question {
    record(store, options_of("h", "1s,10s,1m", "1h"), recorded);
    let columns = Columns::<AnswerRow>::parse("mount,path,tenant,lost").unwrap();
    Question {
        range: range(BEGIN, END),
        step: Some(Step::All),
        projection: columns.needs(),
        ..question(store)
    }
}

/// Lost time by name, ms.
fn lost_ms(answer: &Answer) -> BTreeMap<String, Option<f64>> {
    let lost = Columns::<AnswerRow>::number("lost").unwrap();
    let row = |row: &AnswerRow| {
        let ms = lost.value(row).number().map(|us| us / 1000.0);
        let tenant = answer.by.tenants.then(|| row.tenant.to_string());
        (tenant.unwrap_or_else(|| row.name()), ms)
    };
    answer.rows.iter().map(row).collect()
}

#[test]
fn lost_time_is_compared_file_by_file_whatever_rows_stand_for() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    // 100 reads took 2 ms longer, and 100 others 0.3 ms less.
    let (slow, both) = (200.0, 170.0);
    for (by, expected) in [
        (
            "file",
            vec![
                ("/mnt/db/quick", Some(0.0)),
                ("/mnt/db/slow", Some(slow)),
                ("/mnt/scratch/new", None),
            ],
        ),
        ("dir", vec![("/mnt/db", Some(both)), ("/mnt/scratch", None)]),
        ("mount", vec![("srv:/export", Some(both))]),
        ("host", vec![("h", Some(both))]),
        (
            "tenant",
            vec![
                ("7:/db", Some(slow)),
                ("8:/web", Some(0.0)),
                ("9:/batch", None),
            ],
        ),
    ] {
        let by = Question {
            by: by.parse::<GroupBy>().unwrap(),
            ..asked.clone()
        };
        let expected = expected.into_iter().map(|(name, ms)| (name.to_owned(), ms));
        let expected: BTreeMap<_, _> = expected.collect();
        assert_eq!(lost_ms(&found(&by)), expected, "{:?}", by.by);
    }
}

#[test]
fn rows_are_sorted_ranked_and_chosen_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    let names = |question: &Question| -> Vec<String> {
        let answer = found(question);
        answer.rows.iter().map(AnswerRow::name).collect()
    };
    let mut by_lost = asked.clone();
    by_lost.sort = Some("lost".parse().unwrap());
    assert_eq!(
        names(&by_lost),
        ["/mnt/db/slow", "/mnt/db/quick", "/mnt/scratch/new"]
    );
    by_lost.top = NonZeroUsize::new(1);
    assert_eq!(names(&by_lost), ["/mnt/db/slow"]);
    // The first one over the whole range, in windows, which compare with nothing.
    by_lost.step = Some("1s".parse().unwrap());
    let answer = found(&by_lost);
    assert_eq!(answer.rows.len(), 10);
    let unknown = BTreeMap::from([("/mnt/db/slow".to_owned(), None)]);
    assert_eq!(lost_ms(&answer), unknown);
    let mut chosen = asked.clone();
    chosen.conditions = vec!["lost > 100ms".parse().unwrap()];
    assert_eq!(names(&chosen), ["/mnt/db/slow"]);
    // Without an order by it, time ranks; only the first one is compared.
    let mut first = asked;
    first.top = NonZeroUsize::new(2);
    assert_eq!(names(&first), ["/mnt/scratch/new", "/mnt/db/slow"]);
    assert_eq!(lost_ms(&found(&first))["/mnt/db/slow"], Some(200.0));
}

#[test]
fn a_renamed_file_lost_its_time_under_the_name_that_it_had_then() {
    let dir = tempfile::tempdir().unwrap();
    let called = |path| used_by(&file(1, 49, Some(path)), "7:/db");
    let (old, new) = (called("/mnt/in/part"), called("/mnt/out/whole"));
    let second = |second: i64| {
        let start = T0 + 1000 * second;
        let (file, us) = match start - BEGIN {
            i64::MIN..0 => (&old, 1000),
            0..4000 => (&old, 3000),
            _ => (&new, 2000),
        };
        window(start, vec![(file.clone(), reads(4096, us))])
    };
    let recorded: Vec<_> = (0..70).map(second).collect();
    let asked = asked_of(dir.path(), &recorded);
    // 40 reads took 2 ms longer, and 60 took 1 ms longer.
    for (by, expected) in [
        (GroupBy::dir(1), vec![("/mnt/in", 80.0), ("/mnt/out", 60.0)]),
        (
            GroupBy::NAME,
            vec![("/mnt/in/part", 80.0), ("/mnt/out/whole", 60.0)],
        ),
        (GroupBy::FILE, vec![("/mnt/out/whole", 140.0)]),
    ] {
        let by = Question {
            by,
            ..asked.clone()
        };
        let expected = expected.into_iter();
        let expected = expected.map(|(name, ms)| (name.to_owned(), Some(ms)));
        let expected: BTreeMap<_, _> = expected.collect();
        assert_eq!(lost_ms(&found(&by)), expected, "{:?}", by.by);
    }
}

#[test]
fn tenants_are_compared_apart_also_where_no_column_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let of = |tenant| used_by(&file(1, 49, Some("/mnt/db/shared")), tenant);
    let (quick, slow) = (of("7:/db"), of("8:/batch"));
    // The quick one stops: the mean of the file rises, but no request takes longer.
    let second = |second: i64| {
        let start = T0 + 1000 * second;
        let mut rows = vec![(slow.clone(), reads(4096, 9000))];
        rows.extend((start < BEGIN).then(|| (quick.clone(), reads(4096, 1000))));
        window(start, rows)
    };
    let recorded: Vec<_> = (0..70).map(second).collect();
    let asked = asked_of(dir.path(), &recorded);
    let of_mounts = Question {
        by: GroupBy::MOUNT,
        projection: Columns::<AnswerRow>::parse("lost").unwrap().needs(),
        ..asked
    };
    let nothing = BTreeMap::from([("srv:/export".to_owned(), Some(0.0))]);
    assert_eq!(lost_ms(&found(&of_mounts)), nothing);
}

#[test]
fn with_too_much_to_compare_with_it_is_unknown_and_a_note_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    // One mount is the answer, and two files are compared.
    for (row_limit, ms) in [(2, Some(170.0)), (1, None)] {
        let answer = found(&Question {
            by: GroupBy::MOUNT,
            row_limit: Some(row_limit),
            ..asked.clone()
        });
        let expected = BTreeMap::from([("srv:/export".to_owned(), ms)]);
        assert_eq!(lost_ms(&answer), expected);
        let note = Note::LostTimeUnknown { most: row_limit };
        assert_eq!(answer.notes.contains(&note), ms.is_none(), "{row_limit}");
    }
}

#[test]
fn a_direction_has_its_own_lost_time() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    let value = |question: &Question, name: &str| {
        let column = Columns::<AnswerRow>::number(name).unwrap();
        let question = Question {
            files: vec![FileSelector::parse(Path::new("/mnt/db/slow")).unwrap()],
            projection: question.projection.with(column.needs()),
            ..question.clone()
        };
        column.value(&found(&question).rows[0]).number()
    };
    assert_eq!(value(&asked, "read_lost"), Some(200_000.0));
    assert_eq!(value(&asked, "write_lost"), Some(0.0));
    let of_writes = Question {
        ops: vec!["WRITE".to_owned()],
        ..asked
    };
    assert_eq!(value(&of_writes, "lost"), Some(0.0));
    assert_eq!(value(&of_writes, "read_lost"), None);
}

#[test]
fn without_a_time_before_it_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    // The recording begins 5 s before; it has nothing before; the range is all of it.
    for (since, until) in [
        (Some(T0 + 5000), None),
        (Some(T0), Some(T0 + 10_000)),
        (None, None),
    ] {
        let mut asked = asked.clone();
        asked.range.since = since.map(UtcMs);
        asked.range.until = until.map(UtcMs);
        let lost = lost_ms(&found(&asked));
        assert!(lost.values().all(Option::is_none), "{since:?}: {lost:?}");
    }
}

#[test]
fn what_is_usual_is_read_once_for_many_questions() {
    let dir = tempfile::tempdir().unwrap();
    let asked = asked(dir.path());
    let usual = ask_usual_latencies(&asked).unwrap();
    // A later range, from the store or from an open view.
    let store = std::iter::once(dir.path());
    for view in [None, Some(Rc::new(Snapshot::open_all(store).unwrap()))] {
        let mut later = Question {
            view,
            by: GroupBy::MOUNT,
            usual: Some(Arc::clone(&usual)),
            ..asked.clone()
        };
        later.range.since = Some(UtcMs(BEGIN + 5000));
        let expected = BTreeMap::from([("srv:/export".to_owned(), Some(85.0))]);
        assert_eq!(lost_ms(&found(&later)), expected);
        later.usual = Some(Arc::default());
        let unknown = BTreeMap::from([("srv:/export".to_owned(), None)]);
        assert_eq!(lost_ms(&found(&later)), unknown);
    }
}

#[test]
fn an_answer_that_does_not_name_it_does_not_read_the_time_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut asked = asked(dir.path());
    asked.projection = Projection::totals();
    let answer = found(&asked);
    assert!(answer.rows.iter().all(|row| row.lost == Lost::default()));
    let read = |question: &Question| {
        let explain = Explain::on();
        let question = Question {
            explain: explain.clone(),
            ..question.clone()
        };
        found(&question);
        explain.explained().unwrap().segments.read
    };
    // The range is read no more often, also where rows are sums of files.
    let ranked = Question {
        by: GroupBy::MOUNT,
        top: NonZeroUsize::new(1),
        ..asked.clone()
    };
    let compared = Question {
        projection: Columns::<AnswerRow>::parse("lost").unwrap().needs(),
        ..ranked.clone()
    };
    let before = Question {
        range: range(T0, BEGIN),
        top: None,
        ..ranked.clone()
    };
    assert_eq!(read(&compared), read(&ranked) + read(&before));
    let without = read(&asked);
    asked.sort = Some("lost".parse().unwrap());
    assert!(without < read(&asked), "{without}");
}
