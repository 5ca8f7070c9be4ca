//! Writes a store.

use std::mem;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::catalog::mounts::MountLog;
use crate::catalog::{Catalog, Publish};
use crate::error::StoreError;
use crate::housekeeping::{Housekeeping, NewPolicy, StoreBytes};
use crate::identity::{Place, StoreId};
use crate::imports;
use crate::journal::header::{Header, Previous};
use crate::journal::removal::remove_orphaned_ends;
use crate::journal::write::{AppendError, JournalWriter, UncertainTail};
use crate::layout::{self, Series};
use crate::left::{last_used, left};
use crate::live::Position;
use crate::lock::StoreLock;
use crate::newer;
use crate::options::{Options, RetentionPolicy};
use crate::period::Period;
use crate::requests::RequestsWriter;
use crate::seal::seal;
use crate::sealer::{Seal, Sealer, Task};
use crate::warning::{Warn, Warning};
use trackiops_threads::fail_point;

/// Most journals that wait to be sealed. The limit is reached only if sealing fails for days.
const QUEUED_JOURNALS: usize = 1024;

/// Writes closed windows to a store.
///
/// * A window is durable, and visible to readers, when [`Writer::append`] has returned `Ok`.
/// * A store has one writer at a time. It is locked until the writer is dropped.
/// * A separate thread seals journals, including journals of an earlier writer. So neither appending nor opening a
///   store waits for it.
/// * If the writer is dropped or its process dies at any point, the next [`Writer::open`] completes the work. After
///   [`Writer::finish`], nothing is left to complete.
#[derive(Debug)]
pub struct Writer {
    store: PathBuf,
    options: Options,
    journal: Option<OpenJournal>,
    /// Finished journals of an import that are not counted yet.
    held: Option<Vec<u64>>,
    next_number: u64,
    /// Bytes that a failed append may have left.
    uncertain_tail: Option<UncertainTail>,
    catalog: Catalog,
    /// The last journal with windows that is not open.
    previous: Option<Previous>,
    /// Whether the catalog names a journal of this writer.
    has_named: bool,
    mounts: MountLog,
    /// End of the latest window.
    until: UtcMs,
    new_policy: NewPolicy,
    bytes: StoreBytes,
    /// Declared before the lock, so that it ends before the lock is released.
    sealer: Sealer,
    lock: Arc<StoreLock>,
}

#[derive(Debug)]
struct OpenJournal {
    writer: JournalWriter,
    number: u64,
    finest: Granularity,
    period: Period,
    /// A failed append has left its end uncertain.
    retired: bool,
    /// It has windows, and the catalog names it.
    is_named: bool,
}

impl OpenJournal {
    /// Whether a window of this period and granularity needs another journal.
    fn is_over(&self, period: Period, finest: Granularity) -> bool {
        self.retired
            || self.finest != finest
            || self.writer.is_full()
            || self.period.is_over_at(period)
    }
}

impl Writer {
    /// Opens a store, or creates it. Journals of an earlier writer are sealed in the background.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::open_after(path, options, None, |_| ())
    }

    /// As [`Self::open`], after an earlier writer with this [`Self::uncertain_tail`]. `warn`
    /// receives warnings.
    pub fn open_after(
        path: impl AsRef<Path>,
        options: Options,
        uncertain_tail: Option<UncertainTail>,
        warn: impl Fn(Warning) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let store = path.as_ref().to_owned();
        options.validate()?;
        let lock = StoreLock::take(&store, options.allow_nfs_store)?;
        if let Some(uncertain_tail) = uncertain_tail {
            uncertain_tail.cut_off(&store)?;
        }
        let catalog = Catalog::open(&store)?;
        layout::create_dir(&store, &layout::journal_dir(&store))?;
        layout::sync_dir(&store, &store)?;
        remove_orphaned_ends(&store, |number| catalog.is_sealed(number))?;
        let left = left(&store, Series::Windows, catalog.ids())?;
        let known = [
            catalog.last_with_windows()?,
            catalog.last_begun(Series::Windows)?,
            newer::last_journal(&store)?.unwrap_or(0),
        ];
        let previous = last_used(&known, &left);
        let last_number = previous.map_or(0, |previous| previous.number);
        let last_number = last_number.max(catalog.last_journal()?);
        let next_number = last_number.max(layout::last_number(&store)?) + 1;
        // An import that cannot be counted must not prevent a recording.
        let _ = imports::take_stock(&catalog, next_number);
        let mounts = MountLog::new(catalog.clone(), &options.host);
        let new_policy = NewPolicy::default();
        let housekeeping = Housekeeping::new(&store, options.keep.clone(), new_policy.clone());
        let bytes = housekeeping.bytes();
        let left = left.into_iter().map(|left| left.number).collect();
        let seal = sealing(
            store.clone(),
            catalog.clone(),
            housekeeping,
            next_number,
            Box::new(warn),
        );
        Ok(Self {
            sealer: Sealer::start("seal", store.clone(), left, QUEUED_JOURNALS, seal)?,
            catalog,
            previous,
            has_named: false,
            mounts,
            until: UtcMs(i64::MIN),
            new_policy,
            bytes,
            store,
            options,
            journal: None,
            held: None,
            next_number,
            uncertain_tail: None,
            lock: Arc::new(lock),
        })
    }

    /// Bytes that an append that failed or panicked may have left. If you drop the writer after that and reopen the
    /// store to append the same windows, pass this on. Otherwise the windows could count twice.
    pub fn uncertain_tail(&self) -> Option<UncertainTail> {
        let panicked = || self.journal.as_ref()?.writer.uncertain_tail();
        self.uncertain_tail.clone().or_else(panicked)
    }

    /// Whether an earlier writer left unsealed single requests.
    pub fn has_unsealed_requests(&self) -> Result<bool, StoreError> {
        Ok(!layout::requests_journals(&self.store)?.is_empty())
    }

    /// Starts to store single requests in the same store, in at most `most_bytes`. Journals of an
    /// earlier writer are sealed in the background. `warn` receives warnings.
    ///
    /// Call this once. The store stays locked until both writers are dropped.
    pub fn requests(
        &self,
        most_bytes: u64,
        warn: impl Fn(Warning) + Send + 'static,
    ) -> Result<RequestsWriter, StoreError> {
        let lock = Arc::clone(&self.lock);
        let catalog = self.catalog.clone();
        RequestsWriter::open(&self.options, catalog, most_bytes, Box::new(warn), lock)
    }

    /// Appends a window of the finest granularity and makes it durable.
    ///
    /// The error may come from sealing an earlier journal. After any error, the window was not appended, and you can
    /// append it again.
    pub fn append(&mut self, window: &ClosedWindow) -> Result<(), StoreError> {
        let finest = self.options.granularities.finest();
        self.append_first(finest, slice::from_ref(window))?;
        Ok(())
    }

    /// Like [`Self::append`], for the first of several windows, which become durable together. They have any one of the
    /// store's granularities; finer windows of their time are absent. Returns the number of appended windows: at least
    /// one, unless `windows` is empty.
    pub fn append_first(
        &mut self,
        finest: Granularity,
        windows: &[ClosedWindow],
    ) -> Result<usize, StoreError> {
        self.sealer.check()?;
        self.lock.check_place(&self.store)?;
        if let Some(uncertain_tail) = &self.uncertain_tail {
            uncertain_tail.cut_off(&self.store)?;
            self.uncertain_tail = None;
        }
        let Some(first) = windows.first() else {
            return Ok(0);
        };
        let is_aligned = |window: &ClosedWindow| window.start.align(finest) == window.start;
        if !is_aligned(first) {
            return Err(StoreError::Unaligned {
                start: first.start,
                granularity: finest,
            });
        }
        let period = |window: &ClosedWindow| Period::of(window.start, self.options.rotate);
        let period_of_first = period(first);
        let together = windows
            .iter()
            .take_while(|window| is_aligned(window) && period(window) == period_of_first)
            .count();
        let journal = self.journal_for(period_of_first, finest)?;
        let appended = journal.writer.append(&windows[..together]);
        let count = match appended {
            Ok(count) => count,
            Err(AppendError {
                cause,
                uncertain_tail,
            }) => {
                journal.retired = uncertain_tail.is_some();
                self.uncertain_tail = uncertain_tail;
                return Err(cause);
            }
        };
        let number = journal.number;
        if !std::mem::replace(&mut journal.is_named, true) {
            self.name(number);
        }
        for window in &windows[..count] {
            self.until = self.until.max(window.start.plus(finest));
        }
        Ok(count)
    }

    /// Enters a journal with windows in the catalog. The entry only makes a later loss of the journal visible, so a
    /// failure does no harm.
    fn name(&mut self, number: u64) {
        // Later names are published when the previous journal is sealed.
        let publish = match std::mem::replace(&mut self.has_named, true) {
            true => Publish::Later,
            false => Publish::Now,
        };
        let _ = self.catalog.begun(Series::Windows, number, publish);
        fail_point::hit("append: named");
    }

    /// The id of the store.
    pub(crate) fn store_id(&self) -> StoreId {
        self.catalog.identity().id
    }

    /// The position at which this writer begins, after the windows of earlier writers.
    pub fn position(&self) -> Position {
        Position {
            journal: self.next_number - 1,
            offset: u64::MAX,
        }
    }

    /// The header of the open journal, and the offsets at which the windows of the last append end.
    pub(crate) fn appended(&self) -> Option<(Header, &[u64])> {
        let open = self.journal.as_ref()?;
        let store = self.catalog.identity();
        let header = Header::new(store, &self.options, open.number, open.finest).ok()?;
        Some((header, open.writer.ends()))
    }

    /// Records that from `at` on exactly these mounts exist. The catalog has them when this returns.
    pub fn mounted(&mut self, at: UtcMs, mounts: &[MountPoint]) -> Result<(), StoreError> {
        self.lock.check_place(&self.store)?;
        self.mounts.enter(at, mounts)
    }

    /// The journal of a period. Begins a new one if the open journal is over.
    fn journal_for(
        &mut self,
        period: Period,
        finest: Granularity,
    ) -> Result<&mut OpenJournal, StoreError> {
        let is_over = |open: &OpenJournal| open.is_over(period, finest);
        if self.journal.as_ref().is_some_and(is_over) {
            self.close_journal()?;
        }
        match &mut self.journal {
            Some(open) => Ok(open),
            none => {
                let number = self.next_number;
                // The number is not used again, even if creating the journal fails halfway.
                self.next_number += 1;
                let store = self.catalog.identity();
                let header = Header::new(store, &self.options, number, finest)?;
                let header = header.after(self.previous);
                Ok(none.insert(OpenJournal {
                    writer: JournalWriter::create(&self.store, &header, self.options.most_files)?,
                    number,
                    finest,
                    period,
                    retired: false,
                    is_named: false,
                }))
            }
        }
    }

    /// Sets the host of later windows.
    pub fn set_host(&mut self, host: &str) -> Result<(), StoreError> {
        if host == self.options.host {
            return Ok(());
        }
        self.close_journal()?;
        host.clone_into(&mut self.options.host);
        self.mounts = MountLog::new(self.catalog.clone(), host);
        self.until = UtcMs(i64::MIN);
        Ok(())
    }

    /// Passes the open journal on to be sealed.
    fn close_journal(&mut self) -> Result<(), StoreError> {
        if let Some(open) = self.journal.take() {
            if open.is_named {
                self.previous = Some(open.writer.as_previous());
            }
            match &mut self.held {
                Some(held) => held.push(open.number),
                None => self.sealer.seal(vec![open.number])?,
            }
            self.mounts.still(self.until)?;
        }
        Ok(())
    }

    /// From now on, finished journals wait for [`Self::release`]. Returns the number of the next journal.
    pub(crate) fn hold(&mut self) -> u64 {
        self.held = Some(Vec::new());
        self.next_number
    }

    /// Ends the open journal. Returns the number of the next journal.
    pub(crate) fn close(&mut self) -> Result<u64, StoreError> {
        self.close_journal()?;
        Ok(self.next_number)
    }

    /// Passes on the waiting journals to be sealed.
    pub(crate) fn release(&mut self) -> Result<(), StoreError> {
        match self.held.as_mut().map(mem::take) {
            Some(held) if !held.is_empty() => self.sealer.seal(held),
            _ => Ok(()),
        }
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// Has the writer of requests let go of the store, so that it can be opened again.
    pub(crate) fn ask_lock_back(&self) {
        self.lock.ask_back();
    }

    /// Identifies the directory of the store.
    pub(crate) fn place(&self) -> Option<Place> {
        self.lock.place()
    }

    /// Sets the retention. Excess data expires within half a minute.
    pub fn set_retention(&mut self, keep: RetentionPolicy) {
        self.options.keep = keep.clone();
        self.new_policy.put(keep);
    }

    /// Size of the store when journals were last sealed, or else when it was opened, bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes.get()
    }

    /// The options of the store.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Seals everything. After that, the store has no journal of windows.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.end()?;
        self.sealer.finish()
    }

    /// Passes on everything to be sealed, without waiting. Nothing can be appended after that.
    pub fn end(&mut self) -> Result<(), StoreError> {
        if let Some(uncertain_tail) = self.uncertain_tail.take() {
            uncertain_tail.cut_off(&self.store)?;
        }
        if let Some(open) = self.journal.take() {
            self.sealer.seal(vec![open.number])?;
        }
        self.mounts.still(self.until)?;
        self.sealer.end();
        Ok(())
    }

    /// Whether [`Self::finish`] would not wait, after [`Self::end`].
    pub fn has_ended(&self) -> bool {
        self.sealer.has_ended()
    }
}

/// Seals journals. Expires, merges and deletes segments by the options. Numbers below `first_own` belong to an earlier
/// writer.
fn sealing(
    store: PathBuf,
    mut catalog: Catalog,
    mut housekeeping: Housekeeping,
    first_own: u64,
    warn: Warn,
) -> Seal {
    Box::new(move |task| {
        let done = match task {
            Task::Seal(numbers) => {
                let observer = &mut |_| ControlFlow::Continue(());
                let outcomes = seal(&store, &mut catalog, numbers, observer)?;
                for (number, outcome) in numbers.iter().zip(outcomes) {
                    if *number < first_own && (outcome.windows > 0 || outcome.torn_bytes > 0) {
                        warn(Warning::RecoveredWindows {
                            windows: outcome.windows,
                            torn_bytes: outcome.torn_bytes,
                        });
                    }
                    outcome.quarantined.map(Warning::Quarantined).map(&warn);
                }
                Ok(())
            }
            Task::AfterSealing => housekeeping.after_sealing(&mut catalog),
            Task::Idle => housekeeping.idle(&mut catalog),
            Task::Begin | Task::End => housekeeping.tidy(&mut catalog),
        };
        housekeeping.take_warnings().into_iter().for_each(&warn);
        done
    })
}
