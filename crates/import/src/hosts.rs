//! Collects imported requests by host: each client of a capture is a host. As the imported time advances, windows are closed, and written
//! host by host.

mod before;
mod host;
mod writers;

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use trackiops_capture::Peers;
use trackiops_schemas::captured::{Stream, StreamBytes};
use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use trackiops_schemas::identity::{FileId, TenantId};
use trackiops_schemas::ops::{Operation, OperationSums};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Counts, Import, StoreError};

pub use self::writers::Target;

use self::before::Before;
use self::host::{Attributes, Host, LONGEST_PAUSE_NS, SECOND_NS};
use self::writers::Writers;
use crate::error::ImportError;
use crate::names::Names;
use crate::process::{Notice, Process};

/// A window is closed this long after its end: longer than a stream waits for missing packets.
const LATE_NS: i64 = 10 * SECOND_NS;
/// Most rows and single requests that wait to be written. Builds for tests write sooner, so that small inputs have several parts.
const MOST_ROWS: usize = if cfg!(feature = "fail-points") {
    1 << 12
} else {
    1 << 16
};
const MOST_REQUESTS: usize = 1 << 19;
/// Closed windows are written after this time, so that an import from a pipe loses little at a sudden end. Each write creates files.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// How long windows may still be written after a signal has ended the import.
const WRITING: Duration = Duration::from_millis(400);

/// An operation that completed.
pub struct Completed<'a> {
    /// When it began, ns since the epoch.
    pub begin_ns: i64,
    /// When it completed, ns since the epoch.
    pub end_ns: i64,
    /// Its operations: one, or several of a COMPOUND.
    pub operations: &'a [Done],
    /// Its READs and WRITEs.
    pub records: &'a [RequestRecord],
}

/// An operation of a request.
pub struct Done {
    /// Its name, mount and connection.
    pub operation: Operation,
    /// Its sums.
    pub sums: OperationSums,
    /// Its file and its caller; `None` for READ and WRITE.
    pub file: Option<(FileId, TenantId)>,
}

/// Whether a store can represent a time: its calendar begins in 1970, and 64 bits of ns end in 2262.
pub fn is_in_store(ns: i64) -> bool {
    (0..i64::MAX).contains(&ns)
}

/// All hosts of an import.
pub struct Hosts<N> {
    target: Target,
    process: &'static dyn Process,
    names: Rc<RefCell<N>>,
    hosts: BTreeMap<String, Host>,
    now_ns: i64,
    /// When windows are closed next.
    next_ns: i64,
    written: Instant,
    writers: Option<Writers>,
    /// The content of the store before the import.
    before: Before,
    /// Hosts whose last windows were not written, because a signal ended the import, and the start of the first of these windows.
    unwritten: (u64, Option<UtcMs>),
    /// What the store already had of this import.
    had: Counts,
    /// Whether a signal has ended an import that can be resumed.
    is_stopped: bool,
    /// Requests, and READs and WRITEs among them.
    counts: (u64, u64),
    /// Requests whose times a store cannot represent.
    left_out: u64,
}

impl<N: Names + Default + 'static> Hosts<N> {
    /// No hosts yet.
    pub(crate) fn new(target: Target, process: &'static dyn Process) -> Self {
        Self {
            target,
            process,
            names: Rc::default(),
            hosts: BTreeMap::new(),
            now_ns: i64::MIN,
            next_ns: i64::MIN,
            written: Instant::now(),
            writers: None,
            before: Before::default(),
            unwritten: (0, None),
            had: Counts::default(),
            is_stopped: false,
            counts: (0, 0),
            left_out: 0,
        }
    }

    /// The store.
    pub fn store(&self) -> &Path {
        &self.target.store
    }

    /// Number of hosts whose last windows were not written, because a signal ended the import.
    pub fn unwritten(&self) -> u64 {
        self.unwritten.0
    }

    /// The time until which the store has everything that was read, if anything was read.
    pub fn kept_until(&self) -> Option<UtcMs> {
        self.unwritten.1.or_else(|| self.now())
    }

    /// Counts a host whose windows from this time on are not written.
    fn leave_unwritten(unwritten: &mut (u64, Option<UtcMs>), from: UtcMs) {
        unwritten.0 += 1;
        unwritten.1 = Some(unwritten.1.map_or(from, |first| first.min(from)));
    }

    /// Number of hosts that already had data of an imported time, and of windows that were added there.
    pub fn again(&self) -> (u64, u64) {
        self.before.again()
    }

    /// What the store already had of this import.
    pub fn had(&self) -> Counts {
        self.had
    }

    /// Whether a signal has ended an import that can be resumed. Everything after the signal is dropped, so that the store contains a
    /// prefix of the whole import.
    pub fn is_stopped(&mut self) -> bool {
        self.is_stopped |= self.target.import.is_some() && self.process.was_ended();
        self.is_stopped
    }

    /// The time that was read last, if any.
    pub fn now(&self) -> Option<UtcMs> {
        is_in_store(self.now_ns).then(|| UtcMs(self.now_ns.div_euclid(1_000_000)))
    }

    /// Number of requests, and of READs and WRITEs.
    pub fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// Number of hosts that had requests.
    pub fn clients(&self) -> usize {
        let hosts = self.hosts.values();
        hosts.filter(|host| host.has_requests).count()
    }

    /// Files and their users.
    pub(crate) fn names(&self) -> RefMut<'_, N> {
        self.names.borrow_mut()
    }

    /// Whether [`Self::tick`] is due.
    pub(crate) fn is_due(&self, time_ns: i64) -> bool {
        // The time may also go back.
        time_ns >= self.next_ns
            || time_ns <= self.next_ns.saturating_sub(SECOND_NS + LONGEST_PAUSE_NS)
    }

    /// Advances the imported time.
    pub(crate) fn tick(&mut self, time_ns: i64) -> Result<(), ImportError> {
        if self.is_stopped() {
            return Ok(());
        }
        self.now_ns = time_ns;
        // One second may contain any number of files.
        if !self.is_due(time_ns) && !self.names.borrow().is_full() {
            return Ok(());
        }
        self.next_ns = time_ns.saturating_add(SECOND_NS);
        let late = UtcMs(time_ns.saturating_sub(LATE_NS).div_euclid(1_000_000));
        self.close(late);
        if self.names.borrow().is_full() {
            self.close(UtcMs(i64::MAX));
            self.write()?;
            self.names.borrow_mut().forget();
        }
        let hosts = self.hosts.values();
        let (rows, requests) = hosts.fold((0, 0), |(rows, requests), host| {
            (rows + host.rows, requests + host.requests.len())
        });
        // A file that can be read again must be written at the same points each time.
        let is_pipe = self.target.import.is_none();
        let is_late = is_pipe && rows > 0 && self.written.elapsed() > WRITE_EVERY;
        let is_late = is_late && self.counts.0 > 0;
        if rows > MOST_ROWS || requests > MOST_REQUESTS || is_late {
            self.write()?;
        }
        Ok(())
    }

    /// Closes windows that end by this time.
    fn close(&mut self, until: UtcMs) {
        let covered_ns = self.now_ns;
        for host in self.hosts.values_mut() {
            host.cover(covered_ns);
            host.close(until);
        }
    }

    /// Closes all windows and writes them. Writes nothing if there were no requests.
    pub(crate) fn finish(&mut self) -> Result<(), ImportError> {
        if self.is_stopped() {
            return Ok(());
        }
        self.close(UtcMs(i64::MAX));
        if self.left_out > 0 {
            self.process.say(Notice::LeftOut(self.left_out));
        }
        if self.counts.0 == 0 {
            return Ok(());
        }
        self.write()?;
        if let Some(mut writers) = self.writers.take() {
            let failed = |source: StoreError| ImportError::Write {
                store: self.target.store.clone(),
                source: Box::new(source),
            };
            match writers.end().map_err(failed)? {
                true => writers.finish().map_err(failed)?,
                // Dropping them would wait.
                false => self.writers = Some(writers),
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), ImportError> {
        self.written = Instant::now();
        let process = self.process;
        let names = self.names.borrow();
        let can_go_on = self.target.import.is_some();
        let mut asked = None;
        let mut is_over = || {
            process.was_ended()
                && (can_go_on || asked.get_or_insert_with(Instant::now).elapsed() > WRITING)
        };
        for (name, host) in &mut self.hosts {
            let Some(first) = host.first() else { continue };
            if is_over() {
                if can_go_on {
                    self.is_stopped = true;
                    break;
                }
                Self::leave_unwritten(&mut self.unwritten, first);
                continue;
            }
            let writers = match &mut self.writers {
                Some(writers) => writers,
                none => {
                    let before = Before::of(&self.target.store);
                    let writers = none.insert(Writers::open(&self.target, name, process)?);
                    self.had = writers
                        .import
                        .as_ref()
                        .map_or_else(Counts::default, Import::counts);
                    if self.had == Counts::default() {
                        self.before = before;
                    }
                    writers
                }
            };
            let written = host.write(writers, name, &*names, &mut self.before, &mut is_over);
            let unwritten = written.map_err(|source| ImportError::WriteHost {
                host: name.clone(),
                store: self.target.store.clone(),
                source: Box::new(source),
            })?;
            let Some(from) = unwritten else { continue };
            if can_go_on {
                self.is_stopped = true;
                break;
            }
            Self::leave_unwritten(&mut self.unwritten, from);
        }
        if let Some(Writers {
            requests: Some(requests),
            ..
        }) = &mut self.writers
        {
            requests.idle(UtcMs(self.now_ns.div_euclid(1_000_000)))?;
        }
        self.writers.as_mut().map_or(Ok(()), Writers::commit)?;
        Ok(())
    }

    fn host(&mut self, name: &str, begin_ns: i64) -> &mut Host {
        let finest = self.target.options.granularities.finest();
        self.hosts.entry(name.to_owned()).or_insert_with(|| {
            let names = Rc::clone(&self.names);
            let attributes: Attributes =
                Box::new(move |file, tenant| names.borrow().attributes(file, tenant));
            Host::new(finest, attributes, begin_ns)
        })
    }

    /// `tcp-1` is the first connection of a host.
    pub(crate) fn transport(&mut self, host: &str, begin_ns: i64, peers: &Peers) -> Option<String> {
        self.host(host, begin_ns).transport(peers)
    }

    /// Adds bytes of a captured stream to its client.
    pub(crate) fn add_captured(&mut self, at_ns: i64, stream: Stream, bytes: &StreamBytes) {
        if is_in_store(at_ns) && !self.is_stopped() {
            let host = stream.client.ip().to_string();
            let host = self.host(&host, at_ns);
            host.replay.add_captured(at_ns, stream, bytes);
        }
    }

    /// Counts a request whose time a store cannot represent.
    pub(crate) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Adds a completed operation, unless a store cannot represent its time.
    pub(crate) fn add(&mut self, host: &str, completed: &Completed<'_>) {
        let Completed {
            begin_ns,
            end_ns,
            operations,
            records,
        } = completed;
        if !is_in_store(*end_ns) {
            self.leave_out();
            return;
        }
        if self.is_stopped() {
            return;
        }
        self.counts.0 += 1;
        let is_request = |record: &&RequestRecord| record.flags & flags::PIECE == 0;
        self.counts.1 += records.iter().filter(is_request).count() as u64;
        let keeps_requests = self.target.requests_bytes.is_some();
        let host = self.host(host, *begin_ns);
        host.has_requests = true;
        for Done {
            operation,
            sums,
            file,
        } in *operations
        {
            host.replay.add_operation(*end_ns, operation, sums, *file);
        }
        host.replay.add(records);
        // Its own time is covered, even if a pause follows.
        host.cover(*end_ns);
        if keeps_requests {
            host.requests.extend_from_slice(records);
        }
    }
}
