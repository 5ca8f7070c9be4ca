//! What a report is made of, whatever it is about.

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::file_rows::Nothing;
use trackiops_query::{Answer, Columns, GroupBy, QueryError, Step};

use trackiops_query::columns::Column;

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The store cannot answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The question does not fit the report, or what was recorded does not suffice for it.
    #[error("{0}")]
    Unsuitable(String),
}

/// A report, or why there is nothing to report, with notes.
pub type Made<T> = Result<Result<T, Nothing>, ReportError>;

/// What is said of a report beside its tables.
#[derive(Clone, Debug)]
pub struct About {
    /// As the command names it.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How its numbers are computed, in paragraphs of plain text.
    pub method: &'static [&'static str],
    /// What it found, in one sentence.
    pub verdict: Option<String>,
    /// The range that it covers.
    pub range: Interval,
    /// What the query engine says of its answers.
    pub notes: Vec<Note>,
    /// What the report itself says: how much was recorded, what was left out.
    pub remarks: Vec<String>,
}

/// Rows of one kind.
#[derive(Clone, Debug)]
pub struct Table<R> {
    /// The word that chooses it where a format holds one table.
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
    /// A table of these rows. Programs get the columns that are usual; people get those that `shown` names, in its order, unless they
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
