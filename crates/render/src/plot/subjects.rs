//! The subjects of an answer's rows: each has a line or a bar in a plot.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Plot;
use crate::terminal_style::Look;
use crate::visible::{visible, width};
use trackiops_query::answer::Answer;
use trackiops_query::columns::Columns;
use trackiops_query::step::Step;

/// The subjects of rows. In a plot of windows, those with the largest values come first.
pub(crate) struct Subjects<'r, R> {
    /// Name and rows of each.
    pub(crate) list: Vec<(String, Vec<&'r R>)>,
}

impl<'r, R: Plot> Subjects<'r, R> {
    /// The subjects of an answer, with names of at most `name_cells` in the characters of `look`.
    pub(crate) fn of(
        answer: &'r Answer<R>,
        columns: &Columns<R>,
        name_cells: usize,
        look: Look,
    ) -> Self {
        let mut places: BTreeMap<Vec<Cow<'r, str>>, usize> = BTreeMap::new();
        let mut list: Vec<(Vec<Cow<'r, str>>, Vec<&'r R>)> = Vec::new();
        let apart = R::are_apart(answer);
        for row in &answer.rows {
            let names = row.names(apart);
            let place = *places.entry(names.clone()).or_insert(list.len());
            if place == list.len() {
                list.push((names, Vec::new()));
            }
            list[place].1.push(row);
        }
        let is_told: Vec<bool> = match list.first() {
            None => Vec::new(),
            // Names omit the texts that all subjects share.
            Some((first, _)) => (0..first.len())
                .map(|i| list.iter().any(|(names, _)| names[i] != first[i]))
                .collect(),
        };
        if let (Step::Windows(_), Some(column)) = (answer.step, columns.iter().next()) {
            let total = |rows: &[&R]| -> f64 {
                rows.iter()
                    .filter_map(|row| column.value(row).number())
                    .sum()
            };
            list.sort_by(|(_, a), (_, b)| total(b).total_cmp(&total(a)));
        }
        let shown = |names: Vec<Cow<'_, str>>| {
            let told = names.iter().enumerate().filter(|(i, name)| {
                *i == 0 || is_told[*i] && !name.is_empty() && **name != names[0]
            });
            let told = told.map(|(_, name)| name);
            let told: Vec<_> = told.map(|name| visible(name)).collect();
            abridged(&told, name_cells, look)
        };
        Self {
            list: list
                .into_iter()
                .map(|(names, rows)| (shown(names), rows))
                .collect(),
        }
    }

    /// The first `most` subjects, and a text about the others.
    pub(crate) fn first(&self, most: usize) -> (&[(String, Vec<&'r R>)], Option<String>) {
        let (first, others) = self.list.split_at(self.list.len().min(most));
        let said = || {
            format!(
                "{} more are not drawn: --top or --where chooses",
                others.len()
            )
        };
        (first, (!others.is_empty()).then(said))
    }
}

/// Joins names within a number of cells, and truncates the longest ones.
fn abridged(names: &[Cow<'_, str>], most: usize, look: Look) -> String {
    const GAP: &str = "  ";
    let mut widths: Vec<_> = names.iter().map(|name| width(name)).collect();
    let room = most.saturating_sub(GAP.len() * names.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(longest) = widths.iter_mut().max() else {
            break;
        };
        *longest -= 1;
    }
    let names = names.iter().zip(widths);
    let cut = names.map(|(name, width)| look.cut(name, width));
    cut.collect::<Vec<_>>().join(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_keeps_its_end() {
        let names = ["/mnt/nfs/db/orders.db", "0:/a", "/資料/資料"].map(Cow::from);
        assert_eq!(abridged(&names, 99, Look::default()), names.join("  "));
        assert_eq!(
            abridged(&names, 24, Look::default()),
            "…ders.db  0:/a  …料/資料"
        );
    }
}
