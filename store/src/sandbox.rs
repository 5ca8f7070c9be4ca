//! Holding a thread to its store.
//!
//! The threads that seal, merge, expire and delete act on what a store says. Where the kernel has Landlock (5.13 and later), they
//! can change nothing outside of it, whatever is wrong with it or with them. Threads that look at mounts of other processes are not held: Landlock
//! would have them see none.

use std::io;
use std::path::Path;

use landlock::{
    ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};

/// The newest that is known. An older kernel does what it can.
const KNOWN: ABI = ABI::V5;

/// From now on the calling thread changes nothing outside of the store. Whether the kernel sees to all of that.
pub(crate) fn confine_to(store: &Path) -> io::Result<bool> {
    let writing = AccessFs::from_write(KNOWN);
    let store = PathFd::new(store).map_err(io::Error::other)?;
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
            // A kernel without Landlock confines nobody.
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
                // What it reads may be anywhere.
                assert!(fs::read("/proc/self/statm").is_ok());
            }
            held
        });
        let held = held.join().unwrap();
        assert_eq!(fs::read(outer.path().join("theirs")).unwrap(), b"theirs");
        // Others are as they were.
        fs::write(outer.path().join("theirs"), if held { "" } else { " " }).unwrap();
    }
}
