//! Compares rows with the kernel's own counters of each mount, and of the block devices, while recording.
//! `docs/internals/collector.md` has the protocol.

pub(crate) mod comparison;
pub(crate) mod disks;
pub(crate) mod judgement;
pub(crate) mod left_out;
pub(crate) mod look;
pub(crate) mod mountstats;
pub(crate) mod reading;
#[cfg(test)]
mod tests;
pub(crate) mod transfers;

use std::mem;
use std::path::Path;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::{FoldKey, FoldValue};
use trackiops_schemas::identity::Dev;

use crate::audit::comparison::{Account, Comparison};
use crate::audit::disks::Disks;
use crate::audit::judgement::{Lately, Tally};
use crate::audit::left_out::{LeftOut, LeftOutSums};
use crate::audit::look::{Look, Looks, Watched, see_folded};
use crate::audit::reading::{Reading, cpu_time};
use crate::audit::transfers::{DISKS, Transfers};
use crate::clock::MonotonicNs;
use crate::kernel_sums::by_call::CallsInWindow;
use crate::plan::Levels;

/// Each mount is read at least this often.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Least time between looks: after a look that left a difference open, after requests were missed or
/// lost, and after mounts have changed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Most successive looks because a difference is open. Under load some requests are always between
/// reply and completion, so no look is exact.
const LOOKS_AGAIN: u32 = 10;
/// Looks take at most 1/2500 of a CPU's time: 0.04 %.
const SHARE: u32 = 2500;
/// CPU time of one step of a look. A step reads a whole piece of the kernel's text, so it may take a little more.
const STEP: Duration = Duration::from_millis(4);
/// By this time after a look, all requests that it counted have arrived. From the kernel's count to the record in
/// the ring are some microseconds, unless the CPU is taken away in between.
const ARRIVAL: Duration = Duration::from_millis(250);
/// By this time after booking, it is clear whether the programs were skipped for the booked requests: a
/// skipped run counts as missed when several looks have passed without its recovery.
const JUDGED_AFTER: Duration = Duration::from_secs(5);
/// Superblocks younger than the recorder by less than this may be older: ages are in seconds.
const YOUNG_S: i64 = 3;

/// The audit's state for all superblocks.
pub struct Audit {
    started_s: i64,
    /// Whether NFS mounts are compared.
    has_wire: bool,
    /// The block devices, if they are compared.
    disks: Option<Disks>,
    /// Failed requests to block devices: the kernel counts their bytes, and rows do not.
    failed: Transfers,
    /// Whether calls of applications are counted, too.
    counts_calls: bool,
    /// Requests that a filter leaves out.
    left_out: LeftOut,
    accounts: AHashMap<Dev, Account>,
    /// Rows of closed windows.
    closed: AHashMap<Dev, Transfers>,
    /// Looks whose requests may not all have arrived.
    looks: Looks,
    reading: Option<Reading>,
    next: MonotonicNs,
    /// When the last look ended, and the CPU time of the look and its comparisons.
    last: (MonotonicNs, Duration),
    looks_again: u32,
    /// Results so far of the comparisons of the last look.
    has_compared: bool,
    is_open: bool,
    /// Bookings of all mounts.
    booked: Transfers,
    /// When the next judgement is due, and how many requests were booked when it was scheduled.
    to_judge: Option<(MonotonicNs, u64)>,
    /// Booked requests without an explanation.
    unexplained: u64,
    /// Recent comparisons and bookings.
    lately: Lately,
}

/// Booked requests without an explanation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The affected devices, if there is more than before.
    pub of: Vec<(Dev, Tally)>,
    /// Whether their number makes an error likely.
    pub is_alarm: bool,
}

impl Audit {
    /// Opens no account yet: the first look does. `counts_calls` says that rows include calls of applications.
    pub fn new(now: MonotonicNs, levels: Levels, counts_calls: bool) -> Self {
        Self {
            started_s: seconds(now),
            has_wire: levels.wire,
            disks: levels.block.then(|| Disks::new(Path::new("/"))),
            failed: Transfers::default(),
            counts_calls,
            left_out: LeftOut::default(),
            accounts: AHashMap::new(),
            closed: AHashMap::new(),
            looks: Looks::new(),
            reading: None,
            next: now,
            last: (now, Duration::ZERO),
            looks_again: 0,
            has_compared: false,
            is_open: false,
            booked: Transfers::default(),
            to_judge: None,
            unexplained: 0,
            lately: Lately::new(now),
        }
    }

    /// Passes requests through and shows each one to the waiting looks.
    pub fn watch<'a, R>(&'a mut self, requests: &'a mut R) -> Watched<'a, R> {
        let failed = self.disks.is_some().then_some(&mut self.failed);
        Watched::new(requests, &mut self.looks, failed)
    }

    /// Takes note of requests that the kernel has added up.
    pub fn see_folded(&mut self, key: &FoldKey, sum: &FoldValue) {
        see_folded(&mut self.looks, key, sum);
    }

    /// Takes note of calls that the kernel has added up. For each device, all calls that were taken at once.
    pub fn see_calls<'c>(&mut self, taken: impl IntoIterator<Item = &'c CallsInWindow>) {
        if self.looks.is_empty() {
            return;
        }
        for calls in taken {
            if let Some(look) = self.looks.get_mut(&calls.row.file.dev) {
                look.see_calls(calls.transfers());
            }
        }
        self.looks.values_mut().for_each(Look::end_taking_calls);
    }

    /// Whether the sums of left-out requests are needed: from a moment before a look until its comparison.
    pub fn wants_left_out(&self, now: MonotonicNs) -> bool {
        after(now, LOOK_AGAIN) >= self.next || self.reading.is_some() || !self.looks.is_empty()
    }

    /// Takes note of the requests that a filter has left out so far.
    pub fn see_left_out(&mut self, now: MonotonicNs, sums: LeftOutSums) {
        self.left_out.see(now, sums);
    }

    /// Whether it is time for a look.
    pub fn is_due(&self, now: MonotonicNs) -> bool {
        self.reading.is_none() && now >= self.next && self.looks.is_empty()
    }

    /// Counts the rows of a window that closes.
    pub fn count_closed(&mut self, window: impl IntoIterator<Item = (Dev, Transfers)>) {
        for (dev, rows) in window {
            self.closed.entry(dev).or_default().add(rows);
        }
    }

    /// Looks as soon as the budget allows it.
    pub fn hasten(&mut self) {
        let (ended, spent) = self.last;
        let pause = (spent * SHARE).max(LOOK_AGAIN);
        self.next = self.next.min(after(ended, pause));
    }

    /// Begins a look if one is due, or continues one. `others` are the other mount
    /// namespaces: a process of each, and its devices.
    pub fn look(&mut self, now: MonotonicNs, others: &[(u32, Vec<Dev>)]) {
        if self.is_due(now) {
            self.begin(now, others);
        }
        self.read_on(now, STEP);
    }

    /// Performs a whole look at once.
    pub fn look_at_once(&mut self, now: MonotonicNs, others: &[(u32, Vec<Dev>)]) {
        self.looks.clear();
        self.begin(now, others);
        self.read_on(now, Duration::MAX);
    }

    fn begin(&mut self, now: MonotonicNs, others: &[(u32, Vec<Dev>)]) {
        let mut reading = Reading::new(others);
        if !self.has_wire {
            reading.leave_out_mounts();
        }
        if let Some(disks) = &mut self.disks {
            let began = cpu_time();
            let (mut look, has_left) = disks.look();
            look.left_out = self.left_out.counted(DISKS);
            if has_left {
                self.accounts.remove(&DISKS);
            }
            self.looks.insert(DISKS, look);
            reading.spent += cpu_time().saturating_sub(began);
        }
        self.reading = Some(reading);
        self.next = after(now, LOOK_EVERY);
    }

    fn read_on(&mut self, now: MonotonicNs, budget: Duration) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        let (looks, counts_calls) = (&mut self.looks, self.counts_calls);
        let left_out = &self.left_out;
        let goes_on = reading.advance(budget, |dev, mut look| {
            look.left_out = left_out.counted(dev);
            if !counts_calls {
                look.kernel = look.kernel.without_calls();
            }
            looks.insert(dev, look);
        });
        if !goes_on {
            self.last = (now, reading.spent);
            // Requests that were missed while reading may have hastened the next look.
            let pause = (reading.spent * SHARE).max(LOOK_AGAIN);
            self.next = self.next.max(after(now, pause));
            self.reading = None;
        }
    }

    /// Notes the CPU time of comparisons: it lengthens the pause after their look.
    pub fn spend(&mut self, spent: Duration) {
        if let Some(reading) = &mut self.reading {
            reading.spent += spent;
            return;
        }
        let (ended, all) = &mut self.last;
        *all += spent;
        self.next = self.next.max(after(*ended, *all * SHARE));
    }

    /// Devices of looks whose requests have all arrived, if every request that completed by
    /// `drained_until` has. `at_once` shortens the wait.
    pub fn arrived(&self, drained_until: MonotonicNs, at_once: bool) -> Vec<Dev> {
        let patience = if at_once { ARRIVAL / 5 } else { ARRIVAL };
        let has_arrived = |look: &Look| drained_until >= after(look.ended, patience);
        let looks = self.looks.iter();
        let arrived = looks.filter(|(_, look)| has_arrived(look));
        arrived.map(|(dev, _)| *dev).collect()
    }

    /// Compares the look at a device with its rows; `open` has the rows of open windows.
    pub fn compare(&mut self, dev: Dev, open: Transfers) -> Comparison {
        let Some(mut look) = self.looks.remove(&dev) else {
            return Comparison::default();
        };
        let rows = self.rows(dev, open);
        let left_out = self.left_out.most(dev);
        look.unsure.add(left_out.since(look.left_out));
        let known = self.accounts.get(&dev);
        let is_known = known.is_some_and(|account| account.is_of(&look));
        if !is_known {
            let is_young = look.born_s > self.started_s.saturating_add(YOUNG_S);
            let before = match known {
                Some(predecessor) => predecessor.rows_before(&look),
                None => is_young.then(Transfers::default),
            };
            let account = Account::open(&look, rows, before);
            self.accounts.insert(dev, account);
        }
        let account = self.accounts.get_mut(&dev);
        let comparison = account.map(|account| account.compare(&look, rows));
        let comparison = comparison.unwrap_or_default();
        self.has_compared = true;
        self.is_open |= comparison.is_open;
        self.lately.add(dev, comparison.kernel, comparison.missed);
        comparison
    }

    /// Takes note of a booking. Bytes of calls do not count: how many of them a failed flush or a skipped program explains is
    /// unknown.
    pub fn book(&mut self, missed: Transfers, now: MonotonicNs) {
        if !missed.without_calls().is_none() {
            self.booked.add(missed);
            let due = after(now, JUDGED_AFTER);
            self.to_judge.get_or_insert((due, self.booked_requests()));
        }
    }

    /// Judges the bookings beyond the `explained` requests, which are known to have been skipped or
    /// lost. Reports them if there are more than before. `is_last` says that no further explanation will come.
    pub fn judge(&mut self, now: MonotonicNs, explained: u64, is_last: bool) -> Judgement {
        self.lately.forget(now, explained);
        let Some((_, due)) = self.to_judge.take_if(|(at, _)| is_last || *at <= now) else {
            return Judgement::default();
        };
        let all = self.booked_requests();
        let booked = if is_last { all } else { due };
        if all > booked {
            self.to_judge = Some((after(now, JUDGED_AFTER), all));
        }
        // Booked bytes imply at least one request, even if the kernel counts none.
        let unexplained = booked.max(1).saturating_sub(explained);
        let is_more = unexplained > self.unexplained;
        self.unexplained = self.unexplained.max(unexplained);
        if !is_more {
            return Judgement::default();
        }
        let (of, is_alarm) = self.lately.judge(explained);
        Judgement { of, is_alarm }
    }

    /// The names of the block devices that have been compared.
    pub fn disk_names(&self) -> String {
        self.disks.as_ref().map(Disks::names).unwrap_or_default()
    }

    /// The number of booked requests.
    pub fn booked_requests(&self) -> u64 {
        self.booked.requests()
    }

    /// Whether the comparisons of the last look left a difference open. If so, schedules another look, unless
    /// that has not helped for some time.
    pub fn follow_up(&mut self) -> bool {
        if !self.has_compared || self.reading.is_some() || !self.looks.is_empty() {
            return self.is_open;
        }
        self.has_compared = false;
        let is_open = mem::take(&mut self.is_open);
        if !is_open {
            self.looks_again = 0;
        } else if self.looks_again < LOOKS_AGAIN {
            self.looks_again += 1;
            self.hasten();
        }
        is_open
    }

    /// Notes devices whose numbers may now belong to another superblock.
    pub fn doubt(&mut self, replaced: impl IntoIterator<Item = Dev>) {
        for dev in replaced {
            if let Some(account) = self.accounts.get_mut(&dev) {
                account.doubt();
            }
            self.looks.remove(&dev);
        }
    }

    /// Notes which devices have no mount; `open` has the rows of open windows.
    pub fn follow_mounts(
        &mut self,
        is_mounted: impl Fn(Dev) -> bool,
        open: impl FnOnce() -> AHashMap<Dev, Transfers>,
    ) {
        self.hasten();
        let has_left = |(dev, account): &(&Dev, &Account)| {
            **dev != DISKS && !is_mounted(**dev) && !account.is_vacant()
        };
        let left = self.accounts.iter().filter(has_left);
        let left: Vec<Dev> = left.map(|(dev, _)| *dev).collect();
        if left.is_empty() {
            return;
        }
        let open = open();
        for dev in left {
            let rows = self.rows(dev, open.get(&dev).copied().unwrap_or_default());
            if let Some(account) = self.accounts.get_mut(&dev) {
                account.vacate(rows);
            }
            self.looks.remove(&dev);
        }
    }

    /// Rows of a device, plus the requests that a filter has kept out of rows.
    fn rows(&self, dev: Dev, open: Transfers) -> Transfers {
        let mut rows = self.closed.get(&dev).copied().unwrap_or_default();
        rows.add(open);
        rows.add(self.left_out.most(dev));
        if dev == DISKS {
            rows.add(self.failed);
        }
        rows
    }
}

fn after(at: MonotonicNs, pause: Duration) -> MonotonicNs {
    let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    MonotonicNs(at.0.saturating_add(ns))
}

fn seconds(at: MonotonicNs) -> i64 {
    (at.0 / 1_000_000_000).cast_signed()
}
