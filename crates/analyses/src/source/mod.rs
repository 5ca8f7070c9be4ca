//! Sources of an analysis: a store, or Parquet files with the same columns.

pub mod attributes;
mod columns;
pub mod files;
pub mod ios;
pub mod messages;
pub mod names;
pub mod packets;
pub mod requests;
mod stores;

pub use files::Files;
pub use names::{Name, Names};
pub use requests::{Request, Requests};

use std::path::PathBuf;

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::{Question, Range};
use trackiops_schemas::time::UtcMs;

use crate::error::AnalysisError;

/// Source of the rows.
pub enum Source {
    /// Single requests of stores, selected by a question.
    Stores(Box<Question>),
    /// Parquet files.
    Files(Files),
}

impl Source {
    /// The files. Some of them must have rows of a kind.
    fn files(
        &self,
        kind: files::Kind,
        analysis: &'static str,
    ) -> Result<Vec<PathBuf>, AnalysisError> {
        match self {
            Self::Files(files) => files.needed(kind, analysis),
            Self::Stores(_) => Err(kind.lacking(analysis, "a store".to_owned())),
        }
    }

    /// Whether it has rows of a kind.
    pub fn has(&self, kind: files::Kind) -> Result<bool, AnalysisError> {
        match self {
            Self::Files(files) => Ok(!files.of(kind)?.is_empty()),
            Self::Stores(_) => Ok(kind == files::REQUESTS),
        }
    }

    /// The requested range.
    fn range(&self) -> Range {
        match self {
            Self::Stores(question) => question.range,
            Self::Files(files) => files.range,
        }
    }
}

/// Facts about the rows that were read.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Number of rows.
    pub rows: u64,
    /// Earliest and latest time, ns since the epoch.
    span: Option<(i64, i64)>,
    /// Rows with an earlier time than the row before them.
    pub backwards: u64,
    /// Notes of the query engine.
    pub notes: Vec<Note>,
}

impl Seen {
    /// Records the time of a row, ns since the epoch.
    #[inline]
    fn add(&mut self, time_ns: i64) {
        self.rows += 1;
        self.span = match self.span {
            None => Some((time_ns, time_ns)),
            Some((first, last)) => {
                self.backwards += u64::from(time_ns < last);
                Some((first.min(time_ns), last.max(time_ns)))
            }
        };
    }

    /// The range from the first row to just after the last, in whole milliseconds; empty if no row has a time.
    pub fn range(&self) -> Interval {
        let ms = |ns: i64| UtcMs(ns.div_euclid(1_000_000));
        match self.span {
            None => Interval::new(UtcMs(0), UtcMs(0)),
            Some((first, last)) => Interval::new(ms(first), UtcMs(ms(last).0.saturating_add(1))),
        }
    }

    /// Remarks about the rows that a reader of the result should know.
    pub fn remarks(&self) -> Vec<String> {
        let backwards = (self.backwards > 0).then(|| {
            format!(
                "{} of {} rows are not in order of time: sort the file by time, since windows and groups are made in its order",
                self.backwards, self.rows
            )
        });
        backwards.into_iter().collect()
    }
}
