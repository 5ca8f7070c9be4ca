//! A store of which much is missing or damaged answers from the rest, says so, and takes no longer for it than to look at all once.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use trackiops_query::coverage::note::Note;
use trackiops_query::{Answer, Step};
use trackiops_store::{Dataset, Snapshot};
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::{found, question, rows};
use trackiops_testkit::stores::{options_of, record};

const JOURNALS: usize = 60;

fn fine_segments(store: &std::path::Path) -> Vec<PathBuf> {
    let snapshot = Snapshot::open(store).unwrap();
    let mut segments = snapshot.segments(Dataset::Rollup, None).unwrap();
    segments.retain(|segment| segment.granularity == "1s".parse().unwrap());
    segments.into_iter().map(|segment| segment.path).collect()
}

/// What is noted as damaged, in all.
fn damaged(answer: &Answer) -> usize {
    let of = |note: &Note| match note {
        Note::Damaged { .. } => 1,
        Note::MoreDamaged { count, .. } => *count,
        _ => 0,
    };
    assert!(answer.notes.iter().filter(|note| note.is_damage()).count() <= 11);
    answer.notes.iter().map(of).sum()
}

#[test]
fn many_missing_or_damaged_segments_are_left_out_together() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(5, THREE, 1000, 2 * JOURNALS as i64, 3);
    record(dir.path(), options_of("a", "1s,1m", "2s"), &windows);
    let mut asked = question(dir.path());
    asked.step = Some("1s".parse::<Step>().unwrap());
    let whole = rows(&found(&asked));
    let segments = fine_segments(dir.path());
    let bad: BTreeSet<_> = segments.iter().step_by(2).collect();
    for path in &bad {
        fs::remove_file(path).unwrap();
    }
    assert!(bad.len() > 20, "{}", bad.len());
    let answer = found(&asked);
    assert_eq!(damaged(&answer), bad.len());
    let left = rows(&answer);
    assert!(!left.is_empty() && left.keys().all(|key| whole.contains_key(key)));
    let intact = segments.iter().filter(|path| !bad.contains(path));
    for path in intact.skip(1) {
        let mut bytes = fs::read(path).unwrap();
        bytes[100] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let answer = found(&asked);
    assert_eq!(damaged(&answer), segments.len() - 1);
    assert!(!rows(&answer).is_empty());
}
