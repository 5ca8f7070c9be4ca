//! What a recorder may do besides what its user may.
//!
//! Loading and attaching BPF programs needs most of root's capabilities. Afterwards few are needed,
//! and the others are given up, for good. Each thread has its own: those that are started by this
//! crate begin with giving up.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// To find what processes of all users have open, and where their mounts are.
const OF_OBSERVERS: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);
/// To read the kernel side's maps as well. Where `kernel.unprivileged_bpf_disabled` is not 0, bpf(2) asks for it.
const OF_READERS_OF_MAPS: CapabilitySet = OF_OBSERVERS.union(CapabilitySet::BPF);
/// To have the kernel measure run times of programs, and to attach them again.
const OF_MEASURERS: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::BPF);
/// To reach a store below directories of others.
const OF_WRITERS: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// For the thread that reads the kernel side's maps, once everything is attached. It starts all others.
pub fn keep_those_of_readers_of_maps() -> io::Result<()> {
    keep(OF_READERS_OF_MAPS)
}

pub(crate) fn keep_those_of_observers() -> io::Result<()> {
    keep(OF_OBSERVERS)
}

pub(crate) fn keep_those_of_measurers() -> io::Result<()> {
    keep(OF_MEASURERS)
}

pub(crate) fn keep_those_of_writers() -> io::Result<()> {
    keep(OF_WRITERS)
}

/// Gives up all capabilities of the calling thread but these.
fn keep(kept: CapabilitySet) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & kept;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread::Builder;

    use super::*;

    fn held() -> CapabilitySet {
        capabilities(None).unwrap().permitted
    }

    #[test]
    fn a_thread_keeps_what_it_needs_and_gets_nothing_back() {
        let before = held();
        let observer = crate::spawn_observer(Builder::new(), held).unwrap();
        assert_eq!(observer.join().unwrap(), before & OF_OBSERVERS);
        let writer = crate::spawn(Builder::new(), || {
            let at_first = held();
            keep_those_of_readers_of_maps().unwrap();
            assert_eq!(held(), at_first, "what was given up does not come back");
            at_first
        });
        assert_eq!(writer.unwrap().join().unwrap(), before & OF_WRITERS);
        assert_eq!(held(), before, "other threads keep theirs");
    }
}
