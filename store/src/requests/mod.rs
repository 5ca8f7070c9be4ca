//! Single requests: written as they arrive, sealed into Parquet, and deleted from the oldest when they exceed their
//! budget.
//!
//! They are separate from windows, so that no failure here prevents a window from being stored. The catalog lists their
//! segments and sealed journals, like those for windows.

mod budget;
mod journal;
mod queue;
mod read;
mod seal;
#[cfg(test)]
mod tests;

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trackiops_schemas::request::RequestBatch;
use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::catalog::{Catalog, Publish};
use crate::chain::Link;
use crate::error::StoreError;
use crate::identity::Ids;
use crate::journal::file::JournalFile;
use crate::journal::header::{Header, Previous};
use crate::layout::{self, Series};
use crate::left::{last_used, left};
use crate::lock::StoreLock;
use crate::options::Options;
use crate::period::Period;
use crate::sealer::{Seal, Sealer, TOGETHER, Task};
use crate::warning::{Warn, Warning};
use journal::RequestsJournalWriter;

pub use budget::DiskBudget;
pub(crate) use budget::delete_removed;
pub(crate) use journal::RequestsScan;
pub use queue::{RequestCounts, RequestQueue, WAITING_BYTES, WAITING_REQUESTS};
pub use read::{EachBatch, RequestsView, ends_ns};

/// If a batch begins this long before the end of the previous one, the clock was set back. The limit bounds the
/// requests that sealing holds back for sorting.
const STEP_BACK_NS: i64 = 1_000_000_000;
/// Interval of checks whether the thread that seals is free.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Stores single requests, in the store of a [`crate::Writer`].
///
/// * When [`Self::append`] has returned `Ok`, a batch survives the end of the process. A second later, it also survives
///   a power cut.
/// * Journals are sealed into Parquet at each rotation, and when they reach their share of the
///   budget.
/// * If the writer is dropped or its process dies at any point, the next writer completes the work.
#[derive(Debug)]
pub struct RequestsWriter {
    store: PathBuf,
    options: Options,
    budget: DiskBudget,
    catalog: Catalog,
    journal: Option<OpenJournal>,
    next_number: u64,
    /// Finished journals of an import, and their bytes. They are sealed together.
    waiting: (Vec<u64>, u64),
    /// Whether sealing waits until the import has counted its journals.
    is_held: bool,
    /// The last journal with requests that is not open.
    previous: Option<Previous>,
    /// Whether the catalog names a journal of this writer.
    has_named: bool,
    /// Declared before the lock, so that it ends before the lock is released.
    sealer: Sealer,
    lock: Arc<StoreLock>,
}

#[derive(Debug)]
struct OpenJournal {
    writer: RequestsJournalWriter,
    number: u64,
    period: Period,
    /// Completion of the latest of its requests.
    last_ns: i64,
    /// It has requests, and the catalog names it.
    is_named: bool,
}

impl RequestsWriter {
    pub(crate) fn open(
        options: &Options,
        catalog: Catalog,
        most_bytes: u64,
        warn: Warn,
        lock: Arc<StoreLock>,
    ) -> Result<Self, StoreError> {
        let store = catalog.store();
        let left = left(store, Series::Requests, catalog.ids())?;
        // A sealed journal without requests must not be named.
        let known = [
            catalog.last_with_requests()?,
            catalog.last_begun(Series::Requests)?,
        ];
        let previous = last_used(&known, &left);
        let segments = layout::requests_segments(store)?;
        let last = segments.last().map_or(0, |(number, _)| *number);
        let last = last.max(previous.map_or(0, |previous| previous.number));
        let last = last.max(catalog.last_requests()?);
        let next_number = last.max(layout::last_requests_number(store)?) + 1;
        let budget = DiskBudget::new(most_bytes);
        let seal = sealing(catalog.clone(), budget.clone(), next_number, warn);
        let left = left.into_iter().map(|left| left.number).collect();
        Ok(Self {
            // Beginning a journal waits until the last journal but one is sealed. So journals stay within the room that
            // `DiskBudget` reserves for them.
            sealer: Sealer::start("seal requests", store.to_owned(), left, 0, seal)?,
            store: store.to_owned(),
            catalog,
            options: options.clone(),
            budget,
            journal: None,
            waiting: (Vec::new(), 0),
            is_held: false,
            next_number,
            previous,
            has_named: false,
            lock,
        })
    }

    /// Writes a batch.
    ///
    /// The error may come from sealing an earlier journal. After any error, the batch counts as not written, and you
    /// can append others. Waits for the disk. If two journals wait to be sealed, also waits for the first one.
    pub fn append(&mut self, batch: &RequestBatch) -> Result<(), StoreError> {
        self.sealer.check()?;
        self.lock.check_place(&self.store)?;
        let ends = || batch.requests.iter().map(|request| request.end_ns);
        let (Some(first_ns), Some(last_ns)) = (ends().min(), ends().max()) else {
            return Ok(());
        };
        let period = self.period(UtcMs(first_ns.div_euclid(1_000_000)));
        let (most_bytes, most_files) = (self.budget.journal_bytes(), self.options.most_files);
        self.retire(|open| {
            open.period.is_over_at(period)
                || open.writer.files() >= most_files
                || open.writer.bytes() >= most_bytes
                || first_ns < open.last_ns.saturating_sub(STEP_BACK_NS)
        })?;
        let journal = match &mut self.journal {
            Some(open) => open,
            none => {
                let number = self.next_number;
                // The number is not used again, even if creating the journal fails halfway.
                self.next_number += 1;
                let store = self.catalog.identity();
                let finest = self.options.granularities.finest();
                let header = Header::new(store, &self.options, number, finest)?;
                let header = header.after(self.previous);
                none.insert(OpenJournal {
                    writer: RequestsJournalWriter::create(&self.store, &header)?,
                    number,
                    period,
                    last_ns,
                    is_named: false,
                })
            }
        };
        fail_point::hit("requests: append");
        journal.last_ns = journal.last_ns.max(last_ns);
        let appended = journal.writer.append(batch);
        if appended.is_err() {
            // The journal must not grow any more. Its complete batches are sealed.
            self.retire(|_| true)?;
        }
        appended?;
        self.name()
    }

    /// Enters the open journal in the catalog. Syncs the requests of its first batch before, so that a journal in the
    /// catalog has requests even after a power cut.
    fn name(&mut self) -> Result<(), StoreError> {
        let Some(open) = self.journal.as_mut().filter(|open| !open.is_named) else {
            return Ok(());
        };
        open.is_named = true;
        open.writer.sync()?;
        // Later names are published when the previous journal is sealed.
        let publish = match mem::replace(&mut self.has_named, true) {
            true => Publish::Later,
            false => Publish::Now,
        };
        // The entry only makes a later loss of the journal visible, so a failure does no harm.
        let _ = self.catalog.begun(Series::Requests, open.number, publish);
        fail_point::hit("requests: named");
        Ok(())
    }

    /// Rotates and syncs without a batch. Call it about once a second while there are no batches.
    pub fn idle(&mut self, now: UtcMs) -> Result<(), StoreError> {
        self.sealer.check()?;
        self.lock.check_place(&self.store)?;
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

    /// A handle that can change its budget.
    pub fn budget(&self) -> DiskBudget {
        self.budget.clone()
    }

    fn period(&self, at: UtcMs) -> Period {
        Period::of(at, self.options.rotate)
    }

    /// If the open journal is over, passes it on to be sealed. Syncs it first: a power cut could otherwise cost more
    /// than a second if sealing is slow or fails.
    fn retire(&mut self, is_over: impl FnOnce(&OpenJournal) -> bool) -> Result<(), StoreError> {
        match self.journal.take_if(|open| is_over(open)) {
            Some(mut open) => {
                let synced = open.writer.sync();
                if open.is_named {
                    self.previous = Some(open.writer.as_previous());
                }
                self.pass_on(&open)?;
                synced
            }
            None => Ok(()),
        }
    }

    /// Passes a journal on to be sealed. An import collects several journals first.
    fn pass_on(&mut self, open: &OpenJournal) -> Result<(), StoreError> {
        let (numbers, bytes) = &mut self.waiting;
        numbers.push(open.number);
        *bytes += open.writer.bytes();
        let is_import = self.options.source.is_some();
        if self.is_held {
            return Ok(());
        }
        if is_import && numbers.len() < TOGETHER && *bytes < self.budget.journal_bytes() {
            return Ok(());
        }
        self.seal_waiting()
    }

    fn seal_waiting(&mut self) -> Result<(), StoreError> {
        let (numbers, _) = mem::take(&mut self.waiting);
        match numbers.is_empty() {
            true => Ok(()),
            false => self.sealer.seal(numbers),
        }
    }

    /// From now on, finished journals wait for [`Self::release`]. Returns the number of the next journal.
    pub(crate) fn hold(&mut self) -> u64 {
        self.is_held = true;
        self.next_number
    }

    /// Ends the open journal. Returns the number of the next journal.
    pub(crate) fn close(&mut self) -> Result<u64, StoreError> {
        self.retire(|_| true)?;
        Ok(self.next_number)
    }

    /// Passes on the waiting journals to be sealed. Until the thread that seals is free, it waits, unless `is_over`. Then
    /// the journals stay in the store.
    pub(crate) fn release(&mut self, is_over: impl Fn() -> bool) -> Result<(), StoreError> {
        loop {
            let (numbers, bytes) = mem::take(&mut self.waiting);
            if numbers.is_empty() {
                return Ok(());
            }
            let Some(numbers) = self.sealer.try_seal(numbers)? else {
                return Ok(());
            };
            self.waiting = (numbers, bytes);
            if is_over() {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Sets the host of later requests.
    pub fn set_host(&mut self, host: &str) -> Result<(), StoreError> {
        if host != self.options.host {
            self.retire(|_| true)?;
            host.clone_into(&mut self.options.host);
        }
        Ok(())
    }

    /// Seals everything. The store then holds no journal of requests.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.end(|| false)?;
        self.sealer.finish()
    }

    /// Passes on everything to be sealed, and does not wait until it is. Nothing can be appended after that. If it
    /// `is_over` before the thread that seals is free, the last journals stay in the store.
    pub fn end(&mut self, is_over: impl Fn() -> bool) -> Result<(), StoreError> {
        if let Some(mut open) = self.journal.take() {
            // Segments are synced when the journal is sealed, so this error does not matter.
            let _ = open.writer.sync();
            let (numbers, bytes) = &mut self.waiting;
            numbers.push(open.number);
            *bytes += open.writer.bytes();
        }
        self.release(is_over)?;
        self.sealer.end();
        Ok(())
    }

    /// Whether [`Self::finish`] would not wait, after [`Self::end`].
    pub fn has_ended(&self) -> bool {
        self.sealer.has_ended()
    }
}

/// The link of a journal of requests in its chain, and the number of its bytes that are not complete batches. `None` if
/// the journal does not exist, or ends within its header.
pub(crate) fn journal_damage(
    path: &Path,
    ids: Option<&Ids>,
) -> Result<Option<(Link, u64)>, StoreError> {
    let scan = match JournalFile::open(path)? {
        Some(journal) => journal::RequestsScan::new(journal.of_any(ids))?,
        None => None,
    };
    let Some(scan) = scan else { return Ok(None) };
    for batch in &scan.batches {
        scan.requests(batch)?;
    }
    Ok(Some((scan.link(), scan.damaged_bytes + scan.torn_bytes)))
}

/// Seals journals and enforces the budget. Numbers below `first_own` are an earlier writer's.
fn sealing(catalog: Catalog, budget: DiskBudget, first_own: u64, warn: Warn) -> Seal {
    let mut full = false;
    let mut enforced = budget.most_bytes();
    Box::new(move |task| {
        match task {
            Task::Seal(numbers) => {
                fail_point::hit("requests: seal");
                for (number, outcome) in numbers.iter().zip(seal::seal(&catalog, numbers)?) {
                    if *number < first_own && (outcome.requests > 0 || outcome.torn_bytes > 0) {
                        warn(Warning::RecoveredRequests {
                            requests: outcome.requests,
                            torn_bytes: outcome.torn_bytes,
                        });
                    }
                    outcome.quarantined.map(Warning::Quarantined).map(&warn);
                }
            }
            // The budget has changed.
            Task::Idle if enforced != budget.most_bytes() => {}
            _ => return Ok(()),
        }
        enforced = budget.most_bytes();
        if budget.enforce(&catalog)? && !full {
            full = true;
            warn(Warning::RequestsFull(enforced));
        }
        Ok(())
    })
}
