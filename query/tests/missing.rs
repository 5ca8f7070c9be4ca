//! A store with much missing or damaged data answers from the rest and says so. It takes no longer than reading
//! everything once.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use trackiops_query::audit::ask_audited;
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

/// Number of files that notes report as damaged.
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

/// Notes about missed requests: counts that may be too low, requests and bytes of rows `(missed)`, and alarms.
fn noted(answer: &Answer) -> (Vec<u64>, Vec<(u64, u64)>, Vec<u64>) {
    let mut noted = (Vec::new(), Vec::new(), Vec::new());
    for note in &answer.notes {
        match note {
            Note::Lost { losses, .. } | Note::Missed { losses, .. } => noted.0.push(losses.count),
            Note::Booked { count, bytes, .. } => noted.1.push((*count, *bytes)),
            Note::AuditAlarm { count, .. } => noted.2.push(*count),
            _ => {}
        }
    }
    noted
}

#[test]
fn what_the_audit_has_added_is_noted_and_nothing_is_too_low_any_more() {
    let missed_and_booked = |missed, booked: (u64, u64), alarms| {
        let dir = tempfile::tempdir().unwrap();
        let mut windows = windows(5, THREE, 1000, 90, 3);
        windows[3].health.missed = missed;
        windows[40].health.audit_missed_requests = booked.0;
        windows[40].health.audit_missed_bytes = booked.1;
        windows[70].health.audit_alarms = alarms;
        record(dir.path(), options_of("a", "1s,1m", "10s"), &windows);
        let audited = ask_audited(dir.path()).unwrap();
        let sums = audited.health.audit_missed_requests;
        assert_eq!((sums, audited.alarms.is_some()), (booked.0, alarms > 0));
        let mut asked = question(dir.path());
        // An answer from the coarse granularity, and one from the fine granularity.
        let [coarse, fine] = ["1m", "1s"].map(|step| {
            asked.step = Some(step.parse::<Step>().unwrap());
            found(&asked)
        });
        assert_eq!(noted(&coarse), noted(&fine));
        noted(&fine)
    };
    assert_eq!(missed_and_booked(0, (0, 0), 0), (vec![], vec![], vec![]));
    assert_eq!(
        missed_and_booked(7, (4, 96), 0),
        (vec![7], vec![(4, 96)], vec![])
    );
    assert_eq!(
        missed_and_booked(4, (4, 96), 0),
        (vec![], vec![(4, 96)], vec![])
    );
    assert_eq!(
        missed_and_booked(0, (0, 96), 2),
        (vec![], vec![(0, 96)], vec![2])
    );
}
