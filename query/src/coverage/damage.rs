//! Damage of a store, as notes: what an answer leaves out so that there is one.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Damage, Dataset, JournalTail, Snapshot, StoreError, Unread};

use crate::coverage::Interval;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::question::Range;

/// A window may have been appended once more so long after it was closed, with requests that came late: what is damaged may be that.
const LATE_MS: i64 = 60_000;

/// What is left out of an answer, so that there is one.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// The segments and journals.
    pub(crate) paths: HashSet<PathBuf>,
    notes: Vec<Note>,
}

/// So many damaged files are told one by one.
const TOLD: usize = 10;
/// Once so many segments were left out, all are looked at together: a store of which much is damaged is not planned again for each.
const ONE_BY_ONE: usize = 8;

impl LeftOut {
    /// Leaves a segment or a journal out from now on.
    pub(crate) fn leave_out(
        &mut self,
        snapshot: &Snapshot,
        range: Range,
        path: PathBuf,
        why: String,
    ) -> Result<(), QueryError> {
        self.leave_one_out(snapshot, path, why)?;
        if self.notes.len() < ONE_BY_ONE {
            return Ok(());
        }
        let since = range.since.unwrap_or(UtcMs(i64::MIN));
        let until = range.until.unwrap_or(UtcMs(i64::MAX));
        for dataset in Dataset::ALL {
            for segment in snapshot.segments(dataset, Some((since, until)))? {
                let why = match segment.verify() {
                    Err(StoreError::DamagedSegment { why, .. }) => why,
                    Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                        "it is missing".to_owned()
                    }
                    _ => continue,
                };
                if self.paths.insert(segment.path.clone()) {
                    let range = Interval::new(segment.start, segment.end);
                    self.notes.push(Note::Damaged {
                        path: segment.path,
                        why,
                        covers: Some((range, segment.files.unpack().keys().count())),
                    });
                }
            }
        }
        Ok(())
    }

    /// What is left out: the first ones one by one.
    pub(crate) fn notes(mut self) -> Vec<Note> {
        if self.notes.len() <= TOLD {
            return self.notes;
        }
        let more = self.notes.split_off(TOLD);
        let ranges = more.iter().filter_map(|note| match note {
            Note::Damaged { covers, .. } => covers.map(|(range, _)| range),
            _ => None,
        });
        let hull = ranges.reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)));
        self.notes.extend(hull.map(|range| Note::MoreDamaged {
            count: more.len(),
            range,
        }));
        self.notes
    }

    fn leave_one_out(
        &mut self,
        snapshot: &Snapshot,
        path: PathBuf,
        why: String,
    ) -> Result<(), QueryError> {
        let journal = snapshot.tails().iter().find(|tail| tail.path() == path);
        let mut covers = journal.and_then(|tail| covers(tail.span()));
        for dataset in Dataset::ALL {
            let segments = snapshot.segments(dataset, None)?;
            if let Some(segment) = segments.into_iter().find(|s| s.path == path) {
                let range = Interval::new(segment.start, segment.end);
                covers = Some((range, segment.files.unpack().keys().count()));
            }
        }
        // Else it would be met again.
        if !self.paths.insert(path.clone()) {
            return Err(QueryError::Damaged { path, why });
        }
        self.notes.push(Note::Damaged { path, why, covers });
        Ok(())
    }
}

/// What is damaged of journals, and may be of the range; and what is no store.
pub fn of_journals(snapshot: &Snapshot, range: Range) -> Vec<Note> {
    let Range { since, until } = range;
    let mut notes: Vec<_> = unread(snapshot.unread(), since, until).collect();
    let exports = snapshot.tails().iter().filter(|tail| tail.is_export());
    let mut exports: Vec<_> = exports.map(|tail| tail.path().to_owned()).collect();
    exports.dedup();
    notes.extend(exports.into_iter().map(|path| Note::Export { path }));
    for tail in snapshot.tails() {
        let asked = tail.damage().iter().filter(|damage| {
            damage.covers.is_none_or(|(start, end)| {
                let start = UtcMs(start.0.saturating_sub(LATE_MS));
                since.is_none_or(|since| since < end) && until.is_none_or(|until| start < until)
            })
        });
        notes.extend(damaged(tail, &asked.collect::<Vec<_>>()));
    }
    notes
}

/// One note of all damaged parts of a journal that are asked for.
fn damaged(tail: &JournalTail, parts: &[&Damage]) -> Option<Note> {
    let why = match parts {
        [] => return None,
        [part] if part.is_cut => format!("its last {} bytes are missing", part.bytes),
        [part] => format!("{} bytes at byte {}", part.bytes, part.offset),
        parts => {
            let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
            format!("{bytes} bytes in {} places", parts.len())
        }
    };
    let spans: Option<Vec<_>> = parts.iter().map(|part| part.covers).collect();
    let span = spans.and_then(|spans| {
        let hull = |a: (UtcMs, UtcMs), b: (UtcMs, UtcMs)| (a.0.min(b.0), a.1.max(b.1));
        spans.into_iter().reduce(hull)
    });
    Some(Note::Damaged {
        path: tail.path().to_owned(),
        why,
        covers: covers(span),
    })
}

/// Journals that are not read and may be of a time.
pub fn unread(
    journals: &[Unread],
    since: Option<UtcMs>,
    until: Option<UtcMs>,
) -> impl Iterator<Item = Note> {
    let journals = journals.iter();
    let asked = journals.filter(move |journal| journal.may_overlap(since, until));
    asked.map(|journal| Note::Damaged {
        path: journal.path.clone(),
        why: journal.why.clone(),
        covers: covers(journal.covers),
    })
}

fn covers(span: Option<(UtcMs, UtcMs)>) -> Option<(Interval, usize)> {
    span.map(|(start, end)| (Interval::new(start, end.max(start)), 0))
}
