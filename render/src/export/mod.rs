//! A range of a store as rows that need no catalog: each says its window, host, mount, path, file and tenant itself.
//!
//! Rows of files are the answer to the query about the range, in windows of a recorded length, by file and tenant, with all columns;
//! histograms among them, so that whoever has the rows can compute what the store can. They are handed over in pieces of the range
//! ([`pieces`]), so that memory does not grow with it.

mod health;
mod pieces;
mod requests;
mod rows;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use trackiops_schemas::columns::{
    CGROUP, DEV, FILE_KEY, FILEID, FORMAT_VERSION, META_DATASET, META_FORMAT, META_GRANULARITY,
    META_RANGE, PATH, UID, USER, health_schema, request_schema,
};
use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

use trackiops_query::answer::{AnswerRow, EmptyReason};
use trackiops_query::ask::{check, recorded, within};
use trackiops_query::columns::Columns;
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::error::QueryError;
use trackiops_query::operations::OperationAnswer;
use trackiops_query::plan::plan;
use trackiops_query::question::Question;
use trackiops_query::step::Step;

/// Rows of a batch that is handed over.
const BATCH_ROWS: usize = 8192;

/// What rows are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// What files did, by window, file and tenant.
    Rollup,
    /// Operations of mounts, by window, procedure and connection.
    Ops,
    /// The recorder's own account, by window.
    Health,
    /// Requests that were kept one by one.
    Requests,
}

/// No such rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no dataset: write rollup, ops, health or requests")]
pub struct TableError(String);

impl FromStr for Table {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Rollup, Self::Ops, Self::Health, Self::Requests]
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| TableError(text.to_owned()))
    }
}

impl Table {
    /// Its name, as that of the store's directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollup => "rollup",
            Self::Ops => "ops",
            Self::Health => "health",
            Self::Requests => "requests",
        }
    }

    /// Its columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Rollup => Columns::<AnswerRow>::usual().schema(),
            Self::Ops => ops_columns().schema(),
            Self::Health => health_schema(),
            Self::Requests => request_schema(),
        }
    }
}

/// Operations of mounts are of no file and no tenant.
fn ops_columns() -> Columns<OperationAnswer> {
    Columns::usual()
        .without(|name| [PATH, FILE_KEY, DEV, FILEID, UID, USER, CGROUP].contains(&name))
}

/// What is exported.
#[derive(Clone, Debug)]
pub struct Export {
    /// Stores, files, mounts and range. What else a question has counts for nothing.
    pub question: Question,
    /// Which rows.
    pub table: Table,
    /// Length of the windows; the shortest that all of the range has without it.
    pub granularity: Option<Granularity>,
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Number of the rows.
    pub rows: u64,
    /// Their windows; none of requests.
    pub granularity: Option<Granularity>,
    /// The range.
    pub range: Option<Interval>,
    /// Why there are none.
    pub nothing: Option<EmptyReason>,
    /// What else to know.
    pub notes: Vec<Note>,
}

impl Exported {
    /// What a file that has them says of itself.
    pub fn describe(&self, table: Table) -> Vec<(&'static str, String)> {
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

/// Takes rows.
pub type Sink<'s, E> = &'s mut dyn FnMut(RecordBatch) -> Result<(), E>;

impl Export {
    /// Hands over the rows: those of files, operations and health by window, requests by time of completion.
    pub fn run<E: From<QueryError>>(&self, sink: Sink<'_, E>) -> Result<Exported, E> {
        match self.table {
            Table::Rollup => rows::files(self, sink),
            Table::Ops => rows::operations(self, sink),
            Table::Health => health::run(self, sink),
            Table::Requests => requests::run(self, sink),
        }
    }

    /// What was recorded of the range, or why there is nothing of it.
    fn range(&self, snapshot: &Snapshot) -> Result<Result<Interval, EmptyReason>, QueryError> {
        check(&self.question)?;
        let span = recorded(snapshot, &self.question);
        Ok(span.and_then(|span| {
            within(span, &self.question)?;
            Ok(trackiops_query::ask::asked(span, &self.question).intersect(span))
        }))
    }

    /// The length of the windows.
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

/// Those of a piece that are not of the whole range: what is damaged.
fn add_damage(notes: &mut Vec<Note>, more: &[Note]) {
    for note in more {
        if note.is_damage() && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
}
