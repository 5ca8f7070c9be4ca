//! The queue in front of a store. Closed windows wait in it until a separate thread has written
//! them.
//!
//! The recorder continues whatever happens to the disk. While the store cannot be written, windows wait in limited
//! memory and become coarser when it is full ([`backlog`]). The thread ([`writer_thread`]) retries until they are
//! written. It reopens the store if its path leads to another directory, or if its file system has become read-only.
//! Before it writes windows again, it cuts off what a failed append may have left.

mod backlog;
mod state;
#[cfg(test)]
mod tests;
mod writer_thread;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;

use self::backlog::Backlog;
pub(crate) use self::backlog::Sum;
use self::state::Shared;
use self::writer_thread::WriterThread;
use crate::error::StoreError;
use crate::live::Publisher;
use crate::options::RetentionPolicy;
use crate::warning::Warning;
use crate::writer::Writer;

/// Memory for waiting windows, per file that a journal may have. It makes 24 MiB with the most files, or minutes of
/// windows with thousands of files.
const WAITING_BYTES_OF_FILE: usize = 384;
/// Most waiting changes of mounts. Beyond that, the oldest are dropped.
const WAITING_CHANGES: usize = 256;

/// Why windows may not be written or sealed at the end.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The thread panicked with this message.
    #[error("the thread that writes the store panicked")]
    Panic(String),
    /// The store could not be written.
    #[error(transparent)]
    Store(StoreError),
}

/// Accepts windows without blocking. Finishing or dropping it first writes the waiting windows, even if the thread that
/// closes windows panics.
pub struct WindowQueue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

impl WindowQueue {
    /// Starts a thread that makes windows durable. It is separate, so that a slow disk does not delay reading the
    /// rings. `store` is the path that the writer was opened with. `publisher` passes windows to subscribers. `warn`
    /// receives warnings.
    pub fn start(
        writer: Writer,
        store: PathBuf,
        publisher: Option<Publisher>,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let granularities = writer.options().granularities.clone();
        let most_bytes = writer.options().most_files * WAITING_BYTES_OF_FILE;
        let backlog = Backlog::new(granularities, most_bytes);
        if let Some(publisher) = &publisher {
            publisher.store_id(writer.store_id());
        }
        let shared = Arc::new(Shared::new(backlog, publisher));
        let writing = WriterThread::new(store, writer, Arc::clone(&shared), Arc::new(warn));
        let builder = thread::Builder::new().name("windows".to_owned());
        let thread = trackiops_threads::spawn(builder, move || writing.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Adds a window, with the failed writes since the previous window in its health.
    pub fn put(&self, mut window: ClosedWindow) {
        window.health.store_failures = self.shared.failures.swap(0, Ordering::Relaxed);
        if let Some(publisher) = &self.shared.publisher {
            publisher.closed(&window, self.waiting() + 1);
        }
        self.shared.lock().backlog.push(window);
        self.shared.changed.notify_one();
    }

    /// Records that from `at` on exactly these mounts exist. Subscribers get the `recorded` ones: others have no rows.
    pub fn mounted(&self, at: UtcMs, mounts: Vec<MountPoint>, recorded: &[MountPoint]) {
        if let Some(publisher) = &self.shared.publisher {
            publisher.mounted(recorded);
        }
        let mut state = self.shared.lock();
        if state.mounted.len() == WAITING_CHANGES {
            state.mounted.pop_front();
        }
        state.mounted.push_back((at, mounts));
        self.shared.changed.notify_one();
    }

    /// Sets the retention of the store. Excess data expires within half a minute, or when the store can be written
    /// again.
    pub fn set_retention(&self, keep: RetentionPolicy) {
        if let Some(publisher) = &self.shared.publisher {
            publisher.keeps(&keep);
        }
        self.shared.lock().keep = Some(keep);
        self.shared.changed.notify_one();
    }

    /// Number of windows that are not written yet.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting()
    }

    /// A counter of windows that are not written yet. It also works while the queue finishes.
    pub fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.lock().waiting()
    }

    /// Waits until everything is written and sealed.
    pub fn finish(mut self) -> Result<(), QueueError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), QueueError> {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written.map_err(QueueError::Store),
            Some(Err(panic)) => Err(QueueError::Panic(trackiops_threads::why(&*panic))),
        }
    }
}

impl Drop for WindowQueue {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

impl fmt::Debug for WindowQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowQueue")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
