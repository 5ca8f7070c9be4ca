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

/// How often all mounts are looked at in any case.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Least time between looks: after a look that left something open, after requests were missed or
/// lost, and after mounts have changed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Most looks in a row because something is open. Under load some requests are always between
/// reply and completion, so that no look is exact.
const LOOKS_AGAIN: u32 = 10;
/// Looking takes at most 1/2500 of a CPU's time: 0.04 %.
const SHARE: u32 = 2500;
/// CPU time of one step of a look. A step is a piece of the kernel's text, so a little more.
const STEP: Duration = Duration::from_millis(4);
/// How long after a look its requests have all arrived: from the kernel's counting to the record in
/// the ring are some microseconds, unless the CPU is taken away in between.
const ARRIVAL: Duration = Duration::from_millis(250);
/// How long after booking it is clear whether the programs were skipped for these requests: what a
/// program is skipped for counts as missed when it was not recovered for some looks.
const JUDGED_AFTER: Duration = Duration::from_secs(5);
/// Superblocks younger than the recorder by less than this may be older: ages are in seconds.
const YOUNG_S: i64 = 3;

/// What the audit knows of all superblocks.
pub struct Audit {
    started_s: i64,
    /// Mounts of NFS are compared.
    has_wire: bool,
    /// The block devices, where they are compared.
    disks: Option<Disks>,
    /// Requests to them that failed: the kernel counts their bytes, and rows do not.
    failed: Transfers,
    /// Calls of applications are counted, too.
    counts_calls: bool,
    /// What a filter leaves out.
    left_out: LeftOut,
    accounts: AHashMap<Dev, Account>,
    /// Rows of closed windows.
    closed: AHashMap<Dev, Transfers>,
    /// Looks whose requests may not all have arrived.
    looks: Looks,
    reading: Option<Reading>,
    next: MonotonicNs,
    /// When the last look ended, and the CPU time that it and its comparisons took.
    last: (MonotonicNs, Duration),
    looks_again: u32,
    /// What the comparisons of the last look have shown so far.
    has_compared: bool,
    is_open: bool,
    /// What was booked of all mounts.
    booked: Transfers,
    /// When these are judged that were booked by then, and how many requests they are.
    to_judge: Option<(MonotonicNs, u64)>,
    /// How many booked requests nothing explains.
    unexplained: u64,
    /// What has been compared and booked lately.
    lately: Lately,
}

/// What was booked and nothing explains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Of which devices, if it is more than before.
    pub of: Vec<(Dev, Tally)>,
    /// It is so much that an error is likely.
    pub is_alarm: bool,
}

impl Audit {
    /// Opens no account yet: the first look does. `counts_calls` says that rows have calls of applications.
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

    /// Shows the looks that wait each request that passes.
    pub fn watch<'a, R>(&'a mut self, requests: &'a mut R) -> Watched<'a, R> {
        let failed = self.disks.is_some().then_some(&mut self.failed);
        Watched::new(requests, &mut self.looks, failed)
    }

    /// Takes note of requests that the kernel has added up.
    pub fn see_folded(&mut self, key: &FoldKey, sum: &FoldValue) {
        see_folded(&mut self.looks, key, sum);
    }

    /// Takes note of calls that the kernel has added up: of a device, all that were taken at once.
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

    /// Whether it wants to know what a filter leaves out: from a moment before a look until that is compared.
    pub fn wants_left_out(&self, now: MonotonicNs) -> bool {
        after(now, LOOK_AGAIN) >= self.next || self.reading.is_some() || !self.looks.is_empty()
    }

    /// Takes note of what a filter has left out so far.
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

    /// Looks as soon as its cost allows it.
    pub fn hasten(&mut self) {
        let (ended, spent) = self.last;
        let pause = (spent * SHARE).max(LOOK_AGAIN);
        self.next = self.next.min(after(ended, pause));
    }

    /// Begins a look if it is time for one, and goes on with one. `others` are the other mount
    /// namespaces, each with a process and the devices it has.
    pub fn look(&mut self, now: MonotonicNs, others: &[(u32, Vec<Dev>)]) {
        if self.is_due(now) {
            self.begin(now, others);
        }
        self.read_on(now, STEP);
    }

    /// Looks at everything at once.
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
            // What was missed while reading may have hastened the next look.
            let pause = (reading.spent * SHARE).max(LOOK_AGAIN);
            self.next = self.next.max(after(now, pause));
            self.reading = None;
        }
    }

    /// Notes CPU time that comparisons took: the pause after their look becomes longer.
    pub fn spend(&mut self, spent: Duration) {
        if let Some(reading) = &mut self.reading {
            reading.spent += spent;
            return;
        }
        let (ended, all) = &mut self.last;
        *all += spent;
        self.next = self.next.max(after(*ended, *all * SHARE));
    }

    /// Devices of looks whose requests have all arrived, if those that completed until
    /// `drained_until` have. With `at_once` less time is left to the requests.
    pub fn arrived(&self, drained_until: MonotonicNs, at_once: bool) -> Vec<Dev> {
        let patience = if at_once { ARRIVAL / 5 } else { ARRIVAL };
        let has_arrived = |look: &Look| drained_until >= after(look.ended, patience);
        let looks = self.looks.iter();
        let arrived = looks.filter(|(_, look)| has_arrived(look));
        arrived.map(|(dev, _)| *dev).collect()
    }

    /// Compares the look at a device with its rows; `open` are those of windows that are open.
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

    /// Takes note of what is booked. Nobody counts how many bytes of calls a failed flush, or a program that was skipped,
    /// may explain.
    pub fn book(&mut self, missed: Transfers, now: MonotonicNs) {
        if !missed.without_calls().is_none() {
            self.booked.add(missed);
            let due = after(now, JUDGED_AFTER);
            self.to_judge.get_or_insert((due, self.booked_requests()));
        }
    }

    /// What is booked beyond the `explained` requests that are known to have been skipped or
    /// lost, if it is more than before. `is_last` says that nothing more will be known of them.
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
        // Bytes do not come without a request, even where the kernel counts none.
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

    /// Requests that were booked.
    pub fn booked_requests(&self) -> u64 {
        self.booked.requests()
    }

    /// Whether the comparisons of the last look left something open. Then looks again soon, unless
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

    /// Notes devices whose numbers may be another superblock's now.
    pub fn doubt(&mut self, replaced: impl IntoIterator<Item = Dev>) {
        for dev in replaced {
            if let Some(account) = self.accounts.get_mut(&dev) {
                account.doubt();
            }
            self.looks.remove(&dev);
        }
    }

    /// Notes which devices are without a mount; `open` has the rows of open windows.
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

    /// Rows of a device, with what a filter has kept from being in any.
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
