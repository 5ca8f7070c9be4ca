//! The state that the recorder publishes and the server sends.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use trackiops_schemas::kernel_usage::KernelUsage;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::totals::Totals;
use super::{Activity, BUFFER_BYTES, Position, RecorderInfo, Status};
use crate::identity::{Identity, StoreId};
use crate::journal::header::Header;
use crate::journal::write::journal_of;
use crate::options::{GranularitySet, RetentionPolicy};

/// Time range of [`Status::recent`].
const RECENT: Duration = Duration::from_secs(60);
/// Most windows in that time, if each has 10 ms.
const MOST_RECENT: usize = 6000;

/// Publishes the windows and the status of a recording. Never waits for a subscriber.
#[derive(Clone, Debug)]
pub struct Publisher(Arc<Shared>);

/// What the recorder and the server share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the server.
    wake: OwnedFd,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) recorder: RecorderInfo,
    /// Whether windows must be kept for subscribers.
    pub(super) has_subscribers: bool,
    /// The last durable window.
    pub(super) position: Position,
    status: Status,
    totals: Totals,
    /// When the last window was closed.
    closed: Instant,
    /// The windows of the last minute, and when they were closed.
    recent: VecDeque<(Instant, Activity)>,
    /// The mounts that exist and are recorded, as JSON.
    pub(super) mounts: Arc<[u8]>,
    /// Counts changes of `mounts`.
    pub(super) mounts_version: u64,
    pub(super) windows: Windows,
    pub(super) has_ended: bool,
}

/// Windows that wait for subscribers, numbered in the order in which they became durable.
#[derive(Debug, Default)]
pub(super) struct Windows {
    queue: VecDeque<Arc<Encoded>>,
    /// Number of the first in the queue.
    first: u64,
    bytes: usize,
    /// Windows that were dropped before every subscriber had them.
    dropped: Option<Dropped>,
}

/// Windows that were dropped: the last one, the earliest start, and the latest end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) until: Position,
    pub(super) start: UtcMs,
    pub(super) end: UtcMs,
}

/// An encoded window.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) position: Position,
    range: (UtcMs, UtcMs),
    pub(super) bytes: Vec<u8>,
}

/// The next step of a subscriber in the queue.
pub(super) enum Next {
    Window(Arc<Encoded>),
    /// Number and range of windows that were dropped before it had them.
    Dropped(u64, Dropped),
    /// It has all windows.
    Nothing,
}

impl Publisher {
    /// Publishes windows after this position.
    pub(super) fn new(
        recorder: RecorderInfo,
        position: Position,
    ) -> io::Result<(Self, Arc<Shared>)> {
        let state = State {
            recorder,
            has_subscribers: false,
            position,
            status: Status::default(),
            totals: Totals::default(),
            closed: Instant::now(),
            recent: VecDeque::new(),
            mounts: (*b"[]").into(),
            mounts_version: 0,
            windows: Windows::default(),
            has_ended: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        Ok((Self(Arc::clone(&shared)), shared))
    }

    /// Sets the retention that the recorder reports. Connected subscribers keep the one that they received.
    pub(crate) fn keeps(&self, keep: &RetentionPolicy) {
        let mut state = self.0.lock();
        state.recorder.store_size = keep.most_bytes;
        state.recorder.retention = keep.retention.to_string();
    }

    /// Counts a closed window. `waiting` windows are not in the store yet.
    pub(crate) fn closed(&self, window: &ClosedWindow, waiting: usize) {
        let last = Activity::of(window);
        let pending = window.health.pending.as_ref();
        let stalled = pending.map(|pending| pending.stalled()).unwrap_or_default();
        let mut state = self.0.lock();
        let status = &mut state.status;
        status.windows += 1;
        status.waiting = waiting as u64;
        status.total.add(&last);
        // Late requests form separate windows.
        if window.health.covered_ms > 0 {
            status.last = last.clone();
            status.last_ms = Some(window.start.0);
            status.stalled = stalled.into_iter().map(Into::into).collect();
        }
        state.closed = Instant::now();
        let closed = state.closed;
        state.totals.add(window, closed);
        if state.recent.len() == MOST_RECENT {
            state.recent.pop_front();
        }
        state.recent.push_back((Instant::now(), last));
    }

    /// Publishes a window that ends at `offset` of the journal with this header.
    pub(crate) fn durable(&self, header: &Header, window: &ClosedWindow, offset: u64) {
        let position = Position {
            journal: header.number,
            offset,
        };
        {
            let mut state = self.0.lock();
            if !state.has_subscribers {
                state.position = position;
                return;
            }
        }
        let range = (
            window.start,
            window.start.plus(header.granularities.finest()),
        );
        // The store has it, so encoding works. A window that fails or is too large is dropped.
        let journal = journal_of(header, window).unwrap_or_else(|_| vec![0; BUFFER_BYTES]);
        let bytes = message(position, &journal);
        let mut state = self.0.lock();
        state.position = position;
        state.windows.push(Encoded {
            position,
            range,
            bytes,
        });
        drop(state);
        self.0.wake();
    }

    /// Publishes the mounts that are recorded.
    pub(crate) fn mounted(&self, mounts: &[MountPoint]) {
        // Encoding numbers, texts and lists of them cannot fail.
        let mounts = serde_json::to_vec(mounts).unwrap_or_default();
        let mut state = self.0.lock();
        state.mounts = mounts.into();
        state.mounts_version += 1;
    }

    /// Sets the number of windows that are not in the store yet.
    pub(crate) fn waiting(&self, windows: usize) {
        self.0.lock().status.waiting = windows as u64;
    }

    /// Sets the id of the store.
    pub(crate) fn store_id(&self, id: StoreId) {
        self.0.lock().status.store_id = Some(id);
    }

    /// Sets the size of the store.
    pub(crate) fn store_bytes(&self, bytes: Option<u64>) {
        self.0.lock().status.store_bytes = bytes;
    }

    /// Sets the resources that the programs in the kernel use.
    pub fn kernel_usage(&self, usage: KernelUsage) {
        self.0.lock().status.own.kernel = usage;
    }

    /// Sets why the store cannot be written; `None` if it can.
    pub(crate) fn store_error(&self, error: Option<String>) {
        self.0.lock().status.store_error = error;
    }
}

impl State {
    /// The status of the recording.
    pub(super) fn status(&mut self) -> Status {
        let is_recent = |(closed, _): &(Instant, Activity)| closed.elapsed() <= RECENT;
        while self.recent.front().is_some_and(|oldest| !is_recent(oldest)) {
            self.recent.pop_front();
        }
        let mut status = self.status.clone();
        let silent = self.closed.elapsed().as_millis();
        status.silent_ms = u64::try_from(silent).unwrap_or(u64::MAX);
        for (_, activity) in &self.recent {
            status.recent.add(activity);
        }
        status
    }

    /// Whether the totals have windows that are about to become durable, and that subscribers do not have yet. A store
    /// that cannot be written does not count: its windows may wait for long.
    pub(super) fn is_writing(&self) -> bool {
        self.status.waiting > 0 && self.status.store_error.is_none()
    }

    /// The totals since the recording began.
    pub(super) fn totals(&self) -> TotalsSoFar {
        TotalsSoFar {
            position: self.position,
            host: self.recorder.host.clone(),
            granularity_ms: self.recorder.granularity_ms,
            window: self.totals.window(UtcMs(self.recorder.started_ms)),
        }
    }
}

/// Totals up to a moment.
pub(super) struct TotalsSoFar {
    position: Position,
    host: String,
    granularity_ms: i64,
    window: ClosedWindow,
}

impl TotalsSoFar {
    /// Encodes the message. Empty if it cannot be encoded.
    pub(super) fn encode(self) -> Vec<u8> {
        let granularity = Granularity::from_ms(self.granularity_ms).ok();
        let granularities = granularity.and_then(|one| GranularitySet::new(vec![one]).ok());
        let Some(granularities) = granularities else {
            return Vec::new();
        };
        let header = Header {
            granularities,
            host: self.host,
            number: self.position.journal,
            writer: env!("CARGO_PKG_VERSION").to_owned(),
            filter: None,
            source: None,
            previous: None,
            store: Identity::default(),
        };
        match journal_of(&header, &self.window) {
            Ok(journal) => message(self.position, &journal),
            Err(_) => Vec::new(),
        }
    }
}

/// A message with a journal.
fn message(position: Position, journal: &[u8]) -> Vec<u8> {
    let mut bytes = [position.journal, position.offset]
        .map(u64::to_le_bytes)
        .concat();
    bytes.extend_from_slice(journal);
    bytes
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // It can only fail because the counter is full, and then the server is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Becomes readable after [`Self::wake`].
    pub(super) fn woken(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Resets it until the next [`Self::wake`].
    pub(super) fn take_wakes(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
    }
}

impl Windows {
    /// Adds a window. Drops the oldest ones until the rest fits, and finally this one.
    fn push(&mut self, window: Encoded) {
        self.bytes += window.bytes.len();
        self.queue.push_back(Arc::new(window));
        while self.bytes > BUFFER_BYTES
            && let Some(window) = self.drop_first()
        {
            let (start, end) = window.range;
            let before = self.dropped;
            self.dropped = Some(Dropped {
                until: window.position,
                start: before.map_or(start, |before| before.start.min(start)),
                end: before.map_or(end, |before| before.end.max(end)),
            });
        }
    }

    fn drop_first(&mut self) -> Option<Arc<Encoded>> {
        let window = self.queue.pop_front()?;
        self.bytes -= window.bytes.len();
        self.first += 1;
        Some(window)
    }

    /// Drops the windows before this number: all subscribers have them.
    pub(super) fn drop_before(&mut self, number: u64) {
        if number >= self.first {
            self.dropped = None;
        }
        while self.first < number && self.drop_first().is_some() {}
    }

    /// The number of the next window.
    pub(super) fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// The next step for a subscriber that has all windows before this number.
    pub(super) fn next(&self, number: u64) -> Next {
        if let (true, Some(dropped)) = (number < self.first, self.dropped) {
            return Next::Dropped(self.first - number, dropped);
        }
        let at = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        match self.queue.get(at) {
            Some(window) => Next::Window(Arc::clone(window)),
            None => Next::Nothing,
        }
    }

    /// Whether a window was dropped.
    pub(super) fn has_dropped(&self, number: u64) -> bool {
        number < self.first
    }
}
