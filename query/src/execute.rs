//! Executes a plan: reads its segments and journals, and adds up their rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use trackiops_schemas::columns::PATH_INFERRED;
use trackiops_schemas::identity::{FileAttributes, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Segment;

use crate::aggregation::{Aggregator, GroupKey, Groups};
use crate::coverage::account::{Account, window_of};
use crate::coverage::recorded_time::RecordedTime;
use crate::coverage::{Coverage, Interval};
use crate::error::QueryError;
use crate::explain::{Explain, Stage};
use crate::file_selector::{FileMatch, FileSelection};
use crate::group::{Entity, Grouping};
use crate::origin::{File, HostIndex};
use crate::parallel::share_out;
use crate::plan::{Journal, Plan, Tail};
use crate::projection::Projection;
use crate::scan::{self, ScanColumns};
use crate::usual_latencies::UsualLatencies;

/// The recorded time within the range of a plan.
#[derive(Debug)]
pub struct Recorded {
    /// Recorded time of each window of the answer, by host.
    pub covered: RecordedTime,
    /// Coverage of each host, and the time of all of its data.
    pub hosts: Vec<(Coverage, Option<Interval>)>,
}

/// Result of a plan.
#[derive(Debug)]
pub struct Found {
    /// The groups with their sums.
    pub groups: Groups,
    /// The recorded time.
    pub recorded: Recorded,
    /// Number of entities without a row, because they were neither read nor written.
    pub only_metadata: usize,
    /// The levels with rows, if the groups have one level and other levels also have rows.
    pub other_levels: Option<OtherLevels>,
}

/// Levels with rows in the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLevels {
    /// The level of the answer.
    pub shown: IoLevel,
    /// The other levels.
    pub others: Vec<IoLevel>,
}

/// Executes a plan in stages: reads the rows of segments, finds the recorded time of their journals, and reads tails.
/// Rows are added to `sums`.
pub(crate) fn in_stages<'p, S>(
    plan: &'p Plan<'p>,
    explain: &'p Explain,
    sums: &mut S,
    segments: impl FnOnce(&mut S) -> Result<(), QueryError>,
    tail: impl Fn(&mut S, &mut Account<'p>, &Tail<'p>) -> Result<(), QueryError>,
) -> Result<Recorded, QueryError> {
    let mut account = Account::new(plan, explain);
    explain.time(Stage::Read, || segments(sums))?;
    explain.time(Stage::Coverage, || {
        let mut journals = plan.journals.iter();
        journals.try_for_each(|journal| account.journal(journal))
    })?;
    explain.time(Stage::Journals, || {
        let mut tails = plan.tails.iter();
        tails.try_for_each(|one| tail(sums, &mut account, one))
    })?;
    let (covered, hosts) = account.finish();
    Ok(Recorded { covered, hosts })
}

/// Executes a plan for rows of files. Keeps the `wanted` files, or all, and adds up rows by `grouping`. Compares each row
/// with what is `usual`.
///
/// Fails with [`QueryError::TooManyRows`] if any thread has more than `row_limit` rows.
pub(crate) fn execute(
    plan: &Plan<'_>,
    wanted: Option<&FileSelection>,
    projection: Projection,
    grouping: &Grouping,
    usual: &UsualLatencies,
    row_limit: Option<usize>,
    explain: &Explain,
) -> Result<Found, QueryError> {
    let mut run = Run {
        plan,
        wanted,
        projection,
        grouping,
        usual,
        row_limit: row_limit.unwrap_or(usize::MAX),
        explain,
        aggregator: Aggregator::default(),
    };
    let recorded = in_stages(plan, explain, &mut run, Run::rollups, Run::tail)?;
    let mut groups = run.aggregator.finish();
    let only_metadata = match projection.is_of_transfers() {
        true => keep_transfers(&mut groups, projection),
        false => 0,
    };
    let other_levels = match grouping.by.levels {
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

/// A running execution.
struct Run<'p> {
    plan: &'p Plan<'p>,
    wanted: Option<&'p FileSelection>,
    projection: Projection,
    grouping: &'p Grouping,
    usual: &'p UsualLatencies,
    row_limit: usize,
    explain: &'p Explain,
    aggregator: Aggregator,
}

/// A segment to read.
struct Job<'p> {
    /// Index of its journal in the plan.
    place: usize,
    journal: &'p Journal,
    segment: &'p Segment,
    granularity: Granularity,
    /// Rows of the wanted files; `None` reads all rows.
    ranges: Option<Vec<Range<u64>>>,
    /// Position among all segments that are read.
    order: usize,
}

impl Job<'_> {
    fn rows(&self) -> u64 {
        match &self.ranges {
            None => self.segment.rows,
            Some(ranges) => ranges.iter().map(|range| range.end - range.start).sum(),
        }
    }
}

/// Results of one thread.
#[derive(Default)]
struct Share {
    aggregator: Aggregator,
    unclear: Unclear,
}

/// By index of a journal in the plan: files whose rows are wanted in only a part of a window.
type Unclear = BTreeMap<usize, BTreeSet<FileKey>>;

impl<'p> Run<'p> {
    fn rollups(&mut self) -> Result<(), QueryError> {
        let keys = self.wanted.map(FileSelection::keys);
        let mut jobs = Vec::new();
        for (place, journal) in self.plan.journals.iter().enumerate() {
            let (rows, granularity) = (&journal.rows, journal.granularity);
            self.add_jobs(&mut jobs, place, rows, granularity, keys);
        }
        let unclear = self.rows(&jobs, false)?;
        let mut again = Vec::new();
        for (place, keys) in unclear {
            let journal = &self.plan.journals[place];
            let keys: Vec<_> = keys.into_iter().collect();
            let (rows, granularity) = (&journal.finest_rows, journal.finest);
            self.add_jobs(&mut again, place, rows, granularity, Some(&keys));
        }
        self.rows(&again, true)?;
        Ok(())
    }

    fn add_jobs(
        &self,
        jobs: &mut Vec<Job<'p>>,
        place: usize,
        segments: &'p [Segment],
        granularity: Granularity,
        keys: Option<&[FileKey]>,
    ) {
        for segment in segments {
            let ranges = keys.map(|keys| segment.files.unpack().rows_of(keys));
            if ranges.as_ref().is_some_and(Vec::is_empty) {
                self.explain.without_files();
                continue;
            }
            jobs.push(Job {
                place,
                journal: &self.plan.journals[place],
                segment,
                granularity,
                ranges,
                order: jobs.len(),
            });
        }
    }

    /// Adds the rows of segments. Skips rows without a name that are wanted in only a part of their window, and returns
    /// their files. A second call, with `again`, adds these rows from the finest granularity.
    fn rows(&mut self, jobs: &[Job<'_>], again: bool) -> Result<Unclear, QueryError> {
        let rows = jobs.iter().map(Job::rows).sum();
        self.explain.expect(rows);
        let run = &*self;
        let read = |share: &mut Share, job: &Job<'_>| run.segment(share, job, again);
        let shares = share_out(jobs, rows, read)?;
        let mut unclear = Unclear::new();
        for share in shares {
            self.aggregator.absorb(share.aggregator);
            self.check_rows(&self.aggregator)?;
            for (place, keys) in share.unclear {
                unclear.entry(place).or_default().extend(keys);
            }
        }
        Ok(unclear)
    }

    /// Fails if there are too many rows.
    fn check_rows(&self, aggregator: &Aggregator) -> Result<(), QueryError> {
        match aggregator.len() > self.row_limit {
            true => Err(QueryError::TooManyRows),
            false => Ok(()),
        }
    }

    fn segment(&self, share: &mut Share, job: &Job<'_>, again: bool) -> Result<(), QueryError> {
        let Self {
            plan,
            wanted,
            projection,
            grouping,
            usual,
            ..
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
            if !journal.bounds.contains(time) || share.aggregator.len() > self.row_limit {
                return;
            }
            let same = last.take().filter(|placed| Arc::ptr_eq(&placed.file, file));
            let place = || Placed::new(file, journal.host, grouping, wanted);
            let placed = last.insert(same.unwrap_or_else(place));
            let planned = time.align(journal.granularity);
            let planned = window_of(planned, journal.granularity, journal.extent);
            let is_unclear = !journal.finest_rows.is_empty() && placed.is_unclear(wanted, planned);
            if is_unclear != again {
                if is_unclear {
                    share.unclear.entry(job.place).or_default().insert(file.key);
                }
            } else if placed.is_wanted(wanted, time.max(journal.extent.start))
                && let Some(tenant) = tenants.choose(file, tenant)
            {
                let key = GroupKey {
                    window: plan.window(time),
                    host: journal.host,
                    of: placed.of.clone(),
                    tenant: grouping.by.tenant(tenant),
                    level: file.level,
                };
                let closed = window_of(time, job.granularity, journal.extent).end;
                let age = (closed, job.order);
                let lost = usual.lost(&plan.hosts[journal.host], file, tenant, &row);
                share.aggregator.add(key, age, file, tenant, row, lost);
            }
        };
        let ranges = job.ranges.as_deref();
        let bounds = journal.bounds;
        scan::rollup(job.segment, ranges, bounds, columns, self.explain, each)?;
        self.check_rows(&share.aggregator)
    }

    fn tail(&mut self, account: &mut Account<'p>, tail: &Tail<'_>) -> Result<(), QueryError> {
        let granularity = tail.tail.granularity();
        // A journal repeats attributes in every window, at the same address. The map holds the `Arc`s, so other
        // attributes cannot reuse an address.
        let mut files: HashMap<_, (Arc<FileAttributes>, Placed)> = HashMap::new();
        let host = tail.host;
        let mut tenants = self.grouping.tenants.chooser();
        let mut each = |window: ClosedWindow| {
            let closed = window.start.plus(granularity);
            let Some(answer_window) = account.window(tail, window.start, window.health) else {
                return;
            };
            for row in window.rows {
                if self.aggregator.len() > self.row_limit {
                    return;
                }
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
                    let key = GroupKey {
                        window: answer_window,
                        host,
                        of: placed.of.clone(),
                        tenant: self.grouping.by.tenant(tenant),
                        level: placed.file.level,
                    };
                    let age = (closed, usize::MAX);
                    let (file, row) = (&placed.file, row.row);
                    let of_host = &self.plan.hosts[host];
                    let lost = self.usual.lost(of_host, file, tenant, &row);
                    self.aggregator.add(key, age, file, tenant, row, lost);
                }
            }
        };
        tail.tail.windows(&mut each)?;
        self.check_rows(&self.aggregator)
    }
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
