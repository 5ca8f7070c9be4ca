//! Reads what a plan names and adds it up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::pending::STALLED_MS;
use trackiops_schemas::rollup::{ClosedWindow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Segment;

use crate::coverage::{Coverage, Interval, Piece};
use crate::error::QueryError;
use crate::file::{Verdict, Wanted};
use crate::group::{Grouping, Of};
use crate::merge::{File, Group, GroupKey, HostIndex, Merger};
use crate::plan::{Bounds, Journal, Plan, Tail};
use crate::scan::{self, Columns, Detail};

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The sums, in no order.
    pub groups: Vec<(GroupKey, Group)>,
    /// How much of each window of the answer each host recorded, ms.
    pub covered: HashMap<(HostIndex, UtcMs), u64>,
    /// Each host's coverage and what it recorded in all.
    pub hosts: Vec<(Coverage, Option<Interval>)>,
}

/// Executes a plan for the wanted files, or for all, adding up what `grouping` puts together.
pub fn execute(
    plan: &Plan<'_>,
    wanted: Option<&Wanted>,
    detail: Detail,
    grouping: &Grouping,
) -> Result<Found, QueryError> {
    let mut run = Run {
        plan,
        wanted,
        detail,
        grouping,
        merger: Merger::default(),
        account: Account::new(plan),
    };
    for journal in &plan.journals {
        run.rollup(journal)?;
        run.account.journal(journal)?;
    }
    for tail in &plan.tails {
        run.tail(tail)?;
    }
    let Account { covered, hosts, .. } = run.account;
    let groups = run.merger.finish();
    // A table tells of reading and writing: files of which there is only metadata would be rows of zeros.
    let is_shown = |row: &Row| !matches!(detail, Detail::Figures(_)) || row.is_transfer();
    Ok(Found {
        groups: groups.filter(|(_, group)| is_shown(&group.row)).collect(),
        covered,
        hosts,
    })
}

/// What was recorded of the range.
pub(crate) struct Account<'p> {
    plan: &'p Plan<'p>,
    /// As in [`Found`].
    pub(crate) covered: HashMap<(HostIndex, UtcMs), u64>,
    /// As in [`Found`].
    pub(crate) hosts: Vec<(Coverage, Option<Interval>)>,
}

/// An execution under way.
struct Run<'p> {
    plan: &'p Plan<'p>,
    wanted: Option<&'p Wanted>,
    detail: Detail,
    grouping: &'p Grouping,
    merger: Merger,
    account: Account<'p>,
}

impl Run<'_> {
    fn rollup(&mut self, journal: &Journal) -> Result<(), QueryError> {
        let again = self.rows(journal, None)?;
        if !again.is_empty() {
            let again: Vec<_> = again.into_iter().collect();
            self.rows(journal, Some(&again))?;
        }
        Ok(())
    }

    /// Adds the rows of a journal. Those without a name of which it depends in which part of their window they were wanted
    /// are left out; what files they are of is returned, and `again` adds them from the finest granularity.
    fn rows(
        &mut self,
        journal: &Journal,
        again: Option<&[FileKey]>,
    ) -> Result<BTreeSet<FileKey>, QueryError> {
        let Self {
            plan,
            wanted,
            detail,
            grouping,
            merger,
            ..
        } = self;
        let columns = Columns {
            detail: *detail,
            by: grouping.by,
            by_name: wanted.is_some_and(Wanted::by_name),
        };
        let (segments, granularity) = match again {
            None => (&journal.rows, journal.granularity),
            Some(_) => (&journal.finest_rows, journal.finest),
        };
        let keys = again.or(wanted.map(Wanted::keys));
        let mut unclear = BTreeSet::new();
        for segment in segments {
            let ranges = keys.map(|keys| segment.files.rows_of(keys));
            if ranges.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            // A segment hands over the same file until the next one.
            let mut last: Option<Placed> = None;
            scan::rollup(
                segment,
                ranges.as_deref(),
                columns,
                &mut |time, file, tenant, row| {
                    if !journal.bounds.contains(time) {
                        return;
                    }
                    let same = last.take().filter(|placed| Arc::ptr_eq(&placed.file, file));
                    let place = || Placed::new(file, journal.host, grouping, *wanted);
                    let placed = last.insert(same.unwrap_or_else(place));
                    let planned = time.align(journal.granularity);
                    let planned = window_of(planned, journal.granularity, journal.extent);
                    let is_unclear =
                        !journal.finest_rows.is_empty() && placed.is_unclear(*wanted, planned);
                    if is_unclear != again.is_some() {
                        unclear.extend(is_unclear.then_some(file.key));
                    } else if placed.is_wanted(*wanted, time.max(journal.extent.start)) {
                        let key = GroupKey {
                            window: plan.window(time),
                            host: journal.host,
                            of: placed.of.clone(),
                            tenant: grouping.by.tenant(tenant),
                        };
                        let closed = window_of(time, granularity, journal.extent).end;
                        merger.add(key, closed, file, tenant, row);
                    }
                },
            )?;
        }
        Ok(unclear)
    }

    fn tail(&mut self, tail: &Tail<'_>) -> Result<(), QueryError> {
        let granularity = tail.tail.granularity();
        // A journal repeats the same attributes, at the same place, in every window. They are kept, so that no others can take
        // their place.
        let mut files: HashMap<_, (Arc<FileAttributes>, Placed)> = HashMap::new();
        let host = tail.host;
        let mut each = |window: ClosedWindow| {
            let closed = window.start.plus(granularity);
            let Some(answer_window) = self.account.window(tail, window.start, window.health) else {
                return;
            };
            for row in window.rows {
                let tenant = row.file.tenant.as_deref();
                let (_, placed) = files.entry(Arc::as_ptr(&row.file)).or_insert_with(|| {
                    let file = Arc::new(File::from(&*row.file));
                    let placed = Placed::new(&file, host, self.grouping, self.wanted);
                    (Arc::clone(&row.file), placed)
                });
                if placed.is_wanted(self.wanted, window.start) {
                    let key = GroupKey {
                        window: answer_window,
                        host,
                        of: placed.of.clone(),
                        tenant: self.grouping.by.tenant(tenant),
                    };
                    self.merger.add(key, closed, &placed.file, tenant, row.row);
                }
            }
        };
        Ok(tail.tail.windows(&mut each)?)
    }
}

/// A file, and what becomes of its rows.
struct Placed {
    file: Arc<File>,
    /// To what they belong.
    of: Of,
    /// Whether they are wanted.
    verdict: Verdict,
}

impl Placed {
    fn new(
        file: &Arc<File>,
        host: HostIndex,
        grouping: &Grouping,
        wanted: Option<&Wanted>,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            of: grouping.of(host, file),
            verdict: wanted.map_or(Verdict::Wanted, |wanted| wanted.verdict(file)),
        }
    }

    /// Whether a row of it is wanted in one part of a window and unwanted in another.
    fn is_unclear(&self, wanted: Option<&Wanted>, window: Interval) -> bool {
        self.verdict == Verdict::Depends
            && wanted.is_some_and(|wanted| wanted.changes(window, self.file.key))
    }

    fn is_wanted(&self, wanted: Option<&Wanted>, time: UtcMs) -> bool {
        match self.verdict {
            Verdict::Wanted => true,
            Verdict::Unwanted => false,
            Verdict::Depends => wanted.is_some_and(|wanted| wanted.holds(time, self.file.key)),
        }
    }
}

impl<'p> Account<'p> {
    /// Nothing yet.
    pub(crate) fn new(plan: &'p Plan<'p>) -> Self {
        let hosts = plan.spans.iter().map(|span| (Coverage::default(), *span));
        Self {
            plan,
            covered: HashMap::new(),
            hosts: hosts.collect(),
        }
    }

    /// Takes over the health rows of a journal.
    pub(crate) fn journal(&mut self, journal: &Journal) -> Result<(), QueryError> {
        let rows = health_rows(&journal.health, journal.bounds)?;
        for (time, health) in &rows {
            let window = self.plan.window(*time);
            let covered_ms = self.plan.covered_ms(health);
            *self.covered.entry((journal.host, window)).or_default() += covered_ms;
        }
        let whole = rows.iter().all(|(time, health)| {
            health.covered_ms >= window_of(*time, journal.granularity, journal.extent).ms()
        });
        let stalled = rows.values().any(|health| {
            let pending = health.pending.as_ref();
            pending.is_some_and(|pending| pending.age_ms_max >= STALLED_MS)
        });
        let left_out = rows.values().any(|health| self.left_out_ms(health) > 0);
        // A coarse window that was not covered in whole says how much is missing, not where; nor does it say
        // when a server was stalled.
        if (whole && !stalled && !left_out) || journal.finest_health.is_empty() {
            self.cover(journal, journal.granularity, rows);
        } else {
            let rows = health_rows(&journal.finest_health, journal.bounds)?;
            self.cover(journal, journal.finest, rows);
        }
        Ok(())
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
        coverage.add_health(window, self.plan.account(health));
    }

    /// For how long that which is asked was left out of a recording.
    fn left_out_ms(&self, health: &Health) -> u64 {
        let asked_ms = self.plan.covered_ms(health);
        health.covered_ms.saturating_sub(asked_ms)
    }

    /// Takes over the health row of a window that is not sealed. The window of the answer that holds it, if it is in the
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
        let window = self.plan.window(start);
        let covered_ms = self.plan.covered_ms(&health);
        *self.covered.entry((tail.host, window)).or_default() += covered_ms;
        self.add(tail.host, extent, health);
        Some(window)
    }
}

/// The health rows within the bounds, those of the same window added up.
fn health_rows(
    segments: &[Segment],
    bounds: Bounds,
) -> Result<BTreeMap<UtcMs, Health>, QueryError> {
    let mut rows: BTreeMap<UtcMs, Health> = BTreeMap::new();
    for segment in segments {
        for (time, health) in scan::health(segment)? {
            if bounds.contains(time) {
                rows.entry(time).or_default().merge(&health);
            }
        }
    }
    Ok(rows)
}

fn window_of(time: UtcMs, granularity: Granularity, extent: Interval) -> Interval {
    Interval::new(time, time.plus(granularity)).intersect(extent)
}
