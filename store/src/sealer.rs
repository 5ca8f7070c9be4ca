//! The thread that seals journals while the recorder goes on appending.
//!
//! Should it panic, windows can be appended still, and are sealed when the store is opened again. Whoever appends is told once, and
//! when it finishes.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trackiops_threads::fail_point;

use crate::allocator;
use crate::error::StoreError;
use crate::sandbox::confine_to;

/// Does what is to be done. Sealing a journal again that failed, or even one that was sealed, does no harm.
pub(crate) type Seal = Box<dyn FnMut(Task) -> Result<(), StoreError> + Send>;

/// What a sealing thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// What is to be done before all else.
    Begin,
    /// Seal this journal.
    Seal(u64),
    /// What is to be done when journals were sealed.
    AfterSealing,
    /// What is to be done from time to time.
    Idle,
    /// What is to be done after all else.
    End,
}

/// How often [`Task::Idle`] is due.
const IDLE_EVERY: Duration = Duration::from_secs(30);

/// Seals the journals it is handed, in order. One that fails is tried again with the next one;
/// it stays in the store meanwhile, where readers see it.
#[derive(Debug)]
pub(crate) struct Sealer {
    store: PathBuf,
    queue: Option<SyncSender<u64>>,
    thread: Option<JoinHandle<()>>,
    /// What the thread panicked with.
    panic: Option<String>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Sealer {
    /// Starts a thread of that name, which begins with the journals that `waiting` names. Up to `queued` of those that are handed over later may wait until
    /// they are sealed; handing over more waits, too.
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
            // Where the kernel cannot, what is done is still beneath the store.
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

    /// Hands over a journal that nothing will be appended to.
    pub(crate) fn seal(&mut self, journal: u64) -> Result<(), StoreError> {
        match self.queue.as_ref().map(|queue| queue.send(journal)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                self.join();
                Err(self.gone())
            }
            // That the thread is gone was told. The journal stays in the store.
            None => Ok(()),
        }
    }

    /// Reports what failed since the last call, and once that the thread is gone.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
            return Err(self.gone());
        }
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Waits until all is sealed. What failed earlier and succeeds now is no failure.
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
    /// The store's lock must outlive the thread, so the thread is waited for.
    fn drop(&mut self) {
        self.join();
    }
}

struct Worker {
    seal: Seal,
    /// Journals not sealed yet, because sealing them failed.
    waiting: Vec<u64>,
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl Worker {
    fn run(mut self, journals: &Receiver<u64>) {
        self.run_task(Task::Begin);
        self.seal_waiting();
        loop {
            match journals.recv_timeout(IDLE_EVERY) {
                Ok(journal) => {
                    self.waiting.push(journal);
                    // All that wait, before anything else is done.
                    self.waiting.extend(journals.try_iter());
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
        waiting.retain(|journal| {
            seal(Task::Seal(*journal))
                .map_err(|error| *lock(failure) = Some(error))
                .is_err()
        });
        self.run_task(Task::AfterSealing);
    }

    fn run_task(&mut self, task: Task) {
        if let Err(error) = (self.seal)(task) {
            *lock(&self.failure) = Some(error);
        }
        allocator::give_back();
    }
}

/// A thread that panicked leaves a value that is whole: it is only ever replaced.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
