//! The parts of a report, for all kinds of reports.

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::file_rows::OrNothing;
use trackiops_query::{Answer, Columns, GroupBy, QueryError, Step};

use trackiops_query::columns::Column;

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The question does not fit the report, or the recorded data does not suffice.
    #[error("{0}")]
    Unsuitable(String),
}

/// A report, or why there is nothing to report, with notes.
pub type Made<T> = Result<OrNothing<T>, ReportError>;

/// Texts of a report besides its tables.
#[derive(Clone, Debug)]
pub struct About {
    /// The name in the command.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How its numbers are computed, in paragraphs of plain text.
    pub method: &'static [&'static str],
    /// Its result, in one sentence.
    pub verdict: Option<String>,
    /// The range that it covers.
    pub range: Interval,
    /// Notes of the query engine about its answers.
    pub notes: Vec<Note>,
    /// Remarks of the report itself: how much was recorded, what it omits.
    pub remarks: Vec<String>,
}

/// Rows of one kind.
#[derive(Clone, Debug)]
pub struct Table<R> {
    /// The word that selects it for a format that holds one table.
    pub name: &'static str,
    /// What a row is, in one sentence.
    pub caption: String,
    /// All columns, for programs.
    pub columns: Columns<R>,
    /// The columns for people, in order.
    pub shown: Columns<R>,
    /// The rows.
    pub answer: Answer<R>,
}

impl<R: 'static> Table<R> {
    /// A table of these rows. Programs get the usual columns. People get the columns that `shown` names, in its order, except columns that
    /// are empty in every row.
    pub fn new(
        name: &'static str,
        caption: impl Into<String>,
        columns: Vec<Column<R>>,
        shown: &[&str],
        rows: Vec<R>,
        about: &About,
    ) -> Self {
        let is_empty = |column: &Column<R>| {
            let mut values = rows.iter().map(|row| column.value(row));
            values.all(|value| value == trackiops_query::columns::Value::Null)
        };
        let shown = shown.iter().filter_map(|name| {
            let column = columns.iter().find(|column| column.name == *name);
            debug_assert!(column.is_some(), "no column {name}");
            column.filter(|column| !is_empty(column)).cloned()
        });
        let shown = Columns::new(shown.collect());
        let mut columns = columns;
        columns.retain(|column| column.is_usual);
        Self {
            name,
            caption: caption.into(),
            columns: Columns::new(columns),
            shown,
            answer: Answer {
                rows,
                step: Step::All,
                by: GroupBy::default(),
                range: about.range,
                notes: about.notes.clone(),
                recorded: Default::default(),
            },
        }
    }
}
