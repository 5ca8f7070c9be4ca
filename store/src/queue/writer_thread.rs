//! The thread that writes windows from the queue. It retries, and reopens the store if necessary.

use std::io::ErrorKind;
use std::mem;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::Granularity;
use trackiops_threads::fail_point;

use super::state::{Mounted, Shared, State};
use crate::error::StoreError;
use crate::identity::Place;
use crate::journal::write::UncertainTail;
use crate::lock::occupant;
use crate::options::{Options, RetentionPolicy};
use crate::warning::Warning;
use crate::writer::Writer;

/// Interval of attempts to write.
pub(super) const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long it keeps trying to write waiting windows after the end of the recording.
pub(super) const LAST_TRIES: Duration = Duration::from_secs(4);

/// Passes a warning on. Each opened writer has a clone.
pub(super) type SharedWarn = Arc<dyn Fn(Warning) + Send + Sync>;

/// What to do next.
enum Next {
    /// The windows in `in_hand`.
    Windows,
    Mounted(Mounted),
    Keep(RetentionPolicy),
}

/// The thread that writes.
pub(super) struct WriterThread {
    store: PathBuf,
    options: Options,
    warn: SharedWarn,
    /// `None` while the store is closed.
    writer: Option<Writer>,
    /// The directory that was recorded to.
    dir: Option<Place>,
    /// Bytes that the closed writer may have left.
    uncertain_tail: Option<UncertainTail>,
    /// The last mounts that were written. A new store gets them again.
    mounted: Option<Mounted>,
    shared: Arc<Shared>,
    /// Windows that are being written. After a panic, they are still here.
    in_hand: Option<(Granularity, Vec<ClosedWindow>)>,
    /// The store was closed because its file system is read-only and may be unmounted for repair.
    is_unmounted: bool,
    /// Whether the last attempt failed.
    has_failed: bool,
    /// Whether another directory has taken the store's place. That ends the recording.
    is_replaced: bool,
    /// Waiting windows that have been written since the first failure.
    waited: u64,
    /// When to give up after the end of the recording.
    deadline: Option<Instant>,
}

impl WriterThread {
    pub(super) fn new(
        store: PathBuf,
        writer: Writer,
        shared: Arc<Shared>,
        warn: SharedWarn,
    ) -> Self {
        Self {
            store,
            options: writer.options().clone(),
            dir: writer.place(),
            warn,
            writer: Some(writer),
            uncertain_tail: None,
            mounted: None,
            shared,
            in_hand: None,
            is_unmounted: false,
            has_failed: false,
            is_replaced: false,
            waited: 0,
            deadline: None,
        }
    }

    pub(super) fn run(mut self) -> Result<(), StoreError> {
        match trackiops_threads::guarded(|| self.write_and_seal()) {
            Ok(written) => written,
            Err(panic) => {
                // The recording ends, but closed windows are still written. The store is reopened for that, because the
                // panic may have left the writer in any state. The next recorder seals them.
                self.let_go();
                if let Some((granularity, windows)) = self.in_hand.take() {
                    self.shared.put_back(granularity, windows);
                }
                let written = self.write_all();
                if let Err(error) = written {
                    (self.warn)(Warning::LostAfterPanic(error.to_string()));
                }
                resume_unwind(panic)
            }
        }
    }

    fn write_and_seal(&mut self) -> Result<(), StoreError> {
        let written = self.write_all();
        if written.is_err() && !self.is_replaced {
            return written;
        }
        // A store that was moved is complete before the recording ends.
        let sealed = self.writer.take().map_or(Ok(()), Writer::finish);
        written.and(sealed)?;
        match self.is_replaced {
            true => Err(StoreError::Replaced(self.store.clone())),
            false => Ok(()),
        }
    }

    /// Writes until the recording has ended and nothing waits.
    fn write_all(&mut self) -> Result<(), StoreError> {
        while let Some(next) = self.next() {
            match next {
                Next::Windows => {}
                Next::Mounted(mounted) => {
                    if let Err(error) = self.enter(&mounted) {
                        self.shared.lock().mounted.push_front(mounted);
                        self.failed(error)?;
                    }
                    continue;
                }
                Next::Keep(keep) => {
                    self.keep(keep);
                    continue;
                }
            }
            fail_point::hit("windows: taken");
            let appended = self.append();
            let done = match &appended {
                Ok(count) => *count,
                // This window can never be written.
                Err(error @ (StoreError::Unaligned { .. } | StoreError::WindowTooLarge(_))) => {
                    (self.warn)(Warning::WindowLeftOut(error.to_string()));
                    1
                }
                Err(_) => 0,
            };
            if let Some((granularity, mut windows)) = self.in_hand.take() {
                windows.drain(..done);
                self.shared.put_back(granularity, windows);
            }
            match appended {
                Ok(count) => self.succeeded(count),
                // This ends the recording. Until then, windows are written but not sealed.
                Err(StoreError::SealerGone { .. }) => {}
                Err(error) if done == 0 => self.failed(error)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Waits for the next item. `None` when the recording has ended and everything is written.
    fn next(&mut self) -> Option<Next> {
        let mut state = self.shared.lock();
        loop {
            if let Some(keep) = state.keep.take() {
                return Some(Next::Keep(keep));
            }
            if let Some(mounted) = state.mounted.pop_front() {
                return Some(Next::Mounted(mounted));
            }
            if let Some((granularity, windows)) = state.backlog.pop() {
                state.taken = windows.len();
                self.in_hand = Some((granularity, windows));
                return Some(Next::Windows);
            }
            if state.has_ended {
                return None;
            }
            let waiting = self.shared.changed.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Appends the first of the windows in hand. Returns their number.
    fn append(&mut self) -> Result<usize, StoreError> {
        self.open()?;
        let (Some(writer), Some((granularity, windows))) = (&mut self.writer, &self.in_hand) else {
            return Ok(0);
        };
        let appended = writer.append_first(*granularity, windows);
        if let (Ok(_), Some(publisher)) = (&appended, &self.shared.publisher)
            && let Some((header, ends)) = writer.appended()
        {
            for (window, end) in windows.iter().zip(ends) {
                publisher.durable(&header, window, *end);
            }
            publisher.store_bytes(writer.bytes());
        }
        if let Err(error) = &appended {
            self.let_go_after(error);
        }
        appended
    }

    /// Closes the store if it must be opened again.
    fn let_go_after(&mut self, error: &StoreError) {
        let let_go = match error {
            // A deleted store is created again.
            StoreError::Gone(path) => *path == self.store,
            // The file system cannot be unmounted or repaired while its files are open.
            StoreError::Io { source, .. } => source.kind() == ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        if let_go {
            self.let_go();
            self.is_unmounted = matches!(error, StoreError::Io { .. });
        }
    }

    /// Closes the store. Keeps the uncertain tail of its journal.
    fn let_go(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.uncertain_tail = writer.uncertain_tail();
            writer.ask_lock_back();
        }
    }

    fn enter(&mut self, mounted: &Mounted) -> Result<(), StoreError> {
        let (at, mounts) = mounted;
        self.open()?;
        let entered = match &mut self.writer {
            Some(writer) => writer.mounted(*at, mounts),
            None => Ok(()),
        };
        if let Err(error) = &entered {
            self.let_go_after(error);
        }
        entered?;
        self.mounted = Some(mounted.clone());
        Ok(())
    }

    /// Sets the retention, also for a store that is opened later.
    fn keep(&mut self, keep: RetentionPolicy) {
        self.options.keep = keep.clone();
        if let Some(writer) = &mut self.writer {
            writer.set_retention(keep);
        }
    }

    /// Opens the store, or creates it, unless it is open.
    fn open(&mut self) -> Result<(), StoreError> {
        if self.writer.is_some() {
            return Ok(());
        }
        // An empty directory may be recorded to, like an absent one.
        let found = occupant(&self.store);
        // But while the file system is unmounted, the store must not be created in the directory below.
        if self.is_unmounted && found.is_none() {
            return Err(StoreError::Missing(self.store.clone()));
        }
        if !self.is_unmounted && found.is_some() && found != self.dir {
            return Err(StoreError::Replaced(self.store.clone()));
        }
        let uncertain_tail = self.uncertain_tail.clone();
        let options = self.options.clone();
        let warn = Arc::clone(&self.warn);
        let opened = Writer::open_after(&self.store, options, uncertain_tail, move |warning| {
            warn(warning)
        });
        if opened.is_err()
            && found.is_none()
            && let Some(begun) = occupant(&self.store)
        {
            // The attempt has begun a new store.
            self.dir = Some(begun);
        }
        let mut writer = opened?;
        self.dir = writer.place();
        self.is_unmounted = false;
        self.uncertain_tail = None;
        if let Some((at, mounts)) = &self.mounted {
            writer.mounted(*at, mounts)?;
        }
        if let Some(publisher) = &self.shared.publisher {
            publisher.store_id(writer.store_id());
        }
        self.writer = Some(writer);
        Ok(())
    }

    fn succeeded(&mut self, windows: usize) {
        if !self.has_failed {
            return;
        }
        self.waited += windows as u64;
        if !self.shared.lock().backlog.is_empty() {
            return;
        }
        self.has_failed = false;
        self.publish_error(None);
        let (coarsened, dropped) = self.shared.lock().backlog.take_losses();
        let waited = mem::take(&mut self.waited);
        (self.warn)(Warning::WrittenAgain {
            waited,
            coarsened,
            dropped,
        });
    }

    fn publish_error(&self, error: Option<String>) {
        if let Some(publisher) = &self.shared.publisher {
            publisher.store_error(error);
        }
    }

    /// Warns of the first failure, and waits before the next attempt.
    fn failed(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        self.publish_error(Some(error.to_string()));
        let is_replaced = matches!(error, StoreError::Replaced(_));
        let has_failed = mem::replace(&mut self.has_failed, true);
        if is_replaced {
            if !mem::replace(&mut self.is_replaced, true) {
                (self.warn)(Warning::Replaced(error.to_string()));
            }
        } else if !has_failed {
            (self.warn)(Warning::CannotWrite(error.to_string()));
        }
        let state = self.shared.lock();
        let is_over = |state: &State| state.has_ended;
        if is_over(&state) {
            let deadline = *self
                .deadline
                .get_or_insert_with(|| Instant::now() + LAST_TRIES);
            if is_replaced || Instant::now() >= deadline {
                let lost = state.backlog.len();
                drop(state);
                (self.warn)(Warning::WaitingLost(lost));
                return Err(error);
            }
            drop(state);
            thread::sleep(RETRY_EVERY / 4);
            return Ok(());
        }
        let until = Instant::now() + RETRY_EVERY;
        let mut state = state;
        while !is_over(&state) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
