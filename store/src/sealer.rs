//! The thread that seals journals while the recorder appends.
//!
//! If it panics, windows can still be appended; the next opening of the store seals them. The next append reports the
//! panic, and so does the end.

use std::mem;
use std::path::PathBuf;
use std::slice;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trackiops_threads::fail_point;

use crate::allocator;
use crate::error::StoreError;
use crate::sandbox::confine_to;

/// Does a task. It must be able to seal a sealed journal again.
pub(crate) type Seal = Box<dyn FnMut(Task<'_>) -> Result<(), StoreError> + Send>;

/// A task of a sealing thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task<'a> {
    /// The first task.
    Begin,
    /// Seal these journals. After an error, any of them may not be sealed.
    Seal(&'a [u64]),
    /// After journals were sealed.
    AfterSealing,
    /// From time to time.
    Idle,
    /// The last task.
    End,
}

/// Journals that are sealed together. The catalog covers the whole store and is published once for them.
pub(crate) const TOGETHER: usize = 64;
/// Interval of [`Task::Idle`].
const IDLE_EVERY: Duration = Duration::from_secs(30);

/// Seals journals in the order in which they are passed in. A journal that fails is retried with the next one, and
/// every [`IDLE_EVERY`]. Readers read the journal until it is sealed.
#[derive(Debug)]
pub(crate) struct Sealer {
    store: PathBuf,
    queue: Option<SyncSender<Vec<u64>>>,
    thread: Option<JoinHandle<()>>,
    /// The message of the thread's panic.
    panic: Option<String>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Sealer {
    /// Starts a thread, which first seals the journals in `waiting`. Up to `queued` further calls of [`Self::seal`] may
    /// wait. Beyond that, [`Self::seal`] blocks.
    pub(crate) fn start(
        name: &str,
        store: PathBuf,
        waiting: Vec<u64>,
        queued: usize,
        seal: Seal,
    ) -> Result<Self, StoreError> {
        allocator::give_back_large();
        let (queue, journals) = mpsc::sync_channel(queued);
        let failure = Arc::default();
        let worker = Worker {
            seal,
            waiting,
            failure: Arc::clone(&failure),
        };
        let builder = thread::Builder::new().name(name.into());
        let own = store.clone();
        let run = move || {
            // This fails if the kernel lacks Landlock. Paths are still resolved beneath the store.
            let _ = confine_to(&own);
            fail_point::escape();
            worker.run(&journals)
        };
        let thread = trackiops_threads::spawn(builder, run)
            .map_err(StoreError::io("start the sealing thread of", &store))?;
        Ok(Self {
            store,
            queue: Some(queue),
            thread: Some(thread),
            panic: None,
            failure,
        })
    }

    /// Passes on journals that do not grow any more.
    pub(crate) fn seal(&mut self, journals: Vec<u64>) -> Result<(), StoreError> {
        match self.queue.as_ref().map(|queue| queue.send(journals)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                self.join();
                Err(self.gone())
            }
            // An earlier call reported the missing thread. The journal stays in the store.
            None => Ok(()),
        }
    }

    /// As [`Self::seal`], but returns the journals if it would block.
    pub(crate) fn try_seal(&mut self, journals: Vec<u64>) -> Result<Option<Vec<u64>>, StoreError> {
        match self.queue.as_ref().map(|queue| queue.try_send(journals)) {
            Some(Ok(())) | None => Ok(None),
            Some(Err(TrySendError::Full(journals))) => Ok(Some(journals)),
            Some(Err(TrySendError::Disconnected(_))) => {
                self.join();
                Err(self.gone())
            }
        }
    }

    /// Returns the last failure since the last call. Reports once that the thread is gone.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
            return Err(self.gone());
        }
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Closes the queue.
    pub(crate) fn end(&mut self) {
        self.queue = None;
    }

    /// Whether [`Self::finish`] would not wait, after [`Self::end`].
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until everything is sealed. Earlier failures of journals that are sealed by now do not count.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        self.join();
        if self.panic.is_some() {
            return Err(self.gone());
        }
        self.check()
    }

    fn gone(&self) -> StoreError {
        StoreError::SealerGone {
            store: self.store.clone(),
            why: self.panic.clone().unwrap_or_else(|| "it has ended".into()),
        }
    }

    fn join(&mut self) {
        self.queue = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            self.panic = Some(trackiops_threads::why(&*panic));
        }
    }
}

impl Drop for Sealer {
    /// Waits for the thread, because the store's lock must outlive it.
    fn drop(&mut self) {
        self.join();
    }
}

struct Worker {
    seal: Seal,
    /// Journals to seal, including those that failed before.
    waiting: Vec<u64>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Worker {
    fn run(mut self, journals: &Receiver<Vec<u64>>) {
        self.run_task(Task::Begin);
        self.seal_waiting();
        loop {
            match journals.recv_timeout(IDLE_EVERY) {
                Ok(first) => {
                    self.waiting.extend(first);
                    // Seals all waiting journals before anything else.
                    self.waiting.extend(journals.try_iter().flatten());
                    self.seal_waiting();
                }
                Err(RecvTimeoutError::Timeout) if !self.waiting.is_empty() => self.seal_waiting(),
                Err(RecvTimeoutError::Timeout) => self.run_task(Task::Idle),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.waiting.is_empty() {
            *lock(&self.failure) = None;
            self.seal_waiting();
        }
        self.run_task(Task::End);
    }

    fn seal_waiting(&mut self) {
        let Self {
            seal,
            waiting,
            failure,
        } = self;
        for together in mem::take(waiting).chunks(TOGETHER) {
            if together.len() > 1 && seal(Task::Seal(together)).is_ok() {
                continue;
            }
            // A journal that fails does not stop the others.
            for journal in together {
                if let Err(error) = seal(Task::Seal(slice::from_ref(journal))) {
                    *lock(failure) = Some(error);
                    waiting.push(*journal);
                }
            }
        }
        self.run_task(Task::AfterSealing);
    }

    fn run_task(&mut self, task: Task<'_>) {
        if let Err(error) = (self.seal)(task) {
            *lock(&self.failure) = Some(error);
        }
        allocator::give_back();
    }
}

/// A panic cannot leave a partial value, because the value is only ever replaced.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
