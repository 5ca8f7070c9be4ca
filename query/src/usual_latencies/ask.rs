//! Reads the time before a range.

use trackiops_schemas::columns::DIRECTIONS;
use trackiops_store::{Dataset, Snapshot};

use super::UsualLatencies;
use crate::coverage::Interval;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::execute::execute;
use crate::file_selector::FileSelection;
use crate::group::{GroupBy, Grouping, Level};
use crate::lost::{Usual, begin_before};
use crate::plan::{asked, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE};
use crate::step::Step;

/// A shorter time before a range shows nothing, ms.
const TOO_SHORT_MS: u64 = 10_000;
/// Most pairs of a file and a tenant, as [`Question::row_limit`]. They take about 100 MiB for each thread.
const MOST_USES: usize = 1 << 18;

impl UsualLatencies {
    /// Reads the time before the range of a question, for the `wanted` files or all.
    pub(crate) fn ask(
        snapshot: &Snapshot,
        span: Interval,
        question: &Question,
        wanted: Option<&FileSelection>,
    ) -> Result<Self, QueryError> {
        let before = before(asked(span, question), span);
        if before.ms() < TOO_SHORT_MS {
            return Ok(Self::default());
        }
        let by = GroupBy {
            level: Level::File,
            tenants: true,
            levels: true,
            ..question.by
        };
        let earlier = Question {
            by,
            range: Range {
                since: Some(before.start),
                until: Some(before.end),
            },
            ..question.clone()
        };
        let grouping = Grouping::new(snapshot, &earlier)?;
        let plan = plan(snapshot, Dataset::Rollup, span, &earlier, Some(Step::All))?;
        // The same files, whatever their names were.
        let wanted = wanted.map(|wanted| FileSelection::of(wanted.keys().iter().copied()));
        let most = question.row_limit.unwrap_or(MOST_USES).min(MOST_USES);
        let found = execute(
            &plan,
            wanted.as_ref(),
            needs(),
            &grouping,
            &Self::default(),
            Some(most),
            &question.explain,
        );
        let groups = match found {
            Ok(found) => found.groups,
            Err(QueryError::TooManyRows) => {
                return Ok(Self {
                    exceeded: Some(most),
                    ..Self::default()
                });
            }
            Err(error) => return Err(error),
        };
        let of = groups.into_iter().filter_map(|(key, group)| {
            let usual = Usual::of(&group.sum.read(), &group.sum.write());
            let usual = of_asked(usual, &question.ops);
            let of = (key.host, group.file.key, key.tenant, key.level);
            (usual != Usual::default()).then_some((of, usual))
        });
        Ok(Self {
            by,
            of: of.collect(),
            exceeded: None,
        })
    }

    /// Why lost time is unknown, if there is too much to compare with.
    pub(crate) fn note(&self) -> Option<Note> {
        let most = self.exceeded?;
        Some(Note::LostTimeUnknown { most })
    }
}

/// The recorded time before a range that it is compared with.
fn before(range: Interval, span: Interval) -> Interval {
    Interval::new(begin_before(range), range.start).intersect(span)
}

/// Stored columns that means need.
fn needs() -> Projection {
    let counters = ["requests", "untimed", "latency_us_sum"];
    let sums = DIRECTIONS
        .iter()
        .flat_map(|of| counters.map(|name| format!("{of}_{name}")));
    let sums: Vec<_> = sums.collect();
    Projection::new(sums.iter().map(String::as_str)).only_transfers(true)
}

/// The usual latencies of the directions that a question selects.
fn of_asked(usual: Usual, ops: &[String]) -> Usual {
    let is_asked = |op: &str| ops.is_empty() || ops.iter().any(|asked| asked == op);
    Usual {
        read_ns: usual.read_ns.filter(|_| is_asked(READ)),
        write_ns: usual.write_ns.filter(|_| is_asked(WRITE)),
    }
}
