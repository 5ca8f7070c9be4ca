//! Groups: requests of a client for a file, without a long gap.

use super::Settings;
use super::io::Io;
use super::metrics::{Metric, Stats};
use super::order::{Order, Scratch, Turn, Wanted};
use super::run::Run;
use crate::source::Name;

/// Shorter groups are only processed when they close.
const LONG: usize = 64;

/// The requests of a group that are not in a run yet, in order of completion, and the current run.
pub struct Group {
    /// The entity whose distributions get the values.
    owner: Name,
    ios: Vec<Io>,
    /// End of the last request, ns.
    last_end_ns: i64,
    /// The largest size in a reply.
    file_size: Option<u64>,
    /// Whether some requests are in runs already.
    is_begun: bool,
    run: Run,
    ends_of_file: u64,
    is_empty: bool,
    /// Number of requests from which the group is processed before it closes.
    long_from: usize,
}

impl Group {
    /// An empty group that keeps its requests in `room`.
    pub fn new(owner: Name, room: Vec<Io>) -> Self {
        Self {
            owner,
            ios: room,
            last_end_ns: 0,
            file_size: None,
            is_begun: false,
            run: Run::default(),
            ends_of_file: 0,
            is_empty: true,
            long_from: LONG,
        }
    }

    /// Requests that are not in a run yet.
    pub fn len(&self) -> usize {
        self.ios.len()
    }

    /// Whether the group is long enough to process it before it closes.
    pub fn is_long(&self) -> bool {
        self.ios.len() >= self.long_from
    }

    /// Whether a request comes too late to belong to the group.
    pub fn is_over(&self, io: &Io, gap_ns: i64) -> bool {
        !self.is_empty && io.start_ns > self.last_end_ns.saturating_add(gap_ns)
    }

    /// Adds a request.
    pub fn add(&mut self, io: Io, file_size: Option<u64>) {
        self.is_empty = false;
        self.last_end_ns = io.end_ns;
        self.file_size = self.file_size.max(file_size);
        self.ios.push(io);
    }

    /// Moves requests into runs: all, or those that precede any request that may still come. Such a request starts at `open_from_ns` or
    /// later.
    pub fn work_off(
        &mut self,
        open_from_ns: Option<i64>,
        settings: &Settings,
        scratch: &mut Scratch,
        stats: &mut Stats,
    ) {
        let mut metrics = stats.of(self.owner);
        let turn = Turn {
            order: settings.order,
            slop_ns: i64::try_from(settings.slop.as_nanos()).unwrap_or(i64::MAX),
            open_from_ns,
        };
        let first = wanted(&self.run);
        let (run, is_begun) = (&mut self.run, &mut self.is_begun);
        turn.take(&mut self.ios, scratch, first, |pick| {
            let begins = run.is_empty();
            let is_reordered = match begins {
                true => *is_begun || !pick.is_first,
                false => !pick.is_earliest,
            };
            let is_reordered = is_reordered && settings.order == Order::Overlap;
            *metrics.reordered += u64::from(is_reordered && !begins);
            let ended = run.take(pick.io, self.file_size, &mut metrics);
            self.ends_of_file += u64::from(ended);
            // If the run ended with this request, the next run counts it, like in the paper's tool.
            run.reordered += u64::from(is_reordered);
            wanted(run)
        });
        self.is_begun = true;
        // The remaining requests are sorted again next time, so wait until their number has doubled.
        self.long_from = self.ios.len().saturating_mul(2).max(LONG);
        self.ios.shrink_to(self.long_from);
    }

    /// Closes the group; the next request begins a new one.
    pub fn close(&mut self, settings: &Settings, scratch: &mut Scratch, stats: &mut Stats) {
        if self.is_empty {
            return;
        }
        self.work_off(None, settings, scratch, stats);
        let mut metrics = stats.of(self.owner);
        self.run.finish(self.file_size, &mut metrics);
        if settings.order == Order::Overlap {
            metrics.add(Metric::EndsOfFile, self.ends_of_file as f64);
        }
        let mut room = std::mem::take(&mut self.ios);
        room.clear();
        *self = Self::new(self.owner, room);
    }

    /// The vector of the group, for reuse.
    pub fn into_spare(self) -> Vec<Io> {
        self.ios
    }
}

fn wanted(run: &Run) -> Wanted {
    match run.is_empty() {
        true => Wanted::Lowest,
        false => Wanted::At(run.end),
    }
}
