//! Reads what a plan names and adds it up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::pending::STALLED_MS;
use trackiops_schemas::rollup::{ClosedWindow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Segment;

use crate::coverage::{Coverage, Interval, Piece};
use crate::error::QueryError;
use crate::file::Wanted;
use crate::merge::{By, File, Group, GroupKey, HostIndex, Merger};
use crate::plan::{Bounds, Journal, Plan, Tail};
use crate::scan::{self, Detail};

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

/// Executes a plan for the wanted files, or for all, adding up rows `by`.
pub fn execute(
    plan: &Plan<'_>,
    wanted: Option<&Wanted>,
    detail: Detail,
    by: By,
) -> Result<Found, QueryError> {
    let mut run = Run {
        plan,
        wanted,
        detail,
        by,
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
    by: By,
    merger: Merger,
    account: Account<'p>,
}

impl Run<'_> {
    fn rollup(&mut self, journal: &Journal) -> Result<(), QueryError> {
        let Self {
            plan,
            wanted,
            detail,
            by,
            merger,
            ..
        } = self;
        for segment in &journal.rows {
            let ranges = wanted.map(|wanted| segment.files.rows_of(&wanted.keys));
            if ranges.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            scan::rollup(
                segment,
                ranges.as_deref(),
                (*detail, *by),
                &mut |time, file, tenant, row| {
                    if journal.bounds.contains(time) && is_wanted(*wanted, file) {
                        let key = GroupKey {
                            window: plan.window(time),
                            host: journal.host,
                            file: file.key,
                            tenant: by.tenant(tenant),
                        };
                        let closed = window_of(time, journal.granularity, journal.extent).end;
                        merger.add(key, closed, file, tenant, row);
                    }
                },
            )?;
        }
        Ok(())
    }

    fn tail(&mut self, tail: &Tail<'_>) -> Result<(), QueryError> {
        let granularity = tail.tail.granularity();
        let mut files = HashMap::new();
        let host = tail.host;
        let mut each = |window: ClosedWindow| {
            let closed = window.start.plus(granularity);
            let Some(answer_window) = self.account.window(tail, window.start, window.health) else {
                return;
            };
            for row in window.rows {
                let tenant = row.file.tenant.as_deref();
                let file = intern(&mut files, &row.file);
                if is_wanted(self.wanted, &file) {
                    let key = GroupKey {
                        window: answer_window,
                        host,
                        file: file.key,
                        tenant: self.by.tenant(tenant),
                    };
                    self.merger.add(key, closed, &file, tenant, row.row);
                }
            }
        };
        Ok(tail.tail.windows(&mut each)?)
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

fn is_wanted(wanted: Option<&Wanted>, file: &File) -> bool {
    wanted.is_none_or(|wanted| wanted.contains(file.key, file.dev, file.fileid))
}

/// The file of these attributes: a journal repeats the same ones, at the same place, in every window.
fn intern(
    files: &mut HashMap<*const FileAttributes, (Arc<FileAttributes>, Arc<File>)>,
    attributes: &Arc<FileAttributes>,
) -> Arc<File> {
    // Kept, so that no others can take their place.
    let (_, file) = files
        .entry(Arc::as_ptr(attributes))
        .or_insert_with(|| (Arc::clone(attributes), Arc::new(File::from(&**attributes))));
    Arc::clone(file)
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
