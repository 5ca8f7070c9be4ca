//! Filters and sorts rows of an answer: `--where`, `--sort`.

use std::cmp::Ordering;

use crate::column::{Column, Columns, Record};
use crate::condition::Bound;
use crate::error::QueryError;
use crate::question::Question;

/// Conditions and order for rows of one kind.
pub(crate) struct FilterAndSort<R> {
    conditions: Vec<Bound<R>>,
    /// The column to sort by, and whether the smallest value comes first.
    sort: Option<(Column<R>, bool)>,
}

impl<R: Record> FilterAndSort<R> {
    /// Binds the conditions and the order of a question to columns.
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

    /// Whether the question sets an order.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sort.is_some()
    }

    /// The sort key of a row, smallest first. Without an order or for an unknown value it is infinite, so such rows
    /// come last.
    pub(crate) fn place(&self, row: &R) -> f64 {
        let value = |(column, ascending): &(Column<R>, bool)| {
            let number = column.value(row).number();
            number.map(|number| if *ascending { number } else { -number })
        };
        self.sort.as_ref().and_then(value).unwrap_or(f64::INFINITY)
    }

    /// Like [`Self::place`]. Without an order, the row with the largest `first` comes first. Rows with a `first` of 0
    /// follow, by `second`.
    pub(crate) fn place_or(&self, row: &R, first: u64, second: u64) -> f64 {
        match (self.is_sorted(), first) {
            (true, _) => self.place(row),
            (false, 0) => 1.0 / (1.0 + second as f64),
            (false, first) => -(first as f64),
        }
    }

    /// Sorts rows, if the question sets an order. Equal rows keep their order.
    pub(crate) fn sort(&self, rows: &mut [R]) {
        if self.is_sorted() {
            rows.sort_by(|a, b| self.compare(a, b));
        }
    }

    fn compare(&self, a: &R, b: &R) -> Ordering {
        self.place(a).total_cmp(&self.place(b))
    }

    /// Columns that the conditions compare.
    pub(crate) fn compared(&self) -> Vec<&Column<R>> {
        let mut columns = Vec::new();
        for condition in &self.conditions {
            condition.columns(&mut |column| columns.push(column));
        }
        columns
    }

    /// The column to sort by.
    pub(crate) fn sorted_by(&self) -> Option<&Column<R>> {
        self.sort.as_ref().map(|(column, _)| column)
    }
}

/// The conditions and the tenants as text.
pub(crate) fn in_words(question: &Question) -> String {
    let tenants = question.tenants.join(" or ");
    let tenants = (!tenants.is_empty()).then(|| format!("tenant {tenants}"));
    let conditions = question.conditions.iter().map(ToString::to_string);
    tenants
        .into_iter()
        .chain(conditions)
        .collect::<Vec<_>>()
        .join(" and ")
}
