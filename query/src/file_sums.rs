//! Reads rows of files, and adds up those that a question selects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use trackiops_schemas::columns::PATH_INFERRED;
use trackiops_schemas::identity::{FileAttributes, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_schemas::time::UtcMs;

use crate::account::{Account, window_of};
use crate::coverage::note::OtherLevels;
use crate::error::QueryError;
use crate::execute::{Job, Recorded, Rows, SumsOf, execute};
use crate::explain::Explain;
use crate::file_groups::{FileRow, Group, GroupKey, Groups};
use crate::file_selector::{FileMatch, FileSelection};
use crate::group::Entity;
use crate::grouping::Grouping;
use crate::interval::Interval;
use crate::origin::{File, HostIndex};
use crate::plan::{Plan, Tail};
use crate::projection::Projection;
use crate::scan::{self, ScanColumns};
use crate::usual_latencies::UsualLatencies;

/// Sums of rows of files.
#[derive(Debug)]
pub(crate) struct Found {
    /// The groups with their sums.
    pub(crate) groups: Groups,
    /// The recorded time.
    pub(crate) recorded: Recorded,
    /// Number of entities without a row, because they were neither read nor written.
    pub(crate) only_metadata: usize,
    /// The levels with rows, if the groups have one level and other levels also have rows.
    pub(crate) other_levels: Option<OtherLevels>,
}

/// Rows of files.
#[derive(Clone, Copy)]
pub(crate) struct FileRows<'p> {
    pub(crate) plan: &'p Plan<'p>,
    /// The files to keep, or all.
    pub(crate) wanted: Option<&'p FileSelection>,
    pub(crate) projection: Projection,
    pub(crate) grouping: &'p Grouping,
    /// Each row is compared with this.
    pub(crate) usual: &'p UsualLatencies,
    pub(crate) explain: &'p Explain,
}

impl FileRows<'_> {
    /// Adds them up. Fails with [`QueryError::TooManyRows`] if any thread has more than `row_limit` groups.
    pub(crate) fn add_up(self, row_limit: Option<usize>) -> Result<Found, QueryError> {
        let (mut groups, recorded) = execute(self.plan, &self, row_limit, self.explain)?;
        let only_metadata = match self.projection.is_of_transfers() {
            true => keep_transfers(&mut groups, self.projection),
            false => 0,
        };
        let other_levels = match self.grouping.by.levels {
            true => None,
            false => keep_one_level(&mut groups),
        };
        Ok(Found {
            groups,
            recorded,
            only_metadata,
            other_levels,
        })
    }
}

impl Rows for FileRows<'_> {
    type Key = GroupKey;
    type Sum = Group;

    fn files(&self) -> Option<&[FileKey]> {
        self.wanted.map(FileSelection::keys)
    }

    /// Rows without a name that are wanted in only a part of their window are unclear.
    fn read(
        &self,
        job: &Job<'_>,
        sums: &mut SumsOf<Self>,
        unclear: &mut BTreeSet<FileKey>,
    ) -> Result<(), QueryError> {
        let Self {
            plan,
            wanted,
            projection,
            grouping,
            usual,
            explain,
        } = *self;
        let columns = ScanColumns {
            projection,
            by: grouping.by,
            by_name: wanted.is_some_and(FileSelection::by_name) || grouping.needs_names(),
            by_tenant: grouping.tenants.needs_tenants() || usual.are_known(),
        };
        let mut tenants = grouping.tenants.chooser();
        let journal = job.journal;
        // Consecutive rows of a segment share one `Arc` of their file.
        let mut last: Option<Placed> = None;
        let each = &mut |time: UtcMs, file: &Arc<File>, tenant: &Arc<Tenant>, row: Row| {
            if !journal.bounds.contains(time) {
                return;
            }
            let same = last.take().filter(|placed| Arc::ptr_eq(&placed.file, file));
            let place = || Placed::new(file, journal.host, grouping, wanted);
            let placed = last.insert(same.unwrap_or_else(place));
            let planned = time.align(journal.granularity);
            let planned = window_of(planned, journal.granularity, journal.extent);
            let is_unclear = !journal.finest_rows.is_empty() && placed.is_unclear(wanted, planned);
            if is_unclear != job.is_finest {
                if is_unclear {
                    unclear.insert(file.key);
                }
            } else if placed.is_wanted(wanted, time.max(journal.extent.start))
                && let Some(tenant) = tenants.choose(file, tenant)
            {
                let key = placed.key(plan.window(time), journal.host, grouping, tenant);
                let closed = window_of(time, job.granularity, journal.extent).end;
                let row = FileRow {
                    age: (closed, job.order),
                    file,
                    tenant,
                    lost: usual.lost(&plan.hosts[journal.host], file, tenant, &row),
                    row,
                };
                sums.add(key, row);
            }
        };
        let ranges = job.ranges.as_deref();
        scan::rollup(job.segment, ranges, journal.bounds, columns, explain, each)
    }

    fn read_tail(
        &self,
        tail: &Tail<'_>,
        account: &mut Account<'_>,
        sums: &mut SumsOf<Self>,
    ) -> Result<(), QueryError> {
        let granularity = tail.tail.granularity();
        // A journal repeats attributes in every window, at the same address. The map holds the `Arc`s, so other
        // attributes cannot reuse an address.
        let mut files: HashMap<_, (Arc<FileAttributes>, Placed)> = HashMap::new();
        let host = tail.host;
        let mut tenants = self.grouping.tenants.chooser();
        tail.tail.windows(&mut |window: ClosedWindow| {
            let closed = window.start.plus(granularity);
            let Some(answer_window) = account.window(tail, window.start, window.health) else {
                return;
            };
            for row in window.rows {
                let (_, placed) = files.entry(Arc::as_ptr(&row.file)).or_insert_with(|| {
                    let mut file = File::from(&*row.file);
                    // As for a segment whose column is not read.
                    if !self.projection.includes(PATH_INFERRED) {
                        file.path_inferred = None;
                    }
                    let file = Arc::new(file);
                    let placed = Placed::new(&file, host, self.grouping, self.wanted);
                    (Arc::clone(&row.file), placed)
                });
                if placed.is_wanted(self.wanted, window.start)
                    && let Some(tenant) = tenants.choose(&placed.file, &row.file.tenant)
                {
                    let row = FileRow {
                        age: (closed, usize::MAX),
                        file: &placed.file,
                        tenant,
                        lost: (self.usual).lost(
                            &self.plan.hosts[host],
                            &placed.file,
                            tenant,
                            &row.row,
                        ),
                        row: row.row,
                    };
                    sums.add(placed.key(answer_window, host, self.grouping, tenant), row);
                }
            }
        })?;
        Ok(())
    }
}

/// Keeps the groups of one level: the first in the order of [`IoLevel::OF_ROWS`] with groups. Returns it with the other
/// levels, if there are any.
fn keep_one_level(groups: &mut Groups) -> Option<OtherLevels> {
    let has = |level: &IoLevel| groups.keys().any(|key| key.level == *level);
    let mut there = IoLevel::OF_ROWS.into_iter().filter(has);
    let shown = there.next()?;
    let others: Vec<_> = there.collect();
    if others.is_empty() {
        return None;
    }
    groups.retain(|key, _| key.level == shown);
    Some(OtherLevels { shown, others })
}

/// Keeps windows with reads or writes, and windows with calls or page cache activity if `of` includes those. Journals
/// and exports always have all columns. Returns the number of entities without such a window.
fn keep_transfers(groups: &mut Groups, of: Projection) -> usize {
    let mut without = HashSet::new();
    groups.retain(|key, group| {
        let sum = &group.sum;
        let is_transfer = sum.is_transfer()
            || of.is_of_calls() && sum.has_calls()
            || of.has_cache() && sum.has_cached();
        if !is_transfer {
            without.insert((key.of.clone(), key.tenant.clone()));
        }
        is_transfer
    });
    if !without.is_empty() {
        for key in groups.keys() {
            without.remove(&(key.of.clone(), key.tenant.clone()));
        }
    }
    without.len()
}

/// A file, and how the query uses its rows.
struct Placed {
    file: Arc<File>,
    /// The entity that they belong to.
    of: Entity,
    /// Whether the query keeps them.
    is_match: FileMatch,
}

impl Placed {
    fn new(
        file: &Arc<File>,
        host: HostIndex,
        grouping: &Grouping,
        wanted: Option<&FileSelection>,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            of: grouping.of(host, file),
            is_match: match (grouping.is_selected(file), wanted) {
                (false, _) => FileMatch::None,
                (true, None) => FileMatch::All,
                (true, Some(wanted)) => wanted.match_of(file),
            },
        }
    }

    /// The group of a row.
    fn key(
        &self,
        window: UtcMs,
        host: HostIndex,
        grouping: &Grouping,
        tenant: &Arc<Tenant>,
    ) -> GroupKey {
        GroupKey {
            window,
            host,
            of: self.of.clone(),
            tenant: grouping.by.tenant(tenant),
            level: self.file.level,
        }
    }

    /// Whether a row of the file is wanted in only a part of the window.
    fn is_unclear(&self, wanted: Option<&FileSelection>, window: Interval) -> bool {
        self.is_match == FileMatch::Depends
            && wanted.is_some_and(|wanted| wanted.changes(window, self.file.key))
    }

    fn is_wanted(&self, wanted: Option<&FileSelection>, time: UtcMs) -> bool {
        match self.is_match {
            FileMatch::All => true,
            FileMatch::None => false,
            FileMatch::Depends => wanted.is_some_and(|wanted| wanted.holds(time, self.file.key)),
        }
    }
}
