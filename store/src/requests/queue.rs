//! The queue in front of the writer of single requests. A slow disk must not delay reading the rings, so requests are
//! dropped and counted if too many already wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use trackiops_schemas::request::RequestBatch;
use trackiops_schemas::time::UtcMs;

use super::RequestsWriter;
use crate::error::StoreError;
use crate::warning::Warning;

/// Requests that may wait for the disk if memory allows: 22 MiB, or 2.6 seconds of 100,000 requests/s.
pub const WAITING_REQUESTS: u64 = 256 << 10;
/// Bytes of a waiting request.
pub const WAITING_BYTES: u64 = 88;
/// How often the writer runs when there are no requests.
const IDLE_EVERY: Duration = Duration::from_secs(1);

/// Passes a warning on, from any thread.
type Warn = Arc<dyn Fn(Warning) + Send + Sync>;

/// Counts of requests on each path.
#[derive(Debug, Default)]
pub struct RequestCounts {
    offered: AtomicU64,
    accepted: AtomicU64,
    written: AtomicU64,
    /// Requests whose write failed.
    failed: AtomicU64,
    /// Whether writing has ended for good.
    has_ended: AtomicBool,
}

impl RequestCounts {
    /// Requests that found no room in the queue, or no writer, or whose write failed.
    pub fn left_out(&self) -> u64 {
        let accepted = self.accepted.load(Ordering::Relaxed);
        let not_taken = self
            .offered
            .load(Ordering::Relaxed)
            .saturating_sub(accepted);
        not_taken + self.failed.load(Ordering::Relaxed)
    }

    /// Requests of `accepted` that wait to be written.
    fn waiting(&self, accepted: u64) -> u64 {
        let done = self.written.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed);
        accepted.saturating_sub(done)
    }

    /// Whether any requests wait to be written.
    pub fn are_waiting(&self) -> bool {
        self.waiting(self.accepted.load(Ordering::Relaxed)) > 0
    }

    /// Requests that will certainly not be written.
    pub fn unwritten_for_good(&self) -> u64 {
        match self.has_ended.load(Ordering::Relaxed) {
            true => self.unwritten(),
            false => self.left_out(),
        }
    }

    /// Requests that are not written yet. After the end of writing, they never will be.
    pub fn unwritten(&self) -> u64 {
        let written = self.written.load(Ordering::Relaxed);
        self.offered.load(Ordering::Relaxed).saturating_sub(written)
    }
}

/// Accepts requests without blocking.
pub struct RequestQueue {
    batches: Sender<RequestBatch>,
    most_waiting: u64,
    counts: Arc<RequestCounts>,
    warn: Warn,
}

impl RequestQueue {
    /// Starts a thread that writes requests from the queue until the queue is dropped. At most `most_waiting` wait; 0
    /// drops all requests. `warn` receives warnings.
    pub fn start(
        writer: RequestsWriter,
        most_waiting: u64,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> io::Result<(Self, JoinHandle<Result<(), StoreError>>)> {
        let (batches, received) = channel();
        let warn: Warn = Arc::new(warn);
        let queue = Self {
            batches,
            most_waiting,
            counts: Arc::default(),
            warn: Arc::clone(&warn),
        };
        let counts = queue.counts();
        let builder = thread::Builder::new().name("requests".to_owned());
        let thread = trackiops_threads::spawn(builder, move || {
            let counts = EndOfWriting(counts);
            write_all(writer, &received, &counts.0, &*warn)
        })?;
        Ok((queue, thread))
    }

    /// Puts a batch into the queue, or drops it.
    pub fn put(&self, batch: RequestBatch) {
        let counts = &self.counts;
        let requests = batch.requests.len() as u64;
        let none_left_out = counts.left_out() == 0;
        counts.offered.fetch_add(requests, Ordering::Relaxed);
        let accepted = counts.accepted.load(Ordering::Relaxed) + requests;
        if counts.waiting(accepted) > self.most_waiting {
            // Without room for any request, this was already reported.
            if none_left_out && self.most_waiting > 0 {
                (self.warn)(Warning::RequestsLeftOut);
            }
        } else if self.batches.send(batch).is_ok() {
            counts.accepted.store(accepted, Ordering::Relaxed);
        }
    }

    /// Its counts, which outlive the queue.
    pub fn counts(&self) -> Arc<RequestCounts> {
        Arc::clone(&self.counts)
    }
}

/// Notes the end of writing, even after a panic, so that health rows count the requests that will not be written.
struct EndOfWriting(Arc<RequestCounts>);

impl Drop for EndOfWriting {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

fn write_all(
    mut writer: RequestsWriter,
    received: &Receiver<RequestBatch>,
    counts: &RequestCounts,
    warn: &dyn Fn(Warning),
) -> Result<(), StoreError> {
    let mut failing: Option<WriteFailure> = None;
    loop {
        let written = match received.recv_timeout(IDLE_EVERY) {
            Err(RecvTimeoutError::Disconnected) => return writer.finish(),
            Err(RecvTimeoutError::Timeout) => writer.idle(UtcMs::now()),
            Ok(batch) => {
                let requests = batch.requests.len() as u64;
                let is_pausing = failing.as_ref().is_some_and(WriteFailure::is_pausing);
                let written = match is_pausing {
                    true => None,
                    false => Some(writer.append(&batch)),
                };
                let counted = match written {
                    Some(Ok(())) => &counts.written,
                    _ => &counts.failed,
                };
                counted.fetch_add(requests, Ordering::Relaxed);
                match written {
                    Some(written) => written,
                    None => continue,
                }
            }
        };
        if let Err(error @ (StoreError::Gone(_) | StoreError::Replaced(_))) = written {
            warn(Warning::RequestsEnded(error.to_string()));
            // A deleted store is created again only when this writer has let go of it.
            drop(writer);
            for batch in received {
                let requests = batch.requests.len() as u64;
                counts.failed.fetch_add(requests, Ordering::Relaxed);
            }
            return Err(error);
        }
        failing = match (written, failing) {
            (Ok(()), None) => None,
            (Ok(()), Some(failing)) if failing.is_pausing() => Some(failing),
            (Ok(()), Some(_)) => {
                warn(Warning::RequestsWrittenAgain);
                None
            }
            (Err(error), before) => Some(WriteFailure::after(&error, before, warn)),
        };
    }
}

/// Requests cannot be written. The writer retries after growing pauses, because the windows need the disk more. The longest pause is short,
/// because requests during a pause are dropped even if there is room again.
struct WriteFailure {
    pause: Duration,
    again: Instant,
}

impl WriteFailure {
    const FIRST_PAUSE: Duration = Duration::from_secs(1);
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);

    fn after(error: &StoreError, before: Option<Self>, warn: &dyn Fn(Warning)) -> Self {
        let pause = before.map_or(Self::FIRST_PAUSE, |before| {
            (before.pause * 2).min(Self::LONGEST_PAUSE)
        });
        if pause == Self::FIRST_PAUSE {
            warn(Warning::CannotWriteRequests(error.to_string()));
        }
        Self {
            pause,
            again: Instant::now() + pause,
        }
    }

    fn is_pausing(&self) -> bool {
        Instant::now() < self.again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::ebpf::ring::RequestRecord;
    use trackiops_schemas::request::Request;

    #[test]
    fn writing_is_tried_again_within_seconds() {
        let error = || StoreError::SealerGone {
            store: "store".into(),
            why: "no space".into(),
        };
        let mut failing = WriteFailure::after(&error(), None, &|_| ());
        for _ in 0..20 {
            failing = WriteFailure::after(&error(), Some(failing), &|_| ());
            assert!(failing.pause <= Duration::from_secs(5));
        }
    }

    #[test]
    fn without_room_for_any_all_are_left_out_and_counted() {
        let (batches, received) = channel();
        let queue = RequestQueue {
            batches,
            most_waiting: 0,
            counts: Arc::default(),
            warn: Arc::new(|_| ()),
        };
        for requests in [1, 3] {
            queue.put(RequestBatch {
                files: Vec::new(),
                requests: vec![Request::new(&RequestRecord::default(), 0, 0); requests],
            });
        }
        assert!(received.try_recv().is_err());
        assert_eq!(queue.counts().unwritten_for_good(), 4);
    }

    #[test]
    fn what_finds_too_many_waiting_is_left_out_and_counted() {
        let (batches, received) = channel();
        let queue = RequestQueue {
            batches,
            most_waiting: WAITING_REQUESTS,
            counts: Arc::default(),
            warn: Arc::new(|_| ()),
        };
        let counts = queue.counts();
        let put = |requests: u64| {
            let request = Request::new(&RequestRecord::default(), 0, 0);
            queue.put(RequestBatch {
                files: Vec::new(),
                requests: vec![request; requests as usize],
            });
        };
        let write = || {
            let batch = received.recv().unwrap();
            let written = batch.requests.len() as u64;
            counts.written.fetch_add(written, Ordering::Relaxed);
            written
        };
        put(WAITING_REQUESTS);
        put(5);
        assert_eq!(counts.left_out(), 5);
        assert_eq!(write(), WAITING_REQUESTS);
        put(7);
        assert_eq!(counts.left_out(), 5, "there is room again");
        assert_eq!(write(), 7);
        put(2);
        drop(received);
        put(3);
        assert_eq!(counts.left_out(), 8, "nobody writes any more");
        assert_eq!(counts.unwritten(), 10);
    }
}
