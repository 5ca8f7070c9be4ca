//! Exports a range of a store as rows that need no catalog: each row has its window, host, mount, path, file and tenant.
//!
//! Rows of files are the answer to a query of the range, by file and tenant, with all columns. Their windows have a recorded
//! length. They include histograms, so that readers can compute whatever the store can.
//! The export reads the range in pieces, so that its memory does not grow with the range.

mod health;
pub(crate) mod pieces;
mod requests;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use trackiops_schemas::columns::{
    DEV, FILE_KEY, FILEID, FORMAT_VERSION, META_DATASET, META_FORMAT, META_GRANULARITY, META_RANGE,
    META_STORES, PATH, TENANT_COLUMNS, health_schema, request_schema,
};
use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

use trackiops_query::answer::{AnswerRow, EmptyReason, OrEmpty};
use trackiops_query::ask::{check, recorded, within};
use trackiops_query::columns::Columns;
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::error::QueryError;
use trackiops_query::operations::OperationAnswer;
use trackiops_query::plan::plan;
use trackiops_query::question::Question;
use trackiops_query::step::Step;

/// Rows per batch for the sink.
const BATCH_ROWS: usize = 8192;

/// The rows to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportDataset {
    /// Reads and writes of files, by window, file and tenant.
    Rollup,
    /// Operations of mounts, by window, procedure and connection.
    Ops,
    /// Health of the recorder, by window.
    Health,
    /// Single requests.
    Requests,
}

/// The name of a dataset is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no dataset: write rollup, ops, health or requests")]
pub struct ExportDatasetError(String);

impl FromStr for ExportDataset {
    type Err = ExportDatasetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Rollup, Self::Ops, Self::Health, Self::Requests]
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| ExportDatasetError(text.to_owned()))
    }
}

impl ExportDataset {
    /// Name of the dataset, as in the store's directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollup => "rollup",
            Self::Ops => "ops",
            Self::Health => "health",
            Self::Requests => "requests",
        }
    }

    /// Columns of the dataset.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Rollup => Columns::<AnswerRow>::usual().schema(),
            Self::Ops => ops_columns().schema(),
            Self::Health => health_schema(),
            Self::Requests => request_schema(),
        }
    }
}

/// Drops the columns of files and tenants, because operations of mounts have neither.
fn ops_columns() -> Columns<OperationAnswer> {
    Columns::usual().without(|name| {
        [PATH, FILE_KEY, DEV, FILEID].contains(&name) || TENANT_COLUMNS.contains(&name)
    })
}

/// A request for an export.
#[derive(Clone, Debug)]
pub struct Export {
    /// Stores, files, mounts, range and current time. The export sets step, grouping and columns itself.
    pub question: Question,
    /// The rows to export.
    pub table: ExportDataset,
    /// Length of the windows. `None` takes the shortest one that the whole range has.
    pub granularity: Option<Granularity>,
}

/// Result of an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Number of rows.
    pub rows: u64,
    /// Length of the windows; `None` for single requests.
    pub granularity: Option<Granularity>,
    /// The exported range.
    pub range: Option<Interval>,
    /// Why there are no rows.
    pub nothing: Option<EmptyReason>,
    /// Notes about the rows.
    pub notes: Vec<Note>,
}

impl Exported {
    /// Metadata for a file with these rows.
    pub fn describe(&self, table: ExportDataset) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            (META_FORMAT, FORMAT_VERSION.to_string()),
            (META_DATASET, table.name().to_owned()),
        ];
        if let Some(granularity) = self.granularity {
            pairs.push((META_GRANULARITY, granularity.to_string()));
        }
        if let Some(Interval { start, end }) = self.range {
            pairs.push((META_RANGE, format!("{}..{}", start.0, end.0)));
        }
        pairs
    }

    fn nothing(why: EmptyReason, notes: Vec<Note>) -> Self {
        Self {
            rows: 0,
            granularity: None,
            range: None,
            nothing: Some(why),
            notes,
        }
    }
}

/// Receives rows in batches.
pub type Sink<'s, E> = &'s mut dyn FnMut(RecordBatch) -> Result<(), E>;

impl Export {
    /// Sends the rows to the sink: files, operations and health by window, requests by time of completion.
    ///
    /// Errors are those of the query and of the sink.
    pub fn run<E: From<QueryError>>(&self, sink: Sink<'_, E>) -> Result<Exported, E> {
        match self.table {
            ExportDataset::Rollup => rows::files(self, sink),
            ExportDataset::Ops => rows::operations(self, sink),
            ExportDataset::Health => health::run(self, sink),
            ExportDataset::Requests => requests::run(self, sink),
        }
    }

    /// Metadata for a file with its rows: the ids of its stores. In anonymous files, they would tell which are of the same
    /// store.
    pub fn describe_stores(&self) -> Result<(&'static str, String), QueryError> {
        let snapshot = self.snapshot()?;
        let stores = 0..self.question.stores.len();
        let ids: BTreeSet<_> = stores.flat_map(|store| snapshot.ids(store)).collect();
        let ids: Vec<_> = ids.into_iter().map(ToString::to_string).collect();
        Ok((META_STORES, ids.join(",")))
    }

    /// The part of the range that was recorded, or the reason why there is none.
    fn range(&self, snapshot: &Snapshot) -> Result<OrEmpty<Interval>, QueryError> {
        check(&self.question)?;
        let span = recorded(snapshot, &self.question);
        Ok(span.and_then(|span| {
            within(span, &self.question)?;
            Ok(trackiops_query::ask::asked(span, &self.question).intersect(span))
        }))
    }

    /// Length of the windows.
    fn step(&self, snapshot: &Snapshot, dataset: Dataset) -> Result<Granularity, QueryError> {
        if let Some(granularity) = self.granularity {
            return Ok(granularity);
        }
        let stored = || QueryError::NoCommonStep {
            stored: snapshot.granularities(),
        };
        let span = recorded(snapshot, &self.question).map_err(|_| stored())?;
        let plan = plan(snapshot, dataset, span, &self.question, None)?;
        match plan.step {
            Step::Windows(step) => Ok(plan.finer.unwrap_or(step)),
            Step::All => Err(stored()),
        }
    }

    fn snapshot(&self) -> Result<Snapshot, QueryError> {
        let stores = self.question.stores.iter().map(PathBuf::as_path);
        Ok(Snapshot::open_all(stores)?)
    }
}

/// Adds notes about damage. Other notes of a piece do not apply to the whole range.
fn add_damage(notes: &mut Vec<Note>, more: &[Note]) {
    for note in more {
        if note.is_damage() && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
}
