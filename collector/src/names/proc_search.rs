//! Searches `/proc` for the names of files, for recordings that get no paths from the kernel side.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::identity::Dev;
use trackiops_schemas::level::IoLevel;

use crate::clock::{MonotonicNs, is_due};
use crate::names::known_files::KnownFiles;
use crate::names::mappings::Mappings;
use crate::names::mountinfo::pids;
use crate::names::mounts::Mounts;
use crate::names::open_files::{OpenFile, descriptors};
use crate::rollup::row_key::RowKey;

/// A name is checked again after this time: files are renamed while they are open.
const RECHECK: Duration = Duration::from_secs(30);
/// Least time between searches of all processes for files without a name.
const FULL_SCAN: Duration = Duration::from_secs(5);
/// Descriptors that are read in one go: about 20 ms of system calls.
const DESCRIPTORS: usize = 8192;

/// Searches processes for the files that they have open or mapped.
pub struct ProcSearch {
    /// Recently used files that no search has found.
    nameless: HashSet<RowKey>,
    mappings: Mappings,
    /// When all processes were last searched.
    scanned: Option<MonotonicNs>,
}

impl ProcSearch {
    /// Starts the thread that reads mappings.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            nameless: HashSet::new(),
            mappings: Mappings::new()?,
            scanned: None,
        })
    }

    /// Looks up the names of recently seen rows, each with a process that used the file. Call it regularly, even if
    /// nothing was seen.
    pub fn observe(
        &mut self,
        seen: &[(RowKey, u32)],
        known: &mut KnownFiles,
        mounts: &Mounts,
        now: MonotonicNs,
    ) {
        // Files found since by searches that earlier calls did not wait for.
        let mapped = self.mappings.look();
        self.name(mapped, known, now);
        if seen.is_empty() {
            return;
        }
        let mut processes = HashSet::new();
        for (row, pid) in seen.iter().filter(|(row, _)| row.level == IoLevel::Wire) {
            let file = known.entry(*row, mounts, now);
            let stale = now.0.saturating_sub(file.checked.0) > RECHECK.as_nanos() as u64;
            if file.attributes.path.is_none() || stale {
                file.checked = now;
                processes.insert(*pid);
                if file.attributes.path.is_none() && file.tries_left > 0 {
                    self.nameless.insert(*row);
                }
            }
        }
        processes.remove(&0);
        self.look_into(processes.into_iter(), known, now);
        self.scan_for_the_nameless(known, mounts, now);
    }

    /// Gives up the search for files that were not found.
    pub fn forget_nameless(&mut self) {
        self.nameless.clear();
    }

    fn scan_for_the_nameless(&mut self, known: &mut KnownFiles, mounts: &Mounts, now: MonotonicNs) {
        if self.nameless.is_empty() || !is_due(&mut self.scanned, now, FULL_SCAN) {
            return;
        }
        self.look_into(pids(), known, now);
        for row in mem::take(&mut self.nameless) {
            let file = known.entry(row, mounts, now);
            file.tries_left = file.tries_left.saturating_sub(1);
        }
    }

    fn look_into(
        &mut self,
        processes: impl Iterator<Item = u32>,
        known: &mut KnownFiles,
        now: MonotonicNs,
    ) {
        let mut limit = DESCRIPTORS;
        let mut open = Vec::new();
        for pid in processes {
            open.extend(descriptors(pid, &mut limit));
            self.mappings.want(pid);
        }
        open.extend(self.mappings.look());
        self.name(open, known, now);
    }

    fn name(&mut self, open: Vec<OpenFile>, known: &mut KnownFiles, now: MonotonicNs) {
        let names = open.into_iter();
        let names: AHashMap<(Dev, u64), String> = names
            .map(|open| ((open.dev, open.fileid), open.path))
            .collect();
        if names.is_empty() {
            return;
        }
        for (row, file) in known.recent() {
            if let Some(path) = names.get(&(row.file.dev, row.file.fileid)) {
                file.checked = now;
                if file.attributes.path.as_ref() != Some(path) {
                    let attributes = Arc::make_mut(&mut file.attributes);
                    attributes.path = Some(path.clone());
                    attributes.path_inferred = true;
                }
                self.nameless.remove(row);
            }
        }
    }
}
