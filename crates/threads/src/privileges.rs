//! Capabilities of a recorder beyond its user's permissions.
//!
//! Loading and attaching BPF programs needs most of root's capabilities. Later, few are needed, and the recorder drops the others for good.
//! Capabilities belong to threads: threads that this crate starts first drop theirs.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// To find the open files of all users' processes, and their mounts.
const OF_OBSERVERS: CapabilitySet = CapabilitySet::SYS_PTRACE.union(CapabilitySet::DAC_READ_SEARCH);
/// To read BPF maps as well. bpf(2) requires it unless `kernel.unprivileged_bpf_disabled` is 0.
const OF_READERS_OF_MAPS: CapabilitySet = OF_OBSERVERS.union(CapabilitySet::BPF);
/// To make the kernel measure run times of programs, and to attach programs again.
const OF_MEASURERS: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::BPF);
/// To enter the network namespaces of all users' processes.
const OF_NETWORK_OBSERVERS: CapabilitySet =
    CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_PTRACE);
/// To reach a store below directories of other users.
const OF_WRITERS: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// For the thread that reads BPF maps, after all programs are attached. It starts all other threads.
pub fn keep_those_of_readers_of_maps() -> io::Result<()> {
    keep(OF_READERS_OF_MAPS)
}

pub(crate) fn keep_those_of_observers() -> io::Result<()> {
    keep(OF_OBSERVERS)
}

pub(crate) fn keep_those_of_measurers() -> io::Result<()> {
    keep(OF_MEASURERS)
}

pub(crate) fn keep_those_of_network_observers() -> io::Result<()> {
    keep(OF_NETWORK_OBSERVERS)
}

pub(crate) fn keep_those_of_writers() -> io::Result<()> {
    keep(OF_WRITERS)
}

/// For a thread that reads only what every user may read.
pub fn keep_none() -> io::Result<()> {
    keep(CapabilitySet::empty())
}

/// Drops all capabilities of the calling thread except these.
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
        let observer = crate::spawn_network_observer(Builder::new(), held).unwrap();
        assert_eq!(observer.join().unwrap(), before & OF_NETWORK_OBSERVERS);
        let writer = crate::spawn(Builder::new(), || {
            let at_first = held();
            keep_those_of_readers_of_maps().unwrap();
            assert_eq!(held(), at_first, "what was given up does not come back");
            at_first
        });
        assert_eq!(writer.unwrap().join().unwrap(), before & OF_WRITERS);
        let nothing = crate::spawn(Builder::new(), || keep_none().map(|()| held()));
        let kept = nothing.unwrap().join().unwrap();
        assert_eq!(kept.unwrap(), CapabilitySet::empty());
        assert_eq!(held(), before, "other threads keep theirs");
    }
}
