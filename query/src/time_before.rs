//! Reads the time before a range.

use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::columns::DIRECTIONS;
use trackiops_store::{Dataset, Snapshot};

use crate::ask::recorded;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::file_selector::FileSelection;
use crate::file_sums::FileRows;
use crate::group::{GroupBy, Level};
use crate::grouping::Grouping;
use crate::interval::Interval;
use crate::lost::{Usual, begin_before};
use crate::plan::{asked, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE};
use crate::step::Step;
use crate::usual_latencies::UsualLatencies;

/// A shorter time before a range shows nothing, ms.
const TOO_SHORT_MS: u64 = 10_000;
/// Most pairs of a file and a tenant, as [`Question::row_limit`]. They take about 100 MiB for each thread.
const MOST_USES: usize = 1 << 18;

/// Reads what is usual before the range of a question, for all files. Later questions take it as [`Question::usual`].
pub fn ask_usual_latencies(question: &Question) -> Result<Arc<UsualLatencies>, QueryError> {
    let ask = |snapshot: &Snapshot| match recorded(snapshot, question) {
        Ok(span) => UsualLatencies::read(snapshot, span, question, None).map(Arc::new),
        Err(_) => Ok(Arc::default()),
    };
    match &question.view {
        Some(view) => ask(view),
        None => ask(&Snapshot::open_all(
            question.stores.iter().map(PathBuf::as_path),
        )?),
    }
}

impl UsualLatencies {
    /// What is usual for a question, for the `wanted` files or all: it comes with the question, or is read.
    pub(crate) fn ask(
        snapshot: &Snapshot,
        span: Interval,
        question: &Question,
        wanted: Option<&FileSelection>,
    ) -> Result<Arc<Self>, QueryError> {
        match &question.usual {
            Some(usual) => Ok(Arc::clone(usual)),
            None => Self::read(snapshot, span, question, wanted).map(Arc::new),
        }
    }

    /// Reads the time before the range of a question.
    fn read(
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
        let rows = FileRows {
            plan: &plan,
            wanted: wanted.as_ref(),
            projection: needs(),
            grouping: &grouping,
            usual: &Self::default(),
            explain: &question.explain,
        };
        let groups = match rows.add_up(Some(most)) {
            Ok(found) => found.groups,
            Err(QueryError::TooManyRows) => {
                return Ok(Self {
                    exceeded: Some(most),
                    ..Self::default()
                });
            }
            Err(error) => return Err(error),
        };
        let mut usual = Self {
            by,
            ..Self::default()
        };
        for (key, group) in groups {
            let of_use = Usual::of(&group.sum.read(), &group.sum.write());
            let of_use = of_asked(of_use, &question.ops);
            if of_use == Usual::default() {
                continue;
            }
            let host = plan.hosts[key.host].clone();
            let of = (group.file.key, key.tenant, key.level);
            usual.of.entry(host).or_default().insert(of, of_use);
        }
        Ok(usual)
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
