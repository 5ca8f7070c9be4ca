//! Seals a journal of requests into Parquet, ordered by time.
//!
//! Segments are written under temporary names, synced and renamed. Then the journal is removed.
//! Names and content depend only on the journal, so after an interruption it is simply sealed
//! again.
//!
//! Batches are nearly in order, because a request gets its time shortly before it enters its ring.
//! Only requests that may follow a later one are held back, which are about one batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::request::Request;
use trackiops_schemas::time::UtcMs;

use super::journal::RequestsScan;
use crate::batch::RequestRow;
use crate::beneath;
use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::journal::removal;
use crate::layout::{self, Date};
use crate::quarantine::{quarantine, quarantine_unreadable};
use crate::segment::metadata::Description;
use crate::segment::writer::{SegmentWriter, Target};

/// Result of sealing a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestsSealOutcome {
    pub(super) requests: u64,
    pub(super) torn_bytes: u64,
    /// Set if the journal is damaged: instead of being removed, it was renamed to this path.
    pub(super) quarantined: Option<PathBuf>,
}

/// Seals a journal that is no longer appended to. Does nothing if it does not exist.
pub(super) fn seal(store: &Path, number: u64) -> Result<RequestsSealOutcome, StoreError> {
    let journal = layout::requests_journal(store, number);
    seal_readable(store, number, &journal).or_else(|error| {
        Ok(RequestsSealOutcome {
            quarantined: Some(quarantine_unreadable(store, &journal, error)?),
            ..RequestsSealOutcome::default()
        })
    })
}

fn seal_readable(
    store: &Path,
    number: u64,
    path: &Path,
) -> Result<RequestsSealOutcome, StoreError> {
    let Some(journal) = JournalFile::open(path)? else {
        return Ok(RequestsSealOutcome::default());
    };
    let mut outcome = RequestsSealOutcome {
        torn_bytes: journal.bytes,
        ..RequestsSealOutcome::default()
    };
    let mut damaged = false;
    if let Some(scan) = RequestsScan::new(journal)? {
        outcome.torn_bytes = scan.torn_bytes;
        damaged = scan.damaged_bytes > 0;
        let mut segments = Segments {
            store,
            number,
            scan: &scan,
            open: None,
            written: Vec::new(),
        };
        in_order(&scan, |request| {
            outcome.requests += 1;
            segments.push(request)
        })?;
        let written = segments.finish()?;
        for segment in &written {
            let path = store.join(segment);
            beneath::rename(store, &layout::temporary(&path), &path)
                .map_err(StoreError::io("rename segment to", &path))?;
        }
        layout::sync_names(store, written.iter())?;
    }
    if damaged {
        outcome.quarantined = Some(quarantine(store, path)?);
        return Ok(outcome);
    }
    removal::remove(store, path)?;
    Ok(outcome)
}

/// Passes on the requests of a journal, ordered by completion.
fn in_order(
    scan: &RequestsScan,
    mut each: impl FnMut(Request) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    // For each batch, the earliest completion in all later batches.
    let mut following_ns = vec![i64::MAX; scan.batches.len()];
    let mut earliest_ns = i64::MAX;
    for (batch, following_ns) in scan.batches.iter().zip(&mut following_ns).rev() {
        *following_ns = earliest_ns;
        earliest_ns = earliest_ns.min(batch.first_ns);
    }
    let mut held = Vec::new();
    for (batch, following_ns) in scan.batches.iter().zip(following_ns) {
        held.extend(scan.requests(batch)?);
        // A stable sort, so that the order depends only on the journal. It is quick: little is out
        // of order.
        held.sort_by_key(|request: &Request| request.end_ns);
        let ready = held.partition_point(|request| request.end_ns <= following_ns);
        held.drain(..ready).try_for_each(&mut each)?;
    }
    Ok(())
}

/// Creates a segment. Returns its path relative to the store.
fn create(
    store: &Path,
    number: u64,
    scan: &RequestsScan,
    date: Date,
    start: UtcMs,
) -> Result<(String, SegmentWriter<RequestRow>), StoreError> {
    let host = &scan.header.host;
    let relative = layout::requests_segment(date, host, start, number);
    let path = store.join(&relative);
    if let Some(dir) = path.parent() {
        layout::create_dir(store, dir)?;
    }
    let target = Target {
        description: Description {
            dataset: layout::REQUESTS_DIR,
            granularity: None,
            host: host.as_str().into(),
            journals: Vec::new(),
        },
        path,
    };
    Ok((relative, SegmentWriter::create(store, target)?))
}

/// Writes the segments of a journal: one per date.
struct Segments<'a> {
    store: &'a Path,
    number: u64,
    scan: &'a RequestsScan,
    open: Option<(Date, SegmentWriter<RequestRow>)>,
    /// Paths relative to the store, including that of the open segment.
    written: Vec<String>,
}

impl Segments<'_> {
    /// Adds a request. Its completion must not be before that of the request before.
    fn push(&mut self, request: Request) -> Result<(), StoreError> {
        let start = UtcMs(request.end_ns.div_euclid(1_000_000));
        let date = Date::of(start);
        // The scan passes on only requests with known files.
        let Some(file) = self.scan.definitions.get(request.file) else {
            return Ok(());
        };
        let row = RequestRow {
            file: Arc::clone(file),
            request,
        };
        if self.open.as_ref().is_some_and(|(open, _)| *open != date) {
            self.close()?;
        }
        match &mut self.open {
            Some((_, writer)) => writer.push(row),
            none => {
                let (relative, writer) = create(self.store, self.number, self.scan, date, start)?;
                self.written.push(relative);
                none.insert((date, writer)).1.push(row)
            }
        }
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if let Some((_, writer)) = self.open.take() {
            writer.finish()?;
        }
        Ok(())
    }

    /// Completes the segments under their temporary names. Returns their final paths.
    fn finish(mut self) -> Result<Vec<String>, StoreError> {
        self.close()?;
        Ok(self.written)
    }
}
