//! Until when mounts were there.
//!
//! The catalog has the last time at which a mount was seen, which is one of these:
//!
//! * When the list of mounts last changed, for mounts in the list of before and after.
//! * One millisecond before that, for mounts that the list lacks since then.
//! * The end of a journal: when it is closed, all mounts of the list are still there. Readers see this when the journal
//!   is sealed, and never if the recorder ends before.
//!
//! So a mount that did not go was there until the end of the journal in which it was last seen, and that may be later.

use std::collections::{BTreeSet, HashMap, HashSet};

use trackiops_schemas::time::UtcMs;

use crate::catalog::mounts::MountSeen;
use crate::names::Seen;

/// The mounts and the journals of a host.
#[derive(Default)]
struct OfHost {
    /// When mounts were first seen.
    came: BTreeSet<UtcMs>,
    /// When mounts were last seen.
    lasts: HashSet<UtcMs>,
    /// Start of the first and end of the last window of each journal, in order.
    journals: Vec<Seen>,
    ends: HashSet<UtcMs>,
}

impl OfHost {
    /// Whether a mount was still there after the catalog has seen it last.
    fn has_stayed(&self, mount: &MountSeen) -> bool {
        let (first, last) = mount.seen;
        let after = UtcMs(last.0.saturating_add(1));
        if self.came.contains(&after) || self.lasts.contains(&after) {
            // The list changed then, and has no longer this mount.
            return false;
        }
        // If it came last, the list has not changed since then.
        let before = UtcMs(last.0.saturating_sub(1));
        first == last
            || self.came.contains(&last)
            || self.ends.contains(&last)
            || self.lasts.contains(&before)
    }

    /// When a mount was last there.
    fn last(&self, mount: &MountSeen) -> UtcMs {
        let (_, last) = mount.seen;
        if !self.has_stayed(mount) {
            return last;
        }
        let mut until = last;
        for (start, end) in self.journals.iter().filter(|(_, end)| *end > last) {
            // After a gap, it may be another recording.
            if *start > until {
                break;
            }
            until = until.max(*end);
        }
        // A change that this mount has not seen is of a later recording.
        let after = UtcMs(last.0.saturating_add(1));
        let next = self.came.range(after..).next();
        next.map_or(until, |next| until.min(*next))
    }
}

/// Sets when the mounts of a store were last there, by its journals: hosts, and the times of windows.
pub(crate) fn complete(mounts: &mut [MountSeen], journals: &[(String, Seen)]) {
    let lasts = lasts(mounts, journals);
    for (mount, last) in mounts.iter_mut().zip(lasts) {
        mount.seen.1 = last;
    }
}

/// When each mount was last there.
fn lasts(mounts: &[MountSeen], journals: &[(String, Seen)]) -> Vec<UtcMs> {
    let mut hosts: HashMap<&str, OfHost> = HashMap::new();
    for mount in mounts {
        let of_host = hosts.entry(mount.host.as_str()).or_default();
        let (first, last) = mount.seen;
        of_host.came.insert(first);
        of_host.lasts.insert(last);
    }
    for (host, span) in journals {
        if let Some(of_host) = hosts.get_mut(host.as_str()) {
            of_host.journals.push(*span);
            of_host.ends.insert(span.1);
        }
    }
    for of_host in hosts.values_mut() {
        of_host.journals.sort_unstable();
    }
    let last = |mount: &MountSeen| match hosts.get(mount.host.as_str()) {
        Some(of_host) => of_host.last(mount),
        None => mount.seen.1,
    };
    mounts.iter().map(last).collect()
}
