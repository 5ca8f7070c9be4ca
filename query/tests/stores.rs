//! Several stores answer as one.

use std::mem;
use std::path::PathBuf;

use trackiops_query::coverage::note::Note;
use trackiops_query::{Answer, GroupBy, Outcome, Step, ask};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{Writer, store_ids};
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::{found, key_of, question, range, rows, select, straightforward};
use trackiops_testkit::stores::{append, options_of, record};

const LIST: &str = "1s,10s,1m";

/// Windows of two hosts that use the same export, for separate stores.
fn recorded() -> [Vec<ClosedWindow>; 2] {
    [
        windows(1, THREE, 1000, 150, 6),
        windows(2, THREE + 60_000, 1000, 150, 6),
    ]
}

#[test]
fn stores_of_several_hosts_answer_as_one_store_of_all() {
    let [a, b] = recorded();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    record(dirs[0].path(), options_of("a", LIST, "1m"), &a);
    // Its last journal is not sealed.
    let _writer = append(dirs[1].path(), options_of("b", LIST, "1m"), &b);
    let stores: Vec<PathBuf> = dirs.iter().map(|dir| dir.path().into()).collect();
    let mut asked = question(dirs[0].path());
    asked.stores = stores;
    for step in [Step::All, Step::Windows("1s".parse().unwrap())] {
        for by in [GroupBy::FILE, GroupBy::FILE_TENANT] {
            asked.step = Some(step);
            asked.by = by;
            let expected =
                straightforward(&[("a", &a), ("b", &b)], |_| true, None, step, THREE, by);
            assert!(rows(&found(&asked)) == expected, "{step:?} {by:?}");
        }
    }
    // A file of the same export is one file on both hosts.
    asked.by = GroupBy::FILE;
    asked.files = vec![select("/mnt/f4")];
    let answer = found(&asked);
    let keys: Vec<_> = answer.rows.iter().map(key_of).collect();
    assert!(keys.len() > 2 && keys.iter().all(|key| *key == keys[0]));
    // A gap names the host that did not record.
    asked.range = range(THREE, THREE + 210_000);
    let notes = found(&asked).notes;
    let gap_of = |name: &str| {
        let is_of =
            |note: &&Note| matches!(note, Note::Gap { host: Some(host), .. } if host == name);
        notes.iter().filter(is_of).count()
    };
    assert_eq!([gap_of("a"), gap_of("b")], [1, 1], "{notes:?}");
}

#[test]
fn a_store_that_is_named_twice_counts_once() {
    let [a, _] = recorded();
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("a", LIST, "1m"), &a);
    let mut asked = question(dir.path());
    let once = rows(&found(&asked));
    asked.stores.push(dir.path().join("."));
    let answer = found(&asked);
    assert!(rows(&answer) == once);
    assert!(
        !answer
            .notes
            .iter()
            .any(|note| matches!(note, Note::Twice { .. }))
    );
}

#[test]
fn what_a_host_recorded_into_two_stores_counts_twice_and_is_told() {
    let [a, _] = recorded();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in &dirs {
        record(dir.path(), options_of("a", LIST, "1m"), &a);
    }
    let mut asked = question(dirs[0].path());
    asked.stores.push(dirs[1].path().into());
    asked.step = Some(Step::All);
    let answer = found(&asked);
    let twice = |answer: &Answer| {
        let notes = answer.notes.iter().filter_map(|note| match note {
            Note::Twice {
                host,
                range,
                are_related,
            } => Some((host.clone(), range.start.0, range.end.0, *are_related)),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    let both = |are_related| ("a".to_owned(), THREE, THREE + 150_000, are_related);
    assert_eq!(twice(&answer), [both(false)]);
    // A copy has the id of its original.
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy");
    trackiops_store::copy(dirs[0].path(), &copy).unwrap();
    let unrelated = mem::replace(&mut asked.stores[1], copy.clone());
    assert_eq!(twice(&found(&asked)), [both(true)]);
    // It still has it as a former one when it goes on under another.
    Writer::open(&copy, options_of("a", LIST, "1m"))
        .unwrap()
        .finish()
        .unwrap();
    assert_ne!(
        store_ids(&copy).unwrap().id,
        store_ids(dirs[0].path()).unwrap().id
    );
    assert_eq!(twice(&found(&asked)), [both(true)]);
    asked.stores.push(unrelated);
    assert_eq!(twice(&found(&asked)), [both(false), both(true)]);
    // After both recordings there are no rows, and so no note.
    asked.range = range(THREE + 150_000, THREE + 160_000);
    assert!(matches!(ask(&asked).unwrap(), Outcome::Nothing { .. }));
}

#[test]
fn damage_in_one_store_leaves_the_others_whole() {
    let [a, b] = recorded();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    record(dirs[0].path(), options_of("a", "1s", "1h"), &a);
    record(dirs[1].path(), options_of("b", "1s", "1h"), &b);
    let snapshot = trackiops_store::Snapshot::open(dirs[0].path()).unwrap();
    let segments = snapshot.segments(trackiops_store::Dataset::Rollup, None);
    let path = segments.unwrap().remove(0).path;
    std::fs::write(&path, b"no Parquet").unwrap();
    let mut asked = question(dirs[0].path());
    asked.stores.push(dirs[1].path().into());
    asked.step = Some(Step::All);
    let answer = found(&asked);
    let expected = straightforward(
        &[("b", &b)],
        |_| true,
        None,
        Step::All,
        THREE,
        GroupBy::FILE,
    );
    assert!(rows(&answer) == expected);
    let is_told = |note: &Note| matches!(note, Note::Damaged { path: told, .. } if *told == path);
    assert!(answer.notes.iter().any(is_told), "{:?}", answer.notes);
}
