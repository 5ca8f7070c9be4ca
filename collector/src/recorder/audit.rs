//! The audit's part of a recording: when it looks, and where its results go.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, MISSED};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::FileRow;

use crate::audit::Judgement;
use crate::audit::comparison::Comparison;
use crate::audit::judgement::Unprobed;
use crate::audit::reading::cpu_time;
use crate::audit::transfers::DISKS;
use crate::clock::{ClockSample, MonotonicNs};
use crate::recorder::{RecordError, Recorder};

/// Time between the last looks, before the programs are detached.
const LAST_LOOKS_EVERY: Duration = Duration::from_millis(60);
/// Most of the last looks, if a difference is open.
const LAST_LOOKS: usize = 6;

impl Recorder {
    /// Looks at the kernel's counters if it is time, and compares earlier looks with rows.
    pub(super) fn run_audit(
        &mut self,
        now: MonotonicNs,
        drained_until: MonotonicNs,
    ) -> Result<(), RecordError> {
        self.see_left_out(now);
        // Calls are taken right before and after, so that few are uncertain.
        let is_due = self.audit.is_due(now);
        if is_due {
            self.take_calls(now)?;
        }
        self.audit.look(now, self.names.namespaces());
        if is_due {
            self.take_calls(now)?;
        }
        self.compare_arrived(now, drained_until, false);
        self.judge_audit(now, false);
        Ok(())
    }

    /// Looks at all mounts at once.
    pub(super) fn look_at_once(&mut self, now: MonotonicNs) -> Result<(), RecordError> {
        self.take_calls(now)?;
        self.see_left_out(now);
        self.audit.look_at_once(now, self.names.namespaces());
        self.take_calls(now)
    }

    /// Passes the sums of left-out requests to the audit, if it needs them.
    fn see_left_out(&mut self, now: MonotonicNs) {
        if self.audit.wants_left_out(now)
            && let Some(sums) = self.engine.left_out()
        {
            self.audit.see_left_out(now, sums);
        }
    }

    /// Lets the audit judge the bookings. `is_last` says that all missed requests are known.
    pub(super) fn judge_audit(&mut self, now: MonotonicNs, is_last: bool) {
        let explained = self.missed.requests.saturating_add(self.lost);
        let audit = &mut self.audit;
        let Judgement { of, is_alarm } = audit.judge(now, explained, is_last);
        let names = of.iter().map(|(dev, _)| match *dev {
            DISKS => audit.disk_names(),
            dev => self.names.whole(dev).unwrap_or("a mount").to_owned(),
        });
        let found = names.zip(&of).map(|(of, (_, tally))| Unprobed {
            of,
            missed: tally.booked.requests(),
            counted: tally.kernel.requests(),
        });
        self.unprobed.put(found.filter(|found| found.missed > 0));
        if is_alarm {
            let at = self.clock.utc(now);
            self.rollup.window(at).health.audit_alarms += 1;
        }
    }

    /// The last looks, while the programs are still attached: requests that complete after the counters
    /// were read must be recorded, too.
    pub(super) fn finish_audit(&mut self) -> Result<(), RecordError> {
        for _ in 0..LAST_LOOKS {
            let now = ClockSample::take().now;
            self.look_at_once(now)?;
            thread::sleep(LAST_LOOKS_EVERY);
            let sample = ClockSample::take();
            self.follow_clock(sample);
            self.learn_paths(sample.now);
            while self.drain(sample.now) < sample.now {}
            let books = self.engine.books();
            self.take_folded(books, sample.now)?;
            let utc = self.clock.utc(sample.now);
            self.note_lost(books, utc);
            let missed = self.engine.missed()?;
            self.note_missed(missed, utc);
            self.see_left_out(sample.now);
            if !self.compare_arrived(sample.now, sample.now, true) {
                break;
            }
        }
        Ok(())
    }

    /// Compares arrived looks. Returns whether a difference is open.
    fn compare_arrived(
        &mut self,
        now: MonotonicNs,
        drained_until: MonotonicNs,
        at_once: bool,
    ) -> bool {
        let audit = &mut self.audit;
        let arrived = audit.arrived(drained_until, at_once);
        if arrived.is_empty() {
            return audit.follow_up();
        }
        let began = cpu_time();
        let open = self.rollup.open_transfers();
        let at = self.clock.utc(now);
        for dev in arrived {
            let rows = open.get(&dev).copied().unwrap_or_default();
            let comparison = audit.compare(dev, rows);
            if !self.engine.may_want(dev) {
                continue;
            }
            let mount = self.names.whole(dev).map(str::to_owned);
            let key = self.names.key(FileId::missed(dev));
            let window = self.rollup.window(at);
            let health = &mut window.health;
            let Comparison {
                kernel,
                rows,
                missed,
                is_excess,
                is_open: _,
            } = comparison;
            health.audit_comparisons += 1;
            health.audit_kernel_requests += kernel.requests();
            health.audit_kernel_bytes += kernel.bytes();
            health.audit_row_requests += rows.requests();
            health.audit_row_bytes += rows.bytes();
            health.audit_missed_requests += missed.requests();
            health.audit_missed_bytes += missed.bytes();
            health.audit_missed_app_bytes += missed.call_bytes();
            health.audit_alarms += u64::from(is_excess);
            audit.book(missed, now);
            if !missed.is_none() {
                window.settled.push(FileRow {
                    file: self
                        .names
                        .naming()
                        .named(&Arc::new(missed_on(dev, key, mount)), &mut None),
                    row: missed.row(),
                });
            }
        }
        audit.spend(cpu_time().saturating_sub(began));
        audit.follow_up()
    }

    /// Schedules a look soon, because requests were missed or lost.
    pub(super) fn hasten_audit(&mut self) {
        self.audit.hasten();
    }

    /// Reports to the audit which devices have lost all of their mounts.
    pub(super) fn audit_mounts(&mut self) {
        let (names, rollup) = (&self.names, &self.rollup);
        self.audit
            .follow_mounts(|dev| names.is_mounted(dev), || rollup.open_transfers());
    }
}

/// The file that stands for requests of a mount, or of the block devices, that the kernel has counted and rows lack.
fn missed_on(dev: Dev, key: FileKey, mount: Option<String>) -> FileAttributes {
    let id = FileId::missed(dev);
    FileAttributes {
        key,
        id,
        mount,
        path: Some(MISSED.to_owned()),
        path_inferred: false,
        tenant: Arc::default(),
        level: match dev {
            DISKS => IoLevel::Block,
            _ => IoLevel::Wire,
        },
    }
}
