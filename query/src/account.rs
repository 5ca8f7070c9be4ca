//! Accounts for the recorded time and losses of a range, from the health rows of journals.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use trackiops_schemas::pending::STALLED_MS;
use trackiops_schemas::row::Health;
use trackiops_schemas::shed::Detail;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Segment;

use crate::coverage::recorded_time::RecordedTime;
use crate::coverage::{Coverage, Piece};
use crate::error::QueryError;
use crate::explain::Explain;
use crate::interval::Interval;
use crate::origin::HostIndex;
use crate::plan::{Journal, Plan, Tail};
use crate::scan;

/// Recorded time of the range, and coverage of each host.
pub(crate) struct Account<'p> {
    plan: &'p Plan<'p>,
    explain: &'p Explain,
    covered: RecordedTime,
    hosts: Vec<(Coverage, Option<Interval>)>,
}

impl<'p> Account<'p> {
    /// An empty account.
    pub(crate) fn new(plan: &'p Plan<'p>, explain: &'p Explain) -> Self {
        let hosts = plan.spans.iter().map(|span| (Coverage::default(), *span));
        Self {
            plan,
            explain,
            covered: RecordedTime::default(),
            hosts: hosts.collect(),
        }
    }

    /// Returns the recorded time of each window, and for each host its coverage and the time of all its data.
    pub(crate) fn finish(self) -> (RecordedTime, Vec<(Coverage, Option<Interval>)>) {
        (self.covered.finish(), self.hosts)
    }

    /// Adds the health rows of a journal. Reads finer rows only for coarse windows that were partly recorded or need a
    /// note.
    pub(crate) fn journal(&mut self, journal: &Journal) -> Result<(), QueryError> {
        for part in &journal.coarse_health {
            let (bounds, granularity) = (part.bounds, part.granularity);
            let rows = self.health_rows(&part.segments, |time| bounds.contains(time))?;
            if granularity == journal.granularity {
                self.windows(journal, rows, |time| bounds.contains(time))?;
                continue;
            }
            let is_plain = |(time, health): &(UtcMs, Health)| {
                self.is_plain(health, window_of(*time, granularity, journal.extent))
            };
            let (plain, other): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_plain);
            for (time, health) in plain {
                let window = window_of(time, granularity, journal.extent);
                match self.plan.step.accepts(granularity) {
                    true => self.add_covered(journal.host, time, &health),
                    false => self.covered.add_whole(journal.host, window),
                }
                self.add(journal.host, window, health);
            }
            if !other.is_empty() {
                let other: BTreeSet<_> = other.into_iter().map(|(time, _)| time).collect();
                let is_asked =
                    |time: UtcMs| bounds.contains(time) && other.contains(&time.align(granularity));
                let rows = self.health_rows(&journal.health, is_asked)?;
                self.windows(journal, rows, is_asked)?;
            }
        }
        Ok(())
    }

    /// Whether a window was recorded completely and needs no note.
    fn is_plain(&self, health: &Health, window: Interval) -> bool {
        health.filter.is_none() && self.is_plain_but_for_filter(health, window)
    }

    fn is_plain_but_for_filter(&self, health: &Health, window: Interval) -> bool {
        let noted = [
            health.lost,
            health.missed,
            health.clock_steps,
            health.ops_missed,
            health.audit_missed_requests,
            health.audit_missed_bytes,
            health.audit_alarms,
        ];
        health.covered_ms >= window.ms()
            && noted.iter().all(|count| *count == 0)
            && !is_stalled(health)
            && !has_shed(health)
            && self.left_out_ms(health) == 0
    }

    /// Adds the windows of the answering granularity that `is_asked` accepts.
    fn windows(
        &mut self,
        journal: &Journal,
        rows: BTreeMap<UtcMs, Health>,
        is_asked: impl Fn(UtcMs) -> bool,
    ) -> Result<(), QueryError> {
        let granularity = journal.granularity;
        for (time, health) in &rows {
            self.add_covered(journal.host, *time, health);
        }
        let has_gap = |(time, health): (&UtcMs, &Health)| {
            let window = window_of(*time, granularity, journal.extent);
            health.covered_ms < window.ms()
                || health.clock_steps > 0
                || is_stalled(health)
                || has_shed(health)
                || self.left_out_ms(health) > 0
        };
        // A coarse window shows how much time is missing, but neither where, nor when the clock was set or a server was
        // stalled.
        if journal.finest_health.is_empty() || !rows.iter().any(has_gap) {
            self.cover(journal, granularity, rows);
            return Ok(());
        }
        let is_same_throughout = |(time, health): &(UtcMs, Health)| {
            self.is_same_throughout(health, window_of(*time, granularity, journal.extent))
        };
        let (same, other): (BTreeMap<_, _>, BTreeMap<_, _>) =
            rows.into_iter().partition(is_same_throughout);
        self.cover(journal, granularity, same);
        let is_other = |time: UtcMs| is_asked(time) && other.contains_key(&time.align(granularity));
        let rows = self.health_rows(&journal.finest_health, is_other)?;
        self.cover(journal, journal.finest, rows);
        Ok(())
    }

    /// Whether finer rows would add nothing to a window: it was recorded completely, and whatever needs a note applies
    /// to all of it.
    fn is_same_throughout(&self, health: &Health, window: Interval) -> bool {
        let is_none_or_all = |ms: u64| ms == 0 || ms == health.covered_ms;
        self.is_plain_but_for_filter(health, window)
            && health.tenant_changes == 0
            && health.requests_dropped == 0
            && is_none_or_all(health.app_covered_ms)
            && is_none_or_all(health.block_covered_ms)
    }

    fn add_covered(&mut self, host: HostIndex, time: UtcMs, health: &Health) {
        let covered_ms = self.plan.covered_ms(health);
        self.covered.add(host, self.plan.window(time), covered_ms);
    }

    fn cover(
        &mut self,
        journal: &Journal,
        granularity: Granularity,
        rows: BTreeMap<UtcMs, Health>,
    ) {
        for (time, health) in rows {
            let window = window_of(time, granularity, journal.extent);
            self.add(journal.host, window, health);
        }
    }

    fn add(&mut self, host: HostIndex, window: Interval, health: Health) {
        let left_out_ms = self.left_out_ms(&health);
        let coverage = &mut self.hosts[host].0;
        let covered_ms = health.covered_ms;
        coverage.add_piece(Piece { window, covered_ms });
        coverage.leave_out(window, left_out_ms);
        coverage.leave_levels_out(window, &health);
        coverage.shed(window, &health);
        coverage.add_health(window, self.plan.account(health));
    }

    /// Recorded time without the planned dataset, ms.
    fn left_out_ms(&self, health: &Health) -> u64 {
        let asked_ms = self.plan.covered_ms(health);
        health.covered_ms.saturating_sub(asked_ms)
    }

    /// Adds the health row of an unsealed window. Returns the start of its window in the answer, if it lies in the
    /// range.
    pub(crate) fn window(
        &mut self,
        tail: &Tail<'_>,
        start: UtcMs,
        health: Health,
    ) -> Option<UtcMs> {
        let extent = Interval::new(start, start.plus(tail.tail.granularity()));
        let (_, span) = &mut self.hosts[tail.host];
        *span = Some(span.map_or(extent, |span| span.hull(extent)));
        if !tail.bounds.contains(start) {
            return None;
        }
        self.add_covered(tail.host, start, &health);
        self.add(tail.host, extent, health);
        Some(self.plan.window(start))
    }

    /// Reads the wanted health rows, and adds up rows of the same window.
    fn health_rows(
        &self,
        segments: &[Segment],
        is_asked: impl Fn(UtcMs) -> bool,
    ) -> Result<BTreeMap<UtcMs, Health>, QueryError> {
        let mut rows: BTreeMap<UtcMs, Health> = BTreeMap::new();
        for segment in segments {
            for (time, health) in scan::health(segment, &is_asked, self.explain)? {
                match rows.entry(time) {
                    Entry::Vacant(entry) => {
                        entry.insert(health);
                    }
                    Entry::Occupied(mut entry) => entry.get_mut().merge(&health),
                }
            }
        }
        Ok(rows)
    }
}

fn has_shed(health: &Health) -> bool {
    Detail::ALL.iter().any(|detail| detail.shed_ms(health) > 0)
}

fn is_stalled(health: &Health) -> bool {
    let pending = health.pending.as_ref();
    pending.is_some_and(|pending| pending.age_ms_max >= STALLED_MS)
}

/// A window, cut to the extent of its journal.
pub(crate) fn window_of(time: UtcMs, granularity: Granularity, extent: Interval) -> Interval {
    Interval::new(time, time.plus(granularity)).intersect(extent)
}
