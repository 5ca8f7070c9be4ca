//! Reads segments: only the pages of wanted rows, and only the needed columns.

mod pages;

use std::ops::Range;
use std::sync::Arc;

use trackiops_schemas::columns::{
    CGROUP, CONTAINER, DEV, FILE_KEY, FILEID, MOUNT, PATH, TIME, UID, USER, health_schema,
    ops_schema, rollup_schema,
};
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::row::{Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Segment;
use trackiops_store::batch::{StoredOps, StoredRow, decode_health, decode_ops, decode_rows};

use crate::error::QueryError;
use crate::explain::Explain;
use crate::group::GroupBy;
use crate::origin::File;
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
}

impl ScanColumns {
    fn include(self, column: &str) -> bool {
        match column {
            TIME | FILE_KEY | DEV | FILEID => true,
            UID | USER | CGROUP | CONTAINER if self.by.tenants => true,
            MOUNT | PATH if self.by.needs_names() || self.by_name => true,
            _ => self.projection.includes(column),
        }
    }
}

/// Receives the start of a row's window, its file, its tenant as far as needed and known, and its counters.
pub type EachRow<'a> = &'a mut dyn FnMut(UtcMs, &Arc<File>, &Arc<Tenant>, Row);

/// Reads the rows of a rollup segment, those in `ranges` or all.
///
/// Errors: [`QueryError::Damaged`], [`QueryError::Vanished`] and [`QueryError::Open`].
pub fn rollup(
    segment: &Segment,
    ranges: Option<&[Range<u64>]>,
    columns: ScanColumns,
    explain: &Explain,
    each: EachRow<'_>,
) -> Result<(), QueryError> {
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
    explain.rows(|| batches.read());
    Ok(())
}

/// Rows are sorted by file, so the last file is nearly always the next one too.
fn is_about(file: &File, stored: &StoredRow<'_>) -> bool {
    (file.key, file.dev, file.fileid) == (stored.file_key, stored.dev, stored.fileid)
        && file.path.as_deref() == stored.path
        && file.path_inferred == stored.path_inferred
        && file.mount.as_deref() == stored.mount
}

fn file_of(stored: &StoredRow<'_>) -> File {
    File {
        key: stored.file_key,
        dev: stored.dev,
        fileid: stored.fileid,
        mount: stored.mount.map(Into::into),
        path: stored.path.map(Into::into),
        path_inferred: stored.path_inferred,
    }
}

/// Reads the rows of a health segment. Errors as for [`rollup`].
pub fn health(segment: &Segment, explain: &Explain) -> Result<Vec<(UtcMs, Health)>, QueryError> {
    let mut rows = Vec::new();
    let mut batches = pages::open(segment, &health_schema(), |_| true, None)?;
    for batch in &mut batches {
        let batch = batch?;
        let decoded = decode_health(&batch, |stored| rows.push((stored.time, stored.health)));
        decoded.map_err(|error| damaged(segment, error))?;
    }
    explain.health(|| batches.read());
    Ok(rows)
}

/// Reads the rows of an operations segment. Errors as for [`rollup`].
pub fn ops(
    segment: &Segment,
    explain: &Explain,
    each: &mut dyn FnMut(StoredOps<'_>),
) -> Result<(), QueryError> {
    let mut batches = pages::open(segment, &ops_schema(), |_| true, None)?;
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
