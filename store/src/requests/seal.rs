//! Seals a journal of requests into Parquet, ordered by time.
//!
//! Segments are written under temporary names, synced and renamed. One catalog transaction enters them and the journal.
//! Then the journal is removed. Before the transaction, readers read the journal and none of its segments. Names and
//! content depend only on the journal, so an interrupted sealing is simply repeated.
//!
//! Batches are nearly in order, because a request gets its time shortly before it enters its ring. Only requests that
//! may follow a later one are held back, about one batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::request::Request;
use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use super::journal::RequestsScan;
use crate::batch::RequestRow;
use crate::beneath;
use crate::catalog::{Catalog, RequestsEntry};
use crate::error::StoreError;
use crate::identity::Identity;
use crate::journal::file::JournalFile;
use crate::journal::removal;
use crate::layout::{self, Date};
use crate::quarantine::{quarantine, quarantine_unreadable};
use crate::segment::metadata::{Description, JournalSpan};
use crate::segment::writer::{SegmentWriter, Target};

/// Result of sealing a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestsSealOutcome {
    pub(super) requests: u64,
    pub(super) torn_bytes: u64,
    /// Set if the journal is damaged: instead of being removed, it was renamed to this path.
    pub(super) quarantined: Option<PathBuf>,
}

/// Seals journals that do not grow any more. All of them are committed before the first one is removed, so the catalog
/// is published once. Ignores journals that do not exist.
pub(super) fn seal(
    catalog: &Catalog,
    numbers: &[u64],
) -> Result<Vec<RequestsSealOutcome>, StoreError> {
    let store = catalog.store();
    let mut written = Vec::new();
    for number in numbers {
        let journal = layout::requests_journal(store, *number);
        written.push(match write_segments(catalog, *number, &journal) {
            Ok(segments) => segments,
            Err(error) => Some(Written::SetAside(quarantine_unreadable(
                store, &journal, error,
            )?)),
        });
    }
    catalog.publish_changes()?;
    fail_point::hit("requests: committed");
    let written = numbers.iter().zip(written);
    let finished = written.map(|(number, written)| match written {
        None => Ok(RequestsSealOutcome::default()),
        Some(Written::Segments(sealed)) => sealed.remove_journal(catalog, *number),
        Some(Written::SetAside(path)) => Ok(RequestsSealOutcome {
            quarantined: Some(path),
            ..RequestsSealOutcome::default()
        }),
    });
    finished.collect()
}

/// The result of writing a journal's segments.
enum Written {
    Segments(SealedRequests),
    /// It could not be read, and was renamed to this path.
    SetAside(PathBuf),
}

/// Segments of a journal.
struct SealedRequests {
    outcome: RequestsSealOutcome,
    /// The catalog lists them, or will after it is published.
    is_sealed: bool,
    /// A part of the journal could not be read.
    is_damaged: bool,
}

impl SealedRequests {
    /// Removes the journal of segments in the published catalog, or sets it aside.
    fn remove_journal(
        mut self,
        catalog: &Catalog,
        number: u64,
    ) -> Result<RequestsSealOutcome, StoreError> {
        let store = catalog.store();
        let journal = layout::requests_journal(store, number);
        // A later change of the catalog may have failed and undone this one.
        if self.is_sealed && !catalog.are_requests_sealed(number)? {
            return Err(StoreError::Interrupted(number));
        }
        if self.is_damaged {
            self.outcome.quarantined = Some(quarantine(store, &journal)?);
        } else {
            removal::remove(store, &journal)?;
        }
        Ok(self.outcome)
    }
}

/// `None` if the journal does not exist.
fn write_segments(
    catalog: &Catalog,
    number: u64,
    path: &Path,
) -> Result<Option<Written>, StoreError> {
    let Some(journal) = JournalFile::open(path)? else {
        return Ok(None);
    };
    let mut sealed = SealedRequests {
        outcome: RequestsSealOutcome {
            torn_bytes: journal.bytes,
            ..RequestsSealOutcome::default()
        },
        is_sealed: catalog.are_requests_sealed(number)?,
        is_damaged: false,
    };
    if let Some(scan) = RequestsScan::new(journal.of_store(catalog.ids()))? {
        sealed.outcome.torn_bytes = scan.torn_bytes;
        // Also if it was sealed before: an interrupted sealing may not have set it aside.
        sealed.is_damaged = scan.damaged_bytes > 0 || scan.may_have_lost_its_end();
        if !sealed.is_sealed {
            sealed.outcome.requests = seal_scanned(catalog, number, &scan)?;
            sealed.is_sealed = true;
        }
    }
    Ok(Some(Written::Segments(sealed)))
}

/// Writes the segments of a journal and enters them. Returns the number of requests.
fn seal_scanned(catalog: &Catalog, number: u64, scan: &RequestsScan) -> Result<u64, StoreError> {
    let store = catalog.store();
    let mut segments = Segments {
        store,
        identity: catalog.identity(),
        number,
        scan,
        open: None,
        written: Vec::new(),
    };
    let mut requests = 0;
    in_order(scan, |request| {
        requests += 1;
        segments.push(request)
    })?;
    let written = segments.finish()?;
    for segment in &written {
        let path = store.join(&segment.path);
        beneath::rename(store, &layout::temporary(&path), &path)
            .map_err(StoreError::io("rename segment to", &path))?;
    }
    layout::sync_names(store, written.iter().map(|segment| &segment.path))?;
    fail_point::hit("requests: names durable");
    let previous = scan.header.previous.map(|previous| previous.number);
    catalog.commit_requests(number, previous, &written)?;
    Ok(requests)
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
        // A stable sort makes the order depend only on the journal. It is fast, because little is out of order.
        held.sort_by_key(|request: &Request| request.end_ns);
        let ready = held.partition_point(|request| request.end_ns <= following_ns);
        held.drain(..ready).try_for_each(&mut each)?;
    }
    Ok(())
}

/// Creates a segment.
fn create(
    store: &Path,
    identity: Identity,
    number: u64,
    scan: &RequestsScan,
    date: Date,
    start: UtcMs,
) -> Result<Open, StoreError> {
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
            store: identity,
        },
        path,
    };
    Ok(Open {
        date,
        writer: SegmentWriter::create(store, target)?,
        entry: RequestsEntry {
            journal: number,
            start,
            end: start,
            rows: 0,
            bytes: 0,
            crc32c: 0,
            path: relative,
        },
    })
}

/// Writes the segments of a journal: one per date.
struct Segments<'a> {
    store: &'a Path,
    identity: Identity,
    number: u64,
    scan: &'a RequestsScan,
    open: Option<Open>,
    /// Complete under their temporary names.
    written: Vec<RequestsEntry>,
}

/// A segment being written.
struct Open {
    date: Date,
    writer: SegmentWriter<RequestRow>,
    entry: RequestsEntry,
}

impl Segments<'_> {
    /// Adds a request. Requests must be added in order of completion.
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
        if self.open.as_ref().is_some_and(|open| open.date != date) {
            self.close()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(create(
                self.store,
                self.identity,
                self.number,
                self.scan,
                date,
                start,
            )?),
        };
        open.entry.end = UtcMs(start.0.saturating_add(1));
        open.writer.push(row)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if let Some(Open {
            mut writer, entry, ..
        }) = self.open.take()
        {
            let previous = self.scan.header.previous;
            writer.add_journal(JournalSpan {
                number: self.number,
                previous: previous.map(|previous| previous.number),
                start: entry.start,
                end: entry.end,
            });
            let written = writer.finish()?;
            self.written.push(RequestsEntry {
                rows: written.rows,
                bytes: written.bytes,
                crc32c: written.crc32c,
                ..entry
            });
        }
        Ok(())
    }

    /// Completes the segments under their temporary names.
    fn finish(mut self) -> Result<Vec<RequestsEntry>, StoreError> {
        self.close()?;
        Ok(self.written)
    }
}
