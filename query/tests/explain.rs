//! `--explain` shows the reads of a query, and a query reads no more than necessary.

use trackiops_query::explain::{Explained, Segments, Stage};
use trackiops_query::{Explain, Projection, Question, Step};
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::{found, question, range, select};
use trackiops_testkit::stores::{options_of, record};

/// Statistics for one file of 60, over two hours with windows of 10 s, in journals of an hour.
fn explained(change: impl FnOnce(&mut Question)) -> Explained {
    let dir = tempfile::tempdir().unwrap();
    let recorded = windows(1, THREE, 10_000, 720, 60);
    record(dir.path(), options_of("a", "10s,1m,1h", "1h"), &recorded);
    let mut asked = question(dir.path());
    asked.files = vec![select("/mnt/f4")];
    asked.step = Some(Step::Windows("10s".parse().unwrap()));
    asked.explain = Explain::on();
    change(&mut asked);
    found(&asked);
    asked.explain.explained().unwrap()
}

#[test]
fn only_segments_of_the_range_and_granularity_that_have_the_file_are_read() {
    let all = explained(|_| {});
    let expected = Segments {
        all: 6,
        other_granularity: 4,
        read: 2,
        ..Segments::default()
    };
    assert_eq!(all.segments, expected);
    let first = explained(|asked| asked.range = range(THREE, THREE + 3_600_000));
    let expected = Segments {
        all: 6,
        outside: 3,
        other_granularity: 2,
        read: 1,
        ..Segments::default()
    };
    assert_eq!(first.segments, expected);
}

#[test]
fn of_a_segment_the_rows_of_the_file_and_what_is_asked_of_them_are_read() {
    let full = explained(|_| {}).rows_read();
    assert!(full.rows_stored > 20_000, "{full:?}");
    assert!(
        full.rows * 40 < full.rows_stored && full.rows > 300,
        "{full:?}"
    );
    let totals = explained(|asked| asked.projection = Projection::totals()).rows_read();
    assert_eq!(totals.rows, full.rows);
    assert!(totals.pages * 3 < full.pages, "{totals:?} {full:?}");
    // Both queries read the footers.
    assert!(totals.bytes * 3 < full.bytes * 2, "{totals:?} {full:?}");
}

#[test]
fn a_range_is_coarse_in_its_middle_and_fine_at_its_edges() {
    let parts = |explained: Explained| {
        let part = |part: trackiops_query::explain::Part| {
            let [start, end] = [part.range.start, part.range.end].map(|at| (at.0 - THREE) / 1000);
            (part.granularity.to_string(), start, end)
        };
        explained.parts.into_iter().map(part).collect::<Vec<_>>()
    };
    let edges = explained(|asked| {
        asked.step = Some(Step::All);
        asked.range = range(THREE + 3_570_000, THREE + 7_150_000);
    });
    let of = |granularity: &str, start, end| (granularity.to_owned(), start, end);
    let expected = [
        of("10s", 3570, 3600),
        of("1m", 3600, 7140),
        of("10s", 7140, 7150),
    ];
    assert_eq!(parts(edges), expected);
    // Ranking plans the same again.
    let ranked = explained(|asked| {
        asked.step = Some(Step::All);
        asked.range = range(THREE + 3_570_000, THREE + 7_150_000);
        asked.top = std::num::NonZeroUsize::new(3);
    });
    assert_eq!(parts(ranked), expected);
}

#[test]
fn what_was_recorded_is_told_by_the_coarsest_rows_where_nothing_is_to_be_told() {
    let plain = explained(|_| {});
    assert_eq!((plain.health.segments, plain.health.rows), (2, 2));
    // Most of some fifty columns are 0 in every row.
    assert!(plain.health.pages <= 2 * 2 * 16, "{:?}", plain.health);
    // The range cuts the first and the last hour.
    let cut = explained(|asked| asked.range = range(THREE + 10_000, THREE + 7_190_000));
    assert!(cut.health.rows > 2, "{:?}", cut.health);
}

#[test]
fn every_stage_is_told_once_and_nothing_where_nobody_asks() {
    let stages: Vec<_> = explained(|_| {})
        .stages
        .iter()
        .map(|(stage, _)| *stage)
        .collect();
    let expected = [
        Stage::Open,
        Stage::Find,
        Stage::Plan,
        Stage::Read,
        Stage::Coverage,
        Stage::Journals,
        Stage::Finish,
    ];
    assert_eq!(stages, expected);
    assert_eq!(Explain::default().explained(), None);
}
