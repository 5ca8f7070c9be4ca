//! Sealing: turning a journal into segments of every granularity.
//!
//! Power may fail between any two of these steps:
//!
//! 1. segments are written under temporary names and made durable;
//! 2. they are renamed, and their directories made durable;
//! 3. one catalog transaction enters segments, files, names and mounts, and marks the journal sealed;
//! 4. the journal is removed, and its directory made durable.
//!
//! Before step 3, readers read the journal and none of its segments. After it, they read the segments and skip the
//! journal. A journal that is not marked sealed is sealed again from the start. That overwrites the same names, because
//! names and content depend only on the journal. A journal that is marked sealed is only removed.
//!
//! Memory depends on the number of windows (a read buffer each, [`merge_windows::READ_BUFFER_BYTES`] together), the
//! number of files, and one Parquet row group per date. It does not depend on the journal's size
//! (`docs/results/store.md`).

pub(crate) mod coarsen;
pub(crate) mod merge_windows;
mod outputs;
mod spool;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::{Catalog, Sealed};
use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::journal::removal;
use crate::journal::scan::JournalScan;
use crate::layout;
use crate::quarantine::{quarantine, quarantine_unreadable};
use crate::segment::metadata::JournalSpan;
use outputs::Outputs;

/// A completed step of sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Every segment is complete under its temporary name.
    Written,
    /// One segment has its final name; more may follow.
    Renamed,
    /// The names of all segments are durable.
    NamesDurable,
    /// The catalog lists the segments.
    Committed,
    /// The journal is removed, or set aside.
    JournalRemoved,
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::Written => "seal: written",
        Step::Renamed => "seal: renamed",
        Step::NamesDurable => "seal: names durable",
        Step::Committed => "seal: committed",
        Step::JournalRemoved => "seal: journal removed",
    }
}

/// Called after each step. It can stop sealing there, like a crash. Tests use it.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(Step) -> ControlFlow<()>;

/// Result of sealing a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SealOutcome {
    pub(crate) windows: u64,
    pub(crate) torn_bytes: u64,
    /// Set if the journal is damaged: instead of being removed, it was renamed to this path.
    pub(crate) quarantined: Option<PathBuf>,
}

/// Seals journals that do not grow any more. All of them are committed before the first one is removed, so the catalog
/// is published once.
pub(crate) fn seal(
    store: &Path,
    catalog: &mut Catalog,
    numbers: &[u64],
    observer: Observer<'_>,
) -> Result<Vec<SealOutcome>, StoreError> {
    let mut written = Vec::new();
    for number in numbers {
        written.push(match write_segments(store, catalog, *number, observer) {
            Ok(segments) => Written::Segments(segments),
            Err(error) => {
                let journal = layout::journal(store, *number);
                Written::SetAside(quarantine_unreadable(store, &journal, error)?)
            }
        });
    }
    if catalog.publish_changes()?
        && let Some(number) = numbers.last()
    {
        take(Step::Committed, *number, observer)?;
    }
    let written = numbers.iter().zip(written);
    let finished = written.map(|(number, written)| match written {
        Written::Segments(segments) => segments.remove_journal(store, catalog, *number, observer),
        Written::SetAside(path) => Ok(SealOutcome {
            quarantined: Some(path),
            ..SealOutcome::default()
        }),
    });
    finished.collect()
}

/// The result of writing a journal's segments.
enum Written {
    Segments(Segments),
    /// It could not be read, and was renamed to this path.
    SetAside(PathBuf),
}

/// Segments of a journal.
#[derive(Default)]
struct Segments {
    outcome: SealOutcome,
    /// The catalog lists them, or will after it is published.
    is_sealed: bool,
    /// A part of the journal could not be read.
    is_damaged: bool,
}

fn take(step: Step, number: u64, observer: Observer<'_>) -> Result<(), StoreError> {
    fail_point::hit(step_name(step));
    match observer(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(StoreError::Interrupted(number)),
    }
}

fn write_segments(
    store: &Path,
    catalog: &mut Catalog,
    number: u64,
    observer: Observer<'_>,
) -> Result<Segments, StoreError> {
    let mut step = |step| take(step, number, observer);
    let mut segments = Segments {
        is_sealed: catalog.is_sealed(number)?,
        ..Segments::default()
    };
    let path = layout::journal(store, number);
    match JournalFile::open(&path)? {
        Some(journal) => {
            let file_bytes = journal.bytes;
            let scan = JournalScan::new(journal.of_store(catalog.ids()))?;
            // Also if it was sealed before: an interrupted sealing may not have set it aside.
            segments.is_damaged = scan.as_ref().is_some_and(|scan| {
                let is_used = !scan.windows.is_empty();
                !scan.damage.is_empty()
                    || (scan.torn_bytes > 0 && scan.journal.has_unknown_length(is_used))
            });
            if !segments.is_sealed {
                let outcome = &mut segments.outcome;
                outcome.torn_bytes = scan.as_ref().map_or(file_bytes, |scan| scan.torn_bytes);
                if let Some(scan) = &scan {
                    outcome.windows = scan.windows.len() as u64;
                    seal_scanned(store, catalog, number, scan, &mut step)?;
                    segments.is_sealed = true;
                }
            }
        }
        None if segments.is_sealed => {}
        None => {
            let missing = io::ErrorKind::NotFound.into();
            return Err(StoreError::io("open journal", &path)(missing));
        }
    }
    Ok(segments)
}

impl Segments {
    /// Removes the journal of segments in the published catalog, or sets it aside.
    fn remove_journal(
        mut self,
        store: &Path,
        catalog: &Catalog,
        number: u64,
        observer: Observer<'_>,
    ) -> Result<SealOutcome, StoreError> {
        // A later change of the catalog may have failed and undone this one.
        if self.is_sealed && !catalog.is_sealed(number)? {
            return Err(StoreError::Interrupted(number));
        }
        let path = layout::journal(store, number);
        if self.is_damaged {
            self.outcome.quarantined = Some(quarantine(store, &path)?);
        } else {
            removal::remove(store, &path)?;
        }
        take(Step::JournalRemoved, number, observer)?;
        Ok(self.outcome)
    }
}

fn seal_scanned(
    store: &Path,
    catalog: &mut Catalog,
    number: u64,
    scan: &JournalScan,
    step: &mut dyn FnMut(Step) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let previous = scan.header.previous.map(|previous| previous.number);
    let span = scan.span().map(|(start, end)| JournalSpan {
        number,
        previous,
        start,
        end,
    });
    let mut outputs = span.map(|span| Outputs::new(store, catalog.identity(), span, scan));
    let segments = match &mut outputs {
        Some(outputs) => outputs.write()?,
        None => Vec::new(),
    };
    step(Step::Written)?;
    for segment in &segments {
        let path = store.join(&segment.path);
        beneath::rename(store, &layout::temporary(&path), &path)
            .map_err(StoreError::io("rename segment to", &path))?;
        step(Step::Renamed)?;
    }
    layout::sync_names(store, segments.iter().map(|segment| &segment.path))?;
    step(Step::NamesDurable)?;
    catalog.commit(&Sealed {
        journal: number,
        previous,
        span,
        host: &scan.header.host,
        segments: &segments,
        files: &outputs.map_or_else(Vec::new, |outputs| outputs.files_seen()),
    })
}
