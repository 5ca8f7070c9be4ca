//! The loop that turns ring records into closed windows.

mod audit;
mod ceiling;
mod drain_timer;
mod health;
mod kernel_sums;
mod rtt_split;

use std::collections::HashSet;
use std::error::Error;
use std::future::{Future, ready};
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use trackiops_schemas::ebpf::ring::{Books, RequestRecord};
use trackiops_schemas::identity::FileId;
use trackiops_schemas::kernel_usage::KernelUsage;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::OperationRow;
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::audit::Audit;
use crate::audit::judgement::Unprobed;
use crate::ceiling::Kind;
use crate::clock::{Clock, ClockSample, MonotonicNs, is_due};
use crate::connections::Connections;
use crate::engine::{Engine, EngineError, MissedCompletions};
use crate::filter::Filter;
use crate::names::Names;
use crate::operations::Operations;
use crate::plan::Plan;
use crate::recorder::ceiling::TracingCost;
use crate::rollup::row_key::RowKey;
use crate::rollup::single_requests::{self, SingleRequests};
use crate::rollup::{OpenWindow, Rollup};
use crate::rtt_split::RttSplit;
use crate::settings::Settings;
use crate::stalls::lookout::Lookout;
use crate::stalls::{Stall, Stalls};
use crate::tenants::naming::NewRules;
use crate::timing::StartTiming;

/// How long a record may wait in a ring that is too empty to wake the recorder.
const DRAIN_EVERY: Duration = Duration::from_millis(200);
/// A window stays open this long after its end, because a record is stamped a little before it reaches
/// the ring. Later records become partial rows.
const GRACE_MS: i64 = 50;
/// Most records read before windows are closed again, about 0.1 s of work.
const DRAIN_AT_MOST: usize = 500_000;
/// How often the counters of skipped runs are read, which takes a system call per program.
const MISSED_EVERY: Duration = Duration::from_secs(1);
/// How often the filter is updated for mounts and cgroups that came or went.
const FILTER_EVERY: Duration = Duration::from_secs(1);
/// Length of a generation: files that were idle for one to two generations are forgotten.
const GENERATION: Duration = Duration::from_secs(300);
/// Length of a generation while there is no room for more files.
const FULL_GENERATION: Duration = Duration::from_secs(1);
/// Single calls taken from their ring at a time.
const CALLS_AT_ONCE: usize = 8 << 10;
/// Single calls are taken for at most this long before the recorder checks tracing's CPU time.
const CALLS_FOR: Duration = Duration::from_millis(100);
/// Paths taken from their ring at a time.
const PATHS_AT_ONCE: usize = 16 << 10;

/// Why recording could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel side failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Waiting for the ring failed.
    #[error("cannot wait for the BPF ring buffer: {0}")]
    Wait(#[from] io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of threads")]
    Thread(#[source] io::Error),
    /// The sink of windows or of mounts failed.
    #[error(transparent)]
    Sink(Box<dyn Error + Send + Sync>),
}

/// Totals of a whole recording. While no program runs, `seen = recorded + folded + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingTotals {
    /// The kernel side's counters.
    pub books: Books,
    /// Records that were read from the rings.
    pub read: u64,
    /// Requests that were read as sums of the kernel side.
    pub folded: u64,
    /// Completions at which the kernel skipped the programs: at most this many requests were not
    /// seen.
    pub missed: u64,
    /// Requests that no row of a file has, but the kernel's own counters show: they
    /// are in rows `(missed)`.
    pub booked: u64,
    /// Reads of the counters with `recorded + folded + lost > seen`. 0 unless the
    /// kernel side has a bug.
    pub unbalanced: u64,
}

/// The current mounts.
#[derive(Clone, Debug, Default)]
pub struct KnownMounts {
    /// All.
    pub all: Vec<MountPoint>,
    /// The mounts on which the filter may want files.
    pub recorded: Vec<MountPoint>,
}

/// A recording in progress.
pub struct Recorder {
    engine: Engine,
    clock: Clock,
    rollup: Rollup,
    single_requests: Option<SingleRequests>,
    names: Names,
    lookout: Lookout,
    stalls: Stalls,
    operations: Operations,
    /// `None` if nothing is recorded of connections.
    connections: Option<Connections>,
    rtt_split: RttSplit,
    /// Coverage is accounted for up to this time.
    covered_until: MonotonicNs,
    rotated: MonotonicNs,
    seen: u64,
    lost: u64,
    missed: MissedCompletions,
    looked_for_missed: Option<MonotonicNs>,
    filter: Filter,
    followed_filter: Option<MonotonicNs>,
    /// Whether the filter has other mounts than those that were handed on.
    has_other_mounts: bool,
    read: u64,
    folded: u64,
    unbalanced: u64,
    audit: Audit,
    cost: TracingCost,
    /// Whether single calls are waiting in their ring.
    is_behind: bool,
    usage: SharedKernelUsage,
    unprobed: SharedUnprobed,
}

/// Operations without any program run that the audit has found, until they are taken.
#[derive(Clone, Debug, Default)]
pub struct SharedUnprobed(Arc<Mutex<Vec<Unprobed>>>);

impl SharedUnprobed {
    /// Takes the findings since the last call.
    pub fn take(&self) -> Vec<Unprobed> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the waiting findings by newer ones.
    fn put(&self, found: impl Iterator<Item = Unprobed>) {
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
    }
}

/// CPU time and memory of the kernel side, as of the last second.
#[derive(Clone, Debug, Default)]
pub struct SharedKernelUsage(Arc<Mutex<KernelUsage>>);

impl SharedKernelUsage {
    /// The latest value.
    pub fn get(&self) -> KernelUsage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, usage: KernelUsage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
}

impl Recorder {
    /// Loads and attaches the planned programs. Once this has returned, every request is seen.
    pub fn start(
        plan: &Plan,
        settings: &Settings,
        timing: &mut StartTiming,
    ) -> Result<Self, RecordError> {
        let mut names = Names::new(
            plan.has_paths(),
            plan.levels(),
            settings.tenant_rules.clone(),
        )
        .map_err(RecordError::Thread)?;
        let lookout = Lookout::start().map_err(RecordError::Thread)?;
        let has_rpcs = plan.levels().wire && plan.has_operations();
        let connections = match settings.connections && has_rpcs {
            true => Some(Connections::start(settings.granularity).map_err(RecordError::Thread)?),
            false => None,
        };
        timing.ended("start threads for names and stalls");
        let functions = settings.functions.iter();
        names.follow_functions(functions.map(ToString::to_string).collect());
        let engine = Engine::start(plan, settings, ClockSample::take(), timing)?;
        let sample = ClockSample::take();
        // The programs do not add up the bytes of calls that a filter leaves out.
        let counts_calls = plan.has_calls() && !settings.filter.leaves_out_transfers();
        let audit = Audit::new(sample.now, plan.levels(), counts_calls);
        let mut recorder = Self {
            engine,
            clock: Clock::new(sample),
            rollup: Rollup::new(settings.granularity).with_cache(plan.levels().cache),
            single_requests: None,
            names,
            lookout,
            stalls: Stalls::default(),
            operations: Operations::new(),
            connections,
            rtt_split: RttSplit::new(settings.granularity),
            covered_until: sample.now,
            rotated: sample.now,
            seen: 0,
            lost: 0,
            missed: MissedCompletions::default(),
            looked_for_missed: None,
            filter: settings.filter.clone(),
            followed_filter: None,
            has_other_mounts: false,
            read: 0,
            folded: 0,
            unbalanced: 0,
            audit,
            cost: TracingCost::new(
                ceiling::details(plan, settings),
                settings.max_overhead_ppm,
                sample.now,
            ),
            is_behind: false,
            usage: SharedKernelUsage::default(),
            unprobed: SharedUnprobed::default(),
        };
        recorder.look_at_once(sample.now)?;
        timing.ended("read the counters of mounts");
        Ok(recorder)
    }

    /// Limits the number of files that are followed at a time. Others are counted as the file `(other)` of their mount.
    pub fn follow_at_most(&mut self, files: usize) {
        self.rollup.follow_at_most(files);
        self.names.remember_at_most(files);
    }

    /// A handle that replaces the rules for tenant names during the recording.
    pub fn new_rules(&mut self) -> NewRules {
        self.names.naming().new_rules()
    }

    /// A handle to the kernel side's resource usage during the recording.
    pub fn usage(&self) -> SharedKernelUsage {
        self.usage.clone()
    }

    /// A handle to the audit's findings of unprobed operations during the recording.
    pub fn unprobed(&self) -> SharedUnprobed {
        self.unprobed.clone()
    }

    /// Why this kernel refused the programs that read its memory by plain loads, if it did. The
    /// recording then uses slower programs.
    pub fn refused(&self) -> Option<&io::Error> {
        self.engine.refused()
    }

    /// Also passes each request that is read from the rings to `sink`, in batches, roughly in the
    /// order of completion. Folded requests are not among them.
    pub fn hand_requests_to(&mut self, sink: single_requests::RequestSink) {
        self.single_requests = Some(SingleRequests::new(sink));
    }

    /// Records until `stop` is ready. Then detaches, reads the rings to their end and closes every
    /// window.
    ///
    /// `sink` gets each closed window, in the order of closing. `stalled` gets each server whose stall
    /// begins or ends, within about 0.2 s of the look that noticed it. `mounted`
    /// gets the mounts, at first and after each change.
    pub async fn run<S, M>(
        mut self,
        mut sink: S,
        mut mounted: M,
        mut stalled: impl FnMut(&Stall),
        stop: impl Future<Output = ()>,
    ) -> Result<RecordingTotals, RecordError>
    where
        S: FnMut(ClosedWindow) -> Result<(), Box<dyn Error + Send + Sync>>,
        M: FnMut(UtcMs, KnownMounts) -> Result<(), Box<dyn Error + Send + Sync>>,
    {
        let timer = drain_timer::timer(DRAIN_EVERY)?;
        let fd = self.engine.rings.wakeups()?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&fd, &timer, epoll::EventData::new_u64(0), edge).map_err(io::Error::from)?;
        // SAFETY: an `OwnedFd` keeps its descriptor open and unchanged until it is dropped.
        let wakeups = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
            .map_err(io::Error::from)?;
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = ready(()), if self.is_behind => {}
                ready = wakeups.readable() => ready?.clear_ready(),
            }
            drain_timer::rearm(&timer)?;
            self.look_out(&mut stalled);
            self.step(&mut sink)?;
            let now = self.covered_until;
            let anyway = mem::take(&mut self.has_other_mounts);
            if let Some(all) = self.names.mount_news(now, anyway) {
                self.audit_mounts();
                let recorded = all.iter().filter(|mount| self.engine.includes(mount));
                let recorded = recorded.cloned().collect();
                let known = KnownMounts { all, recorded };
                mounted(self.clock.utc(now), known).map_err(RecordError::Sink)?;
            }
        }
        self.finish(&mut sink)
    }

    fn step<S>(&mut self, sink: &mut S) -> Result<(), RecordError>
    where
        S: FnMut(ClosedWindow) -> Result<(), Box<dyn Error + Send + Sync>>,
    {
        fail_point::hit("recorder: step");
        let sample = ClockSample::take();
        let stepped_back = self.follow_clock(sample);
        self.follow_mounts(sample.now)?;
        if is_due(&mut self.followed_filter, sample.now, FILTER_EVERY) {
            self.has_other_mounts |= self.engine.follow_filter()?;
        }
        let drained_until = self.read_rings(sample.now);
        let books = self.engine.books();
        if books.recorded + books.folded + books.lost > books.seen {
            self.unbalanced += 1;
        }
        self.take_folded(books, sample.now)?;
        let now = self.clock.utc(sample.now);
        self.note_lost(books, now);
        let seen = books
            .seen
            .saturating_sub(mem::replace(&mut self.seen, books.seen));
        self.cost.count(Kind::Requests, seen);
        if is_due(&mut self.looked_for_missed, sample.now, MISSED_EVERY) {
            let missed = self.engine.missed()?;
            self.note_missed(missed, now);
            let usage = self.kernel_usage();
            self.usage.set(usage);
        }
        self.run_audit(sample.now, drained_until)?;
        let generation = match self.names.are_full() || self.rollup.is_full() {
            true => FULL_GENERATION,
            false => GENERATION,
        };
        if sample.now.0 - self.rotated.0 > generation.as_nanos() as u64 {
            self.rotated = sample.now;
            self.rollup.rotate();
            self.names.rotate(self.rollup.open_files());
            if let Some(paths) = &self.engine.paths {
                paths.tell_again();
            }
        }
        self.take_connections();
        let closed_until = UtcMs(self.clock.utc(drained_until).0 - GRACE_MS);
        // After a step back, windows ahead of the clock would stay open until it reaches them
        // again.
        let is_over =
            |start: UtcMs, end: UtcMs| end <= closed_until || (stepped_back && start > now);
        // Only once per window, because exchanging the maps is slow.
        if self.rollup.has_window(is_over) {
            self.take_operations(sample.now)?;
            self.take_calls(sample.now)?;
        }
        for window in self.rollup.take_windows(is_over) {
            sink(self.close(window, sample.now)).map_err(RecordError::Sink)?;
        }
        self.hold_ceiling(sample.now);
        Ok(())
    }

    /// Takes over mounts that came or went. First settles the rows of devices that lost a mount: their numbers may be in use again
    /// before the window closes, and the counted requests belong to the old mount. A new mount is noticed a little after its first
    /// use, so the rows of its device stay open.
    fn follow_mounts(&mut self, now: MonotonicNs) -> Result<(), RecordError> {
        let Some(mounts) = self.names.changed_mounts() else {
            return Ok(());
        };
        let changed = self.names.left_devices(&mounts);
        if !changed.is_empty() {
            self.learn_paths(now);
            self.drain(now);
            self.take_operations(now)?;
            self.take_calls(now)?;
            let ended =
                |file: &FileId| changed.contains(&file.dev) && !self.names.is_of_another(*file);
            let ended: HashSet<_> = self.rollup.open_files().filter(ended).collect();
            let names = &mut self.names;
            self.rollup.settle(
                |file| ended.contains(file),
                |row| names.attributes(row, now),
            );
        }
        self.audit.doubt(self.names.replaced_devices(&mounts));
        self.names.see_mounts(&mounts);
        if let Some(paths) = &self.engine.paths {
            paths.tell_again();
        }
        self.operations.mounts_changed();
        self.audit_mounts();
        // Volumes that share a superblock with a wanted volume are distinguished as soon as they are mounted.
        self.followed_filter = None;
        Ok(())
    }

    /// Takes over the paths that the kernel side reported. Activity of a file under its previous path
    /// is settled under that path.
    fn learn_paths(&mut self, now: MonotonicNs) {
        let Some(paths) = &mut self.engine.paths else {
            return;
        };
        for told in paths.ring.arrived(PATHS_AT_ONCE) {
            let moved = self.names.moved_by(&told);
            if !moved.is_empty() {
                self.drain(MonotonicNs(told.at.0.saturating_sub(1)));
                let names = &mut self.names;
                self.rollup.settle(
                    |file| moved.contains(file),
                    |row| names.attributes(row, now),
                );
            }
            self.names.learn(told);
        }
    }

    /// Reads records that completed by `began`, up to [`DRAIN_AT_MOST`]. Returns the time up to
    /// which every record was read.
    fn drain(&mut self, began: MonotonicNs) -> MonotonicNs {
        let at_once = match &self.single_requests {
            Some(_) => SingleRequests::AT_ONCE,
            None => DRAIN_AT_MOST,
        };
        let mut left = DRAIN_AT_MOST;
        loop {
            let most = left.min(at_once);
            let (read, drained_until) = self.drain_some(began, most);
            left -= read;
            if read < most || left == 0 {
                return drained_until;
            }
        }
    }

    /// Like [`Self::drain`], but up to `most` records. Also returns how many there were.
    fn drain_some(&mut self, began: MonotonicNs, most: usize) -> (usize, MonotonicNs) {
        let mut newcomers = Vec::new();
        let newcomer = |row, record: &RequestRecord| newcomers.push((row, record.pid));
        let mut arrived = self.engine.rings.arrived(began, most);
        let mut watched = self.audit.watch(&mut arrived);
        match &mut self.single_requests {
            Some(single_requests) => {
                let mut copying = single_requests.copying(&mut watched);
                self.rollup.add(&self.clock, &mut copying, newcomer);
            }
            None => self.rollup.add(&self.clock, &mut watched, newcomer),
        }
        let read = arrived.read();
        let drained_until = arrived.read_until();
        self.read += read as u64;
        self.names.observe(&newcomers, began);
        if let Some(single_requests) = &mut self.single_requests {
            single_requests.hand_on(&self.clock, &mut self.names, began);
        }
        (read, drained_until)
    }

    /// Reads the rings up to `now`, for at most [`CALLS_FOR`]. Single calls beyond that stay in their ring for the next round, which follows
    /// at once. Returns the time up to which every record was read.
    fn read_rings(&mut self, now: MonotonicNs) -> MonotonicNs {
        let began = Instant::now();
        loop {
            // Before the paths: files that are called for the first time have theirs in the ring by then.
            let calls = self.arrived_calls(CALLS_AT_ONCE);
            self.learn_paths(now);
            let drained_until = self.drain(now);
            self.keep_calls(&calls, now);
            self.is_behind = calls.len() == CALLS_AT_ONCE;
            if !self.is_behind || began.elapsed() >= CALLS_FOR {
                return drained_until;
            }
        }
    }

    /// Single calls that have arrived by now, if they are kept.
    fn arrived_calls(&mut self, most: usize) -> Vec<RequestRecord> {
        let ring = self.engine.single_calls.as_mut();
        let mut calls = ring.map_or_else(Vec::new, |ring| ring.arrived(most));
        for call in &mut calls {
            call.cgroup = self.names.cgroup_of_thread(call.cgroup);
        }
        calls
    }

    /// Passes single calls to the sink.
    fn keep_calls(&mut self, calls: &[RequestRecord], now: MonotonicNs) {
        let (Some(ring), Some(kept)) = (&mut self.engine.single_calls, &mut self.single_requests)
        else {
            return;
        };
        let left_out = ring.take_left_out();
        if left_out > 0 {
            let window = self.rollup.window(self.clock.utc(now));
            window.health.requests_dropped += left_out;
        }
        for calls in calls.chunks(SingleRequests::AT_ONCE) {
            let seen = calls.iter().map(|call| (RowKey::from(call), call.pid));
            self.names.observe(&seen.collect::<Vec<_>>(), now);
            kept.copy(calls);
            kept.hand_on(&self.clock, &mut self.names, now);
        }
    }

    fn close(&mut self, mut window: OpenWindow, now: MonotonicNs) -> ClosedWindow {
        self.split_rtt(&mut window);
        self.audit.count_closed(window.transfers());
        let OpenWindow {
            start,
            rows,
            settled,
            ops,
            mut health,
            covered_ns,
            shed_ns,
            ..
        } = window;
        self.complete_health(&mut health, &ops, (covered_ns, shed_ns), now);
        health.tenant_changes += self.names.naming().take_changes();
        let rows = rows.into_iter().filter(|(_, row)| *row != Row::default());
        let rows = rows.map(|(key, row)| FileRow {
            file: self.names.attributes(key, now),
            row,
        });
        // A stable sort, so that among a file's rows the one with its latest path comes last.
        let mut rows: Vec<FileRow> = settled.into_iter().chain(rows).collect();
        rows.sort_by_key(|row| row.file.key);
        let ops = ops.into_iter();
        ClosedWindow {
            start,
            rows,
            ops: ops
                .map(|(operation, sums)| OperationRow { operation, sums })
                .collect(),
            health,
        }
    }

    fn finish<S>(mut self, sink: &mut S) -> Result<RecordingTotals, RecordError>
    where
        S: FnMut(ClosedWindow) -> Result<(), Box<dyn Error + Send + Sync>>,
    {
        self.finish_audit()?;
        let sample = ClockSample::take();
        self.follow_clock(sample);
        let now = self.clock.utc(sample.now);
        // Before detaching, because the counters of skipped runs go with the programs.
        let missed = self.engine.missed_at_last()?;
        self.note_missed(missed, now);
        self.judge_audit(sample.now, true);
        self.engine.detach();
        let detached = ClockSample::take().now;
        let mut calls = Vec::new();
        loop {
            let arrived = self.arrived_calls(CALLS_AT_ONCE);
            if arrived.is_empty() {
                break;
            }
            calls.extend(arrived);
        }
        self.learn_paths(detached);
        self.keep_calls(&calls, detached);
        loop {
            let read = self.read;
            self.drain(detached);
            if self.read == read {
                break;
            }
        }
        let books = self.engine.books();
        self.take_folded(books, detached)?;
        self.take_operations(detached)?;
        self.take_calls(detached)?;
        self.take_connections();
        self.note_lost(books, now);
        self.note_unaccounted(books, now);
        for window in self.rollup.take_windows(|_, _| true) {
            sink(self.close(window, sample.now)).map_err(RecordError::Sink)?;
        }
        Ok(RecordingTotals {
            books,
            read: self.read,
            folded: self.folded,
            missed: self.missed.requests,
            booked: self.audit.booked_requests(),
            unbalanced: self.unbalanced,
        })
    }
}
