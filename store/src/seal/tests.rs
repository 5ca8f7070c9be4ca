//! Sealing interrupted after each of its steps.

use std::ops::ControlFlow;
use std::path::Path;

use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{self, journals, parquet_files};
use trackiops_testkit::windows::{granularity, windows};

use super::{Step, seal};
use crate::catalog::Catalog;
use crate::error::StoreError;
use crate::unit_tests::options;
use crate::{JournalTail, Snapshot, Writer};

/// Creates a store with an unsealed journal of 20 windows.
fn leave_a_journal(store: &Path) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    windows(20)
        .iter()
        .for_each(|window| writer.append(window).unwrap());
}

/// Seals the journal and stops after `steps` steps. Returns the last step.
fn seal_up_to(store: &Path, steps: usize) -> Option<Step> {
    let mut catalog = Catalog::open(store).unwrap();
    let mut last = None;
    let mut left = steps;
    let result = seal(store, &mut catalog, &[1], &mut |step| {
        last = Some(step);
        left -= 1;
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match result {
        Ok(_) => None,
        Err(StoreError::Interrupted(1)) => last,
        Err(other) => panic!("{other}"),
    }
}

fn assert_complete(store: &Path, when: Option<Step>) {
    // Coarse windows are in segments or in the journal, so every granularity can be asked.
    for text in ["1s", "10s", "1m", "1h"] {
        let granularity = granularity(text);
        let expected = Content::of(&windows(20), granularity);
        assert_eq!(
            Content::stored(store, granularity),
            expected,
            "{text} after {when:?}"
        );
    }
}

#[test]
fn no_window_is_lost_or_doubled_whichever_step_is_the_last() {
    let mut stops = Vec::new();
    for steps in 1.. {
        let dir = tempfile::tempdir().unwrap();
        leave_a_journal(dir.path());
        let stop = seal_up_to(dir.path(), steps);
        assert_complete(dir.path(), stop);
        let Some(stop) = stop else { break };
        stops.push(stop);
        // Interrupted again at the same step, then completed.
        if stop != Step::JournalRemoved {
            seal_up_to(dir.path(), steps.min(2));
            assert_complete(dir.path(), Some(stop));
        }
        Writer::open(dir.path(), options("h"))
            .unwrap()
            .finish()
            .unwrap();
        assert_complete(dir.path(), Some(stop));
        assert!(journals(dir.path()).is_empty());
        let files = parquet_files(dir.path());
        assert_eq!(files.len(), 8, "no other names than at first: {files:?}");
        assert!(
            files.iter().all(|file| file.ends_with(".parquet")),
            "{files:?}"
        );
    }
    let renames = [Step::Renamed; 8];
    let expected = [
        &[Step::Written][..],
        &renames,
        &[Step::NamesDurable, Step::Committed, Step::JournalRemoved],
    ];
    assert_eq!(stops, expected.concat());
}

#[test]
fn journals_that_are_sealed_together_are_committed_at_once() {
    let expected = [Step::Committed, Step::JournalRemoved, Step::JournalRemoved];
    for stop_after in 0..=expected.len() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path();
        let mut writer = Writer::open(store, options("h")).unwrap();
        let all = windows(20);
        all[..10]
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        // Another host has another journal.
        writer.set_host("i").unwrap();
        all[10..]
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        // As if the process ended here: nothing is sealed.
        let copy = tempfile::tempdir().unwrap();
        crate::copy(store, copy.path()).unwrap();
        drop(writer);
        let mut catalog = Catalog::open(copy.path()).unwrap();
        let mut taken = Vec::new();
        let _ = seal(copy.path(), &mut catalog, &[1, 2], &mut |step| {
            if expected.contains(&step) {
                if taken.len() == stop_after {
                    return ControlFlow::Break(());
                }
                taken.push(step);
            }
            ControlFlow::Continue(())
        });
        assert_eq!(taken, expected[..stop_after]);
        drop(catalog);
        let second = granularity("1s");
        let whole = Content::of(&all, second);
        assert_eq!(Content::stored(copy.path(), second), whole);
        stores::complete(copy.path(), stores::options("h"));
        assert_eq!(Content::stored(copy.path(), second), whole);
        assert!(journals(copy.path()).is_empty());
    }
}

#[test]
fn a_damaged_journal_is_told_and_kept_whichever_step_is_the_last() {
    let quarantined = |store: &Path| store.join("journal/1.tij.damaged");
    for steps in 1.. {
        let dir = tempfile::tempdir().unwrap();
        leave_a_journal(dir.path());
        let journal = dir.path().join("journal/1.tij");
        let mut bytes = std::fs::read(&journal).unwrap();
        bytes.truncate(bytes.len() - 1);
        std::fs::write(&journal, bytes).unwrap();
        let stop = seal_up_to(dir.path(), steps);
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let damage = snapshot.tails().iter().flat_map(JournalTail::damage);
        let told = damage.count() + snapshot.unread().len();
        assert_eq!(told, 1, "after {stop:?}");
        stores::complete(dir.path(), stores::options("h"));
        assert!(quarantined(dir.path()).exists(), "after {stop:?}");
        if stop.is_none() {
            break;
        }
    }
}

#[test]
fn sealing_again_writes_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    leave_a_journal(dir.path());
    let read_all = || {
        let files = parquet_files(dir.path()).into_iter();
        let read = |file: String| (std::fs::read(dir.path().join(&file)).unwrap(), file);
        files.map(read).collect::<Vec<_>>()
    };
    let renamed_all = 9;
    assert_eq!(seal_up_to(dir.path(), renamed_all), Some(Step::Renamed));
    let first = read_all();
    assert_eq!(seal_up_to(dir.path(), renamed_all), Some(Step::Renamed));
    assert_eq!(read_all(), first);
}

#[test]
fn a_failure_to_seal_surfaces_and_costs_no_window() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options("h");
    options.rotate = granularity("1s");
    let mut writer = Writer::open(dir.path(), options).unwrap();
    let windows = windows(3);
    // A file where the directory of segments should be.
    std::fs::write(dir.path().join("rollup"), "").unwrap();
    writer.append(&windows[0]).unwrap();
    writer.append(&windows[1]).unwrap();
    let error = writer
        .finish()
        .expect_err("it cannot be sealed")
        .to_string();
    assert!(error.contains("rollup"), "{error}");
    std::fs::remove_file(dir.path().join("rollup")).unwrap();
    assert_eq!(Snapshot::open(dir.path()).unwrap().tails().len(), 2);
    Writer::open(dir.path(), crate::unit_tests::options("h"))
        .unwrap()
        .finish()
        .unwrap();
    let finest = granularity("1s");
    assert_eq!(
        Content::stored(dir.path(), finest),
        Content::of(&windows[..2], finest)
    );
}
