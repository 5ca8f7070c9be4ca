//! State that the queue shares with the thread that writes.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::backlog::Backlog;
use crate::live::Publisher;
use crate::options::RetentionPolicy;

/// Mounts, and since when they exist.
pub(super) type Mounted = (UtcMs, Vec<MountPoint>);

pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changed: Condvar,
    /// Failed attempts to write that are not in a window's health yet.
    pub(super) failures: AtomicU64,
    pub(super) publisher: Option<Publisher>,
}

impl Shared {
    pub(super) fn new(backlog: Backlog, publisher: Option<Publisher>) -> Self {
        Self {
            state: Mutex::new(State {
                backlog,
                taken: 0,
                mounted: VecDeque::new(),
                keep: None,
                has_ended: false,
            }),
            changed: Condvar::new(),
            failures: AtomicU64::new(0),
            publisher,
        }
    }

    /// A panic cannot leave a partial window, because windows move in and out whole.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a write: puts back the windows that were not written.
    pub(super) fn put_back(&self, granularity: Granularity, windows: Vec<ClosedWindow>) {
        let mut state = self.lock();
        state.taken = 0;
        state.backlog.put_back(granularity, windows);
        let waiting = state.waiting();
        drop(state);
        if let Some(publisher) = &self.publisher {
            publisher.waiting(waiting);
        }
    }
}

pub(super) struct State {
    pub(super) backlog: Backlog,
    /// Windows that are being written.
    pub(super) taken: usize,
    pub(super) mounted: VecDeque<Mounted>,
    /// A new policy, until the thread takes it.
    pub(super) keep: Option<RetentionPolicy>,
    pub(super) has_ended: bool,
}

impl State {
    /// Number of windows that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.backlog.len() + self.taken
    }
}
