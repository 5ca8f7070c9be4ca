//! The queue before a store: closed windows wait in it until a thread of its own has written them.
//!
//! Whatever happens to the disk, the recorder goes on. While the store cannot be written windows wait in memory, within a bound, and
//! become coarser there when there are too many ([`backlog`]). The thread ([`writer_thread`]) tries again until they are written. It
//! opens the store again where its path leads to another one, or where its file system has become read-only, and has what a failed
//! append may have left cut off before its windows are written once more.

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
use self::state::Shared;
use self::writer_thread::WriterThread;
use crate::error::StoreError;
use crate::warning::Warning;
use crate::writer::Writer;

/// What windows that wait may take: some minutes of thousands of files.
const WAITING_BYTES: usize = 24 << 20;
/// Changes of what is mounted that may wait. Of more the oldest are left out.
const WAITING_CHANGES: usize = 256;

/// Takes windows without waiting, and tells how many wait. When it is dropped, or finished, what waits is written first: also where the
/// thread that closes windows panics.
pub struct WindowQueue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

impl WindowQueue {
    /// Begins to make windows durable on a thread of its own: a disk that takes seconds must not keep the ring from being read. `store` is
    /// the path that the writer was opened by. `warn` gets what a person should know.
    pub fn start(
        writer: Writer,
        store: PathBuf,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let granularities = writer.options().granularities.clone();
        let shared = Arc::new(Shared::new(Backlog::new(granularities, WAITING_BYTES)));
        let writing = WriterThread::new(store, writer, Arc::clone(&shared), Arc::new(warn));
        let builder = thread::Builder::new().name("windows".to_owned());
        let thread = trackiops_threads::spawn(builder, move || writing.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Adds a window, which tells of failures to write those before it.
    pub fn put(&self, mut window: ClosedWindow) {
        window.health.store_failures = self.shared.failures.swap(0, Ordering::Relaxed);
        self.shared.lock().backlog.push(window);
        self.shared.changed.notify_one();
    }

    /// From `at` on these mounts are there, and no others.
    pub fn mounted(&self, at: UtcMs, mounts: Vec<MountPoint>) {
        let mut state = self.shared.lock();
        if state.mounted.len() == WAITING_CHANGES {
            state.mounted.pop_front();
        }
        state.mounted.push_back((at, mounts));
        self.shared.changed.notify_one();
    }

    /// How many windows are not written yet.
    pub fn waiting(&self) -> usize {
        let state = self.shared.lock();
        state.backlog.len() + state.taken
    }

    /// Waits until all is written and sealed. An error of the thread is that it has panicked.
    pub fn finish(mut self) -> thread::Result<Result<(), StoreError>> {
        self.join()
    }

    fn join(&mut self) -> thread::Result<Result<(), StoreError>> {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join)
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
