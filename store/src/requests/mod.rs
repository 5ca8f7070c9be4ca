//! Requests that are kept one by one: written as they come, sealed into Parquet, and the oldest deleted when they take
//! more room than they may.
//!
//! They are apart from the windows: no catalog knows them, since nothing but their names says what there is, and what
//! happens to them never keeps a window from being stored.

mod budget;
mod journal;
mod read;
mod seal;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::request::RequestBatch;
use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::journal::header::Header;
use crate::layout;
use crate::lock::StoreLock;
use crate::options::Options;
use crate::sealer::{Seal, Sealer, Task};
use crate::warning::{Warn, Warning};
use crate::writer::Period;
use budget::DiskBudget;
use journal::RequestsJournalWriter;

pub use read::{EachBatch, RequestsView, ends_ns};

/// A batch that begins so long before the end of the one before was stamped by a clock that was set back. Sealing holds
/// back what is out of order.
const STEP_BACK_NS: i64 = 1_000_000_000;

/// Keeps requests one by one, in the store of a [`crate::Writer`].
///
/// * A batch survives the end of the process when [`Self::append`] has returned `Ok`, and a power cut a second later.
/// * It is in Parquet when its journal was sealed: after a rotation, or when the journal has reached its share of the
///   room that requests may take.
/// * Dropping the writer, or losing the process, at any point leaves what the next one completes.
#[derive(Debug)]
pub struct RequestsWriter {
    store: PathBuf,
    options: Options,
    budget: DiskBudget,
    journal: Option<OpenJournal>,
    next_number: u64,
    /// Before the lock, so that it has ended when the lock is released.
    sealer: Sealer,
    _lock: Arc<StoreLock>,
}

#[derive(Debug)]
struct OpenJournal {
    writer: RequestsJournalWriter,
    number: u64,
    period: Period,
    /// When the last of its requests completed.
    last_ns: i64,
}

impl RequestsWriter {
    pub(crate) fn open(
        store: &Path,
        options: &Options,
        most_bytes: u64,
        warn: Warn,
        lock: Arc<StoreLock>,
    ) -> Result<Self, StoreError> {
        let left = layout::requests_journals(store)?;
        let sealed = layout::requests_segments(store)?;
        let last = sealed.last().map_or(0, |(number, _)| *number);
        let next_number = last.max(layout::last_requests_number(store)?) + 1;
        let budget = DiskBudget::new(most_bytes);
        let seal = sealing(store.to_owned(), budget, next_number, warn);
        Ok(Self {
            // Whoever begins a journal waits until the one before the last is sealed: journals take no more room than
            // `DiskBudget` leaves for them.
            sealer: Sealer::start("seal requests", store.to_owned(), left, 0, seal)?,
            store: store.to_owned(),
            options: options.clone(),
            budget,
            journal: None,
            next_number,
            _lock: lock,
        })
    }

    /// Writes a batch.
    ///
    /// An error may also be that of sealing an earlier journal. In every case the batch counts as not written, and others may be.
    /// Waits for the disk, and when two journals wait to be sealed for the first of them.
    pub fn append(&mut self, batch: &RequestBatch) -> Result<(), StoreError> {
        self.sealer.check()?;
        let ends = || batch.requests.iter().map(|request| request.end_ns);
        let (Some(first_ns), Some(last_ns)) = (ends().min(), ends().max()) else {
            return Ok(());
        };
        let period = self.period(UtcMs(first_ns.div_euclid(1_000_000)));
        let most_bytes = self.budget.journal_bytes();
        self.retire(|open| {
            open.period.is_over_at(period)
                || open.writer.bytes() >= most_bytes
                || first_ns < open.last_ns.saturating_sub(STEP_BACK_NS)
        })?;
        let journal = match &mut self.journal {
            Some(open) => open,
            none => {
                let number = self.next_number;
                // Not again, even if creating it fails halfway.
                self.next_number += 1;
                let header = Header::new(&self.options, number);
                none.insert(OpenJournal {
                    writer: RequestsJournalWriter::create(&self.store, &header)?,
                    number,
                    period,
                    last_ns,
                })
            }
        };
        fail_point::hit("requests: append");
        journal.last_ns = journal.last_ns.max(last_ns);
        let appended = journal.writer.append(batch);
        if appended.is_err() {
            // Nothing may be appended to it any more. What is whole in it is sealed.
            self.retire(|_| true)?;
        }
        appended
    }

    /// What is due without a batch: to be called every second or so in which there was none.
    pub fn idle(&mut self, now: UtcMs) -> Result<(), StoreError> {
        self.sealer.check()?;
        let period = self.period(now);
        self.retire(|open| open.period.is_over_at(period))?;
        let synced = match &mut self.journal {
            Some(open) => open.writer.sync_if_due(),
            None => Ok(()),
        };
        if synced.is_err() {
            self.retire(|_| true)?;
        }
        synced
    }

    fn period(&self, at: UtcMs) -> Period {
        Period::of(at, self.options.rotate)
    }

    /// Hands the open journal over to be sealed, if it is over. It is synced first: sealing may take longer than a power cut may cost,
    /// and may fail.
    fn retire(&mut self, is_over: impl FnOnce(&OpenJournal) -> bool) -> Result<(), StoreError> {
        match self.journal.take_if(|open| is_over(open)) {
            Some(mut open) => {
                let synced = open.writer.sync();
                self.sealer.seal(open.number)?;
                synced
            }
            None => Ok(()),
        }
    }

    /// Seals everything. The store then holds no journal of requests.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if let Some(mut open) = self.journal.take() {
            // What is sealed is durable, whatever became of this.
            let _ = open.writer.sync();
            self.sealer.seal(open.number)?;
        }
        self.sealer.finish()
    }
}

/// How many bytes of a journal of requests are no whole batch; `None` if there is no journal, or only a part
/// of its header.
pub(crate) fn journal_damage(path: &Path) -> Result<Option<u64>, StoreError> {
    let scan = match JournalFile::open(path)? {
        Some(journal) => journal::RequestsScan::new(journal)?,
        None => None,
    };
    let Some(scan) = scan else { return Ok(None) };
    for batch in &scan.batches {
        scan.requests(batch)?;
    }
    Ok(Some(scan.damaged_bytes + scan.torn_bytes))
}

/// Seals journals, and keeps what comes of them within its budget. Those below `first_own` are an earlier writer's.
fn sealing(store: PathBuf, budget: DiskBudget, first_own: u64, warn: Warn) -> Seal {
    let mut full = false;
    Box::new(move |task| {
        let Task::Seal(number) = task else {
            return Ok(());
        };
        fail_point::hit("requests: seal");
        let outcome = seal::seal(&store, number)?;
        if number < first_own && (outcome.requests > 0 || outcome.torn_bytes > 0) {
            warn(Warning::RecoveredRequests {
                requests: outcome.requests,
                torn_bytes: outcome.torn_bytes,
            });
        }
        outcome.quarantined.map(Warning::Quarantined).map(&warn);
        if budget.enforce(&store)? && !full {
            full = true;
            warn(Warning::RequestsFull(budget.most_bytes()));
        }
        Ok(())
    })
}
