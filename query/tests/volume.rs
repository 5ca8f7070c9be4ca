//! Sizes of stores.

use std::path::Path;

use trackiops_query::{Outcome, Volume, ask_volume};
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::stores::{append, options_of};

fn volumes(store: &Path) -> Vec<Volume> {
    let retention = "1s=2d,10s=forever".parse().unwrap();
    match ask_volume(store, &retention).unwrap() {
        Outcome::Found(answer) => answer.rows,
        Outcome::Nothing { why, .. } => panic!("{why:?}"),
    }
}

fn file_bytes(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

#[test]
fn journals_count_until_they_are_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let all = windows(1, THREE, 1000, 90, 6);
    let rows = |from: usize, to: usize| -> u64 {
        let windows = all[from..to].iter();
        windows.map(|window| window.rows.len() as u64).sum()
    };
    // A minute and a half: at first nothing is sealed, then the first minute.
    let writer = append(store, options_of("a", "1s,10s", "1m"), &all[..60]);
    let found = volumes(store);
    let [journal] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (journal.dataset, journal.granularity.ms(), journal.segments),
        ("journal", 1000, 1)
    );
    assert_eq!(journal.entries, rows(0, 60));
    assert_eq!(journal.bytes, file_bytes(&store.join("journal/1.tij")));
    assert_eq!((journal.bytes_per_day, journal.bytes_at_most), (None, None));
    drop(writer);
    // The next recorder seals what it finds.
    let writer = append(store, options_of("a", "1s,10s", "1m"), &all[60..]);
    let found = volumes(store);
    let (sealed, journals): (Vec<_>, Vec<_>) = found.iter().partition(|row| row.is_sealed());
    assert!(sealed.iter().any(|row| row.dataset == "rollup"));
    assert!(sealed.iter().all(|row| row.bytes_per_day.is_some()));
    let journals: Vec<_> = journals.iter().map(|row| row.entries).collect();
    assert_eq!(journals, [rows(60, 90)]);
    writer.finish().unwrap();
    assert!(volumes(store).iter().all(Volume::is_sealed));
}
