//! Reads segments: only the pages of the wanted rows, and only the columns that are needed.

mod pages;

use std::ops::Range;
use std::sync::Arc;

use trackiops_schemas::columns::{
    CGROUP, DEV, ERRNOS, FILE_KEY, FILE_OPS, FILEID, LATENCY_HIST, MOUNT, PATH, PATH_INFERRED,
    TIME, UID, UNSPLIT, USER, health_schema, ops_schema, rollup_schema,
};
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::rollup::{Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Segment;
use trackiops_store::batch::{StoredOps, StoredRow, decode_health, decode_ops, decode_rows};

use crate::error::QueryError;
use crate::explain::Explain;
use crate::group::By;
use crate::merge::File;
use crate::needs::Needs;
use crate::render::Figures;

/// How much of a row is needed. What is not needed stays zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Bytes, to rank files.
    Bytes,
    /// Requests, bytes and latencies, only the sums.
    Totals,
    /// What a table shows.
    Figures(Figures),
    /// What some columns are made of.
    Needs(Needs),
    /// All columns, and all that was recorded: files of which there is only metadata as well.
    Full,
}

/// What decides which columns are read.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// How much of a row is needed.
    pub detail: Detail,
    /// What rows are told apart by.
    pub by: By,
    /// Rows are wanted for their names.
    pub by_name: bool,
}

impl Columns {
    fn include(self, column: &str) -> bool {
        match column {
            TIME | FILE_KEY | DEV | FILEID => true,
            UID | USER | CGROUP if self.by.tenants => true,
            MOUNT | PATH if self.by.needs_names() || self.by_name => true,
            _ => self.detail.includes(column),
        }
    }
}

impl Detail {
    /// What columns need beside it.
    pub fn with(self, needs: Needs) -> Self {
        let all = rollup_schema();
        let names = all.fields().iter().map(|field| field.name().as_str());
        let own = Needs::new(names.filter(|name| self.includes(name)));
        match self {
            Self::Full => Self::Full,
            _ => Self::Needs(own.and(needs).only_transfers(self.is_of_transfers())),
        }
    }

    /// What an answer about reading and writing has in formats for other programs: all columns.
    pub fn of_transfers() -> Self {
        Self::Needs(Needs::all().only_transfers(true))
    }

    /// Whether files of which there is only metadata are left out: of what people ask about they would be rows of zeros. Whoever
    /// asks for all that there is gets them as well.
    pub(crate) fn is_of_transfers(self) -> bool {
        match self {
            Self::Figures(_) | Self::Totals => true,
            Self::Needs(needs) => needs.is_of_transfers(),
            Self::Bytes | Self::Full => false,
        }
    }

    fn includes(self, column: &str) -> bool {
        let plain = column
            .strip_prefix("read_")
            .or(column.strip_prefix("write_"));
        match self {
            Self::Full => true,
            Self::Needs(needs) => needs.include(column),
            Self::Figures(figures) => {
                let seldom = [
                    "latency_us_max",
                    "short",
                    "sequential",
                    "retrans",
                    "direct",
                    "stable",
                    ERRNOS,
                ];
                let rates = [LATENCY_HIST];
                let parts = ["queue_us_sum", "rtt_us_sum", UNSPLIT];
                let without = match figures {
                    Figures::Rates => parts.as_slice(),
                    Figures::Parts => rates.as_slice(),
                };
                !matches!(column, FILE_OPS | PATH_INFERRED | UID | USER | CGROUP)
                    && !plain
                        .is_some_and(|plain| seldom.contains(&plain) || without.contains(&plain))
            }
            Self::Totals => {
                let sums = ["requests", "bytes", "latency_us_sum"];
                matches!(column, MOUNT | PATH) || plain.is_some_and(|plain| sums.contains(&plain))
            }
            Self::Bytes => plain == Some("bytes"),
        }
    }
}

/// Takes a row with its window's start, its file, and what is needed and known of its tenant.
pub type EachRow<'a> = &'a mut dyn FnMut(UtcMs, &Arc<File>, &Arc<Tenant>, Row);

/// Hands over the rows of a rollup segment, those of `ranges` or all.
pub fn rollup(
    segment: &Segment,
    ranges: Option<&[Range<u64>]>,
    columns: Columns,
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

/// Rows are sorted by file, so that the last file is nearly always the next one too.
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

/// The rows of a health segment.
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

/// Hands over the rows of a segment of operations.
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
