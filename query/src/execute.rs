//! Executes a plan: reads its segments and journals, and adds up their rows. It does not know what rows are: see [`Rows`].

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::time::Granularity;
use trackiops_store::Segment;

use crate::account::Account;
use crate::aggregation::{Aggregator, Sum, Sums};
use crate::answer::Answer;
use crate::coverage::note::Note;
use crate::coverage::recorded_time::{HostTimes, RecordedTime};
use crate::coverage::{Coverage, Losses};
use crate::error::QueryError;
use crate::explain::{Explain, Stage};
use crate::interval::Interval;
use crate::needed_notes::notes;
use crate::parallel::share_out;
use crate::plan::{Journal, Plan, Tail};
use crate::question::Question;

/// Rows of a dataset: how to read them, and how they add up.
pub(crate) trait Rows: Sync {
    /// The values that the rows of one sum have in common.
    type Key: Eq + Hash + Send;
    /// A sum of rows.
    type Sum: Sum + Send;

    /// Files whose rows are needed; `None` needs all rows.
    fn files(&self) -> Option<&[FileKey]> {
        None
    }

    /// Adds rows of a segment. Skips rows that only the finest granularity can decide on, and adds their files to
    /// `unclear`.
    fn read(
        &self,
        job: &Job<'_>,
        sums: &mut SumsOf<Self>,
        unclear: &mut BTreeSet<FileKey>,
    ) -> Result<(), QueryError>;

    /// Adds rows of a journal that is not sealed, and accounts for its windows.
    fn read_tail(
        &self,
        tail: &Tail<'_>,
        account: &mut Account<'_>,
        sums: &mut SumsOf<Self>,
    ) -> Result<(), QueryError>;
}

/// Adds up rows of one kind.
pub(crate) type SumsOf<R> = Aggregator<<R as Rows>::Key, <R as Rows>::Sum>;

/// The sums of a plan's rows, and its recorded time.
pub(crate) type Executed<R> = (Sums<<R as Rows>::Key, <R as Rows>::Sum>, Recorded);

/// A segment to read.
pub(crate) struct Job<'p> {
    /// Index of its journal in the plan.
    place: usize,
    pub(crate) journal: &'p Journal,
    pub(crate) segment: &'p Segment,
    pub(crate) granularity: Granularity,
    /// Rows of the needed files; `None` reads all rows.
    pub(crate) ranges: Option<Vec<Range<u64>>>,
    /// Position among all segments that are read.
    pub(crate) order: usize,
    /// Whether it is of the finest granularity, for files that were unclear.
    pub(crate) is_finest: bool,
}

impl Job<'_> {
    fn rows(&self) -> u64 {
        match &self.ranges {
            None => self.segment.rows,
            Some(ranges) => ranges.iter().map(|range| range.end - range.start).sum(),
        }
    }
}

/// The recorded time within the range of a plan.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Recorded time of each window of the answer, by host.
    pub(crate) covered: RecordedTime,
    /// Coverage of each host, and the time of all of its data.
    pub(crate) hosts: Vec<(Coverage, Option<Interval>)>,
}

impl Recorded {
    /// The answer with these rows. Adds notes about the range and its recorded time, and about `folded` requests.
    pub(crate) fn answer<R>(
        self,
        plan: &Plan<'_>,
        question: &Question,
        rows: Vec<R>,
        told: Vec<Note>,
        folded: Option<Losses>,
    ) -> Answer<R> {
        let Self { covered, hosts } = self;
        Answer {
            notes: notes(told, hosts, plan, question, rows.is_empty(), folded),
            rows,
            step: plan.step,
            by: question.by,
            range: plan.asked,
            recorded: Arc::new(HostTimes::new(&plan.hosts, covered)),
        }
    }
}

/// Executes a plan in stages: reads the rows of segments, finds the recorded time of their journals, and reads tails.
///
/// Fails with [`QueryError::TooManyRows`] if any thread has more than `row_limit` sums.
pub(crate) fn execute<R: Rows>(
    plan: &Plan<'_>,
    rows: &R,
    row_limit: Option<usize>,
    explain: &Explain,
) -> Result<Executed<R>, QueryError> {
    let run = Run {
        plan,
        rows,
        row_limit,
        explain,
    };
    let mut account = Account::new(plan, explain);
    let mut sums = explain.time(Stage::Read, || run.segments())?;
    explain.time(Stage::Coverage, || {
        let mut journals = plan.journals.iter();
        journals.try_for_each(|journal| account.journal(journal))
    })?;
    explain.time(Stage::Journals, || {
        plan.tails.iter().try_for_each(|tail| {
            rows.read_tail(tail, &mut account, &mut sums)?;
            sums.check()
        })
    })?;
    let (covered, hosts) = account.finish();
    Ok((sums.finish(), Recorded { covered, hosts }))
}

/// By index of a journal in the plan: files that need its finest granularity.
type Unclear = BTreeMap<usize, BTreeSet<FileKey>>;

/// A running execution.
struct Run<'p, R> {
    plan: &'p Plan<'p>,
    rows: &'p R,
    row_limit: Option<usize>,
    explain: &'p Explain,
}

impl<'p, R: Rows> Run<'p, R> {
    fn segments(&self) -> Result<SumsOf<R>, QueryError> {
        let mut sums = Aggregator::new(self.row_limit);
        let mut jobs = Vec::new();
        for place in 0..self.plan.journals.len() {
            self.add_jobs(&mut jobs, place, self.rows.files(), false);
        }
        let unclear = self.add(&mut sums, &jobs)?;
        let mut again = Vec::new();
        for (place, files) in unclear {
            let files: Vec<_> = files.into_iter().collect();
            self.add_jobs(&mut again, place, Some(&files), true);
        }
        self.add(&mut sums, &again)?;
        Ok(sums)
    }

    fn add_jobs(
        &self,
        jobs: &mut Vec<Job<'p>>,
        place: usize,
        files: Option<&[FileKey]>,
        is_finest: bool,
    ) {
        let journal = &self.plan.journals[place];
        let (segments, granularity) = match is_finest {
            true => (&journal.finest_rows, journal.finest),
            false => (&journal.rows, journal.granularity),
        };
        for segment in segments {
            let ranges = files.map(|files| segment.files.unpack().rows_of(files));
            if ranges.as_ref().is_some_and(Vec::is_empty) {
                self.explain.without_files();
                continue;
            }
            jobs.push(Job {
                place,
                journal,
                segment,
                granularity,
                ranges,
                order: jobs.len(),
                is_finest,
            });
        }
    }

    /// Adds the rows of segments. Returns the files that need the finest granularity.
    fn add(&self, sums: &mut SumsOf<R>, jobs: &[Job<'_>]) -> Result<Unclear, QueryError> {
        let rows = jobs.iter().map(Job::rows).sum();
        self.explain.expect(rows);
        let empty = || (Aggregator::new(self.row_limit), Unclear::new());
        let read = |(sums, unclear): &mut (SumsOf<R>, Unclear), job: &Job<'_>| {
            let mut files = BTreeSet::new();
            self.rows.read(job, sums, &mut files)?;
            if !files.is_empty() {
                unclear.entry(job.place).or_default().append(&mut files);
            }
            sums.check()
        };
        let mut unclear = Unclear::new();
        for (share, of_share) in share_out(jobs, rows, empty, read)? {
            sums.absorb(share);
            sums.check()?;
            for (place, files) in of_share {
                unclear.entry(place).or_default().extend(files);
            }
        }
        Ok(unclear)
    }
}
