//! A store survives every end of its writer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Snapshot, Warning, Writer, check};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{Told, complete, journals, open, options, recovered, tell};
use trackiops_testkit::windows::{T0, granularity, window, windows};

fn assert_holds(store: &Path, windows: &[ClosedWindow]) {
    for text in ["1s", "10s", "1m", "1h"] {
        let granularity = granularity(text);
        let (stored, expected) = (
            Content::stored(store, granularity),
            Content::of(windows, granularity),
        );
        assert_eq!(stored, expected, "{text}");
    }
}

/// Appends windows and drops the writer without finishing.
fn leave(store: &Path, windows: &[ClosedWindow]) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    windows
        .iter()
        .for_each(|window| writer.append(window).unwrap());
}

#[test]
fn a_dropped_writer_leaves_a_store_that_the_next_completes() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(20);
    leave(dir.path(), &windows);
    assert_eq!(journals(dir.path()), ["1.tij"]);
    assert_holds(dir.path(), &windows);

    assert_eq!(complete(dir.path(), options("h")), [recovered(20, 0)]);
    assert!(journals(dir.path()).is_empty());
    assert_holds(dir.path(), &windows);
    assert_eq!(complete(dir.path(), options("h")), []);
}

#[test]
fn windows_are_appended_while_what_was_left_is_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(20);
    leave(dir.path(), &windows[..10]);
    let (go_on, held) = mpsc::channel();
    let is_told = Told::default();
    let tell = tell(&is_told);
    // Holds the sealing thread here for now.
    let hold = move |warning| {
        held.recv_timeout(Duration::from_secs(60))
            .expect("nobody waits for it");
        tell(warning);
    };
    let mut writer = Writer::open_after(dir.path(), options("h"), None, hold).unwrap();
    for window in &windows[10..] {
        writer.append(window).unwrap();
    }
    assert_eq!(*is_told.lock().unwrap(), []);
    assert_holds(dir.path(), &windows);
    go_on.send(()).unwrap();
    writer.finish().unwrap();
    assert_eq!(*is_told.lock().unwrap(), [recovered(10, 0)]);
    assert!(journals(dir.path()).is_empty());
    assert_holds(dir.path(), &windows);
}

#[test]
fn journal_numbers_are_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for window in windows(3) {
        leave(dir.path(), std::slice::from_ref(&window));
        expected.push(window);
    }
    assert_eq!(journals(dir.path()), ["3.tij"]);
    assert_holds(dir.path(), &expected);
}

#[test]
fn a_tail_torn_at_any_byte_costs_the_torn_window_alone() {
    let second = granularity("1s");
    // One granularity, because there are many bytes.
    let leave = |store: &Path, windows: &[ClosedWindow]| {
        let mut options = options("h");
        options.granularities = "1s".parse().unwrap();
        let mut writer = Writer::open(store, options).unwrap();
        windows
            .iter()
            .for_each(|window| writer.append(window).unwrap());
        let read = |name| fs::read(store.join("journal").join(name)).unwrap();
        (read("1.tij"), read("1.end"))
    };
    let windows = windows(3);
    let (kept, end) = leave(tempfile::tempdir().unwrap().path(), &windows[..2]);
    for cut in kept.len().. {
        let store = tempfile::tempdir().unwrap();
        let (whole, _) = leave(store.path(), &windows);
        // The third was never synced.
        fs::write(store.path().join("journal/1.end"), &end).unwrap();
        if cut == whole.len() {
            break;
        }
        // Results of a crash: the file is cut short, or its end was never written.
        let torn = [&whole[..cut], &vec![0; whole.len() - cut]];
        for torn in [torn.concat(), torn[0].to_vec()] {
            if torn == whole {
                continue;
            }
            fs::write(store.path().join("journal/1.tij"), torn).unwrap();
            let content = Content::stored(store.path(), second);
            assert_eq!(content, Content::of(&windows[..2], second), "cut at {cut}");
        }
        let torn_bytes = (cut - kept.len()) as u64;
        let told = complete(store.path(), options("h"));
        assert_eq!(told, [recovered(2, torn_bytes)]);
        let content = Content::stored(store.path(), second);
        assert_eq!(content, Content::of(&windows[..2], second), "cut at {cut}");
    }
}

#[test]
fn damage_in_the_middle_costs_the_damaged_window_alone_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(10);
    leave(dir.path(), &windows);
    let journal = dir.path().join("journal/1.tij");
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let quarantined = dir.path().join("journal/1.tij.damaged");
    assert_eq!(
        complete(dir.path(), options("h")),
        [recovered(9, 0), Warning::Quarantined(quarantined)]
    );
    let kept = Content::stored(dir.path(), granularity("1s"));
    let is_kept = |window: &ClosedWindow| kept.health.contains_key(&window.start);
    let windows: Vec<_> = windows.into_iter().filter(is_kept).collect();
    assert_eq!(windows.len(), 9);
    assert_holds(dir.path(), &windows);
}

#[test]
fn a_journal_whose_header_a_power_cut_has_kept_from_the_disk_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    leave(dir.path(), &windows(1));
    let journal = dir.path().join("journal/1.tij");
    let bytes = fs::read(&journal).unwrap();
    let header_bytes = 16 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let mut torn = bytes[..header_bytes].to_vec();
    torn[header_bytes - 8..].fill(0);
    // A part of the header, a length without data, and a header whose end is zeros.
    for left in [bytes[..20].to_vec(), vec![0; header_bytes], torn] {
        let store = tempfile::tempdir().unwrap();
        let [catalog, before] = ["catalog.db", "before"].map(|name| store.path().join(name));
        drop(open(store.path(), options("h")));
        fs::hard_link(&catalog, &before).unwrap();
        leave(store.path(), &windows(1));
        // The catalog names a journal only after its first append.
        fs::rename(&before, &catalog).unwrap();
        fs::write(store.path().join("journal/1.tij"), &left).unwrap();
        // Nothing was appended to the journal.
        fs::write(store.path().join("journal/1.end"), "").unwrap();
        assert_eq!(check(store.path()).unwrap().findings, []);
        assert!(Snapshot::open(store.path()).unwrap().tails().is_empty());
        let (mut writer, told) = open(store.path(), options("h"));
        writer.append(&windows(1)[0]).unwrap();
        drop(writer);
        assert_eq!(*told.lock().unwrap(), [recovered(0, left.len() as u64)]);
        assert_eq!(journals(store.path()), ["2.tij"]);
    }
}

#[test]
fn a_journal_of_zeros_that_had_windows_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    leave(dir.path(), &windows(2));
    let journal = dir.path().join("journal/1.tij");
    let bytes = fs::read(&journal).unwrap().len();
    fs::write(&journal, vec![0; bytes]).unwrap();
    let quarantined = dir.path().join("journal/1.tij.damaged");
    assert_eq!(
        complete(dir.path(), options("h")),
        [Warning::Quarantined(quarantined)]
    );
}

#[test]
fn a_journal_that_makes_no_sense_is_set_aside_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows(2);
    leave(dir.path(), &windows);
    fs::write(dir.path().join("journal/9.tij"), b"not a journal at all").unwrap();
    let quarantined = dir.path().join("journal/9.tij.damaged");
    assert_eq!(
        complete(dir.path(), options("h")),
        [recovered(2, 0), Warning::Quarantined(quarantined)]
    );
    assert_holds(dir.path(), &windows);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_in_a_journal_stop_recovery(
        header in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        leave(dir.path(), &windows(2));
        let journal = dir.path().join("journal/1.tij");
        let mut content = if header { fs::read(&journal).unwrap() } else { Vec::new() };
        content.extend(bytes);
        for (at, with) in flips {
            if !content.is_empty() {
                let at = at.index(content.len());
                content[at] ^= with;
            }
        }
        // Keep the version valid: a journal of another format is neither read nor set aside.
        if content.len() >= 8 {
            content[4..8].copy_from_slice(&1_u32.to_le_bytes());
        }
        fs::write(&journal, content).unwrap();
        if let Ok(snapshot) = Snapshot::open(dir.path()) {
            for tail in snapshot.tails() {
                let _ = tail.windows(&mut |_| {});
            }
        }
        Writer::open(dir.path(), options("h")).unwrap().finish().unwrap();
        let left = journals(dir.path());
        prop_assert!(left.is_empty() || left == ["1.tij.damaged"], "{:?}", left);
    }
}

#[test]
fn a_journal_that_somebody_deletes_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let (journal, end) = (store.join("journal/1.tij"), store.join("journal/1.end"));
    let recorded = windows(3);
    let (mut writer, _) = open(store, options("h"));
    recorded
        .iter()
        .for_each(|window| writer.append(window).unwrap());
    let vouched = fs::read(&end).unwrap();
    drop(writer);
    fs::copy(&journal, store.join("copy")).unwrap();
    fs::remove_file(&journal).unwrap();
    let is_missed = || {
        let snapshot = Snapshot::open(store).unwrap();
        let unread = snapshot
            .unread()
            .iter()
            .map(|unread| (&unread.path, unread.covers));
        let findings = check(store).unwrap().findings;
        let found: Vec<_> = findings.iter().map(|finding| &finding.path).collect();
        assert_eq!(
            unread.clone().map(|(path, _)| path).collect::<Vec<_>>(),
            found
        );
        let (start, after) = (UtcMs(T0), UtcMs(T0 + 3000));
        match unread.collect::<Vec<_>>()[..] {
            [] => false,
            ref missed => {
                assert_eq!(*missed, [(&journal, Some((start, after)))]);
                true
            }
        }
    };
    assert!(is_missed());
    // The next recorder neither hides the loss nor reuses the number.
    complete(store, options("h"));
    assert!(is_missed());
    let (mut writer, _) = open(store, options("h"));
    writer.append(&window(T0 + 60_000, Vec::new())).unwrap();
    assert!(!journal.exists());
    writer.finish().unwrap();
    assert!(is_missed());
    // The journal comes back and is sealed.
    fs::rename(store.join("copy"), &journal).unwrap();
    complete(store, options("h"));
    assert!(!is_missed() && !end.exists());
    // A recorder was killed between removing the journal and removing its `.end` file.
    fs::write(&end, vouched).unwrap();
    assert!(!is_missed());
    complete(store, options("h"));
    assert!(!end.exists());
}

#[test]
fn damage_in_the_last_frame_is_told_if_the_file_beside_the_journal_is_damaged_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for window in windows(5) {
        writer.append(&window).unwrap();
    }
    drop(writer);
    let journal = dir.path().join("journal/1.tij");
    let mut bytes = fs::read(&journal).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&journal, bytes).unwrap();
    let end = dir.path().join("journal/1.end");
    let whole = fs::read(&end).unwrap();
    // Damage the last written slot, then both.
    for flipped in [&[0][..], &[0, 512]] {
        let mut bytes = whole.clone();
        flipped.iter().for_each(|at: &usize| bytes[*at] ^= 1);
        fs::write(&end, bytes).unwrap();
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let damage = snapshot.tails()[0].damage();
        assert_eq!(damage.len(), 1, "{flipped:?}");
    }
    let told = complete(dir.path(), options("h"));
    assert!(
        dir.path().join("journal/1.tij.damaged").exists(),
        "{told:?}"
    );
}
