//! The lost time of rows: the range of a question is compared with the time before it.
//!
//! Files and tenants are compared one by one, and rows are sums of them. Where larger requests begin on a mount, its mean latency rises, but no
//! request takes longer than before.

use std::collections::HashMap;

use trackiops_schemas::columns::{DIRECTIONS, MOUNT, PATH};
use trackiops_schemas::level::IoLevel;
use trackiops_store::{Dataset, Snapshot};

use crate::aggregation::GroupKey;
use crate::coverage::Interval;
use crate::error::QueryError;
use crate::execute::execute;
use crate::file_selector::FileSelection;
use crate::group::{Entity, GroupBy, Grouping, Level, TenantKey};
use crate::lost::{Lost, begin_before};
use crate::origin::HostIndex;
use crate::plan::{asked, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE};
use crate::step::Step;

/// A shorter time before a range shows nothing, ms.
const TOO_SHORT_MS: u64 = 10_000;

/// A row of an answer about the whole range.
type Place = (HostIndex, Entity, Option<TenantKey>, IoLevel);

/// Lost time by row.
#[derive(Debug, Default)]
pub(crate) struct LostTimes(HashMap<Place, Lost>);

impl LostTimes {
    /// Reads the range and the time before it, both for each file and tenant. `grouping` makes the rows of the answer.
    pub(crate) fn ask(
        snapshot: &Snapshot,
        span: Interval,
        question: &Question,
        wanted: Option<&FileSelection>,
        grouping: &Grouping,
    ) -> Result<Self, QueryError> {
        let range = asked(span, question);
        let before = before(range, span);
        if before.ms() < TOO_SHORT_MS {
            return Ok(Self::default());
        }
        let by = GroupBy {
            level: Level::File,
            tenants: true,
            levels: true,
            ..question.by
        };
        let by_file = Question {
            by,
            ..question.clone()
        };
        let uses = Grouping::new(snapshot, &by_file)?;
        let groups = |range: Interval, wanted: Option<&FileSelection>| {
            let question = Question {
                range: Range {
                    since: Some(range.start),
                    until: Some(range.end),
                },
                ..by_file.clone()
            };
            let plan = plan(snapshot, Dataset::Rollup, span, &question, Some(Step::All))?;
            let needs = needs(grouping.by);
            let found = execute(&plan, wanted, needs, &uses, None, &question.explain)?;
            Ok::<_, QueryError>(found.groups)
        };
        let now = groups(range, wanted)?;
        // The same files, whatever their names were.
        let files = FileSelection::of(now.values().map(|group| group.file.key));
        let before = groups(before, Some(&files))?;
        let before: HashMap<_, _> = before
            .iter()
            .map(|(key, group)| (place(key), group))
            .collect();
        let mut times = Self::default();
        for (key, group) in &now {
            let Some(was) = before.get(&place(key)) else {
                continue;
            };
            let lost = Lost::of(&was.sum.row(), &group.sum.row());
            let row = (
                key.host,
                grouping.of(key.host, &group.file),
                grouping.by.tenant(&group.tenant),
                key.level,
            );
            let sum = times.0.entry(row).or_default();
            sum.add(of_asked(lost, &question.ops));
        }
        Ok(times)
    }

    /// The lost time of a row.
    pub(crate) fn of(&self, key: &GroupKey) -> Lost {
        self.0.get(&place(key)).copied().unwrap_or_default()
    }
}

fn place(key: &GroupKey) -> Place {
    (key.host, key.of.clone(), key.tenant.clone(), key.level)
}

/// The recorded time before a range that it is compared with.
fn before(range: Interval, span: Interval) -> Interval {
    Interval::new(begin_before(range), range.start).intersect(span)
}

/// Stored columns that the comparison and the grouping of its files need.
fn needs(by: GroupBy) -> Projection {
    let counters = ["requests", "untimed", "latency_us_sum"];
    let sums = DIRECTIONS
        .iter()
        .flat_map(|of| counters.map(|name| format!("{of}_{name}")));
    let sums: Vec<_> = sums.collect();
    let names: &[&str] = match by.needs_names() {
        true => &[MOUNT, PATH],
        false => &[],
    };
    let columns = sums.iter().map(String::as_str).chain(names.iter().copied());
    Projection::new(columns).only_transfers(true)
}

/// The lost time of the directions that a question selects.
fn of_asked(lost: Lost, ops: &[String]) -> Lost {
    let is_asked = |op: &str| ops.is_empty() || ops.iter().any(|asked| asked == op);
    Lost {
        read_ns: lost.read_ns.filter(|_| is_asked(READ)),
        write_ns: lost.write_ns.filter(|_| is_asked(WRITE)),
    }
}
