//! Finds which windows and single requests of the small recorder a store has kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;
use trackiops_query::coverage::note::Note;
use trackiops_query::{GroupBy, Outcome, Question, Step, ask};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{RequestsView, Snapshot, ends_ns};

use crate::states::batch;
use trackiops_testkit::generated::THREE;
use trackiops_testkit::questions::{Key, Sum, question, rows, straightforward};

/// Kind of an error in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Acknowledged data is missing.
    Lost,
    /// Data is there twice.
    Doubled,
    /// A question or the next recorder fails.
    Refused,
    /// Another error.
    Other,
}

/// An error in a store.
#[derive(Debug)]
pub struct Wrong {
    pub kind: Kind,
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

/// Checks that a store has the first `n` of these windows, where `n` is one of these counts. Answers must have no note of damage.
pub fn windows(
    store: &Path,
    all: &[ClosedWindow],
    counts: RangeInclusive<usize>,
) -> Result<usize, Wrong> {
    let refused = |why: String| Wrong {
        kind: Kind::Refused,
        why,
    };
    let minute = "1m".parse::<Step>();
    let minute = minute.map_err(|error| refused(error.to_string()))?;
    // Windows of a second expire meanwhile.
    let asked = Question {
        step: Some(minute),
        ..question(store)
    };
    let (found, notes) = match ask(&asked) {
        Ok(Outcome::Found(answer)) => (rows(&answer), answer.notes),
        Ok(Outcome::Nothing { notes, .. }) => (BTreeMap::new(), notes),
        Err(error) => return Err(refused(error.to_string())),
    };
    let is_damage = |note: &&Note| matches!(note, Note::Damaged { .. } | Note::MoreDamaged { .. });
    if let Some(note) = notes.iter().find(is_damage) {
        return Err(Wrong {
            kind: Kind::Other,
            why: format!("an answer has a note: {note:?}"),
        });
    }
    let expected = |count: usize| {
        let windows = &all[..count];
        straightforward(
            &[("a", windows)],
            |_| true,
            None,
            minute,
            THREE,
            GroupBy::FILE,
        )
    };
    if let Some(count) = counts.clone().find(|count| expected(*count) == found) {
        return Ok(count);
    }
    let (least, most) = (
        requests_of(&expected(*counts.start())),
        requests_of(&expected(*counts.end())),
    );
    let there = requests_of(&found);
    let span = Snapshot::open(store).map(|snapshot| snapshot.span());
    Err(Wrong {
        kind: match there {
            _ if there < least => Kind::Lost,
            _ if there > most => Kind::Doubled,
            _ => Kind::Other,
        },
        why: format!(
            "not the {} windows that were acknowledged: {there} requests, not {least} to {most}; {span:?}",
            counts.start()
        ),
    })
}

fn requests_of(sums: &BTreeMap<Key, Sum>) -> u64 {
    let rows = sums.values().map(|(row, ..)| row);
    rows.map(|row| row.read.requests + row.write.requests).sum()
}

/// Errors in the single requests of a store. Each bit of `promised` stands for a window whose requests must exist.
pub fn requests(store: &Path, all: &[ClosedWindow], promised: u64) -> Result<Vec<Wrong>> {
    let mut ends = Vec::new();
    let mut view = RequestsView::open(store)?;
    view.read(i64::MIN..i64::MAX, &mut |batch| {
        ends.extend_from_slice(ends_ns(&batch));
        Ok(true)
    })?;
    let count = ends.len();
    let ends: BTreeSet<i64> = ends.into_iter().collect();
    let mut wrong = Vec::new();
    if ends.len() != count {
        wrong.push(Wrong {
            kind: Kind::Doubled,
            why: format!("{} single requests are there twice", count - ends.len()),
        });
    }
    for (place, window) in all.iter().enumerate() {
        let is_promised = promised & (1 << place) != 0;
        let batch = batch(window);
        if is_promised && !batch.requests.iter().all(|r| ends.contains(&r.end_ns)) {
            wrong.push(Wrong {
                kind: Kind::Lost,
                why: format!("single requests of window {place} are lost"),
            });
        }
    }
    Ok(wrong)
}
