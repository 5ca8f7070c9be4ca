//! Damaged files: queries skip them and add notes.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Damage, Dataset, JournalTail, Snapshot, StoreError, Unread};

use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::interval::Interval;
use crate::question::Range;

/// Late requests are appended to a journal up to this long after their window closed, ms. A damaged part may contain such
/// requests.
const LATE_MS: i64 = 60_000;

/// Files that a query skips because they are damaged.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// The segments and journals.
    pub(crate) paths: HashSet<PathBuf>,
    notes: Vec<Note>,
}

/// Most damaged files with separate notes.
const TOLD: usize = 10;
/// After this many skipped segments, verify all segments of the range at once. Otherwise each damaged segment would cost another
/// plan.
const ONE_BY_ONE: usize = 8;

impl LeftOut {
    /// Skips a segment or a journal from now on. Fails if it was skipped before.
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

    /// Notes about the skipped files; one note sums up those beyond the limit.
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
        // It was already skipped, so another retry would fail in the same way.
        if !self.paths.insert(path.clone()) {
            return Err(QueryError::Damaged { path, why });
        }
        self.notes.push(Note::Damaged { path, why, covers });
        Ok(())
    }
}

/// Notes about damage of journals that may lie in the range, and about exports.
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

/// One note about all damaged parts of a journal in the range.
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

/// Notes about unreadable journals that may overlap the range.
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
