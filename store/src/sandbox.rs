//! Confines a thread to its store.
//!
//! The threads that seal, merge, expire and delete act on a store's content. With Landlock (Linux 5.13 and later), they
//! can change nothing outside the store, even if the store is forged or they have a bug. Threads that look at mounts of
//! other processes are not confined, because Landlock would hide these processes.

use std::io;
use std::path::Path;

use landlock::{
    ABI, AccessFs, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};

use crate::beneath;

/// The newest version of Landlock to use. An older kernel enforces the part that it supports.
const KNOWN: ABI = ABI::V5;

/// Prevents the calling thread from changing anything outside the store. Returns whether the kernel enforces all of it.
pub(crate) fn confine_to(store: &Path) -> io::Result<bool> {
    let writing = AccessFs::from_write(KNOWN);
    let store = beneath::root(store)?;
    let confine = || {
        let ruleset = Ruleset::default().handle_access(writing)?.create()?;
        let ruleset = ruleset.add_rule(PathBeneath::new(store, writing))?;
        ruleset.restrict_self()
    };
    let confined = confine().map_err(io::Error::other)?;
    Ok(confined.ruleset == RulesetStatus::FullyEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    #[test]
    fn a_confined_thread_changes_nothing_outside_of_its_store() {
        let outer = tempfile::tempdir().unwrap();
        let store = outer.path().join("store");
        fs::create_dir_all(store.join("inner")).unwrap();
        fs::write(outer.path().join("theirs"), "theirs").unwrap();
        let (theirs, inside) = (outer.path().join("theirs"), store.clone());
        let held = thread::spawn(move || {
            // A kernel without Landlock does not confine the thread.
            let Ok(held) = confine_to(&inside) else {
                return false;
            };
            fs::write(inside.join("inner/file"), "ours").unwrap();
            fs::rename(inside.join("inner/file"), inside.join("file")).unwrap();
            fs::remove_file(inside.join("file")).unwrap();
            if held {
                assert!(fs::write(&theirs, "ours").is_err());
                assert!(fs::remove_file(&theirs).is_err());
                assert!(fs::rename(&theirs, inside.join("mine")).is_err());
                // It may still read everything.
                assert!(fs::read("/proc/self/statm").is_ok());
            }
            held
        });
        let held = held.join().unwrap();
        assert_eq!(fs::read(outer.path().join("theirs")).unwrap(), b"theirs");
        // Other threads are not confined.
        fs::write(outer.path().join("theirs"), if held { "" } else { " " }).unwrap();
    }
}
