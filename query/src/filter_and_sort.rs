//! Which rows of an answer there are, and in which order: `--where`, `--sort`.

use std::cmp::Ordering;

use crate::columns::{Column, Columns, Record};
use crate::condition::Bound;
use crate::error::QueryError;
use crate::question::Question;

/// Conditions and order of rows of one kind.
pub(crate) struct FilterAndSort<R> {
    conditions: Vec<Bound<R>>,
    /// The column that rows are sorted by, and whether the smallest is first.
    sort: Option<(Column<R>, bool)>,
}

impl<R: Record> FilterAndSort<R> {
    /// Those of a question.
    pub(crate) fn new(question: &Question) -> Result<Self, QueryError> {
        let conditions = question.conditions.iter().map(Bound::new);
        let sort = match &question.sort {
            None => None,
            Some(sort) => {
                let column = Columns::number(&sort.column).map_err(QueryError::Sort)?;
                Some((column, sort.ascending))
            }
        };
        Ok(Self {
            conditions: conditions.collect::<Result<_, _>>()?,
            sort,
        })
    }

    /// Whether a row meets all conditions.
    pub(crate) fn hold(&self, row: &R) -> bool {
        self.conditions.iter().all(|condition| condition.holds(row))
    }

    /// Whether an order is asked for.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sort.is_some()
    }

    /// The value that a row is sorted by, so that the smallest is first: of none, or where it is not known, it is infinite.
    pub(crate) fn place(&self, row: &R) -> f64 {
        let value = |(column, ascending): &(Column<R>, bool)| {
            let number = column.value(row).number();
            number.map(|number| if *ascending { number } else { -number })
        };
        self.sort.as_ref().and_then(value).unwrap_or(f64::INFINITY)
    }

    /// As [`Self::place`]; where no order is asked for, the row with the largest of another number is first.
    pub(crate) fn place_or(&self, row: &R, largest: u64) -> f64 {
        match self.is_sorted() {
            true => self.place(row),
            false => -(largest as f64),
        }
    }

    /// Puts rows into the order that is asked for, if one is; those that are alike stay as they are.
    pub(crate) fn sort(&self, rows: &mut [R]) {
        if self.is_sorted() {
            rows.sort_by(|a, b| self.compare(a, b));
        }
    }

    fn compare(&self, a: &R, b: &R) -> Ordering {
        self.place(a).total_cmp(&self.place(b))
    }

    /// The columns that conditions are about.
    pub(crate) fn compared(&self) -> Vec<&Column<R>> {
        let mut columns = Vec::new();
        for condition in &self.conditions {
            condition.columns(&mut |column| columns.push(column));
        }
        columns
    }

    /// The column that rows are sorted by.
    pub(crate) fn sorted_by(&self) -> Option<&Column<R>> {
        self.sort.as_ref().map(|(column, _)| column)
    }
}

/// Conditions in words.
pub(crate) fn in_words(question: &Question) -> String {
    let conditions = question.conditions.iter().map(ToString::to_string);
    conditions.collect::<Vec<_>>().join(" and ")
}
