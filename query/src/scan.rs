//! Reads segments: only the pages of wanted rows, and only the needed columns.

mod pages;

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use trackiops_schemas::columns::{
    DEV, FILE_KEY, FILEID, HOST, LEVEL, MOUNT, PATH, TCP, TENANT_COLUMNS, TIME, health_schema,
    ops_schema, rollup_schema,
};
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::row::{Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Segment;
use trackiops_store::batch::{
    StoredOps, StoredRow, decode_health, decode_ops, decode_rows, decode_times,
};

use crate::error::QueryError;
use crate::explain::{Explain, Read};
use crate::group::GroupBy;
use crate::interval::Interval;
use crate::origin::File;
use crate::plan::Bounds;
use crate::projection::Projection;

/// Decides which columns a scan reads.
#[derive(Clone, Copy, Debug)]
pub struct ScanColumns {
    /// Columns that the answer needs.
    pub projection: Projection,
    /// How rows are grouped.
    pub by: GroupBy,
    /// Whether a filter needs the names of rows.
    pub by_name: bool,
    /// Whether a filter or a comparison needs the tenants of rows.
    pub by_tenant: bool,
}

impl ScanColumns {
    fn include(self, column: &str) -> bool {
        match column {
            TIME | FILE_KEY | DEV | FILEID | LEVEL => true,
            of if TENANT_COLUMNS.contains(&of) && (self.by.tenants || self.by_tenant) => true,
            MOUNT | PATH if self.by.needs_names() || self.by_name => true,
            _ => self.projection.includes(column),
        }
    }
}

/// Receives the start of a row's window, its file, its tenant if needed and known, and its counters.
pub type EachRow<'a> = &'a mut dyn FnMut(UtcMs, &Arc<File>, &Arc<Tenant>, Row);

/// Reads the rows of a rollup segment with windows within `bounds`: rows in `ranges`, or all. May also pass on rows
/// outside `bounds`.
///
/// Errors: [`QueryError::Damaged`], [`QueryError::Vanished`] and [`QueryError::Open`].
pub fn rollup(
    segment: &Segment,
    ranges: Option<&[Range<u64>]>,
    bounds: Bounds,
    columns: ScanColumns,
    explain: &Explain,
    each: EachRow<'_>,
) -> Result<(), QueryError> {
    let within = rows_within(segment, ranges, bounds)?;
    let ranges = within.as_ref().map_or(ranges, |within| Some(&within.rows));
    let needs = |column: &str| columns.include(column);
    let mut last: Option<Arc<File>> = None;
    let mut tenant: Arc<Tenant> = Arc::default();
    let mut batches = pages::open(segment, &rollup_schema(), needs, ranges)?;
    for batch in &mut batches {
        let batch = batch?;
        let decoded = decode_rows(&batch, |stored| {
            let file = last.take().filter(|file| is_about(file, &stored));
            let file = last.insert(file.unwrap_or_else(|| Arc::new(file_of(&stored))));
            if stored.tenant != *tenant {
                tenant = Arc::new(stored.tenant.into());
            }
            each(stored.time, file, &tenant, stored.row);
        });
        decoded.map_err(|error| damaged(segment, error))?;
        explain.advance(batch.num_rows());
    }
    explain.rows(|| {
        let mut read = batches.read();
        if let Some(RowsWithin { looked_at, .. }) = &within {
            read.bytes += looked_at.bytes;
            read.pages += looked_at.pages;
        }
        read
    });
    Ok(())
}

/// Number of rows from which on reading their times first is cheaper. With a merged segment and a short range, few rows
/// are read afterwards.
const ROWS_TO_LOOK_AT: u64 = 16 << 10;

/// Rows of a segment whose windows are within some bounds.
struct RowsWithin {
    /// Ascending.
    rows: Vec<Range<u64>>,
    /// Statistics of the reads that found them.
    looked_at: Read,
}

/// The rows of a segment with windows within `bounds`. `None` if searching would cost more than it saves.
///
/// Rows are sorted by file, then by time. So the time range of a page with many files does not show whether it has rows
/// of one hour.
fn rows_within(
    segment: &Segment,
    ranges: Option<&[Range<u64>]>,
    bounds: Bounds,
) -> Result<Option<RowsWithin>, QueryError> {
    let whole = 0..segment.rows;
    let ranges = ranges.unwrap_or(slice::from_ref(&whole));
    let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let stored = Interval::new(segment.start, segment.end);
    let is_most = bounds.range().intersect(stored).ms() > stored.ms() / 4 * 3;
    if rows < ROWS_TO_LOOK_AT || is_most {
        return Ok(None);
    }
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut rows = ranges.iter().cloned().flatten();
    let is_time = |column: &str| column == TIME;
    let mut batches = pages::open(segment, &rollup_schema(), is_time, Some(ranges))?;
    for batch in &mut batches {
        let batch = batch?;
        let times = decode_times(&batch).map_err(|error| damaged(segment, error))?;
        for (time, row) in times.zip(rows.by_ref()) {
            match found.last_mut() {
                _ if !bounds.contains(time) => {}
                Some(last) if last.end == row => last.end += 1,
                _ => found.push(row..row + 1),
            }
        }
    }
    Ok(Some(RowsWithin {
        rows: found,
        looked_at: batches.read(),
    }))
}

/// Rows are sorted by file, so the last file is nearly always also the next one.
fn is_about(file: &File, stored: &StoredRow<'_>) -> bool {
    (file.key, file.dev, file.fileid) == (stored.file_key, stored.dev, stored.fileid)
        && file.path.as_deref() == stored.path
        && file.path_inferred == stored.path_inferred
        && file.mount.as_deref() == stored.mount
        && file.level == stored.level
}

fn file_of(stored: &StoredRow<'_>) -> File {
    File {
        key: stored.file_key,
        dev: stored.dev,
        fileid: stored.fileid,
        mount: stored.mount.map(Into::into),
        path: stored.path.map(Into::into),
        path_inferred: stored.path_inferred,
        level: stored.level,
    }
}

/// Reads the rows of a health segment whose windows are `wanted`. Errors as for [`rollup`].
pub fn health(
    segment: &Segment,
    wanted: impl Fn(UtcMs) -> bool,
    explain: &Explain,
) -> Result<Vec<(UtcMs, Health)>, QueryError> {
    let mut rows = Vec::new();
    // The catalog knows the host of a segment.
    let needs = |column: &str| column != HOST;
    let mut batches = pages::open_filled(segment, &health_schema(), needs)?;
    for batch in &mut batches {
        let batch = batch?;
        let times = decode_times(&batch).map_err(|error| damaged(segment, error))?;
        // A row has fifty values, so decode only wanted rows. Rows are ordered by time, so wanted rows are contiguous.
        let is_wanted: Vec<bool> = times.map(&wanted).collect();
        let mut from = 0;
        for run in is_wanted.chunk_by(|a, b| a == b) {
            if run[0] {
                let run = batch.slice(from, run.len());
                let decoded = decode_health(&run, |row| rows.push((row.time, row.health)));
                decoded.map_err(|error| damaged(segment, error))?;
            }
            from += run.len();
        }
    }
    explain.health(|| batches.read());
    Ok(rows)
}

/// Reads the rows of an operations segment, and what TCP knows of connections if the caller needs it. Errors as for
/// [`rollup`].
pub fn ops(
    segment: &Segment,
    with_tcp: bool,
    explain: &Explain,
    each: &mut dyn FnMut(StoredOps<'_>),
) -> Result<(), QueryError> {
    let needs = |column: &str| with_tcp || !column.starts_with(TCP);
    let mut batches = pages::open(segment, &ops_schema(), needs, None)?;
    for batch in &mut batches {
        let batch = batch?;
        decode_ops(&batch, &mut *each).map_err(|error| damaged(segment, error))?;
        explain.advance(batch.num_rows());
    }
    explain.rows(|| batches.read());
    Ok(())
}

fn damaged(segment: &Segment, why: impl ToString) -> QueryError {
    QueryError::Damaged {
        path: segment.path.clone(),
        why: why.to_string(),
    }
}
