//! What it took to answer a question: what `--explain` tells.
//!
//! Whatever does something notes it here. But for how far reading is nothing is counted, and no clock is read, unless somebody asked.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

use crate::coverage::Interval;
use crate::error::QueryError;

/// Collects it, if it is asked for. Clones collect together.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    explained: Option<Arc<Mutex<Explained>>>,
    progress: Arc<Progress>,
}

/// How far reading is, in rows. Another thread may look at it meanwhile.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    expected: AtomicU64,
}

impl Progress {
    /// The part that is read, from 0 to 1; `None` while it is not known how much there is to read.
    pub fn part(&self) -> Option<f64> {
        let expected = self.expected.load(Relaxed);
        let part = || self.read.load(Relaxed) as f64 / expected as f64;
        (expected > 0).then(|| part().min(1.0))
    }
}

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Opening the journals and the catalog.
    Open,
    /// Finding out which files are meant.
    Find,
    /// Deciding what to read.
    Plan,
    /// Reading segments and adding up their rows.
    Read,
    /// Reading and adding up what is not sealed.
    Journals,
    /// Finding out what was recorded at all.
    Coverage,
    /// Putting the rows in order, and what is to be said beside them.
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

/// What it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// How long each stage took in all, in the order in which they began first.
    pub stages: Vec<(Stage, Duration)>,
    /// What became of the segments with rows.
    pub segments: Segments,
    /// Which granularity answers when, by host.
    pub parts: Vec<Part>,
    /// What was read of segments with rows, in no order.
    pub read: Vec<Read>,
    /// What was read of segments that tell of the recording.
    pub health: Read,
    /// Journals that are not sealed.
    pub journals: u64,
    /// How often all was done again, because a segment had vanished or could not be read.
    pub again: u64,
}

/// What became of the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Those in the catalog.
    pub all: u64,
    /// Those that have nothing of the range.
    pub outside: u64,
    /// Those that cannot be read.
    pub damaged: u64,
    /// Those that are not needed, as others have the same in the granularity that answers.
    pub other_granularity: u64,
    /// Those that have no row of the files.
    pub without_files: u64,
    /// Those that were read.
    pub read: u64,
}

/// A time, and the granularity that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The host.
    pub host: String,
    /// When.
    pub range: Interval,
    /// What is read.
    pub granularity: Granularity,
}

/// What was read of a segment, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The file, if it is one.
    pub path: PathBuf,
    /// How many files.
    pub segments: u64,
    /// Their length.
    pub bytes_stored: u64,
    /// What was read of it, with what says where what is.
    pub bytes: u64,
    /// Pages, those of dictionaries included.
    pub pages: u64,
    /// Their rows.
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
    /// All that was read of segments with rows.
    pub fn rows_read(&self) -> Read {
        let mut all = Read::default();
        self.read.iter().for_each(|read| all.add(read));
        all
    }
}

/// How many segments of a dataset there are.
pub(crate) struct Stored {
    all: u64,
    damaged: u64,
    /// Those that can be read and have something of the range.
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
    /// One that collects.
    pub fn on() -> Self {
        Self {
            explained: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// How far reading is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// So many rows more will be read.
    pub(crate) fn expect(&self, rows: u64) {
        self.progress.expected.fetch_add(rows, Relaxed);
    }

    /// So many more have been.
    pub(crate) fn advance(&self, rows: usize) {
        self.progress.read.fetch_add(rows as u64, Relaxed);
    }

    /// Whether anybody asked.
    pub fn is_on(&self) -> bool {
        self.explained.is_some()
    }

    /// What it took until now; `None` if nobody asked.
    pub fn explained(&self) -> Option<Explained> {
        Some(lock(self.explained.as_ref()?).clone())
    }

    /// Does a stage.
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

    /// Begins anew, as another attempt does.
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

    /// Takes over what will be read of what there is: so many segments and journals, and which granularity answers when.
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
                // Several journals have something of a coarse window, and --top plans twice.
                if !explained.parts.contains(&part) {
                    explained.parts.push(part);
                }
            }
        });
    }

    /// Some segments have no row of the files.
    pub(crate) fn without_files(&self) {
        self.note(|explained| explained.segments.without_files += 1);
    }

    /// A segment with rows was read.
    pub(crate) fn rows(&self, read: impl FnOnce() -> Read) {
        self.note(|explained| {
            explained.segments.read += 1;
            explained.read.push(read());
        });
    }

    /// A segment that tells of the recording was read.
    pub(crate) fn health(&self, read: impl FnOnce() -> Read) {
        self.note(|explained| explained.health.add(&read()));
    }

    fn note(&self, note: impl FnOnce(&mut Explained)) {
        if let Some(explained) = &self.explained {
            note(&mut lock(explained));
        }
    }
}

/// Whoever panicked has left numbers that are whole.
fn lock(explained: &Mutex<Explained>) -> MutexGuard<'_, Explained> {
    explained.lock().unwrap_or_else(PoisonError::into_inner)
}
