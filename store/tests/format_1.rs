//! What version 1 of the format wrote is read, completed and continued. `format-1/` was written by a release of it: two
//! windows sealed, two in a journal.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::path::Path;

use common::{Content, complete, copy, file, reads, recovered, window};
use trackiops_schemas::pending::Pending;
use trackiops_store::{Options, Writer};

#[test]
fn a_store_of_version_1_is_read_completed_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1");
    copy(&store, dir.path());
    let second = "1s".parse().unwrap();
    let before = Content::stored(dir.path(), second);
    assert_eq!((before.rows.len(), before.health.len()), (4, 4));
    for health in before.health.values() {
        assert_eq!((health.covered_ms, health.seen), (1000, 1));
        assert_eq!(health.pending, None, "not known");
    }
    for row in before.rows.values() {
        assert_eq!((row.read.requests, row.read.unsplit), (1, 1), "not known");
    }
    let options = Options {
        host: "h".into(),
        granularities: "1s".parse().unwrap(),
        rotate: "15m".parse().unwrap(),
        filter: None,
        allow_nfs_store: true,
        keep: Default::default(),
    };
    let told = complete(dir.path(), options.clone());
    assert_eq!(told, [recovered(2, 0)]);
    let mut writer = Writer::open(dir.path(), options).unwrap();
    assert_eq!(Content::stored(dir.path(), second), before);
    let later = before.health.keys().max().unwrap().0 + 1000;
    let mut next = window(later, vec![(file(1, 49, None), reads(1))]);
    next.health.pending = Some(Pending::default());
    writer.append(&next).unwrap();
    writer.finish().unwrap();
    let after = Content::stored(dir.path(), second);
    assert_eq!(after.health.len(), 5);
    assert_eq!(
        after.health[&next.start].pending,
        Some(Pending::default()),
        "nothing was pending"
    );
}
