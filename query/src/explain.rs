//! Statistics of a query, for `--explain`.
//!
//! Each stage records its work here. Progress is always counted; other counters and clocks run only with `--explain`.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

use crate::error::QueryError;
use crate::interval::Interval;

/// Collects statistics if enabled. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    explained: Option<Arc<Mutex<Explained>>>,
    progress: Arc<Progress>,
}

/// Progress of reading, in rows. Other threads may read it meanwhile.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    expected: AtomicU64,
}

impl Progress {
    /// The part that is done, from 0 to 1. `None` while the number of rows is unknown.
    pub fn part(&self) -> Option<f64> {
        let expected = self.expected.load(Relaxed);
        let part = || self.read.load(Relaxed) as f64 / expected as f64;
        (expected > 0).then(|| part().min(1.0))
    }
}

/// A stage of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Opening the journals and the catalog.
    Open,
    /// Finding the selected files.
    Find,
    /// Choosing granularities and segments.
    Plan,
    /// Reading segments and adding up their rows.
    Read,
    /// Reading journals that are not sealed, and adding up their rows.
    Journals,
    /// Finding the recorded time.
    Coverage,
    /// Sorting the rows and collecting notes.
    Finish,
    /// Writing the answer.
    Write,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Open => "open",
            Self::Find => "find files",
            Self::Plan => "plan",
            Self::Read => "read",
            Self::Journals => "journals",
            Self::Coverage => "coverage",
            Self::Finish => "finish",
            Self::Write => "write",
        })
    }
}

/// The collected statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// Total time of each stage, in the order of their first starts.
    pub stages: Vec<(Stage, Duration)>,
    /// Number of segments with rows, by how the query used them.
    pub segments: Segments,
    /// The granularity that answers each part of the range, by host.
    pub parts: Vec<Part>,
    /// Reads of segments with rows, in no order.
    pub read: Vec<Read>,
    /// Sum over the reads of health segments.
    pub health: Read,
    /// Number of journals that are not sealed.
    pub journals: u64,
    /// Number of retries, each because a segment had vanished or was unreadable.
    pub again: u64,
}

/// Number of segments, by how the query used them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Segments in the catalog.
    pub all: u64,
    /// Segments outside of the range.
    pub outside: u64,
    /// Unreadable segments.
    pub damaged: u64,
    /// Segments that are not needed, because others hold the same data in the granularity that answers.
    pub other_granularity: u64,
    /// Segments without rows of the selected files.
    pub without_files: u64,
    /// Segments that the query read.
    pub read: u64,
}

/// A part of the range, and the granularity that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The host that recorded this part.
    pub host: String,
    /// The part.
    pub range: Interval,
    /// The granularity.
    pub granularity: Granularity,
}

/// Reads of one segment, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Path of the segment; empty for a sum of several.
    pub path: PathBuf,
    /// Number of segments.
    pub segments: u64,
    /// Size of the files, bytes.
    pub bytes_stored: u64,
    /// Bytes that were read, including the metadata that locates pages.
    pub bytes: u64,
    /// Pages that were read, including dictionaries.
    pub pages: u64,
    /// Rows in the files.
    pub rows_stored: u64,
    /// Rows that were decoded.
    pub rows: u64,
}

impl Read {
    fn add(&mut self, other: &Self) {
        self.segments += other.segments;
        self.bytes_stored += other.bytes_stored;
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.rows_stored += other.rows_stored;
        self.rows += other.rows;
    }
}

impl Explained {
    /// Sum over the segments with rows.
    pub fn rows_read(&self) -> Read {
        let mut all = Read::default();
        self.read.iter().for_each(|read| all.add(read));
        all
    }
}

/// Number of segments of a dataset in the store.
pub(crate) struct Stored {
    all: u64,
    damaged: u64,
    /// Readable segments that overlap the range.
    in_range: u64,
}

impl Stored {
    pub(crate) fn count(
        snapshot: &Snapshot,
        dataset: Dataset,
        range: Interval,
    ) -> Result<Self, QueryError> {
        let damaged = snapshot.left_out(dataset)?.len() as u64;
        let in_range = snapshot.segments(dataset, Some((range.start, range.end)))?;
        Ok(Self {
            all: snapshot.segments(dataset, None)?.len() as u64 + damaged,
            damaged,
            in_range: in_range.len() as u64,
        })
    }
}

impl Explain {
    /// Enables the statistics.
    pub fn on() -> Self {
        Self {
            explained: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// Progress of reading.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Adds rows to the number that will be read.
    pub(crate) fn expect(&self, rows: u64) {
        self.progress.expected.fetch_add(rows, Relaxed);
    }

    /// Adds rows to the number that were read.
    pub(crate) fn advance(&self, rows: usize) {
        self.progress.read.fetch_add(rows as u64, Relaxed);
    }

    /// Whether the statistics are enabled.
    pub fn is_on(&self) -> bool {
        self.explained.is_some()
    }

    /// The statistics so far. `None` if they are disabled.
    pub fn explained(&self) -> Option<Explained> {
        Some(lock(self.explained.as_ref()?).clone())
    }

    /// Runs `work`, and adds its time to the stage.
    pub fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let Some(explained) = &self.explained else {
            return work();
        };
        let begun = Instant::now();
        let done = work();
        let took = begun.elapsed();
        let stages = &mut lock(explained).stages;
        match stages.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += took,
            None => stages.push((stage, took)),
        }
        done
    }

    /// Resets everything but the times, before a retry.
    pub(crate) fn again(&self) {
        self.progress.read.store(0, Relaxed);
        self.progress.expected.store(0, Relaxed);
        self.note(|explained| {
            *explained = Explained {
                stages: std::mem::take(&mut explained.stages),
                again: explained.again + 1,
                ..Explained::default()
            };
        });
    }

    /// Records a plan: its number of segments and journals, and the granularity of each part. `stored` counts the
    /// store's segments.
    pub(crate) fn planned(
        &self,
        segments: u64,
        journals: u64,
        parts: impl Iterator<Item = Part>,
        stored: Stored,
    ) {
        self.note(|explained| {
            explained.segments.all += stored.all;
            explained.segments.damaged += stored.damaged;
            explained.segments.outside +=
                stored.all.saturating_sub(stored.damaged + stored.in_range);
            explained.segments.other_granularity += stored.in_range.saturating_sub(segments);
            explained.journals = journals;
            for part in parts {
                // Several journals may share one coarse window, and `--top` plans twice.
                if !explained.parts.contains(&part) {
                    explained.parts.push(part);
                }
            }
        });
    }

    /// Counts a segment without rows of the selected files.
    pub(crate) fn without_files(&self) {
        self.note(|explained| explained.segments.without_files += 1);
    }

    /// Records the read of a segment with rows.
    pub(crate) fn rows(&self, read: impl FnOnce() -> Read) {
        self.note(|explained| {
            explained.segments.read += 1;
            explained.read.push(read());
        });
    }

    /// Records the read of a health segment.
    pub(crate) fn health(&self, read: impl FnOnce() -> Read) {
        self.note(|explained| explained.health.add(&read()));
    }

    fn note(&self, note: impl FnOnce(&mut Explained)) {
        if let Some(explained) = &self.explained {
            note(&mut lock(explained));
        }
    }
}

/// A panic cannot tear a number, so the values behind a poisoned lock are usable.
fn lock(explained: &Mutex<Explained>) -> MutexGuard<'_, Explained> {
    explained.lock().unwrap_or_else(PoisonError::into_inner)
}
